// The pipeline of the endpoints that cost money: the order of checks, which all three share, and that every hold ends in
// exactly one settlement or release, wherever the client leaves.

import t from 'tap';
import {
  authenticate,
  type Meter,
  paid,
  type PaidEndpoint,
  respondWhole,
  unmeteredRange,
  unmeteredSpending,
} from '../../src/api/pipeline.ts';
import type { ApiDeps, Endpoint } from '../../src/api/deps.ts';
import { fetchPage } from '../../src/api/fetch.ts';
import { forward } from '../../src/api/inference.ts';
import { search } from '../../src/api/search.ts';
import { hashKey, KeyTable, type Reserved } from '../../src/billing/index.ts';
import type { Exceeded, SliceUse } from '../../src/billing/index.ts';
import { type KeyAllowance, type KeyLimiter, LimitReservation } from '../../src/billing/limits/key-limiter.ts';
import { resolveSettings } from '../../src/config/load.ts';
import { HeadraceError } from '../../src/errors.ts';
import type { BodyCallback } from '../../src/ingress/body.ts';
import { ModelTable } from '../../src/routing/index.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';

const GOOD = ['authorization', 'Bearer good'];
const BAD = ['authorization', 'Bearer bad'];
const KEYS = new KeyTable([{ hash: hashKey('good'), account: 'a', prepaid: true, allowance: {} as never }]);

/** An exchange whose body the test delivers. */
class BodyExchange extends StubExchange {
  done: BodyCallback = () => undefined;

  override readBody(done: BodyCallback): void {
    this.done = done;
  }

  receive(body: unknown): void {
    if (body instanceof HeadraceError) this.done(body, Buffer.alloc(0));
    else this.done(null, Buffer.from(JSON.stringify(body)));
  }
}

/** Dependencies whose calls about money are written down, and answered as the test says. */
class Money {
  readonly calls: string[] = [];
  exceeded: Exceeded | null = null;
  /** Whether requests wait for a slice before they are admitted. */
  waits = false;
  /** Tells the request that waits for a slice to go on. */
  goOn: (use: SliceUse) => void = () => undefined;
  /** Reservations of limits that are not settled. */
  limited = 0;
  /** The call that throws. */
  broken = '';
  /** Whether the lease reaches; if not, `fund` waits for `funded`. */
  reaches = true;
  funded: (reserved: Reserved) => void = () => undefined;
  /** Kinds of answer of the payment processor. */
  readonly begin: PromiseWithResolvers<string> = Promise.withResolvers();
  readonly settle: PromiseWithResolvers<string> = Promise.withResolvers();

  breakAt(call: string): void {
    if (call === this.broken) throw new Error(`${call} is broken`);
  }

  deps(settings: object = {}): ApiDeps {
    const resolved = resolveSettings({ fetch: { price: '0.001' }, ...settings });
    if ('mistakes' in resolved) throw new Error('the settings are right');
    const note = (call: string): void => void this.calls.push(call);
    const refused = { kind: 'refused', code: 'HR_PAYMENT_UNAVAILABLE', subject: '' };
    const offer = { kind: 'offer', offer: { document: { error: 'pay' }, headers: [] } };
    return {
      settings: resolved.settings,
      keys: KEYS,
      table: new ModelTable({ version: 1, models: [{ id: 'm', members: [], budget: 0 }] }),
      contextLengths: new Map(),
      billing: {
        leases: {
          reserve: (_payer: unknown, most: number) => {
            this.breakAt('reserve');
            if (this.reaches) note('hold');
            return this.reaches ? most : 0;
          },
          fund: (_payer: unknown, _least: number, _most: number, done: (reserved: Reserved) => void) => {
            this.funded = done;
            this.breakAt('fund');
          },
          settle: () => {
            this.breakAt('charge');
            note('settle');
          },
          cancel: () => note('release'),
        },
        limits: {
          admit: (...[, , , , use]: Parameters<KeyLimiter['admit']>) => {
            if (this.waits && use === 'direct') return { kind: 'slice' };
            if (this.exceeded !== null) return this.exceeded;
            this.limited++;
            const reservation = new LimitReservation();
            reservation.allowance = { cell: null, requestsPerMinute: 1 } as KeyAllowance;
            return reservation;
          },
          lower: () => this.breakAt('lower'),
          settle: () => void this.limited--,
          needOf: () => ({ key: null, budgets: [] }),
        },
        slices: {
          wait: (_need: unknown, done: (use: SliceUse) => void) => {
            this.goOn = done;
            return {
              abort: () => {
                this.goOn = () => undefined;
                note('leave');
              },
            };
          },
        },
        modelPrices: new Map([['m', { prompt: 1, completion: 1, cachedPrompt: 1 }]]),
        enginePrices: new Map([['engine_a', 5]]),
        pagePrice: 5,
        assumedTokens: 10,
        epochMs: () => 0,
      },
      search: { serves: () => true },
      paymentProcessor: {
        begin: async () => {
          const kind = await this.begin.promise;
          if (kind === 'ticket') note('hold');
          return kind === 'ticket' ? { kind, ticket: 't' } : kind === 'offer' ? offer : refused;
        },
        settle: async () => {
          const kind = await this.settle.promise;
          if (kind === 'paid') note('settle');
          return kind === 'paid' ? { kind, headers: ['payment-response', 'r'] } : refused;
        },
        deliver: () => note('deliver'),
        cancel: () => note('release'),
      },
    } as unknown as ApiDeps;
  }
}

t.test('a good key is authenticated, with its account', async (t) => {
  const exchange = new StubExchange('POST', GOOD);
  t.match(authenticate(exchange, new Money().deps()), {
    credential: { kind: 'good', account: 'a' },
    bearer: undefined,
  });
  t.equal(exchange.account, 'a');
});

t.test('a key from x-api-key alone is a bearer token for CRNs', async (t) => {
  const deps = new Money().deps();
  t.equal(authenticate(new StubExchange('POST', ['x-api-key', 'good']), deps).bearer, 'good');
  t.equal(authenticate(new StubExchange('POST', ['x-api-key', 'good', ...GOOD]), deps).bearer, undefined);
});

t.test('a gateway that asks for no keys refuses nobody', async (t) => {
  const deps = new Money().deps({ keys: { required: false } });
  t.doesNotThrow(() => authenticate(new StubExchange('POST', BAD), deps));
  t.doesNotThrow(() => authenticate(new StubExchange('POST'), deps));
});

const ENDPOINTS: readonly [name: string, endpoint: Endpoint, valid: object, invalid: object][] = [
  ['inference', forward, { model: 'm' }, { model: 7 }],
  ['search', search, { query: 'q', engines: ['engine_a'] }, { query: 7 }],
  ['fetch', fetchPage, { url: 'http://example.com/' }, { url: 7 }],
];
const TOO_LARGE = new HeadraceError('HR_REQUEST_TOO_LARGE', { subject: '1' });
const SHORT: Reserved = { kind: 'short', balance: 0 };

for (const [name, endpoint, valid, invalid] of ENDPOINTS) {
  t.test(`${name} checks in order: bad key, size, body, model, no key, limits, credit`, async (t) => {
    const refusal = async (headers: string[], body: unknown, set: (money: Money) => void = () => undefined) => {
      const money = new Money();
      money.reaches = false;
      money.begin.resolve('offer');
      set(money);
      const exchange = new BodyExchange('POST', headers);
      const deps = money.deps();
      try {
        endpoint(exchange, deps);
      } catch (error) {
        return (error as HeadraceError).code;
      }
      exchange.receive(body);
      money.funded(SHORT);
      await new Promise((resolve) => setImmediate(resolve));
      t.same(money.calls, [], 'nothing is held for a request that is refused');
      return exchange.errorCode;
    };
    const limited = (money: Money): void => {
      money.exceeded = { kind: 'capacity' };
    };
    t.equal(await refusal(BAD, TOO_LARGE), 'HR_AUTH_INVALID');
    for (const headers of [[], GOOD]) {
      t.equal(await refusal(headers, TOO_LARGE, limited), 'HR_REQUEST_TOO_LARGE');
      t.equal(await refusal(headers, invalid, limited), 'HR_REQUEST_INVALID');
      if (endpoint === forward) t.equal(await refusal(headers, { model: 'x' }, limited), 'HR_ROUTE_UNKNOWN_MODEL');
    }
    t.equal(await refusal([], valid), 'HR_PAYMENT_REQUIRED');
    t.equal(await refusal(GOOD, valid, limited), 'HR_LIMITS_FULL');
    t.equal(await refusal(GOOD, valid), 'HR_CREDIT_SHORT');
  });

  t.test(`${name} asks for a key where no payment can be taken, before a long body is read`, async (t) => {
    for (const without of ['paymentProcessor', 'billing']) {
      const deps = { ...new Money().deps(), [without]: null };
      const exchange = new BodyExchange('POST');
      endpoint(exchange, deps);
      exchange.receive(valid);
      t.equal(exchange.errorCode, 'HR_AUTH_MISSING', without);
      for (const framing of [
        ['content-length', '65537'],
        ['transfer-encoding', 'chunked'],
        ['content-length', '10', 'content-encoding', 'gzip'],
      ]) {
        t.throws(() => endpoint(new BodyExchange('POST', framing), deps), { code: 'HR_AUTH_MISSING' }, framing.join());
      }
    }
  });
}

/** A request to an endpoint whose work the test ends. */
class Work {
  readonly money = new Money();
  readonly exchange: BodyExchange;
  aborted = 0;
  ran = 0;
  fails = false;
  answer: (answer: object | null, cached?: boolean) => void = () => undefined;

  constructor(headers: readonly string[]) {
    this.exchange = new BodyExchange('POST', headers);
  }

  begin(): void {
    const endpoint: PaidEndpoint<null> = {
      read: () => null,
      price: () => unmeteredRange(5),
      quote: () => ({ price: 5n, description: 'A call', usage: {} as never }),
      run: (request, settlement) => {
        this.ran++;
        if (this.fails) throw new HeadraceError('HR_SEARCH_ALL_FAILED');
        respondWhole<object>(
          request,
          settlement,
          (_answer, cached) => (cached ? [] : [unmeteredSpending('m', 5)]),
          (done) => {
            this.answer = (answer, cached = false) =>
              done(answer === null ? new HeadraceError('HR_SEARCH_ALL_FAILED') : null, answer, cached);
            return { abort: () => void this.aborted++ };
          },
        );
      },
    };
    paid(endpoint)(this.exchange, this.money.deps());
  }

  /** Lets every promise that has been settled call back. */
  async turn(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

type Step = (work: Work) => unknown;
const body: Step = ({ exchange }) => exchange.receive({});
const leave: Step = ({ exchange }) => exchange.leave();
const ticket: Step = ({ money }) => money.begin.resolve('ticket');
const paidFor: Step = ({ money }) => money.settle.resolve('paid');
const refusedPayment: Step = ({ money }) => money.settle.resolve('refused');
const brokenPayment: Step = ({ money }) => money.settle.reject(new Error('defect'));
const funded: Step = ({ money }) => {
  money.calls.push('hold');
  money.funded({ kind: 'reserved', amount: 5 });
};
const sliced: Step = ({ money }) => {
  money.waits = true;
};
const granted: Step = ({ money }) => money.goOn('granted');
const full: Step = ({ money }) => {
  money.exceeded = { kind: 'capacity' };
  money.goOn('granted');
};
const short: Step = ({ money }) => {
  money.reaches = false;
};
const answer: Step = (work) => work.answer({ a: 1 });
const cached: Step = (work) => work.answer({ a: 1 }, true);
const failure: Step = (work) => work.answer(null);
const throwing: Step = (work) => {
  work.fails = true;
};

const HOLDS: readonly [name: string, headers: readonly string[], before: Step[], steps: Step[], calls: string[]][] = [
  ['credit, the client leaves before its body is here', GOOD, [], [leave], []],
  ['credit, the client leaves while the lease is extended', GOOD, [short], [body, leave, funded], ['hold', 'release']],
  ['credit, the client leaves during the work', GOOD, [], [body, leave], ['hold', 'release']],
  ['credit, the work fails', GOOD, [], [body, failure], ['hold', 'release']],
  ['credit, the work cannot begin', GOOD, [throwing], [body], ['hold', 'release']],
  ['credit of an extended lease, the work cannot begin', GOOD, [short, throwing], [body, funded], ['hold', 'release']],
  ['credit, the answer costs nothing', GOOD, [], [body, cached], ['hold', 'release']],
  ['credit, the answer is delivered', GOOD, [], [body, answer, leave], ['hold', 'settle']],
  ['slice, the client leaves while it waits', GOOD, [sliced], [body, leave, granted], ['leave']],
  ['slice, the limit is reached', GOOD, [sliced], [body, full], []],
  ['slice, the work cannot begin', GOOD, [sliced, throwing], [body, granted], ['hold', 'release']],
  ['slice, the client leaves during the work', GOOD, [sliced], [body, granted, leave], ['hold', 'release']],
  [
    'slice, then credit of an extended lease',
    GOOD,
    [sliced, short],
    [body, granted, funded, leave],
    ['hold', 'release'],
  ],
  ['slice, the answer is delivered', GOOD, [sliced], [body, granted, answer, leave], ['hold', 'settle']],
  ['payment, the client leaves before its body is here', [], [], [leave, ticket], []],
  ['payment, the client leaves while it is checked', [], [], [body, leave, ticket], ['hold', 'release']],
  ['payment, the client leaves during the work', [], [], [body, ticket, leave], ['hold', 'release']],
  ['payment, the work fails', [], [], [body, ticket, failure], ['hold', 'release']],
  ['payment, the work cannot begin', [], [throwing], [body, ticket], ['hold', 'release']],
  ['payment, the answer costs nothing', [], [], [body, ticket, cached], ['hold', 'release']],
  [
    'payment, the client leaves while money moves',
    [],
    [],
    [body, ticket, answer, leave, paidFor],
    ['hold', 'settle', 'release'],
  ],
  ['payment, the client leaves and no money moves', [], [], [body, ticket, answer, leave, refusedPayment], ['hold']],
  ['payment, it is refused at the settlement', [], [], [body, ticket, answer, refusedPayment, leave], ['hold']],
  ['payment, its settlement breaks', [], [], [body, ticket, answer, brokenPayment, leave], ['hold']],
  ['payment, the answer is delivered', [], [], [body, ticket, answer, paidFor, leave], ['hold', 'settle', 'deliver']],
];

for (const [name, headers, before, steps, calls] of HOLDS) {
  t.test(`a hold ends once: ${name}`, async (t) => {
    const work = new Work(headers);
    for (const step of before) step(work);
    work.begin();
    for (const step of steps) {
      step(work);
      await work.turn();
    }
    t.same(work.money.calls, calls);
    t.equal(work.exchange.handedOver, true);
    const left = steps.at(-1) === leave || steps.includes(leave);
    t.equal(work.exchange.aborted, left && !work.exchange.committed);
    work.exchange.settlement?.close();
    await work.turn();
    t.same(work.money.calls, calls, 'a second close does nothing');
    t.equal(work.money.limited, 0, 'and so do the limits');
  });
}

const broken =
  (call: string): Step =>
  ({ exchange, money }) => {
    money.broken = call;
    if (call === 'headers') Object.freeze(exchange.commonHeaders);
  };
const brokenMeter: Step = ({ exchange }) => {
  const meter: Meter = {
    spending: () => {
      throw new Error('meter is broken');
    },
  };
  Object.assign(exchange.settlement ?? {}, { meter });
};

const DEFECTS: readonly [name: string, before: Step[], steps: Step[], calls: string[]][] = [
  ['the headers of the limits', [broken('headers')], [body], []],
  ['the reservation', [broken('reserve')], [body], []],
  ['what is given back of budgets', [broken('lower')], [body], ['hold', 'release']],
  ['the extension of the lease', [short, broken('fund')], [body], []],
  [
    'the extension of the lease, which comes all the same',
    [short, broken('fund')],
    [body, funded],
    ['hold', 'release'],
  ],
  ['what is given back after the extension', [short, broken('lower')], [body, funded], ['hold', 'release']],
  ['the meter at the end', [], [body, brokenMeter, leave], ['hold', 'release']],
  ['the charge', [broken('charge')], [body, answer], ['hold']],
];

for (const [name, before, steps, calls] of DEFECTS) {
  t.test(`limits and holds are given back when something breaks: ${name}`, async (t) => {
    const work = new Work(GOOD);
    for (const step of before) step(work);
    work.begin();
    for (const step of steps) {
      try {
        step(work);
      } catch (error) {
        t.match(error, /broken/, 'the server reports it');
      }
      await work.turn();
    }
    t.equal(work.exchange.handedOver || work.exchange.aborted, true, 'the client is answered');
    t.equal(work.money.limited, 0);
    t.same(work.money.calls, calls);
  });
}

t.test('a client that leaves during the work ends it, one that has its answer does not', async (t) => {
  const leaving = new Work(GOOD);
  leaving.begin();
  body(leaving);
  leave(leaving);
  t.equal(leaving.aborted, 1);
  const served = new Work(GOOD);
  served.begin();
  body(served);
  answer(served);
  leave(served);
  t.equal(served.aborted, 0);
  t.equal(served.exchange.status, 200);
});

t.test('work that is under way when the gateway ends is cancelled, and its hold released', async (t) => {
  for (const [headers, steps] of [
    [GOOD, [body]],
    [[], [body, ticket]],
  ] as const) {
    const work = new Work(headers);
    work.begin();
    for (const step of steps) {
      step(work);
      await work.turn();
    }
    work.exchange.listener?.onCut();
    await work.turn();
    t.equal(work.aborted, 1);
    t.equal(work.exchange.errorCode, 'HR_DRAINING');
    t.same(work.money.calls, ['hold', 'release']);
  }
});

t.test('a paid answer carries its receipts, a free one from the cache says where it comes from', async (t) => {
  for (const [step, header] of [
    [answer, 'payment-response'],
    [cached, 'x-headrace-cache'],
  ] as const) {
    const work = new Work([]);
    work.begin();
    for (const next of [body, ticket, step, paidFor]) {
      next(work);
      await work.turn();
    }
    t.equal(work.exchange.body, '{"a":1}');
    t.ok(header in work.exchange.answered);
  }
});
