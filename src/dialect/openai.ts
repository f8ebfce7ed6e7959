// What completions, chat-completions and responses share: the error object of the OpenAI SDKs and their usage object.
// Called by those three dialect files only. The SDKs build message, code and type from exactly these members.
import { tokenCount } from './dialect.ts';
import type { Failure, Usage } from './dialect.ts';

/** The `error` object that the official SDKs turn into the fields of their error classes. */
export interface OpenaiError {
  readonly message: string;
  readonly type: string;
  readonly param: null;
  readonly code: string;
}

/** The error object of `failure`. */
export function openaiError(failure: Failure): OpenaiError {
  return { message: failure.message, type: typeOf(failure.status), param: null, code: failure.code };
}

/** Reads `usage.prompt_tokens` and its neighbours; undefined when neither count is there. */
export function openaiUsage(usage: unknown): Usage | undefined {
  const promptTokens = tokenCount(usage, 'prompt_tokens');
  const completionTokens = tokenCount(usage, 'completion_tokens');
  if (promptTokens === undefined && completionTokens === undefined) return undefined;
  const cachedTokens = tokenCount(usage, 'prompt_tokens_details', 'cached_tokens') ?? 0;
  return { promptTokens: promptTokens ?? 0, completionTokens: completionTokens ?? 0, cachedTokens };
}

function typeOf(status: number): string {
  if (status >= 500) return 'server_error';
  if (status === 401) return 'authentication_error';
  if (status === 402) return 'insufficient_quota';
  if (status === 403) return 'permission_error';
  if (status === 429) return 'rate_limit_error';
  return 'invalid_request_error';
}
