// The accounts on an admin listener with real sockets, over a ledger in memory.

import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { hashKey, type Ledger } from '../../src/billing/index.ts';
import { openLedger } from '../../src/billing/main-thread.ts';
import { systemClock } from '../../src/actor/clock.ts';
import { debit } from '../billing/ledger/stores.ts';
import { AccountRoutes } from '../../src/admin/account-routes.ts';
import { type AdminRole, AdminTokens } from '../../src/admin/admin-tokens.ts';
import { openAdmin } from '../../src/admin/admin.ts';
import type { Log } from '../../src/telemetry/log.ts';

const TOKEN = 'open-sesame';

/** What the admin listener asks of a control plane when the path is another's. */
const NOTHING = { status: () => ({}), metrics: async () => [] };

/** `adminToken`, and a token for each role, which is its own name. */
function tokensOf(adminToken: string | null): AdminTokens {
  const roles: readonly AdminRole[] = adminToken === null ? [] : ['viewer', 'operator', 'owner'];
  const adminTokens = roles.map((role) => ({ name: `${role}-name`, role, sha256: hashKey(role) }));
  return new AdminTokens({ adminToken, adminTokens });
}

interface AdminRoutes {
  readonly url: string;
  readonly ledger: Ledger;
  readonly tokens: AdminTokens;
  /** Every line of the log, as text. */
  readonly lines: string[];
  /** The status and the JSON of an answer. */
  readonly ask: (method: string, path: string, body?: unknown) => Promise<{ status: number; value: any }>;
}

async function startDesk(
  t: Test,
  token: string | null = TOKEN,
  change?: (ledger: Ledger) => Ledger | null,
): Promise<AdminRoutes> {
  const dateMs = (): number => Math.floor(systemClock.now());
  const ledger = await openLedger('sqlite::memory:', { clock: systemClock, dateMs, lingerMs: 0 });
  const lines: string[] = [];
  const note = (fields: object, sentence: string): void =>
    void lines.push(JSON.stringify({ ...fields, sentence }, (_, value: unknown) => value ?? null));
  const log = { info: note, error: note } as unknown as Log;
  const given = change === undefined ? ledger : change(ledger);
  const tokens = tokensOf(token);
  const routes = new AccountRoutes({ ledger: () => given, dateMs, randomBytes, tokens, log });
  const admin = await openAdmin({ host: '127.0.0.1', port: 0 }, NOTHING, routes);
  t.teardown(async () => {
    admin.close();
    await ledger.close();
  });
  const url = `http://127.0.0.1:${admin.address.port}`;
  const ask: AdminRoutes['ask'] = async (method, path, body) => {
    const init = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) };
    const response = await fetch(url + path, { method, headers: { authorization: `Bearer ${TOKEN}` }, ...init });
    return { status: response.status, value: await response.json() };
  };
  return { url, ledger, tokens, lines, ask };
}

const PATHS = [
  ['GET', '/accounts'],
  ['POST', '/accounts'],
  ['GET', '/accounts/a'],
  ['POST', '/accounts/a/grants'],
  ['GET', '/accounts/a/history'],
  ['GET', '/keys'],
  ['POST', '/keys'],
  ['PATCH', '/keys/k'],
  ['POST', '/keys/k/disable'],
  ['POST', '/keys/k/rotate'],
  ['GET', '/budgets'],
  ['POST', '/budgets'],
  ['DELETE', '/budgets/b'],
  ['GET', '/usage'],
  ['GET', '/audit'],
  ['GET', '/accounts/a/nothing'],
] as const;

t.test('without a token in the settings every path answers 403 with the reason', async (t) => {
  const { ask, tokens } = await startDesk(t, null);
  for (const [method, path] of PATHS) {
    t.match(await ask(method, path), { status: 403, value: { detail: /adminToken is not set/ } }, path);
  }
  tokens.configure({ adminToken: TOKEN, adminTokens: [] });
  t.equal((await ask('GET', '/accounts')).status, 200, 'a reload brings one');
});

t.test('a request without the token reveals nothing and changes nothing', async (t) => {
  const { url, ledger } = await startDesk(t);
  for (const [method, path] of PATHS) {
    for (const authorization of ['', 'Bearer', 'Bearer open-sesam', `Basic ${TOKEN}`, TOKEN]) {
      const body = method === 'POST' ? { body: '{"id": "a", "account": "a", "amount": "1"}' } : {};
      const response = await fetch(url + path, { method, headers: { authorization }, ...body });
      t.equal(response.status, 401, `${method} ${path} ${authorization}`);
      t.equal(response.headers.get('www-authenticate'), 'Bearer');
    }
  }
  t.strictSame(await ledger.listAccounts(), []);
});

t.test('makes accounts, keys and grants, and shows them', async (t) => {
  const { ask, lines } = await startDesk(t);
  t.match(await ask('POST', '/accounts', { id: 'acme ltd'.replace(' ', '/'), label: 'Acme' }), { status: 201 });
  t.match(await ask('GET', '/accounts/acme%2Fltd'), { status: 200, value: { id: 'acme/ltd', label: 'Acme' } });
  const { status, value: made } = await ask('POST', '/keys', { account: 'acme/ltd', rpm: 3 });
  t.equal(status, 201);
  t.match(made.key, /^hr_[\w-]{43}$/);
  const grant = { amount: '2.50', id: 'g' };
  t.match(await ask('POST', '/accounts/acme%2Fltd/grants', grant), { status: 201, value: { repeated: false } });
  t.match(await ask('POST', '/accounts/acme%2Fltd/grants', grant), { status: 200, value: { repeated: true } });
  t.match(await ask('GET', '/accounts'), { value: { data: [{ balance_usd: '2.50', balance_credits: '2500000' }] } });
  t.match(await ask('GET', '/accounts/acme%2Fltd/history?limit=1'), { value: { data: [{ amount_usd: '2.50' }] } });
  const { value: rotated } = await ask('POST', `/keys/${made.id}/rotate`, { grace: '0s' });
  t.match(rotated, { replaces: made.id, rpm: 3 });
  t.match(await ask('POST', `/keys/${rotated.id}/disable`), { status: 200, value: { state: 'disabled' } });
  const { value: listed } = await ask('GET', '/keys?account=acme%2Fltd');
  t.strictSame(listed.data.map(({ state }: { state: string }) => state).sort(), ['disabled', 'expired']);
  t.match(await ask('GET', '/audit'), { status: 200, value: { sound: true, sum_usd: '0.00' } });
  t.equal(lines.length, 5, 'a line for each change, none for the repeat');
  for (const key of [made.key, rotated.key]) t.notMatch(lines.join() + JSON.stringify(listed), key.slice(9));
});

t.test('edits a key in place; sets, lists and removes budgets', async (t) => {
  const { ask, lines } = await startDesk(t);
  const { value: key } = await ask('POST', '/keys', { account: 'acme', rpm: 3, tpm: 100, monthly: '1', expires: '1d' });
  const edit = { rpm: 60, tpm: null, running: '8', monthly: 'none', expires: 'never', label: 'ci' };
  const { status, value: edited } = await ask('PATCH', `/keys/${key.id}`, edit);
  t.equal(status, 200);
  t.match(edited, { id: key.id, running: 8, rpm: 60, tpm: null, monthly_usd: null, expires_at: null, label: 'ci' });
  t.match(await ask('PATCH', `/keys/${key.id}`, { tpm: 7 }), { value: { running: 8, rpm: 60, tpm: 7, label: 'ci' } });
  t.match(await ask('PATCH', `/keys/${key.id}`, {}), { status: 422 });
  const wanted = { key: key.id, model: 'm', period: 'week', limit: '5.00', alert: '80%' };
  const { value: budget } = await ask('POST', '/budgets', wanted);
  t.match(budget, {
    account: 'acme',
    key: key.id,
    model: 'm',
    limit_usd: '5.00',
    alert_usd: '4.00',
    spent_usd: '0.00',
  });
  const { value: again } = await ask('POST', '/budgets', { ...wanted, limit: '7', alert: '1' });
  t.match(again, { id: budget.id, limit_usd: '7.00', alert_usd: '1.00' });
  await ask('POST', '/budgets', { model: 'm', period: 'day', limit: '9' });
  t.equal((await ask('GET', '/budgets?limit=1')).value.data.length, 1);
  t.equal((await ask('GET', '/budgets')).value.data.length, 2);
  t.match(await ask('GET', `/budgets/${budget.id}`), { value: again });
  t.match(await ask('GET', '/budgets?account=acme'), { value: { data: [{ id: budget.id }] } });
  t.match(await ask('DELETE', `/budgets/${budget.id}`), { status: 200, value: { id: budget.id } });
  t.match(await ask('GET', `/budgets/${budget.id}`), { status: 404 });
  t.strictSame((await ask('GET', '/budgets?account=acme')).value, { data: [], next: null });
  t.equal(lines.length, 7, 'a line for each change');
});

t.test('refusals have their status', async (t) => {
  const { ask } = await startDesk(t);
  await ask('POST', '/accounts', { id: 'a' });
  await ask('POST', '/accounts/a/grants', { amount: '1', id: 'g' });
  t.match(await ask('POST', '/accounts/a/grants', { amount: '2', id: 'g' }), { status: 409 });
  const most = '1152921.504606846976';
  const many = await Promise.all(Array.from({ length: 8 }, () => ask('POST', '/accounts/a/grants', { amount: most })));
  t.equal(many.filter(({ status }) => status === 409).length, 1, 'a balance has 64 bits');
  t.match(await ask('POST', '/accounts/b/grants', { amount: '1' }), { status: 404, value: { detail: /No account/ } });
  t.match(await ask('GET', '/accounts/b'), { status: 404 });
  t.match(await ask('GET', '/accounts/b/history'), { status: 404 });
  t.match(await ask('GET', '/accounts/a/responses'), { status: 200, value: { responses: 0 } });
  for (const method of ['GET', 'DELETE'])
    t.match(await ask(method, '/accounts/b/responses'), { status: 404, value: { detail: /No account/ } });
  t.match(await ask('POST', '/keys/k/disable'), { status: 404, value: { detail: /No key/ } });
  t.match(await ask('GET', '/accounts/%zz'), { status: 404 });
  t.match(await ask('GET', '/keys/k'), { status: 404 });
  t.match(await ask('PATCH', '/keys/k', { rpm: 1 }), { status: 404, value: { detail: /No key/ } });
  t.match(await ask('DELETE', '/budgets/b'), { status: 404, value: { detail: /No budget/ } });
  t.match(await ask('POST', '/budgets', { account: 'b', period: 'day', limit: '1' }), { status: 404 });
  t.match(await ask('GET', '/accountsx'), { status: 404 });
  t.match(await ask('PUT', '/accounts'), { status: 405 });
  t.match(await ask('GET', '/keys/k/rotate'), { status: 405 });
  t.match(await ask('POST', '/whoami'), { status: 405 });
});

t.test('mistakes in fields are listed with their places', async (t) => {
  const { ask } = await startDesk(t);
  for (const [method, path, body, loc] of [
    ['POST', '/keys', {}, ['body', 'account']],
    ['POST', '/keys', { account: 'a', extra: 1 }, ['body', 'extra']],
    ['POST', '/keys', '[]', ['body']],
    ['POST', '/keys', 'null', ['body']],
    ['POST', '/keys', '{', ['body']],
    ['POST', '/accounts', '', ['body', 'id']],
    ['POST', '/accounts/a/grants', { amount: 1 }, ['body', 'amount']],
    ['GET', '/usage?from=yesterday', undefined, ['query', 'from']],
    ['GET', '/usage?format=xml', undefined, ['query', 'format']],
    ['GET', '/usage?by=day&by=model', undefined, ['query', 'by']],
    ['GET', '/keys?acount=a', undefined, ['query', 'acount']],
  ] as const) {
    const { status, value } = await ask(method, path, body);
    t.equal(status, 422, `${method} ${path}`);
    t.match(value, { detail: [{ loc, msg: String, type: String }] });
  }
});

t.test('takes bodies up to a limit, announced or not', async (t) => {
  const { url, ask, ledger } = await startDesk(t);
  const long = JSON.stringify({ id: 'a', label: 'x'.repeat(17_000) });
  t.match(await ask('POST', '/accounts', long), { status: 413, value: { detail: /exceeds 16384 bytes/ } });
  const { port } = new URL(url);
  const socket = connect(Number(port), '127.0.0.1');
  socket.write(
    `POST /accounts HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TOKEN}\r\ntransfer-encoding: chunked\r\n\r\n`,
  );
  socket.write(`${long.length.toString(16)}\r\n${long}\r\n`);
  t.match(await text(socket), /^HTTP\/1\.1 413 /);
  t.strictSame(await ledger.listAccounts(), []);
});

t.test('usage comes as JSON, or as CSV by format or accept', async (t) => {
  const { url, ledger, ask } = await startDesk(t);
  const usage = { key: 'k', model: 'a,b', inputTokens: 7, cachedTokens: 2, outputTokens: 5, measured: true };
  await debit(ledger, 'acme', 'd', 40_000_000n, usage);
  t.match(await ask('GET', '/usage?by=model'), { value: { data: [{ model: 'a,b', amount_usd: '0.00004' }] } });
  const csv = [
    'model,requests,estimated,input_tokens,cached_tokens,output_tokens,amount_usd,amount_credits\r\n',
    '"a,b",1,0,7,2,5,0.00004,40\r\n',
  ].join('');
  for (const [query, accept] of [
    ['&format=csv', 'application/json'],
    ['', 'text/csv'],
  ] as const) {
    const headers = { authorization: `Bearer ${TOKEN}`, accept };
    const response = await fetch(`${url}/usage?by=model${query}`, { headers });
    t.match(response.headers.get('content-type'), /^text\/csv/);
    t.equal(response.headers.get('cache-control'), 'no-store');
    t.equal(await response.text(), csv);
  }
  const headers = { authorization: `Bearer ${TOKEN}`, accept: 'text/csv' };
  t.match((await fetch(`${url}/usage?format=json`, { headers })).headers.get('content-type'), /json/);
});

t.test('pages of rows follow one another by the header, whatever the ids', async (t) => {
  const { url, ask } = await startDesk(t);
  for (const id of ['a&b', '客户', '顾客']) t.equal((await ask('POST', '/accounts', { id })).status, 201);
  const ids: string[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const query: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const headers = { authorization: `Bearer ${TOKEN}` };
    const page = await fetch(`${url}/accounts?format=jsonl&limit=1${query}`, { headers });
    t.equal(page.status, 200);
    ids.push(
      ...(await page.text()).split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line).id as string])),
    );
    cursor = page.headers.get('x-next-cursor');
  }
  t.same(ids, ['a&b', '客户', '顾客']);
});

t.test('before the store is open the answer is a 503', async (t) => {
  const { ask } = await startDesk(t, TOKEN, () => null);
  t.match(await ask('GET', '/keys'), { status: 503, value: { detail: 'the store is not open' } });
});

t.test('a ledger that fails is a 500 without its message, a closed one a 503', async (t) => {
  const failing = (ledger: Ledger): Ledger => ({
    ...ledger,
    audit: () => Promise.reject(new Error('password of the database')),
  });
  const { ask, ledger, lines } = await startDesk(t, TOKEN, failing);
  const { status, value } = await ask('GET', '/audit');
  t.equal(status, 500);
  t.notMatch(JSON.stringify(value), /password/);
  t.equal(lines.length, 1);
  await ask('POST', '/accounts', { id: 'a' });
  await ledger.close();
  t.match(await ask('POST', '/accounts/a/grants', { amount: '1' }), { status: 503 });
});
