// Outcomes of attempts: what the status of an answer means for failover and for the health of a CRN, and the reporter that sends
// outcomes from a request thread to the CRN actors. Successes are batched; failures are sent at once.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { parsedJson } from '../net/json-object.ts';
import type { Board } from './board.ts';
import type { Member } from './model-table.ts';

/**
 * Verdict on a CRN after one request.
 * `ok`: served well. `failed`: the CRN's fault. `neutral`: says nothing about its health (client gone, client's mistake, CRN busy).
 */
export type Verdict = 'ok' | 'failed' | 'neutral';

/** What went wrong with one attempt, as logs, metrics and the list of last errors show it. */
export type Failure =
  // No connection, or no request on it.
  | 'connect'
  | 'connect timeout'
  | 'no connection free'
  | 'unsendable'
  // A kept connection closed before any byte of the answer.
  | 'stale'
  // The answer came late, broke off, or could not be read.
  | 'headers timeout'
  | 'first byte timeout'
  | 'idle timeout'
  | 'reset'
  | 'truncated'
  | 'malformed'
  // The CRN answers no probe any more.
  | 'unreachable'
  // The CRN refused.
  | `status ${number}`
  | 'redirect'
  | 'credentials'
  | 'busy'
  | 'context length'
  | 'model unknown'
  // It does not know the path, and so does not speak the dialect.
  | 'dialect unknown'
  // The status said success, the body did not.
  | 'empty answer'
  | 'not an answer'
  | 'error answer'
  | 'error event'
  | 'only done'
  | 'not begun'
  // The answer is good, and cannot be carried to the dialect of the client.
  | 'untranslatable'
  // The gateway or the client ended the attempt; `internal`: a defect of the gateway did.
  | 'internal'
  | 'hedged'
  | 'client gone';

/** A member as a request was sent to it. */
export interface Choice {
  readonly member: Member;
  /** Epoch of the member when it was chosen. */
  readonly epoch: number;
  /** Whether this request is the trial of an ejected CRN: it alone decides about the return. */
  readonly trial: boolean;
}

/** A choice with what it was charged: see `Candidates.prefilled`. */
export interface Candidate extends Choice {
  /** Leading blocks of the prompt that the member held, as far as was known. */
  readonly matched: number;
  /** When the others were entered for it: see `BlockIndex.withdraw`. */
  readonly enteredAt: number;
  /** By how much they have aged what the member holds: see `BlockIndex.rewind`. */
  readonly aged: number;
  /** Bytes that it has to prefill. */
  readonly charged: number;
  /** The same with what waited there before. */
  readonly work: number;
}

/** Outcome of one or several requests to a member. */
export interface Outcome {
  /** Member cell on the board. */
  readonly member: number;
  readonly epoch: number;
  readonly trial: boolean;
  readonly verdict: Verdict;
  readonly failure: Failure | null;
  /** Why it failed, in plain words, where that is known. */
  readonly reason?: string | undefined;
  /** Requests with this outcome; more than 1 only for successes. */
  readonly count: number;
}

/**
 * What failover does with an answer. `pass`: it goes to the client. `next-neutral`, `next-failed`: another CRN is asked, with this
 * verdict. `read`: its body decides, by `classifyBody`.
 */
export type Handling = 'pass' | 'next-neutral' | 'next-failed' | 'read';

/**
 * Classifies an answer by its final status. `ownCredential`: whether the request carried the gateway's credential for this CRN, and
 * `keyChecked`: whether the gateway has checked the client's. In both cases 401 and 403 are not the client's fault; a key that one CRN does not
 * know yet says nothing about its health.
 */
export function classifyStatus(status: number, ownCredential: boolean, keyChecked: boolean): Handling {
  if (status >= 200 && status < 300) return 'pass';
  switch (status) {
    case 400:
    case 404:
      return 'read';
    case 408:
    case 425:
    case 429:
      return 'next-neutral';
    case 401:
    case 403:
      return ownCredential ? 'next-failed' : keyChecked ? 'next-neutral' : 'pass';
    case 501:
      return 'pass';
    default:
      return status >= 400 && status < 500 ? 'pass' : 'next-failed';
  }
}

/** Classifies an answer of which `classifyStatus` said `read`. */
export function classifyBody(status: number, body: Buffer): 'pass' | 'next-neutral' {
  return bodyFailure(status, body) === null ? 'pass' : 'next-neutral';
}

/** Why another CRN may do better than one that answered with this status; the body matters only for 400 and 404. */
export function failureOf(status: number, body: Buffer | null = null): Failure {
  if (status === 429) return 'busy';
  if (status === 401 || status === 403) return 'credentials';
  if (status >= 300 && status < 400) return 'redirect';
  return (body === null ? null : bodyFailure(status, body)) ?? `status ${status}`;
}

/** The verdict on a CRN that has served a complete answer with this status. */
export function verdictOf(status: number): Verdict {
  if (status >= 200 && status < 300) return 'ok';
  return (status >= 400 && status < 500) || status === 501 ? 'neutral' : 'failed';
}

function bodyFailure(status: number, body: Buffer): Failure | null {
  if (status === 400) return namesContextLength(body) ? 'context length' : null;
  if (status === 404) return modelUnknown(body) ? 'model unknown' : null;
  return null;
}

/** Phrases of llama.cpp, vLLM, OpenAI and TGI for a prompt that is too long. */
const CONTEXT_PHRASES = [
  'exceed_context_size_error',
  'context_length_exceeded',
  'maximum context length',
  'context size',
  'context window',
  'max_model_len',
];

/** Whether the body of a 400 says that the prompt exceeds this CRN's context length; another CRN's may be larger. */
export function namesContextLength(body: Buffer): boolean {
  const text = body.toString('latin1').toLowerCase();
  return CONTEXT_PHRASES.some((phrase) => text.includes(phrase));
}

/**
 * Codes and phrases for a model that a CRN does not have. vLLM, SGLang and OpenAI: "The model `m` does not exist"; Ollama: "model 'm'
 * not found"; llama.cpp's router: "model not found"; OpenAI and LM Studio: `model_not_found`; Anthropic: `not_found_error` with "model: m".
 */
const MODEL_PHRASES =
  /"model_not_(?:found|supported)"|(?<![\w/.-])(?:unknown[_ ]model|no such model)|"model: |(?<![\w/.-])model(?![\w/.-]).{0,300}?\b(?:not found|does(?: not|n't) exist|not (?:available|loaded|served|supported))/is;

/** Quoted text that is not a model's name: clients choose it, as the id of a response, and it must not decide. */
const OTHER_QUOTED = /(?<!\bmodel:? )(?:'[^']*'|`[^`]*`|\\"[^"\\]*\\")/gi;

/** Whether the body of a 404 says that the model is unknown, rather than the path; another CRN may have it. */
export function modelUnknown(body: Buffer): boolean {
  return MODEL_PHRASES.test(body.toString('latin1').replace(OTHER_QUOTED, ''));
}

/** A sentence of these words alone says that a path or a method is not served: "404 page not found", "Method Not Allowed". */
const BARE_WORDS =
  /^(?:(?:4\d\d|501|error|http|code|page|file|path|url|route|method|endpoint|the|this|requested|was|does|not|found|allowed|implemented|exist|unknown|unsupported|default|backend)(?:\W+|$))+$/;
const NEGATION = /\bnot\b|\bunknown\b|\bunsupported\b|\bdefault backend\b/;

/**
 * Beginnings of what servers and proxies say of a path or a method that they do not serve, in lower case: Express ("Cannot POST /v1/messages"),
 * Fastify, Flask, Python's http.server, Kong, KoboldCpp, `headrace host`, and vLLM where the model has no such API.
 */
const PATH_PHRASES =
  /^(?:error: )?(?:cannot post \/|route post:|no such (?:path|route|endpoint)\b|no route\b|(?:unknown|unexpected|unsupported|invalid) (?:path|route|endpoint|url|uri|method)\b|(?:path|route|endpoint|url|uri) \/\S{0,200} (?:not found|does not exist)|the requested (?:url|path|endpoint) was not found|nothing matches the given uri|the (?:engine|server|model)\b[^'"`]{0,80} does not (?:serve \/|support (?:the )?[\w ]{1,30} api\b)|koboldcpp http server is running)/;

/** Longer texts are no error of a router. */
const MAX_PATH_TEXT = 4096;

/** Members of a JSON error with its sentence. */
const MESSAGE_MEMBERS = ['message', 'detail', 'msg', 'error', 'title'];

/** Statuses with which servers answer on paths that they do not serve. */
export function mayBePath(status: number): boolean {
  return status === 404 || status === 405 || status === 501;
}

/**
 * Whether an answer says that the path itself is unknown to the server, or not meant for POST, rather than a model, a response or any other
 * thing that the request names.
 */
export function pathUnknown(status: number, body: Buffer): boolean {
  if (!mayBePath(status)) return false;
  const text = body.byteLength > MAX_PATH_TEXT ? '' : body.toString().trim();
  if (text === '') return body.byteLength === 0;
  const isJson = text.startsWith('{');
  if (status === 404 && modelUnknown(body)) return false;
  const sentences = isJson ? messagesIn(text) : sentencesOf(text);
  return sentences.some((each) => (BARE_WORDS.test(each) && NEGATION.test(each)) || PATH_PHRASES.test(each));
}

/** The sentences of a JSON error, in lower case. */
function messagesIn(text: string): string[] {
  let value = parsedJson(text);
  for (let depth = 0; depth < 3 && typeof value === 'object' && value !== null; depth++) {
    const members = value as Readonly<Record<string, unknown>>;
    const texts = MESSAGE_MEMBERS.flatMap((name) => (typeof members[name] === 'string' ? [members[name]] : []));
    // The sentence stands before the word for its kind.
    if (texts[0] !== undefined) return [texts[0].trim().toLowerCase()];
    value = members['error'] ?? members['detail'];
  }
  return [];
}

/** The lines of a plain text or of an HTML page without its tags, in lower case. */
function sentencesOf(text: string): string[] {
  const lines = text.replace(/<!--.*?-->|<(?:style|script)\b.*?<\/(?:style|script)>/gis, '').replace(/<[^>]*>/g, '\n');
  return lines
    .toLowerCase()
    .split('\n')
    .flatMap((line) => line.trim() || []);
}

/** Longest time that successes wait in a batch, in milliseconds; far below the window of error rates. */
const FLUSH_MS = 250;

/** Successes of a member that have not been sent. */
interface Batch {
  epoch: number;
  count: number;
}

/** Reports the outcomes of one thread. */
export class Reporter {
  readonly #board: Board;
  readonly #clock: Clock;
  readonly #send: (outcome: Outcome) => void;
  readonly #successes = new Map<number, Batch>();
  #timer: TimerHandle | null = null;

  constructor(board: Board, clock: Clock, send: (outcome: Outcome) => void) {
    this.#board = board;
    this.#clock = clock;
    this.#send = send;
  }

  /**
   * Reports the outcome of an attempt, once for each. That of a trial is sent whatever its verdict. Keeps the board: a failed or
   * busy CRN is expected to answer later, and one that does not know a model is passed over for it.
   */
  report(
    { member: { member }, epoch, trial }: Choice,
    verdict: Verdict,
    failure: Failure | null,
    reason?: string,
  ): void {
    if (verdict === 'failed' || failure === 'busy') this.#board.noteFailure(member, this.#clock.now());
    else if (verdict === 'ok') this.#board.noteSuccess(member, this.#clock.now());
    if (failure === 'model unknown' && epoch === this.#board.epoch(member)) this.#board.noteModelUnknown(member);
    if (verdict === 'ok' && !trial) {
      this.#succeeded(member, epoch);
    } else if (verdict !== 'neutral' || trial || failure === 'credentials') {
      this.#flushOne(member);
      this.#send({ member, epoch, trial, verdict, failure, reason, count: 1 });
    }
  }

  /**
   * Reports that an answer has begun. A trial has succeeded then: the answer may last for minutes, and the CRN is needed. Its
   * outcome is to be reported all the same.
   */
  begun({ member: { member }, epoch, trial }: Choice): void {
    if (trial) this.#send({ member, epoch, trial, verdict: 'ok', failure: null, count: 1 });
  }

  /** Sends the batched successes. */
  flush(): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
    for (const member of this.#successes.keys()) this.#flushOne(member);
  }

  #succeeded(member: number, epoch: number): void {
    let batch = this.#successes.get(member);
    if (batch === undefined) {
      batch = { epoch, count: 0 };
      this.#successes.set(member, batch);
    }
    if (batch.epoch !== epoch) {
      this.#flushOne(member);
      batch.epoch = epoch;
    }
    batch.count++;
    this.#timer ??= this.#clock.setTimeout(this.#flush, FLUSH_MS);
  }

  readonly #flush = (): void => this.flush();

  #flushOne(member: number): void {
    const batch = this.#successes.get(member);
    if (batch === undefined || batch.count === 0) return;
    const { epoch, count } = batch;
    batch.count = 0;
    this.#send({ member, epoch, trial: false, verdict: 'ok', failure: null, count });
  }
}
