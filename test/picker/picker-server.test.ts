import { X509Certificate } from 'node:crypto';
import fc from 'fast-check';
import * as grpc from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import type { Host } from '../../src/host/index.ts';
import type { ProcessingRequest, ProcessingResponse } from '../../src/picker/protocol.ts';
import { CERTIFICATE, EXPIRED_CERTIFICATE, EXPIRED_KEY, KEY as CERTIFICATE_KEY } from '../support/certificate.ts';
import {
  certificateAt,
  DataPlane,
  destinationInMetadata,
  destinationOf,
  type HttpRequest,
  MODES,
  type Picker,
  type PickerOptions,
  requestHeaders,
  responseHeaders,
  startPicker,
} from '../support/data-plane.ts';
import { valuesOf } from '../support/metric-values.ts';
import { MODEL, startHosts, until, within } from '../support/system.ts';

const HEAD = { ':method': 'POST', ':path': '/v1/chat/completions?x=1', 'content-type': 'application/json' };

const question = (text: string, more: object = {}): Buffer =>
  Buffer.from(JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: text }], ...more }));

const bodyOf = (body: Buffer, isEnd = true): ProcessingRequest => ({ request_body: { body, end_of_stream: isEnd } });

interface Setting {
  readonly picker: Picker;
  readonly plane: DataPlane;
  readonly hosts: readonly Host[];
}

async function start(t: Test, count: number, options: PickerOptions = {}): Promise<Setting> {
  const hosts = await startHosts(
    t,
    Array.from({ length: count }, () => ({})),
  );
  const picker = await startPicker(t, hosts, options);
  return { hosts, picker, plane: new DataPlane(t, picker.port) };
}

/** Sends a whole request in full duplex. Resolves with what picks the CRN. */
async function pick(
  request: HttpRequest,
  body: Buffer,
  more: Partial<ProcessingRequest> = {},
): Promise<ProcessingResponse> {
  request.send(requestHeaders(HEAD, { protocol_config: MODES.duplex, ...more }));
  request.send(bodyOf(body));
  const picked = await within('a pick', request.next());
  if (picked === null) throw new Error('the stream has ended');
  return picked;
}

/** Reads the body that is passed back. */
async function passed(request: HttpRequest): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (;;) {
    const message = await within('a piece', request.next());
    const streamed = message?.request_body?.response?.body_mutation?.streamed_response;
    if (streamed === undefined) throw new Error(`no piece: ${JSON.stringify(message)}`);
    pieces.push(streamed.body ?? Buffer.alloc(0));
    if (streamed.end_of_stream) return Buffer.concat(pieces);
  }
}

const addressOf = (host: Host | undefined): string => new URL((host as Host).url).host;

/** Requests in flight of every CRN. */
const inFlight = ({ gateway }: Picker): number[] => gateway.crns().map((crn) => crn.inFlight);

const attemptsOf = ({ gateway }: Picker, verdict: string): number =>
  valuesOf(gateway.plane.deps.metrics.snapshot(), 'headrace_upstream_attempts_total')
    .filter(({ labels }) => labels['verdict'] === verdict)
    .reduce((sum, { value }) => sum + value, 0);

t.test(
  'the same prompt goes to the same CRN, by header and by metadata, and its body comes back as it was',
  async (t) => {
    const { hosts, picker, plane } = await start(t, 3);
    const body = question('long '.repeat(60_000));
    const seen = new Set<string>();
    for (let n = 0; n < 4; n++) {
      const request = plane.begin();
      const picked = await pick(request, body);
      t.equal(destinationInMetadata(picked), destinationOf(picked));
      t.equal(picked.request_headers?.response?.clear_route_cache, true);
      seen.add(destinationOf(picked) ?? '');
      t.ok((await passed(request)).equals(body));
      request.send(responseHeaders(200));
      t.match(await request.next(), { response_headers: {} });
      request.send({ response_body: { body: Buffer.from('{}'), end_of_stream: true } });
      const streamed = (await request.next())?.response_body?.response?.body_mutation?.streamed_response;
      t.match(streamed, { body: Buffer.from('{}'), end_of_stream: true });
      request.end();
      t.equal(await within('the end', request.next()), null);
    }
    t.equal(seen.size, 1);
    t.ok(hosts.map(addressOf).includes([...seen][0] as string));
    t.strictSame(inFlight(picker), [0, 0, 0]);
    t.equal(attemptsOf(picker, 'ok'), 4);
  },
);

t.test(
  'a large body is passed back while the data plane does not read, with one listener for all of its pieces',
  async (t) => {
    const { plane } = await start(t, 1);
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on('warning', note);
    t.teardown(() => process.off('warning', note));
    const body = question('long '.repeat(1_000_000));
    const request = plane.begin();
    await pick(request, body);
    t.ok((await passed(request)).equals(body));
    t.same(warnings, []);
    request.cancel();
  },
);

t.test('requests under way count: equal CRNs share them', async (t) => {
  const { picker, plane } = await start(t, 3);
  const requests = Array.from({ length: 9 }, () => plane.begin());
  for (const [n, request] of requests.entries()) await pick(request, question(`question ${n}`));
  t.strictSame(inFlight(picker), [3, 3, 3]);
  t.equal(picker.server.streams, 9);
  for (const request of requests) request.cancel();
  await until('all are given back', () => inFlight(picker).every((count) => count === 0));
  await until('all have ended', () => picker.server.streams === 0);
  t.equal(attemptsOf(picker, 'neutral'), 9, 'a client that leaves says nothing about a CRN');
});

t.test('only CRNs of the subset that the data plane names are picked', async (t) => {
  const { hosts, plane } = await start(t, 3);
  const hint = (...endpoints: string[]): Partial<ProcessingRequest> => ({
    metadata_context: {
      filter_metadata: {
        'envoy.lb.subset_hint': {
          fields: {
            'x-gateway-destination-endpoint-subset': {
              list_value: { values: endpoints.map((string_value) => ({ string_value })) },
            },
          },
        },
      },
    },
  });
  for (const host of hosts)
    t.equal(destinationOf(await pick(plane.begin(), question('any'), hint(addressOf(host)))), addressOf(host));
  for (const none of [hint(), hint('10.0.0.1:8000')]) {
    const refused = await pick(plane.begin(), question('any'), none);
    t.equal(refused.immediate_response?.status.code, 503);
  }
});

t.test('what cannot be picked for is refused with the error of the gateway', async (t) => {
  const { picker, plane } = await start(t, 1, {
    settings: { limits: { bodyBytes: '64KiB', bufferedBytes: '256KiB', heldEventBytes: '16KiB' } },
  });
  const refusal = async (send: (request: HttpRequest) => void): Promise<unknown> => {
    const request = plane.begin();
    send(request);
    let message = await within('a refusal', request.next());
    if (message?.request_headers !== undefined) message = await within('a refusal', request.next());
    request.end();
    const { body, headers, status } = message?.immediate_response ?? {};
    const code = headers?.set_headers?.find(({ header }) => header.key === 'x-headrace-error')?.header.raw_value;
    t.ok('detail' in (JSON.parse(String(body)) as object));
    return [status?.code, String(code)];
  };
  const whole =
    (body: Buffer, more: Readonly<Record<string, string>> = {}) =>
    (request: HttpRequest) => {
      request.send(requestHeaders({ ...HEAD, ...more }));
      request.send(bodyOf(body));
    };
  t.strictSame(await refusal(whole(Buffer.from('{"model":'))), [422, 'HR_REQUEST_INVALID']);
  t.strictSame(await refusal(whole(Buffer.from('{}'))), [422, 'HR_REQUEST_INVALID']);
  const unknown = Buffer.from('{"model":"other","messages":[]}');
  t.strictSame(await refusal(whole(unknown)), [404, 'HR_ROUTE_UNKNOWN_MODEL']);
  t.strictSame(await refusal(whole(Buffer.alloc(70_000))), [413, 'HR_REQUEST_TOO_LARGE']);
  const declared = { 'content-length': '70000' };
  const headOnly = (request: HttpRequest): void => request.send(requestHeaders({ ...HEAD, ...declared }));
  t.strictSame(await refusal(headOnly), [413, 'HR_REQUEST_TOO_LARGE']);
  const buffered = (request: HttpRequest): void => {
    request.send(requestHeaders(HEAD, { protocol_config: MODES.buffered }));
    request.send(bodyOf(Buffer.alloc(110_000)));
  };
  t.strictSame(await refusal(buffered), [413, 'HR_REQUEST_TOO_LARGE'], 'in one message');
  const held = Array.from({ length: 4 }, () => plane.begin());
  for (const request of held) {
    request.send(requestHeaders(HEAD));
    request.send(bodyOf(Buffer.alloc(60_000), false));
  }
  await until('bodies are held', () => picker.gateway.plane.budget.usedBytes > 200_000);
  t.strictSame(await refusal(whole(Buffer.alloc(60_000))), [503, 'HR_OVERLOADED']);
  for (const request of held) request.cancel();
  await until('their memory is given back', () => picker.gateway.plane.budget.usedBytes === 0);
  t.strictSame(inFlight(picker), [0]);
});

t.test('a client that falls silent in the middle of its body holds no memory', async (t) => {
  const { picker, plane } = await start(t, 1, { settings: { timeouts: { body: '100ms' } } });
  const { budget } = picker.gateway.plane;
  for (const pieces of [[], [Buffer.alloc(60_000)]]) {
    const request = plane.begin();
    request.send(requestHeaders(HEAD));
    for (const piece of pieces) request.send(bodyOf(piece, false));
    const refused = await within('a refusal', request.next());
    t.equal(refused?.immediate_response?.status.code, 408);
    t.equal(refused?.immediate_response?.details, 'HR_REQUEST_TIMEOUT');
    t.equal(budget.usedBytes, 0);
    request.end();
    t.equal(await request.next(), null);
  }
  const picked = plane.begin();
  await pick(picked, question('answered late'));
  await passed(picked);
  const later = plane.begin();
  later.send(requestHeaders(HEAD));
  t.match(await within('a refusal', later.next()), { immediate_response: {} }, 'the time has passed');
  later.end();
  picked.send(responseHeaders(200, true));
  t.match(await picked.next(), { response_headers: {} }, 'whole bodies are not in a hurry');
  picked.end();
});

t.test('a request is picked for while its body arrives in pieces, and ends with trailers', async (t) => {
  const { plane } = await start(t, 1);
  const request = plane.begin();
  const body = question('in pieces');
  request.send(requestHeaders(HEAD));
  for (const byte of body) request.send(bodyOf(Buffer.of(byte), false));
  request.send({ request_trailers: {} });
  t.ok(destinationOf(await within('a pick', request.next())));
  const piece = (await request.next())?.request_body?.response?.body_mutation?.streamed_response;
  t.ok(piece?.body.equals(body));
  t.not(piece?.end_of_stream, true);
  t.match(await request.next(), { request_trailers: {} });
});

t.test('a body from which a gateway would take the line of Claude Code comes back as it was', async (t) => {
  const { plane } = await start(t, 1);
  const system = [
    { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1; cch=0a1b2;' },
    { type: 'text', text: 'You are Claude Code.' },
  ];
  const body = question('hello', { system, max_tokens: 8 });
  const sent = Buffer.from(body);
  const request = plane.begin();
  request.send(requestHeaders({ ...HEAD, ':path': '/v1/messages' }));
  request.send(bodyOf(body));
  t.ok(destinationOf(await within('a pick', request.next())));
  t.equal(String(await passed(request)), String(sent));
  request.cancel();
});

t.test('answers of CRNs decide about their health', async (t) => {
  const { hosts, picker, plane } = await start(t, 2, { settings: { ejection: { consecutive: 1 } } });
  const failing = addressOf(hosts[0]);
  for (let n = 0; n < 30; n++) {
    const request = plane.begin();
    const destination = destinationOf(await pick(request, question(`question ${n}`)));
    await passed(request);
    request.send(responseHeaders(destination === failing ? 500 : 200, true));
    await request.next();
    request.end();
    await request.next();
  }
  await until('it is ejected', () => picker.gateway.crns().some((crn) => crn.standing !== 'up'));
  t.strictSame(inFlight(picker), [0, 0]);
  t.ok(attemptsOf(picker, 'failed') >= 1);
});

t.test('answers that clients bring about say nothing about a CRN', async (t) => {
  const { picker, plane } = await start(t, 2, { settings: { ejection: { consecutive: 1 } } });
  for (const status of [304, 307, 400, 401, 403, 404, 501]) {
    const request = plane.begin();
    await pick(request, question('hello'));
    await passed(request);
    request.send(responseHeaders(status, true));
    await request.next();
    request.end();
    t.equal(await request.next(), null);
  }
  const attempts = valuesOf(picker.gateway.plane.deps.metrics.snapshot(), 'headrace_upstream_attempts_total');
  t.strictSame(new Set(attempts.map(({ labels }) => labels['verdict'])), new Set(['neutral']));
  t.notOk(
    attempts.some(({ labels }) => labels['failure'] === 'credentials'),
    'keys are those of clients',
  );
  t.ok(picker.gateway.crns().every(({ standing }) => standing === 'up'));
});

t.test('the body of a request is kept until its answer has begun', async (t) => {
  const { picker, plane } = await start(t, 1);
  const { budget } = picker.gateway.plane;
  for (const part of [
    responseHeaders(200, true),
    { response_body: { body: Buffer.from('data: {}\n\n'), end_of_stream: false } },
  ]) {
    const request = plane.begin();
    await pick(request, question('long '.repeat(100_000), { stream: true }));
    await passed(request);
    if (part.response_body !== undefined) {
      request.send(responseHeaders(200));
      await request.next();
    }
    t.ok(budget.usedBytes >= 500_000);
    request.send(part);
    await request.next();
    t.equal(budget.usedBytes, 0);
    request.cancel();
  }
});

t.test('a form is picked for by the model that it names', async (t) => {
  const { hosts, plane } = await start(t, 1);
  const form = (model: string): Buffer =>
    Buffer.from(
      `--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n${model}\r\n--b--\r\n`,
    );
  const head = {
    ...HEAD,
    ':path': '/v1/audio/transcriptions',
    'content-type': 'multipart/form-data; boundary=b',
  };
  const request = plane.begin();
  request.send(requestHeaders(head));
  request.send(bodyOf(form(MODEL)));
  t.equal(destinationOf(await within('a pick', request.next())), addressOf(hosts[0]));
  t.ok((await passed(request)).equals(form(MODEL)));
  request.cancel();
  for (const [body, status] of [
    [form('other'), 404],
    [Buffer.from('--b\r\n'), 422],
  ] as const) {
    const refused = plane.begin();
    refused.send(requestHeaders(head));
    refused.send(bodyOf(body));
    t.equal((await within('a refusal', refused.next()))?.immediate_response?.status.code, status);
    refused.end();
  }
});

t.test('the CRN that a data plane has sent the request to instead is charged for it', async (t) => {
  const { hosts, picker, plane } = await start(t, 2, { fallbacks: 1 });
  const request = plane.begin();
  const [first = '', second = ''] = (destinationOf(await pick(request, question('retried'))) ?? '').split(',');
  t.same(new Set([first, second]), new Set(hosts.map(addressOf)), 'with fallbacks, others are named');
  await passed(request);
  const served = { fields: { 'x-gateway-destination-endpoint-served': { string_value: second } } };
  request.send({ ...responseHeaders(200), metadata_context: { filter_metadata: { 'envoy.lb': served } } });
  await request.next();
  const counts = new Map(picker.gateway.crns().map((crn) => [new URL(crn.url).host, crn.inFlight]));
  t.equal(counts.get(first), 0);
  t.equal(counts.get(second), 1);
  t.equal(attemptsOf(picker, 'failed'), 1);
  const again = plane.begin();
  t.match(destinationOf(await pick(again, question('retried'))), new RegExp(`^${second}`), 'its cache has the prompt');
  for (const each of [request, again]) each.cancel();
  await until('all are given back', () => inFlight(picker).every((count) => count === 0));
});

t.test('no fallback is named that lacks the dialect of the request', async (t) => {
  const hosts = await startHosts(t, [{}, {}, {}]);
  const servers = hosts.map(({ url }, at) => ({
    url,
    dialects: [at === 0 ? ('messages' as const) : ('chat' as const)],
  }));
  const picker = await startPicker(t, hosts, { fallbacks: 2, settings: { models: { [MODEL]: { servers } } } });
  const request = new DataPlane(t, picker.port).begin();
  const named = destinationOf(await pick(request, question('short')))?.split(',');
  t.same(new Set(named), new Set(hosts.slice(1).map(addressOf)));
  request.cancel();
});

t.test('cached tokens of answers are compared with what was predicted', async (t) => {
  const { picker, plane } = await start(t, 1);
  const body = question('cached '.repeat(1000));
  for (const stream of [false, true, true]) {
    const request = plane.begin();
    await pick(request, stream ? question('cached '.repeat(1000), { stream }) : body);
    await passed(request);
    request.send(responseHeaders(200));
    await request.next();
    const usage = { prompt_tokens: 1750, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 1700 } };
    const answer = JSON.stringify({ choices: [], usage });
    request.send({
      response_body: { body: Buffer.from(stream ? `data: ${answer}\n\n` : answer), end_of_stream: true },
    });
    await request.next();
    request.end();
    await request.next();
  }
  const reported = valuesOf(picker.gateway.plane.deps.metrics.snapshot(), 'headrace_locality_cached_tokens_total');
  t.match(
    reported.find(({ labels }) => labels['source'] === 'reported'),
    { value: 5100 },
  );
  t.ok((reported.find(({ labels }) => labels['source'] === 'predicted')?.value ?? 0) > 3000);
});

t.test('a response is continued by the CRN that gave it', async (t) => {
  const { plane } = await start(t, 3);
  const head = { ...HEAD, ':path': '/v1/responses' };
  const ask = async (body: object): Promise<{ request: HttpRequest; destination: string | undefined }> => {
    const request = plane.begin();
    request.send(requestHeaders(head));
    request.send(bodyOf(Buffer.from(JSON.stringify({ model: MODEL, ...body }))));
    const destination = destinationOf(await within('a pick', request.next()));
    await passed(request);
    return { request, destination };
  };
  const holders: string[] = [];
  for (let n = 0; n < 6; n++) {
    const { destination, request } = await ask({ input: `question ${n}` });
    holders.push(destination ?? '');
    request.send(responseHeaders(200));
    await request.next();
    request.send({ response_body: { body: Buffer.from(`{"id":"resp_${n}","output":[]}`), end_of_stream: false } });
    await request.next();
  }
  for (const [n, holder] of holders.entries())
    t.equal((await ask({ input: 'and', previous_response_id: `resp_${n}` })).destination, holder);
});

t.test('a stream begins with its first event, not with the comments before it', async (t) => {
  const { picker, plane } = await start(t, 3);
  const ask = async (body: object): Promise<{ request: HttpRequest; destination: string | undefined }> => {
    const request = plane.begin();
    request.send(requestHeaders({ ...HEAD, ':path': '/v1/responses' }));
    request.send(bodyOf(Buffer.from(JSON.stringify({ model: MODEL, stream: true, ...body }))));
    const destination = destinationOf(await within('a pick', request.next()));
    await passed(request);
    return { request, destination };
  };
  const { budget } = picker.gateway.plane;
  const holders: string[] = [];
  for (let n = 0; n < 6; n++) {
    const { destination, request } = await ask({ input: `question ${n}` });
    holders.push(destination ?? '');
    request.send(responseHeaders(200, false, { 'content-type': 'text/event-stream; charset=utf-8' }));
    await request.next();
    const event = `data: {"type":"response.created","response":{"id":"resp_${n}","output":[]}}\n\n`;
    for (const piece of [': alive\n\n', 'event: response.created\nda']) {
      request.send({ response_body: { body: Buffer.from(piece), end_of_stream: false } });
      await request.next();
      t.ok(budget.usedBytes > 0, 'its prompt is not prefilled');
    }
    for (const piece of [event.slice(2, 50), event.slice(50)]) {
      request.send({ response_body: { body: Buffer.from(piece), end_of_stream: false } });
      await request.next();
      t.equal(budget.usedBytes, 0);
    }
  }
  for (const [n, holder] of holders.entries()) {
    const { destination, request } = await ask({ input: 'and', previous_response_id: `resp_${n}` });
    t.equal(destination, holder);
    request.cancel();
    await until('it is given back', () => budget.usedBytes === 0);
  }
});

t.test('a data plane that buffers bodies is answered to each message', async (t) => {
  const { picker, plane } = await start(t, 1);
  const request = plane.begin();
  request.send(requestHeaders(HEAD, { protocol_config: MODES.buffered }));
  const first = await within('the headers', request.next());
  t.match(first, { request_headers: {} });
  t.equal(destinationOf(first), undefined);
  const removed = first?.request_headers?.response?.header_mutation?.remove_headers;
  t.strictSame(removed, ['x-gateway-destination-endpoint'], 'that of the client is gone, whatever follows');
  request.send(bodyOf(question('buffered')));
  const picked = await within('a pick', request.next());
  t.ok(destinationOf(picked));
  t.equal(picked?.request_body?.response?.header_mutation?.remove_headers, undefined);
  t.equal(picked?.request_body?.response?.body_mutation, undefined);
  request.send(responseHeaders(200));
  t.match(await request.next(), { response_headers: {} });
  t.strictSame(inFlight(picker), [1], 'until the stream ends');
  request.end();
  t.equal(await request.next(), null);
  t.strictSame(inFlight(picker), [0]);
  t.equal(attemptsOf(picker, 'ok'), 1);
});

t.test('a buffered body is picked for up to the limit of bodies, though it is one message', async (t) => {
  const { plane } = await start(t, 1);
  const request = plane.begin();
  request.send(requestHeaders(HEAD, { protocol_config: MODES.buffered }));
  await within('the headers', request.next());
  request.send(bodyOf(question('x'.repeat(17 * 1024 * 1024))));
  t.ok(destinationOf(await within('a pick', request.next())));
  request.end();
});

t.test('a body that is buffered is answered before the trailers that follow it', async (t) => {
  const { plane } = await start(t, 1);
  for (const hasBody of [true, false]) {
    const request = plane.begin();
    request.send(requestHeaders(HEAD, { protocol_config: MODES.buffered }));
    t.match(await within('the headers', request.next()), { request_headers: {} });
    if (hasBody) {
      request.send(bodyOf(question('with trailers'), false));
      const picked = await within('a pick', request.next());
      t.ok(destinationOf(picked));
      t.ok(picked?.request_body);
    }
    request.send({ request_trailers: {} });
    const last = await within('the trailers', request.next());
    t.match(last, { request_trailers: {} });
    t.equal(last?.dynamic_metadata === undefined, hasBody, 'where there was no body, they have the destination');
    request.end();
    t.equal(await request.next(), null);
  }
});

t.test('without a body, load decides', async (t) => {
  const { picker, plane } = await start(t, 2);
  const requests = [
    requestHeaders(HEAD, { protocol_config: MODES.none }),
    requestHeaders({ ':method': 'GET', ':path': '/v1/models' }, { isEnd: true }),
  ].map((head) => {
    const request = plane.begin();
    request.send(head);
    return request;
  });
  const destinations = await Promise.all(requests.map(async (request) => destinationOf(await request.next())));
  t.equal(new Set(destinations).size, 2);
  const compressed = plane.begin();
  compressed.send(requestHeaders({ ...HEAD, 'content-encoding': 'gzip' }));
  compressed.send(bodyOf(Buffer.from('no JSON')));
  t.ok(destinationOf(await compressed.next()));
  for (const request of [...requests, compressed]) request.cancel();
  await until('all are given back', () => inFlight(picker).every((count) => count === 0));
});

t.test('an upgrade is picked for at once: its client waits for the answer before it sends more', async (t) => {
  const { hosts, picker, plane } = await start(t, 1);
  const heads = [
    { ':method': 'GET', ':path': '/v1/realtime', connection: 'Upgrade', upgrade: 'websocket' },
    { ':method': 'CONNECT', ':protocol': 'websocket', ':path': '/v1/realtime' },
  ];
  for (const head of heads) {
    const request = plane.begin();
    request.send(requestHeaders(head as Record<string, string>, { protocol_config: MODES.duplex }));
    t.equal(destinationOf(await within('a pick', request.next())), addressOf(hosts[0]));
    request.send(responseHeaders(head[':method'] === 'GET' ? 101 : 200));
    t.match(await request.next(), { response_headers: {} });
    const frame = Buffer.from('frame');
    request.send(bodyOf(frame, false));
    t.match(await request.next(), {
      request_body: { response: { body_mutation: { streamed_response: { body: frame } } } },
    });
    request.send({ response_body: { body: frame, end_of_stream: false } });
    t.match(await request.next(), {
      response_body: { response: { body_mutation: { streamed_response: { body: frame } } } },
    });
    t.strictSame(inFlight(picker), [1], 'it runs');
    request.end();
    t.equal(await request.next(), null);
  }
});

t.test('without a body, servers of any model come before those that are down', async (t) => {
  const hosts = await startHosts(t, [{}]);
  const down = 'http://127.0.0.1:1';
  const models = { first: { servers: [down] }, [MODEL]: { servers: hosts.map(({ url }) => url) } };
  const picker = await startPicker(t, hosts, { settings: { models } });
  const plane = new DataPlane(t, picker.port);
  const destinations = async (): Promise<string | undefined> => {
    const request = plane.begin();
    request.send(requestHeaders({ ':method': 'GET', ':path': '/v1/models' }, { isEnd: true }));
    const destination = destinationOf(await within('a pick', request.next()));
    request.cancel();
    return destination;
  };
  t.equal(await destinations(), addressOf(hosts[0]));
  await hosts[0]?.kill();
  await until('all are down', () => picker.gateway.crns().every(({ standing }) => standing === 'down'));
  t.equal(await destinations(), new URL(down).host, 'the last resort');
});

t.test('servers with names in their URLs are not picked', async (t) => {
  const [host] = await startHosts(t, [{}]);
  const named = (host as Host).url.replace('127.0.0.1', 'localhost');
  const picker = await startPicker(t, [], { settings: { models: { [MODEL]: { servers: [named] } } } });
  const refused = await pick(new DataPlane(t, picker.port).begin(), question('any'));
  t.equal(refused.immediate_response?.status.code, 503);
});

t.test('health: alive at once, ready when requests can be picked for, not any more while closing', async (t) => {
  let isReady = false;
  const { picker, plane } = await start(t, 1, { isReady: () => isReady });
  t.equal(await plane.check('liveness'), 1);
  for (const service of ['', 'readiness', 'envoy.service.ext_proc.v3.ExternalProcessor'])
    t.equal(await plane.check(service), 2);
  isReady = true;
  t.equal(await plane.check('readiness'), 1);
  t.equal(await plane.check('other'), 'NOT_FOUND');
  const request = plane.begin();
  await pick(request, question('under way'));
  const closed = picker.server.close(30_000);
  await passed(request);
  request.send(responseHeaders(200, true));
  t.match(await request.next(), { response_headers: {} }, 'requests under way go on');
  request.end();
  await within('the server has closed', closed);
  t.strictSame(inFlight(picker), [0]);
});

t.test('requests that do not end are cut off when the drain is over', async (t) => {
  const { picker, plane } = await start(t, 1);
  const request = plane.begin();
  await pick(request, question('never ends'));
  await within('the server has closed', picker.server.close(10));
  await until('it is given back', () => inFlight(picker)[0] === 0);
});

t.test('TLS', async (t) => {
  const [host] = await startHosts(t, [{}]);
  const tls = { certificate: Buffer.from(CERTIFICATE), key: Buffer.from(CERTIFICATE_KEY) };
  const picker = await startPicker(t, [host as Host], { tls });
  const credentials = grpc.credentials.createSsl(Buffer.from(CERTIFICATE));
  t.equal(await new DataPlane(t, picker.port, credentials).check('readiness'), 1);
  t.equal(await new DataPlane(t, picker.port).check('readiness'), 'UNAVAILABLE');
});

t.test('a new certificate is for new connections; those of before go on', async (t) => {
  const [host] = await startHosts(t, [{}]);
  const tls = { certificate: Buffer.from(CERTIFICATE), key: Buffer.from(CERTIFICATE_KEY) };
  const picker = await startPicker(t, [host as Host], { tls });
  const plane = new DataPlane(t, picker.port, grpc.credentials.createSsl(Buffer.from(CERTIFICATE)));
  t.equal(await plane.check('readiness'), 1);
  t.equal(await certificateAt(picker.port), new X509Certificate(CERTIFICATE).fingerprint256);
  picker.server.useTls({ certificate: Buffer.from(EXPIRED_CERTIFICATE), key: Buffer.from(EXPIRED_KEY) });
  t.equal(await certificateAt(picker.port), new X509Certificate(EXPIRED_CERTIFICATE).fingerprint256);
  t.equal(await plane.check('readiness'), 1);
});

t.test('whatever a data plane sends in whatever order, every pick is given back', async (t) => {
  const { picker, plane } = await start(t, 2);
  const part = fc.oneof(
    fc
      .record({ path: fc.constantFrom('/v1/chat/completions', '/v1/responses', '/x'), isEnd: fc.boolean() })
      .map(({ isEnd, path }): ProcessingRequest => requestHeaders({ ':path': path }, { isEnd })),
    fc
      .record({ text: fc.string(), isEnd: fc.boolean(), isWhole: fc.boolean() })
      .map(({ isEnd, isWhole, text }) => bodyOf(isWhole ? question(text) : Buffer.from(text), isEnd)),
    fc
      .record({ status: fc.integer({ min: 0, max: 700 }), isEnd: fc.boolean() })
      .map(({ isEnd, status }) => responseHeaders(status, isEnd)),
    fc.record({ text: fc.string(), isEnd: fc.boolean() }).map(({ isEnd, text }): ProcessingRequest => ({
      response_body: { body: Buffer.from(text), end_of_stream: isEnd },
    })),
    fc.constantFrom<ProcessingRequest>({ request_trailers: {} }, { response_trailers: {} }, {}),
    fc.string().map((string_value): ProcessingRequest => ({
      metadata_context: {
        filter_metadata: {
          'envoy.lb': { fields: { 'x-gateway-destination-endpoint-served': { string_value } } },
        },
      },
    })),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(part, { maxLength: 12 }), fc.boolean(), async (messages, isCancelled) => {
      const request = plane.begin();
      for (const message of messages) request.send(message);
      // A client of this library that cancels before it has sent anything tells nobody.
      if (isCancelled) await plane.check('');
      if (isCancelled) request.cancel();
      else request.end();
      while ((await within('the end', request.next())) !== null);
    }),
    { numRuns: 200 },
  );
  await until('all have ended', () => picker.server.streams === 0);
  await until('all are given back', () => inFlight(picker).every((count) => count === 0));
  t.equal(picker.gateway.plane.budget.usedBytes, 0);
});
