// Small messages wait for the end of their turn, as under load, until many turns have had few.

import { writeBatch } from '../../src/net/write-batch.ts';

/** Resolves when the thread collects what it writes. */
export async function startBatching(): Promise<void> {
  while (!writeBatch.collects()) {
    for (let message = 0; message < 100; message++) writeBatch.collects();
    await new Promise((resolve) => void setImmediate(resolve));
  }
}
