import fc from 'fast-check';
import t from 'tap';
import { parseUsd, printCredits, printUsd } from '../../src/billing/money.ts';

/** Whatever fifteen digits of USD hold. */
const AMOUNTS = fc.bigInt({ min: -(10n ** 27n) + 1n, max: 10n ** 27n - 1n });

t.test('reads what it prints', (t) => {
  fc.assert(fc.property(AMOUNTS, (pico) => parseUsd(printUsd(pico)) === pico));
  t.end();
});

t.test('reads digits, not the nearest number', (t) => {
  fc.assert(
    fc.property(fc.bigInt(0n, 10n ** 15n - 1n), fc.stringMatching(/^\d{1,12}$/), (whole, fraction) => {
      const pico = whole * 10n ** 12n + BigInt(fraction) * 10n ** BigInt(12 - fraction.length);
      return parseUsd(`${whole}.${fraction}`) === pico && parseUsd(`-${whole}.${fraction}`) === -pico;
    }),
  );
  t.equal(parseUsd('9007199254740.993'), 9_007_199_254_740_993_000_000_000n);
  t.end();
});

t.test('refuses what is not a plain decimal', (t) => {
  const junk = ['', ' ', '1 ', ' 1', '+1', '--1', '1.', '.5', '01', '1,000', '1_000', '1e3', '0x10', 'NaN', 'Infinity'];
  junk.push('١', '1.0.0', '1\n', '$1', '1234567890123456', '-', '0.1234567890123', '1.0000000000000');
  for (const text of junk) t.equal(parseUsd(text), undefined, JSON.stringify(text));
  const plain = /^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,12})?$/;
  const texts = fc.oneof(fc.string(), fc.stringMatching(/^[-+]?[0-9]{0,17}[.,]?[0-9]{0,14}e?[0-9]?$/));
  fc.assert(fc.property(texts, (text) => (parseUsd(text) !== undefined) === plain.test(text)));
  t.end();
});

t.test('always shows cents, no trailing zeros after them, and credits as millionths', (t) => {
  const shown: readonly (readonly [bigint, string, string])[] = [
    [0n, '0.00', '0'],
    [25_000_000_000_000n, '25.00', '25000000'],
    [1_500_000_000_000n, '1.50', '1500000'],
    [37_500_000n, '0.0000375', '37.5'],
    [-1n, '-0.000000000001', '-0.000001'],
    [500_000n, '0.0000005', '0.5'],
  ];
  for (const [pico, usd, credits] of shown) t.strictSame([printUsd(pico), printCredits(pico)], [usd, credits]);
  t.end();
});
