// Builds the HTTP request of a conversation in each dialect: path and body.
import type { DialectName } from '../dialect/index.ts';
import type { Message } from './workload.ts';

/** The dialects a load can be made of, as the command line names them. */
export const LOAD_DIALECTS: Readonly<Record<string, DialectName>> = {
  chat: 'chat-completions',
  completions: 'completions',
  responses: 'responses',
  messages: 'messages',
  llama: 'llama',
};

export interface RequestSettings {
  readonly dialect: DialectName;
  readonly model: string;
  readonly stream: boolean;
  /** Asks the server not to stop by itself, so that every answer is as long as the workload says. */
  readonly ignoreEos: boolean;
  /** Further members of every body. */
  readonly extra: Readonly<Record<string, unknown>>;
}

/** What is sent. */
export interface LoadRequest {
  readonly path: string;
  readonly body: Buffer;
}

const PATHS: Readonly<Record<DialectName, string>> = {
  'chat-completions': '/v1/chat/completions',
  completions: '/v1/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
  llama: '/completion',
};

/** The request that carries these messages; at most `outputTokens` are wanted. */
export function loadRequest(
  settings: RequestSettings,
  messages: readonly Message[],
  outputTokens: number,
): LoadRequest {
  const { dialect, model, stream, ignoreEos, extra } = settings;
  const body = {
    model,
    stream,
    ...MEMBERS[dialect](messages, outputTokens),
    ...(stream && COUNTS_ON_REQUEST.has(dialect) && { stream_options: { include_usage: true } }),
    ...(ignoreEos && { ignore_eos: true }),
    ...extra,
  };
  return { path: PATHS[dialect], body: Buffer.from(JSON.stringify(body)) };
}

/** Dialects whose streams count tokens only when asked to. */
const COUNTS_ON_REQUEST: ReadonlySet<DialectName> = new Set(['chat-completions', 'completions']);

type Members = (messages: readonly Message[], outputTokens: number) => Record<string, unknown>;

const MEMBERS: Readonly<Record<DialectName, Members>> = {
  'chat-completions': (messages, outputTokens) => ({ messages: messages.map(wire), max_tokens: outputTokens }),
  completions: (messages, outputTokens) => ({ prompt: plain(messages), max_tokens: outputTokens }),
  responses: (messages, outputTokens) => ({ input: messages.map(wire), max_output_tokens: outputTokens, store: false }),
  messages: (messages, outputTokens) => ({
    ...(messages[0]?.role === 'system' && { system: messages[0].text }),
    messages: messages.filter(({ role }) => role !== 'system').map(wire),
    max_tokens: outputTokens,
  }),
  llama: (messages, outputTokens) => ({ prompt: plain(messages), n_predict: outputTokens, cache_prompt: true }),
};

function wire({ role, text }: Message): object {
  return { role, content: text };
}

/** Dialects without messages get the text of all messages: each request's text is a prefix of the next one's. */
function plain(messages: readonly Message[]): string {
  return messages.map(({ role, text }, at) => (at === 0 || role === 'assistant' ? text : `\n${text}`)).join('');
}
