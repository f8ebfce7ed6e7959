// A body of 50 MB whose `model` comes last reaches the CRN byte for byte, and small requests are served beside it.

import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import t, { type Test } from 'tap';
import { chat, KEY, MODEL, SERVERS, startHosts, startSystem, until, within } from '../support/system.ts';
import { startServe } from '../support/system-cli.ts';
import type { Host } from '../../src/host/index.ts';

const BYTES = 50 * 1024 * 1024;

/** A vision chat: one data URL that fills the body, then the model. */
function largeBody(): Buffer {
  const head = '{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,';
  const tail = `"}}]}],"max_tokens":4,"model":"${MODEL}"}`;
  const image = randomBytes(Math.ceil(((BYTES - head.length - tail.length) * 3) / 4)).toString('base64');
  return Buffer.concat([
    Buffer.from(head),
    Buffer.from(image.slice(0, BYTES - head.length - tail.length)),
    Buffer.from(tail),
  ]);
}

async function exercise(t: Test, url: string, host: Host): Promise<void> {
  const body = largeBody();
  t.equal(body.length, BYTES);
  const wanted = createHash('sha256').update(body).digest('hex');
  let open = true;
  const large = fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body,
  }).finally(() => (open = false));
  let beside = 0;
  do {
    const small = await within('a small request beside the large one', chat(url));
    t.equal(small.status, 200);
    await small.text();
    beside++;
  } while (open && beside < 10_000);
  const answer = await within('the large request', large, 60_000);
  t.equal(answer.status, 200, await answer.text());
  const received = host.requests.find(({ bodyBytes }) => bodyBytes > 1_000_000);
  t.match(received, { bodyBytes: BYTES, bodySha256: wanted, model: MODEL, path: '/v1/chat/completions' });
}

for (const server of SERVERS) {
  t.test(`${server}: in one thread`, async (t) => {
    const { url, host } = await startSystem(t, { hosts: [{ journalEntries: 20_000 }], settings: { server } });
    await exercise(t, url, host);
  });
}

t.test('through one of many ingress threads, any of which may use the memory of all', async (t) => {
  const hosts = await startHosts(t, [{ journalEntries: 20_000 }]);
  const { url } = await startServe(t, hosts, { threads: 8, limits: { bufferedBytes: '128MiB' } });
  await exercise(t, url, hosts[0] as Host);
});

t.test('a body over the cap is refused and the next request is served', async (t) => {
  const { url, host } = await startSystem(t, { settings: { limits: { bodyBytes: '1MiB' } } });
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: Buffer.alloc(1024 * 1024 + 1, 0x20),
  });
  t.equal(answer.status, 413);
  t.strictSame(await answer.json(), { detail: 'Request body exceeds 1048576 bytes' });
  t.equal((await chat(url)).status, 200);
  t.equal(host.requests.filter(({ method }) => method === 'POST').length, 1);
});

t.test('bodies that the gateway makes of others count as those do', async (t) => {
  const crn = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    // Of a request only a part of the body is read, and nothing is answered.
    socket.once('data', (bytes: Buffer) => {
      if (bytes.toString('latin1').startsWith('GET')) {
        socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
      } else {
        socket.pause();
        crn.emit('held');
      }
    });
  }).listen(0, '127.0.0.1');
  await once(crn, 'listening');
  t.teardown(() => crn.close());
  const { port } = crn.address() as AddressInfo;
  const { url } = await startSystem(t, {
    settings: {
      models: { [MODEL]: { servers: [`http://127.0.0.1:${port}`], aliases: ['other-name'] } },
      limits: { bodyBytes: '1MiB', bufferedBytes: '8MiB' },
    },
  });
  const content = 'x'.repeat(900 * 1024);
  /** Whether the request is held by the CRN until it is aborted; else there was no memory for it. */
  const isHeld = async (model: string, { signal }: AbortController): Promise<boolean> => {
    const held = once(crn, 'held');
    const answer = fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content }] }),
      signal,
    });
    answer.catch(() => 'aborted');
    const refused = await Promise.race([answer, held.then(() => null)]);
    if (refused === null) return true;
    t.equal(refused.headers.get('x-headrace-error'), 'HR_OVERLOADED');
    await refused.text();
    return false;
  };
  /** Requests that are held at a time. */
  const most = async (model: string): Promise<number> => {
    const held = new AbortController();
    let count = 0;
    while (await within('a request', isHeld(model, held))) count++;
    held.abort();
    return count;
  };
  t.equal(await most(MODEL), 8);
  await until('the memory is free', async () => (await most('other-name')) === 4);
  await until('all memory is free', async () => (await most(MODEL)) === 8);
});
