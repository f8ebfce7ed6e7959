// The interface for other engines: what a host does with one that speaks the dialects itself, and with one that is not ready.
import t from 'tap';
import { type ModelEngine, createSimulatedEngine } from '../../../src/host/index.ts';
import { ask, send, startHost } from './ask.ts';

/** A simulated engine with other members in place. */
function engineWith(own: Partial<ModelEngine>): ModelEngine {
  const engine = createSimulatedEngine({ models: ['m'], speed: 'virtual' });
  return new Proxy(engine, {
    get(target, name) {
      if (name in own) return own[name as keyof ModelEngine];
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

t.test('an engine that serves the dialects gets their requests unchanged', async (t) => {
  const seen: string[] = [];
  const engine = engineWith({
    kind: 'other',
    relay: async ({ path, model, body }) => {
      seen.push(`${path} ${model} ${body.toString()}`);
      const chunks = async function* (): AsyncGenerator<Uint8Array> {
        yield Buffer.from('one ');
        yield Buffer.from('two');
      };
      return { status: 201, headers: { 'content-type': 'text/plain' }, body: chunks() };
    },
  });
  const host = await startHost(t, { engine });
  const response = await send(host, '/v1/chat/completions', { model: 'M', a: 1 });
  t.same([response.status, await response.text()], [201, 'one two']);
  t.same(seen, ['/v1/chat/completions m {"model":"M","a":1}']);
  t.equal((await ask(host, '/completion', { prompt: 'x', n_predict: 2, ignore_eos: true })).tokens_predicted, 2);
  t.match(await (await fetch(`${host.url}/health`)).json(), { engine: 'other' });
});

t.test('an engine that fails before its answer is a 502, within it the connection is cut', async (t) => {
  let answer: NonNullable<ModelEngine['relay']> = () => Promise.reject(new Error('nobody there'));
  const host = await startHost(t, { engine: engineWith({ relay: (request) => answer(request) }) });
  const failed = await send(host, '/v1/chat/completions', { model: 'm' });
  t.equal(failed.status, 502);
  t.match(await failed.json(), { detail: 'nobody there', error: { code: 'engine_failed' } });
  answer = async () => ({
    status: 200,
    headers: {},
    body: (async function* () {
      yield Buffer.from('half');
      await Promise.resolve();
      throw new Error('gone');
    })(),
  });
  await t.rejects(send(host, '/v1/chat/completions', { model: 'm' }).then((response) => response.text()));
});

t.test('an engine that fails to show what a GET asks for is a 502', async (t) => {
  const fail = (): never => {
    throw new Error('slots are lost');
  };
  const later = async (): Promise<never> => fail();
  const engine = engineWith({ slots: later, ownProps: later, metrics: later, shown: later, listed: fail });
  const host = await startHost(t, { engine });
  for (const path of ['/slots', '/props', '/metrics', '/api/ps', '/v1/models']) {
    const failed = await fetch(host.url + path);
    t.equal(failed.status, 502, path);
    t.match(await failed.text(), /slots are lost/);
  }
});

t.test('an answer with the probabilities of too many tokens is refused before it fills the memory', async (t) => {
  const one = { token: 'a', logprob: -1, bytes: [97] };
  const listed = new Array<typeof one>(500_000).fill(one);
  const report = {
    content: 'a',
    probs: listed.map(() => ({ tok_str: 'a', prob: 0.1 })),
    logProbs: { ...one, top_logprobs: listed },
  };
  const cancelled = new Set<object>();
  const complete: ModelEngine['complete'] = (task, sink) => {
    const own = task.logProbs === undefined ? { ...report, logProbs: undefined } : { ...report, probs: [] };
    for (let at = 0; at < 5; at++) setImmediate(() => sink.text('a', [own as typeof report]));
    return { cancel: () => void cancelled.add(task) };
  };
  const host = await startHost(t, { engine: engineWith({ complete }) });
  const messages = [{ role: 'user', content: 'a' }];
  for (const [path, body] of [
    ['/completion', { prompt: 'a', n_probs: 1 }],
    ['/v1/completions', { model: 'm', prompt: 'a', logprobs: 1 }],
    ['/v1/chat/completions', { model: 'm', messages, logprobs: true }],
  ] as const) {
    const refused = await send(host, path, body);
    t.equal(refused.status, 400, path);
    t.match(await refused.json(), { detail: /at most 2097152 tokens/ });
  }
  t.equal(cancelled.size, 3);
});

t.test('a host whose engine has failed says so, and not that it is loading', async (t) => {
  let state: 'failed' | 'ready' = 'failed';
  const host = await startHost(t, { engine: engineWith({ kind: 'other', health: () => state }) });
  for (const path of ['/health', '/health/m']) {
    const response = await fetch(host.url + path);
    t.equal(response.status, 503);
    const message = 'The engine behind this host (other) is away';
    t.same(await response.json(), {
      status: 'engine away',
      error: { code: 503, message, type: 'unavailable_error' },
    });
  }
  const refused = await send(host, '/completion', { prompt: 'x' });
  t.equal(refused.status, 503);
  t.match(await refused.json(), { detail: /engine behind this host \(other\) is away/ });
  state = 'ready';
  t.equal((await fetch(`${host.url}/health`)).status, 200);
});

t.test('what an engine has not is refused by name: log probabilities, counting', async (t) => {
  const host = await startHost(t, {
    engine: engineWith({ kind: 'other', givesLogProbs: undefined!, countPrompt: undefined! }),
  });
  const chat = { model: 'm', messages: [{ role: 'user', content: 'x' }], max_tokens: 2 };
  const listed = await send(host, '/v1/chat/completions', { ...chat, logprobs: true });
  t.equal(listed.status, 422);
  t.match(await listed.json(), { detail: [{ loc: ['body', 'logprobs'], msg: /\(other\) gives no log prob/ }] });
  const counted = await send(host, '/v1/messages/count_tokens', chat);
  t.equal(counted.status, 501);
  t.match(await counted.json(), { detail: /\(other\) does not count tokens/ });
});

t.test('a failure keeps the status its engine gives it, and streams ask whether the client takes more', async (t) => {
  const asked: boolean[] = [];
  const engine = engineWith({
    complete(_task, sink) {
      asked.push(sink.rest !== undefined);
      const end = { reason: 'failed', message: 'too late', status: 504 } as Parameters<typeof sink.end>[0];
      setImmediate(() => sink.end(end));
      return { cancel: () => undefined };
    },
  });
  const host = await startHost(t, { engine });
  for (const stream of [false, true]) {
    const response = await send(host, '/v1/messages', {
      model: 'm',
      messages: [{ role: 'user', content: 'x' }],
      stream,
    });
    t.equal(response.status, 504);
    t.match(await response.json(), { detail: 'too late', error: { message: 'too late' } });
  }
  t.same(asked, [true, true]);
});

t.test('a host whose engine is loading is not ready', async (t) => {
  let state: 'loading' | 'ready' = 'loading';
  const host = await startHost(t, { engine: engineWith({ health: () => state }) });
  t.equal((await fetch(`${host.url}/health`)).status, 503);
  t.equal((await send(host, '/completion', { prompt: 'x' })).status, 503);
  state = 'ready';
  t.equal((await fetch(`${host.url}/health/m`)).status, 200);
});
