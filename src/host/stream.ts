// One generation on its way to one client, word by word: a step of the host's pacer that schedules itself again.
// Called by routes.ts. It stops at once when the reply is done, and rests while the client's socket is full.
import type { Pacer, Step } from './pacing.ts';
import type { Reply } from './reply.ts';
import type { Frames, Generation } from './wire/wire.ts';

/** Streams a generation: the first token after its time to first token, the rest at its pace. */
export class Stream implements Step {
  dueMs: number;
  readonly #generation: Generation;
  readonly #frames: Frames;
  readonly #reply: Reply;
  readonly #pacer: Pacer;
  #next = 0;
  #opened = false;

  constructor(generation: Generation, frames: Frames, reply: Reply, pacer: Pacer) {
    this.#generation = generation;
    this.#frames = frames;
    this.#reply = reply;
    this.#pacer = pacer;
    this.dueMs = pacer.now() + generation.timeToFirstTokenMs;
  }

  /** Begins: within this call when the time to first token is 0. */
  start(): void {
    if (this.#generation.timeToFirstTokenMs === 0) this.run();
    else this.#pacer.schedule(this);
  }

  /** A stream whose reply is done is dropped by the pacer. */
  get cancelled(): boolean {
    return this.#reply.done;
  }

  /** Sends what is due: one token, or as many as the socket takes when there is no time between tokens. */
  run(): void {
    const reply = this.#reply;
    const { pieces, interTokenMs } = this.#generation;
    if (!this.#opened) this.#open();
    do {
      if (this.#next < pieces.length) reply.event(this.#frames.token(pieces[this.#next]!, this.#next), this.#frames);
      this.#next++;
    } while (interTokenMs === 0 && this.#next < pieces.length && !reply.done && !reply.full);
    if (reply.done) return;
    if (this.#next >= pieces.length) return this.#close();
    reply.flush();
    if (reply.full) reply.onDrain(() => this.#again());
    else this.#again();
  }

  #open(): void {
    this.#opened = true;
    this.#reply.open();
    for (const frame of this.#frames.opening()) this.#reply.event(frame, this.#frames);
  }

  #again(): void {
    // From the due time and not from now: a late timer must not slow the stream. Never in the past: a stream that
    // fell behind goes on at its pace instead of catching up in a burst.
    this.dueMs = Math.max(this.dueMs + this.#generation.interTokenMs, this.#pacer.now());
    this.#pacer.schedule(this);
  }

  #close(): void {
    const closing = this.#frames.closing();
    const last = closing.pop();
    for (const frame of closing) this.#reply.event(frame, this.#frames);
    if (last !== undefined) this.#reply.lastEvent(last, this.#frames);
    this.#reply.end();
  }
}
