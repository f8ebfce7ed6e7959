// Conversion of prices, checked against integer arithmetic, and which models count as chat models.
import fc from 'fast-check';
import t from 'tap';
import { isChat, perToken } from '../../src/catalog/models.ts';

t.test('a price per million tokens becomes a price per token', (t) => {
  for (const [perMillion, expected] of [
    ['0.15', '0.00000015'],
    ['1.50', '0.0000015'],
    ['0', '0'],
    ['0.000', '0'],
    ['000', '0'],
    ['1000000', '1'],
    ['1000000.00', '1'],
    ['0012345678.90', '12.3456789'],
    ['0.0000001', '0.0000000000001'],
    ['25000000', '25'],
  ] as const) {
    t.equal(perToken(perMillion), expected, perMillion);
  }
  t.end();
});

t.test('a text that is not a plain decimal is refused', (t) => {
  for (const text of ['', '.', '.5', '5.', '-1', '+1', '1e3', '1,5', ' 1', '1 ', '0x1', 'NaN', '1.2.3', '1\n']) {
    t.throws(() => perToken(text), RangeError, JSON.stringify(text));
  }
  t.end();
});

t.test('every price keeps its exact value and has one plain spelling', (t) => {
  const digits = (minLength: number): fc.Arbitrary<string> =>
    fc.array(fc.constantFrom(...'0123456789'), { minLength, maxLength: 24 }).map((all) => all.join(''));
  fc.assert(
    fc.property(digits(1), digits(0), (whole, fraction) => {
      const result = perToken(fraction === '' ? whole : `${whole}.${fraction}`);
      if (!/^(0|[1-9]\d*)(\.\d*[1-9])?$/.test(result)) return false;
      const [units = '', decimals = ''] = result.split('.');
      // Both sides as integers: result × 10^decimals × 10^(6 + given decimals) = given digits × 10^decimals.
      const left = BigInt(units + decimals) * 10n ** BigInt(6 + fraction.length);
      const right = BigInt(whole + fraction) * 10n ** BigInt(decimals.length);
      return left === right;
    }),
    { numRuns: 2000 },
  );
  t.end();
});

t.test('a model without declared capabilities is a chat model when it has prices', (t) => {
  const pricing = { prompt: '1', completion: '2' };
  const model = { id: 'm', servers: [] };
  t.equal(isChat(model), false);
  t.equal(isChat({ ...model, pricing }), true);
  t.equal(isChat({ ...model, pricing, capabilities: [] }), true);
  t.equal(isChat({ ...model, pricing, capabilities: ['embedding'] }), false);
  t.equal(isChat({ ...model, capabilities: ['chat', 'tools'] }), true);
  t.end();
});
