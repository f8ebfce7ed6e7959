// What a request may take in tokens, read from its body before it runs: an estimate of the prompt, and bounds that hold whatever the
// server counts. No token is shorter than a byte of the text that it stands for.

import type { Dialect } from './dialect.ts';
import { promptsIn, promptsOf, type ScannedBody, SPAN } from './body-scan.ts';
import type { NativeRequest } from './native.ts';
import { countAt, outputLimitOf } from './output-limit.ts';

/** Bytes of text that are one token on average; images and other attachments are counted like text. */
const BYTES_PER_TOKEN = 4;

/** Fewest bytes that a token of usual text has on average, in Chinese or in code. */
const FEWEST_BYTES_PER_TOKEN = 2;

/** Most tokens that a chat template adds to a prompt beyond the bytes of its request: a default system prompt, headers of messages. */
const TEMPLATE_TOKENS = 256;

/** For a prompt that is longer than its request, where the context length of the model is not known. */
const UNSEEN_TOKENS = 16_384;

/** Members that become prompt. */
const PROMPT = [
  SPAN.messages,
  SPAN.system,
  SPAN.prompt,
  SPAN.input,
  SPAN.instructions,
  SPAN.tools,
  SPAN.functions,
] as const;
/** Documents of a ranking. */
const DOCUMENTS = [SPAN.documents, SPAN.texts, SPAN.text_2] as const;
const CHOICES = [SPAN.n, SPAN.n_cmpl, SPAN.best_of] as const;

/** Tokens that one request may take. */
export interface TokenBounds {
  /**
   * Estimate for all prompts together: a quarter of the bytes that become prompt, and at most the context. Without a dialect a quarter
   * of all bytes.
   */
  readonly promptTokens: number;
  /** No server counts more: the bytes of the request and what a template adds, or the context where the dialect has one for a prompt. */
  readonly mostPromptTokens: number;
  /** Answers that are generated, over all prompts: with `best_of` more than are given. */
  readonly answers: number;
  /** Limit of one answer that the request sets itself; undefined when it sets none. */
  readonly limit: number | undefined;
  /** Context length of the model; Infinity when it is not known. */
  readonly context: number;
  /** Tokens that the context leaves for one answer beside its prompt, as estimated; the whole context if the prompt seems to fill it. */
  readonly free: number;
  /** The same beside a prompt of short tokens, so that it is surely free. May be negative. */
  readonly surelyFree: number;
}

/**
 * @param context length of the model's context in tokens; undefined when it is not known
 * @param native of a request without a dialect
 */
export function tokenBounds(
  dialect: Dialect | undefined,
  body: Buffer,
  scan: ScannedBody,
  context: number | undefined,
  native: NativeRequest | null = null,
): TokenBounds {
  const { spans } = scan;
  let bytes = promptBytes(spans);
  const prompts = promptsOf(body, spans);
  const longest = context ?? Infinity;
  let mostBytes = body.byteLength + TEMPLATE_TOKENS * prompts;
  let mostContext = longest * prompts;
  if (dialect === undefined) {
    // Embeddings and rankings read many inputs, each in a context of its own.
    bytes = body.byteLength;
    mostBytes += repeatedBytes(body, spans);
    mostContext = Infinity;
  }
  const unseen = isWhole(dialect, scan) && native?.api?.keepsPrompt !== true ? 0 : (context ?? UNSEEN_TOKENS) * prompts;
  const perPrompt = bytes / prompts / BYTES_PER_TOKEN;
  return {
    promptTokens: Math.min(Math.ceil(bytes / BYTES_PER_TOKEN), mostContext),
    mostPromptTokens: Math.min(mostBytes + unseen, mostContext),
    answers: prompts * choicesIn(body, scan) * (native?.answers ?? 1),
    limit: native === null ? outputLimitOf(dialect, body, scan) : native.limit,
    context: longest,
    // Attachments are no text: a prompt that seems to fill the context is shorter, or is refused.
    free: perPrompt < longest ? Math.floor(longest - perPrompt) : longest,
    surelyFree: longest - Math.ceil(bytes / prompts / FEWEST_BYTES_PER_TOKEN) - TEMPLATE_TOKENS,
  };
}

/** `promptTokens` of `tokenBounds`, at a small part of its cost. */
export function promptEstimate(
  dialect: Dialect | undefined,
  body: Buffer,
  { spans }: ScannedBody,
  context: number | undefined,
): number {
  if (dialect === undefined) return Math.ceil(body.byteLength / BYTES_PER_TOKEN);
  const tokens = Math.ceil(promptBytes(spans) / BYTES_PER_TOKEN);
  if (context === undefined || tokens <= context) return tokens;
  const prompts = promptsOf(body, spans);
  return Math.min(tokens, context * prompts);
}

/** Bytes of the members that become prompt. */
function promptBytes(spans: readonly number[]): number {
  let bytes = 0;
  for (const at of PROMPT) {
    const start = spans[at] as number;
    if (start >= 0) bytes += (spans[at + 1] as number) - start;
  }
  return bytes;
}

/** Whether all of the prompt is in the body: no attachment, no earlier response, and no system prompt that the server keeps. */
function isWhole(dialect: Dialect | undefined, { hasAddress, spans }: ScannedBody): boolean {
  return dialect?.name !== 'llama' && (spans[SPAN.previous_response_id] as number) < 0 && !hasAddress;
}

/** A ranking reads its query, which is all but the documents, once more beside each further document; with what joins them. */
function repeatedBytes(body: Buffer, spans: readonly number[]): number {
  let most = 0;
  for (const at of DOCUMENTS) {
    const start = spans[at] as number;
    const end = spans[at + 1] as number;
    const bytes = body.byteLength - (end - start) + TEMPLATE_TOKENS;
    most = Math.max(most, (promptsIn(body, start, end) - 1) * bytes);
  }
  return most;
}

/** The largest of the counts of answers to one prompt. Of two members of one name a server may read the first or the last. */
function choicesIn(body: Buffer, { repeated, spans }: ScannedBody): number {
  let choices = 1;
  for (const at of CHOICES) {
    const start = spans[at] as number;
    if (start < 0) continue;
    choices = Math.max(choices, countAt(body, start, spans[at + 1] as number) ?? 1);
  }
  for (let at = 0; repeated !== null && at < repeated.length; at += 3) {
    if (!CHOICES.some((member) => member === repeated[at])) continue;
    choices = Math.max(choices, countAt(body, repeated[at + 1] as number, repeated[at + 2] as number) ?? 1);
  }
  return choices;
}
