import type { ServerResponse } from 'node:http';
import t from 'tap';
import { createManualClock } from '../../../src/actor/index.ts';
import { attachEngine } from '../../../src/host/attached/attached-engine.ts';
import { describeEngine } from '../../../src/host/attached/detect.ts';
import { type Answer, json, startFakeEngine } from '../../support/fake-engine.ts';
import { failureBody, LLAMA_MODEL, startFakeLlamaServer } from '../../support/fake-llama-server.ts';
import { startFakeOpenAi, startFakeVllm, VLLM_MODEL } from '../../support/fake-vllm.ts';
import { attach, complete } from './attach.ts';

t.test('recognises llama-server by its properties', async (t) => {
  const { engine, fake } = await attach(t, startFakeLlamaServer());
  t.equal(engine.kind, 'llama-server');
  t.same(engine.models, [LLAMA_MODEL]);
  t.equal(engine.contextTokens(LLAMA_MODEL), 2048, 'of one slot, not of the training');
  t.equal(engine.props().slots, 4);
  t.equal(
    describeEngine(engine.detected),
    `The engine at ${fake.url} is llama-server b7000-abc with ${LLAMA_MODEL} (2048 tokens): 4 slots, infill, tokenize, ` +
      '/v1/completions, /v1/chat/completions, /v1/responses; without /v1/messages, /v1/embeddings, tfs_z, penalize_nl, ' +
      'image_data.',
  );
});

t.test('recognises a llama-server that keeps its properties to itself', async (t) => {
  const refusals: Answer[] = [json({}, 403), json({}, 501), json({}, 503), (_, response) => response.destroy()];
  for (const refusal of refusals) {
    const starting = startFakeLlamaServer();
    const { answers } = await starting;
    for (const path of ['/props', '/slots', '/metrics', '/version']) answers.set(path, refusal);
    const { engine, fake } = await attach(t, starting);
    t.equal(engine.kind, 'llama-server');
    t.match((await complete(engine, { slot_id: 0 })).texts, ['He', 'llo']);
    t.equal(fake.last('/completion').body['id_slot'], 0);
  }
  const router = startFakeLlamaServer({
    role: 'router',
    default_generation_settings: { n_ctx: 0 },
    total_slots: undefined,
  });
  const { engine } = await attach(t, router);
  t.same([engine.kind, engine.props().slots, engine.contextTokens(LLAMA_MODEL)], ['llama-server', 0, 0]);
});

t.test('recognises vLLM by its version', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm());
  t.equal(engine.kind, 'vllm');
  t.equal(engine.contextTokens(VLLM_MODEL), 4096);
  t.equal(engine.props().slots, 0);
  t.equal(await engine.slots(), null);
  t.match(describeEngine(engine.detected), `${fake.url} is vLLM 0.11.0 with ${VLLM_MODEL} (4096 tokens): tokenize, `);
});

t.test('takes anything else that lists models for OpenAI-compatible', async (t) => {
  const { engine } = await attach(t, startFakeOpenAi(), { contextTokens: 1000 });
  t.equal(engine.kind, 'openai');
  t.equal(engine.contextTokens(VLLM_MODEL), 1000, 'as the settings say');
  t.match(describeEngine(engine.detected), 'is an OpenAI-compatible server with org/Tiny-8B: /v1/completions, ');
});

t.test('notices images and the absence of infill', async (t) => {
  const starting = startFakeLlamaServer({ modalities: { vision: true } });
  (await starting).answers.set('/infill', json(failureBody(501, 'no FIM tokens', 'not_supported_error'), 501));
  const { engine } = await attach(t, starting);
  t.equal(engine.props().isMultimodal, true);
  t.equal(engine.detected.canInfill, false);
});

t.test('gives the only model of an engine another name, and refuses names that mean nothing', async (t) => {
  const { engine, fake } = await attach(t, startFakeVllm(), { models: ['small'] });
  t.same(engine.models, ['small']);
  await t.rejects(attachEngine({ url: fake.url, models: ['a', 'b'] }), {
    message: `the engine at ${fake.url} has no model a; it has ${VLLM_MODEL}`,
  });
  const other = await attachEngine({ url: `${fake.url}/v1/`, models: ['ORG/tiny-8b'] });
  t.teardown(() => other.close());
  t.same(other.models, ['ORG/tiny-8b'], 'in any case of letters, and with /v1 at the end of the URL');
});

t.test('waits while the engine loads and says why', async (t) => {
  const fake = await startFakeLlamaServer();
  t.teardown(() => fake.close());
  const clock = createManualClock();
  const ready = fake.answers.get('/health')!;
  fake.answers.set('/health', json(failureBody(503, 'Loading model', 'unavailable_error'), 503));
  const reasons: string[] = [];
  const onWaiting = Promise.withResolvers<void>();
  const attaching = attachEngine({
    url: fake.url,
    clock,
    onWaiting(reason) {
      reasons.push(reason);
      onWaiting.resolve();
    },
  });
  await onWaiting.promise;
  fake.answers.set('/health', ready);
  // The wait begins in the turn after the reason was told.
  await new Promise((resolve) => setImmediate(resolve));
  clock.advance(1000);
  const engine = await attaching;
  t.teardown(() => engine.close());
  t.same(reasons, ['it is not ready: Loading model']);
});

t.test('gives up with a sentence', async (t) => {
  t.test('when no engine answers in time', async (t) => {
    const fake = await startFakeLlamaServer();
    await fake.close();
    await t.rejects(attachEngine({ url: fake.url, readyMs: 500 }), {
      message: `no engine is ready at ${fake.url} after 0.5 s: the engine cannot be reached`,
    });
  });
  t.test('when it is silent', async (t) => {
    const clock = createManualClock();
    const asked = Promise.withResolvers<void>();
    const fake = await startFakeEngine(new Map(), () => asked.resolve());
    t.teardown(() => fake.close());
    const attaching = attachEngine({ url: fake.url, clock, questionMs: 10, readyMs: 500 });
    await asked.promise;
    clock.advance(10);
    await t.rejects(attaching, { message: /after 0.5 s: the engine did not answer in time/ });
  });
  t.test('when it wants another key', async (t) => {
    const fake = await startFakeEngine(new Map(), json({ error: 'no' }, 401));
    t.teardown(() => fake.close());
    await t.rejects(attachEngine({ url: fake.url }), {
      message: `the engine at ${fake.url} refuses the key of the host (401)`,
    });
  });
  t.test('when it is no engine', async (t) => {
    const fake = await startFakeEngine(new Map(), (_, response) => response.writeHead(200).end('<html>hello</html>'));
    t.teardown(() => fake.close());
    await t.rejects(attachEngine({ url: fake.url }), { message: /is no engine: \/v1\/models answered 200/ });
  });
  t.test('when its URL is none', async (t) => {
    await t.rejects(attachEngine({ url: 'ftp://x' }), { message: 'not the URL of an engine: ftp://x' });
  });
});

t.test('asks with the key of the settings', async (t) => {
  const fake = await startFakeLlamaServer();
  t.teardown(() => fake.close());
  const engine = await attachEngine({ url: fake.url, apiKey: 'engine-key' });
  t.teardown(() => engine.close());
  t.ok(fake.requests.length > 5);
  t.ok(fake.requests.every(({ headers }) => headers.authorization === 'Bearer engine-key'));
});

t.test('follows the health of the engine, and shows its slots when it is asked', async (t) => {
  const clock = createManualClock();
  const notices: string[] = [];
  const onNotice = (sentence: string): void => void notices.push(sentence);
  const { engine, fake } = await attach(t, startFakeLlamaServer(), { clock, onNotice });
  t.same(await engine.slots(), [
    { id: 0, n_ctx: 2048, is_processing: true, n_tokens: 12, next_token: [{ n_decoded: 12 }] },
  ]);
  const looked = async (): Promise<void> => {
    const answered = Promise.withResolvers<void>();
    const health = fake.answers.get('/health')!;
    fake.answers.set('/health', (request, response) => {
      response.on('finish', () => answered.resolve());
      health(request, response);
    });
    clock.advance(2000);
    await answered.promise;
    fake.answers.set('/health', health);
    // The next look is set once this one is over.
    while (clock.nextDueMs > clock.now() + 2000) await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
  };
  t.equal(engine.health(), 'ready');
  fake.answers.set('/health', json(failureBody(503, 'Loading model'), 503));
  await looked();
  t.equal(engine.health(), 'loading');
  fake.answers.set('/health', json({ status: 'ok' }));
  await looked();
  t.equal(engine.health(), 'ready');
  for (const refused of [json({}, 403), json({}, 501), (_: unknown, response: ServerResponse) => response.destroy()]) {
    for (const path of ['/slots', '/props', '/metrics']) fake.answers.set(path, refused);
    await looked();
    t.equal(engine.health(), 'ready', 'whatever it keeps to itself');
    t.equal(await engine.slots(), null);
    t.same(await engine.ownProps(), {});
    t.equal(await engine.metrics(), null);
  }
  fake.answers.set('/health', json({}, 500));
  await looked();
  t.equal(engine.health(), 'failed');
  const list = fake.answers.get('/v1/models')!;
  fake.answers.set('/v1/models', json({ data: [{ id: 'another' }] }));
  fake.answers.set('/health', json({ status: 'ok' }));
  await looked();
  await looked();
  t.equal(engine.health(), 'failed', 'while what came back has other models');
  fake.answers.set('/v1/models', list);
  await looked();
  t.equal(engine.health(), 'ready');
  const told = ['is loading', 'is back', 'is away', `came back without ${LLAMA_MODEL}`, 'is back'];
  t.same(
    notices,
    told.map((what) => `the engine at ${fake.url} ${what}`),
  );
});

t.test('says nothing of an engine that it has left', async (t) => {
  const clock = createManualClock();
  const notices: string[] = [];
  const { engine, fake } = await attach(t, startFakeLlamaServer(), { clock, onNotice: (text) => notices.push(text) });
  const asked = Promise.withResolvers<void>();
  fake.answers.set('/health', () => asked.resolve());
  clock.advance(2000);
  await asked.promise;
  await engine.close();
  await fake.abandoned;
  await new Promise((resolve) => setImmediate(resolve));
  t.same(notices, []);
  t.equal(engine.health(), 'ready', 'the question that was under way says nothing about it');
});
