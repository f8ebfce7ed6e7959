// The OpenAI dialects: POST /v1/chat/completions, /v1/completions and /v1/responses. They share the error object, whose members
// the official SDKs copy to their error classes.

import { type Dialect, endsInLongEvent, type Failure, showsEnd, sseEvent, tokenCount, type Usage } from './dialect.ts';

/** `[DONE]` is enough, and so is a finish reason: some engines leave `[DONE]` out and SDKs accept it. */
const CHAT_COMPLETE = /^data:[ \t]*\[DONE\]|"finish_reason"\s*:\s*"/m;

/** A stream has `data:` lines without event names and ends with a finish reason and `[DONE]`. */
export const chatCompletions: Dialect = {
  name: 'chat-completions',
  paths: ['/v1/chat/completions'],
  conversation: 'messages',
  // No `[DONE]` behind it: the stream is not complete, and SDKs throw without one.
  errorEvent: (failure) => sseEvent(undefined, errorMember(failure)),
  errorMember,
  endsWell: (tail) => showsEnd(tail, CHAT_COMPLETE),
  // Some engines open with a chunk that holds the role and no text.
  openingEvents: (first) => (first.includes('"content":""') ? 1 : 0),
  usageMembers: ['usage'],
  usage: ({ usage }) => counts(usage, 'prompt_tokens', 'completion_tokens'),
};

/** Differs from chat completions in the request only: the conversation is one growing `prompt`. */
export const completions: Dialect = {
  ...chatCompletions,
  name: 'completions',
  paths: ['/v1/completions'],
  conversation: 'prompt',
  openingEvents: () => 0,
};

const RESPONSE_COMPLETE = /(?:"type"\s*:\s*"|^event:[ \t]*)response\.(?:completed|failed|incomplete)\b/m;

/** Events have names and numbers. The last one holds the whole response, so it may be longer than the tail. */
export const responses: Dialect = {
  name: 'responses',
  paths: ['/v1/responses'],
  conversation: 'input',
  errorEvent: responsesErrorEvent,
  errorMember,
  endsWell: (tail) => showsEnd(tail, RESPONSE_COMPLETE) || endsInLongEvent(tail),
  // created, in_progress, output_item.added, content_part.added.
  openingEvents: () => 4,
  usageMembers: ['usage'],
  usage: ({ usage }) => counts(usage, 'input_tokens', 'output_tokens'),
};

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
  const error = openaiError(failure);
  const sequence = failure.sequence ?? 0;
  const { code, message, param } = error;
  return (
    sseEvent('error', { type: 'error', code, message, param, sequence_number: sequence, error }) +
    sseEvent('response.failed', {
      type: 'response.failed',
      sequence_number: sequence + 1,
      response: { object: 'response', status: 'failed', error: { code, message } },
    })
  );
}

/** Reads a usage object whose counts have these names; undefined when it has neither count. */
function counts(usage: unknown, prompt: string, completion: string): Usage | undefined {
  const promptTokens = tokenCount(usage, prompt);
  const completionTokens = tokenCount(usage, completion);
  if (promptTokens === undefined && completionTokens === undefined) return undefined;
  const cachedTokens = tokenCount(usage, `${prompt}_details`, 'cached_tokens') ?? 0;
  return { promptTokens: promptTokens ?? 0, completionTokens: completionTokens ?? 0, cachedTokens };
}
