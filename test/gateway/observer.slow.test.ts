// Logs and traces of a whole gateway: what a collector gets, what CRNs get, and what stands on standard error.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { resolveSettings } from '../../src/config/load.ts';
import { Observer } from '../../src/gateway/observer.ts';
import { readTraceParent } from '../../src/telemetry/trace-context.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';
import { chat, KEY, MODEL, readStream, startHosts, startSystem, until } from '../support/system.ts';
import { startServe } from '../support/system-cli.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

interface SentSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
  readonly status?: { readonly code: number; readonly message: string };
}

interface Collector {
  readonly url: string;
  readonly headers: Record<string, unknown>[];
  readonly spans: SentSpan[];
}

/** A collector that takes every span. */
async function collector(t: Test): Promise<Collector> {
  const headers: Record<string, unknown>[] = [];
  const spans: SentSpan[] = [];
  const server = createServer((request, response) => {
    headers.push(request.headers);
    let text = '';
    request.on('data', (piece: Buffer) => (text += piece.toString()));
    request.on('end', () => {
      const sent = JSON.parse(text) as { resourceSpans: { scopeSpans: { spans: SentSpan[] }[] }[] };
      for (const { scopeSpans } of sent.resourceSpans) for (const scope of scopeSpans) spans.push(...scope.spans);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`, headers, spans };
}

function attributes(span: SentSpan | undefined): Record<string, unknown> {
  return Object.fromEntries((span?.attributes ?? []).map(({ key, value }) => [key, Object.values(value)[0]]));
}

t.test('a trace has a span for the request and one for every try, and the CRN continues it', async (t) => {
  const { url: endpoint, headers, spans } = await collector(t);
  const otlp = { endpoint, headers: { 'X-Api-Key': 'for the collector' } };
  const { url, hosts, gateway } = await startSystem(t, {
    hosts: [{}, {}],
    settings: { telemetry: { otlp }, routing: { affinity: false } },
  });
  await hosts[0]?.setFault([{ fault: { status: 500 } }]);
  // Whichever CRN comes first: in the end one request has met both.
  let tries: SentSpan[] = [];
  const traceparent = `00-${TRACE}-${PARENT}-01`;
  for (
    let turn = 0;
    turn < 50 && (hosts[0]?.requests.filter(({ method }) => method === 'POST').length ?? 0) === 0;
    turn++
  ) {
    const answer = await chat(url, {
      headers: { traceparent, tracestate: 'vendor=1', 'x-request-id': `turn-${turn}` },
    });
    await answer.text();
  }
  await gateway.close();
  const failed = spans.find(({ status }) => status?.message === 'status 500');
  const request = spans.find(({ spanId }) => spanId === failed?.parentSpanId);
  tries = spans.filter(({ parentSpanId }) => parentSpanId === request?.spanId);
  t.match(request, { traceId: TRACE, parentSpanId: PARENT, name: 'POST /v1/chat/completions', kind: 2 });
  t.equal(request?.status, undefined, 'the client got its answer');
  t.match(attributes(request), {
    'http.request.method': 'POST',
    'http.route': '/v1/chat/completions',
    'http.response.status_code': '200',
    'headrace.attempts': '2',
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': MODEL,
    'gen_ai.usage.output_tokens': '8',
  });
  t.equal(tries.length, 2);
  for (const span of tries) t.match(span, { traceId: TRACE, name: `chat ${MODEL}`, kind: 3 });
  t.match(failed, { status: { code: 2, message: 'status 500' } });
  t.match(attributes(failed), { 'error.type': 'status 500', 'server.address': '127.0.0.1' });
  t.equal(attributes(failed)['server.port'], new URL(hosts[0]?.url ?? '').port);
  const good = tries.find((span) => span !== failed);
  t.equal(attributes(good)['gen_ai.usage.output_tokens'], '8');
  // What the CRNs were told is the span of their try, under the state of others.
  for (const [host, span] of [
    [hosts[0], failed],
    [hosts[1], good],
  ] as const) {
    const told = host?.requests.filter((asked) => asked.method === 'POST').at(-1)?.headers;
    t.same(readTraceParent(told?.['traceparent'] as string), { traceId: TRACE, spanId: span?.spanId, sampled: true });
    t.equal(told?.['tracestate'], 'vendor=1');
  }
  t.match(headers[0], { 'x-api-key': 'for the collector', 'content-type': 'application/json' });
  t.notMatch(JSON.stringify(spans), /Where does the water go|hr_system/, 'nothing of bodies and keys');
});

t.test('a request that is not sampled has no span, and its trace context passes as it came', async (t) => {
  const { url: endpoint, spans } = await collector(t);
  const { url, host, gateway } = await startSystem(t, { settings: { telemetry: { otlp: { endpoint, sample: 0 } } } });
  const unsampled = `00-${TRACE}-${PARENT}-00`;
  await (await chat(url, { headers: { traceparent: unsampled, tracestate: 'vendor=1' } })).text();
  await (await chat(url)).text();
  await gateway.close();
  const [first, second] = host.requests.filter(({ method }) => method === 'POST');
  t.match(first?.headers, { traceparent: unsampled, tracestate: 'vendor=1' });
  t.notOk('traceparent' in (second?.headers ?? {}));
  t.same(spans, []);
});

t.test('an invalid trace context gives way to a new trace, with its state', async (t) => {
  const { url: endpoint, spans } = await collector(t);
  const { url, host, gateway } = await startSystem(t, { settings: { telemetry: { otlp: { endpoint } } } });
  const headers = { traceparent: `00-${'0'.repeat(32)}-${PARENT}-01`, tracestate: 'vendor=1' };
  await readStream(await chat(url, { headers, stream: true }));
  await gateway.close();
  const told = host.requests.find(({ method }) => method === 'POST')?.headers;
  const root = spans.find(({ kind }) => kind === 2);
  t.equal(readTraceParent(told?.['traceparent'] as string)?.traceId, root?.traceId);
  t.notOk('tracestate' in (told ?? {}));
  t.equal(root?.parentSpanId, undefined);
});

t.test('the work of a background response is in the trace of its request', async (t) => {
  const { url: endpoint, spans } = await collector(t);
  const { url, host, gateway } = await startSystem(t, { settings: { telemetry: { otlp: { endpoint } } } });
  const context = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'vendor=1' };
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', ...context };
  const body = JSON.stringify({ model: MODEL, input: 'Where does the water go?', background: true, stream: true });
  await readStream(await fetch(`${url}/v1/responses`, { method: 'POST', headers, body }));
  await gateway.close();
  const childOf = (parent: string | undefined): SentSpan | undefined =>
    spans.find(({ parentSpanId, traceId }) => parentSpanId === parent && traceId === TRACE);
  const work = childOf(childOf(PARENT)?.spanId);
  t.match([childOf(PARENT), work], [{ name: 'POST /v1/responses' }, { name: 'POST /v1/responses' }]);
  t.match(childOf(work?.spanId), { name: `chat ${MODEL}` });
  t.equal(spans.length, 3);
  t.equal(host.requests.find(({ method }) => method === 'POST')?.headers['tracestate'], 'vendor=1');
});

t.test('what the gateway asks for a request is traced with it or not at all', async (t) => {
  const clock = createManualClock();
  const randoms = [0.9, 0.1];
  const random = (): number => randoms.shift() ?? 0;
  const observer = new Observer({ clock, random, thread: 0, epochMs: () => 0 });
  t.teardown(() => observer.close());
  const resolved = resolveSettings({ telemetry: { otlp: { endpoint: 'http://127.0.0.1:1/v1/traces', sample: 0.5 } } });
  if ('mistakes' in resolved) throw new Error(JSON.stringify(resolved.mistakes));
  observer.configure(resolved.settings);
  const [request, search] = [new StubExchange('POST'), new StubExchange('POST')];
  search.parent = request;
  observer.begin(request);
  observer.begin(search);
  t.same([request.span, search.span], [null, null]);
});

t.test('without an endpoint trace context passes untouched', async (t) => {
  const { url, host } = await startSystem(t);
  const headers = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'vendor=1' };
  await (await chat(url, { headers })).text();
  t.match(host.requests.find(({ method }) => method === 'POST')?.headers, headers);
});

t.test('a collector that is gone costs no request, and the spans are counted', async (t) => {
  const hosts = await startHosts(t);
  const { url, adminUrl } = await startServe(t, hosts, {
    threads: 1,
    telemetry: { otlp: { endpoint: 'http://127.0.0.1:1/v1/traces' } },
  });
  t.equal((await chat(url)).status, 200);
  await until('counted', async () => {
    const text = await (await fetch(`${adminUrl}/metrics`)).text();
    return Number(/headrace_trace_spans_total\{outcome="failed"\} (\d+)/.exec(text)?.[1] ?? 0) >= 2;
  });
});

for (const threads of [0, 2]) {
  t.test(`with ${threads} threads every request has its line, and no line a secret`, async (t) => {
    const hosts = await startHosts(t);
    const { cli, url } = await startServe(t, hosts, { threads, log: { level: 'info', requests: 'all' } });
    await (await chat(url, { text: 'a private question', headers: { 'x-request-id': 'whole' } })).text();
    await readStream(await chat(url, { stream: true, headers: { 'x-request-id': 'stream' } }));
    await (await chat(url, { model: 'other-model', headers: { 'x-request-id': 'unknown' } })).text();
    await (await fetch(`${url}/v1/models?key=hr_secret_guess`, { headers: { 'x-request-id': 'list' } })).text();
    await (await chat(url, { headers: { authorization: 'Bearer hr_secret_guess', 'x-request-id': 'bad' } })).text();
    cli.signal('SIGTERM');
    await cli.ends();
    const line = (id: string): Record<string, unknown> => cli.log.find(({ requestId }) => requestId === id) ?? {};
    const proxied = { endpoint: '/v1/chat/completions', method: 'POST', model: MODEL, status: 200, account: 'tests' };
    t.match(line('whole'), { ...proxied, streamed: false, crn: hosts[0]?.url, attempts: 1, durationMs: Number });
    t.match(line('stream'), { ...proxied, streamed: true, aborted: false, firstByteMs: Number, bytesOut: Number });
    t.match(line('unknown'), { status: 404, code: 'HR_ROUTE_UNKNOWN_MODEL', unknownModel: 'other-model' });
    t.match(line('list'), { endpoint: '/v1/models', path: '/v1/models', status: 200 });
    t.match(line('bad'), { status: 401, code: 'HR_AUTH_INVALID' });
    t.notMatch(cli.stderr, /private|hr_secret_guess/);
    t.notMatch(cli.stderr, new RegExp(KEY));
  });
}

t.test('with errors only, what went well has no line; a reload changes that', async (t) => {
  const hosts = await startHosts(t);
  const { cli, url, file, rewrite } = await startServe(t, hosts, { threads: 1, log: { requests: 'errors' } });
  await (await chat(url, { headers: { 'x-request-id': 'good-1' } })).text();
  await (await chat(url, { model: 'none', headers: { 'x-request-id': 'wrong-1' } })).text();
  await cli.complains(/"requestId":"wrong-1"/);
  const settings = JSON.parse((await import('node:fs')).readFileSync(file, 'utf8')) as object;
  rewrite({ ...settings, log: { requests: 'all' } });
  cli.signal('SIGHUP');
  let asked = 1;
  await until('reloaded', async () => {
    await (await chat(url, { headers: { 'x-request-id': `good-${++asked}` } })).text();
    return /"requestId":"good-/.test(cli.stderr);
  });
  t.notMatch(cli.stderr, /"requestId":"good-1"/);
});
