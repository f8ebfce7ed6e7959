// Killed at any point of selling and started again, until it gets through: no credit that was bought is lost, nothing is
// paid twice, and the ledger has what the token says has moved.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { Chain } from '../../../src/billing/payments/chain.ts';
import { Facilitator } from '../../../src/billing/payments/facilitator.ts';
import { paymentId } from '../../../src/billing/ledger/commands.ts';
import { type CommitStep, openLedger } from '../../../src/billing/ledger/open-ledger.ts';
import type { Ledger } from '../../../src/billing/ledger/ledger.ts';
import { systemClock } from '../../../src/actor/clock.ts';
import { COMPILE_CACHE } from '../../support/compile-cache.ts';
import { TestChain } from '../../support/chain.ts';
import { TestFacilitator } from '../../support/facilitator.ts';
import { emptyStore, STORES } from '../ledger/stores.ts';
import { LANES, NOW_MS, payerOf, PURCHASE_UNITS, ROUNDS } from './crash-plan.ts';
import { FUNDS, MERCHANT, TestProcessor } from './payment-fixture.ts';

const CHILD = fileURLToPath(new URL('crash-child.js', import.meta.url));
const PICO_PER_UNIT = 1_000_000n;

/** Where the process dies: at a step of its nth commit, or around the nth transfer of its life. */
type Cut =
  | { readonly step: CommitStep; readonly passes: number }
  | { readonly moment: 'before' | 'after'; readonly transfers: number };

const STEPS: readonly CommitStep[] = ['begun', 'loaded', 'written', 'committed'];

const CUTS: readonly Cut[] = [
  ...[0, 1, 2, 4, 7].flatMap((passes) => STEPS.map((step) => ({ step, passes }))),
  ...[0, 1, 3].flatMap((transfers) => (['before', 'after'] as const).map((moment) => ({ moment, transfers }))),
];

/** The facilitator of all lives, and how the present one is to die at its hands. */
interface CrashFixture {
  readonly facilitator: TestFacilitator;
  readonly node: TestChain;
  /** Seconds since 1970, for facilitator and chain. */
  readonly date: { nowS: number };
  child: ChildProcess | undefined;
  cut: Cut | undefined;
  transfers: number;
}

async function openCrashFixture(t: { teardown: (done: () => void) => void }): Promise<CrashFixture> {
  const date = { nowS: NOW_MS / 1000 };
  const node = await new TestChain(() => date.nowS).listen();
  const facilitator = new TestFacilitator({
    nowS: () => date.nowS,
    chain: node,
    onSettle(moment) {
      const { cut } = fixture;
      if (cut !== undefined && 'moment' in cut && cut.moment === moment && fixture.transfers === cut.transfers) {
        fixture.child?.kill('SIGKILL');
      }
      if (moment === 'after') fixture.transfers++;
    },
  });
  const fixture: CrashFixture = { facilitator, node, date, child: undefined, cut: undefined, transfers: 0 };
  await facilitator.listen();
  t.teardown(() => {
    facilitator.close();
    node.close();
  });
  for (let lane = 0; lane < LANES; lane++) facilitator.fund(payerOf(lane).address, FUNDS);
  return fixture;
}

async function live(fixture: CrashFixture, store: string, cut: Cut | undefined): Promise<string[]> {
  const dying = cut !== undefined && 'step' in cut ? [cut.step, `${cut.passes}`] : [];
  Object.assign(fixture, { cut, transfers: 0 });
  const args = [CHILD, store, fixture.facilitator.url, fixture.node.url, ...dying];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env: COMPILE_CACHE });
  fixture.child = child;
  const exit = once(child, 'exit');
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) lines.push(line);
  const [code, signal] = (await exit) as [number | null, string | null];
  if (code !== 0 && signal !== 'SIGKILL') throw new Error(`The process failed: ${code} ${signal}`);
  return lines;
}

function idOf(lane: number, nonce: number): string {
  return paymentId({
    network: MERCHANT.chain.network,
    asset: MERCHANT.asset.address,
    payer: payerOf(lane).address,
    nonce: `0x${nonce.toString(16).padStart(64, '0')}`,
  });
}

/** Everything that is wrong with the ledger, compared with the token. */
async function wrongs(ledger: Ledger, { facilitator }: CrashFixture, lines: ReadonlySet<string>): Promise<string[]> {
  const wrong = [...(await ledger.audit()).problems];
  const moved = new Map(facilitator.transfers.map((one) => [`${one.from} ${BigInt(one.nonce)}`, one]));
  if (moved.size !== facilitator.transfers.length) wrong.push('a nonce has moved money twice');
  for (const line of lines) {
    const [what = '', lane = '', nonce = '', hash] = line.split(' ');
    const payment = await ledger.findPayment(idOf(Number(lane), Number(nonce)));
    const transfer = moved.get(`${payerOf(Number(lane)).address} ${BigInt(nonce)}`);
    const paid = payment?.state === 'settled' && transfer !== undefined;
    if (what !== 'stuck' && !paid) wrong.push(line);
    if (hash !== undefined && hash !== transfer?.transaction) wrong.push(`${line}: not ${transfer?.transaction}`);
  }
  for (let lane = 0; lane < LANES; lane++) {
    const { address } = payerOf(lane);
    const [usage] = await ledger.usage({ account: address, by: [] });
    const account = await ledger.account(address);
    // A process that died with credit in hand keeps it aside until the hold ends; time stands still here.
    const worth = (account?.balance ?? 0n) + (account?.held ?? 0n) + (usage?.amount ?? 0n);
    const paid = (FUNDS - facilitator.balance(address)) * PICO_PER_UNIT;
    if (worth !== paid) wrong.push(`lane ${lane}: paid ${paid}, has and had ${worth}`);
    if (paid < BigInt(PURCHASE_UNITS * ROUNDS) * PICO_PER_UNIT) wrong.push(`lane ${lane}: bought too little`);
  }
  return wrong;
}

for (const name of STORES) {
  // A server in another process is not hurt by a client that dies: there, fewer points tell as much.
  const cuts = CUTS.filter((_, at) => name === 'sqlite' || at % 2 === 0);
  t.test(`${name}: killed at ${cuts.length} points, what was paid is there once`, async (t) => {
    let kills = 0;
    // A few deaths on each store, so that a life also begins in the ruins of several.
    for (let first = 0; first < cuts.length; first += 4) {
      const fixture = await openCrashFixture(t);
      const store = await emptyStore(t, name);
      const lines = new Set<string>();
      let ended = false;
      for (const cut of [...cuts.slice(first, first + 4), undefined]) {
        const life = await live(fixture, store, cut);
        ended = life.at(-1) === 'finished';
        if (!ended) kills++;
        for (const line of life) if (line.includes(' ')) lines.add(line);
      }
      t.equal(ended, true, 'in the end it gets through');
      const ledger = await openLedger(store, { clock: systemClock, dateMs: () => NOW_MS });
      t.same(await wrongs(ledger, fixture, lines), []);
      // Orders that were written down and never sent on: nobody gives them again, and their end rules them out.
      fixture.date.nowS += 400;
      const dateMs = (): number => NOW_MS + 400_000;
      const chain = new Chain({ url: fixture.node.url }, MERCHANT.chain, systemClock);
      const facilitator = new Facilitator({ url: fixture.facilitator.url }, systemClock);
      await TestProcessor.start({ ledger, facilitator, chain, merchant: MERCHANT, dateMs }).recover();
      t.same(await ledger.paymentsIn('submitted'), []);
      t.same(await wrongs(ledger, fixture, lines), []);
      facilitator.close();
      chain.close();
      await ledger.close();
      fixture.facilitator.close();
      fixture.node.close();
    }
    t.ok(kills > cuts.length / 2, `${kills} kills`);
  });
}
