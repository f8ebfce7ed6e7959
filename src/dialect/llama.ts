// The llama-style dialect: POST /completions on the gateway, /completion and /infill on a host. A stream has `data:` lines
// without event names and without `[DONE]`; the last frame has `stop: true` and repeats the prompt.

import { DIALECT_BITS } from '../config/dialect-bits.ts';
import { membersOf } from '../net/json-object.ts';
import {
  type Dialect,
  type EventReading,
  type Failure,
  isFilled,
  sseEvent,
  tokenCount,
  type Usage,
} from './dialect.ts';
import { textMembers } from './text-counter.ts';

const STOP = Buffer.from('stop"');
const TEXTS = textMembers('content');

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  501: 'not_supported_error',
  503: 'unavailable_error',
};

export const llama: Dialect = {
  name: 'llama',
  bit: DIALECT_BITS.llama,
  paths: ['/completions', '/completion', '/infill'],
  conversation: 'prompt',
  errorEvent: (failure) => sseEvent(undefined, errorMember(failure)),
  errorMember,
  endsWithChoices: true,
  endMark: STOP,
  failedEvent: null,
  isQuietName: () => false,
  readEvent: readFrame,
  deltaTexts: TEXTS,
  answerTexts: TEXTS,
  usageMembers: ['timings', 'tokens_evaluated', 'tokens_predicted', 'tokens_cached'],
  usage: usageOf,
};

function readFrame(event: string, data: Readonly<Record<string, unknown>>, into: EventReading): void {
  const { content, error, index, prompt_progress: progress, stop, tokens } = data;
  into.error = isFilled(error) || event === 'error';
  // A report of progress has a token that is none.
  const isProgress = isFilled(progress);
  into.useful = isFilled(content) || (isFilled(tokens) && !isProgress) || stop === true;
  into.begins = isProgress;
  if (stop === true) into.ended.push(typeof index === 'number' ? index : 0);
}

/** In this dialect `code` is the HTTP status, a number. */
function errorMember({ status, message }: Failure): Record<string, unknown> {
  const type = TYPES[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error');
  return { error: { code: status, message, type } };
}

/**
 * `timings` says exactly what was reused. `tokens_cached` counts only without timings: by the interface it is the reused
 * tokens (docs/interface.md), but engines fill it with all tokens in the slot.
 */
function usageOf(members: Readonly<Record<string, unknown>>): Usage | undefined {
  const timings = membersOf(members['timings']);
  const reused = tokenCount(timings['cache_n']);
  const processed = tokenCount(timings['prompt_n']);
  const promptTokens =
    tokenCount(members['tokens_evaluated']) ?? (processed === undefined ? undefined : processed + (reused ?? 0));
  if (promptTokens === undefined) return undefined;
  const inSlot = tokenCount(members['tokens_cached']);
  const cached = reused ?? (processed === undefined ? (inSlot ?? 0) : promptTokens - processed);
  return {
    promptTokens,
    completionTokens: tokenCount(members['tokens_predicted']) ?? tokenCount(timings['predicted_n']) ?? 0,
    cachedTokens: Math.min(Math.max(cached, 0), promptTokens),
    // More than the prompt are those of the slot.
    saysCached: reused !== undefined || processed !== undefined || (inSlot !== undefined && inSlot <= promptTokens),
  };
}
