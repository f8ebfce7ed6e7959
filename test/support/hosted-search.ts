// A gateway with a search engine of the test and a CRN that speaks chat only, for hosted web search.

import type { Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import type { EngineHit, InProcessEngine } from '../../src/search/index.ts';
import type { Answer } from './fake-engine.ts';
import {
  CHAT_PATH,
  chatStream,
  chunk,
  finish,
  type Json,
  type ScriptedChat,
  startScriptedChat,
  usageChunk,
} from './scripted-chat.ts';

export const MODEL = 'atlas-27b';
export const KEY = 'hr_hosted';

type Hits = (query: string) => readonly EngineHit[] | Promise<readonly EngineHit[]>;

const usualHits: Hits = (query) => [
  { title: `About ${query}`, url: `https://www.one.example/${encodeURIComponent(query)}`, snippet: 'It is 42 m high.' },
  { title: 'Another page', url: 'https://two.example/a_(b)', snippet: 'It was built in 1900.' },
];

/** An engine that finds what the test says, and keeps what it was asked. */
class TestEngine {
  readonly queries: string[] = [];
  readonly aborted: string[] = [];
  hits = usualHits;

  reset(): void {
    this.queries.length = this.aborted.length = 0;
    this.hits = usualHits;
  }

  readonly engine: InProcessEngine = {
    kind: 'test',
    documentation: 'https://example.com/',
    types: ['web'],
    search: async ({ query }, signal) => {
      this.queries.push(query);
      signal.addEventListener('abort', () => this.aborted.push(query));
      return [...(await this.hits(query))];
    },
  };
}

export interface HostedGateway {
  readonly gateway: Gateway;
  readonly url: string;
  readonly adminUrl: string | null;
  readonly chat: ScriptedChat;
  readonly engine: TestEngine;
  /** Forgets what was asked, and finds what it found at first. */
  reset(): void;
  /** Bodies that the CRN got, of the rounds. */
  rounds(): Json[];
  /** A request to the gateway. */
  post(path: string, body: object, init?: RequestInit): Promise<Response>;
}

/** `pricing`: of the model. */
export async function startHosted(
  t: Pick<Test, 'teardown'>,
  {
    pricing,
    search,
    ...more
  }: SettingsInput & { readonly pricing?: { readonly prompt: string; readonly completion: string } } = {},
): Promise<HostedGateway> {
  const chat = await startScriptedChat(t);
  const engine = new TestEngine();
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    models: { [MODEL]: { servers: [chat.url], ...(pricing !== undefined && { pricing }) } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
    search: { engines: { mine: engine.engine }, default: ['mine'], ...search },
    log: { level: 'silent' },
    health: { interval: '1h' },
    timeouts: { drain: '50ms' },
    webSearchTool: true,
    ...more,
  });
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  await gateway.ready();
  return {
    ...{ gateway, url, adminUrl, chat, engine },
    reset: () => {
      chat.forget();
      engine.reset();
    },
    rounds: () => chat.requests.filter(({ path }) => path === CHAT_PATH).map(({ body }) => body),
    post: (path, body, init = {}) =>
      fetch(`${url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: MODEL, ...body }),
        ...init,
      }),
  };
}

const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

/** A model that calls functions. Names and arguments take turns. */
export function calls(...called: readonly (readonly [name: string, args: string])[]): Answer {
  const parts = called.map(([name, args], index) =>
    chunk({ tool_calls: [{ index, id: `call_${index}`, type: 'function', function: { name, arguments: args } }] }),
  );
  return chatStream(chunk({ role: 'assistant', content: '' }), ...parts, finish('tool_calls'), usageChunk(USAGE));
}

/** A model that searches. */
export function searches(...queries: readonly string[]): Answer {
  return calls(...queries.map((query) => ['web_search', JSON.stringify({ query })] as const));
}

/** A model that says these pieces. */
export function says(...pieces: readonly string[]): Answer {
  const said = pieces.map((content) => chunk({ content }));
  return chatStream(chunk({ role: 'assistant', content: '' }), ...said, finish('stop'), usageChunk(USAGE));
}
