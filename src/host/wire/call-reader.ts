// Tool calls out of text that arrives in pieces: grammar/tool-calls.ts makes the model write one JSON object a line, and
// this tells as early as possible which tool is called and how its arguments go on. One reader serves one generation.

/** Takes what a reader finds. */
export interface CallSink {
  /** A call of this tool begins. */
  begin(name: string): void;
  /** Its arguments go on: JSON text. */
  more(text: string): void;
}

const HEAD = /^\{"name":("(?:[^"\\]|\\.)*"),"arguments":/;

export class CallReader {
  readonly #sink: CallSink;
  #held = '';
  #inside = false;

  constructor(sink: CallSink) {
    this.#sink = sink;
  }

  push(text: string): void {
    this.#held += text;
    // Strings in JSON hold no line breaks, so one always separates two calls.
    for (let end = this.#held.indexOf('\n'); end !== -1; end = this.#held.indexOf('\n')) {
      const rest = this.#held.slice(end + 1);
      this.#held = this.#held.slice(0, end);
      this.end(true);
      this.#held = rest;
    }
    this.#advance();
  }

  /** The text has ended; a call that was cut off keeps all of its arguments. */
  end(isWhole: boolean): void {
    this.#advance();
    const last = isWhole ? this.#held.slice(0, -1) : this.#held;
    if (this.#inside && last !== '') this.#sink.more(last);
    this.#held = '';
    this.#inside = false;
  }

  #advance(): void {
    if (!this.#inside) {
      const head = HEAD.exec(this.#held);
      if (head === null) return;
      this.#inside = true;
      this.#held = this.#held.slice(head[0].length);
      this.#sink.begin(JSON.parse(head[1]!) as string);
    }
    // The last character may be the brace that closes the call and not its arguments.
    if (this.#held.length < 2) return;
    this.#sink.more(this.#held.slice(0, -1));
    this.#held = this.#held.slice(-1);
  }
}
