import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { createServer } from 'node:net';
import t from 'tap';
import { createManualClock } from '../../../src/actor/testkit.ts';
import { type Host, createHost, parseFault } from '../../../src/host/index.ts';
import { ask, dataOf, send, startHost } from './ask.ts';

const BODY = { prompt: 'x', n_predict: 6, seed: 1, ignore_eos: true, stream: true };

async function stream(host: Host, fault: string, body: object = BODY): Promise<string> {
  return (await send(host, '/completion', body, { 'x-headrace-fault': fault })).text();
}

t.test('faults within a stream act on the events of the engine', async (t) => {
  const host = await startHost(t);
  const whole = dataOf(await stream(host, ''));
  t.equal(whole.length, 7);
  const cut = dataOf(await stream(host, 'end-after=3'));
  t.same(cut, whole.slice(0, 3), 'a clean end without a finish');
  t.equal(host.requests.at(-1)!.finished, false);
  const failed = dataOf(await stream(host, 'error-after=2'));
  t.match(failed, [{ stop: false }, { stop: false }, { error: { code: 500, message: /failed/ } }]);
  t.same(dataOf((await stream(host, 'crlf')).replaceAll('\r\n', '\n')).slice(0, 6), whole.slice(0, 6));
  t.match(await stream(host, 'crlf'), /\}\r\n\r\ndata: /);
  t.equal(dataOf(await stream(host, 'no-done')).length, 6);
  await t.rejects(stream(host, 'reset-after=2'));
  await t.rejects(stream(host, 'truncate-after=2'));
});

t.test('writes of one byte, and writes that end within characters, carry the same bytes', async (t) => {
  const host = await startHost(t);
  const body = { ...BODY, grammar: 'root ::= "水車 wörld 🌊"', n_predict: 60 };
  const text = (raw: string): string =>
    dataOf(raw)
      .map(({ content }) => content)
      .join('');
  t.equal(text(await stream(host, '', body)), '水車 wörld 🌊');
  t.equal(text(await stream(host, 'split', body)), '水車 wörld 🌊');
  const asked = request(`${host.url}/completion`, { method: 'POST', headers: { 'x-headrace-fault': 'split-utf8' } });
  asked.end(JSON.stringify(body));
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  // Not by iterating: that joins what has come.
  response.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(response, 'end');
  t.equal(text(Buffer.concat(chunks).toString()), '水車 wörld 🌊');
  t.ok(
    chunks.some((chunk) => chunk.at(-1)! >= 0xc0),
    'a chunk ends with the first byte of a character',
  );
});

t.test('out of memory ends all generations, and new ones go on', async (t) => {
  const host = await startHost(t, { engine: { slots: 4, profile: { stepUs: 2000 } } });
  const other = await send(host, '/completion', { ...BODY, n_predict: -1 });
  const reader = other.body!.getReader();
  await reader.read();
  await stream(host, 'oom-after=2');
  let rest = '';
  for (let part = await reader.read(); !part.done; part = await reader.read())
    rest += Buffer.from(part.value).toString();
  t.match(dataOf(rest).at(-1), { error: { message: 'the engine ran out of memory' } });
  t.match(await ask(host, '/completion', { prompt: 'x', n_predict: 2, seed: 1 }), { tokens_predicted: 2 });
});

t.test('out of memory fails answers that are not streamed too', async (t) => {
  const host = await startHost(t);
  const other = await startHost(t, { engine: 'paced' });
  const shapes: [string, object][] = [
    ['/completion', { prompt: 'x' }],
    ['/v1/completions', { prompt: 'x' }],
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }] }],
    ['/v1/responses', { input: 'x', max_output_tokens: 6 }],
    ['/v1/messages', { messages: [{ role: 'user', content: 'x' }] }],
  ];
  for (const [path, body] of shapes) {
    const request = {
      model: 'm',
      seed: 1,
      n_predict: 6,
      max_tokens: 6,
      ignore_eos: true,
      ...body,
    };
    for (const count of [0, 4]) {
      const response = await send(host, path, request, { 'x-headrace-fault': `oom-after=${count}` });
      t.equal(response.status, 500, path);
      t.match(await response.json(), { detail: 'the engine ran out of memory', error: { message: /out of memory/ } });
    }
    t.equal(
      (await send(host, path, request, { 'x-headrace-fault': 'oom-after=6' })).status,
      200,
      'it never came to it',
    );
    t.equal((await send(other, path, request, { 'x-headrace-fault': 'oom-after=0' })).status, 200, 'no engine');
  }
});

t.test('a host can be sent to load its model again at run time', async (t) => {
  const clock = createManualClock();
  const host = createHost({ models: ['m'], engine: { speed: 'virtual' }, clock, control: true });
  await host.listen();
  t.teardown(() => host.kill());
  const health = async (): Promise<number> => (await fetch(`${host.url}/health`)).status;
  t.equal(await health(), 200);
  const plan = [{ fault: 'loading=5000', times: 1 }];
  t.equal((await send(host, '/sim/faults', plan)).status, 200);
  t.equal((await send(host, '/completion', BODY)).status, 503);
  t.equal(await health(), 503);
  t.equal((await fetch(`${host.url}/health/m`)).status, 503);
  clock.advance(4999);
  t.equal((await send(host, '/completion', BODY)).status, 503);
  clock.advance(2);
  t.equal(await health(), 200);
  t.equal((await send(host, '/completion', BODY)).status, 200);
});

t.test('a host that flaps comes and goes', async (t) => {
  const clock = createManualClock();
  const host = createHost({ models: ['m'], engine: { speed: 'virtual' }, clock });
  await host.setFault([{ fault: parseFault('flap=100') }]);
  await host.listen();
  t.teardown(() => host.kill());
  const answers = (): Promise<boolean> =>
    fetch(`${host.url}/health`).then(
      () => true,
      () => false,
    );
  t.equal(await answers(), true);
  clock.advance(100);
  t.equal(await answers(), false);
  const other = createServer((socket) => socket.destroy()).listen(host.port, '127.0.0.1');
  await once(other, 'listening');
  clock.advance(100);
  t.equal(await answers(), false, 'its port is taken');
  await new Promise((closed) => other.close(closed));
  clock.advance(100);
  // Listening again takes a turn of the event loop.
  while (!(await answers())) t.pass('not yet');
  await host.setFault(null);
  clock.advance(500);
  t.equal(await answers(), true, 'a new plan ends it');
});
