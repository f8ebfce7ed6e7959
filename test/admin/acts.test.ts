// Roles of admin tokens, the log of acts, credit by hand and the pages of lists, on an admin listener with real sockets over
// both stores.

import { chargeId, chargeNumber } from '../../src/billing/ledger/charges.ts';
import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/actor/index.ts';
import { hashKey, type Ledger } from '../../src/billing/index.ts';
import { AccountRoutes } from '../../src/admin/account-routes.ts';
import { type AdminRole, AdminTokens, isAllowed } from '../../src/admin/admin-tokens.ts';
import { openAdmin } from '../../src/admin/admin.ts';
import { OverviewRoutes } from '../../src/admin/overview-routes.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { charge, openStore, requestRecord, START_MS, STORES, type StoreName, USAGE } from '../billing/ledger/stores.ts';
import { NO_FIGURES } from '../support/metric-values.ts';

const ROLES: readonly AdminRole[] = ['viewer', 'operator', 'owner'];

/** Tokens are the names of their roles, and `root` is the old one. */
const TOKENS = new AdminTokens({
  adminToken: 'root',
  adminTokens: ROLES.map((role) => ({ name: `${role}-name`, role, sha256: hashKey(role).toUpperCase() })),
});

interface Answer {
  readonly status: number;
  readonly value: any;
  readonly headers: Headers;
  readonly text: string;
}

interface Opened {
  readonly ledger: Ledger;
  readonly url: string;
  readonly lines: string[];
  readonly ask: (method: string, path: string, body?: object, token?: string) => Promise<Answer>;
}

async function open(t: Test, name: StoreName, change = (ledger: Ledger): Ledger => ledger): Promise<Opened> {
  const { ledger: opened } = await openStore(t, name);
  const ledger = change(opened);
  const lines: string[] = [];
  const note = (...said: unknown[]): void => void lines.push(JSON.stringify(said));
  const log = { info: note, error: note, warn: note } as unknown as Log;
  const accounts = new AccountRoutes({
    ledger: () => ledger,
    dateMs: () => START_MS,
    randomBytes,
    tokens: TOKENS,
    log,
  });
  let reloads = 0;
  const overview = new OverviewRoutes({
    version: '1',
    tokens: TOKENS,
    acts: () => ledger.adminActs,
    clock: systemClock,
    epochMs: () => START_MS,
    startedMs: START_MS,
    publicUrl: () => null,
    parts: () => Promise.reject(new Error('not asked for')),
    history: { take: () => {}, recent: () => NO_FIGURES },
    spentOn: async () => null,
    override: async (url) => ({ result: url === 'http://a' ? 'done' : 'no such CRN', told: null }),
    gateways: () => 1,
    reload: async () => {
      if (reloads++ === 0) return { applied: ['log.level'], needRestart: [] };
      return { mistakes: [{ path: 'log.level', message: 'is unknown' }] };
    },
    log,
  });
  const deps = { status: () => ({}), metrics: async () => [] };
  const admin = await openAdmin({ host: '127.0.0.1', port: 0 }, deps, accounts, overview);
  t.teardown(() => admin.close());
  const url = `http://127.0.0.1:${admin.address.port}`;
  const ask: Opened['ask'] = async (method, path, body, token = 'owner') => {
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(url + path, { method, headers: { authorization: `Bearer ${token}` }, ...init });
    const text = await response.text();
    const isJson = response.headers.get('content-type') === 'application/json';
    return { status: response.status, headers: response.headers, text, value: isJson ? JSON.parse(text) : null };
  };
  return { ledger, url, lines, ask };
}

/** Every path with the least role that it takes. */
const PATHS: readonly (readonly [AdminRole, string, string, object?])[] = [
  ['viewer', 'GET', '/accounts'],
  ['viewer', 'GET', '/accounts/a'],
  ['viewer', 'GET', '/accounts/a/grants'],
  ['viewer', 'GET', '/accounts/a/history'],
  ['viewer', 'GET', '/keys'],
  ['viewer', 'GET', '/keys/k'],
  ['viewer', 'GET', '/usage'],
  ['viewer', 'GET', '/audit'],
  ['viewer', 'GET', '/requests'],
  ['viewer', 'GET', '/requests/r'],
  ['viewer', 'GET', '/acts'],
  ['viewer', 'GET', '/webhooks/deliveries'],
  ['viewer', 'GET', '/whoami'],
  ['operator', 'POST', '/accounts', {}],
  ['operator', 'POST', '/keys', {}],
  ['operator', 'POST', '/keys/k/disable', {}],
  ['operator', 'POST', '/keys/k/rotate', {}],
  ['operator', 'POST', '/webhooks/deliveries/m/redeliver', {}],
  ['operator', 'POST', '/crns/drain', { url: 'http://a' }],
  ['operator', 'POST', '/reload', {}],
  ['owner', 'POST', '/accounts/a', {}],
  ['owner', 'POST', '/accounts/a/grants', {}],
  ['owner', 'POST', '/accounts/a/adjustments', {}],
  ['owner', 'POST', '/accounts/a/refunds', {}],
];

t.test('a key whose making cannot be recorded as done is answered all the same', async (t) => {
  const lost = (ledger: Ledger): Ledger => {
    const end = (): Promise<void> => Promise.reject(new Error('the store is away'));
    return { ...ledger, adminActs: { ...ledger.adminActs, end } };
  };
  const { ask, lines } = await open(t, 'sqlite', lost);
  const { status, value } = await ask('POST', '/keys', { account: 'acme' });
  t.equal(status, 201);
  t.match(value.key, /^hr_/);
  t.equal((await ask('POST', '/keys', { account: '' })).status, 422, 'a refusal keeps its reason');
  t.equal(lines.filter((line) => line.includes('could not be recorded')).length, 2);
});

t.test('the log of acts names the key that a budget is for, and no key that was made', async (t) => {
  const { ask } = await open(t, 'sqlite');
  const { value: made } = await ask('POST', '/keys', { account: 'acme' });
  await ask('POST', '/budgets', { key: made.id, period: 'day', limit: '5.00' });
  const { data } = (await ask('GET', '/acts')).value;
  t.match(data, [
    { action: 'budget.set', before: null, after: { key: made.id, limit_usd: '5.00' } },
    { action: 'key.create' },
  ]);
  t.equal(data[1].after.key, undefined);
  await ask('POST', '/budgets', { key: made.id, period: 'day', limit: '7.00' });
  const { after, before } = (await ask('GET', '/acts?limit=1')).value.data[0];
  t.match([before, after], [{ limit_usd: '5.00' }, { limit_usd: '7.00' }], 'the budget before');
});

t.test('an act that the store may have carried out before it failed is not recorded as refused', async (t) => {
  let isLost = true;
  const lost = (ledger: Ledger): Ledger => ({
    ...ledger,
    async grant(grant) {
      const moved = await ledger.grant(grant);
      if (isLost) throw new Error('Connection terminated unexpectedly');
      return moved;
    },
  });
  const { ask, ledger } = await open(t, 'sqlite', lost);
  await ask('POST', '/accounts', { id: 'acme' });
  const { status, value } = await ask('POST', '/accounts/acme/grants', { amount: '1.00' });
  t.equal(status, 500);
  t.match(await ledger.account('acme'), { balance: 10n ** 12n });
  t.match(await ledger.adminActs.list({}), [{ action: 'credit.grant', outcome: 'unknown' }, { outcome: 'done' }]);
  // Who chose no id is told the one that was made.
  const [, id] = /^the ledger failed: credit may have moved: repeat it with the id (\w+), /.exec(value.detail) ?? [];
  isLost = false;
  t.match(await ask('POST', '/accounts/acme/grants', { amount: '1.00', id }), { value: { repeated: true } });
});

t.test('a role includes those below it', async (t) => {
  for (const [has, role] of ROLES.entries()) {
    for (const [needs, needed] of ROLES.entries()) t.equal(isAllowed(role, needed), has >= needs);
  }
});

t.test('tokens are told apart, also when one begins like another', async (t) => {
  t.strictSame(TOKENS.identify('Bearer owner'), { name: 'owner-name', role: 'owner' });
  t.strictSame(TOKENS.identify('bearer  root '), { name: 'adminToken', role: 'owner' });
  for (const wrong of [
    undefined,
    '',
    'Bearer',
    'Bearer owne',
    'Bearer ownerr',
    'Basic owner',
    'Bearer viewer operator',
  ])
    t.equal(TOKENS.identify(wrong), null, String(wrong));
  t.equal(new AdminTokens({ adminToken: null, adminTokens: [] }).any, false);
});

for (const name of STORES) {
  t.test(`${name}: every path takes its role and nothing less`, async (t) => {
    const { ask, ledger } = await open(t, name);
    for (const [needed, method, path, body] of PATHS) {
      for (const role of [...ROLES, 'root', 'nobody']) {
        const { status, value } = await ask(method, path, body, role);
        const own = role === 'root' ? 'owner' : (role as AdminRole);
        if (role === 'nobody') t.equal(status, 401, `${method} ${path}`);
        else if (isAllowed(own, needed)) t.not(status, 403, `${role} ${method} ${path}`);
        else
          t.match(
            { status, value },
            { status: 403, value: { detail: new RegExp(`takes ${needed}`) } },
            `${role} ${path}`,
          );
      }
    }
    const acts = await ledger.adminActs.list({ limit: 1000 });
    t.notOk(
      acts.some(({ actor }) => actor.name === 'viewer-name'),
      'what a role forbids is no act',
    );
    t.match((await ask('GET', '/whoami', undefined, 'viewer')).value, { name: 'viewer-name', role: 'viewer' });
  });

  t.test(`${name}: every act is recorded with who, what, before and after, and without secrets`, async (t) => {
    const { ask, lines } = await open(t, name);
    await ask('POST', '/accounts', { id: 'acme', label: 'Acme' }, 'operator');
    const { value: made } = await ask('POST', '/keys', { account: 'acme', rpm: 3 }, 'operator');
    const { value: rotated } = await ask('POST', `/keys/${made.id}/rotate`, { grace: '0s' }, 'operator');
    await ask('POST', `/keys/${rotated.id}/disable`, undefined, 'operator');
    await ask('POST', '/accounts/acme/grants', { amount: '10.00', id: 'g', memo: 'hello' });
    await ask('POST', '/accounts/acme/adjustments', { amount: '-1.00', id: 'a' });
    await ask('POST', '/accounts/acme/adjustments', { amount: '-100.00', id: 'b' });
    await ask('POST', '/accounts/acme', { credit_limit: '5.00', low_balance: '1.00' }, 'root');
    t.match(await ask('POST', '/crns/drain', { url: 'http://a\0' }, 'operator'), { status: 422 });
    await ask('POST', '/crns/drain', { url: 'http://a' }, 'operator');
    await ask('POST', '/crns/eject', { url: 'http://b', for: '5m' }, 'operator');
    await ask('POST', '/reload', {}, 'operator');
    await ask('POST', '/accounts/acme/grants', { amount: 'much' });
    const { value } = await ask('GET', '/acts');
    t.match(
      value.data.map(({ action, actor, outcome, subject }: any) => [actor, action, subject, outcome]),
      [
        ['owner-name', 'credit.grant', 'acme', 'refused'],
        ['operator-name', 'configuration.reload', '', 'done'],
        ['operator-name', 'crn.eject', 'http://b', 'refused'],
        ['operator-name', 'crn.drain', 'http://a', 'done'],
        ['adminToken', 'account.change', 'acme', 'done'],
        ['owner-name', 'credit.adjust', 'acme', 'refused'],
        ['owner-name', 'credit.adjust', 'acme', 'done'],
        ['owner-name', 'credit.grant', 'acme', 'done'],
        ['operator-name', 'key.disable', rotated.id, 'done'],
        ['operator-name', 'key.rotate', made.id, 'done'],
        ['operator-name', 'key.create', 'acme', 'done'],
        ['operator-name', 'account.create', 'acme', 'done'],
      ],
    );
    const byAction = new Map<string, any>(value.data.map((act: any) => [`${act.action} ${act.outcome}`, act]));
    t.match(byAction.get('key.disable done'), {
      role: 'operator',
      via: /^http .*127\.0\.0\.1$/,
      before: { state: 'active' },
      after: { state: 'disabled' },
    });
    t.match(byAction.get('account.change done'), {
      request: { credit_limit: '5.00', low_balance: '1.00' },
      before: { credit_limit_usd: '0.00', low_balance_usd: null },
      after: { credit_limit_usd: '5.00', low_balance_usd: '1.00' },
    });
    t.match(byAction.get('crn.eject refused'), { after: { reason: 'there is no CRN http://b' } });
    t.match(byAction.get('credit.adjust refused'), { after: { reason: /cannot be taken/ } });
    t.match(byAction.get('account.create done'), { before: null, after: { id: 'acme' } });
    const { value: some } = await ask('GET', '/acts?action=key.rotate&actor=operator-name');
    t.equal(some.data.length, 1);
    t.equal((await ask('GET', '/acts?from=2026-04-01')).value.data.length, 0);
    for (const secret of [made.key, rotated.key]) t.notMatch(JSON.stringify(value) + lines.join(), secret.slice(9));
    const csv = await ask('GET', '/acts?format=csv&limit=2');
    t.match(csv.text, /^seq,date,actor,role,via,action,subject,outcome,request,before,after\r\n/);
    t.equal(csv.headers.get('x-next-cursor'), '11');
    t.equal((await ask('GET', '/acts?format=jsonl')).text.trimEnd().split('\n').length, 12);
    t.equal((await ask('POST', '/reload', {}, 'operator')).status, 422);
    const [reload] = (await ask('GET', '/acts?limit=1')).value.data;
    t.match(reload, { outcome: 'refused', after: { reason: 'log.level: is unknown' } });
  });

  t.test(`${name}: an act that cannot be recorded is not carried out`, async (t) => {
    const { ask, ledger } = await open(t, name, (opened) => ({
      ...opened,
      adminActs: { ...opened.adminActs, begin: () => Promise.reject(new Error('the disk is full')) },
    }));
    t.equal((await ask('POST', '/accounts', { id: 'acme' })).status, 500);
    t.strictSame(await ledger.listAccounts(), []);
    t.equal((await ask('GET', '/accounts')).status, 200, 'reading is no act');
    for (const [path, body] of [['/crns/drain', { url: 'http://a' }] as const, ['/reload', {}] as const]) {
      const { status, value } = await ask('POST', path, body);
      t.same([status, value], [503, { detail: 'the action was not carried out: the disk is full' }]);
    }
  });

  t.test(`${name}: what no id can be is refused as an id that is not known`, async (t) => {
    const { ask, ledger } = await open(t, name);
    t.equal((await ask('GET', '/accounts/a%00')).status, 404);
    t.equal((await ask('POST', '/keys/a%00/disable')).status, 404);
    t.equal((await ask('POST', '/accounts', { id: 'a\0' })).status, 422);
    t.match(await ledger.adminActs.list({}), [{ action: 'account.create', subject: '', outcome: 'refused' }]);
  });

  t.test(`${name}: credit is adjusted, refunded and granted with an end`, async (t) => {
    const { ask, ledger } = await open(t, name);
    await ask('POST', '/accounts', { id: 'acme' });
    const grant = { amount: '10.00', id: 'g', expires: '30d' };
    t.match(await ask('POST', '/accounts/acme/grants', grant), { status: 201, value: { balance_usd: '10.00' } });
    t.match(await ask('GET', '/accounts/acme/grants'), {
      value: { data: [{ id: 'g', remaining_usd: '10.00', expires_at: '2026-04-30T23:59:00.000Z' }], next: null },
    });
    await ledger.lease({ id: 'l', account: 'acme', amount: 10n ** 12n, holder: 'x', ttlMs: 1e9 });
    await charge(ledger, 'l', 'c', 10n ** 12n, USAGE, { account: 'acme' });
    const refund = { charge: chargeId(START_MS, chargeNumber('c')) };
    t.match(await ask('POST', '/accounts/acme/refunds', { ...refund, amount: '0.25' }), {
      status: 201,
      value: { balance_usd: '9.25' },
    });
    t.match(await ask('POST', '/accounts/acme/refunds', refund), { status: 201, value: { amount_usd: '0.75' } });
    t.match(await ask('POST', '/accounts/acme/refunds', refund), { status: 200, value: { repeated: true } });
    t.match(await ask('POST', '/accounts/acme/refunds', { charge: chargeId(START_MS, chargeNumber('d')) }), {
      status: 404,
    });
    t.match(await ask('POST', '/accounts/acme/refunds', {}), { status: 422 });
    t.match(await ask('POST', '/accounts/acme/refunds', { ...refund, request: 'r' }), { status: 422 });
    t.match(await ask('POST', '/accounts/acme/refunds', { request: 'r', id: 'mine' }), {
      status: 422,
      value: {
        detail: [{ loc: ['body', 'id'], msg: 'must not stand beside request, whose id is that of the refund' }],
      },
    });
    t.match(await ask('POST', '/accounts/acme/adjustments', { amount: '-11.00' }), { status: 409 });
    t.match(await ask('POST', '/accounts/acme/adjustments', { amount: '0' }), { status: 422 });
    t.match(await ask('POST', '/accounts/acme/adjustments', { amount: '-10.00' }), { value: { balance_usd: '0.00' } });
    const record = requestRecord(1, { account: 'acme', amount: 5n * 10n ** 11n });
    await ledger.requests.add([record]);
    const request = { request: 'client-1' };
    t.match(await ask('POST', '/accounts/acme/refunds', request), { status: 404 }, 'its charge is not posted');
    const { amount, dateMs, key, model } = record;
    await ledger.charge([{ id: 'e', account: 'acme', amount, dateMs, usage: { ...USAGE, key, model } }]);
    t.match(await ask('POST', '/accounts/acme/refunds', request), { status: 201, value: { amount_usd: '0.50' } });
    t.match(await ask('POST', '/accounts/acme/refunds', request), { status: 200, value: { repeated: true } });
    // A search of two engines, one of which another search of the same moment has asked too, and a page.
    const search = requestRecord(3, { account: 'acme', amount: 3n * 10n ** 11n, model: '' });
    await ledger.requests.add([search]);
    const parts = { 'search:engine_a': 3n, 'search:engine_b': 1n, fetch: 1n };
    await ledger.charge(
      Object.entries(parts).map(([each, tenths]) => ({
        ...{ id: each, account: 'acme', amount: tenths * 10n ** 11n, dateMs: search.dateMs },
        usage: { ...USAGE, key, model: each },
      })),
    );
    const ofSearch = { request: 'client-3' };
    t.match(await ask('POST', '/accounts/acme/refunds', ofSearch), { status: 201, value: { amount_usd: '0.30' } });
    t.match(await ask('POST', '/accounts/acme/refunds', ofSearch), { status: 200, value: { repeated: true } });
    t.match(await ask('POST', '/accounts/acme/adjustments', { amount: '0.20' }), { status: 201 });
    t.match(await ask('POST', '/accounts/acme/refunds', { request: 'client-2' }), { status: 404 });
    t.match(await ask('GET', '/accounts/acme'), { value: { balance_usd: '0.00', expiring_usd: '0.00' } });
    t.match(await ask('GET', '/audit'), { value: { sound: true } });
  });

  t.test(`${name}: accounts join an organisation and share its credit`, async (t) => {
    const { ask } = await open(t, name);
    for (const id of ['org', 'a', 'b']) await ask('POST', '/accounts', { id });
    t.match(await ask('POST', '/accounts/a', { organisation: 'org' }), { value: { organisation: 'org' } });
    t.match(await ask('POST', '/accounts/b', { organisation: 'a' }), { status: 409 });
    t.match(await ask('POST', '/accounts/b', { organisation: 'nobody' }), { status: 404 });
    t.match(await ask('POST', '/accounts/b', {}), { status: 422 });
    t.match(await ask('POST', '/accounts/a/grants', { amount: '3.00' }), {
      value: { account: 'a', balance_usd: '3.00' },
    });
    t.match(await ask('GET', '/accounts/org'), { value: { balance_usd: '3.00' } });
    t.match(await ask('GET', '/accounts?organisation=org'), { value: { data: [{ id: 'a' }], next: null } });
    t.match(await ask('POST', '/accounts/a', { organisation: 'none' }), { value: { organisation: null } });
  });

  t.test(`${name}: the pages of every list hold each row once, in order`, async (t) => {
    const { ask, ledger } = await open(t, name);
    for (let i = 0; i < 7; i++) {
      const account = `acme-${i}`;
      await ask('POST', '/accounts', { id: account });
      await ask('POST', '/keys', { account });
      await ask('POST', '/accounts/acme-0/grants', { amount: '1.00', id: `g${i}` });
      await ledger.charge([
        { id: `c${i}`, account, amount: 5n, usage: { ...USAGE, model: `m${i % 3}` }, dateMs: START_MS + i },
      ]);
      await ledger.webhooks.emit({ type: 'payment.open', account, data: {} });
    }
    await ledger.requests.add(
      Array.from({ length: 7 }, (_, at) => requestRecord(at, { account: 'acme-0', amount: 1n })),
    );
    await ledger.webhooks.fanOut(() => ['one']);
    for (const path of [
      '/accounts?',
      '/keys?',
      '/accounts/acme-0/history?',
      '/usage?',
      '/usage?by=model,account',
      '/usage?by=model',
      '/requests?',
      '/requests?account=acme-0',
      '/acts?',
      '/webhooks/deliveries?',
    ]) {
      const { value: whole } = await ask('GET', `${path}&limit=1000`);
      t.equal(whole.next, null);
      t.ok(whole.data.length >= 3, path);
      const pages: object[] = [];
      for (let cursor = ''; ;) {
        const { value } = await ask('GET', `${path}&limit=2${cursor}`);
        t.ok(value.data.length <= 2);
        pages.push(...value.data);
        if (value.next === null) break;
        cursor = `&cursor=${encodeURIComponent(value.next)}`;
      }
      t.strictSame(pages, whole.data, path);
    }
    t.match(await ask('GET', '/usage?by=&limit=1'), { value: { data: [{ requests: 7 }], next: null } });
    for (const row of [[], ['acme-0'], ['acme-0', '', 'm0', '2030-01-01', 'x']]) {
      const cursor = Buffer.from(JSON.stringify(row)).toString('base64url');
      t.match(await ask('GET', `/usage?cursor=${cursor}`), { status: 422 }, `a row of ${row.length} dimensions`);
    }
    t.match(await ask('GET', '/usage?cursor=%7B'), { status: 422 });
    for (const position of ['1-c-9223372036854775808', '1-m-%00']) {
      t.match(await ask('GET', `/accounts/acme-0/history?cursor=${position}`), { status: 422 }, position);
    }
    for (const list of ['acts', 'keys', 'budgets', 'requests']) {
      t.match(await ask('GET', `/${list}?cursor=x`), { status: 422 }, `no row of ${list}`);
    }
    t.match(await ask('GET', '/accounts?limit=0'), { status: 422 });
  });
}
