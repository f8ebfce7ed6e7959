import { createManualClock } from '../../../src/actor/index.ts';
import type { CompletionOptions } from '../../../src/host/completion-options.ts';
import { events, json } from '../../support/fake-engine.ts';
import {
  choiceFrame,
  DONE,
  startFakeOpenAi,
  startFakeVllm,
  USAGE_FRAME,
  VLLM_MODEL,
  vllmError,
} from '../../support/fake-vllm.ts';
import { attach, begin, complete, refusedPlaces } from './attach.ts';

import t from 'tap';

const SYSTEM = 'Be brief.';

type Case = readonly [Partial<CompletionOptions>, Record<string, unknown>];

/** Options that both engines have. */
const SHARED: readonly Case[] = [
  [{}, { model: VLLM_MODEL, prompt: 'Hi', stream: true, stream_options: { include_usage: true } }],
  [{}, { temperature: 0.8, top_p: 0.95, presence_penalty: 0, frequency_penalty: 0, logit_bias: {} }],
  [{ temperature: 0.1 }, { temperature: 0.1 }],
  [{ temperature: -1 }, { temperature: 0 }],
  [{ top_p: 0.5 }, { top_p: 0.5 }],
  [{ n_predict: 7 }, { max_tokens: 7 }],
  [{ n_predict: 0 }, { max_tokens: 1 }],
  [{ presence_penalty: 0.4 }, { presence_penalty: 0.4 }],
  [{ frequency_penalty: 0.6 }, { frequency_penalty: 0.6 }],
  [{ seed: 5 }, { seed: 5 }],
  [{ seed: -1 }, { seed: undefined }],
  [{ n_probs: 3 }, { logprobs: 3 }],
  [{ n_probs: 0 }, { logprobs: undefined }],
  [
    {
      logit_bias: [
        [5, false],
        [6, 1.5],
      ],
    },
    { logit_bias: { 5: -100, 6: 1.5 } },
  ],
  [{ logit_bias: { 5: -2 } }, { logit_bias: { 5: -2 } }],
  [
    { tfs_z: 2, typical_p: 1.5 },
    { tfs_z: undefined, typical_p: undefined },
  ],
  [{ mirostat_tau: 4, mirostat_eta: 0.3, cache_prompt: true }, { mirostat_tau: undefined }],
];

const OF_VLLM: readonly Case[] = [
  ...SHARED,
  [{}, { top_k: 40, min_p: 0.05, repetition_penalty: 1.1, ignore_eos: false, stop: [] }],
  [{ n_predict: -1 }, { max_tokens: 4096 - 3 }],
  [{ top_k: 0 }, { top_k: -1 }],
  [{ min_p: 0.2 }, { min_p: 0.2 }],
  [{ repeat_penalty: 1.3, repeat_last_n: -1 }, { repetition_penalty: 1.3 }],
  [
    { repeat_penalty: 1.3, presence_penalty: 1, frequency_penalty: 1, repeat_last_n: 0 },
    { repetition_penalty: 1, presence_penalty: 0, frequency_penalty: 0 },
  ],
  [{ ignore_eos: true }, { ignore_eos: true }],
  [{ stop: ['a'] }, { stop: ['a'] }],
];

const OF_OPENAI: readonly Case[] = [
  ...SHARED,
  [{}, { top_k: undefined, min_p: undefined, repetition_penalty: undefined }],
  [{ n_predict: -1 }, { max_tokens: 4096 - 3 }],
  [
    { top_k: 0, min_p: 0, repeat_penalty: 1, repeat_last_n: -1 },
    { top_k: undefined, min_p: undefined },
  ],
  [{ repeat_last_n: 0, presence_penalty: 1 }, { presence_penalty: 0 }],
  [{ stop: ['a'] }, { stop: undefined }],
];

for (const [name, start, cases] of [
  ['vllm', startFakeVllm, OF_VLLM],
  ['openai', startFakeOpenAi, OF_OPENAI],
] as const) {
  t.test(`sends every option that ${name} has`, async (t) => {
    const { engine, fake } = await attach(t, start(), { contextTokens: 4096 });
    t.equal(engine.kind, name);
    for (const [options, sent] of cases) {
      await complete(engine, options);
      const { body } = fake.last('/v1/completions');
      for (const [member, value] of Object.entries(sent))
        t.same(body[member], value, `${JSON.stringify(options)}: ${member}`);
    }
  });

  t.test(`refuses by name what ${name} has not`, async (t) => {
    const { engine, fake } = await attach(t, start(), { contextTokens: 4096 });
    const both: Partial<CompletionOptions>[] = [
      { tfs_z: 0.9 },
      { typical_p: 0.9 },
      { penalize_nl: false },
      { mirostat: 1 },
      { grammar: 'root ::= "a"' },
      { n_keep: 4 },
      { image_data: [{ id: 1, data: '' }] },
      { slot_id: 0 },
      { repeat_last_n: 10 },
    ];
    const onlyOpenAi: Partial<CompletionOptions>[] = [
      { top_k: 1 },
      { min_p: 0.2 },
      { repeat_penalty: 1.3 },
      { ignore_eos: true },
    ];
    for (const options of name === 'openai' ? [...both, ...onlyOpenAi] : both) {
      const option = Object.keys(options).join();
      t.same(
        refusedPlaces(() => begin(engine, options)),
        [`body.${option}`],
        option,
      );
    }
    t.same(
      refusedPlaces(() =>
        begin(engine, {
          logit_bias: [
            [1, 1],
            ['x', 1],
          ],
        }),
      ),
      ['body.logit_bias.1'],
      'by text',
    );
    t.same(
      refusedPlaces(() => begin(engine, { logit_bias: [[1, 500]] })),
      ['body.logit_bias.0'],
      'beyond its range',
    );
    t.same(
      refusedPlaces(() => begin(engine, {}, { kind: 'infill', prefix: '', suffix: '' })),
      ['body.input_prefix'],
    );
    t.equal(fake.requests.length, 0);
  });
}

t.test('makes one prompt of every shape', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm());
  const sent = async (parts: readonly (string | number)[], system = ''): Promise<unknown> => {
    await complete(engine, { n_predict: 1 }, { kind: 'parts', parts }, system);
    return fake.last('/v1/completions').body['prompt'];
  };
  t.equal(await sent(['Hi']), 'Hi');
  t.same(await sent([7, 8]), [7, 8]);
  t.same(await sent(['a', 8, 'b']), [1, 97, 8, 98]);
  t.same(await sent(['a', 'b']), [1, 97, 98]);
  t.same(await sent(['a'], SYSTEM), [1, ...Buffer.from(SYSTEM), 97]);
});

t.test('requires n_predict where the engine stops early and reports no context size', async (t) => {
  const { engine, fake } = await attach(t, startFakeOpenAi());
  t.same(
    refusedPlaces(() => begin(engine)),
    ['body.n_predict'],
  );
  t.equal((await complete(engine, { n_predict: 2 })).texts.join(''), 'Hello');
  t.equal(fake.last('/v1/completions').body['max_tokens'], 2);
});

t.test('reads the type of an answer by its name, whatever the values before it say', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm());
  fake.answers.set('/v1/completions', (_, response) => {
    response.writeHead(200, { 'access-control-expose-headers': 'content-type', 'content-type': 'text/event-stream' });
    response.end(`data: ${JSON.stringify(choiceFrame('Hello'))}\n\n${DONE}`);
  });
  t.equal((await complete(engine)).texts.join(''), 'Hello');
  fake.answers.set('/v1/completions', (_, response) => {
    response.writeHead(200, { 'x-old-type': 'text/event-stream', 'content-type': 'text/plain' });
    response.end('no events');
  });
  t.match((await complete(engine)).end, { reason: 'failed', message: /without a stream of events/ });
});

t.test('takes text or tokens where nothing turns one into the other', async (t) => {
  const { engine, fake } = await attach(t, startFakeOpenAi(), { contextTokens: 4096 });
  const sent = async (parts: readonly (string | number)[], system = ''): Promise<unknown> => {
    await complete(engine, {}, { kind: 'parts', parts }, system);
    return fake.last('/v1/completions').body['prompt'];
  };
  t.equal(await sent(['a', 'b']), 'ab');
  t.same(await sent([7, 8]), [7, 8]);
  t.same(
    refusedPlaces(() => begin(engine, {}, { kind: 'parts', parts: ['a', 8] })),
    ['body.prompt'],
  );
  t.equal(await sent(['a'], SYSTEM), 'Be brief.a');
  t.same(
    refusedPlaces(() => begin(engine, {}, { kind: 'parts', parts: [8] }, undefined, SYSTEM)),
    ['body.prompt'],
  );
  await t.rejects(engine.tokenize(VLLM_MODEL, 'x'), { message: /^body.content: .* shows nothing of its tokens$/ });
  await t.rejects(engine.detokenize(VLLM_MODEL, [1]), { message: /^body.tokens: / });
});

t.test('tokenizes and detokenizes as vLLM does', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm());
  t.same(await engine.tokenize(VLLM_MODEL, 'ab'), [97, 98]);
  t.same(fake.last('/tokenize').body, { model: VLLM_MODEL, prompt: 'ab', add_special_tokens: false });
  t.equal(await engine.detokenize(VLLM_MODEL, [97, 98]), 'ab');
  t.same(fake.last('/detokenize').body, { model: VLLM_MODEL, tokens: [97, 98] });
});

t.test('returns every field that the engine reports', async (t) => {
  const clock = createManualClock(1000);
  const { engine, fake } = await attach(t, startFakeVllm(), { clock, watchMs: 1_000_000 });
  const begun = Promise.withResolvers<(text: string) => void>();
  fake.answers.set('/v1/completions', (_, response) => {
    clock.advance(30);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`data: ${JSON.stringify(choiceFrame('He'))}\n\n`);
    begun.resolve((text) => response.end(text));
  });
  const running = begin(engine, { n_predict: 2, seed: 3 });
  await running.spoke;
  clock.advance(50);
  const frames = [choiceFrame('llo', { finish_reason: 'length' }), USAGE_FRAME];
  (await begun.promise)(frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join('') + DONE);
  const { texts, end } = await running.ended;
  t.same(texts, ['He', 'llo']);
  t.same(end, {
    reason: 'limit',
    stoppingWord: '',
    message: '',
    slotId: -1,
    promptTokens: 9,
    cachedTokens: 4,
    generatedTokens: 2,
    isTruncated: false,
    queueMs: 0,
    promptMs: 30,
    generationMs: 50,
    seed: 3,
  });
});

t.test('understands how a completion stopped', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm());
  const cases: readonly [Record<string, unknown>, Record<string, unknown>][] = [
    [{ finish_reason: 'length' }, { reason: 'limit' }],
    [
      { finish_reason: 'stop', stop_reason: 'END' },
      { reason: 'word', stoppingWord: 'END' },
    ],
    [
      { finish_reason: 'stop', stop_reason: 128001 },
      { reason: 'eos', stoppingWord: '' },
    ],
    [{ finish_reason: 'stop' }, { reason: 'eos' }],
  ];
  for (const [over, expected] of cases) {
    fake.answers.set('/v1/completions', events([choiceFrame('a', over), USAGE_FRAME, DONE]));
    t.match((await complete(engine)).end, expected, JSON.stringify(over));
  }
  fake.answers.set('/v1/completions', events([choiceFrame('a', { finish_reason: 'length' }), USAGE_FRAME, DONE]));
  const { texts, end } = await complete(engine, { n_predict: 0 });
  t.same(texts, [], 'nothing when nothing was asked for');
  t.match(end, { reason: 'limit', generatedTokens: 0, generationMs: 0, promptTokens: 9 });
});

t.test('finds stop strings itself where the engine does not say which it met', async (t) => {
  const { engine, fake } = await attach(t, startFakeOpenAi(), { contextTokens: 4096 });
  fake.answers.set('/v1/completions', events([choiceFrame('one E'), choiceFrame('ND two')], 'stay'));
  const { texts, end } = await complete(engine, { stop: ['END', 'EVE'] });
  t.same(texts, ['one ']);
  t.match(end, { reason: 'word', stoppingWord: 'END', generatedTokens: 2 });
  await fake.abandoned;
  fake.answers.set('/v1/completions', events([choiceFrame('one E', { finish_reason: 'stop' }), DONE]));
  const whole = await complete(engine, { stop: ['END'] });
  t.equal(whole.texts.join(''), 'one E', 'and gives back what only began like one');
  t.match(whole.end, { reason: 'eos', stoppingWord: '', generatedTokens: 1 });
});

t.test('reads a last event without its blank line', async (t) => {
  const { engine, fake } = await attach(t, startFakeOpenAi(), { contextTokens: 4096 });
  for (const end of ['\n', '\r', '']) {
    const last = `data: ${JSON.stringify(choiceFrame('b', { finish_reason: 'length' }))}${end}`;
    fake.answers.set('/v1/completions', events([choiceFrame('a'), last]));
    const { texts, end: ended } = await complete(engine);
    t.same([texts.join(''), ended.reason], ['ab', 'limit']);
  }
});

t.test('translates probabilities', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm());
  const logprobs = {
    tokens: ['a', 'b', { toString: 1 }],
    top_logprobs: [{ a: Math.log(0.2), c: Math.log(0.5), d: Math.log(0.25) }, { b: 0 }, { e: { valueOf: 1 } }],
  };
  fake.answers.set('/v1/completions', events([choiceFrame('ab', { logprobs, finish_reason: 'length' }), DONE]));
  const { reports } = await complete(engine, { n_probs: 2 });
  t.equal(reports.length, 3);
  t.equal(reports[0]!.content, 'a');
  t.same(
    reports[0]!.probs.map(({ tok_str, prob }) => [tok_str, Number(prob.toFixed(6))]),
    [
      ['c', 0.5],
      ['d', 0.25],
    ],
  );
  t.same(reports[1], { content: 'b', probs: [{ tok_str: 'b', prob: 1 }] });
  t.same(reports[2], { content: '', probs: [{ tok_str: 'e', prob: 0 }] }, 'what is no text and no number');
});

t.test('reports failures as what they are', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm());
  const cases: readonly [string, Parameters<typeof fake.answers.set>[1], string][] = [
    ['a refusal', json(vllmError(400, 'maximum context length is 4096'), 400), 'maximum context length is 4096'],
    [
      'a refusal of the validation',
      json({ detail: [{ msg: 'bad' }] }, 422),
      'the engine answered 422: [{"msg":"bad"}]',
    ],
    ['an older refusal', json({ object: 'error', message: 'too long', code: 400 }, 400), 'too long'],
    ['an error event', events([choiceFrame('a'), vllmError(500, 'engine died'), DONE]), 'engine died'],
    ['an early end', events([choiceFrame('a'), DONE]), 'the engine ended its answer before it was complete'],
    ['a cut', events([choiceFrame('a')], 'cut'), 'the engine broke off in the middle of its answer'],
  ];
  for (const [name, answer, message] of cases) {
    fake.answers.set('/v1/completions', answer);
    t.match((await complete(engine)).end, { reason: 'failed', message }, name);
  }
});
