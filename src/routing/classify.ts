// What an answer or a failure of a CRN means: for the request (pass it on, try the next CRN) and for the CRN's health.
// Read by `upstream/`; the verdicts travel to the CRN actors.

/**
 * Verdict on a CRN after one request.
 * `ok`: served well. `failed`: its fault. `neutral`: says nothing about it (client gone, client's mistake, too busy).
 */
export type Verdict = 'ok' | 'failed' | 'neutral';

/** What went wrong with one attempt, in words for logs, metrics and the last-errors list. */
export type Failure =
  | 'connect'
  | 'connect timeout'
  | 'headers timeout'
  | 'first byte timeout'
  | 'idle timeout'
  | 'reset'
  | 'truncated'
  | 'malformed'
  | 'credentials'
  | 'busy'
  | 'context length'
  | 'no connection free'
  | 'unsendable'
  | `status ${number}`
  | 'client gone';

/** What requests to a CRN came to. Sent to its actor. */
export interface Outcome {
  readonly member: number;
  readonly verdict: Verdict;
  readonly failure: Failure | null;
  /** How many requests: good ones may be told together. */
  readonly count: number;
}

/** Statuses that another CRN might answer better: every 5xx, and 429. */
export function failsOver(status: number): boolean {
  return status >= 500 || status === 429;
}

/** The health verdict on a status that was received. 429 is a busy CRN, not a broken one. */
export function verdictOf(status: number): Verdict {
  if (status >= 500) return 'failed';
  return status >= 400 ? 'neutral' : 'ok';
}

/** Phrases by which engines refuse a prompt that is too long: llama.cpp, vLLM, OpenAI, TGI. */
const CONTEXT_PHRASES = [
  'exceed_context_size_error',
  'context_length_exceeded',
  'maximum context length',
  'context size',
  'context window',
  'max_model_len',
];

/** Whether a 400 says that the prompt exceeds this CRN's context length; another CRN's may be larger. */
export function namesContextLength(body: Buffer): boolean {
  const text = body.toString('latin1').toLowerCase();
  return CONTEXT_PHRASES.some((phrase) => text.includes(phrase));
}
