// Page fetching with several ingress threads: requests on different threads share one download and one cleaning, and a client that
// disconnects on one thread ends the download on another.

import t, { type Test } from 'tap';
import { type Pages, site } from '../support/site.ts';
import { KEY, startHosts, until } from '../support/system.ts';
import { type Served, startServe } from '../support/system-cli.ts';

const PAGE = `<!doctype html><title>On weirs</title><main>${'<p>A weir holds the river back in a dry month.</p>'.repeat(20)}</main>`;

interface Opened extends Served {
  readonly origin: string;
  readonly asked: readonly string[];
  /** Answers the page `/held` to all who wait for it. */
  readonly release: () => void;
  /** Connections to `/held` that were closed from the other side. */
  readonly left: () => number;
}

async function open(t: Test): Promise<Opened> {
  const held: (() => void)[] = [];
  let left = 0;
  const pages: Pages = {
    '/page': (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE),
    '/held': (_, response) => {
      response.on('close', () => void (response.writableFinished || left++));
      held.push(() => response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE));
    },
  };
  const { asked, origin, port } = await site(t, pages);
  const fetch = { allow: ['127.0.0.1'], ports: [port], cleaners: 1 };
  const served = await startServe(t, await startHosts(t), { threads: 2, fetch, timeouts: { drain: '5s' } });
  const release = (): void => held.splice(0).forEach((answer) => answer());
  return { ...served, origin, asked, release, left: () => left };
}

/** Asks for a page on a connection of its own, so that the system picks the thread anew. */
function fetchPage(url: string, page: string, signal?: AbortSignal): Promise<Response> {
  return fetch(`${url}/search/fetch`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({ url: page }),
    ...(signal === undefined ? {} : { signal }),
  });
}

t.test('requests on several threads share one download and one cleaning', async (t) => {
  const { adminUrl, asked, origin, release, url } = await open(t);
  const answers = Array.from({ length: 40 }, () => fetchPage(url, `${origin}/held`));
  await until('the site is asked', () => asked.length > 0);
  const metric = async (outcome: string): Promise<number> => {
    const text = await (await fetch(`${adminUrl}/metrics`)).text();
    const found = new RegExp(`^headrace_fetch_page_duration_seconds_count\\{outcome="${outcome}"\\} (\\d+)$`, 'm').exec(
      text,
    );
    return Number(found?.[1] ?? 0);
  };
  release();
  const texts = await Promise.all(answers.map(async (answer) => (await answer).text()));
  t.equal(new Set(texts).size, 1);
  t.match(JSON.parse(texts[0] ?? ''), { url: `${origin}/held`, title: 'On weirs', word_count: 200 });
  t.equal(asked.length, 1);
  t.equal((await metric('fetched')) + (await metric('shared')) + (await metric('cached')), 40);
  t.equal(await metric('fetched'), 1);
});

t.test('the download is aborted when its last client disconnects, on whichever thread', async (t) => {
  const { asked, left, origin, url } = await open(t);
  const leave = new AbortController();
  const answers = Array.from({ length: 8 }, () => fetchPage(url, `${origin}/held`, leave.signal).catch(() => null));
  await until('the site is asked', () => asked.length > 0);
  leave.abort();
  await Promise.all(answers);
  await until('the site is left', () => left() === 1);
  t.equal((await fetchPage(url, `${origin}/page`)).status, 200, 'and others are served');
});

t.test('a shutdown waits for a page that is being fetched', async (t) => {
  const { asked, cli, origin, release, url } = await open(t);
  const answer = fetchPage(url, `${origin}/held`);
  await until('the site is asked', () => asked.length > 0);
  cli.signal('SIGTERM');
  await until('it refuses others', () =>
    fetchPage(url, `${origin}/page`).then(
      () => false,
      () => true,
    ),
  );
  release();
  t.equal((await answer).status, 200);
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});
