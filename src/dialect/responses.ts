// The responses dialect: POST /v1/responses. Listed in table.ts.
// Events are named and numbered, and the last one carries the whole response, so it may be longer than the tail seen.
import { sseEvent, tokenCount } from './dialect.ts';
import type { Dialect, Failure, Usage } from './dialect.ts';
import { openaiError } from './openai.ts';
import { endsInLongEvent, showsEnd } from './stream-end.ts';

const COMPLETE = /(?:"type"\s*:\s*"|^event:[ \t]*)response\.(?:completed|failed|incomplete)\b/m;

export const responses: Dialect = {
  name: 'responses',
  paths: ['/v1/responses'],
  conversation: 'input',
  errorEvent,
  errorMember: (failure) => ({ error: openaiError(failure) }),
  endsWell: (tail) => showsEnd(tail, COMPLETE) || endsInLongEvent(tail),
  // created, in_progress, output_item.added, content_part.added.
  openingEvents: () => 4,
  usage: (read) => usageOf(read('usage')),
};

/**
 * Two events, because no single one is understood by all clients. The official SDKs throw on `error` (its `error`
 * member is what makes the older ones throw) and read no further. Codex skips `error` and takes code and message from
 * `response.failed`; without it, it would report only that the stream closed early. The response has no `id`: the one
 * the CRN chose went by unread, and a wrong one would be worse.
 */
function errorEvent(failure: Failure): string {
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

function usageOf(usage: unknown): Usage | undefined {
  const promptTokens = tokenCount(usage, 'input_tokens');
  const completionTokens = tokenCount(usage, 'output_tokens');
  if (promptTokens === undefined && completionTokens === undefined) return undefined;
  const cachedTokens = tokenCount(usage, 'input_tokens_details', 'cached_tokens') ?? 0;
  return { promptTokens: promptTokens ?? 0, completionTokens: completionTokens ?? 0, cachedTokens };
}
