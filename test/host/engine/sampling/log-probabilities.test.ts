import t from 'tap';
import { TokenCandidates } from '../../../../src/host/engine/sampling/candidates.ts';
import { LogProbabilities } from '../../../../src/host/engine/sampling/log-probabilities.ts';

/** Ten tokens: the given logits, the floor for the others. */
function distribution(logits: Readonly<Record<number, number>>, floor: number): TokenCandidates {
  const candidates = new TokenCandidates(10);
  candidates.clear(floor);
  for (const [id, logit] of Object.entries(logits)) candidates.add(Number(id), logit);
  return candidates;
}

t.test('the probabilities of all tokens make one, those at the floor included', (t) => {
  for (const [logits, floor] of [
    [{ 3: 2, 5: -1, 7: 4 }, 0],
    [{ 1: 900, 2: 899 }, 880],
    [{}, 0],
  ] as const) {
    const all = new LogProbabilities(0);
    all.observe(distribution(logits, floor));
    const sum = Array.from({ length: 10 }, (_, token) => Math.exp(all.of(token))).reduce((a, b) => a + b);
    t.ok(Math.abs(sum - 1) < 1e-12);
    t.same(all.most(), []);
  }
  t.end();
});

t.test('the most likely tokens fall, the lower id first among equals, down to the floor and below', (t) => {
  const all = new LogProbabilities(6);
  all.observe(distribution({ 9: 3, 4: 5, 2: 3, 0: -1 }, 0));
  t.same(
    all.most().map(({ token }) => token),
    [4, 2, 9, 1, 3, 5],
  );
  t.equal(all.most()[0]!.logProbability, all.of(4));
  const wide = new LogProbabilities(20);
  wide.observe(distribution({ 0: -1 }, 0));
  t.equal(wide.most().length, 10, 'there are no more');
  t.equal(wide.most().at(-1)!.token, 0);
  t.end();
});

t.test('what is observed stays as it was, whatever the samplers do with it', (t) => {
  const all = new LogProbabilities(1);
  const candidates = distribution({ 3: 2, 5: 1 }, 0);
  all.observe(candidates);
  const before = all.of(3);
  candidates.logits[0] = -Infinity;
  candidates.rank(Infinity);
  t.equal(all.of(3), before);
  t.equal(all.most()[0]!.token, 3);
  t.end();
});
