// Who gets an error object beside `detail`, and in which dialect.

import t from 'tap';
import { decoratorFor, type ErrorSettings, hasSdkMark } from '../../src/api/refuse.ts';
import { HeadraceError } from '../../src/errors.ts';
import { DetachedExchange } from '../../src/ingress/detached-exchange.ts';
import { Body, BodyBudget } from '../../src/ingress/body.ts';
import type { Exchange } from '../../src/ingress/exchange.ts';

/** As captured from the clients of these names, but for the lines that say `documented`. */
const AGENTS: readonly string[] = [
  'OpenAI/JS 6.49.0',
  'OpenAI/Python 3.54.0',
  'AsyncOpenAI/Python 2.20.0',
  'AzureOpenAI/JS 7.55.0',
  'Anthropic/JS 0.122.0',
  'AsyncAnthropic/Python 2.12.0',
  'Agents/JavaScript 0.20.0',
  'Agents/Python 0.24.0',
  'ai/7.0.173 ai-sdk-provider-utils/5.0.81 node.js/22',
  'ai-sdk-openai-compatible/3.0.92 ai-sdk-provider-utils/5.0.81 node.js/22',
  'opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14',
  'langchain-anthropic/1.7.7',
  'langchainjs-openai/1.0.0 ((node/v22.23.3; linux; x64))',
  'langchain4j-openai',
  'litellm/1.81.10',
  'ollama-js/0.6.4 (x64 linux Node.js/v26.10.0)',
  'ollama-python/0.6.3 (x86_64 linux) Python/3.11.7',
  'claude-cli/2.1.197 (external, sdk-cli)',
  'codex_exec/0.169.0 (Debian 12.0.0; x86_64) dumb (codex_exec; 0.169.0)',
  // Documented.
  'ollama/0.17.4 (amd64 linux) Go/go1.26.8',
  'app/1.0 azsdk-net-AI.OpenAI/2.1.0 (.NET 9.0.0; Linux)',
  'Semantic-Kernel/1.30 (.NET)',
  'RooCode/3.30.0',
];

const OTHERS: readonly string[] = [
  'curl/8.5.0',
  'node',
  'undici',
  'Bun/1.4.0',
  'python-requests/2.32.5',
  'Python/3.11 aiohttp/3.13.3',
  'python-httpx/0.28.1',
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0 Safari/537.36',
  'Mozilla/5.0 (compatible; OpenAI)',
  'rai/1.0',
  'mail/2',
  'Chai/4',
];

function exchange(path: string, headers: readonly string[]): Exchange {
  const head = { method: 'POST', path, query: '', headers, remoteAddress: '' };
  const body = new Body(new BodyBudget(1000), { maxBodyBytes: 10, bodyIdleMs: 10 }, 0, 0);
  const sink = { piece: () => true, end: () => undefined, broken: () => undefined };
  return new DetachedExchange(head, body, 0, sink);
}

const ERROR = new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: 'x' });

function members(
  path: string,
  headers: readonly string[],
  errorBodies: ErrorSettings['errorBodies'] = 'auto',
): unknown {
  const of = exchange(path, headers);
  return decoratorFor(of, { errorBodies })?.(of, ERROR);
}

t.test('SDKs are known by their user agents and headers, others are not', async (t) => {
  for (const agent of AGENTS) t.ok(hasSdkMark({ headers: ['user-agent', agent] }), agent);
  for (const agent of OTHERS) t.notOk(hasSdkMark({ headers: ['user-agent', agent] }), agent);
  t.ok(hasSdkMark({ headers: ['user-agent', OTHERS[7] as string, 'x-stainless-lang', 'js'] }), 'an SDK in a browser');
  t.ok(hasSdkMark({ headers: ['anthropic-version', '2023-06-01'] }));
  t.notOk(hasSdkMark({ headers: [] }));
});

t.test('the error object is that of the path, below /v1 that of the SDK', async (t) => {
  const openai = ['user-agent', 'OpenAI/JS 6.49.0'];
  const anthropic = ['anthropic-version', '2023-06-01'];
  const message = "Model 'x' not found";
  const ofOpenai = { error: { message, type: 'invalid_request_error', param: null, code: 'HR_ROUTE_UNKNOWN_MODEL' } };
  const ofAnthropic = { type: 'error', error: { type: 'not_found_error', message } };
  for (const path of ['/v1/chat/completions', '/v1/completions', '/v1/responses', '/v1/embeddings', '/v1', '/v1//x/']) {
    t.match(members(path, openai), ofOpenai, path);
  }
  for (const path of ['/v1/messages', '/v1/messages/count_tokens', '/v1/messages/batches', '/v1/models/x']) {
    t.same(members(path, anthropic), ofAnthropic, path);
  }
  t.match(members('/completions', openai), { error: { message, code: 404 } });
  t.same(members('/api/chat', ['user-agent', 'ollama-js/0.6.4']), { error: message }, 'that of Ollama is a sentence');
  for (const path of ['/search', '/svc/models', '/v1beta', '/any']) t.equal(members(path, openai), undefined, path);
});

t.test('everybody else gets detail alone; the setting decides for all', async (t) => {
  const path = '/v1/embeddings';
  t.equal(members(path, ['user-agent', 'curl/8.5.0']), undefined);
  t.equal(members(path, ['user-agent', 'OpenAI/JS 6.49.0'], 'contract'), undefined);
  t.match(members(path, ['user-agent', 'curl/8.5.0'], 'dialect'), { error: {} });
});
