// One engine actor on a manual clock, with a board and a transport of its own, and the ways its tests ask it.

import type { Ref } from '../../src/actor/index.ts';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import type { EngineHit } from '../../src/search/engine.ts';
import { engineActor, type EngineCommand, type EngineSpec } from '../../src/search/engine-actor.ts';
import { createEngineMemory, EngineBoard } from '../../src/search/engine-board.ts';
import { type Answer, fakeTransport, type FakeTransport, hitOf, specOf, tellSearch } from './search.ts';

/** An answer with one hit, and the report of it. */
export const FOUND: { readonly urls: readonly string[] } = { urls: ['http://x.org/1'] };
export const HITS: { readonly hits: readonly EngineHit[] } = { hits: [hitOf('http://x.org/1')] };

export interface EngineBench extends TestSystem {
  readonly ref: Ref<EngineCommand>;
  readonly board: EngineBoard;
  readonly transport: FakeTransport;
  readonly outcomes: string[];
}

export function engineBench(answer: Answer, fields: Partial<EngineSpec> = {}): EngineBench {
  const test = createTestSystem();
  const board = new EngineBoard(createEngineMemory(1));
  const transport = fakeTransport(answer);
  const outcomes: string[] = [];
  const { clock } = test;
  clock.advance(1000);
  const deps = {
    ...{ board, transport, clock, random: () => 0, epochMs: () => clock.now() },
    onOutcome: (engine: string, reason: string, elapsedMs: number) => {
      outcomes.push(`${engine} ${reason} ${Math.round(elapsedMs)}`);
    },
  };
  const ref = test.system.spawn(engineActor(specOf('a', fields), deps));
  return { ...test, ref, board, transport, outcomes };
}

/** Searches one after another, all within 10 s each. */
export async function reasons(b: EngineBench, count: number): Promise<string[]> {
  const said: string[] = [];
  for (let i = 0; i < count; i++) {
    const { reports } = tellSearch(b.ref, b.clock.now() + 10_000);
    await b.settle();
    said.push(reports.map((report) => ('reason' in report ? report.reason : 'ok')).join());
  }
  return said;
}

export function cancel(b: EngineBench, asker: string, timedOut: boolean): void {
  b.ref.tell({ type: 'Cancel', asker, timedOut });
}
