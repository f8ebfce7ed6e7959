import fc from 'fast-check';
import t from 'tap';
import { TokenCandidates } from '../../../../src/host/engine/sampling/candidates.ts';

const SIZE = 300;

/** The same distribution with every token spelled out, sorted as rank() promises. */
function spellOut(listed: ReadonlyMap<number, number>, floor: number, allowed: Uint8Array | null): [number, number][] {
  const all: [number, number][] = [];
  for (let id = 0; id < SIZE; id++) all.push([id, listed.get(id) ?? floor]);
  const possible = all.filter(([id, logit]) => logit > -Infinity && (allowed === null || allowed[id] === 1));
  return possible.sort(([a, x], [b, y]) => (x === y ? a - b : y > x ? 1 : -1));
}

const logit = fc.oneof(
  fc.integer({ min: -3, max: 3 }),
  fc.constant(-Infinity),
  fc.double({ min: -4, max: 4, noNaN: true }),
);
const listed = fc.array(fc.tuple(fc.integer({ min: 0, max: SIZE - 1 }), logit), { maxLength: SIZE });
const floor = fc.constantFrom(0, 1, -Infinity);
const mask = fc.option(fc.array(fc.integer({ min: 0, max: 1 }), { minLength: SIZE, maxLength: SIZE }));

t.test('ranking gives the first places of the whole distribution, whatever is listed', async () => {
  const candidates = new TokenCandidates(SIZE);
  fc.assert(
    fc.property(listed, floor, mask, fc.constantFrom(1, 5, 40, Infinity), (listed, floor, mask, need) => {
      const logits = new Map(listed);
      candidates.clear(floor);
      for (const [id, logit] of logits) candidates.add(id, logit);
      candidates.allowed = mask === null ? null : Uint8Array.from(mask);
      const expected = spellOut(logits, floor, candidates.allowed);
      candidates.rank(need);
      const places = Math.min(need, expected.length);
      if (candidates.size < places) return false;
      return expected
        .slice(0, candidates.size)
        .every(([id, logit], at) => candidates.ids[at] === id && candidates.logits[at] === logit);
    }),
    { numRuns: 2000 },
  );
});

t.test('probabilities add up to one, equal logits have equal ones, and a draw follows them', async (t) => {
  const candidates = new TokenCandidates(8);
  candidates.clear(0);
  candidates.add(3, Math.log(6));
  candidates.add(5, Math.log(3));
  candidates.rank(Infinity);
  candidates.softmax();
  t.strictSame([...candidates.ids.subarray(0, 8)], [3, 5, 0, 1, 2, 4, 6, 7]);
  t.ok(Math.abs(candidates.p[0]! - 0.4) < 1e-12);
  t.ok(Math.abs(candidates.p[1]! - 0.2) < 1e-12);
  t.ok(Math.abs(candidates.p[7]! - 1 / 15) < 1e-12);
  t.equal(candidates.draw(0), 0);
  t.equal(candidates.draw(0.39), 0);
  t.equal(candidates.draw(0.41), 1);
  t.equal(candidates.draw(0.61), 2);
  t.equal(candidates.draw(0.999999), 7);
});
