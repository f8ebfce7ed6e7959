// Counters: what one thread counts, how the numbers of several become one text, and that nothing a client sends makes a
// series of its own.

import t from 'tap';
import { metricsText, protobufPieces, textPieces } from '../../src/telemetry/exposition.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { chat, KEY, MODEL, readStream, startHosts, until } from '../support/system.ts';
import { startServe } from '../support/system-cli.ts';

/** The series of a Prometheus text by name and labels. */
function seriesOf(text: string): Map<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );
}

t.test('metrics of many models are made in small pieces', (t) => {
  const threads = [new Metrics(), new Metrics()];
  for (const metrics of threads) {
    for (let model = 0; model < 1000; model++) {
      const cells = metrics.of('/v1/chat/completions', `model-${model}`);
      cells.count(200, '');
      cells.duration.observe(0.04);
    }
  }
  const snapshots = threads.map((metrics) => metrics.snapshot());
  const pieces = [...textPieces(snapshots)];
  t.equal(pieces.join(''), metricsText(snapshots));
  t.ok(Math.max(...pieces.map((piece) => piece.length)) < 32 * 1024);
  t.equal(pieces.filter((piece) => piece.includes('_duration_seconds_count{')).length, 1000, 'each series is one');
  t.ok(
    pieces.some((piece) => piece === ''),
    'others have their turn while threads are added up',
  );
  // The length of a message stands before it, so that each is whole.
  const messages = [...protobufPieces(snapshots)];
  t.ok(messages.filter((piece) => piece === '').length > 2000);
  t.end();
});

t.test('sums counters, buckets and gauges over threads', async (t) => {
  const threads = [new Metrics(), new Metrics()];
  for (const metrics of threads) {
    const cells = metrics.of('/v1/chat/completions', MODEL);
    cells.count(200, '');
    cells.duration.observe(0.04);
    cells.count(503, 'HR_ROUTE_ALL_FAILED');
    cells.duration.observe(0.4);
    metrics.attempt('http://one', 'ok', '');
    metrics.pick('cache');
    cells.firstByte.observe(0.012);
    for (let stream = 0; stream < 2; stream++) cells.firstPiece.observe(0.09);
    metrics.streamsInFlight(1);
    cells.gaps.observe(0.012);
    metrics.failover(MODEL, 'reset');
    metrics.retryRefused(MODEL);
    metrics.retryBudgets(new Map([[MODEL, { balance: 2.5 }]]));
    metrics.aborted('/v1/messages', cells);
    metrics.inFlight(3);
  }
  const series = seriesOf(metricsText(await Promise.all(threads.map((metrics) => metrics.snapshot()))));
  const chats = `endpoint="/v1/chat/completions",model="${MODEL}"`;
  t.equal(series.get(`headrace_requests_total{${chats},status="200",code=""}`), 2);
  t.equal(series.get(`headrace_requests_total{${chats},status="503",code="HR_ROUTE_ALL_FAILED"}`), 2);
  t.equal(series.get(`headrace_request_duration_seconds_bucket{le="0.0625",${chats}}`), 2);
  t.equal(series.get(`headrace_request_duration_seconds_bucket{le="+Inf",${chats}}`), 4);
  t.equal(series.get(`headrace_request_duration_seconds_count{${chats}}`), 4);
  t.equal(series.get('headrace_upstream_attempts_total{crn="http://one",verdict="ok",failure=""}'), 2);
  t.equal(series.get('headrace_routing_picks_total{affinity="cache"}'), 2);
  t.equal(series.get(`headrace_upstream_first_byte_seconds_count{model="${MODEL}"}`), 2);
  t.equal(series.get('headrace_requests_aborted_total{endpoint="/v1/messages"}'), 2);
  t.equal(series.get('headrace_requests_in_flight'), 6);
  t.equal(series.get('headrace_streams_in_flight'), 2);
  t.equal(series.get(`headrace_stream_first_byte_seconds_bucket{le="0.125",${chats}}`), 4);
  t.equal(series.get(`headrace_stream_gap_seconds_bucket{le="0.0078125",model="${MODEL}"}`), 0);
  t.equal(series.get(`headrace_stream_gap_seconds_bucket{le="0.015625",model="${MODEL}"}`), 2);
  t.equal(series.get(`headrace_failovers_total{model="${MODEL}",cause="reset"}`), 2);
  t.equal(series.get(`headrace_retry_budget{model="${MODEL}"}`), 2.5, 'the threads share it');
  t.equal(series.get(`headrace_retry_budget_exhausted_total{model="${MODEL}"}`), 2);
});

t.test('a series appears when it is first counted, and one lookup serves a model on an endpoint', async (t) => {
  const metrics = new Metrics();
  const cells = metrics.of('/search', '');
  t.equal(metrics.of('/search', ''), cells);
  t.not(metrics.of('/search', MODEL), cells);
  const named = async (): Promise<string[]> => [...seriesOf(metricsText([metrics.snapshot()])).keys()];
  t.same(await named(), []);
  cells.count(200, '');
  cells.count(200, '');
  const series = seriesOf(metricsText([metrics.snapshot()]));
  t.same([...series], [['headrace_requests_total{endpoint="/search",model="",status="200",code=""}', 2]]);
});

t.test('the counter of an exhausted retry budget starts at 0 and is removed with its model', async (t) => {
  const metrics = new Metrics();
  metrics.retryBudgets(new Map([['gone', { balance: 1 }]]));
  metrics.retryBudgets(new Map([['here', { balance: 3 }]]));
  const series = seriesOf(metricsText([metrics.snapshot()]));
  t.equal(series.get('headrace_retry_budget{model="here"}'), 3);
  t.equal(series.get('headrace_retry_budget_exhausted_total{model="here"}'), 0);
  t.notOk(series.has('headrace_retry_budget{model="gone"}'));
});

t.test('snapshots survive a structured clone, and an empty one adds nothing', async (t) => {
  const metrics = new Metrics();
  metrics.pick('none');
  const sent = structuredClone(await metrics.snapshot());
  const series = seriesOf(metricsText([sent, [], await new Metrics().snapshot()]));
  t.equal(series.get('headrace_routing_picks_total{affinity="none"}'), 1);
});

t.test('the admin listener merges the metrics of all threads', async (t) => {
  const hosts = await startHosts(t);
  const { url, adminUrl } = await startServe(t, hosts, { threads: 2 });
  for (let round = 0; round < 24; round++) {
    const stream = round % 2 === 0;
    await readStream(await chat(url, { stream, headers: { connection: 'close' } }));
  }
  const answer = await fetch(`${adminUrl}/metrics`);
  t.match(answer.headers.get('content-type'), /^text\/plain; version=0\.0\.4/);
  const series = seriesOf(await answer.text());
  const chats = `endpoint="/v1/chat/completions",model="${MODEL}"`;
  t.equal(series.get(`headrace_requests_total{${chats},status="200",code=""}`), 24);
  t.equal(series.get(`headrace_upstream_attempts_total{crn="${hosts[0]?.url}",verdict="ok",failure=""}`), 24);
  t.equal(series.get(`headrace_upstream_first_byte_seconds_count{model="${MODEL}"}`), 12, 'of streams only');
  t.equal(series.get('headrace_requests_in_flight'), 0);
});

t.test('client input creates no series: models, paths, methods, keys, sessions', async (t) => {
  const hosts = await startHosts(t);
  const { url, adminUrl } = await startServe(t, hosts, { threads: 1 });
  const series = async (): Promise<string[]> => [...seriesOf(await (await fetch(`${adminUrl}/metrics`)).text()).keys()];
  const send = async (word: string): Promise<void> => {
    const key = { authorization: `Bearer ${KEY}` };
    const answers = await Promise.all([
      chat(url, { model: word }),
      chat(url, { model: MODEL.toUpperCase(), headers: { 'x-session-id': word, 'x-request-id': word } }),
      chat(url, { headers: { authorization: `Bearer ${word}` } }),
      fetch(`${url}/${word}`, { method: 'POST', headers: key, body: `{"model":"${word}"}` }),
      fetch(`${url}/${word}?${word}`, { method: 'POST', headers: key, body: `{"model":"${MODEL}"}` }),
      fetch(`${url}/v1/${word}`),
      fetch(`${url}/v1/models/${word}`),
      fetch(`${url}/${word}`, { method: 'DELETE' }),
      fetch(`${url}/${word}`, { method: word.toUpperCase() }),
    ]);
    await Promise.all(answers.map((answer) => answer.arrayBuffer()));
  };
  await send('first');
  const before = await series();
  for (let index = 0; index < 20; index++) await send(`word${index}`);
  const after = await series();
  t.same(after, before);
  for (const name of after) t.notMatch(name, /word|first"/);
});

t.test('a client that disconnects is counted once, and nothing stays in flight', async (t) => {
  const hosts = await startHosts(t);
  const { url, adminUrl } = await startServe(t, hosts, { threads: 1 });
  const leave = new AbortController();
  const gone = chat(url, { headers: { 'x-headrace-fault': 'hang' }, signal: leave.signal }).catch(() => 'gone');
  await hosts[0]?.nextRequest();
  leave.abort();
  t.equal(await gone, 'gone');
  await until('counted', async () => {
    const series = seriesOf(await (await fetch(`${adminUrl}/metrics`)).text());
    return series.get('headrace_requests_aborted_total{endpoint="/v1/chat/completions"}') === 1;
  });
  const series = seriesOf(await (await fetch(`${adminUrl}/metrics`)).text());
  t.equal(
    series.get(`headrace_requests_total{endpoint="/v1/chat/completions",model="${MODEL}",status="499",code=""}`),
    1,
  );
  t.equal(series.get('headrace_requests_in_flight'), 0);
});

t.test('series of CRNs that have left are dropped after a while, and come back from 0', async (t) => {
  const metrics = new Metrics();
  const shown = (): unknown[] =>
    metrics
      .snapshot()
      .filter(({ labelNames }) => labelNames[0] === 'crn')
      .flatMap(({ values }) => values.map(({ labels }) => labels['crn']));
  const count = (crn: string): void => {
    metrics.attempt(crn, 'ok', '');
    metrics.prompt(crn, 'm', 4, 5);
    metrics.cached(crn, 'm', 4, 3, 2);
  };
  count('http://a');
  count('http://b');
  const MINUTE = 60_000;
  metrics.keep({ crns: new Set(['http://a']), models: new Set(['m']) }, 0);
  metrics.keep({ crns: new Set(['http://a']), models: new Set(['m']) }, 4 * MINUTE);
  t.ok(shown().includes('http://b'), 'it may come back');
  metrics.keep({ crns: new Set(['http://a', 'http://b']), models: new Set(['m']) }, 4.5 * MINUTE);
  metrics.keep({ crns: new Set(['http://a']), models: new Set(['m']) }, 6 * MINUTE);
  t.ok(shown().includes('http://b'), 'it has been there meanwhile');
  metrics.keep({ crns: new Set(['http://a']), models: new Set(['m']) }, 11 * MINUTE);
  t.same([...new Set(shown())], ['http://a']);
  count('http://b');
  metrics.keep({ crns: new Set(['http://b']), models: new Set(['m']) }, 12 * MINUTE);
  t.same([...new Set(shown())], ['http://a', 'http://b']);
});
