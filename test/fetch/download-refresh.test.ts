// Downloads that ask with validators, over real sockets: which request carries them, what a 304 means, and what is not kept.

import type { IncomingMessage } from 'node:http';
import t from 'tap';
import type { Download, Downloader, Unchanged, Validators } from '../../src/fetch/download.ts';
import { type Answer, downloader, get, page, redirect, said, site } from '../support/site.ts';

const DATE = 'Thu, 01 Jan 2026 00:00:00 GMT';

/** Answers 304 where the validators of a request are these. */
function versioned(etag: string | undefined, lastModified: string | undefined, heard: IncomingMessage[]): Answer {
  return (request, response) => {
    heard.push(request);
    const tags = request.headers['if-none-match'];
    const isSame = tags === undefined ? request.headers['if-modified-since'] === lastModified : tags === etag;
    const has = {
      ...(etag !== undefined && { etag }),
      ...(lastModified !== undefined && { 'last-modified': lastModified }),
    };
    const isAsked = tags !== undefined || request.headers['if-modified-since'] !== undefined;
    if (isAsked && isSame) response.writeHead(304, has).end();
    else response.writeHead(200, { 'content-type': 'text/html', ...has }).end('<p>text');
  };
}

const again = (from: Downloader, validators: Validators, url: string): Promise<Download | Unchanged> =>
  from.refresh(validators, url, '', new AbortController().signal);

t.test(
  'a page is asked for with the validators that its server gave, and not downloaded when it has not changed',
  async (t) => {
    for (const [etag, lastModified] of [
      ['"v1"', DATE],
      ['W/"v1"', undefined],
      [undefined, DATE],
    ] as const) {
      const heard: IncomingMessage[] = [];
      const { origin, port } = await site(t, { '/': versioned(etag, lastModified, heard) });
      const from = downloader(t, { ports: [port] });
      const { validators } = await get(from, `${origin}/`);
      t.same(validators, { url: `${origin}/`, ...(etag && { etag }), ...(lastModified && { lastModified }) });
      t.same(await again(from, validators as Validators, `${origin}/`), { unchanged: true, noStore: false });
      t.same(
        [heard[1]?.headers['if-none-match'], heard[1]?.headers['if-modified-since']],
        [etag, lastModified],
        'both are sent where both were given',
      );
      const old = { url: `${origin}/`, etag: '"v0"' };
      t.match(await again(from, old, `${origin}/`), { mediaType: 'text/html' }, 'a changed page is downloaded');
    }
  },
);

t.test('validators that no request may carry are not kept', async (t) => {
  const pages = {
    '/none': page('<p>text'),
    '/bare': page('<p>text', { etag: 'v1' }),
    '/long': page('<p>text', { etag: `"${'x'.repeat(600)}"` }),
    '/date': page('<p>text', { 'last-modified': 'yesterday' }),
  };
  const { origin, port } = await site(t, pages);
  const from = downloader(t, { ports: [port] });
  for (const path of Object.keys(pages)) t.equal((await get(from, origin + path)).validators, undefined, path);
});

t.test('validators go to the URL where the page was found, and to no URL before it', async (t) => {
  const heard: IncomingMessage[] = [];
  const hear =
    (answer: Answer): Answer =>
    (request, response) => {
      heard.push(request);
      answer(request, response);
    };
  const { origin, port } = await site(t, {
    '/start': hear(redirect('/middle')),
    '/middle': hear(page('<meta http-equiv="refresh" content="0; url=/end">', { etag: '"middle"' })),
    '/end': versioned('"end"', undefined, heard),
    '/elsewhere': hear(redirect('/other')),
    '/other': versioned('"end"', undefined, heard),
  });
  const from = downloader(t, { ports: [port] });
  const { validators } = await get(from, `${origin}/start`);
  t.same(validators, { url: `${origin}/end`, etag: '"end"' });
  heard.length = 0;
  t.same(await again(from, validators as Validators, `${origin}/start`), { unchanged: true, noStore: false });
  t.same(
    heard.map(({ headers, url }) => [url, headers['if-none-match']]),
    [
      ['/start', undefined],
      ['/middle', undefined],
      ['/end', '"end"'],
    ],
  );
  const moved = await again(from, validators as Validators, `${origin}/elsewhere`);
  t.match(moved, { url: `${origin}/other` }, 'a page that has moved is downloaded, though its tag is the same');
});

t.test('a 304 that nobody asked for is a failure', async (t) => {
  const { origin, port } = await site(t, { '/': page('', {}, 304), '/start': redirect('/') });
  const from = downloader(t, { ports: [port] });
  await t.rejects(get(from, `${origin}/`), { code: 'HR_FETCH_FAILED', subject: 'status 304' });
  const ofOther = again(from, { url: `${origin}/other`, etag: '"1"' }, `${origin}/start`);
  t.equal(await ofOther.then(() => 'a page', said), 'HR_FETCH_FAILED status 304');
});

t.test('a 304 that forbids caching says so, as pages with no-store, private or Vary: * do', async (t) => {
  const { origin, port } = await site(t, {
    '/': (request, response) =>
      response
        .writeHead(request.headers['if-none-match'] === undefined ? 200 : 304, {
          'cache-control': 'private',
          ...{ etag: '"1"', 'content-type': 'text/html' },
        })
        .end(),
    '/vary': page('<p>text', { vary: 'accept-encoding, *' }),
    '/plain': page('<p>text', { vary: 'accept-encoding, cookie', 'cache-control': 'no-cache' }),
  });
  const from = downloader(t, { ports: [port] });
  const { noStore, validators } = await get(from, `${origin}/`);
  t.ok(noStore);
  t.same(await again(from, validators as Validators, `${origin}/`), { unchanged: true, noStore: true });
  t.ok((await get(from, `${origin}/vary`)).noStore);
  t.notOk((await get(from, `${origin}/plain`)).noStore);
});

t.test('a request with validators passes robots.txt, the guard and the slots of its host as every other', async (t) => {
  const { asked, origin, port } = await site(t, {
    '/robots.txt': page('User-agent: *\nDisallow: /', { 'content-type': 'text/plain' }),
    '/': page('<p>text', { etag: '"1"' }),
  });
  const validators = { url: `${origin}/`, etag: '"1"' };
  const polite = downloader(t, { ports: [port], robots: true });
  t.match(await again(polite, validators, `${origin}/`).catch(said), /^HR_FETCH_ROBOTS/);
  t.same(asked, ['/robots.txt']);
  const guarded = downloader(t, { ports: [port], allow: [] });
  t.match(await again(guarded, validators, `${origin}/`).catch(said), /^HR_FETCH_BLOCKED/);
});
