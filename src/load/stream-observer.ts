// Observes a response while it arrives: when the first event, the first text and each later text came, how it ended, how many
// tokens the server counted. Events are searched, not parsed: the patterns below cannot occur inside a JSON string, where
// every quotation mark is escaped.
import type { DialectName } from '../dialect/index.ts';
import { EventSplitter, isWholeButItsEnd } from '../net/sse.ts';
import { parseJson } from '../config/json-text.ts';

/** Token counts as the server told them; undefined when it did not. */
export interface Counted {
  promptTokens: number | undefined;
  cachedTokens: number | undefined;
  outputTokens: number | undefined;
}

/** How a dialect shows that an event, or a whole answer, carries text: the member before a string that is not empty. */
interface Marks {
  /** Any output of the model: text, reasoning, arguments of a call. */
  readonly output: RegExp;
  /** Text that is sent again in the next turn; group 1 is the JSON string. */
  readonly said: RegExp;
  /** Which events have such text, where others have the same member. */
  readonly saying?: RegExp;
  /** The stream is complete. */
  readonly end: RegExp;
}

/** Without an alternative for each character, whose stack would end a long text. */
const STRING = String.raw`\s*:\s*("(?!")[^"\\]*(?:\\.[^"\\]*)*")`;
const marks = (output: string, said: string, end: RegExp): Marks => ({
  output: new RegExp(String.raw`"(?:${output})"\s*:\s*"(?!")`),
  said: new RegExp(`"(?:${said})"${STRING}`, 'g'),
  end,
});

const REASONING = '"(?:reasoning|summary)_text"';
const DONE = /^data: ?\[DONE\]/m;
const MARKS: Readonly<Record<DialectName, Marks>> = {
  'chat-completions': marks('content|reasoning_content|reasoning|arguments', 'content', DONE),
  completions: marks('text', 'text', DONE),
  responses: {
    output: /"delta"\s*:\s*"(?!")/,
    // In a whole answer, parts of reasoning have a text too.
    said: new RegExp(
      String.raw`"(?:delta|text)"(?<!${REASONING}\s*,\s*"text")${STRING}(?!\s*,\s*"type"\s*:\s*${REASONING})`,
      'g',
    ),
    saying: /"type"\s*:\s*"response\.output_text\./,
    end: /"type"\s*:\s*"response\.(?:completed|incomplete)"/,
  },
  messages: marks('text|thinking|partial_json', 'text', /"type"\s*:\s*"message_stop"/),
  llama: marks('content', 'content', /"stop"\s*:\s*true/),
};

// An error behind other members begins as that of an engine: events of responses repeat the schemas of tools.
const FAILED =
  /^(?:event: ?error|error:|data: ?\{\s*"error"\s*:\s*[{"])|"error"\s*:\s*\{\s*"(?:code|message)"|"type"\s*:\s*"(?:response\.failed|error)"/m;
const SERVER_TIMINGS = /^: truth (.*)$/m;
/** Two line ends; a CRLF is one. */
const BLANK = /(?:\r\n|\n|\r(?!\n)){2}/;

const COUNTS: Readonly<Record<keyof Counted, RegExp>> = {
  promptTokens: /"(?:prompt_tokens|input_tokens|tokens_evaluated)"\s*:\s*(\d+)/,
  cachedTokens: /"(?:cached_tokens|cache_read_input_tokens|cache_n)"\s*:\s*(\d+)/,
  outputTokens: /"(?:completion_tokens|output_tokens|tokens_predicted)"\s*:\s*(\d+)/,
};
const COUNTING = /"(?:usage|tokens_predicted)"/;

/** Longest whole answer that is looked into. */
export const MAX_ANSWER_BYTES: number = 16 * 1024 * 1024;

export class StreamObserver implements Counted {
  /** When the first event with data came, on the caller's clock; NaN before. */
  firstEventMs: number = NaN;
  /** When each event with output of the model came. */
  readonly textMs: number[] = [];
  promptTokens: number | undefined = undefined;
  cachedTokens: number | undefined = undefined;
  outputTokens: number | undefined = undefined;
  /** Whether the stream has said that it is complete. */
  complete = false;
  /** Whether the stream reported an error. */
  failed = false;
  /** Server timings of a simulated host, as JSON. */
  serverTimings: string | undefined = undefined;
  readonly #marks: Marks;
  readonly #inputAddsCache: boolean;
  readonly #keepsText: boolean;
  readonly #splitter = new EventSplitter();
  #said: string[] = [];
  #whole: Buffer[] = [];
  #wholeBytes = 0;

  /** `keepsText`: what the model says is wanted in the end. */
  constructor(dialect: DialectName, keepsText: boolean) {
    this.#marks = MARKS[dialect];
    this.#inputAddsCache = dialect === 'messages';
    this.#keepsText = keepsText;
  }

  /** Text of the answer; empty when it was not kept. */
  get text(): string {
    return this.#said.join('');
  }

  /** Bytes of a stream of events that came at this time. */
  push(chunk: Buffer, nowMs: number): void {
    const events = this.#splitter.push(chunk);
    if (events !== undefined) this.#read(events, nowMs);
  }

  /** The stream of events has ended. The blank line behind its last event may be missing. */
  end(nowMs: number): void {
    const rest = this.#splitter.take();
    if (isWholeButItsEnd(rest)) this.#read(rest, nowMs);
  }

  #read(events: Buffer, nowMs: number): void {
    for (const event of events.toString(this.#keepsText ? 'utf8' : 'latin1').split(BLANK)) {
      if (event !== '') this.#event(event, nowMs);
    }
  }

  /** Bytes of an answer that is no stream. */
  pushWhole(chunk: Buffer): void {
    this.#wholeBytes += chunk.byteLength;
    if (this.#wholeBytes <= MAX_ANSWER_BYTES) this.#whole.push(Buffer.from(chunk));
  }

  /** The answer that is no stream has ended. Returns it, as far as it was looked into. */
  endWhole(): Buffer {
    const whole = Buffer.concat(this.#whole);
    const text = whole.toString('utf8');
    this.#count(text);
    if (this.#keepsText) this.#keep(text);
    return whole;
  }

  #event(event: string, nowMs: number): void {
    if (event.startsWith(':')) {
      this.serverTimings = SERVER_TIMINGS.exec(event)?.[1] ?? this.serverTimings;
      return;
    }
    const isFirst = Number.isNaN(this.firstEventMs);
    if (isFirst) this.firstEventMs = nowMs;
    const { output, saying, end } = this.#marks;
    if (output.test(event)) {
      this.textMs.push(nowMs);
      if (this.#keepsText && saying?.test(event) !== false) this.#keep(event);
    }
    if (COUNTING.test(event)) this.#count(event);
    // [DONE] alone is the end of nothing.
    if (end.test(event)) this.complete ||= end !== DONE || !isFirst;
    if (FAILED.test(event)) this.failed = true;
  }

  #count(text: string): void {
    for (const name of ['promptTokens', 'cachedTokens', 'outputTokens'] as const) {
      const found = COUNTS[name].exec(text)?.[1];
      if (found !== undefined) this[name] = Number(found);
    }
    // This dialect counts what came from the cache, and what went into it, apart from the input.
    const rest = /"input_tokens"\s*:\s*(\d+)/.exec(text)?.[1];
    if (!this.#inputAddsCache || rest === undefined) return;
    const written = /"cache_creation_input_tokens"\s*:\s*(\d+)/.exec(text)?.[1] ?? 0;
    this.promptTokens = Number(rest) + Number(written) + (this.cachedTokens ?? 0);
  }

  /** A string that is none is left out, as it is where the text is not wanted. */
  #keep(text: string): void {
    for (const [, string] of text.matchAll(this.#marks.said)) {
      try {
        this.#said.push(parseJson(string as string) as string);
      } catch {
        // The rest may be read.
      }
    }
  }
}
