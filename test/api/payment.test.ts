// Requests without a key that pay for themselves, over real sockets: what is answered before the work, when the payment is
// settled, and when it is released.

import { request } from 'node:http';
import t from 'tap';
import { systemClock } from '../../src/actor/index.ts';
import { holdPayment, type PaymentSettlement, requestDigest } from '../../src/api/payment.ts';
import { HeadraceError } from '../../src/errors.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import type { Exchange } from '../../src/ingress/exchange.ts';
import { createHttp1Server } from '../../src/ingress/http1.ts';
import { respondJson } from '../../src/ingress/respond.ts';
import {
  call,
  CALL_UNITS,
  failing,
  openPaymentFixture,
  PICO_PER_UNIT,
  type PaymentFixture,
} from '../billing/payments/payment-fixture.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';
import { Bench } from '../support/upstream-bench.ts';
import { answer, chunk, chunkedHead, delta, rawCrn, type RawRequest } from '../support/upstream-crn.ts';

type Serve = (settlement: PaymentSettlement, exchange: Exchange) => void;

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

interface Opened {
  readonly fixture: PaymentFixture;
  readonly ask: (payment?: string) => Promise<Answer>;
  /** Sends a request and gives its socket away. */
  readonly send: (payment: string) => { readonly leave: () => void };
}

async function open(t: Parameters<typeof openPaymentFixture>[0], serve: Serve, options = {}): Promise<Opened> {
  const fixture = await openPaymentFixture(t, options);
  const deps = {
    paymentProcessor: fixture.paymentProcessor,
    settings: { publicScheme: 'http', errorBodies: 'contract' as const },
  };
  const server = createHttp1Server({
    handler: (exchange) =>
      exchange.readBody((_error, body) => {
        const quote = { ...call(undefined), digest: requestDigest(exchange, body) };
        holdPayment(exchange, deps, quote, (settlement) => serve(settlement, exchange));
      }),
    clock: systemClock,
    limits: {
      maxBodyBytes: 1e6,
      bodyIdleMs: 1e4,
      clientIdleMs: 1e4,
      keepAliveMs: 12_000,
      connections: 100,
      headerBytes: 16_384,
    },
    budget: new BodyBudget(1e6),
  });
  const { host, port } = await server.listen({ host: '127.0.0.1', port: 0 });
  t.teardown(() => server.close());
  const start = (payment: string | undefined) => {
    const headers = payment === undefined ? {} : { 'x-payment': payment };
    return request({ host, port, method: 'POST', path: '/v1/chat/completions', headers }).on('error', () => undefined);
  };
  return {
    fixture,
    ask: (payment) =>
      new Promise((resolve) => {
        const sent = start(payment);
        sent.on('response', (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
          response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
        });
        sent.end('{}');
      }),
    send(payment) {
      const sent = start(payment);
      sent.end('{}');
      return { leave: () => sent.destroy() };
    },
  };
}

/** Resolves when the ledger says what is expected of it; the test's own deadline ends a vain wait. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve));
}

const PRICE = CALL_UNITS * PICO_PER_UNIT;

async function credit({ ledger, payer }: PaymentFixture): Promise<bigint> {
  return (await ledger.account(payer.address))?.balance ?? 0n;
}

const whole: Serve = (settlement, exchange) =>
  settlement.deliver((receipts) => respondJson(exchange, 200, { done: 1 }, receipts));

/** A proxied request to CRNs with these scripts. */
function proxied(t: Parameters<typeof openPaymentFixture>[0], ...scripts: ((request: RawRequest) => void)[]): Serve {
  const bench = Promise.all(scripts.map((script) => rawCrn(t, script))).then(
    (crns) => new Bench(t, { urls: crns.map(({ url }) => url) }),
  );
  return (settlement, client) => void bench.then((opened) => opened.ask({ approval: settlement, client }));
}

t.test('a request without a payment is offered one, and nothing is served', async (t) => {
  let served = 0;
  const { ask } = await open(t, () => void served++);
  const { headers, status, text } = await ask();
  t.equal(status, 402);
  t.match(JSON.parse(text), { x402Version: 1, detail: /^Payment required/, accepts: [{ maxAmountRequired: '20000' }] });
  t.ok(headers['payment-required']);
  t.equal((await ask('!')).status, 400);
  t.equal(served, 0);
});

t.test('whole work is paid once it is done, and its repeat pays nothing', async (t) => {
  const { ask, fixture } = await open(t, whole);
  const header = fixture.header(CALL_UNITS);
  const { headers, status, text } = await ask(header);
  t.same([status, text], [200, '{"done":1}']);
  t.ok(headers['payment-response'] && headers['x-payment-response']);
  const again = await ask(header);
  t.equal(again.status, 402);
  t.equal(again.headers['payment-response'], headers['payment-response'], 'with the receipt of what was paid');
  t.equal(fixture.facilitator.transfers.length, 1);
});

t.test('work that fails costs nothing', async (t) => {
  const { ask, fixture } = await open(t, () => {
    throw new HeadraceError('HR_SEARCH_ALL_FAILED');
  });
  t.equal((await ask(fixture.header(CALL_UNITS))).status, 503);
  await until(async () => (await fixture.ledger.paymentsIn('failed')).length === 1);
  t.equal(fixture.facilitator.transfers.length, 0);
});

t.test('money that does not come is said instead of the work', async (t) => {
  const { ask, fixture } = await open(t, whole);
  const header = fixture.header(CALL_UNITS);
  fixture.facilitator.faults.push({ path: '/settle', fault: 'cut' });
  t.equal((await ask(header)).status, 503);
  const other = await open(t, (settlement, exchange) => {
    other.fixture.facilitator.fund(
      other.fixture.payer.address,
      -other.fixture.facilitator.balance(other.fixture.payer.address),
    );
    whole(settlement, exchange);
  });
  const refused = await other.ask(other.fixture.header(CALL_UNITS));
  t.equal(refused.status, 402);
  t.match(JSON.parse(refused.text), { error: 'insufficient_funds', accepts: [{}] });
});

t.test('a ledger that breaks under settlement is an error without its words', async (t) => {
  const { ask, fixture } = await open(t, (settlement, exchange) => {
    failing(fixture.ledger, 'submitPayment', new Error('secret'));
    whole(settlement, exchange);
  });
  const { status, text } = await ask(fixture.header(CALL_UNITS));
  t.equal(status, 503, 'money may have moved');
  t.notMatch(text, /secret/);
});

t.test('a client that leaves while money moves gets it back as credit', async (t) => {
  const gate = Promise.withResolvers<void>();
  const { send, fixture } = await open(t, (settlement, exchange) => {
    exchange.listener = { onWritable: () => undefined, onCut: () => undefined, onEnded: () => gate.resolve() };
    whole(settlement, exchange);
    client.leave();
  });
  fixture.facilitator.faults.push({ path: '/settle', fault: gate.promise });
  const client = send(fixture.header(CALL_UNITS));
  await until(async () => (await credit(fixture)) === PRICE);
  t.equal(fixture.facilitator.transfers.length, 1);
});

t.test('a client that has left before its payment was judged costs itself nothing', async (t) => {
  const fixture = await openPaymentFixture(t);
  const exchange = new StubExchange('POST', ['x-payment', fixture.header(CALL_UNITS)]);
  let served = 0;
  holdPayment(
    exchange,
    {
      paymentProcessor: fixture.paymentProcessor,
      settings: { publicScheme: 'http', errorBodies: 'contract' as const },
    },
    call(undefined),
    () => served++,
  );
  exchange.leave();
  await until(async () => (await fixture.ledger.paymentsIn('failed')).length === 1);
  t.equal(served, 0);
});

t.test('a stream is paid before its first byte', async (t) => {
  const stream = 'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
  const paid: number[] = [];
  const serve = proxied(t, ({ socket }) => {
    socket.write(chunkedHead('content-type: text/event-stream'));
    socket.write(chunk(stream));
    socket.write(chunk(''));
    paid.push(opened.fixture.facilitator.transfers.length);
  });
  const opened = await open(t, serve);
  const { headers, status, text } = await opened.ask(opened.fixture.header(CALL_UNITS));
  t.same([status, text], [200, stream]);
  t.ok(headers['payment-response']);
  t.same(paid, [0], 'and not before a server has begun');
  t.equal(opened.fixture.facilitator.transfers.length, 1);
});

t.test('servers that all fail, or refuse, cost nothing', async (t) => {
  for (const [reply, status] of [
    ['500 Oh', 503],
    ['422 No', 422],
  ] as const) {
    const opened = await open(
      t,
      proxied(t, ({ socket }) => void socket.write(answer(reply, '{}'))),
    );
    t.equal((await opened.ask(opened.fixture.header(CALL_UNITS))).status, status);
    await until(async () => (await opened.fixture.ledger.paymentsIn('failed')).length === 1);
    t.equal(opened.fixture.facilitator.transfers.length, 0);
  }
});

t.test('a server that breaks off behind the money leaves credit, and the same request is served from it', async (t) => {
  let broken = true;
  const serve = proxied(t, ({ socket }) => {
    if (!broken) {
      socket.write(answer('200 OK', '{"choices":[{}]}'));
      return;
    }
    // It breaks off while the payment settles.
    socket.write(chunkedHead('content-type: text/event-stream') + chunk(delta('lost')).toString());
    socket.write('ff\r\nda', () => socket.destroy());
  });
  const opened = await open(t, serve);
  const header = opened.fixture.header(CALL_UNITS);
  const failed = await opened.ask(header);
  t.equal(failed.status, 503);
  t.ok(failed.headers['payment-response'], 'the client learns what it has paid');
  await until(async () => (await credit(opened.fixture)) === PRICE);
  broken = false;
  const served = await opened.ask(header);
  t.same([served.status, served.text], [200, '{"choices":[{}]}']);
  t.equal(served.headers['payment-response'], failed.headers['payment-response']);
  t.equal(await credit(opened.fixture), 0n);
  t.equal(opened.fixture.facilitator.transfers.length, 1);
  t.equal((await opened.fixture.ledger.audit()).sound, true);
});

t.test('requests are told apart by method, path, query and body', async (t) => {
  const digests = ['a', 'b'].map((body) => requestDigest(new StubExchange('POST'), Buffer.from(body)));
  t.equal(new Set([...digests, requestDigest(new StubExchange('GET'), Buffer.from('a'))]).size, 3);
  t.equal(requestDigest(new StubExchange('POST'), Buffer.from('a')), digests[0]);
});
