// Produces every code of the error table, or names the test that does.

import t from 'tap';
import { KeyTable } from '../../src/billing/index.ts';
import { createManualClock } from '../../src/actor/testkit.ts';
import { forward } from '../../src/api/inference.ts';
import type { ApiDeps } from '../../src/api/deps.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { type ErrorCode, ERRORS } from '../../src/errors.ts';
import type { Fault } from '../../src/host/index.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import type { Exchange } from '../../src/ingress/exchange.ts';
import { inject, type InjectRequest } from '../../src/ingress/inject.ts';
import { ModelTable } from '../../src/routing/index.ts';
import { CHAT, GOOD, MODEL, open, settingsFor, startHost } from '../support/server-adapter.ts';
import { type Answer, head } from '../support/server-adapter-wire.ts';
import { ACCOUNT_PRODUCERS } from './fixtures/account-refusals.ts';
import { FETCH_PRODUCERS } from './fixtures/unreadable-pages.ts';

type Tap = typeof t;
type Producer = (t: Tap) => Promise<Answer>;

/** Codes of translations (test/upstream/forms), of sockets (test/api/response-socket), of a gateway that shuts down (test/system/reload), of more limits than cells (test/api/pipeline), of payments (test/api/credits), of full queues (test/gateway/admission, test/api/search-places), of stored responses (test/system/responses, test/responses/response-store). */
const ELSEWHERE: readonly ErrorCode[] = [
  'HR_REQUEST_UNTRANSLATABLE',
  'HR_ROUTE_UNKNOWN_DIALECT',
  'HR_ANSWER_UNTRANSLATABLE',
  'HR_UPSTREAM_ANSWER',
  'HR_ROUTE_LOOP',
  'HR_SOCKET_UNSUPPORTED',
  'HR_SOCKET_ORIGIN',
  'HR_AUTH_HOSTED_SEARCH',
  'HR_TOOL_ORIGIN',
  'HR_SOCKET_MESSAGE',
  'HR_SOCKET_BUSY',
  'HR_SOCKET_PREVIOUS',
  'HR_DRAINING',
  'HR_RESPONSE_UNKNOWN',
  'HR_RESPONSE_BROKEN',
  'HR_RESPONSE_STATE',
  'HR_RESPONSE_LENGTH',
  'HR_RESPONSE_BACKGROUND',
  'HR_RESPONSE_UNAVAILABLE',
  'HR_ROUTE_BACKLOG',
  'HR_SEARCH_LIMIT',
  'HR_SEARCH_BUSY',
  'HR_LIMITS_FULL',
  'HR_ACCOUNT_RATE',
  'HR_ACCOUNT_REQUEST',
  'HR_ACCOUNT_UNAVAILABLE',
  'HR_PAYMENT_REQUIRED',
  'HR_PAYMENT_MALFORMED',
  'HR_PAYMENT_AMOUNT',
  'HR_PAYMENT_ADDRESS',
  'HR_PAYMENT_PENDING',
  'HR_PAYMENT_UNAVAILABLE',
  'HR_PAYMENT_LIMIT',
  'HR_PAYMENT_OFF',
];

const CHATTING: InjectRequest = { path: '/v1/chat/completions', headers: GOOD, body: CHAT };

/** The answer to one request. */
function answerTo(request: InjectRequest, fault?: Fault, settings: SettingsInput = {}): Producer {
  return async (t) => {
    const { ask, host } = await open(t, 'inject', settings);
    if (fault !== undefined) await host.setFault([{ fault }]);
    return ask(request);
  };
}

const STREAMING: InjectRequest = { ...CHATTING, body: { ...CHAT, stream: true } };

/** An exchange outside of any gateway, and the answer it gets. */
function pending(request: InjectRequest): { exchange: Exchange; answer: Promise<Answer> } {
  let exchange: Exchange | undefined;
  const limits = { maxBodyBytes: 10_000, bodyIdleMs: 1000 };
  const handler = (arrived: Exchange): void => {
    exchange = arrived;
  };
  const answer = inject({ handler, clock: createManualClock(), limits, budget: new BodyBudget(10_000) }, request);
  return { exchange: exchange as unknown as Exchange, answer };
}

/** Sends bytes that no client library sends. */
function answerToBytes(bytes: string): Producer {
  return async (t) => {
    const wire = (await open(t, 'node')).dial();
    await wire.send(bytes);
    return wire.answer();
  };
}

const PRODUCERS: Readonly<Partial<Record<ErrorCode, Producer>>> = {
  ...FETCH_PRODUCERS,
  ...ACCOUNT_PRODUCERS,
  HR_AUTH_MISSING: answerTo({ path: CHATTING.path, body: CHAT }),
  HR_AUTH_INVALID: answerTo({ ...CHATTING, headers: { authorization: 'Bearer no' } }),
  HR_REQUEST_MALFORMED: async (t) => {
    const wire = (await open(t, 'node')).dial();
    await wire.send(head('POST', CHATTING.path, ['host: x', 'content-length: 1', 'content-length: 2']));
    return wire.answer();
  },
  HR_REQUEST_INVALID: answerTo({ ...CHATTING, body: {} }),
  HR_REQUEST_TOO_LARGE: answerTo({ ...CHATTING, body: 'x'.repeat(101) }, undefined, { limits: { bodyBytes: 100 } }),
  HR_REQUEST_ENCODING: answerTo({ ...CHATTING, headers: { ...GOOD, 'content-encoding': 'compress' }, body: CHAT }),
  HR_REQUEST_TIMEOUT: async (t) => {
    const wire = (await open(t, 'node', { timeouts: { body: '10ms' } })).dial();
    await wire.send(head('POST', CHATTING.path, { host: 'x', ...GOOD, 'content-length': '9' }));
    return wire.answer();
  },
  HR_REQUEST_LINE_TOO_LONG: answerToBytes(`GET /${'a'.repeat(20_000)} HTTP/1.1\r\nhost: x\r\n\r\n`),
  HR_REQUEST_HEAD_TOO_LARGE: answerToBytes(`GET / HTTP/1.1\r\nhost: x\r\nx-pad: ${'a'.repeat(20_000)}\r\n\r\n`),
  HR_REQUEST_VERSION: answerToBytes('GET / HTTP/2.0\r\nhost: x\r\n\r\n'),
  HR_ROUTE_NOT_FOUND: answerTo({ path: '/nope' }),
  HR_ROUTE_UNSERVED: answerTo({ path: '/v1/files' }),
  HR_ROUTE_METHOD: answerTo({ path: '/health', method: 'DELETE' }),
  HR_ROUTE_UNKNOWN_MODEL: answerTo({ ...CHATTING, body: { model: 'zz' } }),
  HR_ROUTE_ALL_FAILED: answerTo(CHATTING, { status: 500 }),
  HR_UPSTREAM_BUSY: answerTo(CHATTING, { status: 429, body: 'x'.repeat(70_000) }),
  HR_UPSTREAM_CREDENTIALS: async (t) => {
    const host = await startHost(t, { keys: ['another'] });
    const models = { [MODEL]: { servers: [host.url], apiKey: 'refused' } };
    return (await open(t, 'inject', { models }, host)).ask(CHATTING);
  },
  HR_STREAM_BROKEN: answerTo(STREAMING, { resetAfter: 1 }),
  HR_STREAM_STALLED: answerTo(STREAMING, { stallAfter: 1 }, { timeouts: { idle: '50ms' } }),
  HR_STREAM_TRUNCATED: answerTo(STREAMING, { endAfter: 1 }),
  HR_LIST_NOT_READY: async (t) => {
    const host = await startHost(t);
    await host.setFault([{ match: { path: '/health' }, fault: { hang: true } }]);
    const gateway = createGateway(settingsFor(host));
    t.teardown(() => gateway.close());
    return gateway.inject({ path: '/aggregator/models' });
  },
  HR_OVERLOADED: async (t) => {
    const limits = { bodyBytes: 1000, heldEventBytes: 1000, bufferedBytes: 1000 };
    const { gateway, host } = await open(t, 'inject', { limits });
    await host.setFault([{ times: 1, fault: { hang: true } }]);
    const first = new AbortController();
    const held = gateway.inject({ ...CHATTING, body: { ...CHAT, pad: ' '.repeat(800) }, signal: first.signal });
    await host.nextRequest();
    const answer = await gateway.inject({ ...CHATTING, body: { ...CHAT, pad: ' '.repeat(800) } });
    first.abort();
    await held.catch(() => {});
    return answer;
  },
  HR_SEARCH_ALL_FAILED: answerTo({ path: '/search', headers: GOOD, body: { query: 'water' } }, undefined, {
    search: { engines: { engine_a: { kind: 'worker', url: 'http://127.0.0.1:1' } } },
  }),
  HR_STARTING: async (t) => {
    const { exchange, answer } = pending(CHATTING);
    const settings = resolveSettings({ keys: { required: false } });
    if ('mistakes' in settings) throw new Error('the settings are wrong');
    const deps = {
      settings: settings.settings,
      table: new ModelTable({ version: 0, models: [] }),
      keys: new KeyTable([]),
    };
    forward(exchange, deps as unknown as ApiDeps);
    t.ok(exchange.handedOver);
    return answer;
  },
  HR_INTERNAL: () => {
    const handler = (): never => {
      throw new Error('a secret');
    };
    const limits = { maxBodyBytes: 1, bodyIdleMs: 1 };
    return inject({ handler, clock: createManualClock(), limits, budget: new BodyBudget(1) }, { path: '/' });
  },
};

for (const code of Object.keys(ERRORS) as ErrorCode[]) {
  const produce = PRODUCERS[code];
  if (produce === undefined) {
    void t.test(`${code} is produced by another test`, async (t) => t.ok(ELSEWHERE.includes(code)));
    continue;
  }
  void t.test(`${code} reaches the client`, async (t) => {
    const answer = await produce(t as Tap);
    const { status, detail, retryable } = ERRORS[code];
    if (code.startsWith('HR_STREAM_')) {
      t.equal(answer.status, 200, 'the head had left');
      t.match(answer.text(), `"code":"${code}"`);
      t.notMatch(answer.text(), '[DONE]');
      return;
    }
    t.match(answer, { status, headers: { 'x-headrace-error': code, 'x-request-id': String, 'request-id': String } });
    const body = answer.json<{ detail: unknown }>();
    t.same(Object.keys(body), ['detail']);
    if (code === 'HR_REQUEST_INVALID') t.type(body.detail, Array);
    else t.match(body.detail, new RegExp(`^${detail.replace('{}', '.+')}$`));
    if (status === 503) t.match(answer.headers['retry-after'], /^\d+$/);
    if (status === 401) t.equal(answer.headers['www-authenticate'], 'Bearer');
    if (code === 'HR_ROUTE_ALL_FAILED') t.match(answer.headers['x-should-retry'], /^(?:true|false)$/);
    else t.equal(answer.headers['x-should-retry'], retryable === null ? undefined : String(retryable));
  });
}
