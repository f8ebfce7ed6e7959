// `GET /history` on the admin listener, and the formats of `/metrics`.

import { gunzipSync } from 'node:zlib';
import { get, type IncomingHttpHeaders } from 'node:http';
import t, { type Test } from 'tap';
import { openAdmin } from '../../src/admin/admin.ts';
import { type HistoryDocument, historyRoutes } from '../../src/admin/index.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';

const DOCUMENT: HistoryDocument = { range: '1h', stepMs: 5000, fromMs: 0, dateMs: [], series: {} };

async function start(t: Test): Promise<{ readonly url: string; readonly asked: unknown[][] }> {
  const asked: unknown[][] = [];
  const read = (...args: unknown[]): HistoryDocument | null => {
    asked.push(args);
    return JSON.stringify(args).includes('gone') ? null : DOCUMENT;
  };
  const metrics = new Metrics();
  metrics.of('/v1/models', 'm').duration.observe(0.1);
  const deps = { status: () => ({}), metrics: async () => [metrics.snapshot()] };
  const admin = await openAdmin({ host: '127.0.0.1', port: 0 }, deps, historyRoutes({ read }));
  t.teardown(() => admin.close());
  return { url: `http://127.0.0.1:${admin.address.port}`, asked };
}

t.test('the range, a model or a CRN are read from the address; mistakes are named', async (t) => {
  const { asked, url } = await start(t);
  const answer = await fetch(`${url}/history?range=6h&model=a%2Fb`);
  t.same([answer.status, answer.headers.get('cache-control')], [200, 'no-store']);
  t.same(await answer.json(), DOCUMENT);
  await fetch(`${url}/history`);
  await fetch(`${url}/history?crn=http%3A%2F%2Fx%3A1&range=15m`);
  t.same(asked, [
    ['6h', { model: 'a/b' }],
    ['1h', null],
    ['15m', { crn: 'http://x:1' }],
  ]);
  for (const [query, status, detail] of [
    ['range=2h', 422, /^range: one of 15m, 1h, 6h, 24h$/],
    ['model=a&crn=b', 422, /^model and crn: one of them at most$/],
    ['from=1', 422, /^from: there is no such parameter$/],
    ['model=gone', 404, /^there is no history of gone$/],
  ] as const) {
    const refused = await fetch(`${url}/history?${query}`);
    t.equal(refused.status, status, query);
    t.match(await refused.json(), { detail });
  }
  const post = await fetch(`${url}/history`, { method: 'POST' });
  t.same([post.status, post.headers.get('allow')], [405, 'GET, HEAD']);
});

interface Scrape {
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

function scrape(url: string, headers: Record<string, string>): Promise<Scrape> {
  return new Promise((resolve, reject) => {
    get(`${url}/metrics`, { headers }, async (res) => {
      resolve({ headers: res.headers, body: Buffer.concat(await res.toArray()) });
    }).on('error', reject);
  });
}

t.test('metrics come in the format and the coding that the scraper prefers', async (t) => {
  const { url } = await start(t);
  const protobuf = 'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited';
  for (const [accept, type] of [
    ['', 'text/plain'],
    ['*/*', 'text/plain'],
    ['application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1', 'text/plain'],
    [`${protobuf},application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5,*/*;q=0.1`, 'application/vnd'],
    [`${protobuf};q=0.3,text/plain;q=0.5`, 'text/plain'],
    [`${protobuf};q=0`, 'text/plain'],
    ['application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text', 'text/plain'],
  ] as const) {
    t.ok((await scrape(url, { accept })).headers['content-type']?.startsWith(type), accept);
  }
  const plain = await scrape(url, {});
  t.equal(plain.headers['content-encoding'], undefined);
  const zipped = await scrape(url, { 'accept-encoding': 'gzip' });
  t.equal(zipped.headers['content-encoding'], 'gzip');
  const upper = await scrape(url, { 'accept-encoding': 'GZIP' });
  t.equal(upper.headers['content-encoding'], 'gzip', 'names of codings have no case');
  t.match(zipped.headers.vary, /accept-encoding/);
  t.equal(gunzipSync(zipped.body).toString(), plain.body.toString());
  t.equal((await scrape(url, { 'accept-encoding': 'gzip;q=0, br' })).headers['content-encoding'], undefined);
});
