// Request bodies: limits, wrong lengths, slow bodies, and clients that send on after the response. Cases about framing need a
// socket; `inject` gets whole bodies.

import t from 'tap';
import { SERVER_ADAPTERS, CHAT, GOOD, MODEL, onEach, SOCKETS } from '../support/server-adapter.ts';
import { encode, head } from '../support/server-adapter-wire.ts';

const PATH = '/v1/chat/completions';
const MEGABYTE: Buffer = Buffer.alloc(1 << 20, ' ');
const HUGE = 150 << 20;

const TOO_LARGE = { detail: `Request body exceeds ${100 << 20} bytes` };

/** Head of a POST with these fields beside the key. */
function post(fields: Record<string, string>, key: Record<string, string> = GOOD): string {
  return head('POST', PATH, { host: 'x', ...key, ...fields });
}

function chunk(bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.byteLength.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

onEach(
  t,
  SERVER_ADAPTERS,
  'bodies pass up to the exact limit',
  async (t, { ask, host }) => {
    const padded = (length: number): string =>
      `{"model":"${MODEL}"${' '.repeat(length - MODEL.length - 13)}}`.padEnd(length);
    t.equal(padded(1000).length, 1000);
    t.equal((await ask({ path: '/v1/embeddings', headers: GOOD, body: padded(1000) })).headers['x-host'], 'host');
    t.equal((await host.nextRequest()).bodyBytes, 1000);
    const answer = await ask({ path: '/v1/embeddings', headers: GOOD, body: padded(1001) });
    t.match(answer, { status: 413, headers: { 'x-headrace-error': 'HR_REQUEST_TOO_LARGE' } });
    t.same(answer.json(), { detail: 'Request body exceeds 1000 bytes' });
  },
  { limits: { bodyBytes: 1000 } },
);

onEach(t, SOCKETS, 'a declared length over the limit is 413 before the body is sent', async (t, { dial }) => {
  const wire = dial();
  await wire.send(post({ 'content-length': String(HUGE) }));
  const answer = await wire.answer();
  t.match(answer, { status: 413, headers: { connection: 'close' } });
  t.same(answer.json(), TOO_LARGE);
});

onEach(t, SOCKETS, 'a bad key is 401 before the body is sent, whatever its length', async (t, { dial }) => {
  for (const length of [10, 1 << 20, HUGE]) {
    const wire = dial();
    await wire.send(post({ 'content-length': String(length) }, { authorization: 'Bearer no' }));
    t.equal((await wire.answer()).status, 401);
  }
});

onEach(t, SOCKETS, 'a client that sends 150 MB before it reads gets the response, not a reset', async (t, { dial }) => {
  const cases: [string, string, Buffer, string, number][] = [
    ['length', post({ 'content-length': String(HUGE) }), MEGABYTE, '', 413],
    ['chunks', post({ 'transfer-encoding': 'chunked' }), chunk(MEGABYTE), '0\r\n\r\n', 413],
    ['bad key', post({ 'content-length': String(HUGE) }, { 'x-api-key': 'no' }), MEGABYTE, '', 401],
  ];
  for (const [name, start, piece, end, status] of cases) {
    const wire = dial();
    wire.socket.pause();
    await wire.send(start);
    for (let sent = 0; sent < HUGE; sent += MEGABYTE.byteLength) await wire.send(piece);
    await wire.send(end);
    t.notOk(wire.socket.destroyed, `${name}: everything was sent`);
    wire.socket.resume();
    const answer = await wire.answer();
    t.match(answer, { status, headers: { connection: 'close' } }, name);
    wire.leave();
  }
});

onEach(
  t,
  SOCKETS,
  'a chunked body over the limit is 413',
  async (t, { dial }) => {
    const wire = dial();
    await wire.send(post({ 'transfer-encoding': 'chunked' }));
    await wire.send(chunk(Buffer.alloc(600, ' ')));
    await wire.send(chunk(Buffer.alloc(600, ' ')));
    const answer = await wire.answer();
    t.equal(answer.status, 413);
    t.same(answer.json(), { detail: 'Request body exceeds 1000 bytes' });
  },
  { limits: { bodyBytes: 1000 } },
);

onEach(
  t,
  SOCKETS,
  'the connection is kept after a small refused body',
  async (t, { dial }) => {
    const wire = dial();
    await wire.send(post({ 'content-length': '2000' }));
    t.equal((await wire.answer()).status, 413);
    await wire.send(' '.repeat(2000));
    await wire.send(head('GET', '/health', { host: 'x' }));
    t.equal((await wire.answer()).status, 200);
  },
  { limits: { bodyBytes: 1000 } },
);

onEach(t, SOCKETS, 'a chunked body arrives whole wherever it is cut', async (t, { dial, host }) => {
  const body = Buffer.from(JSON.stringify(CHAT));
  const wire = dial();
  await wire.send(post({ 'transfer-encoding': 'chunked' }));
  for (const byte of body) await wire.send(chunk(Buffer.of(byte)));
  await wire.send('0\r\n\r\n');
  t.equal((await wire.answer()).status, 200);
  t.equal((await host.nextRequest()).bodyBytes, body.byteLength);
});

onEach(
  t,
  SOCKETS,
  'a Content-Length that is no number is 400 and closes the connection',
  async (t, { dial, host }, adapter) => {
    const huge = '99999999999999999999';
    const lengths = ['abc', '-1', '+5', '0x5', '5, 6', '', huge, '5.0', '1e2'];
    for (const length of lengths) {
      const wire = dial();
      await wire.send(`${post({ 'content-length': length })}hello`);
      const status = adapter === 'node' && length === huge ? 413 : 400;
      t.equal((await wire.answer()).status, status, `"${length}"`);
      t.equal(await wire.ended, 'fin');
    }
    t.equal(host.requests.filter(({ method }) => method === 'POST').length, 0);
  },
);

onEach(t, SOCKETS, 'conflicting lengths are 400 and nothing after them is read as a request', async (t, { dial }) => {
  const fields = ['host: x', `authorization: ${GOOD['authorization']}`];
  const health = head('GET', '/health', { host: 'x' });
  for (const framing of [
    ['content-length: 5', `content-length: ${5 + health.length}`],
    [`content-length: ${5 + health.length}`, 'content-length: 5'],
    ['content-length: 5', 'transfer-encoding: chunked'],
  ]) {
    const request = `${head('POST', PATH, [...fields, ...framing])}${framing[1]?.endsWith('d') ? '0\r\n\r\n' : 'hello'}`;
    const alone = dial();
    await alone.send(request);
    t.equal((await alone.answer()).status, 400, framing.join());
    t.equal(await alone.ended, 'fin');

    const followed = dial();
    await followed.send(request + health);
    await followed.ended;
    t.notMatch(followed.pending, /HTTP\/1\.1 200/, framing.join());
    t.ok(followed.pending.split('HTTP/1.1').length <= 2, 'one response at most');
  }
});

onEach(
  t,
  SOCKETS,
  'a body that stalls is 408 after the configured time',
  async (t, { dial }) => {
    const begun = dial();
    const silent = dial();
    await begun.send(`${post({ 'content-length': '100' })}{"model":`);
    await silent.send(post({ 'content-length': '100' }));
    for (const wire of [begun, silent]) {
      const answer = await wire.answer();
      t.match(answer, { status: 408, headers: { 'x-headrace-error': 'HR_REQUEST_TIMEOUT', connection: 'close' } });
      t.same(answer.json(), { detail: 'Request arrived too slowly' });
      t.equal(await wire.ended, 'fin');
    }
  },
  { timeouts: { body: '100ms' } },
);

onEach(t, SOCKETS, 'Expect: 100-continue is answered before the body', async (t, { dial }) => {
  const body = JSON.stringify(CHAT);
  const wire = dial();
  await wire.send(post({ expect: '100-continue', 'content-length': String(body.length) }));
  await wire.shows('100 Continue');
  await wire.send(body);
  t.equal((await wire.answer()).status, 200);
  t.same(wire.interim, [100]);

  const refused = dial();
  await refused.send(post({ expect: '100-continue', 'content-length': String(HUGE) }));
  t.equal((await refused.answer()).status, 413);
});

onEach(t, SOCKETS, 'a missing or malformed key is answered before the body', async (t, { dial, host }, adapter) => {
  const upload = { 'content-length': String(60 * 1024 * 1024) };
  for (const authorization of [undefined, 'Bearer no', 'Basic a', 'Bearer', 'Bearer  ']) {
    const fields = { host: 'x', ...upload, ...(authorization !== undefined && { authorization }) };
    const waiting = dial();
    await waiting.send(head('POST', PATH, { ...fields, expect: '100-continue' }));
    t.match(await waiting.answer(), { status: 401, headers: { connection: 'close', 'www-authenticate': 'Bearer' } });
    // The other two servers give leave to send before they call anybody.
    if (adapter === 'node') t.same(waiting.interim, [], 'no leave to send');
    const sending = dial();
    await sending.send(head('POST', PATH, fields));
    t.match(await sending.answer(), { status: 401, headers: { connection: 'close' } }, 'nothing of the body was sent');
    // A client that goes on sending can read the answer: the connection is not reset (RFC 9112 §9.6).
    const eager = dial();
    await eager.send(head('POST', PATH, fields));
    for (let sent = 0; sent < 2 * 1024 * 1024; sent += 64 * 1024) await eager.send(Buffer.alloc(64 * 1024));
    t.equal((await eager.answer()).status, 401);
  }
  const small = dial();
  await small.send(`${head('POST', PATH, { host: 'x', 'content-length': '5' })}hello`);
  t.equal((await small.answer()).status, 422, 'a short body is checked first');
  await small.send(head('GET', '/health', { host: 'x' }));
  t.equal((await small.answer()).status, 200, 'and the connection is kept');
  t.equal(host.requests.filter(({ method }) => method === 'POST').length, 0);
});

onEach(t, SOCKETS, 'the body of a GET is ignored and not read as a request', async (t, { dial }) => {
  const wire = dial();
  const health = head('GET', '/health', { host: 'x' });
  await wire.send(head('GET', '/v1/models', { host: 'x', 'content-length': String(health.length) }) + health);
  await wire.send(head('HEAD', '/nope', { host: 'x' }));
  t.equal((await wire.answer()).status, 200);
  t.equal((await wire.answer('HEAD')).status, 404);
});

const TIGHT = { bodyBytes: 4096, heldEventBytes: 4096, bufferedBytes: 5120 };

onEach(
  t,
  SERVER_ADAPTERS,
  'all bodies together stay within limits.bufferedBytes',
  async (t, { ask, host }) => {
    const waiting = new AbortController();
    await host.setFault([{ times: 1, fault: { hang: true } }]);
    const held = ask({ path: PATH, headers: GOOD, body: { ...CHAT, pad: ' '.repeat(3500) }, signal: waiting.signal });
    held.catch(() => {});
    await host.nextRequest();
    const answer = await ask({ path: PATH, headers: GOOD, body: ' '.repeat(1500) });
    t.match(answer, { status: 503, headers: { 'x-headrace-error': 'HR_OVERLOADED', 'retry-after': '1' } });
    t.same(answer.json(), { detail: 'The gateway is out of memory for request bodies' });
    for (let i = 0; i < 5; i++) t.equal((await ask({ path: PATH, headers: GOOD, body: CHAT })).status, 200);
    waiting.abort();
  },
  { limits: TIGHT },
);

onEach(
  t,
  SOCKETS,
  'the memory of a body is released when its client disconnects',
  async (t, { ask, dial, host }) => {
    for (let i = 0; i < 20; i++) {
      const wire = dial();
      await wire.send(`${post({ 'content-length': '4000' })}${' '.repeat(3500)}`);
      wire.socket.end();
      await wire.ended;
    }
    t.equal((await ask({ path: PATH, headers: GOOD, body: { ...CHAT, pad: ' '.repeat(3000) } })).status, 200);
    t.equal(host.requests.filter(({ method }) => method === 'POST').length, 1);
  },
  { limits: TIGHT },
);

onEach(
  t,
  SERVER_ADAPTERS,
  'requests without a key get an eighth of the memory, those with one the rest',
  async (t, { ask }) => {
    const body = { ...CHAT, pad: ' '.repeat(10_000) };
    t.match(await ask({ path: PATH, body }), { status: 503, headers: { 'x-headrace-error': 'HR_OVERLOADED' } });
    t.equal((await ask({ path: PATH, body: CHAT })).status, 401, 'a small one is read and then refused');
    t.equal((await ask({ path: PATH, headers: GOOD, body })).status, 200);
  },
  { limits: { bodyBytes: 64 * 1024, heldEventBytes: 4096, bufferedBytes: 64 * 1024 } },
);

onEach(t, SOCKETS, 'bytes of headers and bodies pass unchanged', async (t, { dial, host }) => {
  const wire = dial();
  const body = Buffer.from(`{"model":"${MODEL}","input":"\u4f60\u597d \\u00e9","n" : 1.0 }`);
  const fields = { ...GOOD, 'x-title': 'a \xe4\xbd\xa0\xe5\xa5\xbd z', 'content-length': String(body.byteLength) };
  await host.setFault([{ fault: { status: 200, body: 'ok', headers: { 'x-name': '\xc3\xa9t\xc3\xa9' } } }]);
  await wire.send(head('POST', '/v1/embeddings', { host: 'x', ...fields }));
  await wire.send(body);
  const answer = await wire.answer();
  t.equal(answer.headers['x-name'], '\xc3\xa9t\xc3\xa9');
  const request = await host.nextRequest();
  t.equal(request.headers['x-title'], fields['x-title']);
  t.equal(request.bodyBytes, body.byteLength);
});

t.test('encode writes the bytes of a request', async (t) => {
  t.match(
    encode({ path: '/x', body: { a: 1 } }).toString(),
    /^POST \/x HTTP\/1\.1\r\n.*content-length: 7\r\n\r\n\{"a":1\}$/s,
  );
});
