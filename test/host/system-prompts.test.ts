// A system prompt stands in front of the prompts of those it is meant for, and of nobody else's.
import type { Test } from 'tap';
import t from 'tap';
import { attachEngine } from '../../src/host/attached/attached-engine.ts';
import { type HostSettings, createHost } from '../../src/host/index.ts';
import { SystemPrompts } from '../../src/host/system-prompts.ts';
import { LLAMA_MODEL, startFakeLlamaServer } from '../support/fake-llama-server.ts';
import { MODEL, settingsFor, startSystem } from '../support/system.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import type { Answer } from './llama/ask.ts';

const ENGINE = { engine: { speed: 'virtual', slots: 4 } } as const;
const KEYS = [
  { key: 'hr_anna', account: 'anna' },
  { key: 'hr_anna_2', account: 'anna' },
  { key: 'hr_ben', account: 'ben' },
];
const SYSTEM = { prompt: 'You are a fish in a deep and quiet river.', anti_prompt: 'User:', assistant_name: 'Fish' };

interface Sent {
  readonly status: number;
  readonly answer: Answer;
}

async function post(url: string, key: string, path: string, body: object): Promise<Sent> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key !== '' && { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({ model: MODEL, ...body }),
  });
  return { status: response.status, answer: await response.json() };
}

/** Prompt tokens of a completion and of a chat, both the same for every key but for its system prompt. */
async function promptTokens(url: string, key: string): Promise<[number, number]> {
  const completion = await post(url, key, '/completion', { prompt: 'x', n_predict: 1 });
  const messages = [{ role: 'user', content: 'x' }];
  const chat = await post(url, key, '/v1/chat/completions', { messages, max_tokens: 1 });
  return [completion.answer.tokens_evaluated, chat.answer.usage.prompt_tokens];
}

async function startHost(t: Test, settings: Partial<HostSettings>): Promise<string> {
  const host = createHost({ models: [MODEL], ...ENGINE, ...settings });
  t.teardown(() => host.kill());
  return host.listen();
}

t.test("changes the prompts of its account alone, whichever of the account's keys asks", async (t) => {
  const url = await startHost(t, { keys: KEYS });
  const before = await promptTokens(url, 'hr_ben');
  t.equal((await post(url, 'hr_anna', '/completion', { system_prompt: SYSTEM, n_predict: 0 })).status, 200);
  t.same(await promptTokens(url, 'hr_ben'), before);
  const after = await promptTokens(url, 'hr_anna_2');
  t.ok(after[0] > before[0] && after[1] > before[1]);
  const propsOf = async (key: string): Promise<Answer> =>
    (await fetch(`${url}/props`, { headers: { authorization: `Bearer ${key}` } })).json();
  t.match(await propsOf('hr_anna'), { system_prompt: SYSTEM.prompt, assistant_name: 'Fish', anti_prompt: 'User:' });
  t.match(await propsOf('hr_ben'), { system_prompt: '', assistant_name: '', anti_prompt: '' });
  const counted = async (key: string): Promise<number> => {
    const messages = [{ role: 'user', content: 'x' }];
    return (await post(url, key, '/v1/messages/count_tokens', { messages, max_tokens: 1 })).answer.input_tokens;
  };
  t.equal((await counted('hr_anna')) - (await counted('hr_ben')), after[1] - before[1]);
});

t.test('changes the prompts of every caller where the setting says so, and where no key is needed', async (t) => {
  for (const settings of [{ keys: KEYS, systemPrompt: 'all' }, {}] as const) {
    const url = await startHost(t, settings);
    const [anna, ben] = 'keys' in settings ? ['hr_anna', 'hr_ben'] : ['', ''];
    const before = await promptTokens(url, ben);
    await post(url, anna, '/completion', { system_prompt: SYSTEM, n_predict: 0 });
    t.ok((await promptTokens(url, ben))[0] > before[0]);
    await post(url, ben, '/completion', { system_prompt: '', n_predict: 0 });
    t.same(await promptTokens(url, anna), before, 'and any of them takes it back');
  }
});

t.test('is refused where the setting says so', async (t) => {
  for (const keys of [KEYS, undefined]) {
    const url = await startHost(t, { ...(keys !== undefined && { keys }), systemPrompt: 'off' });
    const { status, answer } = await post(url, 'hr_anna', '/completion', { prompt: 'x', system_prompt: 'y' });
    t.equal(status, 422);
    t.match(answer, { detail: [{ loc: ['body', 'system_prompt'], type: 'value_error' }] });
    t.equal((await post(url, 'hr_anna', '/infill', { input_prefix: 'x', system_prompt: 'y' })).status, 422);
  }
});

t.test('two tenants of a gateway keep theirs apart', async (t) => {
  const settings = { keys: { static: KEYS } };
  const { url } = await startSystem(t, { hosts: [{ ...ENGINE, keys: KEYS }], settings });
  const before = await promptTokens(url, 'hr_ben');
  t.equal(
    (await post(url, 'hr_anna', '/completions', { prompt: 'x', system_prompt: SYSTEM, n_predict: 1 })).status,
    200,
  );
  t.same(await promptTokens(url, 'hr_ben'), before);
  t.ok((await promptTokens(url, 'hr_anna_2'))[1] > before[1]);
});

t.test('so do tenants of two gateways that have one credential of their own', async (t) => {
  const host = createHost({ models: [MODEL], ...ENGINE, keys: ['hr_gateway'] });
  t.teardown(() => host.kill());
  await host.listen();
  const models = { [MODEL]: { servers: [{ url: host.url, apiKey: 'hr_gateway' }] } };
  const start = async (): Promise<string> => {
    const gateway = createGateway({ ...settingsFor([host]), models, keys: { static: KEYS } });
    t.teardown(() => gateway.close());
    const { url } = await gateway.listen();
    await gateway.ready();
    return url;
  };
  const [one, other] = [await start(), await start()];
  const evaluated = async (url: string, key: string, headers = {}): Promise<number> => {
    const response = await fetch(`${url}/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
      body: JSON.stringify({ model: MODEL, prompt: 'x', n_predict: 1 }),
    });
    t.equal(response.status, 200);
    return ((await response.json()) as Answer).tokens_evaluated;
  };
  const before = await evaluated(one, 'hr_ben');
  const set = await post(one, 'hr_anna', '/completions', { prompt: 'x', system_prompt: SYSTEM, n_predict: 1 });
  t.same([set.status, set.answer.detail], [200, undefined]);
  t.equal(await evaluated(one, 'hr_ben'), before);
  t.equal(await evaluated(other, 'hr_ben'), before);
  t.ok((await evaluated(one, 'hr_anna')) > before);
  t.ok((await evaluated(other, 'hr_anna_2')) > before, 'an account is the same account behind either gateway');
  const mark = host.requests.findLast(({ path }) => path === '/completion')!.headers['x-headrace-account'];
  t.match(mark, /^[\w-]{22}$/);
  t.equal(await evaluated(one, 'hr_ben', { 'x-headrace-account': String(mark) }), before, 'clients cannot say it');
});

t.test('reaches completions of attached engines and nothing else', async (t) => {
  const fake = await startFakeLlamaServer();
  t.teardown(() => fake.close());
  const url = await startHost(t, {
    models: [LLAMA_MODEL],
    engine: await attachEngine({ url: fake.url }),
    keys: KEYS,
  });
  const model = LLAMA_MODEL;
  await post(url, 'hr_anna', '/completion', { model, prompt: 'Hi', system_prompt: SYSTEM });
  const withSystem = [1, ...Buffer.from(SYSTEM.prompt), 'Hi'];
  t.same(fake.last('/completion').body['prompt'], withSystem);
  await post(url, 'hr_anna', '/completion', { model, prompt: 'Hi' });
  t.same(fake.last('/completion').body['prompt'], withSystem);
  await post(url, 'hr_ben', '/completion', { model, prompt: 'Hi' });
  t.same(fake.last('/completion').body['prompt'], 'Hi');
  const messages = [{ role: 'user', content: 'Hi' }];
  await post(url, 'hr_anna', '/v1/chat/completions', { model, messages });
  t.same(fake.last('/v1/chat/completions').body['messages'], messages);
  t.notMatch(JSON.stringify(fake.requests), 'system_prompt', 'the engine never hears of the option');
});

t.test('keeps a bounded number of characters, those used last', (t) => {
  const prompts = new SystemPrompts('account');
  const prompt = 'x'.repeat(1024 * 1024 - 10);
  t.throws(() => prompts.set('m', 'a', { prompt: 'x'.repeat(1024 * 1024 + 1), anti_prompt: '', assistant_name: '' }), {
    message: /system_prompt.*1048576 is the most/,
  });
  for (let at = 0; at < 70; at++) {
    prompts.set('m', `account-${at}`, { prompt, anti_prompt: '', assistant_name: '' });
    prompts.of('m', 'account-0');
  }
  t.equal(prompts.of('m', 'account-0').prompt.length, prompt.length);
  t.equal(prompts.of('m', 'account-1').prompt, '');
  t.equal(prompts.of('m', 'account-69').prompt.length, prompt.length);
  t.end();
});
