import t from 'tap';
import { type Charge, type HoldSettlement, type Ledger, LedgerError } from '../../src/billing/ledger/ledger.ts';
import { type ReportedCharge, type UnpostedCharge, UnpostedCharges } from '../../src/billing/unposted-charges.ts';

type Outcome = PromiseSettledResult<HoldSettlement>;

const POSTED: Outcome = { status: 'fulfilled', value: { charged: 1n, balance: 0n } as unknown as HoldSettlement };

/** A ledger whose answers the test gives, and everything that is told. */
function world(): {
  readonly charges: UnpostedCharges;
  readonly told: string[];
  readonly calls: { readonly ids: string[]; readonly answer: PromiseWithResolvers<Outcome[]> }[];
  readonly ledger: Ledger;
} {
  const told: string[] = [];
  const calls: { ids: string[]; answer: PromiseWithResolvers<Outcome[]> }[] = [];
  const charge = (batch: readonly Charge[]): Promise<Outcome[]> => {
    const answer = Promise.withResolvers<Outcome[]>();
    calls.push({ ids: batch.map(({ id }) => id), answer });
    return answer.promise;
  };
  const charges = new UnpostedCharges({
    metrics: { charged: () => undefined, readWaiting: () => undefined },
    onPosted: ({ id }) => told.push(`posted ${id}`),
    onProblem: (_error, what) => told.push(what),
    delays: { failed: (_error, what) => told.push(String(what)), succeeded: () => undefined },
    onDelay: () => told.push('delay'),
    onAnswer: () => told.push('answer'),
  });
  return { charges, told, calls, ledger: { charge } as unknown as Ledger };
}

function reportedOf(amount: number): ReportedCharge {
  const usage = { model: 'atlas-27b', measured: true } as ReportedCharge['usage'];
  return { account: 'a', prepaid: true, amount, covered: amount, usage };
}

function unposted(id: string, lease?: UnpostedCharge['lease']): UnpostedCharge {
  const reported = reportedOf(1);
  const charge: Charge = { id, account: 'a', amount: 1n, usage: reported.usage, dateMs: 0 };
  return { charge, reported, lease };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('charges wait for the ledger to open, and are posted once', async (t) => {
  const { calls, charges, ledger, told } = world();
  const lease = { unposted: 0, version: 0 };
  const [first, second] = [unposted('1', lease), unposted('2')];
  for (const one of [first, second]) charges.add(one);
  charges.post([first, second]);
  t.same([calls.length, charges.size, lease.unposted], [0, 2, 1]);
  charges.open(ledger);
  charges.retry();
  t.same(
    calls.map(({ ids }) => ids),
    [['1', '2']],
    'what is under way is not posted again',
  );
  calls[0]?.answer.resolve([POSTED, POSTED]);
  await turn();
  t.same(told, ['posted 1', 'posted 2', 'answer']);
  t.same([charges.size, lease], [0, { unposted: 0, version: 1 }]);
});

t.test('what the ledger cannot take now is tried again, what it refuses is lost and said', async (t) => {
  const { calls, charges, ledger, told } = world();
  charges.open(ledger);
  const batch = [unposted('1'), unposted('2')];
  for (const one of batch) charges.add(one);
  charges.post(batch);
  calls[0]?.answer.reject(new Error('away'));
  await turn();
  t.same(told.splice(0), ['2 charges could not be posted and will be tried again', 'delay', 'answer']);
  charges.retry();
  const refusal: Outcome = { status: 'rejected', reason: new LedgerError('hold-unknown', 'no such lease') };
  calls[1]?.answer.resolve([POSTED, refusal]);
  await turn();
  t.same(told, ['posted 1', "a charge of 0.000000000001 USD to account 'a' is lost: the ledger refuses it", 'answer']);
  t.equal(charges.size, 0);
});

t.test('amounts that are none, and charges beyond the bound or behind the end, are lost and said', async (t) => {
  const { charges, told } = world();
  t.notOk(charges.takes(reportedOf(0.5)));
  for (let at = 0; at < 100_000; at++) charges.add(unposted(String(at)));
  t.notOk(charges.takes(reportedOf(1)));
  t.equal(charges.giveUp().length, 100_000);
  t.equal(charges.size, 0);
  t.notOk(charges.takes(reportedOf(1)));
  t.same(told, [
    'a charge is lost: not an amount',
    'a charge is lost: too many wait',
    'a charge is lost: the ledger is closed',
  ]);
});
