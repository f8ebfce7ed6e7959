// Requests that wait for slices: who is told to go on, how, and in which order.

import t from 'tap';
import { createManualClock, type ManualClock, type Ref } from '../../../src/actor/index.ts';
import { createLimitMemory, LimitTable } from '../../../src/billing/limits/limit-table.ts';
import { SliceManager, type SliceNotice } from '../../../src/billing/limits/slice-manager.ts';
import type { SliceClaim, SliceGrant } from '../../../src/billing/limits/slice-store.ts';
import { advance } from '../../support/advance.ts';

const START = Date.UTC(2026, 10, 23);
const LIMIT = 100_000;
const NO_LIMIT: number = 2 ** 53;

/** A manager of slices with a key whose requests are limited, and an engine with a lag. */
class Fixture {
  readonly clock: ManualClock = createManualClock(1000);
  /** What was told, in order: `4 granted`. */
  readonly told: string[] = [];
  readonly manager: SliceManager;
  /** Requests that the engine grants, and that siblings have left. */
  quota = LIMIT;
  spare = 0;
  readonly #lagMs: number;
  #count = 0;

  constructor(lagMs: number) {
    this.#lagMs = lagMs;
    this.manager = new SliceManager({
      table: new LimitTable(createLimitMemory(2, 1), 0),
      clock: this.clock,
      epochMs: () => START + this.clock.now(),
      onState: () => undefined,
    });
    const replyTo = { tell: ({ id, use }: SliceNotice) => this.told.push(`${id} ${use}`) };
    this.manager.receive({ type: 'Join', thread: 1, replyTo: replyTo as unknown as Ref<SliceNotice> });
    this.manager.putKey('k', { index: 0, generation: 1 }, [-1, LIMIT, -1]);
    this.manager.share({ exchange: (claims) => this.#exchange(claims), recall: () => undefined });
  }

  /** More requests wait, or parts of those that run. Answers with their ids. */
  wait(count: number, requests: 0 | 1 = 1): number[] {
    const ids = Array.from({ length: count }, () => ++this.#count);
    const need = { key: { cell: 0, requests, tokens: 1, leastTokens: 1 }, budgets: [] };
    for (const id of ids) this.manager.receive({ type: 'Wait', thread: 1, id, need });
    return ids;
  }

  leave(id: number): void {
    this.manager.receive({ type: 'Leave', thread: 1, id });
  }

  advance(ms: number): Promise<void> {
    return advance(this.clock, ms);
  }

  async #exchange(claims: readonly SliceClaim[]): Promise<SliceGrant[]> {
    await new Promise<void>((resolve) => void this.clock.setTimeout(resolve, this.#lagMs));
    return claims.map(() => ({
      ...{ quota: [NO_LIMIT, this.quota, NO_LIMIT], others: [0, 0, 0], spare: [0, this.spare, 0] },
      ...{ retryMs: 0, resetMs: 0 },
    }));
  }
}

const toldTo = (ids: readonly number[], use: string): string[] => ids.map((id) => `${id} ${use}`);

t.test('requests go on in order of arrival, each once, and those that have left are not told', async (t) => {
  const fixture = new Fixture(5);
  const ids = fixture.wait(8192);
  for (const id of ids) if (id % 7 === 0) fixture.leave(id);
  const left = ids.filter((id) => id % 7 !== 0);
  await fixture.advance(20);
  t.strictSame(fixture.told, toldTo(left, 'granted'));
  await fixture.advance(100);
  t.equal(fixture.told.length, left.length);
});

t.test('a slice that is too small lets the first ones go on; the others keep their order', async (t) => {
  const fixture = new Fixture(5);
  const first = fixture.wait(3);
  Object.assign(fixture, { quota: 2, spare: 10 });
  await fixture.advance(10);
  t.strictSame(fixture.told, toldTo(first.slice(0, 2), 'granted'));
  const later = fixture.wait(4);
  Object.assign(fixture, { quota: LIMIT, spare: 0 });
  await fixture.advance(40);
  t.strictSame(fixture.told, toldTo([...first, ...later], 'granted'));
});

t.test('requests whose time ends between two answers leave the queue; the next answer is for the others', async (t) => {
  const fixture = new Fixture(30);
  Object.assign(fixture, { quota: 0, spare: 10 });
  const early = fixture.wait(100);
  await fixture.advance(31);
  t.strictSame(fixture.told, []);
  const late = fixture.wait(100);
  await fixture.advance(20);
  t.strictSame(fixture.told, toldTo(early, 'granted'), 'to be admitted or refused by what there is');
  fixture.quota = LIMIT;
  await fixture.advance(28);
  t.strictSame(fixture.told, toldTo([...early, ...late], 'granted'));
});

t.test('a part of a request that runs waits for no place', async (t) => {
  const fixture = new Fixture(5);
  Object.assign(fixture, { quota: 0, spare: 10 });
  const [part] = fixture.wait(1, 0);
  await fixture.advance(10);
  t.strictSame(fixture.told, [`${part} granted`]);
  const [request] = fixture.wait(1);
  await fixture.advance(20);
  t.strictSame(fixture.told, [`${part} granted`], 'as a request does');
  await fixture.advance(40);
  t.strictSame(fixture.told, [`${part} granted`, `${request} granted`]);
});

t.test('when their key goes, or is no longer shared, all that wait go on at once', async (t) => {
  for (const end of [
    ({ manager }: Fixture) => manager.dropKey('k'),
    ({ manager }: Fixture) => manager.lose('the engine is away'),
  ]) {
    const fixture = new Fixture(5);
    const ids = fixture.wait(1000);
    end(fixture);
    t.strictSame(fixture.told, toldTo(ids, 'whole'));
    await fixture.advance(100);
    t.equal(fixture.told.length, ids.length);
  }
});
