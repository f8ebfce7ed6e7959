import { get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import t from 'tap';
import { systemClock } from '../../src/actor/index.ts';
import { createHost } from '../../src/host/index.ts';
import { JournalEntry } from '../../src/host/journal.ts';
import { Reply } from '../../src/host/reply.ts';
import { TimerSet } from '../../src/net/timer-set.ts';
import { serving } from '../support/serving.ts';

const host = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0, maxTokens: 4 });
t.before(() => host.listen());
t.teardown(() => host.close());

interface Raw {
  /** Everything after the head of the answer, as it came over the wire; empty when no head came. */
  readonly wire: string;
  readonly head: string;
  readonly reads: number;
  readonly end: 'end' | 'reset' | 'open';
}

/**
 * Sends one request over a bare socket and gathers what comes back until the connection ends, or until `until` is
 * true of what came (then the socket is destroyed: the client goes away).
 */
function exchange(fault: string, body: object, until: (text: string) => boolean = () => false): Promise<Raw> {
  const path = 'messages' in body ? '/v1/chat/completions' : '/completion';
  const json = JSON.stringify(body);
  return new Promise((resolve) => {
    const socket = connect(host.port, '127.0.0.1');
    let text = '';
    let reads = 0;
    const done = (end: Raw['end']): void => {
      const at = text.indexOf('\r\n\r\n');
      socket.destroy();
      resolve({ head: at === -1 ? '' : text.slice(0, at), wire: at === -1 ? '' : text.slice(at + 4), reads, end });
    };
    socket.setEncoding('utf8');
    socket.on('data', (chunk: string) => {
      text += chunk;
      reads++;
      if (until(text)) done('open');
    });
    socket.on('end', () => done('end'));
    socket.on('error', () => done('reset'));
    const faultLine = fault === '' ? '' : `x-headrace-fault: ${fault}\r\n`;
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n${faultLine}content-length: ${json.length}\r\n\r\n${json}`,
    );
  });
}

/** The payload of a chunked body; `whole` is false when the terminating chunk is missing. */
function dechunk(wire: string): { text: string; chunks: number; whole: boolean } {
  const bytes = Buffer.from(wire);
  const parts: Buffer[] = [];
  let at = 0;
  while (at < bytes.length) {
    const line = bytes.indexOf('\r\n', at);
    const size = Number.parseInt(bytes.toString('latin1', at, line), 16);
    if (size === 0) return { text: Buffer.concat(parts).toString(), chunks: parts.length, whole: true };
    parts.push(bytes.subarray(line + 2, line + 2 + size));
    at = line + 2 + size + 2;
  }
  return { text: Buffer.concat(parts).toString(), chunks: parts.length, whole: false };
}

const streamed = { model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: true };
const plain = { ...streamed, stream: false };
const events = (text: string): string[] => text.split('\n\n').filter((event) => event !== '');

t.test('without a fault a stream is whole: four tokens, a finish, [DONE] and the end', async (t) => {
  const raw = await exchange('', streamed);
  const { text, whole } = dechunk(raw.wire);
  t.ok(whole);
  t.equal(raw.end, 'end');
  t.match(raw.head, /200 OK[^]*content-type: text\/event-stream/i);
  t.equal(events(text).length, 6);
  t.ok(text.endsWith('data: [DONE]\n\n'));
});

t.test('refuse closes the connection without a byte', async (t) => {
  const arrived = host.nextRequest((request) => request.headers['x-headrace-fault'] === 'refuse');
  t.match(await exchange('refuse', plain), { head: '', end: 'reset' });
  t.equal((await arrived).bodyBytes, 0, 'the body was not waited for');
});

t.test('reset closes the connection after the body is read, before any header', async (t) => {
  t.match(await exchange('reset', plain), { head: '', end: 'reset' });
});

t.test('hang reads the request and never answers', async (t) => {
  const arrived = host.nextRequest((request) => request.headers['x-headrace-fault'] === 'hang');
  const socket = connect(host.port, '127.0.0.1');
  socket.write('POST /completion HTTP/1.1\r\nhost: h\r\nx-headrace-fault: hang\r\ncontent-length: 2\r\n\r\n{}');
  socket.on('data', () => t.fail('answered'));
  const request = await arrived;
  t.equal(host.live, 1);
  t.match(request, { bodyBytes: 2, status: 0, aborted: false });
  socket.destroy();
  await request.whenAborted();
  t.equal(host.live, 0);
});

t.test('status answers with the body and the headers it names', async (t) => {
  const raw = await exchange('status=529,body=no%20room,header=retry-after:9', streamed);
  t.match(raw.head, /^HTTP\/1\.1 529[^]*retry-after: 9/);
  t.equal(raw.wire, 'no room');
  const standard = await exchange('status=503', plain);
  t.match(JSON.parse(standard.wire), { error: { message: 'simulated 503', type: 'server_error', code: 'simulated' } });
});

t.test('reset-after resets after whole events, none of them lost', async (t) => {
  for (const count of [0, 1, 3]) {
    const raw = await exchange(`reset-after=${count}`, streamed);
    const { text, whole } = dechunk(raw.wire);
    t.match(raw.head, /200 OK/);
    t.match({ end: raw.end, whole, events: events(text).length }, { end: 'reset', whole: false, events: count });
  }
});

t.test('truncate-after ends the socket without the terminating chunk', async (t) => {
  const raw = await exchange('truncate-after=2', streamed);
  const { text, whole } = dechunk(raw.wire);
  t.match({ end: raw.end, whole, events: events(text).length }, { end: 'end', whole: false, events: 2 });
});

t.test('partial leaves half of the next event behind', async (t) => {
  const raw = await exchange('truncate-after=2,partial', streamed);
  const last = events(dechunk(raw.wire).text)[2]!;
  t.match(last, /^data: \{"id"/);
  t.notOk(last.endsWith('}'));
});

t.test('stall-after keeps the connection open and silent; the client leaving is an abort', async (t) => {
  const arrived = host.nextRequest((request) => request.headers['x-headrace-fault'] === 'stall-after=2');
  const raw = await exchange('stall-after=2', streamed, (text) => text.split('data: ').length === 3);
  t.equal(events(dechunk(raw.wire).text).length, 2);
  const request = await arrived;
  await request.whenAborted();
  t.match(request, { events: 2, finished: false });
});

t.test('end-after ends cleanly without a finish', async (t) => {
  const { text, whole } = dechunk((await exchange('end-after=2', streamed)).wire);
  t.ok(whole);
  t.equal(events(text).length, 2);
  t.notMatch(text, /"finish_reason":"|DONE/);
});

t.test('error-after sends the error event of the dialect and ends without [DONE]', async (t) => {
  const { text, whole } = dechunk((await exchange('error-after=2', streamed)).wire);
  t.ok(whole);
  t.match(JSON.parse(events(text)[2]!.slice(6)), { error: { message: String, type: 'server_error' } });
  t.equal(events(text).length, 3);
});

t.test('malformed-after breaks the JSON of one event and continues', async (t) => {
  const { text } = dechunk((await exchange('malformed-after=1', streamed)).wire);
  const list = events(text);
  t.equal(list.length, 6);
  t.throws(() => JSON.parse(list[1]!.slice(6)));
  t.ok(JSON.parse(list[2]!.slice(6)));
  t.equal(list[5], 'data: [DONE]');
});

t.test('no-done leaves out the closing event alone', async (t) => {
  const { text, whole } = dechunk((await exchange('no-done', streamed)).wire);
  t.ok(whole);
  t.match(text, /"finish_reason":"stop"/);
  t.notMatch(text, /DONE/);
});

t.test('split sends every byte as a chunk of its own, and the text is the same', async (t) => {
  const { text, chunks, whole } = dechunk((await exchange('split', streamed)).wire);
  t.ok(whole);
  t.equal(chunks, Buffer.byteLength(text));
  t.equal(events(text).length, 6);
  const whole1 = await exchange('split', plain);
  t.match(JSON.parse(whole1.wire), { object: 'chat.completion' });
});

t.test('crlf frames lines with CRLF', async (t) => {
  const { text } = dechunk((await exchange('crlf', streamed)).wire);
  t.equal(text.split('\r\n\r\n').filter((event) => event !== '').length, 6);
  t.notMatch(text, /[^\r]\n/);
});

t.test('faults combine', async (t) => {
  const { text, chunks, whole } = dechunk((await exchange('split,crlf,end-after=1', streamed)).wire);
  t.ok(whole);
  t.ok(text.endsWith('\r\n\r\n'));
  t.equal(chunks, Buffer.byteLength(text));
});

t.test('on an answer that is no stream the same faults act in the middle of the body', async (t) => {
  const whole = (await exchange('', plain)).wire.length;
  const cases: [string, Raw['end'] | 'open'][] = [
    ['reset-after=1', 'reset'],
    ['truncate-after=1', 'end'],
    ['end-after=1', 'end'],
    ['malformed-after=1', 'end'],
  ];
  for (const [fault, end] of cases) {
    const raw = await exchange(fault, plain);
    t.equal(raw.end, end, fault);
    t.ok(raw.wire.length > 0 && raw.wire.length < whole, fault);
    t.throws(() => JSON.parse(raw.wire), fault);
    const declared = Number(/content-length: (\d+)/.exec(raw.head)?.[1]);
    const declaredWhole = fault.startsWith('reset') || fault.startsWith('truncate');
    t.equal(declared > raw.wire.length, declaredWhole, `${fault}: the length it declared`);
  }
  const stalled = await exchange(
    'stall-after=1',
    plain,
    (text) => text.includes('"choices"') || text.includes('chatcmpl'),
  );
  t.match(stalled.head, /200 OK/);
  t.match((await exchange('error-after=1', plain)).head, /^HTTP\/1\.1 500/);
});

t.test('an answer a fault cut is neither finished nor aborted', async (t) => {
  for (const fault of ['refuse', 'reset', 'reset-after=1', 'truncate-after=1', 'end-after=1', 'no-done']) {
    await exchange(fault, streamed);
    const request = host.requests.at(-1)!;
    await request.whenClosed();
    t.match(request, { finished: false, aborted: false }, fault);
  }
});

t.test('a mistaken fault header is answered 400', async (t) => {
  const raw = await exchange('explode', plain);
  t.match(raw.head, /400/);
  t.match(raw.wire, /unknown fault 'explode'/);
});

t.test('generations of one answer wait together for a client that reads slowly', async (t) => {
  const client = Promise.withResolvers<IncomingMessage>();
  const waited = Promise.withResolvers<number>();
  const done = Promise.withResolvers<unknown>();
  const timers = new TimerSet(systemClock);
  t.teardown(() => timers.cancelAll());
  const url = await serving(t, (request, response) => {
    const reply = new Reply(response, new JournalEntry(1, 'GET', '/', request.headers), 'id', {}, timers);
    const { socket } = request;
    response.writeHead(200);
    const fill = (): void => {
      if (socket.writableNeedDrain) return wait();
      response.write(Buffer.alloc(1_048_576));
      setImmediate(fill);
    };
    const wait = (): void => {
      const before = socket.listenerCount('drain') + response.listenerCount('close');
      const rests = Array.from({ length: 20 }, () => reply.rest());
      waited.resolve(socket.listenerCount('drain') + response.listenerCount('close') - before);
      void Promise.all(rests).then(() => {
        done.resolve(reply.rest());
        response.end();
      });
    };
    fill();
  });
  get(url, (response) => client.resolve(response));
  t.equal(await waited.promise, 2, 'one listener for each event');
  (await client.promise).resume();
  t.equal(await done.promise, undefined, 'and all go on once it has read');
});
