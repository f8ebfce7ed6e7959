// The simulation of admission under overload: what holding requests does to an account beside the flood of another one. Virtual time.
import t from 'tap';
import { benchModule } from './modules.ts';

interface Answered {
  readonly request: { readonly account: string; readonly atMs: number };
  readonly waitedMs: number;
}

interface Simulation {
  readonly flooded: () => { readonly requests: readonly object[]; readonly blocks: number };
  readonly simulateHeld: (requests: readonly object[], options: object) => readonly Answered[];
}

const { flooded, simulateHeld } = await benchModule<Simulation>('locality/admission.mjs');

/** Median time to first token of an account's requests that came during the flood, in milliseconds. */
function medianMs(answered: readonly Answered[], account: string): number {
  const waits = answered
    .filter(({ request }) => request.account === account && request.atMs >= 30_000 && request.atMs < 60_000)
    .map(({ waitedMs }) => waitedMs)
    .sort((a, b) => a - b);
  return waits[Math.floor(waits.length / 2)] as number;
}

t.test('with hold the flood of one account costs another one little of its time to first token', (t) => {
  const { requests, blocks } = flooded();
  const off = simulateHeld(requests, { blocks, holdMs: 0 });
  const held = simulateHeld(requests, { blocks, holdMs: 500 });
  t.same([off.length, held.length], [requests.length, requests.length], 'everything is answered');
  const [before, after] = [medianMs(off, 'quiet'), medianMs(held, 'quiet')];
  t.ok(after * 4 < before, `${Math.round(after)} ms with hold, ${Math.round(before)} ms without`);
  t.ok(medianMs(held, 'flood') < medianMs(off, 'flood') * 2, 'the flood gets what is left');
  t.end();
});
