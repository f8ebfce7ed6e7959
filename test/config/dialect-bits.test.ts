import t from 'tap';
import { DIALECT_BITS, dialectMask } from '../../src/config/dialect-bits.ts';
import { DIALECTS } from '../../src/dialect/dialects.ts';

t.test('every dialect has a bit of its own', async (t) => {
  const bits = Object.values(DIALECTS).map(({ bit }) => bit);
  t.same(
    bits.toSorted((a, b) => a - b),
    Object.values(DIALECT_BITS).toSorted((a, b) => a - b),
  );
  t.equal(
    bits.reduce((mask, bit) => mask | bit, 0),
    31,
  );
});

t.test('a mask has the bits of its words, and 0 of none', async (t) => {
  t.equal(dialectMask([]), 0);
  t.equal(dialectMask(['chat', 'messages']), DIALECT_BITS.chat | DIALECT_BITS.messages);
});
