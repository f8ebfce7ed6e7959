import t from 'tap';
import type { Test } from 'tap';
import type { Host } from '../../../src/host/index.ts';
import { type Answer, type Body, ask, events, get, send, startHost } from './ask.ts';

const PROMPT = 'The miller walks along the river and';

/** Every option has an entry: what it changes in the outcome. The host is fresh for each. */
const OPTIONS: Readonly<Record<string, (t: Test, complete: Complete, host: Host) => Promise<void>>> = {
  async prompt(t, complete, host) {
    const { tokens } = await ask(host, '/tokenize', { content: PROMPT });
    const greedy = { temperature: 0, n_predict: 4 };
    const text = await complete({ ...greedy, prompt: PROMPT });
    t.equal(text.tokens_evaluated, tokens.length + 1, 'a text gets a beginning-of-sequence token');
    const bare = await complete({ ...greedy, prompt: tokens });
    t.equal(bare.tokens_evaluated, tokens.length, 'tokens get none');
    const begun = await complete({ ...greedy, prompt: [1, ...tokens] });
    t.equal(begun.content, text.content, 'the same tokens, the same answer');
    const mixed = await complete({ ...greedy, prompt: [PROMPT, ...tokens, ' and'] });
    t.equal(mixed.tokens_evaluated, 2 * tokens.length + 2, 'an array that starts with a text gets one');
    const mixedTokens = await complete({ ...greedy, prompt: [...tokens, ' and'] });
    t.equal(mixedTokens.tokens_evaluated, tokens.length + 1, 'one that starts with a token gets none');
    t.not((await complete({ ...greedy, prompt: 'Bread' })).content, text.content);
  },

  async temperature(t, complete) {
    const [a, b] = [await complete({ temperature: 0, seed: 1 }), await complete({ temperature: 0, seed: 2 })];
    t.equal(a.content, b.content, 'at 0 chance plays no part');
    const [c, d] = [await complete({ temperature: 1.5, seed: 1 }), await complete({ temperature: 1.5, seed: 2 })];
    t.not(c.content, d.content);
  },

  top_k: (t, complete) => becomesGreedy(t, complete, { top_k: 1 }, { top_k: 40 }),
  top_p: (t, complete) => becomesGreedy(t, complete, { top_p: 0.0001 }, { top_p: 1 }),
  min_p: (t, complete) => becomesGreedy(t, complete, { min_p: 1 }, { min_p: 0 }),
  tfs_z: (t, complete) => becomesGreedy(t, complete, { tfs_z: 0.0001 }, { tfs_z: 1 }),

  async typical_p(t, complete) {
    const narrow = { typical_p: 0.0001, temperature: 1 };
    const [a, b] = [await complete({ ...narrow, seed: 1 }), await complete({ ...narrow, seed: 2 })];
    t.equal(a.content, b.content, 'one token is left');
    t.not(a.content, (await complete({ temperature: 0 })).content, 'which is the most typical, not the most likely');
    t.not((await complete({ seed: 1 })).content, a.content);
  },

  async n_predict(t, complete) {
    for (const n of [1, 2, 7]) {
      const { tokens_predicted, stopped_limit } = await complete({ n_predict: n, seed: 1 });
      t.same([tokens_predicted, stopped_limit], [n, true]);
    }
    const none = await complete({ n_predict: 0, cache_prompt: true });
    t.match(none, { content: '', tokens_predicted: 0, stopped_limit: true });
    const next = await complete({ n_predict: 1, cache_prompt: true });
    t.equal(next.tokens_cached, none.tokens_evaluated - 1, 'it filled the cache');
    t.match(await complete({ n_predict: -1, seed: 1 }), { stopped_limit: false, stopped_eos: true });
  },

  async n_keep(t, complete, host) {
    const { tokens } = await ask(host, '/tokenize', { content: 'one two three four five '.repeat(40) });
    const prompt = tokens.slice(0, 100);
    const after = async (keep: number): Promise<Answer> => {
      const long = await complete({ prompt, n_keep: keep, n_predict: 0, cache_prompt: true, slot_id: 0 });
      t.equal(long.truncated, true);
      t.ok(long.tokens_evaluated < 64, 'it fits the context');
      return complete({ prompt: prompt.slice(0, 32), n_predict: 0, cache_prompt: true, slot_id: 0 });
    };
    t.equal((await after(20)).tokens_cached >= 20, true, 'the first tokens are still there');
    t.ok((await after(0)).tokens_cached < 20, 'they are not when nothing is kept');
    t.equal((await after(-1)).tokens_cached, 31, '-1 keeps all that can be');
  },

  async stream(t, _, host) {
    const frames = await events(host, '/completion', { prompt: PROMPT, n_predict: 5, seed: 1 });
    const whole = await ask(host, '/completion', { prompt: PROMPT, n_predict: 5, seed: 1 });
    const parts = frames.slice(0, -1);
    for (const frame of parts) t.same(Object.keys(frame), ['content', 'stop']);
    t.equal(parts.map(({ content }) => content).join(''), whole.content);
    t.match(frames.at(-1), { content: '', stop: true, tokens_predicted: 5 });
    t.same(Object.keys(frames.at(-1)), Object.keys(whole));
  },

  async stop(t, complete, host) {
    const whole = await complete({ temperature: 0, n_predict: 30 });
    const word = whole.content.slice(11, 19);
    const cut = await complete({ temperature: 0, n_predict: 30, stop: ['never said', word] });
    t.match(cut, {
      content: whole.content.slice(0, 11),
      stopped_word: true,
      stopping_word: word,
      stopped_limit: false,
    });
    const frames = await events(host, '/completion', { prompt: PROMPT, temperature: 0, n_predict: 30, stop: [word] });
    t.equal(frames.map(({ content }) => content).join(''), cut.content, 'nothing of it is streamed');
    t.match(frames.at(-1), { stopped_word: true, stopping_word: word });
  },

  async repeat_penalty(t, complete) {
    const options = { temperature: 0, n_predict: 120, ignore_eos: true, repeat_last_n: -1 };
    const free = await complete({ ...options, repeat_penalty: 1 });
    const penalised = await complete({ ...options, repeat_penalty: 4 });
    t.ok(distinctWords(penalised.content) > distinctWords(free.content));
  },

  async repeat_last_n(t, complete) {
    const options = { temperature: 0, n_predict: 80, repeat_penalty: 4, ignore_eos: true };
    const off = await complete({ ...options, repeat_last_n: 0 });
    t.equal(off.content, (await complete({ ...options, repeat_penalty: 1 })).content, '0 turns penalties off');
    const short = await complete({ ...options, repeat_last_n: 2 });
    const all = await complete({ ...options, repeat_last_n: -1 });
    t.not(short.content, all.content);
    t.ok(distinctWords(all.content) > distinctWords(off.content));
  },

  async penalize_nl(t, complete, host) {
    const { tokens } = await ask(host, '/tokenize', { content: '\na' });
    const [newline, a] = tokens as number[];
    const options = {
      temperature: 0,
      n_predict: 6,
      presence_penalty: 10,
      grammar: 'root ::= ("a" | "\\n")+',
      logit_bias: [
        [newline, 20],
        [a, 15],
      ],
    };
    t.equal((await complete({ ...options, penalize_nl: false })).content, '\n\n\n\n\n\n');
    t.match((await complete({ ...options, penalize_nl: true })).content, /^\na/);
  },

  async presence_penalty(t, complete) {
    const options = { temperature: 0, n_predict: 40, repeat_last_n: -1, ignore_eos: true, repeat_penalty: 1 };
    const free = await complete({ ...options, n_probs: 1 });
    const once = await complete({ ...options, n_probs: 1, presence_penalty: 100 });
    t.equal(new Set(piecesOf(once)).size, 40, 'nothing is said twice');
    t.ok(new Set(piecesOf(free)).size < 40);
  },

  async frequency_penalty(t, complete) {
    const options = {
      temperature: 0,
      n_predict: 60,
      repeat_last_n: -1,
      ignore_eos: true,
      repeat_penalty: 1,
      n_probs: 1,
    };
    const free = piecesOf(await complete(options));
    const rare = piecesOf(await complete({ ...options, frequency_penalty: 3 }));
    t.ok(mostOften(rare) < mostOften(free));
  },

  async mirostat(t, complete) {
    const [off, one, two] = [
      await complete({ seed: 3, n_predict: 40 }),
      await complete({ seed: 3, n_predict: 40, mirostat: 1 }),
      await complete({ seed: 3, n_predict: 40, mirostat: 2 }),
    ];
    t.equal(new Set([off.content, one.content, two.content]).size, 3);
    const cut = await complete({ seed: 3, n_predict: 40, mirostat: 2, top_k: 1, top_p: 0.1 });
    t.equal(cut.content, two.content, 'it takes the place of the truncations');
  },

  async mirostat_tau(t, complete) {
    const options = { mirostat: 2, n_predict: 40, temperature: 1 };
    const greedy = await complete({ ...options, temperature: 0 });
    t.equal((await complete({ ...options, mirostat_tau: 0.01, mirostat_eta: 0 })).content, greedy.content);
    t.not((await complete({ ...options, mirostat_tau: 8 })).content, greedy.content);
  },

  async mirostat_eta(t, complete) {
    const options = { mirostat: 2, mirostat_tau: 2, n_predict: 40, seed: 5 };
    const [slow, fast] = [
      await complete({ ...options, mirostat_eta: 0 }),
      await complete({ ...options, mirostat_eta: 1 }),
    ];
    t.not(slow.content, fast.content);
  },

  async grammar(t, complete) {
    const answer = await complete({ grammar: 'root ::= "yes" | "no, " [a-z]{3}', n_predict: 50 });
    t.match(answer.content, /^(yes|no, [a-z]{3})$/);
    t.match(answer, { stopped_eos: true, stopped_limit: false });
  },

  async seed(t, complete) {
    const [a, b, c] = [
      await complete({ seed: 7, n_predict: 40 }),
      await complete({ seed: 7, n_predict: 40 }),
      await complete({ seed: 8, n_predict: 40 }),
    ];
    t.equal(a.content, b.content);
    t.not(a.content, c.content);
    const random = await Promise.all(Array.from({ length: 4 }, () => complete({ seed: -1, n_predict: 40 })));
    t.ok(new Set(random.map(({ content }) => content)).size > 1, '-1 is random');
  },

  async ignore_eos(t, complete) {
    t.match(await complete({ seed: 1, n_predict: 2500 }), { stopped_eos: true });
    t.match(await complete({ seed: 1, n_predict: 2500, ignore_eos: true }), {
      stopped_eos: false,
      stopped_limit: true,
      tokens_predicted: 2500,
    });
  },

  async logit_bias(t, complete, host) {
    const options = { temperature: 0, n_predict: 30 };
    const free = await complete({ ...options, n_probs: 1 });
    const first = piecesOf(free)[0]!;
    const { tokens } = await ask(host, '/tokenize', { content: first });
    const without = await complete({ ...options, n_probs: 1, logit_bias: [[tokens[0], false]] });
    t.notOk(piecesOf(without).includes(first), 'false forbids');
    const { tokens: other } = await ask(host, '/tokenize', { content: ' bread' });
    const forced = await complete({ ...options, n_predict: 1, logit_bias: [[other[0], 100]] });
    t.equal(forced.content, ' bread');
  },

  async n_probs(t, complete, host) {
    t.notOk('completion_probabilities' in (await complete({ seed: 1 })));
    const { completion_probabilities: reports, content } = await complete({ seed: 1, n_predict: 9, n_probs: 3 });
    t.equal(reports.map((report: Answer) => report.content).join(''), content);
    for (const { probs } of reports) {
      t.equal(probs.length, 3);
      t.ok(probs.reduce((sum: number, { prob }: Answer) => sum + prob, 0) <= 1 + 1e-9);
      t.ok(probs.every(({ tok_str }: Answer) => typeof tok_str === 'string'));
    }
    const frames = await events(host, '/completion', { prompt: PROMPT, seed: 1, n_predict: 9, n_probs: 3 });
    t.same(
      frames.slice(0, -1).flatMap(({ completion_probabilities }) => completion_probabilities),
      reports,
    );
  },

  async image_data(t, complete, host) {
    const see = (data: string): Promise<Answer> =>
      complete({ prompt: 'Look: [img-7] What is it?', image_data: [{ data, id: 7 }], temperature: 0, n_predict: 20 });
    const blind = await complete({ prompt: 'Look: [img-7] What is it?', temperature: 0, n_predict: 20 });
    const [a, b, again] = [await see('QUJD'), await see('REVG'), await see('QUJD')];
    t.not(a.content, b.content, 'another image, another answer');
    t.equal(a.content, again.content);
    t.ok(a.tokens_evaluated > blind.tokens_evaluated);
    const missing = await send(host, '/completion', { prompt: '[img-8]', image_data: [{ data: '', id: 7 }] });
    t.equal(missing.status, 422);
    const twice = await send(host, '/completion', {
      prompt: ['[img-7]', '[img-7]'],
      image_data: [{ data: '', id: 7 }],
    });
    t.equal(twice.status, 422, 'an image stands in one place');
  },

  async slot_id(t, complete) {
    for (const slot of [2, 0]) t.equal((await complete({ slot_id: slot, n_predict: 1 })).slot_id, slot);
    t.type((await complete({ slot_id: -1, n_predict: 1 })).slot_id, 'number');
  },

  async cache_prompt(t, complete) {
    const first = await complete({ cache_prompt: true, n_predict: 3, seed: 1 });
    t.equal(first.tokens_cached, 0);
    const more = { prompt: `${PROMPT}, then sleeps`, slot_id: first.slot_id, n_predict: 3 };
    const second = await complete({ ...more, cache_prompt: true });
    t.ok(second.tokens_cached >= first.tokens_evaluated - 1, 'the beginning was there');
    t.equal(second.timings.prompt_n, second.tokens_evaluated - second.tokens_cached);
    t.equal((await complete({ ...more, cache_prompt: false })).tokens_cached, 0);
  },

  async system_prompt(t, complete, host) {
    const options = { temperature: 0, n_predict: 20 };
    const before = await complete(options);
    const system = { prompt: 'You are a fish.', anti_prompt: 'User:', assistant_name: 'Fish:' };
    const changed = await complete({ ...options, system_prompt: system });
    t.match(await get(host, '/props'), { assistant_name: 'Fish:', user_name: 'User:', anti_prompt: 'User:' });
    t.ok(changed.tokens_evaluated > before.tokens_evaluated);
    const later = await complete({ ...options, slot_id: 3 });
    t.equal(later.content, changed.content, 'it holds for all slots');
    await complete({ ...options, system_prompt: '' });
    t.equal((await complete(options)).content, before.content);
  },
};

type Complete = (body: Body) => Promise<Answer>;

async function becomesGreedy(t: Test, complete: Complete, narrow: Body, wide: Body): Promise<void> {
  const open = { top_k: 0, top_p: 1, min_p: 0, temperature: 1, n_predict: 30, seed: 1 };
  const greedy = await complete({ ...open, temperature: 0 });
  t.equal((await complete({ ...open, ...narrow })).content, greedy.content, 'only the most likely token is left');
  t.not((await complete({ ...open, ...wide })).content, greedy.content);
}

function piecesOf({ completion_probabilities }: Answer): string[] {
  return completion_probabilities.map(({ content }: Answer) => content);
}

function distinctWords(text: string): number {
  return new Set(text.split(/\s+/)).size;
}

function mostOften(pieces: readonly string[]): number {
  return Math.max(...pieces.map((piece) => pieces.filter((other) => other === piece).length));
}

for (const [name, changes] of Object.entries(OPTIONS)) {
  t.test(`the option ${name} changes the outcome`, async (t) => {
    const small = name === 'n_keep' ? { contextTokens: 64 } : {};
    const host = await startHost(t, { engine: { speed: 'virtual', slots: 4, ...small } });
    const complete = (body: Body): Promise<Answer> => ask(host, '/completion', { prompt: PROMPT, ...body });
    await changes(t, complete, host);
  });
}

t.test('null is the default for every option', async (t) => {
  const host = await startHost(t);
  const nulls = Object.fromEntries(Object.keys(OPTIONS).map((name) => [name, null]));
  const given = { prompt: PROMPT, n_predict: 12, seed: 2 };
  const plain = await ask(host, '/completion', given);
  const answer = await ask(host, '/completion', { ...nulls, ...given });
  t.equal(answer.content, plain.content);
  t.same(answer.generation_settings, plain.generation_settings);
  t.match(answer.generation_settings, {
    n_ctx: 32768,
    model: 'm',
    temperature: 0.8,
    top_k: 40,
    top_p: 0.95,
    min_p: 0.05,
    n_keep: 0,
    stream: false,
    stop: [],
    tfs_z: 1,
    typical_p: 1,
    repeat_penalty: 1.1,
    repeat_last_n: 64,
    penalize_nl: true,
    presence_penalty: 0,
    frequency_penalty: 0,
    mirostat: 0,
    mirostat_tau: 5,
    mirostat_eta: 0.1,
    ignore_eos: false,
    logit_bias: [],
    n_probs: 0,
    slot_id: -1,
    cache_prompt: false,
  });
});

t.test('a wrong type of any option is a 422 in the standard shape, all mistakes at once', async (t) => {
  const host = await startHost(t);
  const wrong = Object.fromEntries(Object.keys(OPTIONS).map((name) => [name, name === 'stop' ? {} : 7.5]));
  const takesAnyNumber = new Set(
    (
      'temperature top_p min_p tfs_z typical_p repeat_penalty presence_penalty ' +
      'frequency_penalty mirostat_tau mirostat_eta'
    ).split(' '),
  );
  for (const name of takesAnyNumber) wrong[name] = 'much';
  const response = await send(host, '/completion', wrong);
  t.equal(response.status, 422);
  const { detail } = (await response.json()) as { detail: { loc: (string | number)[]; msg: string; type: string }[] };
  t.same(new Set(detail.map(({ loc }) => loc[1])), new Set(Object.keys(OPTIONS)));
  for (const entry of detail) t.same(Object.keys(entry), ['loc', 'msg', 'type']);
  for (const body of [
    {},
    { prompt: { a: 1 } },
    { prompt: [1.5] },
    { prompt: [999999] },
    { prompt: 'a', grammar: 'x' },
    { prompt: 'a', n_probs: 101 },
    { prompt: 'a', slot_id: 100_000 },
  ]) {
    t.equal((await send(host, '/completion', body)).status, 422);
  }
});

t.test('1024 stop strings are looked for, and more are refused in every dialect', async (t) => {
  const stops = (count: number): string[] => Array.from({ length: count }, (_, at) => `~${at}`);
  const messages = [{ role: 'user', content: 'a' }];
  for (const engine of ['steps', 'paced'] as const) {
    const host = await startHost(t, { engine });
    for (const [path, name, body] of [
      ['/completion', 'stop', { prompt: 'a' }],
      ['/v1/completions', 'stop', { model: 'm', prompt: 'a' }],
      ['/v1/chat/completions', 'stop', { model: 'm', messages }],
      ['/v1/messages', 'stop_sequences', { model: 'm', max_tokens: 9, messages }],
    ] as const) {
      t.equal((await send(host, path, { ...body, [name]: stops(1024) })).status, 200, path);
      const refused = await send(host, path, { ...body, [name]: stops(1025) });
      t.equal(refused.status, 422, path);
      t.match(await refused.json(), { detail: [{ msg: /1024 stop strings/ }] });
      t.equal((await send(host, path, { ...body, [name]: ['~', 'x'.repeat(65_536)] })).status, 422, 'nor longer ones');
    }
  }
});

t.test('of many mistakes in one list the first hundred are told', async (t) => {
  const host = await startHost(t);
  const others = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`option_${at}`, 1]));
  for (const [path, body] of [
    ['/completion', { prompt: new Array(1000).fill(null) }],
    ['/completion', { prompt: new Array(1000).fill(999_999) }],
    ['/completion', { prompt: 'a', stop: new Array(1000).fill(1) }],
    ['/completion', { prompt: 'a', logit_bias: new Array(1000).fill(1) }],
    ['/completion', { prompt: 'a', logit_bias: { ...new Array(1000).fill('x') } }],
    ['/completion', { prompt: 'a', ...others }],
    ['/detokenize', { tokens: new Array(1000).fill('x') }],
    ['/detokenize', { tokens: new Array(1000).fill(999_999) }],
  ] as const) {
    const response = await send(host, path, body);
    t.equal(response.status, 422, path);
    t.match(await response.json(), { detail: { length: 100 } });
  }
});
