// The files of the dashboard on the admin listener: types, tags, encodings, policy, and what the bundle must not hold.

import { gunzipSync } from 'node:zlib';
import { readdirSync, readFileSync } from 'node:fs';
import { get, type IncomingHttpHeaders } from 'node:http';
import t, { type Test } from 'tap';
import { openAdmin } from '../../src/admin/admin.ts';
import { DASHBOARD_POLICY, DashboardFiles } from '../../src/admin/dashboard-files.ts';

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

type Ask = (path: string, headers?: Record<string, string>, method?: string) => Promise<Answer>;

async function open(t: Test): Promise<Ask> {
  const admin = await openAdmin(
    { host: '127.0.0.1', port: 0 },
    { status: () => ({}), metrics: async () => [] },
    new DashboardFiles(),
  );
  t.teardown(() => admin.close());
  return (path, headers = {}, method = 'GET') =>
    new Promise((resolve, reject) => {
      const { port } = admin.address;
      get({ host: '127.0.0.1', port, path, headers, method }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('end', () =>
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks) }),
        );
      }).on('error', reject);
    });
}

t.test('serves each file with its type and the policy', async (t) => {
  const ask = await open(t);
  const types = {
    '/': 'text/html; charset=utf-8',
    '/app.js': 'text/javascript; charset=utf-8',
    '/app.css': 'text/css; charset=utf-8',
    '/icon.svg': 'image/svg+xml',
    '/licenses.txt': 'text/plain; charset=utf-8',
  };
  for (const [path, type] of Object.entries(types)) {
    const { body, headers, status } = await ask(path);
    t.match(
      { status, headers },
      {
        status: 200,
        headers: {
          'content-type': type,
          'content-security-policy': DASHBOARD_POLICY,
          'x-content-type-options': 'nosniff',
          'content-length': String(body.length),
        },
      },
      path,
    );
    const head = await ask(path, {}, 'HEAD');
    t.same(
      [head.status, head.body.length, head.headers['content-length']],
      [200, 0, String(body.length)],
      `HEAD ${path}`,
    );
  }
  t.equal((await ask('/app.js.map')).status, 404);
  t.equal((await ask('/app.js', {}, 'POST')).status, 405);
  t.equal((await ask('/__proto__')).status, 404);
});

t.test('answers 304 to the tag of what the browser has', async (t) => {
  const ask = await open(t);
  const { headers } = await ask('/app.js');
  const etag = headers.etag ?? '';
  t.match(etag, /^W\/"[\w-]{22}"$/);
  for (const known of [etag, etag.slice(2), `"other", ${etag}`, '*']) {
    const answer = await ask('/app.js', { 'if-none-match': known });
    t.same([answer.status, answer.body.length, answer.headers.etag], [304, 0, etag], known);
  }
  t.equal((await ask('/app.js', { 'if-none-match': '"other"' })).status, 200);
});

t.test('compresses where the client takes gzip', async (t) => {
  const ask = await open(t);
  const plain = await ask('/app.js');
  const gzipped = await ask('/app.js', { 'accept-encoding': 'br, gzip;q=0.8' });
  t.equal(gzipped.headers['content-encoding'], 'gzip');
  t.equal(gzipped.headers.vary, 'accept-encoding');
  t.ok(gunzipSync(gzipped.body).equals(plain.body));
  t.equal((await ask('/app.js', { 'accept-encoding': 'gzip;q=0' })).headers['content-encoding'], undefined);
});

t.test('what opens the page is small, and the rest is kept by browsers for good', async (t) => {
  const ask = await open(t);
  const seen = new Map<string, number>();
  const load = async (path: string): Promise<void> => {
    if (seen.has(path)) return;
    const { body, headers, status } = await ask(path, { 'accept-encoding': 'gzip' });
    t.equal(status, 200, path);
    if (path !== '/app.js') t.match(headers['cache-control'], /immutable/);
    seen.set(path, body.length);
    // Static imports alone: views are imported when they are opened.
    for (const [, name = ''] of gunzipSync(body)
      .toString()
      .matchAll(/\bfrom\s*"\.\/(chunk-[A-Z0-9]{8}\.js)"/g)) {
      await load(`/${name}`);
    }
  };
  await load('/app.js');
  const bytes = [...seen.values()].reduce((sum, size) => sum + size, 0);
  t.ok(bytes < 60_000, `${bytes} bytes in ${seen.size} files, gzip`);
  t.equal((await ask('/chunk-AAAAAAAA.js')).status, 404);
});

t.test('the page loads nothing from elsewhere and runs nothing inline', async (t) => {
  const ask = await open(t);
  const page = (await ask('/')).body.toString();
  t.notMatch(page, /(src|href)="(https?:)?\/\//);
  t.notMatch(page, /<script[^>]*>[^<]/);
  t.notMatch(page, /<style|style=|\bon\w+=/);
  t.notMatch(DASHBOARD_POLICY, /unsafe|\*|https?:/);
  const css = (await ask('/app.css')).body.toString();
  t.notMatch(css, /url\(|@import/);
  t.match((await ask('/licenses.txt')).body.toString(), /preact[^]*MIT[^]*uplot[^]*MIT/i);
});

t.test('no source file of the dashboard sets markup or runs text', async (t) => {
  const folder = new URL('../../../src/admin/dashboard/', import.meta.url);
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!/\.tsx?$/.test(name)) continue;
    const text = readFileSync(new URL(name, folder), 'utf8');
    t.notMatch(text, /InnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function/, name);
  }
});
