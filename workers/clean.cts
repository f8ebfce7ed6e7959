// Entry of a cleaning thread. Piscina loads it by `require`: a thread that is ended while that instantiates a graph of ES modules aborts
// the process. By `import` nothing is lost.

import type { CleanTask } from '../src/fetch/index.ts' with { 'resolution-mode': 'import' };
import type * as Pages from './clean-page.ts' with { 'resolution-mode': 'import' };

const pages: Promise<typeof Pages> = load();

/** Proxied requests go before pages, from the start of the thread on. */
async function load(): Promise<typeof Pages> {
  const { lowerPriority } = await import('../src/actor/thread-priority.ts');
  lowerPriority();
  return import('./clean-page.ts');
}

exports.readPage = async ({ begun, ...job }: CleanTask) => {
  const { readPage } = await pages;
  Atomics.store(begun, 0, 1);
  return readPage(job);
};
/** Resolves once the thread has started. */
exports.ready = async () => (await pages).ready();
