// The messages dialect: POST /v1/messages. Every event has a name, since SDKs skip events without one; a stream ends with
// message_stop.

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
import { textMembers, TOOL_INPUT } from './text-counter.ts';

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};

export const messages: Dialect = {
  name: 'messages',
  bit: DIALECT_BITS.messages,
  paths: ['/v1/messages'],
  conversation: 'messages',
  errorEvent: (failure) => sseEvent('error', errorMember(failure)),
  errorMember,
  endsWithChoices: false,
  endMark: null,
  failedEvent: null,
  isQuietName: (piece, start) => piece[start] === 0x63,
  readEvent,
  deltaTexts: textMembers('text', 'partial_json', 'thinking'),
  answerTexts: [TOOL_INPUT, ...textMembers('text', 'thinking')],
  usageMembers: ['usage'],
  usage: usageOf,
};

function readEvent(event: string, data: Readonly<Record<string, unknown>>, into: EventReading): void {
  const {
    content_block: block,
    delta,
    message,
  } = data as Readonly<Record<string, Record<string, unknown> | undefined>>;
  const type = typeof data['type'] === 'string' ? data['type'] : event;
  switch (type) {
    case 'ping':
    case 'content_block_stop':
      return;
    case '':
      // Engines and proxies that speak several dialects report errors in the one of OpenAI.
      into.error = isFilled(data['error']);
      into.useful = !into.error;
      into.foreign = into.error;
      return;
    case 'error':
      into.error = true;
      // The official SDKs pass over an event without a name.
      into.foreign = event !== 'error';
      return;
    case 'message_start':
      into.useful = isFilled(message?.['content']);
      return;
    case 'content_block_start':
      // A call of a tool has a name; text and thinking begin empty.
      into.useful = isFilledBeside(block, 'type');
      return;
    case 'content_block_delta':
      into.useful = isFilledBeside(delta, 'type');
      return;
    case 'message_delta':
      into.counts = true;
      into.useful = isFilled(delta?.['stop_reason']);
      return;
    case 'message_stop':
      into.useful = true;
      into.last = true;
      return;
    default:
      // Kinds of events to come must not be held for ever.
      into.useful = true;
  }
}

/** The type that the official API gives errors with this status. */
export function errorType(status: number): string {
  return TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
}

function errorMember({ code, member, message, status }: Failure): Record<string, unknown> {
  // The official SDK, whose tool runner begins with a thread, goes on without one when it is told so.
  const isThread = code === 'HR_REQUEST_UNTRANSLATABLE' && member === 'thread';
  const details = { error_code: 'thread_unsupported_request', unsupported: ['thread'] };
  return { type: 'error', error: { type: errorType(status), message, ...(isThread && { details }) } };
}

/** The prompt is the sum of what was processed, read from the cache and written to it; the dialect counts them apart. */
function usageOf(members: Readonly<Record<string, unknown>>): Usage | undefined {
  const usage = membersOf(members['usage']);
  const fresh = tokenCount(usage['input_tokens']);
  const completionTokens = tokenCount(usage['output_tokens']);
  if (fresh === undefined && completionTokens === undefined) return undefined;
  const cached = tokenCount(usage['cache_read_input_tokens']);
  const written = tokenCount(usage['cache_creation_input_tokens']) ?? 0;
  return {
    promptTokens: (fresh ?? 0) + (cached ?? 0) + written,
    completionTokens: completionTokens ?? 0,
    cachedTokens: cached ?? 0,
    saysCached: cached !== undefined,
  };
}
