// The fleet of a locality run without HTTP: engines whose caches can be seen, in virtual time, and the oracle that chooses
// between them.
import t from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/index.ts';
import { DEFAULT_OPTIONS } from '../../src/host/completion-options.ts';
import type { CompletionEnd, Run, Task, Turn } from '../../src/host/model-engine.ts';
import { benchModule } from './modules.ts';

interface Counters {
  readonly requests: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly stepUs: number;
}

interface Engine {
  readonly backlogTokens: number;
  readonly requests: number;
  readonly expect: (tokens: Int32Array) => void;
  readonly complete: (task: Task, sink: object) => Run;
  readonly missing: (tokens: Int32Array) => number;
  readonly tokensOf: (prompt: object) => Int32Array;
  readonly counters: () => Counters;
  readonly figures: () => { readonly running: number; readonly waiting: number; readonly cacheTokens: number };
}

interface EngineModule {
  readonly BlockEngine: new (settings: object) => Engine;
  readonly createOracle: (engines: readonly Engine[]) => (prompt: object) => number;
  readonly tokensOf: (turns: readonly Turn[]) => Int32Array;
}

interface Traces {
  readonly generate: (name: string, settings: object) => object[];
  readonly chatBodies: (requests: readonly object[], settings: object) => (request: object) => Buffer;
}

const { BlockEngine, createOracle, tokensOf } = await benchModule<EngineModule>('locality/block-engine.mjs');
const { generate, chatBodies } = await benchModule<Traces>('locality/traces.mjs');

const SPEED = { stepUs: 1000, sequenceUs: 50, memoryTokenUs: 0, prefillTokenUs: 2, maxBatchTokens: 4096 };

const engineOf = (clock: ManualClock, cacheBlocks: number): Engine =>
  new BlockEngine({ model: 'm', cacheBlocks, speed: SPEED, blockBytes: 512, clock });

/** Sends a chat; `texts` gets what the engine says, `ends` its end. */
function send(
  engine: Engine,
  turns: readonly Turn[],
  maxTokens = 2,
): { texts: string[]; ends: CompletionEnd[]; run: Run } {
  const texts: string[] = [];
  const ends: CompletionEnd[] = [];
  const task: Task = {
    model: 'm',
    prompt: { kind: 'chat', turns, speaks: 'prose' },
    options: { ...DEFAULT_OPTIONS, cache_prompt: true, n_predict: maxTokens },
    whenFull: 'stop',
    timingsId: null,
  };
  const sink = { start() {}, text: (text: string) => texts.push(text), end: (end: CompletionEnd) => ends.push(end) };
  return { texts, ends, run: engine.complete(task, sink) };
}

const user = (text: string): Turn => ({ role: 'user', text });

t.test('a prompt that was seen is found in the cache, and counted', async (t) => {
  const clock = createManualClock();
  const engine = engineOf(clock, 16);
  const turns = [user('a'.repeat(4 * 1024))];
  const first = send(engine, turns);
  t.match(engine.figures(), { waiting: 0, running: 1 });
  clock.advance(20);
  t.strictSame(first.texts.join(''), ' word word');
  t.match(first.ends, [{ reason: 'limit', promptTokens: 1026, cachedTokens: 0, generatedTokens: 2 }]);
  t.equal(engine.missing(tokensOf(turns)), 2);
  const second = send(engine, turns);
  clock.advance(20);
  t.match(second.ends, [{ cachedTokens: 1024 }]);
  t.match(engine.counters(), { requests: 2, promptTokens: 2052, cachedTokens: 1024 });
  t.match(engine.figures(), { running: 0, cacheTokens: (16 * 512) / 4 });
});

t.test('what was announced counts as waiting until its first token, and its blocks as there', async (t) => {
  const clock = createManualClock();
  const engine = engineOf(clock, 200);
  const prompts = ['b', 'c'].map((letter) => [user(letter.repeat(4 * 9000))]);
  for (const prompt of prompts) engine.expect(tokensOf(prompt));
  t.strictSame(
    [engine.backlogTokens, engine.requests],
    [2 * 9002, 2],
    'a token each, the role, and that of the answer',
  );
  t.equal(engine.missing(tokensOf(prompts[0]!)), 9002 - 8992);
  const [first, second] = prompts.map((prompt) => send(engine, prompt));
  second!.run.cancel();
  t.strictSame([engine.backlogTokens, engine.requests], [9002, 1]);
  clock.advance(1000);
  t.strictSame([engine.backlogTokens, engine.requests], [0, 0]);
  t.equal(first!.ends.length, 1);
  t.match(engine.figures(), { waiting: 0, running: 0 });
});

t.test('tokens depend on roles and on all characters', async (t) => {
  t.equal(tokensOf([user('abcde')]).length, 4);
  t.notSame(tokensOf([user('abcd')]), tokensOf([user('abdc')]));
  t.notSame(tokensOf([user('abcd')]), tokensOf([{ role: 'system', text: 'abcd' }]));
  t.throws(
    () => new BlockEngine({ model: 'm', cacheBlocks: 4, speed: SPEED, blockBytes: 700 }),
    /must be a multiple of 128, not 700/,
  );
});

t.test(
  'the oracle goes where the prompt is, unless too much waits there, and to the least used otherwise',
  async (t) => {
    const clock = createManualClock();
    const engines = [0, 1, 2].map(() => engineOf(clock, 64));
    const choose = createOracle(engines);
    const prompt = { turns: [user('d'.repeat(4096))] };
    send(engines[1]!, prompt.turns);
    clock.advance(100);
    t.equal(choose(prompt), 1);
    t.strictSame([choose({ turns: [user('e')] }), choose({ turns: [user('f')] })], [0, 2]);
    engines[1]!.expect(tokensOf([user('g'.repeat(20_000))]));
    t.not(choose(prompt), 1);
  },
);

/** Runs a workload through engines in virtual time, each request where `choose` says; the token hit rate. */
function hitRate(choose: (engines: readonly Engine[]) => (prompt: { turns: Turn[] }, at: number) => number): number {
  const requests = generate('agents', { requests: 150 });
  const bodyOf = chatBodies(requests, { model: 'm', blockBytes: 512 });
  const clock = createManualClock();
  const engines = [0, 1, 2, 3].map(() => engineOf(clock, 400));
  const policy = choose(engines);
  for (const [at, request] of requests.entries()) {
    const { messages } = JSON.parse(bodyOf(request).toString()) as {
      messages: { role: Turn['role']; content: string }[];
    };
    const turns = messages.map(({ role, content }) => ({ role, text: content }));
    send(engines[policy({ turns }, at)]!, turns);
    clock.advance(150);
  }
  clock.advance(10_000);
  const all = engines.map((engine) => engine.counters());
  const sum = (of: (counters: Counters) => number): number => all.reduce((total, one) => total + of(one), 0);
  t.equal(
    sum(({ requests: ended }) => ended),
    150,
  );
  return sum(({ cachedTokens }) => cachedTokens) / sum(({ promptTokens }) => promptTokens);
}

t.test('with the oracle a fleet finds far more of its prompts than by turns, the same each time', async (t) => {
  const oracle = hitRate(createOracle);
  t.ok(oracle > 0.8, `oracle ${oracle}`);
  t.equal(hitRate(createOracle), oracle);
  const turns = hitRate(() => (_, at) => at % 4);
  t.ok(turns < oracle - 0.1, `by turns ${turns}`);
});
