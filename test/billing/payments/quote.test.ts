import fc from 'fast-check';
import t from 'tap';
import {
  readMerchantConfig,
  picoOf,
  MerchantConfigError,
  unitsFor,
} from '../../../src/billing/payments/merchant-config.ts';
import { quoteCall } from '../../../src/billing/payments/quote.ts';
import { PAY_TO, MERCHANT } from './payment-fixture.ts';

const PRICES = { prompt: 250_000n, completion: 1_500_000n };
const RULES = { defaultTokens: 1000, contextTokens: 8192, floor: 100_000_000n };

t.test('a call costs its prompt and the longest answer allowed', async (t) => {
  t.equal(quoteCall({ promptTokens: 100, maxTokens: 200 }, PRICES, RULES), 325_000_000n);
  t.equal(quoteCall({ promptTokens: 0, maxTokens: undefined }, PRICES, RULES), 1_500_000_000n, 'the default length');
  t.equal(quoteCall({ promptTokens: 8000, maxTokens: 1e9 }, PRICES, RULES), 2_288_000_000n, 'what the context leaves');
  t.equal(quoteCall({ promptTokens: 9000, maxTokens: 10 }, PRICES, RULES), 2_250_000_000n, 'no room for an answer');
  const two = { promptTokens: 8000, maxTokens: 1e9, choices: 2 };
  t.equal(quoteCall(two, PRICES, RULES), 2_576_000_000n, 'every choice has the rest of the context');
  const many = { promptTokens: 16_000, maxTokens: 1e9, choices: 2, prompts: 2 };
  t.equal(quoteCall(many, PRICES, RULES), 4_576_000_000n, 'and shares it with its own prompt alone');
  const open2 = { promptTokens: 0, maxTokens: undefined, choices: 3 };
  t.equal(quoteCall(open2, PRICES, RULES), 4_500_000_000n, 'and the default length');
  t.equal(quoteCall({ promptTokens: 1, maxTokens: 1 }, PRICES, RULES), RULES.floor);
  const open = { ...RULES, contextTokens: undefined };
  t.equal(quoteCall({ promptTokens: 0, maxTokens: 1e6 }, PRICES, open), 1_500_000_000_000n);
  t.equal(quoteCall({ promptTokens: NaN, maxTokens: -5 }, PRICES, open), RULES.floor);
});

t.test('units are never worth less than the price, nor a whole unit more', async (t) => {
  const merchants = [6, 8, 12].map((decimals) =>
    readMerchantConfig({
      network: 'base',
      payTo: PAY_TO,
      asset: { address: PAY_TO, name: 'T', version: '1', decimals },
    }),
  );
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 1n << 60n }), fc.constantFrom(...merchants), (price, { asset }) => {
      const units = unitsFor(price, asset);
      return picoOf(units, asset) >= price && (units === 0n || picoOf(units - 1n, asset) < price);
    }),
  );
  t.equal(picoOf(1n, MERCHANT.asset), 1_000_000n, 'a unit of USDC is a credit');
});

t.test('a merchant configuration accepts both names of its chain and refuses invalid settings', async (t) => {
  t.same(readMerchantConfig({ network: 'eip155:84532', payTo: PAY_TO }), MERCHANT);
  t.throws(() => readMerchantConfig({ network: 'nowhere', payTo: PAY_TO }), MerchantConfigError);
  t.throws(() => readMerchantConfig({ network: 'base', payTo: '0x12' }), MerchantConfigError);
  t.same(
    readMerchantConfig({ network: 'base-sepolia', payTo: PAY_TO, asset: { address: MERCHANT.asset.address } }),
    MERCHANT,
  );
  const other = readMerchantConfig({ network: 'base', payTo: PAY_TO, asset: { address: PAY_TO, name: 'T' } });
  t.same(other.asset, { address: PAY_TO.toLowerCase(), name: 'T', version: '2', decimals: 6 });
  t.throws(() => readMerchantConfig({ network: 'base', payTo: PAY_TO, asset: { address: PAY_TO } }), /needs a name/);
  const asset = { address: PAY_TO, name: 'T', version: '1', decimals: 18 };
  t.throws(() => readMerchantConfig({ network: 'base', payTo: PAY_TO, asset }), /decimals/);
  t.throws(
    () => readMerchantConfig({ network: 'base', payTo: PAY_TO, asset: { ...asset, address: 'x', decimals: 6 } }),
    /asset/,
  );
});
