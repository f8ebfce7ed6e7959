import t from 'tap';
import { DatabaseSync } from 'node:sqlite';
import { Gathered } from '../../../src/billing/ledger/gathered.ts';
import { openStore, STORES } from './stores.ts';

t.test('questions that come while earlier ones are asked are asked together', async (t) => {
  let calls = 0;
  let isAway = false;
  const gathered = new Gathered(2, async (questions) => {
    calls++;
    await Promise.resolve();
    if (isAway) throw new Error('the store is away');
    return new Map(questions.map((question) => [question, question.length]));
  });
  const asked = ['a', 'bb', 'ccc', ...Array.from({ length: 500 }, (_, at) => `question-${at}`), 'ccc'];
  t.same(
    await Promise.all(asked.map((each) => gathered.ask(each))),
    asked.map(({ length }) => length),
  );
  t.equal(calls, 3);
  isAway = true;
  const failed = await Promise.allSettled(asked.map((each) => gathered.ask(each)));
  t.ok(failed.every(({ status }) => status === 'rejected'));
  isAway = false;
  t.equal(await gathered.ask('dddd'), 4, 'the next one begins anew');
});

for (const name of STORES) {
  t.test(`${name}: many accounts that are read and wanted at once are each answered and told`, async (t) => {
    const { ledger } = await openStore(t, name);
    const ids = Array.from({ length: 60 }, (_, at) => `account-${at}`);
    for (const id of ids) await ledger.createAccount({ id });
    const told: unknown[] = [];
    const all = Promise.withResolvers<void>();
    const stop = await ledger.watch((change) => {
      if (told.push(change) === ids.length) all.resolve();
    });
    t.teardown(stop);
    const found = await Promise.all([...ids, 'nobody'].map((id) => ledger.account(id)));
    t.same(
      found.map((account) => account?.id),
      [...ids, undefined],
    );
    await Promise.all(ids.map((id) => ledger.want(id, 'gateway')));
    await all.promise;
    t.same(
      told,
      ids.map((account) => ({ kind: 'wanted', account, by: 'gateway' })),
    );
  });
}

t.test('accounts that are read at once take few statements', async (t) => {
  const { ledger } = await openStore(t, 'sqlite');
  const all = Reflect.get(DatabaseSync.prototype, 'exec') as (sql: string) => void;
  t.teardown(() => Reflect.set(DatabaseSync.prototype, 'exec', all));
  let transactions = 0;
  DatabaseSync.prototype.exec = function (sql) {
    if (sql === 'commit') transactions++;
    Reflect.apply(all, this, [sql]);
  };
  await Promise.all(Array.from({ length: 200 }, (_, at) => ledger.account(`account-${at}`)));
  await Promise.all(Array.from({ length: 200 }, (_, at) => ledger.want(`account-${at}`, 'gateway')));
  t.ok(transactions <= 8, `${transactions} transactions`);
});
