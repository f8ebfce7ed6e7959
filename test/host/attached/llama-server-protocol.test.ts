import { createManualClock } from '../../../src/actor/index.ts';
import type { CompletionOptions, InvalidOptions } from '../../../src/host/completion-options.ts';
import { events, json } from '../../support/fake-engine.ts';
import {
  failureBody,
  finalFrame,
  LLAMA_MODEL,
  partialFrame,
  PROGRESS_FRAME,
  startFakeLlamaServer,
} from '../../support/fake-llama-server.ts';
import { attach, begin, complete, HI, refusedPlaces } from './attach.ts';

import t from 'tap';

const SYSTEM = 'Be brief.';

t.test('sends every option under the name the engine has for it', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const cases: readonly [Partial<CompletionOptions>, Record<string, unknown>][] = [
    [{}, { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, repeat_penalty: 1.1, repeat_last_n: 64 }],
    [{}, { cache_prompt: false, id_slot: -1, n_predict: -1, n_keep: 0, seed: -1, mirostat: 0, stream: true }],
    [{}, { samplers: ['penalties', 'top_k', 'typ_p', 'top_p', 'min_p', 'temperature'], model: LLAMA_MODEL }],
    [{ temperature: 0.1 }, { temperature: 0.1 }],
    [{ top_k: 1 }, { top_k: 1 }],
    [{ top_p: 0.5 }, { top_p: 0.5 }],
    [{ min_p: 0.2 }, { min_p: 0.2 }],
    [{ n_predict: 7 }, { n_predict: 7 }],
    [{ n_keep: -1 }, { n_keep: -1 }],
    [{ stop: ['a', 'b'] }, { stop: ['a', 'b'] }],
    [{ tfs_z: 1.5 }, { tfs_z: undefined }],
    [{ typical_p: 0.7 }, { typical_p: 0.7 }],
    [{ repeat_penalty: 1.3 }, { repeat_penalty: 1.3 }],
    [{ repeat_last_n: -1 }, { repeat_last_n: -1 }],
    [{ penalize_nl: true }, { penalize_nl: undefined }],
    [{ presence_penalty: 0.4 }, { presence_penalty: 0.4 }],
    [{ frequency_penalty: 0.6 }, { frequency_penalty: 0.6 }],
    [{ mirostat: 2 }, { mirostat: 2 }],
    [{ mirostat_tau: 4 }, { mirostat_tau: 4 }],
    [{ mirostat_eta: 0.3 }, { mirostat_eta: 0.3 }],
    [{ grammar: 'root ::= "a"' }, { grammar: 'root ::= "a"' }],
    [{ seed: 5 }, { seed: 5 }],
    [{ ignore_eos: true }, { ignore_eos: true }],
    [{ logit_bias: [[5, false]] }, { logit_bias: [[5, false]] }],
    [{ n_probs: 0 }, { n_probs: 0, post_sampling_probs: undefined }],
    [{ n_probs: 3 }, { n_probs: 3, post_sampling_probs: true }],
    [{ slot_id: 3 }, { id_slot: 3, slot_id: undefined }],
    [{ cache_prompt: true }, { cache_prompt: true }],
  ];
  for (const [options, sent] of cases) {
    await complete(engine, options);
    const { body } = fake.last('/completion');
    for (const [name, value] of Object.entries(sent)) t.same(body[name], value, `${JSON.stringify(options)}: ${name}`);
  }
});

t.test('refuses by name what the engine has not', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const cases: readonly [Partial<CompletionOptions>, string[]][] = [
    [{ tfs_z: 0.9 }, ['body.tfs_z']],
    [{ penalize_nl: false }, ['body.penalize_nl']],
    [{ tfs_z: 0.9, penalize_nl: false }, ['body.tfs_z', 'body.penalize_nl']],
    [{ image_data: [{ id: 1, data: 'AA==' }] }, ['body.image_data']],
    [{ slot_id: 4 }, ['body.slot_id']],
  ];
  for (const [options, places] of cases) {
    t.same(
      refusedPlaces(() => begin(engine, options)),
      places,
    );
  }
  let refusal: unknown;
  try {
    begin(engine, { tfs_z: 0.9 });
  } catch (error) {
    refusal = (error as InvalidOptions).entries;
  }
  const msg = 'Value error, the engine behind this host (llama-server) has no tfs_z; only 1 is accepted';
  t.same(refusal, [{ loc: ['body', 'tfs_z'], msg, type: 'value_error' }]);
  t.equal(fake.requests.length, 0, 'before anything is sent');
});

t.test('makes one prompt of every shape', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const sent = async (parts: readonly (string | number)[], system = ''): Promise<unknown> => {
    await complete(engine, {}, { kind: 'parts', parts }, system);
    return fake.last('/completion').body['prompt'];
  };
  t.equal(await sent(['Hi']), 'Hi');
  t.equal(await sent([]), '');
  t.same(await sent([7]), [7]);
  t.same(await sent([7, 8]), [7, 8]);
  t.same(await sent(['Hi', 8, 'x']), ['Hi', 8, 'x']);
  t.same(await sent(['Hi', '', 'ab', 'c']), ['Hi', 97, 98, 'c'], 'texts alone would be taken for several prompts');
  t.same(await sent(['Hi'], SYSTEM), [1, ...Buffer.from(SYSTEM), 'Hi'], 'the system prompt begins the sequence');
  t.equal(await sent(['Hi']), 'Hi');
});

t.test('puts images where the prompt refers to them', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer({ modalities: { vision: true }, media_marker: '<m>' }));
  const image_data = [
    { id: 1, data: 'one' },
    { id: 2, data: 'two' },
  ];
  await complete(engine, { image_data }, { kind: 'parts', parts: ['a [img-2] b ', '[img-1] c'] }, SYSTEM);
  t.same(fake.last('/completion').body['prompt'], {
    prompt_string: 'Be brief.a <m> b <m> c',
    multimodal_data: ['two', 'one'],
  });
  const refused = (parts: (string | number)[]): string[] =>
    refusedPlaces(() => begin(engine, { image_data }, { kind: 'parts', parts }));
  t.same(refused(['[img-3]']), ['body.image_data']);
  t.same(refused(['[img-1]', 5]), ['body.image_data']);
  t.same(refused(['[img-1] [img-01]']), ['body.prompt'], 'an image stands in one place');
  t.equal(refused(['[img-9]'.repeat(1000)]).length, 100, 'as many mistakes as an answer lists');
});

t.test('takes time in proportion to the images of a prompt', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer({ modalities: { vision: true }, media_marker: '<m>' }));
  // Each look at an id is counted: marks times images would be 4,000,000.
  let looks = 0;
  const image_data = Array.from({ length: 2000 }, (_, id) => ({
    data: String(id),
    get id(): number {
      looks++;
      return id;
    },
  }));
  const parts = [image_data.map((_, id) => `[img-${1999 - id}]`).join('')];
  await complete(engine, { image_data }, { kind: 'parts', parts });
  const { multimodal_data } = fake.last('/completion').body['prompt'] as { readonly multimodal_data: string[] };
  t.same([multimodal_data.length, multimodal_data[0], multimodal_data.at(-1)], [2000, '1999', '0']);
  t.ok(looks <= 10_000, `${looks} looks`);
});

t.test('gives back every field of a result', async (t) => {
  const { engine } = await attach(t, startFakeLlamaServer());
  const { starts, texts, end } = await complete(engine, { n_predict: 2 });
  t.same(starts, [[9, 5, 2]], 'prompt tokens, tokens found in the cache, slot');
  t.same(texts, ['He', 'llo']);
  t.same(end, {
    reason: 'limit',
    stoppingWord: '',
    message: '',
    slotId: 2,
    promptTokens: 9,
    cachedTokens: 5,
    generatedTokens: 2,
    isTruncated: false,
    queueMs: 0,
    promptMs: 8,
    generationMs: 20,
    timings: { cache_n: 5, prompt_n: 4, prompt_ms: 8, predicted_n: 2, predicted_ms: 20 },
    seed: 4242,
  });
  t.match(engine.figures(), { running: 0, promptTokens: 9, cachedTokens: 5, generatedTokens: 2 });
});

t.test('understands how a completion stopped, today and before', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const cases: readonly [Record<string, unknown>, Record<string, unknown>][] = [
    [{ stop_type: 'eos' }, { reason: 'eos', stoppingWord: '' }],
    [
      { stop_type: 'word', stopping_word: 'END' },
      { reason: 'word', stoppingWord: 'END' },
    ],
    [{ stop_type: 'limit' }, { reason: 'limit', isTruncated: false }],
    [
      { stop_type: 'limit', truncated: true },
      { reason: 'context', isTruncated: true },
    ],
    [{ stop_type: undefined, stopped_eos: true }, { reason: 'eos' }],
    [
      { stop_type: undefined, stopped_word: true, stopping_word: 'x' },
      { reason: 'word', stoppingWord: 'x' },
    ],
    [{ stop_type: undefined, stopped_limit: true }, { reason: 'limit' }],
    [{ timings: { prompt_n: 2 } }, { cachedTokens: 7, promptMs: 0 }],
    [{ id_slot: undefined, slot_id: 1 }, { slotId: 1 }],
  ];
  for (const [over, expected] of cases) {
    fake.answers.set('/completion', events([partialFrame('a', { id_slot: undefined }), finalFrame(over)]));
    const { end } = await complete(engine, { n_predict: 50 });
    t.match(end, expected, JSON.stringify(over));
  }
});

t.test('translates probabilities', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const listed = [
    { id: 5, token: 'He', bytes: [72, 101], prob: 0.75 },
    { id: 6, token: '\ufffd', bytes: [0xc3], prob: 0.25 },
    { id: 7, token: 'x', bytes: [120], prob: 0 },
  ];
  const report = { ...listed[0], top_probs: listed };
  const old = { content: 'y', probs: [{ tok_str: 'y', prob: 1 }] };
  const raw = { token: 'z', bytes: [122], logprob: 0, top_logprobs: [{ token: 'z', bytes: [122], logprob: 0 }] };
  const odd = [{ content: 'q', probs: [null], bytes: [{ toString: 1 }] }, { content: 'r' }];
  const frame = partialFrame('He', { completion_probabilities: [report, old, raw, ...odd] });
  fake.answers.set('/completion', events([frame, finalFrame()]));
  const { reports } = await complete(engine, { n_probs: 2, stream: true });
  t.same(reports, [
    {
      content: 'He',
      probs: [
        { tok_str: 'He', prob: 0.75 },
        { tok_str: 'byte: \\xc3', prob: 0.25 },
      ],
    },
    old,
    { content: 'z', probs: [{ tok_str: 'z', prob: 1 }] },
    { content: 'q', probs: [{ tok_str: '', prob: 0 }] },
    { content: 'r', probs: [] },
  ]);
  t.same((await complete(engine, { n_probs: 0 })).reports, []);
});

t.test('drops the token that the engine makes when none is asked for', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const { texts, end } = await complete(engine, { n_predict: 0, cache_prompt: true });
  t.same(fake.last('/completion').body['n_predict'], 0);
  t.same(texts, []);
  t.match(end, { reason: 'limit', generatedTokens: 0, generationMs: 0, promptTokens: 9 });
});

t.test('fills in', async (t) => {
  const infill = { kind: 'infill', prefix: 'a(', suffix: ')' } as const;
  const starting = startFakeLlamaServer();
  const { engine, fake } = await attach(t, starting);
  const { texts } = await complete(engine, { n_predict: 4 }, infill);
  t.match(fake.last('/infill').body, { input_prefix: 'a(', input_suffix: ')', stream: true, n_predict: 4 });
  t.notOk('prompt' in fake.last('/infill').body);
  t.same(texts, ['He', 'llo']);
  const { input_prefix } = await complete(engine, {}, infill, SYSTEM).then(() => fake.last('/infill').body);
  t.equal(input_prefix, 'a(', 'a system prompt does not reach infills');
  const around = { ...infill, extra: [{ filename: 'b.ts', text: 'let b;' }], middle: 'b' };
  await complete(engine, {}, around);
  t.match(fake.last('/infill').body, { input_extra: [{ filename: 'b.ts', text: 'let b;' }], prompt: 'b' });
});

t.test('tokenizes and detokenizes', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  t.same(await engine.tokenize(LLAMA_MODEL, 'Hé'), [72, 0xc3, 0xa9]);
  t.equal(await engine.detokenize(LLAMA_MODEL, [72, 0xc3, 0xa9]), 'Hé');
  fake.answers.set('/detokenize', json(failureBody(400, 'no such token'), 400));
  await t.rejects(engine.detokenize(LLAMA_MODEL, [999]), { message: /^body.tokens: .*no such token/ });
  fake.answers.set('/tokenize', json(failureBody(500, 'broken'), 500));
  await t.rejects(engine.tokenize(LLAMA_MODEL, 'x'), { message: 'broken' });
});

t.test('reports failures as what they are', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const cases: readonly [string, Parameters<typeof fake.answers.set>[1], string][] = [
    ['a refusal', json(failureBody(400, 'failed to parse grammar'), 400), 'failed to parse grammar'],
    ['a failure', json(failureBody(500, 'slot broken', 'server_error'), 500), 'slot broken'],
    ['loading', json(failureBody(503, 'Loading model', 'unavailable_error'), 503), 'Loading model'],
    ['a failure that is no JSON', (_, r) => r.writeHead(500).end('oops'), 'the engine answered 500: oops'],
    ['an error event', events([partialFrame('a'), failureBody(500, 'out of memory')]), 'out of memory'],
    ['wrong JSON', events([partialFrame('a'), 'data: {"content":\n\n']), 'the engine sent an event that is not JSON'],
    ['no JSON object', events(['data: 5\n\n']), 'the engine sent an event that is not JSON'],
    ['an early end', events([partialFrame('a')]), 'the engine ended its answer before it was complete'],
    [
      'the old error field',
      events(['error: {"content":"x"}\n\n']),
      'the engine ended its answer before it was complete',
    ],
    ['a cut', events([partialFrame('a')], 'cut'), 'the engine broke off in the middle of its answer'],
    ['a death', (_, r) => r.destroy(), 'the engine closed the connection without an answer'],
    ['no stream', json(finalFrame()), 'the engine answered without a stream of events'],
  ];
  for (const [name, answer, message] of cases) {
    fake.answers.set('/completion', answer);
    const { end } = await complete(engine);
    t.match(end, { reason: 'failed', message }, name);
  }
  t.equal(engine.health(), 'failed', 'after a death, until the next look');
  await fake.close();
  const { end } = await complete(engine);
  t.match(end, { reason: 'failed', message: 'the engine cannot be reached' });
});

t.test('does not wait for ever', async (t) => {
  const clock = createManualClock();
  const { engine, fake } = await attach(t, startFakeLlamaServer(), {
    clock,
    timeouts: { firstMs: 100, idleMs: 100 },
    watchMs: 1_000_000,
  });
  fake.answers.set('/completion', events([partialFrame('a')], 'stay'));
  const idle = begin(engine);
  await idle.spoke;
  clock.advance(110);
  t.match((await idle.ended).end, { reason: 'failed', message: 'the engine fell silent in the middle of its answer' });
  const asked = Promise.withResolvers<void>();
  fake.answers.set('/completion', () => asked.resolve());
  const silent = begin(engine);
  await asked.promise;
  clock.advance(110);
  t.match((await silent.ended).end, { reason: 'failed', message: 'the engine did not answer in time' });
});

t.test('asks for the health of the engine whatever clients ask of it', async (t) => {
  const clock = createManualClock();
  const { engine, fake } = await attach(t, startFakeLlamaServer(), { clock, watchMs: 1000 });
  const questions = Promise.withResolvers<void>();
  const probed = Promise.withResolvers<void>();
  let open = 0;
  fake.answers.set('/tokenize', () => ++open === 16 && questions.resolve());
  fake.answers.set('/health', () => probed.resolve());
  for (let at = 0; at < 32; at++) engine.tokenize(engine.models[0]!, 'Hi').catch(() => undefined);
  await questions.promise;
  clock.advance(1000);
  await probed.promise;
  t.equal(engine.health(), 'ready');
});

t.test('leaves the engine when the client leaves', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  fake.answers.set('/completion', events([partialFrame('a')], 'stay'));
  const { run, spoke, ended } = begin(engine);
  t.equal(await spoke, 'a');
  let isEnded = false;
  void ended.then(() => (isEnded = true));
  run.cancel();
  await fake.abandoned;
  t.notOk(isEnded, 'and hands nothing more to the sink');
  t.equal(engine.figures().running, 0);
  run.cancel();
});

t.test('reads text that is cut anywhere', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const bytes = Buffer.from(
    [partialFrame('né'), finalFrame()].map((f) => `data: ${JSON.stringify(f)}\r\n\r\n`).join(''),
  );
  fake.answers.set('/completion', (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const byte of bytes) response.write(Buffer.of(byte));
    response.end();
  });
  t.same((await complete(engine)).texts, ['né']);
});

t.test('keeps the connection from one completion to the next', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const ports = new Set<number>();
  const answer = [PROGRESS_FRAME, finalFrame()].map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join('');
  fake.answers.set('/completion', (_, response) => {
    ports.add(response.socket!.remotePort!);
    response.writeHead(200, { 'content-type': 'text/event-stream', 'content-length': answer.length });
    response.end(answer);
  });
  for (let round = 0; round < 3; round++) {
    await complete(engine, {}, HI);
    // A connection that is given back rests for a turn.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  }
  t.equal(ports.size, 1);
});

t.test('waits as long for the first piece of an answer as for its head', async (t) => {
  const clock = createManualClock();
  const timeouts = { firstMs: 1000, idleMs: 100 };
  const { engine, fake } = await attach(t, startFakeLlamaServer(), { clock, timeouts, watchMs: 1_000_000 });
  const begun = Promise.withResolvers<() => void>();
  fake.answers.set('/completion', (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    begun.resolve(() => void response.end(`data: ${JSON.stringify(finalFrame())}\n\n`));
  });
  const { ended } = begin(engine);
  const finish = await begun.promise;
  // The head arrives with the next turns; a queue may be long after it.
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  clock.advance(500);
  finish();
  t.match((await ended).end, { reason: 'limit' });
});

t.test('lets the engine wait while the client does not read', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const frame = `data: ${JSON.stringify(partialFrame('x'.repeat(16_384)))}\n\n`;
  const full = Promise.withResolvers<void>();
  const frames = 2048;
  let sent = 0;
  fake.answers.set('/completion', (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (): void => {
      while (sent < frames) {
        sent++;
        if (response.write(frame)) continue;
        full.resolve();
        response.once('drain', send);
        return;
      }
      response.end(`data: ${JSON.stringify(finalFrame())}\n\n`);
    };
    send();
  });
  const reading = Promise.withResolvers<void>();
  let isReading = false;
  const { ended } = begin(engine, {}, HI, () => (isReading ? undefined : reading.promise));
  await full.promise;
  for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve));
  t.ok(sent < frames, `${sent} of ${frames} events were taken`);
  isReading = true;
  reading.resolve();
  t.equal((await ended).texts.length, frames, 'and none is lost');
});

t.test('answers failures with the status of the client, the engine or the host', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  const cases: readonly [Parameters<typeof fake.answers.set>[1], number][] = [
    [json(failureBody(400, 'too long'), 400), 400],
    [json(failureBody(429, 'slow down'), 429), 429],
    [json(failureBody(503, 'Loading model'), 503), 503],
    [json(failureBody(500, 'broken'), 500), 502],
    [json(failureBody(401, 'Invalid API Key'), 401), 502],
    [(_, response) => response.destroy(), 502],
  ];
  for (const [answer, status] of cases) {
    fake.answers.set('/completion', answer);
    t.match((await complete(engine)).end, { reason: 'failed', status });
  }
});
