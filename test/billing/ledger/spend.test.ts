// Two processes on one account: together they spend what it has, never more.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { openStore, STORES } from './stores.ts';

const CHILD = fileURLToPath(new URL('spend-child.js', import.meta.url));

async function message(child: ChildProcess): Promise<string> {
  const died = once(child, 'exit').then(([code]) => Promise.reject(new Error(`The process ended with ${code}`)));
  const [text] = (await Promise.race([once(child, 'message'), died])) as [string];
  return text;
}

for (const name of STORES) {
  t.test(`${name}: two processes that spend one account never exceed its balance`, async (t) => {
    const { ledger, url } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    const granted = 40_000n;
    await ledger.grant({ id: '1', account: 'a', amount: granted });
    const children = ['one', 'two'].map((each) => fork(CHILD, [url, each], { env: {}, execArgv: [] }));
    t.same(await Promise.all(children.map(message)), ['ready', 'ready']);
    const spent = children.map(message);
    for (const child of children) child.send('go');
    const sums = (await Promise.all(spent)).map(BigInt);
    await Promise.all(children.map((child) => child.exitCode ?? once(child, 'exit')));
    const account = await ledger.account('a');
    t.ok(account !== undefined && account.balance >= 0n, `balance ${account?.balance}`);
    t.equal(account?.held, 0n);
    t.equal((account?.balance ?? 0n) + sums.reduce((sum, each) => sum + each, 0n), granted, `they spent ${sums}`);
    t.ok(
      sums.every((each) => each > 0n),
      'both had a part',
    );
    t.match(await ledger.audit(), { sound: true, sum: 0n, openHolds: 0n });
  });
}
