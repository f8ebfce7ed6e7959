import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { startRealEngine, wantsRealEngine } from '../../src/cli/real-engine.ts';
import { UsageError } from '../../src/cli/args.ts';
import { startFakeOpenAi, startFakeVllm } from '../support/fake-vllm.ts';

const NO_COUNTS = { slots: undefined, contextTokens: undefined, threads: undefined };

type Flags = Record<string, string>;

const start = (flags: Flags, env: Flags = {}) => startRealEngine(flags, NO_COUNTS, env, () => undefined);

t.test('knows which flags ask for a real engine', async (t) => {
  t.notOk(wantsRealEngine({ model: 'a' }));
  t.notOk(wantsRealEngine({ model: 'a', engine: 'simulated', slots: '2', control: 'true' }));
  t.ok(wantsRealEngine({ engine: 'http://127.0.0.1:8080', context: '4096' }));
  t.ok(wantsRealEngine({ gguf: 'a.gguf', slots: '2', threads: '1', tokens: '9' }));
});

t.test('refuses flags that do not go together', async (t) => {
  const engine = 'https://engine.example/v1';
  const cases: [Flags, string][] = [
    [{ engine: 'gpu' }, '--engine takes "simulated" or the URL of an engine, not gpu'],
    [{ engine, gguf: 'x.gguf' }, '--engine and --gguf exclude each other'],
    [{ engine, slots: '2' }, '--slots means nothing to a host with an engine of its own'],
    [{ engine, fleet: 'plan.yaml' }, '--fleet means nothing to a host with an engine of its own'],
    [{ gguf: 'x.gguf', speed: '2' }, '--speed means nothing to a host with a model file'],
    [{ gguf: 'x.gguf', 'engine-key': 'k' }, '--engine-key means nothing to a host with a model file'],
    [{ model: 'a', 'engine-wait': '1s' }, '--engine-wait means nothing to a host with the simulated engine'],
    [{ model: 'a', threads: '1' }, '--threads means nothing to a host with the simulated engine'],
  ];
  for (const [flags, message] of cases) t.throws(() => wantsRealEngine(flags), new UsageError(message));
  await t.rejects(start({ engine, 'engine-wait': 'soon' }), new UsageError('--engine-wait takes a time such as 30s'));
  await t.rejects(
    start({ gguf: 'x.gguf', model: 'a,b' }),
    new UsageError('a model file is one model: --model takes one name'),
  );
});

t.test('tells in a sentence why an engine cannot be had', async (t) => {
  const engine = await startFakeVllm();
  const page = await startFakeOpenAi();
  t.teardown(() => Promise.all([engine.close(), page.close()]));
  engine.key = 'engine-key';
  page.answers.set('/v1/models', (_, response) => response.end('<html></html>'));
  const key = { 'engine-key': 'engine-key' };
  await t.rejects(start({ engine: engine.url }), { message: /refuses the key of the host \(401\)$/ });
  await t.rejects(start({ engine: engine.url, ...key, model: 'a,b' }), {
    message: /has no model a; it has org\/Tiny-8B$/,
  });
  await t.rejects(start({ engine: page.url }), { message: /is no engine: \/v1\/models answered 200/ });
  await t.rejects(start({ gguf: '/nowhere.gguf' }), { message: 'there is no file /nowhere.gguf' });
  const file = join(t.testdir(), 'page.gguf');
  await writeFile(file, '<html></html>');
  await t.rejects(start({ gguf: file }), { message: /page\.gguf is no model that can be loaded: it does not begin/ });
});

t.test('takes the key of the engine from a flag, else from the environment', async (t) => {
  const fake = await startFakeVllm();
  t.teardown(() => fake.close());
  fake.key = 'engine-key';
  const env = { HEADRACE_ENGINE_KEY: 'engine-key' };
  for (const [flags, variables] of [
    [{ 'engine-key': 'engine-key' }, { HEADRACE_ENGINE_KEY: 'wrong' }],
    [{}, env],
  ] as const) {
    const { engine, sentence } = await start({ engine: fake.url, ...flags }, variables);
    t.match(sentence, `${fake.url} is vLLM 0.11.0`);
    await engine.close();
  }
});
