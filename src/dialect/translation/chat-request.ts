// What translated requests have in common: the body for the server, which is written again where its memory was given back.

import { bodyTape } from '../body-scan.ts';
import { JsonWriter, type WrittenText } from './json-writer.ts';
import type { AnswerTranslator, TranslatedRequest } from './translation.ts';

export abstract class ChatRequest implements TranslatedRequest {
  readonly room = JsonWriter.ROOM;
  readonly #own: Buffer;
  readonly #write: () => WrittenText;
  #body: WrittenText | null;

  /**
   * Throws what `write` throws, and what `JsonTape.read` does.
   * @param own the body in the dialect of the client
   * @param write writes the body for the server from the values in `bodyTape`, in memory of `JsonWriter.take`
   */
  constructor(own: Buffer, write: () => WrittenText) {
    this.#own = own;
    this.#write = write;
    this.#body = this.#written();
  }

  get body(): Buffer {
    return (this.#body ??= this.#written()).text;
  }

  giveBack(): void {
    if (this.#body !== null) JsonWriter.give(this.#body);
    this.#body = null;
  }

  abstract answer(): AnswerTranslator;

  #written(): WrittenText {
    bodyTape.read(this.#own);
    try {
      return this.#write();
    } finally {
      bodyTape.release();
    }
  }
}
