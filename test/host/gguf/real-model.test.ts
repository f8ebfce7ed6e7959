// The tiny model in the real package. Skipped where `node-llama-cpp` is not installed; HEADRACE_TEST_LLAMA_CPP may name
// the file of its entry.
import { performance } from 'node:perf_hooks';
import t from 'tap';
import { type LlamaModule, loadLlamaModule } from '../../../src/host/gguf/binding.ts';
import { type GgufEngine, loadGguf } from '../../../src/host/gguf/gguf-engine.ts';
import { begin, complete, writeTiny } from './load.ts';

const module = await loadLlamaModule(process.env['HEADRACE_TEST_LLAMA_CPP']).catch((): LlamaModule | null => null);

if (module === null) {
  t.pass('skipped: node-llama-cpp is not installed', { skip: 'node-llama-cpp is not installed' });
} else {
  const path = await writeTiny(t);
  const engine: GgufEngine = await loadGguf({ path, module, slots: 2, contextTokens: 256, gpu: false, threads: 1 });
  t.teardown(() => engine.close());

  t.test('tokenizes without a space in front and back again', async (t) => {
    const tokens = engine.tokenize('tiny', 'the water é');
    t.ok(tokens.length > 2);
    t.equal(engine.detokenize('tiny', tokens), 'the water é');
  });

  t.test('says the same for the same seed', async (t) => {
    const said = async (seed: number): Promise<string> => (await complete(engine, { seed, n_predict: 24 })).text;
    t.equal(await said(5), await said(5));
    t.not(await said(5), await said(6));
  });

  t.test('makes as many tokens as asked for', async (t) => {
    t.match((await complete(engine, { n_predict: 10, seed: 1, temperature: 0 })).end, { generatedTokens: 10 });
    t.match((await complete(engine, { n_predict: 0 })).end, { reason: 'limit', generatedTokens: 0 });
  });

  t.test('lets its options show', async (t) => {
    const greedy = await complete(engine, { temperature: 0, repeat_last_n: 0, n_predict: 12 });
    const one = await complete(engine, { top_k: 1, repeat_last_n: 0, n_predict: 12, seed: 9 });
    t.equal(one.text, greedy.text, 'the likeliest of one is the likeliest');
    const punished = await complete(engine, { temperature: 0, repeat_penalty: 5, repeat_last_n: -1, n_predict: 12 });
    t.not(punished.text, greedy.text);
    const [token] = engine.tokenize('tiny', 'w');
    const biased = await complete(engine, { logit_bias: [[token, 1000]], n_predict: 5 });
    t.equal(biased.text, 'wwwww');
    const stopped = await complete(engine, { logit_bias: [[token, 1000]], stop: ['www'], n_predict: 5 });
    t.match(stopped, { text: '', end: { reason: 'word', stoppingWord: 'www', generatedTokens: 3 } });
  });

  t.test('obeys a grammar', async (t) => {
    const { text, end } = await complete(engine, {
      grammar: 'root ::= "the" (" water" | " wheel")+ "."',
      n_predict: 40,
    });
    t.match(text, end.reason === 'eos' ? /^the( water| wheel)+\.$/ : /^the( (w(a(t(er?)?)?|h(e(el?)?)?)?)?)*$/);
  });

  t.test('reports probabilities', async (t) => {
    const { reports } = await complete(engine, { n_probs: 3, n_predict: 4, seed: 3 });
    t.equal(reports.length, 4);
    for (const { probs } of reports) {
      t.ok(probs.length >= 1 && probs.length <= 3);
      t.ok(probs.every(({ prob }, at) => at === 0 || prob <= probs[at - 1]!.prob));
      t.ok(probs.reduce((sum, { prob }) => sum + prob, 0) <= 1.0001);
    }
  });

  t.test('finds the prefix of a second turn in its cache', async (t) => {
    const first = await complete(engine, { cache_prompt: false, temperature: 0, n_predict: 4 }, 'the river runs');
    t.equal(first.end.cachedTokens, 0);
    const { slotId, promptTokens } = first.end;
    const next = { cache_prompt: true, slot_id: slotId, temperature: 0, n_predict: 4 };
    const second = await complete(engine, next, 'the river runs down the hill');
    t.ok(
      second.end.cachedTokens >= promptTokens - 1,
      `${second.end.cachedTokens} of ${second.end.promptTokens} tokens`,
    );
    const fresh = await complete(engine, { ...next, cache_prompt: false }, 'the river runs down the hill');
    t.equal(fresh.end.cachedTokens, 0);
    t.equal(fresh.text, second.text, 'and says what it would have said without');
  });

  t.test('fills in and converses', async (t) => {
    const infill = await complete(
      engine,
      { n_predict: 4, seed: 1 },
      { kind: 'infill', prefix: 'the', suffix: 'wheel' },
    );
    t.match(infill.end, { message: '' });
    const turns = [{ role: 'user', text: 'the water' }] as const;
    const chat = await complete(engine, { n_predict: 4, seed: 1 }, { kind: 'chat', turns, speaks: 'prose' });
    t.match(chat.end, { message: '' });
    t.ok(chat.end.promptTokens > 3);
  });

  t.test('moves on in a full context', async (t) => {
    const { end } = await complete(engine, { n_predict: 400, temperature: 0, logit_bias: [[100, 1000]], n_keep: 4 });
    t.match(end, { reason: 'limit', generatedTokens: 400, isTruncated: true });
  });

  t.test('runs as many as it has slots at once, and the others after them', async (t) => {
    const began = performance.now();
    const ended = await Promise.all(
      [1, 2, 3, 4].map((seed) => complete(engine, { seed, n_predict: 100, logit_bias: [[100, 1000]] })),
    );
    const tokens = ended.reduce((sum, { end }) => sum + end.generatedTokens, 0);
    t.equal(tokens, 400);
    t.same(new Set(ended.map(({ end }) => end.slotId)), new Set([0, 1]));
    t.comment(`${Math.round((tokens * 1000) / (performance.now() - began))} tokens/s`);
  });

  t.test('stops when the client leaves', async (t) => {
    const endless = begin(engine, { logit_bias: [[100, 1000]] });
    await endless.spoke;
    endless.run.cancel();
    const others = [0, 1].map((slot_id) => complete(engine, { slot_id, n_predict: 1, temperature: 0 }));
    t.equal((await Promise.all(others)).length, 2, 'both slots are free again');
  });
}
