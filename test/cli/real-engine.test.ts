import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { type RealEngineOptions, startRealEngine, wantsRealEngine } from '../../src/cli/real-engine.ts';
import { UsageError } from '../../src/cli/io.ts';
import { startFakeOpenAi, startFakeVllm } from '../support/fake-vllm.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

type Options = Readonly<Record<string, string | number | boolean>>;

/** Options of other parts of the command are there, too. */
const given = (options: Options): RealEngineOptions => options;

const start = (options: Options, env: Readonly<Record<string, string>> = {}) =>
  startRealEngine(options, env, () => undefined);

t.test('knows which options ask for a real engine', async (t) => {
  t.notOk(wantsRealEngine({ model: 'a' }));
  t.notOk(wantsRealEngine(given({ model: 'a', engine: 'simulated', slots: 2, control: true })));
  t.ok(wantsRealEngine({ engine: 'http://127.0.0.1:8080', context: 4096 }));
  t.ok(wantsRealEngine(given({ gguf: 'a.gguf', slots: 2, threads: 1, tokens: 9 })));
});

t.test('refuses options that cannot be combined', async (t) => {
  const engine = 'https://engine.example/v1';
  const cases: [Options, string][] = [
    [{ engine: 'gpu' }, '--engine takes "simulated" or the URL of an engine, not gpu'],
    [{ engine, gguf: 'x.gguf' }, '--engine cannot be combined with --gguf'],
    [{ engine, slots: 2 }, '--slots cannot be combined with --engine URL'],
    [{ engine, fleet: 'plan.yaml' }, '--fleet cannot be combined with --engine URL'],
    [{ engine, variation: true }, '--variation cannot be combined with --engine URL'],
    [{ engine, slowdown: 2 }, '--slowdown cannot be combined with --engine URL'],
    [{ engine, network: 2 }, '--network cannot be combined with --engine URL'],
    [{ gguf: 'x.gguf', speed: 2 }, '--speed cannot be combined with --gguf'],
    [{ gguf: 'x.gguf', engineKey: 'k' }, '--engine-key cannot be combined with --gguf'],
    [{ model: 'a', engineWait: 1000 }, '--engine-wait cannot be combined with the simulated engine'],
    [{ model: 'a', threads: 1 }, '--threads cannot be combined with the simulated engine'],
  ];
  for (const [options, message] of cases) t.throws(() => wantsRealEngine(options), new UsageError(message));
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
  const key = { engineKey: 'engine-key' };
  await t.rejects(start({ engine: engine.url }), { message: /refuses the key of the host \(401\)$/ });
  await t.rejects(start({ engine: engine.url, ...key, model: 'a,b' }), {
    message: /has no model a; it has org\/Tiny-8B$/,
  });
  await t.rejects(start({ engine: page.url }), { message: /is no engine: \/v1\/models answered 200/ });
  await t.rejects(start({ gguf: '/nowhere.gguf' }), { message: 'there is no file /nowhere.gguf' });
  const file = join(temporaryFolder(t), 'page.gguf');
  await writeFile(file, '<html></html>');
  await t.rejects(start({ gguf: file }), { message: /page\.gguf cannot be loaded as a model: it does not begin/ });
});

t.test('takes the key of the engine from a flag, else from the environment', async (t) => {
  const fake = await startFakeVllm();
  t.teardown(() => fake.close());
  fake.key = 'engine-key';
  const env = { HEADRACE_ENGINE_KEY: 'engine-key' };
  for (const [options, variables] of [
    [{ engineKey: 'engine-key' }, { HEADRACE_ENGINE_KEY: 'wrong' }],
    [{}, env],
  ] as const) {
    const { engine, sentence } = await start({ engine: fake.url, ...options }, variables);
    t.match(sentence, `${fake.url} is vLLM 0.11.0`);
    await engine.close();
  }
});
