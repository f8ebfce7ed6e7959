import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { CERTIFICATE } from '../support/certificate.ts';
import { nameServer } from '../support/dns.ts';
import { downloader, get, outcome, page, rawSite, redirect, type Scope, secureSite, site } from '../support/site.ts';
import type { Downloader } from '../../src/fetch/download.ts';

/** Resolves every name to loopback, and trusts the test certificate. */
async function trusting(t: Scope, ports: readonly number[]): Promise<Downloader> {
  const { lookup } = await nameServer(t, () => ['127.0.0.1']);
  return downloader(t, { ports, allow: ['127.0.0.0/8'] }, { lookup, ca: CERTIFICATE });
}

t.test('pages are fetched over TLS with the requested name', async (t) => {
  let host: string | undefined;
  const web = await secureSite(t, {
    '/': (request, response) => {
      host = request.headers.host;
      page('<p>secure')(request, response);
    },
  });
  const from = await trusting(t, [web.port]);
  t.equal(await outcome(get(from, `https://secure.test:${web.port}/`)), '<p>secure');
  t.equal(host, `secure.test:${web.port}`);
  t.equal(await outcome(get(from, `https://a.secure.test.:${web.port}/`)), '<p>secure', 'a trailing dot is no name');
  t.equal(await outcome(get(from, `https://127.0.0.1:${web.port}/`)), '<p>secure', 'an address has certificates too');
});

t.test('a certificate for another name or from an unknown authority is a failure', async (t) => {
  const web = await secureSite(t, { '/': page('<p>secure') });
  const from = await trusting(t, [web.port]);
  t.equal(await outcome(get(from, `https://other.test:${web.port}/`)), 'HR_FETCH_FAILED TLS failed');
  t.equal(await outcome(get(from, `https://127.0.0.2:${web.port}/`)), 'HR_FETCH_FAILED no connection');
  const strict = downloader(t, { ports: [web.port] });
  t.equal(await outcome(get(strict, `${web.origin}/`)), 'HR_FETCH_FAILED TLS failed');
  t.same(web.asked, []);
});

t.test('a redirect may lead from https to http and back, not inside', async (t) => {
  const plain = await site(t, { '/page': page('<p>plain') });
  const web = await secureSite(t, {
    '/down': redirect(`${plain.origin}/page`),
    '/inside': redirect(`http://10.0.0.1:${plain.port}/`),
  });
  const from = await trusting(t, [web.port, plain.port]);
  t.equal(await outcome(get(from, `${web.origin}/down`)), '<p>plain');
  t.equal(await outcome(get(from, `${web.origin}/inside`)), 'HR_FETCH_BLOCKED private address');
});

t.test('a server that never finishes the handshake runs into the connect timeout', async (t) => {
  const clock = createManualClock();
  const begun = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  const web = await rawSite(t, (socket) => {
    socket.on('close', () => left.resolve());
    begun.resolve();
  });
  const from = downloader(t, { ports: [web.port], connectTimeoutMs: 2000 }, { clock });
  const download = outcome(get(from, `https://127.0.0.1:${web.port}/`));
  await begun.promise;
  clock.advance(2000);
  t.equal(await download, 'HR_FETCH_TIMEOUT connect');
  await left.promise;
  t.pass('the connection is closed');
});
