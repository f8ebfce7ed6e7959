import { TokenCandidates } from '../../../../src/host/engine/sampling/candidates.ts';
import { createMirostat } from '../../../../src/host/engine/sampling/mirostat.ts';
import { createRandom } from '../../../../src/host/engine/sampling/random.ts';
import { DEFAULT_SAMPLING } from '../../../../src/host/engine/sampling/sampling-options.ts';
import t from 'tap';

function distribution(size: number, probabilities: readonly number[]): TokenCandidates {
  const candidates = new TokenCandidates(size);
  candidates.clear(-Infinity);
  for (const [id, p] of probabilities.entries()) candidates.add(id, Math.log(p));
  candidates.rank(Infinity);
  return candidates;
}
const close = (left: number, right: number): boolean => Math.abs(left - right) < 1e-9;

t.test('it is off unless asked for', async (t) => {
  t.equal(createMirostat(DEFAULT_SAMPLING), null);
});

t.test('version 2 drops what surprises by more than mu, which starts at twice the target', async (t) => {
  // Surprise in bits: 1, 2, 3, 3.
  const of = (tau: number): number => {
    const mirostat = createMirostat({ ...DEFAULT_SAMPLING, mirostat: 2, mirostatTau: tau })!;
    const candidates = distribution(4, [0.5, 0.25, 0.125, 0.125]);
    mirostat.choose(candidates, () => 0);
    return candidates.size;
  };
  t.equal(of(0.1), 1, 'never the first');
  t.equal(of(1.05), 2);
  t.equal(of(1.55), 4);
});

t.test('version 2 learns from the surprise within what was kept', async (t) => {
  const mirostat = createMirostat({ ...DEFAULT_SAMPLING, mirostat: 2, mirostatTau: 1.05, mirostatEta: 0.5 })!;
  const candidates = distribution(4, [0.5, 0.25, 0.125, 0.125]);
  const place = mirostat.choose(candidates, () => 0.9);
  t.equal(place, 1);
  mirostat.learn(candidates, place);
  t.ok(close(mirostat.mu, 2.1 - 0.5 * (Math.log2(3) - 1.05)), 'one third was left of it');
});

t.test('version 1 keeps as many as the estimated Zipf law says', async (t) => {
  // Probabilities in proportion to 1/rank^2 give the exponent 2 exactly, so k = sqrt(2^mu / (1 - 1/N)).
  const weights = Array.from({ length: 50 }, (_, at) => (at + 1) ** -2);
  const sum = weights.reduce((left, right) => left + right);
  const candidates = distribution(
    50,
    weights.map((weight) => weight / sum),
  );
  const mirostat = createMirostat({ ...DEFAULT_SAMPLING, mirostat: 1, mirostatTau: 2.5 })!;
  mirostat.choose(candidates, () => 0);
  t.equal(candidates.size, Math.trunc(Math.sqrt(32 / (1 - 1 / 50))));
});

t.test('version 1 bears one candidate and equal ones', async (t) => {
  for (const probabilities of [[1], [0.25, 0.25, 0.25, 0.25]]) {
    const candidates = distribution(4, probabilities);
    createMirostat({ ...DEFAULT_SAMPLING, mirostat: 1 })!.choose(candidates, () => 0.5);
    t.ok(candidates.size >= 1 && candidates.size <= probabilities.length);
  }
});

t.test('both bring the mean surprise to the target', async (t) => {
  const weights = Array.from({ length: 400 }, (_, at) => (at + 1) ** -1.1);
  const sum = weights.reduce((left, right) => left + right);
  const probabilities = weights.map((weight) => weight / sum);
  for (const version of [1, 2] as const) {
    const mirostat = createMirostat({ ...DEFAULT_SAMPLING, mirostat: version, mirostatTau: 3 })!;
    const random = createRandom(7);
    let total = 0;
    for (let turn = 0; turn < 2000; turn++) {
      const candidates = distribution(400, probabilities);
      const place = mirostat.choose(candidates, random);
      total -= Math.log2(candidates.p[place]!);
      mirostat.learn(candidates, place);
    }
    t.ok(Math.abs(total / 2000 - 3) < 0.1, `version ${version}: ${total / 2000}`);
  }
});
