// The billing service over PostgreSQL, on a manual clock: a shutdown while the store is away loses no charge without a word.

import { join } from 'node:path';
import t from 'tap';
import pg from 'pg';
import { systemClock, systemEpochMs } from '../../src/actor/index.ts';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { BillingService } from '../../src/billing/billing-service.ts';
import { type BillingUpdate, type KeyRecord, type Ledger, LeaseCache } from '../../src/billing/index.ts';
import { createLimitMemory } from '../../src/billing/limits/limit-table.ts';
import { openLedger } from '../../src/billing/main-thread.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { postgresDatabase } from '../support/postgres.ts';
import { hold, PAYER, spend } from './lease-fixture.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

interface Line {
  readonly fields: Record<string, unknown>;
  readonly text: string;
}

/** Lets the clock and the store go on until the condition holds. */
async function until({ advance }: TestSystem, condition: () => boolean): Promise<void> {
  while (!condition()) {
    await advance(20);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Refuses connections to the database, and ends those that are open; or takes them again. */
async function allow(url: string, isAllowed: boolean): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  const client = new pg.Client({ connectionString: url.replace(name, 'postgres') });
  await client.connect();
  await client.query(`alter database ${name} allow_connections ${isAllowed}`);
  if (!isAllowed)
    await client.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name]);
  await client.end();
}

interface Running extends TestSystem {
  readonly service: BillingService;
  readonly leases: LeaseCache;
  /** What was logged. */
  readonly lines: readonly Line[];
  /** What threads were told. */
  readonly told: readonly BillingUpdate[];
}

/** A billing service over the store, and the first of its threads. */
async function openService(url: string, epochMs: () => number = systemEpochMs, threads = 1): Promise<Running> {
  const test = createTestSystem();
  const { clock, system } = test;
  const resolution = resolveSettings({ store: url });
  if ('mistakes' in resolution) throw new Error('the settings are wrong');
  const lines: Line[] = [];
  const told: BillingUpdate[] = [];
  const note = (fields: Record<string, unknown>, text: string): void => void lines.push({ fields, text });
  const service = new BillingService({
    ...{ system, clock, settings: resolution.settings, threads, epochMs },
    log: { debug: note, info: note, warn: note, error: note } as unknown as Log,
    tell: (update) => void told.push(update),
    onKeys: () => undefined,
    onPlaced: () => undefined,
  });
  await until(test, () => service.loaded);
  const leases = new LeaseCache({
    ...{ system, clock, leaseManager: service.leaseManager, memory: service.leaseMemory, thread: 0 },
    ...{ epochMs, flushMs: 250, leasePico: 5e10 },
  });
  return { ...test, service, leases, lines, told };
}

function openTestLedger(url: string): Promise<Ledger> {
  return openLedger(url, { clock: systemClock, dateMs: systemEpochMs, lingerMs: 0 });
}

t.test('a shutdown while the store is away logs each charge that is lost, and their sum', async (t) => {
  const url = await postgresDatabase();
  const seeded = await openTestLedger(url);
  await seeded.createAccount({ id: 'a' });
  await seeded.grant({ id: 'g', account: 'a', amount: 10n ** 12n });
  await seeded.close();
  const running = await openService(url);
  const { leases, lines, service, system } = running;
  let isHeld = false;
  void hold(leases, 1e9).then(() => (isHeld = true));
  await until(running, () => isHeld);
  await allow(url, false);
  leases.settle(PAYER, 1e9, spend(2_000_000));
  leases.settle({ ...PAYER, account: 'b', prepaid: false }, 0, spend(1_500_000));
  leases.close();
  let isClosed = false;
  void service.close().then(() => (isClosed = true));
  await until(running, () => isClosed);
  const lost = lines.filter(({ text }) => text === 'a charge is lost').map(({ fields }) => fields);
  t.same(lost, [
    { account: 'a', key: 'k', model: 'm', requests: 1, usd: '0.000002' },
    { account: 'b', key: 'k', model: 'm', requests: 1, usd: '0.0000015' },
  ]);
  const sum = lines.find(({ text }) => text === 'charges are lost: the store did not answer');
  t.same(sum?.fields, { charges: 2, usd: '0.0000035' });
  await system.terminate();
});

t.test('a shutdown waits for a store that comes back', async (t) => {
  const url = await postgresDatabase();
  const running = await openService(url);
  const { leases, lines, service, system } = running;
  await allow(url, false);
  leases.settle({ ...PAYER, prepaid: false }, 0, spend(1_500_000));
  leases.close();
  let isClosed = false;
  void service.close().then(() => (isClosed = true));
  await until(running, () => lines.some(({ text }) => text.includes('could not be posted')));
  await allow(url, true);
  await until(running, () => isClosed);
  t.equal(lines.filter(({ text }) => text.includes('lost')).length, 0);
  const ledger = await openTestLedger(url);
  t.match(await ledger.account('a'), { balance: -1_500_000n });
  await ledger.close();
  await system.terminate();
});

t.test('another interval of audits is taken over from a reload', async (t) => {
  const running = await openService('sqlite::memory:');
  const { advance, lines, service, system } = running;
  t.teardown(async () => {
    await service.close();
    await system.terminate();
  });
  const audits = (): number => lines.filter(({ text }) => text === 'the ledger was audited: it is sound').length;
  const configure = (audit: string | null): void => {
    const resolution = resolveSettings({ store: 'sqlite::memory:', retention: { audit } });
    if ('mistakes' in resolution) throw new Error('the settings are wrong');
    service.configure(resolution.settings);
  };
  await advance(120_000);
  t.equal(audits(), 0);
  configure('60s');
  await advance(60_000);
  await until(running, () => audits() === 1);
  configure(null);
  await advance(600_000);
  t.equal(audits(), 1);
});

t.test('a budget is told once in its period, though its event was removed before a restart', async (t) => {
  const nowMs = Date.UTC(2026, 2, 15);
  const url = `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
  const ledger = await openTestLedger(url);
  t.teardown(() => ledger.close());
  const usage = { key: null, model: 'm', inputTokens: 1, cachedTokens: 0, outputTokens: 1, measured: true };
  await ledger.charge([{ id: 'c', account: 'a', amount: 1000n, usage, dateMs: nowMs }]);
  const tell = async (id: string, period: 'week' | 'month'): Promise<string[]> => {
    await ledger.budgets.set({ id, account: 'a', key: null, model: null, period, limit: 1000n, soft: null });
    const running = await openService(url, () => nowMs);
    const { lines, service, system } = running;
    await until(running, () => lines.some(({ fields }) => fields['budget'] === id));
    let isClosed = false;
    void service.close().then(() => (isClosed = true));
    await until(running, () => isClosed);
    await system.terminate();
    await ledger.webhooks.fanOut(() => ['hook']);
    const told = await ledger.webhooks.list({});
    for (const each of told) await ledger.webhooks.attempted(each, { state: 'delivered', pauseMs: 0, result: '' });
    await ledger.webhooks.prune(-3_600_000, ['hook']);
    return told.map(({ data }) => String(data['budget']));
  };
  t.same(await tell('first', 'month'), ['first']);
  t.same(await ledger.webhooks.list({}), []);
  t.same(await tell('second', 'week'), ['second']);
});

t.test('a key that a sibling calls revoked is refused at once; the store has the last word', async (t) => {
  const running = await openService('sqlite::memory:');
  const { service, system, told } = running;
  t.teardown(async () => {
    await service.close();
    await system.terminate();
  });
  const revoked: string[] = [];
  service.onRevoked = (hash) => revoked.push(hash);
  const ledger = service.ledger as Ledger;
  const hash = 'ab'.repeat(32);
  await ledger.createAccount({ id: 'a' });
  await ledger.createKey({ id: 'key-1', account: 'a', hash, prefix: 'hr_ab' });
  await until(running, () => service.keys().length === 1);
  const before = told.length;
  service.revoked(hash);
  t.same(service.keys(), []);
  t.match(told[before], { type: 'Keys', change: { reset: false, put: [], drop: [hash] } });
  await until(running, () => service.keys().length === 1);
  service.revoked('cd'.repeat(32));
  t.equal(service.keys().length, 1, 'an unknown one changes nothing');
  t.same(revoked, []);
  await ledger.disableKey('key-1');
  await until(running, () => service.keys().length === 0);
  t.same(revoked, [hash], 'siblings are told');
});

t.test('keys that had expired by a clock that was a day ahead are back when it is set', async (t) => {
  const url = `sqlite:${temporaryFolder(t)}/store.db`;
  const ledger = await openTestLedger(url);
  t.teardown(() => ledger.close());
  await ledger.createAccount({ id: 'a' });
  const nowMs = systemEpochMs();
  await ledger.createKey({
    ...{ id: 'k', hash: 'h', prefix: 'p', account: 'a', label: '' },
    expiresMs: nowMs + 3_600_000,
  });
  let aheadMs = 0;
  const running = await openService(url, () => nowMs + aheadMs);
  const { service, system } = running;
  t.teardown(async () => {
    await service.close();
    await system.terminate();
  });
  t.equal(service.keys().length, 1);
  aheadMs = 86_400_000;
  await until(running, () => service.keys().length === 0);
  aheadMs = 0;
  await until(running, () => service.keys().length === 1);
  t.match(running.told.at(-1), { type: 'Keys', change: { reset: true, put: [{ hash: 'h' }] } });
});

t.test('a key is revoked before it is known what was spent of keys that came with it', async (t) => {
  const url = await postgresDatabase();
  const store = await openTestLedger(url);
  await store.createAccount({ id: 'a' });
  await store.createKey({ id: 'old', hash: 'hash-of-old', prefix: 'hr_', account: 'a' });
  const running = await openService(url);
  const { service, system, told } = running;
  const blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
  await blocker.query('begin; lock table usage_daily in access exclusive mode');
  await store.createKey({
    ...{ id: 'limited', hash: 'hash-of-limited', prefix: 'hr_', account: 'a' },
    limits: { monthlySpend: '5' },
  });
  await store.createKey({ id: 'new', hash: 'hash-of-new', prefix: 'hr_', account: 'a' });
  await store.disableKey('old');
  const puts = (): string[] =>
    told.flatMap((update) => (update.type === 'Keys' ? update.change.put.map(({ hash }) => hash) : []));
  const drops = (): string[] => told.flatMap((update) => (update.type === 'Keys' ? update.change.drop : []));
  await until(running, () => drops().includes('hash-of-old'));
  t.notOk(puts().includes('hash-of-limited'));
  await blocker.query('rollback');
  await until(running, () => puts().includes('hash-of-limited') && puts().includes('hash-of-new'));
  await blocker.end();
  await service.close();
  await store.close();
  await system.terminate();
});

t.test('a key that was edited is not put back as it was before', async (t) => {
  const url = await postgresDatabase();
  const store = await openTestLedger(url);
  await store.createAccount({ id: 'a' });
  const running = await openService(url);
  const { service, system } = running;
  const blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
  await blocker.query('begin; lock table usage_daily in access exclusive mode');
  const key = { hash: 'hash-of-edited', prefix: 'hr_', account: 'a' };
  await store.createKey({ ...key, id: 'edited', limits: { monthlySpend: '5', requestsPerMinute: 5 } });
  const waiting = "select 1 from pg_locks where relation = 'usage_daily'::regclass and not granted";
  while ((await blocker.query(waiting)).rowCount === 0) await running.advance(20);
  await store.editKey('edited', { limits: { monthlySpend: null, requestsPerMinute: 7 } });
  const find = (): KeyRecord | undefined => service.keys().find(({ hash }) => hash === key.hash);
  await until(running, () => find() !== undefined);
  await blocker.query('rollback');
  await store.createKey({
    id: 'next',
    hash: 'hash-of-next',
    prefix: 'hr_',
    account: 'a',
    limits: { monthlySpend: '5' },
  });
  await until(running, () => service.keys().length === 2);
  t.equal(find()?.allowance?.requestsPerMinute, 7);
  await blocker.end();
  await service.close();
  await store.close();
  await system.terminate();
});

t.test('a key that found no place for its limits gets that of one that is revoked', async (t) => {
  const url = `sqlite:${temporaryFolder(t)}/store`;
  const store = await openTestLedger(url);
  await store.createAccount({ id: 'a' });
  // With so many threads there is memory for a thousand keys.
  const threads = 1000;
  const { keys: places } = createLimitMemory(threads);
  for (let number = 0; number <= places; number++) {
    const key = { id: `k${number}`, hash: `hash-of-${number}`, prefix: 'hr_', account: 'a' };
    await store.createKey({ ...key, limits: { requestsPerMinute: 5 } });
  }
  const running = await openService(url, systemEpochMs, threads);
  const { lines, service, system, told } = running;
  const refused = service.keys().filter(({ allowance }) => allowance?.cell === null);
  t.equal(refused.length, 1);
  const { hash, id } = refused[0] as KeyRecord;
  t.match(lines.at(-1), { fields: { key: id }, text: /^too many limited keys/ });
  const revoked = service.keys().find((key) => key.hash !== hash) as KeyRecord;
  await store.disableKey(revoked.id as string);
  await until(running, () => service.keys().every(({ allowance }) => allowance?.cell !== null));
  t.match(told.at(-1), {
    change: { put: [{ hash, allowance: { requestsPerMinute: 5, cell: { index: revoked.allowance?.cell?.index } } }] },
  });
  await service.close();
  await store.close();
  await system.terminate();
});
