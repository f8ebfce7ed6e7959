// The check of a client's key: one seen before, and one of many.

const COUNT = 1000;

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { hashKey, KeyRing, KeyTable = KeyRing } = await load('src/billing/index.js', 'src/account/index.js');
  const keys = Array.from({ length: COUNT }, (_, at) => `sk-bench-${String(at).padStart(32, '0')}`);
  const ring = new KeyTable(keys.map((key, at) => ({ hash: hashKey(key), id: `key-${at}`, account: 'bench' })));
  if (ring.check(keys[0]).kind !== 'good') throw new Error('the key is not taken');
  let next = 0;
  return {
    'key, the same each time': () => ring.check(keys[0]),
    [`key, ${COUNT} by turns`]: () => ring.check(keys[(next = next + 1 === COUNT ? 0 : next + 1)]),
    'key, hashed': () => hashKey(keys[0]),
  };
}
