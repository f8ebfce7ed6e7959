import type { CompletionOptions } from '../../../src/host/completion-options.ts';
import { loadLlamaModule } from '../../../src/host/gguf/binding.ts';
import { loadGguf } from '../../../src/host/gguf/gguf-engine.ts';
import { PromptTooLong } from '../../../src/host/model-engine.ts';
import { BYTE, createFakeLlamaCpp, EOS, tokensOf } from '../../support/fake-llama-cpp.ts';
import { refusedPlaces } from '../attached/attach.ts';
import { begin, complete, loadFake, writeTiny } from './load.ts';
import t from 'tap';

t.test('says how to install the package when it is missing', async (t) => {
  await t.rejects(loadLlamaModule('no-such-package-anywhere'), {
    message:
      'serving a GGUF file needs the package node-llama-cpp; install it beside headrace: npm install node-llama-cpp@3.22.1',
  });
});

t.test('loads a file without ever building anything', async (t) => {
  const { engine, fake } = await loadFake(t, { slots: 2, gpu: false });
  t.match(fake.options[0], { build: 'never', gpu: false });
  t.match(fake.options[1], { modelPath: /tiny\.gguf$/ });
  t.same(fake.options[2], { sequences: 2, contextSize: { max: 256 } });
  t.same(engine.models, ['tiny']);
  t.equal(engine.contextTokens(), 256);
  t.equal(engine.health(), 'ready');
  t.match(engine.props(), { slots: 2, isMultimodal: false });
  await engine.close();
  t.equal(fake.disposed, 3);
  const named = await loadFake(t, { model: 'mine', contextTokens: 64 });
  t.same(named.engine.models, ['mine']);
  t.equal(named.engine.contextTokens(), 64);
});

t.test('reports what is wrong with a file or a model', async (t) => {
  await t.rejects(loadGguf({ path: '/nowhere.gguf' }), { message: 'there is no file /nowhere.gguf' });
  const fake = createFakeLlamaCpp();
  const module = {
    ...fake.module,
    getLlama: async () => ({
      ...(await fake.module.getLlama({})),
      loadModel: () => Promise.reject(new Error('not enough memory')),
    }),
  };
  await t.rejects(loadGguf({ path: await writeTiny(t), module }), {
    message: /tiny\.gguf cannot be loaded: not enough memory$/,
  });
  t.equal(fake.disposed, 1);
});

t.test('hands every option that it has to the sampler', async (t) => {
  const { engine, fake } = await loadFake(t, { random: () => 0.5 });
  const cases: readonly [Partial<CompletionOptions>, Record<string, unknown>][] = [
    [{}, { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05, seed: 2 ** 31, yieldEogToken: true }],
    [{}, { repeatPenalty: { penalty: 1.1, frequencyPenalty: 0, presencePenalty: 0, maxPunishTokens: 64 } }],
    [{ temperature: -1 }, { temperature: 0 }],
    [{ top_k: -3 }, { topK: 0 }],
    [{ top_p: 0.5 }, { topP: 0.5 }],
    [{ min_p: 0.2 }, { minP: 0.2 }],
    [{ seed: 7 }, { seed: 7 }],
    [
      { repeat_penalty: 1.3, presence_penalty: 0.1, frequency_penalty: 0.2 },
      { repeatPenalty: { penalty: 1.3, presencePenalty: 0.1, frequencyPenalty: 0.2 } },
    ],
    [{ repeat_last_n: -1 }, { repeatPenalty: { maxPunishTokens: 256 } }],
    [{ repeat_last_n: 0 }, { repeatPenalty: undefined }],
    [{ grammar: 'root ::= "a"' }, { grammarEvaluationState: { grammar: { grammar: 'root ::= "a"' } } }],
  ];
  for (const [options, expected] of cases) {
    await complete(engine, options);
    t.match(fake.evaluations.at(-1)!.options, expected, JSON.stringify(options));
  }
});

t.test('punishes the last tokens, and spares newlines when asked to', async (t) => {
  const { engine, fake } = await loadFake(t);
  fake.says = 'a\nb';
  await complete(engine, { repeat_last_n: 4 }, 'xyz');
  t.same(fake.evaluations.at(-1)!.options!.repeatPenalty!.punishTokens(), tokensOf('za\nb'));
  await complete(engine, { repeat_last_n: 4, penalize_nl: false }, 'xyz');
  t.same(fake.evaluations.at(-1)!.options!.repeatPenalty!.punishTokens(), tokensOf('zab'));
});

t.test('biases tokens by number and by text', async (t) => {
  const { engine, fake } = await loadFake(t);
  await complete(engine, {
    logit_bias: [
      [100, 1.5],
      [101, false],
      ['a', -2],
      [99_999, 1],
    ],
  });
  t.same(fake.biases, { 100: { logit: 1.5 }, 101: 'never', [BYTE + 97]: { logit: -2 } });
  t.ok(fake.evaluations.at(-1)!.options!.tokenBias);
  t.same(
    refusedPlaces(() => begin(engine, { logit_bias: [[EOS, false]] })),
    ['body.logit_bias.0'],
  );
});

t.test('refuses by name what the sampler has not', async (t) => {
  const { engine, fake } = await loadFake(t);
  const cases: readonly [Partial<CompletionOptions>, string[]][] = [
    [{ tfs_z: 0.9 }, ['body.tfs_z']],
    [{ typical_p: 0.9 }, ['body.typical_p']],
    [{ mirostat: 2 }, ['body.mirostat']],
    [{ ignore_eos: true }, ['body.ignore_eos']],
    [{ image_data: [{ id: 1, data: '' }] }, ['body.image_data']],
    [{ tfs_z: 0.9, mirostat: 1 }, ['body.tfs_z', 'body.mirostat']],
    [{ grammar: 'root ::= (' }, ['body.grammar']],
    [{ slot_id: 4 }, ['body.slot_id']],
    [{ n_probs: 101 }, ['body.n_probs']],
  ];
  for (const [options, places] of cases)
    t.same(
      refusedPlaces(() => begin(engine, options)),
      places,
    );
  t.same(
    refusedPlaces(() => begin(engine, {}, { kind: 'parts', parts: ['a', 99_999] })),
    ['body.prompt.1'],
  );
  t.equal(fake.evaluations.length, 0);
});

t.test('makes a prompt of every shape', async (t) => {
  const { engine, fake } = await loadFake(t);
  const evaluated = async (prompt: Parameters<typeof begin>[2], system = ''): Promise<number[]> => {
    await complete(engine, {}, prompt, 'shift', undefined, system);
    return fake.evaluations.at(-1)!.tokens;
  };
  t.same(await evaluated('ab'), [1, ...tokensOf('ab')]);
  t.same(await evaluated({ kind: 'parts', parts: [50, 'a'] }), [50, ...tokensOf('a')]);
  t.same(await evaluated({ kind: 'parts', parts: ['a', 50] }), [1, ...tokensOf('a'), 50]);
  t.same(await evaluated({ kind: 'infill', prefix: 'a', suffix: ' b' }), [
    1,
    3,
    ...tokensOf('a'),
    4,
    ...tokensOf('b'),
    5,
  ]);
  const around = {
    kind: 'infill',
    prefix: 'a',
    suffix: 'b',
    extra: [{ filename: 'f', text: 'c' }],
    middle: 'd',
  } as const;
  const inside = [...tokensOf('f\nc\n'), 3, ...tokensOf('a'), 4, ...tokensOf('b'), 5, ...tokensOf('d')];
  t.same(await evaluated(around), [1, ...inside]);
  t.same(await evaluated('ab', 'S'), [1, ...tokensOf('Sab')], 'a system prompt begins the sequence');
});

t.test('builds conversations with the template of the model', async (t) => {
  const { engine, fake } = await loadFake(t);
  fake.says = 'Hi<end>more';
  const turns = [
    { role: 'system', text: 's' },
    { role: 'user', text: 'u' },
    { role: 'assistant', text: 'a' },
    { role: 'tool', text: 't' },
  ] as const;
  const { text, end } = await complete(engine, {}, { kind: 'chat', turns, speaks: 'prose' });
  t.same(JSON.parse(engine.detokenize('tiny', fake.evaluations.at(-1)!.tokens)), [
    { type: 'system', text: 's' },
    { type: 'user', text: 'u' },
    { type: 'model', response: ['a'] },
    { type: 'user', text: 't' },
    { type: 'model', response: [] },
  ]);
  t.equal(text, 'Hi');
  t.match(end, { reason: 'eos', stoppingWord: '' }, 'the end of a turn is no stop string of the client');
});

t.test('ends as the interface says', async (t) => {
  const { engine, fake } = await loadFake(t);
  t.match((await complete(engine)).end, { reason: 'eos', generatedTokens: 5, promptTokens: 10, message: '' });
  t.match(await complete(engine, { n_predict: 2 }), { text: 'He', end: { reason: 'limit', generatedTokens: 2 } });
  t.match(await complete(engine, { stop: ['lo'] }), { text: 'Hel', end: { reason: 'word', stoppingWord: 'lo' } });
  t.match(await complete(engine, { stop: ['lox'] }), { text: 'Hello', end: { reason: 'eos', stoppingWord: '' } });
  const nothing = await complete(engine, { n_predict: 0 });
  t.match(nothing, { texts: [], end: { reason: 'limit', generatedTokens: 0 } });
  t.equal(fake.evaluations.at(-1)!.options, undefined, 'the prompt alone is evaluated');
});

t.test('sends whole characters only', async (t) => {
  const { engine, fake } = await loadFake(t);
  fake.says = 'né€!';
  t.same((await complete(engine)).texts, ['n', 'é', '€', '!']);
  t.same((await complete(engine, { n_predict: 2 })).texts, ['n', '\ufffd'], 'unless the limit cuts one');
});

t.test('reports probabilities of the likeliest tokens', async (t) => {
  const { engine, fake } = await loadFake(t);
  fake.says = 'a';
  const { reports } = await complete(engine, { n_probs: 2 });
  t.same(reports, [
    {
      content: 'a',
      probs: [
        { tok_str: 'a', prob: 0.75 },
        { tok_str: '!', prob: 0.25 },
      ],
    },
  ]);
  t.equal((await complete(engine, { n_probs: 1 })).reports[0]!.probs.length, 1);
});

t.test('finds what a slot has seen, and only when asked to', async (t) => {
  const { engine, fake } = await loadFake(t, { slots: 2 });
  const first = await complete(engine, { cache_prompt: true }, 'abc');
  t.same(first.starts, [[4, 0, 0]]);
  const again = await complete(engine, { cache_prompt: true, slot_id: 0 }, 'abcHellode');
  t.same(again.starts, [[11, 9, 0]], 'prompt and generation of the call before');
  t.match(again.end, { cachedTokens: 9, promptTokens: 11, slotId: 0 });
  t.same(fake.evaluations.at(-1)!.tokens, tokensOf('de'));
  const same = await complete(engine, { cache_prompt: true, slot_id: 0 }, 'abc');
  t.equal(same.end.cachedTokens, 3, 'the last token is evaluated in any case');
  t.equal((await complete(engine, { cache_prompt: false, slot_id: 0 }, 'abc')).end.cachedTokens, 0);
  t.equal(
    (await complete(engine, { cache_prompt: true }, 'xyz')).end.slotId,
    1,
    'an unrelated prompt gets the least recently used slot',
  );
  t.equal((await complete(engine, { cache_prompt: true }, 'abcd')).end.slotId, 0, 'a friend the one that knows it');
});

t.test('lets requests wait for a slot', async (t) => {
  const { engine, fake } = await loadFake(t, { slots: 1 });
  const gate = Promise.withResolvers<number>();
  fake.says = (index) => (index === 0 ? BYTE + 65 : gate.promise);
  const first = begin(engine);
  await first.spoke;
  const second = begin(engine);
  t.match(engine.figures(), { running: 1, waiting: 1 });
  t.match(engine.slots(), [{ id: 0, is_processing: true, n_ctx: 256 }]);
  fake.says = 'B';
  gate.resolve(EOS);
  t.equal((await first.ended).text, 'A');
  t.equal((await second.ended).text, 'B');
  t.match(engine.figures(), { running: 0, waiting: 0, generatedTokens: 2 });
});

t.test('stops when the client leaves, and gives the slot back', async (t) => {
  const { engine, fake } = await loadFake(t, { slots: 1 });
  const gate = Promise.withResolvers<number>();
  fake.says = (index) => (index === 0 ? BYTE + 65 : gate.promise);
  const first = begin(engine);
  await first.spoke;
  const waiting = begin(engine);
  t.match(engine.figures(), { running: 1, waiting: 1 });
  waiting.run.cancel();
  t.match(engine.figures(), { running: 1, waiting: 0 }, 'who left while waiting is queued no more');
  first.run.cancel();
  let isEnded = false;
  void Promise.race([first.ended, waiting.ended]).then(() => (isEnded = true));
  fake.says = 'C';
  gate.resolve(BYTE + 66);
  t.equal((await complete(engine)).text, 'C');
  t.notOk(isEnded);
});

t.test('looks within a long prompt whether the client is still there', async (t) => {
  const { engine, fake } = await loadFake(t, { slots: 1, contextTokens: 4096 });
  const leaving = begin(engine, {}, 'x'.repeat(2000));
  leaving.run.cancel();
  const long = begin(engine, { n_predict: 1 }, 'x'.repeat(2000));
  await long.ended;
  t.same(
    fake.evaluations.map(({ tokens, options }) => [tokens.length, options !== undefined]),
    [
      [512, false],
      [512, false],
      [512, false],
      [465, true],
    ],
    'nothing for who left before, all of the prompt for who stays',
  );
});

t.test('a few common words do not take the slot of a conversation', async (t) => {
  const { engine } = await loadFake(t, { slots: 2, contextTokens: 4096 });
  await complete(engine, { cache_prompt: true }, `the ${'a'.repeat(100)}`);
  const unrelated = await complete(engine, { cache_prompt: true }, `the ${'b'.repeat(100)}`);
  t.equal(unrelated.end.slotId, 1);
});

t.test('waits for a client that reads slowly', async (t) => {
  const { engine, fake } = await loadFake(t);
  fake.says = 'Hello';
  const gate = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const slow = begin(engine, {}, 'a', 'shift', () => {
    asked.resolve();
    return gate.promise;
  });
  await asked.promise;
  await new Promise((resolve) => setImmediate(resolve));
  t.match(engine.slots(), [{ is_processing: true, n_tokens: 2 }], 'one token is made and none after it');
  gate.resolve();
  t.equal((await slow.ended).text, 'Hello');
});

t.test('ends what it runs before it lets go of the model', async (t) => {
  const { engine, fake } = await loadFake(t, { slots: 1 });
  const gate = Promise.withResolvers<number>();
  fake.says = (index) => (index === 0 ? BYTE + 65 : gate.promise);
  await begin(engine).spoke;
  begin(engine);
  const closing = engine.close();
  t.equal(fake.disposed, 0);
  gate.resolve(BYTE + 66);
  await closing;
  t.equal(fake.disposed, 3);
  t.match(engine.figures(), { running: 0, waiting: 0 });
});

t.test('moves on in a full context or stops there', async (t) => {
  const { engine, fake } = await loadFake(t, { contextTokens: 16 });
  fake.says = 'abcdefghijklmnopqrstuvwxyz';
  const stopped = await complete(engine, {}, 'xyz', 'stop');
  t.match(stopped.end, { reason: 'context', isTruncated: true, generatedTokens: 12 });
  const shifted = await complete(engine, { n_keep: 2 }, 'xyz', 'shift');
  t.match(shifted, { text: 'abcdefghijklmnopqrstuvwxyz', end: { reason: 'eos', isTruncated: true } });
  const long = 'the quick brown fox jumps';
  t.throws(() => begin(engine, {}, long, 'stop'), new PromptTooLong(26, 16));
  const { end } = await complete(engine, { n_predict: 1, n_keep: 3 }, long, 'shift');
  t.match(end, { isTruncated: true });
  t.ok(end.promptTokens < 16);
  t.same(fake.evaluations.at(-1)!.tokens.slice(0, 3), [1, ...tokensOf('th')]);
});

t.test('reports failures of the engine', async (t) => {
  const { engine, fake } = await loadFake(t);
  fake.says = () => Promise.reject(new Error('the device is lost'));
  t.match((await complete(engine)).end, { reason: 'failed', message: 'the device is lost' });
  t.match((await complete(engine, { grammar: 'root ::= "broken"' })).end, {
    reason: 'failed',
    message: /parse grammar/,
  });
  fake.says = 'ok';
  t.equal((await complete(engine)).text, 'ok', 'and goes on with the next request');
});

t.test('tokenizes and detokenizes', async (t) => {
  const { engine } = await loadFake(t);
  t.same(engine.tokenize('tiny', 'é'), tokensOf('é'));
  t.equal(engine.detokenize('tiny', [1, ...tokensOf('é')]), '<s>é');
  t.same(
    refusedPlaces(() => engine.detokenize('tiny', [5, 99_999])),
    ['body.tokens.1'],
  );
});
