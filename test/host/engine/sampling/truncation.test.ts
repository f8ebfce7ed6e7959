import { TokenCandidates } from '../../../../src/host/engine/sampling/candidates.ts';
import { applyTemperature } from '../../../../src/host/engine/sampling/chain.ts';
import { minP, tailFree, topK, topP, typical } from '../../../../src/host/engine/sampling/truncation.ts';
import t from 'tap';

/** Candidates 0, 1, 2 … with these probabilities, most likely first. */
function distribution(...probabilities: number[]): TokenCandidates {
  const candidates = new TokenCandidates(16);
  candidates.clear(-Infinity);
  for (const [id, p] of probabilities.entries()) candidates.add(id, Math.log(p));
  candidates.rank(Infinity);
  return candidates;
}
const kept = ({ ids, size }: TokenCandidates): number[] => [...ids.subarray(0, size)];
function after(cut: (candidates: TokenCandidates) => void, ...probabilities: number[]): number[] {
  const candidates = distribution(...probabilities);
  cut(candidates);
  return kept(candidates);
}

t.test('top-k keeps the k most likely, all for 0', async (t) => {
  t.strictSame(
    after((c) => topK(c, 2), 0.5, 0.3, 0.2),
    [0, 1],
  );
  t.strictSame(
    after((c) => topK(c, 0), 0.5, 0.3, 0.2),
    [0, 1, 2],
  );
  t.strictSame(
    after((c) => topK(c, 9), 0.5, 0.3, 0.2),
    [0, 1, 2],
  );
});

t.test('top-p keeps the fewest that reach the mass', async (t) => {
  t.strictSame(
    after((c) => topP(c, 0.45), 0.5, 0.3, 0.2),
    [0],
  );
  t.strictSame(
    after((c) => topP(c, 0.75), 0.5, 0.3, 0.2),
    [0, 1],
  );
  t.strictSame(
    after((c) => topP(c, 0.85), 0.5, 0.3, 0.2),
    [0, 1, 2],
  );
  t.strictSame(
    after((c) => topP(c, 1), 0.5, 0.3, 0.2),
    [0, 1, 2],
  );
  t.strictSame(
    after((c) => topP(c, 0), 0.5, 0.3, 0.2),
    [0],
  );
});

t.test('min-p compares with the most likely', async (t) => {
  t.strictSame(
    after((c) => minP(c, 0.5), 0.5, 0.3, 0.2),
    [0, 1],
  );
  t.strictSame(
    after((c) => minP(c, 0.7), 0.5, 0.3, 0.2),
    [0],
  );
  t.strictSame(
    after((c) => minP(c, 0), 0.5, 0.3, 0.2),
    [0, 1, 2],
  );
});

t.test('tail-free cuts where the second differences have used up the mass', async (t) => {
  // First differences .2 .15 .09 .05, second differences .05 .06 .04; normalised .333 .4 .267, sums .333 .733 1.
  const p = [0.5, 0.3, 0.15, 0.06, 0.01] as const;
  t.strictSame(
    after((c) => tailFree(c, 0.7), ...p),
    [0],
  );
  t.strictSame(
    after((c) => tailFree(c, 0.8), ...p),
    [0, 1],
  );
  t.strictSame(
    after((c) => tailFree(c, 0.3), ...p),
    [0],
    'the first place is never cut',
  );
  t.strictSame(
    after((c) => tailFree(c, 1), ...p),
    [0, 1, 2, 3, 4],
  );
  t.strictSame(
    after((c) => tailFree(c, 0.1), 0.9, 0.1),
    [0, 1],
    'two are too few',
  );
  t.strictSame(
    after((c) => tailFree(c, 0.3), 0.25, 0.25, 0.25, 0.25),
    [0],
    'flat second differences count alike',
  );
});

t.test('typical keeps what is nearest to the entropy, even without the most likely', async (t) => {
  // Entropy 1.0297; surprise .6931 1.2040 1.6094: distances .3366 .1742 .5798, so the order is 1, 0, 2.
  t.strictSame(
    after((c) => typical(c, 0.2), 0.5, 0.3, 0.2),
    [1],
  );
  t.strictSame(
    after((c) => typical(c, 0.7), 0.5, 0.3, 0.2),
    [0, 1],
  );
  t.strictSame(
    after((c) => typical(c, 0.9), 0.5, 0.3, 0.2),
    [0, 1, 2],
  );
  t.strictSame(
    after((c) => typical(c, 1), 0.5, 0.3, 0.2),
    [0, 1, 2],
  );
});

t.test('each sampler works on what is left, renormalised', async (t) => {
  // After top-k 2 the probabilities are .625 and .375, so a mass of .6 is reached by the first.
  const cut = (c: TokenCandidates): void => {
    topK(c, 2);
    topP(c, 0.6);
  };
  t.strictSame(after(cut, 0.5, 0.3, 0.2), [0]);
  t.strictSame(
    after((c) => topP(c, 0.6), 0.5, 0.3, 0.2),
    [0, 1],
  );
});

t.test('temperature squares probabilities at a half and takes their root at two', async (t) => {
  const of = (temperature: number): number => {
    const candidates = distribution(0.8, 0.2);
    applyTemperature(candidates, temperature);
    candidates.softmax();
    return candidates.p[0]!;
  };
  t.ok(Math.abs(of(0.5) - 0.64 / 0.68) < 1e-12);
  t.ok(Math.abs(of(2) - 2 / 3) < 1e-12);
  t.ok(Math.abs(of(1) - 0.8) < 1e-12);
});
