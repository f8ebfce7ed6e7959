// What customers see of their account and of the cost of a request, over real sockets, both stores and real threads: headers,
// trailers, `GET /svc/account` and the records of requests agree with the ledger.

import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { hashKey, parseUsd } from '../../src/billing/index.ts';
import { bearer, endow, type LedgerFixture, startLedgerFixture, USD, usageOf } from '../support/ledger-fixture.ts';
import { postgresDatabase } from '../support/postgres.ts';
import { chat, MODEL, SERVERS, until } from '../support/system.ts';

const KEYED = { headers: bearer() };

const STORES = ['sqlite', 'postgres'] as const;

async function known({ url }: LedgerFixture, key?: string): Promise<void> {
  const check = (): Promise<Response> => fetch(`${url}/svc/auth/check`, { headers: bearer(key) });
  await until('the key is known', async () => (await check()).status === 200);
}

async function open(t: Test, store: (typeof STORES)[number], settings = {}): Promise<LedgerFixture> {
  const more = store === 'postgres' ? { store: await postgresDatabase() } : {};
  const fixture = await startLedgerFixture(t, { ...more, settings: { costLog: { requests: 'all' }, ...settings } });
  await endow(fixture.ledger, 5n * USD, { requestsPerMinute: 100 });
  await known(fixture);
  return fixture;
}

async function ask({ url }: LedgerFixture, path: string, key?: string): Promise<{ status: number; value: any }> {
  const response = await fetch(url + path, { headers: bearer(key) });
  return { status: response.status, value: await response.json() };
}

/** A streamed chat by node:http, which shows trailers. */
async function streamed(url: string, headers: object): Promise<{ response: IncomingMessage; body: string }> {
  const body = JSON.stringify({ model: MODEL, stream: true, messages: [{ role: 'user', content: 'hello' }] });
  const sent = { 'content-type': 'application/json', ...bearer(), ...headers };
  const asked = httpRequest(`${url}/v1/chat/completions`, { method: 'POST', headers: sent });
  asked.end(body);
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return { response, body: await text(response) };
}

for (const store of STORES) {
  for (const threads of [0, 2]) {
    t.test(`${store}, ${threads} threads: header, trailer, record and ledger name the same cost`, async (t) => {
      const fixture = await open(t, store, { threads });
      const { ledger, url } = fixture;
      const whole = await chat(url, KEYED);
      await whole.text();
      const cost = parseUsd(whole.headers.get('x-headrace-cost') ?? '');
      t.ok(cost !== undefined && cost > 0n);
      t.equal((await usageOf(ledger, 1)).amount, cost);

      const { body, response } = await streamed(url, { te: 'trailers' });
      t.match(body, /\[DONE\]/);
      t.equal(response.headers['trailer'], 'x-headrace-cost');
      const streamCost = parseUsd(response.trailers['x-headrace-cost'] ?? '');
      t.equal((await usageOf(ledger, 2)).amount, (cost as bigint) + (streamCost as bigint));

      const plain = await streamed(url, {});
      t.match(plain.body, /\[DONE\]/);
      t.equal(plain.response.headers['trailer'], undefined);
      t.strictSame(plain.response.trailers, {}, 'nothing for a client that does not read them');
      await usageOf(ledger, 3);

      await until('the requests are recorded', async () => (await ledger.requests.list({})).length === 3);
      const records = await ledger.requests.list({});
      t.match(
        records.map(({ amount }) => amount),
        [records[0]?.amount, streamCost, cost],
      );
      t.match(records.at(-1), {
        account: 'acme',
        key: 'key-of-acme',
        model: MODEL,
        endpoint: '/v1/chat/completions',
        status: 200,
        code: '',
        firstByteMs: null,
        measured: true,
        requestId: whole.headers.get('x-request-id'),
      });
      t.type(records[0]?.firstByteMs, 'number');
    });
  }

  t.test(`${store}: the account of a key shows credit, limits, usage and its own requests`, async (t) => {
    const fixture = await open(t, store);
    const { ledger, url } = fixture;
    await ledger.createKey({ id: 'other', hash: hashKey('hr_other'), prefix: 'hr_oth', account: 'acme' });
    await ledger.budgets.set({
      id: 'b',
      account: 'acme',
      key: null,
      model: null,
      period: 'month',
      limit: 3n * USD,
      soft: null,
    });
    const expiresMs = Math.floor(performance.timeOrigin + performance.now()) + 86_400_000;
    await ledger.grant({ id: 'gift', account: 'acme', amount: USD, expiresMs });
    await known(fixture, 'hr_other');
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) {
      const answer = await chat(url, KEYED);
      await answer.text();
      ids.push(answer.headers.get('x-request-id') as string);
    }
    await (await chat(url, { headers: bearer('hr_other') })).text();
    const { amount } = await usageOf(ledger, 4);
    await until('the requests are recorded', async () => (await ledger.requests.list({})).length === 4);

    const { status, value } = await ask(fixture, '/svc/account');
    t.equal(status, 200);
    t.equal(parseUsd(value.credit.balance_usd), 6n * USD - amount, 'what is on hold is still there');
    t.equal(
      parseUsd(value.credit.available_usd),
      (parseUsd(value.credit.balance_usd) as bigint) - (parseUsd(value.credit.in_use_usd) as bigint),
    );
    t.equal(value.credit.expiring.length, 1);
    t.match(value, { account: 'acme', organisation: null, key: { id: 'key-of-acme', prepaid: true } });
    const limits = new Map<string, any>(value.limits.map((limit: any) => [limit.kind, limit]));
    t.match(limits.get('requests'), { per: 'minute', limit: 100, remaining: 97 });
    t.match(limits.get('budget'), { per: 'month', model: null, limit: '3.00', resets_at: /T00:00:00\.000Z$/ });
    t.equal(parseUsd(limits.get('budget').remaining), 3n * USD - amount);
    t.match(value.usage, { scope: 'key', total: { requests: 3 }, data: [{ model: MODEL, requests: 3 }] });
    const { value: whole } = await ask(fixture, '/svc/account?scope=account');
    t.match(whole.usage, { scope: 'account', total: { requests: 4 } });
    t.equal(parseUsd(whole.usage.total.cost_usd), amount);
    t.match((await ask(fixture, '/svc/account?from=2020-01-01&to=2020-01-31')).value.usage, {
      data: [],
      total: { requests: 0 },
    });

    const { value: first } = await ask(fixture, `${value.links.requests}?limit=2`);
    t.match(first, { recorded: 'all', data: [{ request_id: ids[2] }, { request_id: ids[1] }] });
    const { value: rest } = await ask(fixture, `${value.links.requests}?limit=2&cursor=${first.next}`);
    t.match(rest, { data: [{ request_id: ids[0], cost_usd: String }], next: null });
    t.equal(rest.data.length, 1, 'those of other keys are not shown');
    t.strictSame((await ask(fixture, `/svc/account/requests/${ids[0]}`)).value, rest.data[0]);
    t.strictSame((await ask(fixture, `/svc/account/requests/${rest.data[0].id}`)).value, rest.data[0]);
    t.match(await ask(fixture, `/svc/account/requests/${ids[0]}`, 'hr_other'), { status: 404 });
  });
}

t.test('questions about an account take a good key and a valid range, and are bounded in rate', async (t) => {
  const fixture = await open(t, 'sqlite');
  for (const path of ['/svc/account', '/svc/account/requests', '/svc/account/requests/x']) {
    t.equal((await fetch(fixture.url + path)).status, 401, path);
    t.equal((await ask(fixture, path, 'hr_wrong')).status, 401, path);
    t.equal(
      (await fetch(fixture.url + path, { method: 'POST', headers: bearer() })).status,
      path.endsWith('x') ? 422 : 405,
    );
  }
  for (const query of [
    'from=2030-06-31',
    'from=today',
    'from=2030-02-01&to=2030-01-01',
    'from=2020-01-01&to=2030-01-01',
    'scope=all',
  ])
    t.match(
      await ask(fixture, `/svc/account?${query}`),
      { status: 422, value: { detail: [{ loc: ['query', String] }] } },
      query,
    );
  for (const query of ['limit=0', 'limit=1001', 'limit=x', 'from=x', 'cursor=%00', 'cursor=zz', 'model=%00'])
    t.match(await ask(fixture, `/svc/account/requests?${query}`), { status: 422 }, query);
  for (const [path, names] of [
    ['/svc/account?from=x&to=y&scope=all', ['from', 'to', 'scope']],
    ['/svc/account/requests?from=x&to=y&model=%00&cursor=zz&limit=0', ['from', 'to', 'model', 'cursor', 'limit']],
  ] as const) {
    const { value } = await ask(fixture, path);
    t.strictSame(
      value.detail.map(({ loc }: { loc: string[] }) => loc[1]),
      names,
      'every mistake in one answer',
    );
  }
  t.match(await ask(fixture, '/svc/account/requests/%00'), { status: 404 });
  const many = await Promise.all(
    Array.from({ length: 30 }, () => fetch(`${fixture.url}/svc/account`, { headers: bearer() })),
  );
  const refused = many.filter(({ status }) => status === 429);
  t.ok(refused.length >= 15, `${refused.length} of 30 are refused`);
  t.equal(refused[0]?.headers.get('x-headrace-error'), 'HR_ACCOUNT_RATE');
  t.equal(refused[0]?.headers.get('retry-after'), '1');
  const { value } = await ask(fixture, '/openapi.json');
  t.match(value.paths['/svc/account'].get.parameters, [
    { name: 'from', in: 'query', required: false },
    {},
    { name: 'scope' },
  ]);
  t.ok(value.paths['/svc/account/requests/{id}'].get.responses['200'].content['application/json'].schema);
});

for (const server of SERVERS) {
  t.test(`${server}: a whole answer carries its cost; a stream where the server can send trailers`, async (t) => {
    const fixture = await open(t, 'sqlite', { server });
    const whole = await chat(fixture.url, KEYED);
    await whole.text();
    t.ok((parseUsd(whole.headers.get('x-headrace-cost') ?? '') ?? 0n) > 0n);
    const { response } = await streamed(fixture.url, { te: 'gzip, trailers' });
    t.equal(response.headers['trailer'], server === 'node' ? 'x-headrace-cost' : undefined);
    t.equal(Object.hasOwn(response.trailers, 'x-headrace-cost'), server === 'node');
  });
}

t.test('by default nothing is recorded', async (t) => {
  const off = await open(t, 'sqlite', { costLog: {} });
  await (await chat(off.url, KEYED)).text();
  await usageOf(off.ledger, 1);
  t.match((await ask(off, '/svc/account/requests')).value, { recorded: 'off', data: [], next: null });
});

t.test('with `charged` only what cost something is recorded', async (t) => {
  const charged = await open(t, 'sqlite', { costLog: { requests: 'charged' } });
  const headers = { ...bearer(), 'content-type': 'application/json' };
  const unknown = { method: 'POST', headers, body: '{"model": "nobody"}' };
  t.equal((await fetch(`${charged.url}/v1/chat/completions`, unknown)).status, 404);
  await (await chat(charged.url, KEYED)).text();
  await until('it is recorded', async () => (await charged.ledger.requests.list({})).length === 1);
  t.match(await charged.ledger.requests.list({}), [{ status: 200 }]);
});

t.test('a gateway that closes has recorded what it served', async (t) => {
  const fixture = await open(t, 'sqlite', { threads: 2 });
  for (let i = 0; i < 5; i++) await (await chat(fixture.url, KEYED)).text();
  await fixture.gateway.close();
  t.equal((await fixture.ledger.requests.list({})).length, 5);
});

t.test('a background response has one record, with what it cost', async (t) => {
  const { gateway, ledger, url } = await open(t, 'sqlite');
  const headers = { ...bearer(), 'content-type': 'application/json', 'x-request-id': 'background' };
  const body = JSON.stringify({ model: MODEL, input: 'hello', background: true, stream: true });
  await (await fetch(`${url}/v1/responses`, { method: 'POST', headers, body })).text();
  await gateway.close();
  const records = await ledger.requests.list({});
  t.match(records, [{ requestId: 'background', status: 200 }]);
  t.equal(records.length, 1);
  t.ok((await ledger.requests.find('background'))?.amount);
});

for (const store of STORES) {
  t.test(
    `${store}: members of an organisation spend its credit over a gateway, each with usage of its own`,
    async (t) => {
      const fixture = await open(t, store, { threads: 2, credit: { flush: '5ms' } });
      const { ledger, url } = fixture;
      await ledger.createAccount({ id: 'org' });
      for (const member of ['a', 'b']) {
        await ledger.createAccount({ id: member });
        await ledger.configureAccount(member, { organisation: 'org' });
        await ledger.createKey({
          id: `key-${member}`,
          hash: hashKey(`hr_${member}`),
          prefix: 'hr_mem',
          account: member,
        });
        await known(fixture, `hr_${member}`);
      }
      t.equal((await chat(url, { headers: bearer('hr_a') })).status, 402, 'nobody has credit');
      await ledger.grant({ id: 'org-grant', account: 'org', amount: USD });
      const costs: bigint[] = [];
      for (const member of ['a', 'b', 'a']) {
        const answer = await chat(url, { headers: bearer(`hr_${member}`) });
        await answer.text();
        t.equal(answer.status, 200, member);
        costs.push(parseUsd(answer.headers.get('x-headrace-cost') ?? '') as bigint);
      }
      const [first, second, third] = costs as [bigint, bigint, bigint];
      t.equal((await usageOf(ledger, 2, 'a')).amount, first + third);
      t.equal((await usageOf(ledger, 1, 'b')).amount, second);
      const shown = (await ask(fixture, '/svc/account', 'hr_b')).value;
      t.match(shown, { account: 'b', organisation: 'org', usage: { total: { requests: 1 } } });
      t.equal(parseUsd(shown.credit.balance_usd), USD - first - second - third);
      const org = await ledger.account('org');
      t.equal((org?.balance ?? 0n) + (org?.held ?? 0n), USD - first - second - third);
      t.match(await ledger.audit(), { sound: true });
    },
  );

  t.test(`${store}: an account with a credit limit goes below zero down to it`, async (t) => {
    const fixture = await open(t, store, { credit: { flush: '5ms' } });
    const { ledger, url } = fixture;
    await endow(ledger, 0n, {}, 'later');
    await known(fixture, 'hr_later');
    const send = (): Promise<Response> => chat(url, { headers: bearer('hr_later') });
    t.equal((await send()).status, 402);
    await ledger.configureAccount('later', { creditLimit: USD / 100n });
    const answer = await send();
    await answer.text();
    t.equal(answer.status, 200);
    const { amount } = await usageOf(ledger, 1, 'later');
    const account = await ledger.account('later');
    t.equal((account?.balance ?? 0n) + (account?.held ?? 0n), -amount);
    t.ok((account?.balance ?? 0n) >= -USD / 100n, 'never below the limit');
    await ledger.configureAccount('later', { creditLimit: 0n });
    await until('it is refused again', async () => (await send()).status === 402);
    t.match(await ledger.audit(), { sound: true });
  });
}

for (const store of STORES) {
  t.test(`${store}: a gateway tells a webhook that a budget and the credit run low, once each`, async (t) => {
    const told: { type: string; data: Record<string, unknown> }[] = [];
    const receiver = createServer((req, res) => {
      void text(req).then((body) => {
        told.push(JSON.parse(body) as (typeof told)[number]);
        res.writeHead(told.length === 1 ? 500 : 204).end();
      });
    });
    receiver.listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    t.teardown(() => {
      receiver.close();
      receiver.closeAllConnections();
    });
    const hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
    const secret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
    const fixture = await open(t, store, {
      threads: 2,
      credit: { flush: '5ms' },
      webhooks: {
        allow: ['127.0.0.1'],
        lowBalance: '4.9999999',
        endpoints: { hook: { url: hook, secret, events: ['budget.reached', 'credit.low'] } },
      },
    });
    const { ledger, url } = fixture;
    const scope = { account: 'acme', key: null, model: null };
    await ledger.budgets.set({ id: 'b', ...scope, period: 'day', limit: 2n * USD, soft: 1_000_000n });
    await until('the budget is known', async () => {
      const { value } = await ask(fixture, '/svc/account');
      return value.limits?.some(({ kind }: { kind: string }) => kind === 'budget') === true;
    });
    for (let i = 0; i < 3; i++) await (await chat(url, KEYED)).text();
    await until('both events have come', () => new Set(told.map(({ type }) => type)).size === 2);
    await until('both are accepted', async () => (await ledger.webhooks.list({ state: 'delivered' })).length === 2);
    t.match(told.find(({ type }) => type === 'budget.reached')?.data, {
      account: 'acme',
      budget: 'b',
      threshold: 'soft',
      period: 'day',
      limit_usd: '2.00',
    });
    t.match(told.find(({ type }) => type === 'credit.low')?.data, { account: 'acme', below_usd: '4.9999999' });
    t.equal((await ledger.webhooks.list({})).length, 2, 'one event each');
  });
}

t.test(
  'a request whose key is revoked while its body arrives takes nothing off the limits of the next key',
  async (t) => {
    const fixture = await open(t, 'sqlite', { threads: 0 });
    const { ledger, url } = fixture;
    const create = async (id: string): Promise<void> => {
      const key = { id, hash: hashKey(`hr_${id}`), prefix: 'hr_', account: 'acme', limits: { requestsPerMinute: 1 } };
      await ledger.createKey(key);
      await known(fixture, `hr_${id}`);
    };
    await create('first');
    const body = JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'hello' }] });
    const headers = { ...bearer('hr_first'), 'content-type': 'application/json', 'content-length': body.length };
    const asked = httpRequest(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { ...headers, expect: '100-continue' },
    });
    asked.flushHeaders();
    await once(asked, 'continue');
    await ledger.disableKey('first');
    await until('the key is revoked', async () => (await ask(fixture, '/svc/auth/check', 'hr_first')).status === 401);
    await create('next');
    const next = async (): Promise<number> => {
      const answer = await chat(url, { headers: bearer('hr_next') });
      await answer.text();
      return answer.status;
    };
    t.equal(await next(), 200);
    asked.end(body);
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    await text(response);
    t.equal(response.statusCode, 200);
    t.equal(await next(), 429);
  },
);
