import fc from 'fast-check';
import t from 'tap';
import { printUsd } from '../../src/billing/money.ts';
import { costOf, exactUsdText, picoPerCall, picoPerToken, modelPriceOf, usdText } from '../../src/billing/prices.ts';
import { perToken } from '../../src/catalog/models.ts';

t.test('prices become whole pico-USD without a float in between', async (t) => {
  t.equal(picoPerToken('0.25'), 250_000);
  t.equal(picoPerToken('0.1'), 100_000);
  t.equal(picoPerToken('1.50'), 1_500_000);
  t.equal(picoPerToken('0'), 0);
  t.equal(picoPerToken('0.0000001'), 1, 'never below the price');
  t.equal(picoPerToken('0.3000000'), 300_000);
  t.equal(picoPerToken('000000000.25'), 250_000, 'as the configuration takes it');
  t.equal(picoPerToken('00000000'), 0);
  t.equal(picoPerCall('0.005'), 5_000_000_000);
  t.equal(picoPerCall('0.000000000001'), 1);
  for (const wrong of ['', '-1', '1e3', '1.', '.5', 'x', '12345678'])
    t.throws(() => picoPerToken(wrong), RangeError, wrong);
  t.throws(() => picoPerCall('9999999'), RangeError);
});

t.test('the charge for a token is its list price', async () => {
  fc.assert(
    fc.property(fc.nat(9999), fc.nat(999_999), (whole, part) => {
      const price = `${whole}.${String(part).padStart(6, '0')}`;
      const [units = '', fraction = ''] = perToken(price).split('.');
      return BigInt(units + fraction.padEnd(12, '0')) === BigInt(picoPerToken(price));
    }),
  );
});

t.test('cached prompt tokens have a price of their own', async (t) => {
  const modelPrice = modelPriceOf({ prompt: '2', completion: '3', cachedPrompt: '0.5' });
  t.equal(costOf(modelPrice, { promptTokens: 10, cachedTokens: 4, completionTokens: 1 }), 6 * 2e6 + 4 * 5e5 + 3e6);
  t.equal(
    costOf(modelPrice, { promptTokens: 2, cachedTokens: 9, completionTokens: 0 }),
    1e6,
    'more cached than there are',
  );
  const plain = modelPriceOf({ prompt: '2', completion: '3' });
  t.equal(costOf(plain, { promptTokens: 10, cachedTokens: 4, completionTokens: 0 }), 2e7);
});

t.test('amounts are shown in USD, rounded up to a millionth', async (t) => {
  t.equal(usdText(0), '0');
  t.equal(usdText(1), '0.000001');
  t.equal(usdText(12_300_000_000), '0.0123');
  t.equal(usdText(3e12), '3');
});

t.test('the cost of a request is a whole number that can be charged', async (t) => {
  const modelPrice = modelPriceOf({ prompt: '9000000', completion: '0.25' });
  const cost = costOf(modelPrice, { promptTokens: 2 ** 31, completionTokens: 2 ** 50, cachedTokens: 0 });
  t.equal(cost, Number.MAX_SAFE_INTEGER);
});

t.test('exact amounts are printed as the ledger prints them', async () => {
  const amount = fc.oneof(
    fc.maxSafeNat(),
    fc.nat(1e9),
    fc.nat(9007).map((usd) => usd * 1e12),
  );
  fc.assert(fc.property(amount, (pico) => exactUsdText(pico) === printUsd(BigInt(pico))));
});
