// The llama-style dialect: POST /completions on the gateway, /completion and /infill on a host. Listed in table.ts.
// A stream is `data:` lines without names and without `[DONE]`; the last frame has `stop: true` and repeats the prompt.
import { sseEvent, tokenCount } from './dialect.ts';
import type { Dialect, Failure, Usage } from './dialect.ts';
import { endsInLongEvent, showsEnd } from './stream-end.ts';

const COMPLETE = /"stop"\s*:\s*true/;

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  501: 'not_supported_error',
  503: 'unavailable_error',
};

export const llama: Dialect = {
  name: 'llama',
  paths: ['/completions', '/completion', '/infill'],
  conversation: 'prompt',
  errorEvent: (failure) => sseEvent(undefined, errorMember(failure)),
  errorMember,
  endsWell: (tail) => showsEnd(tail, COMPLETE) || endsInLongEvent(tail),
  openingEvents: () => 0,
  usage: usageOf,
};

/** Here `code` is the HTTP status, a number. */
function errorMember({ status, message }: Failure): Record<string, unknown> {
  const type = TYPES[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error');
  return { error: { code: status, message, type } };
}

/**
 * `timings` says best what was reused: engines fill `tokens_cached` with all tokens in the slot, whereas the interface
 * document means the reused ones, so that member counts only where there are no timings.
 */
function usageOf(read: (member: string) => unknown): Usage | undefined {
  const timings = read('timings');
  const reused = tokenCount(timings, 'cache_n');
  const processed = tokenCount(timings, 'prompt_n');
  const promptTokens =
    tokenCount(read('tokens_evaluated')) ?? (processed === undefined ? undefined : processed + (reused ?? 0));
  if (promptTokens === undefined) return undefined;
  const cached =
    reused ?? (processed === undefined ? (tokenCount(read('tokens_cached')) ?? 0) : promptTokens - processed);
  return {
    promptTokens,
    completionTokens: tokenCount(read('tokens_predicted')) ?? tokenCount(timings, 'predicted_n') ?? 0,
    cachedTokens: Math.min(Math.max(cached, 0), promptTokens),
  };
}
