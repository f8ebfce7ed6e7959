// The random generator of sampling: sfc32, with 2^32 streams by seed. One per sequence, so that a sequence does not depend on
// what runs beside it.
/** Next number in [0, 1). */
export type Random = () => number;

/** Rounds discarded at the start, so that near seeds give unrelated streams. */
const WARM_UP = 15;

/** Creates the generator of a seed; only its low 32 bits count. */
export function createRandom(seed: number): Random {
  let a = 0x9e3779b9 | 0;
  let b = 0x243f6a88 | 0;
  let c = seed | 0;
  let counter = 1;
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return (sum >>> 0) / 4_294_967_296;
  };
  for (let round = 0; round < WARM_UP; round++) next();
  return next;
}

/** The seed to use for the option `seed`: itself, or for a negative one 32 bits drawn from `entropy`. */
export function chooseSeed(seed: number, entropy: Random): number {
  return seed < 0 ? Math.floor(entropy() * 4_294_967_296) : seed;
}
