// The webhook sender against real receivers that fail in every way, over both stores: signed, tried again, at least once, by one
// process of a store, and not to private addresses. Time is a manual clock.

import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/testkit.ts';
import type { Ledger } from '../../src/billing/index.ts';
import { WebhookSender, type WebhookSettings, webhookSignature } from '../../src/gateway/webhook-sender.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { openStore, START_MS, STORES, type StoreName, type TestStore } from '../billing/ledger/stores.ts';
import { until } from '../support/system.ts';

const KEY = Buffer.alloc(32, 7);
const SECRET = `whsec_${KEY.toString('base64')}`;

/** Longer than all that a test passes: a slow machine must not look like a receiver that hangs. */
const TIMEOUT_MS = 2_000_000_000;

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface Receiver {
  readonly url: string;
  readonly received: Received[];
  /** Answers the next requests, in order; then every one with 204. */
  readonly answers: ((res: ServerResponse) => void)[];
}

async function startReceiver(t: Test): Promise<Receiver> {
  const received: Received[] = [];
  const answers: Receiver['answers'] = [];
  const server = createServer((req, res) => {
    void text(req).then((body) => {
      received.push({ headers: req.headers, body });
      const answer = answers.shift();
      if (answer === undefined) res.writeHead(204).end();
      else answer(res);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?a=1`, received, answers };
}

interface Sending {
  readonly clock: ManualClock;
  readonly sender: WebhookSender;
  readonly lines: string[];
  /** Moves the clock of this sender, and the date of the store. */
  readonly pass: (ms: number) => void;
}

function startSender(
  t: Test,
  store: TestStore,
  settings: Partial<WebhookSettings>,
  ledger: Ledger = store.ledger,
): Sending {
  const clock = createManualClock();
  const lines: string[] = [];
  const note = (...said: unknown[]): void => void lines.push(JSON.stringify(said));
  let nowMs = START_MS;
  const sender = new WebhookSender({
    settings: {
      endpoints: {},
      lowBalance: null,
      allow: ['127.0.0.1'],
      timeoutMs: TIMEOUT_MS,
      retentionMs: 1e9,
      ...settings,
    },
    ledger: () => ledger,
    instance: `sender-${clocks++}`,
    clock,
    epochMs: () => nowMs,
    random: () => 0.5,
    log: { warn: note, info: note, error: note } as unknown as Log,
  });
  t.teardown(() => sender.close());
  const pass = (ms: number): void => {
    nowMs += ms;
    store.pass(ms);
    clock.advance(ms);
  };
  return { clock, sender, lines, pass };
}

let clocks = 0;

/** Lets the sender look for work again and again until the condition holds; hardly any time passes. */
async function working(what: string, { clock }: Sending, holds: () => boolean | Promise<boolean>): Promise<void> {
  await until(what, async () => {
    clock.advance(1000);
    return await holds();
  });
}

const endpoints = (
  url: string,
  events: WebhookSettings['endpoints'][string]['events'] = ['key.created'],
): Partial<WebhookSettings> => ({
  endpoints: { billing: { url, secret: SECRET, events } },
});

async function open(t: Test, name: StoreName): Promise<TestStore> {
  const store = await openStore(t, name);
  await store.ledger.createAccount({ id: 'acme' });
  return store;
}

const makeKey = (ledger: Ledger, id: string): Promise<unknown> =>
  ledger.createKey({ id, hash: `hash-${id}`, prefix: 'hr_abc', account: 'acme', label: 'laptop' });

t.test('a signature is that of Standard Webhooks, one for each secret', async (t) => {
  // The example of the specification's libraries.
  const signature = webhookSignature(
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    'msg_p5jXN8AQM9LWM0D4loKWxJek',
    1614265330,
    '{"test": 2432232314}',
  );
  t.equal(signature, 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
  t.equal(webhookSignature(`${SECRET} ${SECRET}`, 'a', 1, 'b').split(' ').length, 2);
});

for (const name of STORES) {
  t.test(`${name}: an event is posted once, signed, to the endpoints that want it`, async (t) => {
    const store = await open(t, name);
    const [wants, other] = [await startReceiver(t), await startReceiver(t)];
    const sending = startSender(t, store, {
      endpoints: {
        billing: { url: wants.url, secret: SECRET, events: ['key.created', 'key.disabled'] },
        alerts: { url: other.url, secret: SECRET, events: ['credit.low'] },
      },
    });
    await makeKey(store.ledger, 'k');
    await store.ledger.disableKey('k');
    await working('both messages', sending, () => wants.received.length === 2);
    await working('they are done', sending, async () => {
      return (await store.ledger.webhooks.list({ state: 'delivered' })).length === 2;
    });
    const [{ body, headers }] = wants.received as [Received];
    const message = JSON.parse(body) as { type: string; data: object };
    t.match(message, {
      timestamp: new Date(START_MS).toISOString(),
      data: { account: 'acme', key: 'k', label: 'laptop' },
    });
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
    t.equal(headers['webhook-signature'], `v1,${createHmac('sha256', KEY).update(signed).digest('base64')}`);
    t.equal(headers['webhook-timestamp'], String(START_MS / 1000));
    t.match(headers, { 'content-type': 'application/json', 'webhook-id': /^msg_/ });
    t.same(wants.received.map((each) => (JSON.parse(each.body) as { type: string }).type).sort(), [
      'key.created',
      'key.disabled',
    ]);
    t.equal(other.received.length, 0);
    t.notMatch(sending.lines.join(), SECRET);
  });

  t.test(`${name}: what is not accepted is sent again with growing pauses, with the same id`, async (t) => {
    const store = await open(t, name);
    const receiver = await startReceiver(t);
    receiver.answers.push(
      (res) => res.writeHead(500).end('no'),
      (res) => res.destroy(),
      (res) => res.writeHead(301, { location: 'http://127.0.0.1:1/' }).end(),
    );
    const sending = startSender(t, store, endpoints(receiver.url));
    await makeKey(store.ledger, 'k');
    const attempts = async (): Promise<number> => (await store.ledger.webhooks.list({}))[0]?.attempts ?? 0;
    const results: string[] = [];
    for (const [at, pauseMs] of [5000, 300_000, 1_800_000].entries()) {
      await working(`attempt ${at + 1}`, sending, async () => (await attempts()) === at + 1);
      const [delivery] = await store.ledger.webhooks.list({});
      results.push(delivery?.result ?? '');
      t.equal(delivery?.state, 'pending');
      t.equal((await store.ledger.webhooks.due(['billing'], 1)).length, 0, 'not at once');
      sending.pass(pauseMs);
    }
    await working('the fourth', sending, async () => (await attempts()) === 4);
    t.match(await store.ledger.webhooks.list({}), [{ state: 'delivered', result: 'HTTP 204' }]);
    t.match(results, ['HTTP 500', 'connection closed', 'HTTP 301']);
    t.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 1);
    t.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-timestamp'])).size, 4);
    t.notMatch(sending.lines.join(), SECRET);
    t.notMatch(sending.lines.join(), 'laptop');
  });

  t.test(`${name}: an endpoint that does not answer keeps no other one of its host waiting`, async (t) => {
    const store = await open(t, name);
    const { answers, received, url } = await startReceiver(t);
    for (let count = 0; count < 4; count++) answers.push(() => undefined);
    const sending = startSender(t, store, {
      endpoints: {
        'hangs works': { url, secret: SECRET, events: ['key.created'] },
        works: { url, secret: SECRET, events: ['key.disabled'] },
      },
    });
    for (let count = 0; count < 4; count++) await makeKey(store.ledger, `k${count}`);
    await working('as many as an endpoint gets at once', sending, () => received.length === 4);
    await store.ledger.disableKey('k0');
    await working('the other endpoint has its message', sending, async () => {
      return (await store.ledger.webhooks.list({ state: 'delivered' })).length === 1;
    });
    t.match(JSON.parse(received[4]?.body ?? ''), { type: 'key.disabled' });
  });

  t.test(`${name}: a message is given up after its last pause, or when the receiver is gone`, async (t) => {
    const store = await open(t, name);
    const [failing, gone] = [await startReceiver(t), await startReceiver(t)];
    for (let at = 0; at < 20; at++) failing.answers.push((res) => res.writeHead(503).end());
    gone.answers.push((res) => res.writeHead(410).end());
    const sending = startSender(t, store, {
      endpoints: {
        failing: { url: failing.url, secret: SECRET, events: ['key.created'] },
        gone: { url: gone.url, secret: SECRET, events: ['key.created'] },
      },
    });
    await makeKey(store.ledger, 'k');
    for (let attempt = 1; attempt <= 10; attempt++) {
      await working(`attempt ${attempt}`, sending, async () => {
        return (await store.ledger.webhooks.list({ endpoint: 'failing' }))[0]?.attempts === attempt;
      });
      sending.pass(25 * 3_600_000);
    }
    t.match(await store.ledger.webhooks.list({ state: 'failed' }), [
      { endpoint: 'gone', attempts: 1 },
      { endpoint: 'failing', attempts: 10 },
    ]);
    const [toGone] = await store.ledger.webhooks.list({ endpoint: 'gone' });
    await store.ledger.webhooks.redeliver(toGone?.message ?? '', 'gone');
    await working('an operator sends it again', sending, () => gone.received.length === 2);
  });

  t.test(`${name}: of two processes one sends; when it ends the other goes on`, async (t) => {
    const store = await open(t, name);
    const receiver = await startReceiver(t);
    const one = startSender(t, store, endpoints(receiver.url));
    await makeKey(store.ledger, 'k1');
    await working('the first message', one, () => receiver.received.length === 1);
    const two = startSender(t, store, endpoints(receiver.url), await store.again());
    await makeKey(store.ledger, 'k2');
    for (let turn = 0; turn < 5; turn++) two.clock.advance(1000);
    const delivered = async (): Promise<number> => (await store.ledger.webhooks.list({ state: 'delivered' })).length;
    // Not only received: what is received and not noted yet when a process ends is sent again by the next.
    await working('the second', one, async () => (await delivered()) === 2);
    await one.sender.close();
    await makeKey(store.ledger, 'k3');
    await working('the other process', two, async () => (await delivered()) === 3);
    t.equal(receiver.received.length, 3);
    t.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 3, 'none twice');
  });

  t.test(`${name}: what was on its way when a process ended is sent by the next`, async (t) => {
    const store = await open(t, name);
    const receiver = await startReceiver(t);
    // It takes the message and never answers.
    receiver.answers.push(() => undefined);
    const one = startSender(t, store, endpoints(receiver.url));
    await makeKey(store.ledger, 'k');
    await working('the message is taken', one, () => receiver.received.length === 1);
    await one.sender.close();
    t.match(await store.ledger.webhooks.list({}), [{ state: 'pending', attempts: 0 }]);
    const two = startSender(t, store, endpoints(receiver.url));
    await working('it comes again', two, () => receiver.received.length === 2);
    t.equal(receiver.received[0]?.headers['webhook-id'], receiver.received[1]?.headers['webhook-id']);
  });

  t.test(`${name}: private addresses are not called unless they are allowed`, async (t) => {
    const store = await open(t, name);
    const receiver = await startReceiver(t);
    const sending = startSender(t, store, { ...endpoints(receiver.url), allow: [] });
    await makeKey(store.ledger, 'k');
    await working('it is refused', sending, async () => (await store.ledger.webhooks.list({}))[0]?.attempts === 1);
    t.match(await store.ledger.webhooks.list({}), [{ state: 'pending', result: 'private address' }]);
    t.equal(receiver.received.length, 0);
    sending.sender.configure({
      ...endpoints(receiver.url),
      lowBalance: null,
      allow: ['127.0.0.1'],
      timeoutMs: TIMEOUT_MS,
      retentionMs: 1e9,
    } as WebhookSettings);
    sending.pass(5000);
    await working('a reload allows it', sending, () => receiver.received.length === 1);
  });

  t.test(`${name}: a delivery to an endpoint that is not configured any more is removed with old events`, async (t) => {
    const store = await open(t, name);
    const { webhooks } = store.ledger;
    await makeKey(store.ledger, 'k');
    await webhooks.fanOut(() => ['former', 'billing']);
    await makeKey(store.ledger, 'l');
    await webhooks.fanOut(() => ['former']);
    const receiver = await startReceiver(t);
    receiver.answers.push((res) => res.writeHead(500).end());
    const sending = startSender(t, store, { ...endpoints(receiver.url), retentionMs: 2000 });
    await working('it is refused once', sending, async () => {
      return (await webhooks.list({ endpoint: 'billing' }))[0]?.attempts === 1;
    });
    sending.pass(4000);
    for (let chores = 0; chores < 2; chores++) sending.clock.advance(30_000);
    await working('the other event is removed', sending, async () => (await webhooks.list({})).length < 3);
    t.same((await webhooks.list({})).map(({ endpoint }) => endpoint).sort(), ['billing', 'former']);
  });

  t.test(`${name}: an endpoint gets no events from before it was added`, async (t) => {
    const store = await openStore(t, name);
    const receiver = await startReceiver(t);
    await store.ledger.webhooks.emit({ type: 'key.created', account: 'a', id: 'old', data: {} });
    const sending = startSender(t, store, {});
    const isFannedOut = (): Promise<boolean> => {
      const refused = (): never => {
        throw new Error('an event is left');
      };
      return store.ledger.webhooks.fanOut(refused).then(
        () => true,
        () => false,
      );
    };
    await working('the old event is for nobody', sending, isFannedOut);
    const { endpoints: added = {} } = endpoints(receiver.url);
    sending.sender.configure({
      endpoints: added,
      lowBalance: null,
      allow: ['127.0.0.1'],
      timeoutMs: TIMEOUT_MS,
      retentionMs: 1e9,
    });
    await store.ledger.webhooks.emit({ type: 'key.created', account: 'b', id: 'new', data: {} });
    await working('the new event is sent', sending, () => receiver.received.length > 0);
    t.match(receiver.received, [{ headers: { 'webhook-id': 'msg_new' } }]);
    t.equal(receiver.received.length, 1);
  });

  t.test(`${name}: a message that was put off by a clock ahead goes on when the clock is set back`, async (t) => {
    const store = await open(t, name);
    const receiver = await startReceiver(t);
    receiver.answers.push((res) => res.writeHead(500).end());
    const sending = startSender(t, store, endpoints(receiver.url));
    const dayMs = 24 * 3_600_000;
    store.pass(dayMs);
    await makeKey(store.ledger, 'k1');
    await working('it is refused', sending, async () => (await store.ledger.webhooks.list({}))[0]?.attempts === 1);
    store.pass(-dayMs);
    await working('it is sent again', sending, () => receiver.received.length === 2);
    // And one that was never tried.
    store.pass(dayMs);
    await store.ledger.webhooks.emit({ type: 'key.created', account: 'acme', id: 'later', data: {} });
    await store.ledger.webhooks.fanOut(() => ['billing']);
    store.pass(-dayMs);
    await working('that one is sent too', sending, () => receiver.received.length === 3);
  });

  t.test(`${name}: an event that is older than the retention when a gateway starts is sent`, async (t) => {
    const store = await open(t, name);
    const receiver = await startReceiver(t);
    await makeKey(store.ledger, 'k');
    const sending = startSender(t, store, { ...endpoints(receiver.url), retentionMs: 60_000 });
    sending.pass(61_000);
    await working('it is sent', sending, () => receiver.received.length === 1);
  });

  t.test(`${name}: a payment that stays open is told once`, async (t) => {
    const store = await open(t, name);
    const receiver = await startReceiver(t);
    const { ledger } = store;
    const payment = {
      network: 'base',
      asset: '0xaa',
      payer: '0xbb',
      nonce: '0xcc',
      purpose: 'x',
      amount: 5n * 10n ** 11n,
    };
    const reserved = await ledger.reservePayment({ ...payment, validUntilMs: START_MS + 1e6 });
    t.equal(reserved.kind, 'reserved');
    if (reserved.kind === 'reserved') await ledger.submitPayment(reserved.id, '{}');
    const sending = startSender(t, store, endpoints(receiver.url, ['payment.open']));
    sending.pass(61_000);
    await working('it is told', sending, () => receiver.received.length === 1);
    sending.pass(120_000);
    for (let turn = 0; turn < 5; turn++) sending.clock.advance(1000);
    await working('it is done', sending, async () => (await ledger.webhooks.list({ state: 'delivered' })).length === 1);
    t.match(JSON.parse(receiver.received[0]?.body ?? ''), {
      type: 'payment.open',
      data: { account: '0xbb', amount_usd: '0.50' },
    });
    t.equal(receiver.received.length, 1);
  });

  t.test(
    `${name}: an open payment is told when the clock was ahead as it began, one that is served is not`,
    async (t) => {
      const store = await open(t, name);
      const receiver = await startReceiver(t);
      const { ledger } = store;
      const submit = async (nonce: string, request: object): Promise<void> => {
        const ids = { network: 'base', asset: '0xaa', payer: '0xbb', nonce };
        const reserved = await ledger.reservePayment({
          ...ids,
          purpose: 'x',
          amount: 1n,
          validUntilMs: START_MS + 1e9,
        });
        if (reserved.kind === 'reserved') await ledger.submitPayment(reserved.id, JSON.stringify(request));
      };
      store.pass(3_600_000);
      await submit('0xcc', {});
      store.pass(-3_600_000);
      await submit('0xdd', { moved: true, transaction: '0x1' });
      const sending = startSender(t, store, endpoints(receiver.url, ['payment.open']));
      sending.pass(61_000);
      await working('it is told', sending, () => receiver.received.length > 0);
      t.match(JSON.parse(receiver.received[0]?.body ?? ''), { data: { payment: /0xcc/ } });
      sending.pass(30_000);
      for (let turn = 0; turn < 5; turn++) sending.clock.advance(1000);
      await working('it is done', sending, async () => (await ledger.webhooks.list({ state: 'pending' })).length === 0);
      t.equal(receiver.received.length, 1);
    },
  );
}
