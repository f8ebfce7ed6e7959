// The OpenAI dialects: POST /v1/chat/completions, /v1/completions and /v1/responses. They share the error object, whose members
// the official SDKs copy to their error classes.

import { DIALECT_BITS } from '../config/dialect-bits.ts';
import { membersOf } from '../net/json-object.ts';
import {
  type Dialect,
  type EventReading,
  type Failure,
  isFilled,
  isFilledBeside,
  sseEvent,
  tokenCount,
  type Usage,
} from './dialect.ts';
import { textMembers } from './text-counter.ts';

const FINISH_REASON = Buffer.from('finish_reason"');
const CHAT_TEXTS = textMembers('content', 'arguments', 'input', 'reasoning_content', 'reasoning', 'refusal');
const COMPLETION_TEXTS = textMembers('text');

/** A stream has `data:` lines without event names and ends with a finish reason and `[DONE]`. */
export const chatCompletions: Dialect = {
  name: 'chat-completions',
  bit: DIALECT_BITS.chat,
  // llama-server answers without the version too.
  paths: ['/v1/chat/completions', '/chat/completions'],
  conversation: 'messages',
  // No `[DONE]` behind it: the stream is not complete, and SDKs throw without one.
  errorEvent: (failure) => sseEvent(undefined, errorMember(failure)),
  errorMember,
  endsWithChoices: false,
  endMark: FINISH_REASON,
  failedEvent: null,
  isQuietName: () => false,
  readEvent: readChunk,
  deltaTexts: CHAT_TEXTS,
  answerTexts: CHAT_TEXTS,
  usageMembers: ['usage'],
  usage: chatUsage,
};

/** Differs from chat completions in the request only: the conversation is one growing `prompt`. */
export const completions: Dialect = {
  ...chatCompletions,
  name: 'completions',
  bit: DIALECT_BITS.completions,
  paths: ['/v1/completions'],
  conversation: 'prompt',
  deltaTexts: COMPLETION_TEXTS,
  answerTexts: COMPLETION_TEXTS,
};

function readChunk(event: string, data: Readonly<Record<string, unknown>>, into: EventReading): void {
  const { choices, error } = data;
  into.begins = isFilled(data['prompt_progress']);
  if (Array.isArray(choices)) for (const choice of choices) readChoice(choice, into);
  if (into.useful) return;
  // An error may ride on a chunk that only ends its choice.
  into.error = isFilled(error) || data['object'] === 'error' || data['type'] === 'error' || event === 'error';
  // Some engines leave `[DONE]` out and SDKs accept it: finish reasons are enough.
  into.useful = into.ended.length > 0;
}

/** Any member of a delta but its role is output, also those to come. */
function readChoice(choice: unknown, into: EventReading): void {
  if (typeof choice !== 'object' || choice === null) return;
  const { delta, finish_reason: reason, index, message, text, token_ids: tokens } = choice as Record<string, unknown>;
  into.useful ||=
    isFilledBeside(delta, 'role') || isFilled(text) || isFilled(tokens) || isFilledBeside(message, 'role');
  if (typeof reason === 'string' && reason !== '') into.ended.push(typeof index === 'number' ? index : 0);
}

/** Events have names and numbers. The last one holds the whole response. */
export const responses: Dialect = {
  name: 'responses',
  bit: DIALECT_BITS.responses,
  paths: ['/v1/responses', '/responses'],
  conversation: 'input',
  errorEvent: responsesErrorEvent,
  errorMember,
  endsWithChoices: false,
  endMark: null,
  failedEvent: 'response.failed',
  isQuietName: endsInDelta,
  readEvent: readResponseEvent,
  // What is done repeats the text of the deltas.
  deltaTexts: textMembers('delta'),
  answerTexts: textMembers('text', 'arguments', 'input', 'refusal'),
  usageMembers: ['usage'],
  usage: responseUsage,
};

const DELTA = Buffer.from('.delta');

function endsInDelta(piece: Buffer, start: number, end: number): boolean {
  if (end - start < DELTA.length) return false;
  for (let at = 0; at < DELTA.length; at++) if (piece[end - DELTA.length + at] !== DELTA[at]) return false;
  return true;
}

const RESPONSE_OPENING: ReadonlySet<string> = new Set([
  'response.created',
  'response.queued',
  'response.in_progress',
  'keepalive',
  'ping',
]);

const RESPONSE_ENDS: ReadonlySet<string> = new Set(['response.completed', 'response.failed', 'response.incomplete']);

/** Items and parts that begin empty; their text comes in deltas. */
const EMPTY_PARTS: ReadonlySet<unknown> = new Set([
  'message',
  'reasoning',
  'output_text',
  'refusal',
  'reasoning_text',
  'summary_text',
]);

function readResponseEvent(event: string, data: Readonly<Record<string, unknown>>, into: EventReading): void {
  const { delta, item, part, response, usage } = data;
  const type = typeof data['type'] === 'string' ? data['type'] : event;
  if (RESPONSE_OPENING.has(type)) return;
  if (type === 'error' || (type === '' && isFilled(data['error']))) into.error = true;
  else if (RESPONSE_ENDS.has(type)) {
    into.last = into.useful = true;
    // Not those in what the response repeats of its request.
    if (isFilled(response)) into.usage = membersOf(response)['usage'] ?? usage ?? null;
  } else if (type.endsWith('.delta')) into.useful = isFilled(delta);
  else if (type.endsWith('.added')) into.useful = isFilledPart(item ?? part);
  // Kinds of events to come must not be held for ever.
  else into.useful = true;
}

function isFilledPart(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return false;
  const { content, refusal, summary, text, type } = part as Readonly<Record<string, unknown>>;
  return !EMPTY_PARTS.has(type) || isFilled(text) || isFilled(refusal) || isFilled(content) || isFilled(summary);
}

interface OpenaiError {
  readonly message: string;
  readonly type: string;
  readonly param: null;
  readonly code: string;
}

/** The error object of `failure`. */
export function openaiError({ code, message, status }: Failure): OpenaiError {
  const type = TYPES[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error');
  return { message, type, param: null, code };
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error',
  429: 'rate_limit_error',
};

function errorMember(failure: Failure): Record<string, unknown> {
  return { error: openaiError(failure) };
}

/**
 * Two events, because no single one is understood by all clients. The official SDKs throw on `error` (the older ones because
 * of its `error` member) and read no further. Codex ignores `error` and reads code and message from `response.failed`. The
 * response has no `id`: the gateway has not read the one that the CRN sent.
 */
function responsesErrorEvent(failure: Failure): string {
  const { code, message, sequence = 0 } = failure;
  return (
    brokenStreamEvent(failure, sequence) +
    sseEvent('response.failed', {
      type: 'response.failed',
      sequence_number: sequence + 1,
      response: { object: 'response', status: 'failed', error: { code, message } },
    })
  );
}

/** The event `error` of the responses dialect. By itself it says nothing about the response, which may run on. */
export function brokenStreamEvent(failure: Failure, sequence: number): string {
  const error = openaiError(failure);
  const { code, message, param } = error;
  return sseEvent('error', { type: 'error', code, message, param, sequence_number: sequence, error });
}

function chatUsage({ usage }: Readonly<Record<string, unknown>>): Usage | undefined {
  const { completion_tokens: completion, prompt_tokens: prompt, prompt_tokens_details: details } = membersOf(usage);
  return counts(prompt, completion, details);
}

function responseUsage({ usage }: Readonly<Record<string, unknown>>): Usage | undefined {
  const { input_tokens: prompt, input_tokens_details: details, output_tokens: completion } = membersOf(usage);
  return counts(prompt, completion, details);
}

/** The tokens that these values say; undefined when they have neither count. */
function counts(prompt: unknown, completion: unknown, details: unknown): Usage | undefined {
  const promptTokens = tokenCount(prompt);
  const completionTokens = tokenCount(completion);
  if (promptTokens === undefined && completionTokens === undefined) return undefined;
  const cached = tokenCount(membersOf(details)['cached_tokens']);
  return {
    promptTokens: promptTokens ?? 0,
    completionTokens: completionTokens ?? 0,
    cachedTokens: cached ?? 0,
    saysCached: cached !== undefined,
  };
}
