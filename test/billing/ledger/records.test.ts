// What the ledger keeps beside the money: single requests, acts of operators, webhook events and their deliveries.

import fc from 'fast-check';
import t from 'tap';
import { PostgresDatabase } from '../../../src/billing/ledger/postgres.ts';
import { type RequestRecord, requestRecordId } from '../../../src/billing/ledger/request-records.ts';
import { SqliteDatabase } from '../../../src/billing/ledger/sqlite.ts';
import { systemClock } from '../../../src/actor/clock.ts';
import { charge, debit, execute, openStore, requestRecord, START_MS, STORES, turnsOf, USAGE } from './stores.ts';

const ACTOR = { name: 'anna', role: 'owner', via: 'cli' };

t.test('ids of records sort by their date, then by their count', async (t) => {
  const part = fc.tuple(fc.integer({ min: 0, max: 4e12 }), fc.integer({ min: 0, max: 1e6 }));
  fc.assert(
    fc.property(part, part, ([aMs, a], [bMs, b]) => {
      const before = aMs < bMs || (aMs === bMs && a < b);
      const same = aMs === bMs && a === b;
      const [one, two] = [requestRecordId(aMs, 'x', a), requestRecordId(bMs, 'x', b)];
      return one.length === two.length && (same ? one === two : one < two === before);
    }),
  );
  t.match(requestRecordId(START_MS, 'abcdefgh', 36 ** 6 + 5), /^req_[0-9a-z]{9}abcdef000005$/);
});

for (const name of STORES) {
  t.test(`${name}: records of requests are listed by cursor, found, and kept once`, async (t) => {
    const { ledger } = await openStore(t, name);
    const { requests } = ledger;
    const all = Array.from({ length: 25 }, (_, at) => requestRecord(at, { account: at % 5 === 0 ? 'b' : 'a' }));
    await requests.add(all);
    await requests.add(all.slice(0, 3));
    const seen: string[] = [];
    for (let before: string | undefined; ;) {
      const page = await requests.list({ account: 'a', limit: 7, ...(before !== undefined && { before }) });
      seen.push(...page.map(({ requestId }) => requestId));
      before = page.at(-1)?.id;
      if (page.length < 7) break;
    }
    const own = all.filter(({ account }) => account === 'a');
    t.same(seen, own.map(({ requestId }) => requestId).reverse());
    t.same(await requests.find('client-7'), requestRecord(7), 'every field comes back');
    t.same(await requests.find(requestRecord(7).id, 'a'), requestRecord(7));
    t.equal(await requests.find('client-5', 'a'), undefined, 'not of another account');
    t.match(await requests.list({ fromMs: START_MS + 3, toMs: START_MS + 5 }), [{ amount: 30n }, {}]);
    await requests.add([requestRecord(99, { requestId: 'client-7', firstByteMs: 4, key: null, measured: false })]);
    t.match(await requests.find('client-7'), { firstByteMs: 4, key: null, measured: false }, 'the newest of that name');
    t.same((await requests.list({ model: 'other' })).length, 0);
    t.match(await requests.list({ account: 'a', key: null }), [{ firstByteMs: 4 }], 'only those without a key');
    t.equal((await requests.list({ account: 'a', key: null })).length, 1);
  });

  t.test(`${name}: a list that looks at many records for few of a key leaves turns for other work`, async (t) => {
    const { ledger, url } = await openStore(t, name);
    const { requests } = ledger;
    const series = name === 'postgres' ? 'generate_series(1, 25000) as s (i)' : 'n';
    const rows =
      name === 'postgres' ? '' : 'with recursive n (i) as (select 1 union all select i + 1 from n where i < 25000)';
    const number = name === 'postgres' ? "lpad(i::text, 6, '0')" : "printf('%06d', i)";
    await execute(
      name,
      url,
      `${rows} insert into requests (id, date_ms, request_id, account, key_id, endpoint, model, status, code, input_tokens,
       cached_tokens, output_tokens, measured, amount, duration_ms)
       select 'req_0000000000tagta' || ${number}, 0, '', 'a', case i % 5000 when 1 then 'few' else 'many' end, '', 'm', 200, '',
       1, 0, 1, 1, 1, 1 from ${series}`,
    );
    let all: RequestRecord[] = [];
    const turns = await turnsOf(async () => {
      all = await requests.list({ account: 'a', key: 'few', limit: 10 });
    });
    t.same(
      all.map(({ id }) => id.slice(-6)),
      ['020001', '015001', '010001', '005001', '000001'],
    );
    t.ok(turns >= 2, `${turns} turns`);
    const pages: string[] = [];
    for (let before: string | undefined; ;) {
      const page = await requests.list({ account: 'a', key: 'few', limit: 2, ...(before !== undefined && { before }) });
      if (page.length === 0) break;
      pages.push(...page.map(({ id }) => id));
      before = page.at(-1)?.id;
    }
    t.same(
      pages,
      all.map(({ id }) => id),
    );
    t.equal((await requests.list({ key: 'many', limit: 1000 })).length, 1000);
  });

  t.test(`${name}: records are pruned by age and by number`, async (t) => {
    const { ledger } = await openStore(t, name);
    const { requests } = ledger;
    await requests.add(Array.from({ length: 4500 }, (_, at) => requestRecord(at)));
    t.equal(await requests.prune(START_MS + 2100, 1e6), 2100);
    t.equal(await requests.prune(0, 100), 2300);
    t.same((await requests.list({ limit: 1000 })).map(({ dateMs }) => dateMs).at(-1), START_MS + 4400);
    t.equal(await requests.prune(0, 100), 0);
  });

  t.test(`${name}: what goes over many rows in rounds leaves turns for other work`, async (t) => {
    const { ledger, pass, url } = await openStore(t, name);
    const { requests, responses, webhooks } = ledger;
    const many = (count: number): number[] => Array.from({ length: count }, (_, at) => at);
    await requests.add(many(4500).map((at) => requestRecord(at)));
    const response = { account: 'a', createdMs: START_MS, status: 'completed', model: 'm', previous: null } as const;
    const parts = { input: '[]', output: '[]', response: '{}', items: [] };
    await responses.apply(
      many(1200).map((at) => ({ type: 'add', record: { ...response, ...parts, id: `r${at}` }, ttlMs: 1000 })),
    );
    await ledger.createAccount({ id: 'a' });
    await execute(
      name,
      url,
      many(2200)
        .map(
          (at) =>
            `insert into holds (id, kind, account, holder, amount, spent, state, expires_ms) values ('l${at}', 'lease', 'a', 'x', 1, 1, 'closed', 0);`,
        )
        .join('\n'),
    );
    const keys = many(1200).map((at) => `('k${at}', 'h${at}', '', 'a', '', '{}', ${at % 7}, 'k${at}')`);
    await execute(
      name,
      url,
      `insert into api_keys (id, hash, prefix, account, label, limits, created_ms, lineage) values ${keys.join(', ')}`,
    );
    for (const at of many(1200)) await webhooks.emit({ type: 'credit.low', account: 'a', id: `e${at}`, data: {} });
    pass(2000);
    for (const [what, work] of [
      ['events that are told', () => webhooks.fanOut(() => [])],
      ['events', () => webhooks.prune(0, [])],
      ['requests', () => requests.prune(START_MS + 10_000, null)],
      ['responses', () => responses.prune()],
      ['leases', () => ledger.prune(null)],
      ['keys', () => ledger.listKeys()],
    ] as const) {
      const turns = await turnsOf(work);
      t.ok(turns >= 2, `${what}: ${turns} turns`);
    }
    t.same(await requests.list({}), []);
    t.match(await responses.counts('a'), { responses: 0 });
    t.equal(await ledger.findHold('l7'), undefined);
    const all = (await ledger.listKeys()).map(({ createdMs, id }) => `${createdMs} ${id}`);
    const expected = many(1200).map((at) => `${at % 7} k${at}`);
    t.same(
      all,
      expected.sort((a, b) => (a < b ? -1 : 1)),
      'each once, the oldest first',
    );
  });

  t.test(`${name}: an act is kept with its outcome, and nothing of it can be changed`, async (t) => {
    const { ledger, pass, url } = await openStore(t, name);
    const act = {
      actor: ACTOR,
      action: 'key.disable',
      subject: 'key_1',
      request: { id: 'key_1' },
      before: { state: 'active' },
    };
    const first = await ledger.adminActs.begin(act);
    pass(5);
    await ledger.adminActs.end(first, 'done', { state: 'disabled' });
    await ledger.adminActs.end(first, 'refused', null);
    const second = await ledger.adminActs.begin({ ...act, subject: 'key_2', before: null });
    t.match(await ledger.adminActs.list({}), [
      { id: second, seq: 2n, outcome: 'unknown', before: null, after: null, dateMs: START_MS + 5 },
      { ...act, id: first, seq: 1n, outcome: 'done', after: { state: 'disabled' }, dateMs: START_MS },
    ]);
    t.match(await ledger.adminActs.list({ subject: 'key_1' }), [{ id: first }]);
    t.match(await ledger.adminActs.list({ before: 2n, actor: 'anna', action: 'key.disable' }), [{ id: first }]);
    t.same(await ledger.adminActs.list({ fromMs: START_MS + 6 }), []);
    const database =
      name === 'sqlite'
        ? new SqliteDatabase(url.slice('sqlite:'.length), systemClock)
        : await PostgresDatabase.open(url, systemClock);
    for (const sql of [
      "update admin_acts set actor = 'nobody'",
      'delete from admin_acts',
      "update admin_outcomes set outcome = 'done'",
      'delete from admin_outcomes',
    ]) {
      await t.rejects(
        database.transaction((session) => session.all(sql)),
        /takes new rows only/,
        sql,
      );
    }
    await database.close();
  });

  t.test(
    `${name}: an event is delivered to each endpoint that wants it, until it is accepted or given up`,
    async (t) => {
      const { ledger, again, pass } = await openStore(t, name);
      const { webhooks } = ledger;
      await webhooks.emit({ type: 'budget.reached', account: 'a', id: 'budget-1', data: { share: 0.8 } });
      await webhooks.emit({ type: 'budget.reached', account: 'a', id: 'budget-1', data: { share: 0.9 } });
      await webhooks.emit({ type: 'payment.open', account: 'b', data: {} });
      const wants = (type: string): string[] => (type === 'budget.reached' ? ['one', 'two'] : ['two']);
      await webhooks.fanOut(wants);
      await (await again()).webhooks.fanOut(wants);
      const all = await webhooks.due(['one', 'two', 'none'], 10);
      t.equal(all.length, 3);
      const due = all.filter(({ type }) => type === 'budget.reached');
      t.match(due[0], { message: 'msg_budget-1', endpoint: 'one', account: 'a', data: { share: 0.8 }, attempts: 0 });
      await webhooks.attempted(due[0]!, { state: 'pending', pauseMs: 5000, result: '500' });
      await webhooks.attempted(due[1]!, { state: 'delivered', pauseMs: 0, result: '204' });
      t.match(await webhooks.due(['one', 'two'], 10), [{ type: 'payment.open' }]);
      pass(5000);
      t.match(await webhooks.due(['one'], 10), [{ attempts: 1, result: '500' }]);
      await webhooks.attempted(due[0]!, { state: 'failed', pauseMs: 5000, result: 'timeout' });
      t.same(await webhooks.due(['one'], 10), []);
      const pages: string[] = [];
      for (let before: string | undefined; ;) {
        const [next] = await webhooks.list({ limit: 1, ...(before !== undefined && { before }) });
        if (next === undefined) break;
        before = `${next.message} ${next.endpoint}`;
        pages.push(`${next.type} ${next.endpoint} ${next.state}`);
      }
      t.same(pages.sort(), ['budget.reached one failed', 'budget.reached two delivered', 'payment.open two pending']);
      t.match(await webhooks.list({ state: 'failed' }), [{ endpoint: 'one', attempts: 2 }]);
      t.equal(await webhooks.redeliver('msg_budget-1', 'one'), true);
      t.equal(await webhooks.redeliver('msg_none', 'one'), false);
      t.match(await webhooks.due(['one'], 10), [{ attempts: 0 }]);
      pass(1);
      await webhooks.prune(0, ['one', 'two']);
      t.equal((await webhooks.list({})).length, 3, 'what is pending is kept, with its event');
      await webhooks.attempted(due[0]!, { state: 'delivered', pauseMs: 0, result: '200' });
      await webhooks.prune(0, ['one', 'two']);
      t.match(await webhooks.list({}), [{ type: 'payment.open' }]);
      await webhooks.prune(6000, ['one']);
      t.equal((await webhooks.list({})).length, 1, 'an endpoint that is not configured may come back for a while');
      await webhooks.prune(0, ['one']);
      t.same(await webhooks.list({}), []);
      await webhooks.emit({ type: 'payment.open', account: 'b', data: {} });
      await webhooks.fanOut(wants);
      pass(1);
      await webhooks.prune(0, []);
      t.same(await webhooks.list({}), [], 'also when no endpoint is left');
    },
  );

  t.test(`${name}: the event of a payment is kept as long as it is open, so that it is told once`, async (t) => {
    const { ledger, pass } = await openStore(t, name);
    const { webhooks } = ledger;
    const payment = { network: 'n', asset: 's', payer: 'p', nonce: '1', purpose: 'x', amount: 1n };
    const reserved = await ledger.reservePayment({ ...payment, validUntilMs: START_MS + 1000 });
    const id = reserved.kind === 'reserved' ? reserved.id : '';
    await ledger.submitPayment(id, '{}');
    const tell = async (): Promise<string[]> => {
      await webhooks.emit({ type: 'payment.open', account: 'p', id: `payment-open-${id}`, data: {} });
      await webhooks.fanOut(() => ['hook']);
      return (await webhooks.list({})).map(({ state }) => state);
    };
    t.same(await tell(), ['pending']);
    const [delivery] = await webhooks.list({});
    await webhooks.attempted(delivery as NonNullable<typeof delivery>, { state: 'delivered', pauseMs: 0, result: '' });
    pass(1000);
    await webhooks.prune(500, ['hook']);
    t.same(await tell(), ['delivered']);
    await ledger.failPayment(id, 'not_settled');
    await webhooks.prune(500, ['hook']);
    t.same(await webhooks.list({}), []);
  });

  t.test(`${name}: deliveries to endpoints whose names hold blanks are listed page by page`, async (t) => {
    const { webhooks } = (await openStore(t, name)).ledger;
    const names = ['my', 'my first', 'my second'];
    await webhooks.emit({ type: 'payment.open', account: 'b', id: 'one', data: {} });
    await webhooks.fanOut(() => names);
    const listed: string[] = [];
    for (let before: string | undefined; listed.length < 9;) {
      const [next] = await webhooks.list({ limit: 1, ...(before !== undefined && { before }) });
      if (next === undefined) break;
      before = `${next.message} ${next.endpoint}`;
      listed.push(next.endpoint);
    }
    t.same(listed, names.toReversed());
  });

  t.test(`${name}: one process at a time has the lease on sending`, async (t) => {
    const { ledger, again, pass } = await openStore(t, name);
    const other = await again();
    const got = await Promise.all([ledger.webhooks.lead('one', 1000), other.webhooks.lead('two', 1000)]);
    t.same(got.sort(), [false, true]);
    pass(1000);
    t.equal(await other.webhooks.lead('two', 2000), true);
    t.equal(await ledger.webhooks.lead('one', 2000), false);
    t.equal(await other.webhooks.lead('two', 3000), true, 'it may keep it');
    await ledger.webhooks.resign('one');
    t.equal(await ledger.webhooks.lead('one', 3000), false, 'only its holder gives it up');
    await other.webhooks.resign('two');
    t.equal(await ledger.webhooks.lead('one', 3000), true);
  });

  t.test(`${name}: a lease of a process whose clock was hours ahead keeps nobody from sending`, async (t) => {
    const { ledger, again, pass } = await openStore(t, name);
    const other = await again();
    pass(3 * 3_600_000);
    t.equal(await ledger.webhooks.lead('one', 30_000), true);
    pass(-3 * 3_600_000);
    t.equal(await other.webhooks.lead('two', 30_000), true);
    // A minute ahead is no reason.
    t.equal(await other.webhooks.lead('two', 90_000), true);
    t.equal(await ledger.webhooks.lead('one', 30_000), false);
  });

  t.test(`${name}: events of keys and low balances come with what they tell`, async (t) => {
    const { ledger, again } = await openStore(t, name);
    const { webhooks } = ledger;
    const told = async (): Promise<string[]> => {
      await webhooks.fanOut(() => ['x']);
      return (await webhooks.list({}))
        .map(({ account, data, type }) => `${type} ${account} ${Object.values(data).join()}`)
        .sort();
    };
    await ledger.createAccount({ id: 'a' });
    await ledger.createKey({ id: 'k', hash: 'h', prefix: 'hr_ab', account: 'a', label: 'laptop' });
    await t.rejects(ledger.createKey({ id: 'k', hash: 'i', prefix: 'hr_ab', account: 'a' }));
    await ledger.disableKey('k');
    await ledger.disableKey('k');
    t.same(await told(), ['key.created a k,hr_ab,laptop', 'key.disabled a k,hr_ab,laptop']);

    const USD = 10n ** 12n;
    await ledger.grant({ id: 'g', account: 'a', amount: 10n * USD });
    await ledger.configureAccount('a', { lowBalance: 5n * USD });
    await ledger.lease({ id: 'l', account: 'a', amount: 8n * USD, holder: 'x', ttlMs: 60_000 });
    t.equal((await told()).length, 2, 'credit on hold is not spent');
    await charge(ledger, 'l', '1', 5n * USD, USAGE);
    t.equal((await told()).length, 2, 'the threshold itself is not below it');
    await charge(ledger, 'l', '2', 1n, USAGE);
    await charge(ledger, 'l', '3', 1n, USAGE);
    t.same(
      (await told()).filter((line) => line.startsWith('credit')),
      ['credit.low a 4.999999999999,5.00'],
    );
    await ledger.grant({ id: 'h', account: 'a', amount: USD });
    await charge(ledger, 'l', '4', USD, USAGE);
    t.equal((await told()).filter((line) => line.startsWith('credit')).length, 2, 'again after it was above');

    const strict = await again({ lowBalance: USD });
    await debit(strict, 'later', '5', 1n, USAGE);
    t.equal((await told()).filter((line) => line.startsWith('credit.low later')).length, 0, 'it was never above');
    await strict.grant({ id: 'i', account: 'later', amount: 2n * USD });
    await debit(strict, 'later', '6', USD, USAGE);
    t.equal(
      (await told()).filter((line) => line.startsWith('credit.low later')).length,
      1,
      'the default of the ledger',
    );
  });
}
