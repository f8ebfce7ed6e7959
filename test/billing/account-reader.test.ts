// Answers to customers never show requests of other keys.

import t from 'tap';
import { ask, createSystem } from '../../src/actor/index.ts';
import {
  type AccountAnswer,
  type AccountQuestion,
  accountReader,
  type AccountReaderCommand,
} from '../../src/billing/account-reader.ts';
import { openStore, requestRecord } from './ledger/stores.ts';

t.test('a key without an id sees only the requests of keys without an id, as list and one by one', async (t) => {
  const { ledger } = await openStore(t, 'sqlite');
  const record = (count: number, key: string | null) => requestRecord(count, { key, requestId: `request-${count}` });
  await ledger.requests.add([record(1, 'key-1'), record(2, null), record(3, 'key-2')]);
  const system = createSystem({ name: 'reader' });
  t.teardown(() => system.terminate());
  const reader = system.spawn(accountReader({ ledger: () => ledger, onProblem: (error) => t.error(error) }));
  const question = (key: string | null, asked: AccountQuestion): Promise<AccountAnswer> =>
    ask<AccountReaderCommand, AccountAnswer>(
      reader,
      (replyTo) => ({ type: 'Ask', caller: { account: 'a', key }, question: asked, replyTo }),
      { timeoutMs: 5000 },
    );
  const listed = async (key: string | null): Promise<string[]> => {
    const answer = await question(key, { kind: 'requests', limit: 10 });
    if (answer.kind !== 'found') throw new Error(answer.kind);
    return (answer.value as { data: { request_id: string }[] }).data.map((each) => each.request_id);
  };
  t.same(await listed(null), ['request-2']);
  t.same(await listed('key-1'), ['request-1']);
  t.match(await question(null, { kind: 'request', id: 'request-2' }), { kind: 'found' });
  t.match(await question(null, { kind: 'request', id: 'request-1' }), { kind: 'unknown' });
});
