// One account's pages on real sockets: names that no name server answers and a site that never answers. Chats to a CRN named by host
// name, and pages of another account, go on beside them.

import dns from 'node:dns';
import t from 'tap';
import { createGateway } from '../../src/index.ts';
import { nameServer } from '../support/dns.ts';
import { page, site } from '../support/site.ts';
import { MODEL, settingsFor, startHosts, until } from '../support/system.ts';

const PAGE = `<title>On weirs</title><main>${'<p>A weir holds the river back in a dry month.</p>'.repeat(20)}</main>`;

t.test('names and sites that never answer cost their account alone', async (t) => {
  const silent = await nameServer(t, () => null);
  const servers = dns.getServers();
  dns.setServers([silent.address]);
  t.teardown(() => dns.setServers(servers));
  const left: string[] = [];
  const web = await site(t, {
    '/page': page(PAGE, { 'content-type': 'text/html' }),
    '/never': (request) => void request.socket.on('close', () => left.push('never')),
  });
  const hosts = await startHosts(t);
  const url = hosts[0]?.url ?? '';
  const gateway = createGateway({
    ...settingsFor(hosts),
    models: { [MODEL]: { servers: [url.replace('127.0.0.1', 'localhost')] } },
    keys: {
      static: [
        { key: 'hr_slow', account: 'slow' },
        { key: 'hr_other', account: 'other' },
      ],
    },
    fetch: { allow: ['127.0.0.1'], ports: [web.port], perAccount: 8, queue: 64, cacheTtl: null, cleaners: 1 },
  });
  t.teardown(() => gateway.close());
  const { url: base } = await gateway.listen();
  await gateway.ready();
  const post = (path: string, key: string, body: unknown, signal?: AbortSignal): Promise<Response> =>
    fetch(`${base}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });
  const stop = new AbortController();
  const ends: (number | string)[] = [];
  const storm = (address: (at: number) => string, count: number): Promise<unknown>[] =>
    Array.from({ length: count }, (_, at) =>
      post('/search/fetch', 'hr_slow', { url: address(at) }, stop.signal).then(
        ({ headers, status }) => ends.push(`${status} ${headers.get('retry-after') ?? ''}`),
        () => ends.push('left'),
      ),
    );
  const chat = async (): Promise<number> => {
    const body = { model: MODEL, max_tokens: 2, messages: [{ role: 'user', content: 'Where does the water go?' }] };
    return (await post('/v1/chat/completions', 'hr_other', body)).status;
  };
  const others = async (): Promise<number[]> => {
    const read = { url: `${web.origin}/page` };
    const pages = Array.from({ length: 6 }, () => post('/search/fetch', 'hr_other', read).then(({ status }) => status));
    return await Promise.all([...Array.from({ length: 25 }, chat), ...pages]);
  };

  // The cleaner has started before the names are asked for, which are given up after some seconds.
  t.same(new Set(await others()), new Set([200]));
  const names = storm((at) => `http://name${at}.test:${web.port}/`, 60);
  await until('names are asked for', () => silent.asked.length >= 16);
  await until('the rest is refused', () => ends.length === 60 - 8 - 16);
  t.ok(
    ends.every((end) => end === '429 1'),
    'with Retry-After',
  );
  t.same(new Set(await others()), new Set([200]));
  t.equal(gateway.crns()[0]?.standing, 'up');
  t.equal(ends.length, 36, 'while all of them wait');
  t.equal(new Set(silent.asked.map((asked) => asked.split(' ')[1])).size, 8, 'eight names are in progress');

  stop.abort();
  await Promise.all(names);
  const again = { url: `${web.origin}/page` };
  await until('its places are free again', async () => (await post('/search/fetch', 'hr_slow', again)).status === 200);
  const slowSite = new AbortController();
  const pages = Array.from({ length: 12 }, (_, at) =>
    post('/search/fetch', 'hr_slow', { url: `${web.origin}/never?${at}` }, slowSite.signal).catch(() => null),
  );
  await until('the site is asked', () => web.asked.filter((path) => path.startsWith('/never')).length === 7);
  t.same(new Set(await others()), new Set([200]), 'also pages of the same site');
  slowSite.abort();
  await Promise.all(pages);
  await until('the connections are closed', () => left.length >= 7);
});
