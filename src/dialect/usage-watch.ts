// Looks on while an answer passes, and says in the end how many tokens it took: the CRN's own count when it came, else an
// estimate from what was delivered. Held by upstream/relay for the time of one answer. Bytes pass untouched, but for
// the one event that the gateway itself asked for (see usage-request.ts).
import { chatCompletions } from './chat-completions.ts';
import type { Dialect, Usage } from './dialect.ts';
import { skipSpace } from './members.ts';
import { beginsInError } from './stream-end.ts';
import { usageOfAnswer, usageOfStream } from './usage.ts';

/** Most of a JSON answer that is kept to be read in the end; of longer ones, the last bytes. */
const KEPT_BYTES = 1024 * 1024;
const LAST_BYTES = 64 * 1024;

/** The first event of the messages dialect has the prompt's count. */
const HEAD_BYTES = 4096;

/** Bytes of an answer's text that are one token on average. */
const BYTES_PER_TOKEN = 4;

const DATA = Buffer.from('data:');
const NEXT_DATA = Buffer.from('\ndata:');
const USAGE = Buffer.from('"usage"');

/** Tokens of an answer, and whether the CRN counted them. */
export interface Metered extends Usage {
  readonly measured: boolean;
}

export class UsageWatch {
  readonly #dialect: Dialect;
  readonly #strip: boolean;
  #streams = false;
  #delivered = false;
  /** The stream began with an error: what follows is no answer. */
  #failed = false;
  #events = 0;
  #opening = 0;
  #head: Buffer | undefined;
  /** The last pieces of a stream: the relay's own list. */
  #tail: readonly Buffer[] = [];
  /** A JSON answer, by reference. */
  #kept: Buffer[] = [];
  #bytes = 0;
  #keptBytes = 0;

  /**
   * @param dialect of the request; others are read like chat completions
   * @param strip takes events out that hold nothing but usage: the gateway asked for them, the client did not
   */
  constructor(dialect: Dialect | undefined, strip: boolean) {
    this.#dialect = dialect ?? chatCompletions;
    this.#strip = strip;
  }

  /** Whether anything of a good answer has passed: neither comments nor an error alone are. */
  get delivered(): boolean {
    return this.#delivered;
  }

  /** A good answer begins; one that began before it was given up. `tail` will hold the last pieces of a stream. */
  begin(tail: readonly Buffer[] | null): void {
    this.#streams = tail !== null;
    this.#tail = tail ?? [];
    this.#delivered = false;
    this.#failed = false;
    this.#events = 0;
    this.#bytes = 0;
    this.#keptBytes = 0;
    this.#kept = [];
    this.#head = undefined;
  }

  /** A piece of a JSON answer. */
  data(chunk: Buffer): void {
    this.#delivered = true;
    this.#bytes += chunk.byteLength;
    this.#keptBytes += chunk.byteLength;
    this.#kept.push(chunk);
    if (this.#bytes <= KEPT_BYTES) return;
    while (this.#kept.length > 1 && this.#keptBytes - (this.#kept[0] as Buffer).byteLength >= LAST_BYTES) {
      this.#keptBytes -= (this.#kept.shift() as Buffer).byteLength;
    }
  }

  /** Whole events of a stream. Answers with what the client shall get: the same bytes, or fewer; undefined for none. */
  events(piece: Buffer): Buffer | undefined {
    if (this.#events === 0) this.#failed = beginsInError(piece);
    if (piece.compare(DATA, 0, DATA.length, 0, Math.min(DATA.length, piece.length)) === 0) this.#events++;
    for (let at = piece.indexOf(NEXT_DATA); at >= 0; at = piece.indexOf(NEXT_DATA, at + NEXT_DATA.length))
      this.#events++;
    const passed = this.#strip ? withoutUsageEvent(piece) : piece;
    if (!this.#delivered && !this.#failed && this.#events > 0 && passed !== undefined) {
      this.#delivered = true;
      this.#opening = this.#dialect.openingEvents(piece);
      if (this.#dialect.name === 'messages') this.#head = Buffer.from(piece.subarray(0, HEAD_BYTES));
    }
    return passed;
  }

  /** What the answer took, as far as it came. `promptTokens` is the estimate for a prompt that was not counted. */
  result(promptTokens: number): Metered {
    const usage = this.#streams
      ? usageOfStream(this.#dialect, Buffer.concat(this.#tail), this.#head)
      : this.#ofAnswer();
    if (usage !== undefined && (!this.#streams || this.#isFinal(usage))) return { ...usage, measured: true };
    const events = Math.max(this.#events - this.#opening, 0);
    const completion = this.#streams ? events : Math.ceil(this.#bytes / BYTES_PER_TOKEN);
    return {
      promptTokens: usage?.promptTokens || promptTokens,
      completionTokens: Math.max(completion, usage?.completionTokens ?? 0),
      cachedTokens: usage?.cachedTokens ?? 0,
      measured: false,
    };
  }

  #ofAnswer(): Usage | undefined {
    const bytes = this.#kept.length === 1 ? (this.#kept[0] as Buffer) : Buffer.concat(this.#kept);
    return this.#bytes === this.#keptBytes ? usageOfAnswer(this.#dialect, bytes) : usageOfStream(this.#dialect, bytes);
  }

  /** The messages dialect counts the prompt in its first event: then the answer's count is still to come. */
  #isFinal({ completionTokens }: Usage): boolean {
    return (
      this.#dialect.name !== 'messages' || this.#dialect.endsWell(Buffer.concat(this.#tail)) || completionTokens > 1
    );
  }
}

/** The piece without the event whose `choices` are empty and whose `usage` is there. */
function withoutUsageEvent(piece: Buffer): Buffer | undefined {
  for (let at = piece.indexOf(USAGE); at >= 0; at = piece.indexOf(USAGE, at + USAGE.length)) {
    const colon = skipSpace(piece, at + USAGE.length, piece.length);
    if (piece[colon] !== 0x3a || piece[skipSpace(piece, colon + 1, piece.length)] !== 0x7b) continue;
    const start = eventStart(piece, at);
    const end = eventEnd(piece, at);
    if (!holdsUsageOnly(piece.toString('utf8', start, end))) continue;
    if (start === 0 && end === piece.length) return undefined;
    return Buffer.concat([piece.subarray(0, start), piece.subarray(end)]);
  }
  return piece;
}

/** JSON on one line has no raw line ends, so the nearest blank lines are the event's own. */
function eventStart(piece: Buffer, at: number): number {
  const lf = piece.lastIndexOf('\n\n', at);
  const crlf = piece.lastIndexOf('\r\n\r\n', at);
  return Math.max(lf < 0 ? 0 : lf + 2, crlf < 0 ? 0 : crlf + 4);
}

function eventEnd(piece: Buffer, at: number): number {
  const lf = piece.indexOf('\n\n', at);
  const crlf = piece.indexOf('\r\n\r\n', at);
  const ends = [lf < 0 ? piece.length : lf + 2, crlf < 0 ? piece.length : crlf + 4];
  return Math.min(...ends);
}

function holdsUsageOnly(event: string): boolean {
  const [, data] = /^data: ?(.*?)\r?\n?\r?\n?$/s.exec(event) ?? [];
  if (data === undefined) return false;
  try {
    const { choices, usage } = JSON.parse(data) as { readonly choices?: unknown; readonly usage?: unknown };
    return Array.isArray(choices) && choices.length === 0 && typeof usage === 'object' && usage !== null;
  } catch {
    return false;
  }
}
