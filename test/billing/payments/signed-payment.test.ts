import fc from 'fast-check';
import t from 'tap';
import { checkOrigin, checkTerms } from '../../../src/billing/payments/checks.ts';
import {
  decodePayment,
  MAX_PAYMENT_LENGTH,
  PaymentFormatError,
  type SignedPayment,
} from '../../../src/billing/payments/signed-payment.ts';
import { encodeHeader, headerV1, Payer, SEPOLIA_USDC, signedPayload, type Wish } from '../../support/payer.ts';
import { PAY_TO, START_S, MERCHANT, wanted } from './payment-fixture.ts';

const payer = new Payer(7n);
const WISH: Wish = { nonce: 1, nowS: START_S };
const payload = signedPayload(payer, wanted(100), WISH);
const V1 = { x402Version: 1, scheme: 'exact', network: 'base-sepolia', payload };
const ACCEPTED = {
  scheme: 'exact',
  network: 'eip155:84532',
  amount: '100',
  asset: SEPOLIA_USDC.address,
  payTo: PAY_TO,
  maxTimeoutSeconds: 300,
  extra: {},
};
const V2 = { x402Version: 2, accepted: ACCEPTED, payload, resource: { url: 'http://x' } };

function decode(document: object): SignedPayment {
  return decodePayment(JSON.stringify(document));
}

t.test('base64, base64url and raw JSON are read alike', async (t) => {
  const text = JSON.stringify(V1);
  const expected = decodePayment(text);
  t.equal(expected.authorization.value, 100n);
  t.equal(expected.authorization.from, payer.address);
  t.same(decodePayment(Buffer.from(text).toString('base64')), expected);
  t.same(decodePayment(Buffer.from(text).toString('base64url')), expected);
  t.same(decodePayment(` ${text} `), expected);
});

t.test('both versions and their mix are read', async (t) => {
  t.match(decode(V1), { version: 1, scheme: 'exact', network: 'base-sepolia', accepted: null });
  t.match(decode(V2), { version: 2, scheme: 'exact', network: 'eip155:84532', accepted: { amount: '100' } });
  t.match(decode({ ...V1, x402Version: 2, network: 'eip155:84532' }), { version: 1, network: 'eip155:84532' });
  for (const document of [V1, V2, { ...V1, x402Version: 2, network: 'eip155:84532' }]) {
    t.equal(checkOrigin(decode(document), MERCHANT), undefined);
    t.equal(checkTerms(decode(document), MERCHANT, 100n, START_S * 1000), undefined);
  }
});

t.test('another form is refused, and the message names the part', async (t) => {
  const order = payload.authorization;
  const withOrder = (change: object): object => ({
    ...V1,
    payload: { ...payload, authorization: { ...order, ...change } },
  });
  const bad: [document: unknown, message: RegExp][] = [
    [{ ...V1, x402Version: 3 }, /x402Version/],
    [{ ...V1, x402Version: '1' }, /x402Version/],
    [{ ...V1, scheme: 5 }, /scheme/],
    [{ ...V1, network: 'n'.repeat(65) }, /network/],
    [{ ...V1, payload: null }, /payload/],
    [{ ...V1, payload: [] }, /payload/],
    [{ ...V1, payload: { ...payload, signature: '0x12' } }, /signature/],
    [{ ...V1, payload: { ...payload, authorization: 'x' } }, /authorization/],
    [withOrder({ from: '0x12' }), /from/],
    [withOrder({ to: 5 }), /to/],
    [withOrder({ value: 100 }), /value/],
    [withOrder({ value: '-1' }), /value/],
    [withOrder({ value: '0100' }), /value/],
    [withOrder({ value: '1e3' }), /value/],
    [withOrder({ value: (2n ** 256n).toString() }), /value/],
    [withOrder({ validAfter: ' 1' }), /validAfter/],
    [withOrder({ validBefore: '' }), /validBefore/],
    [withOrder({ nonce: '0x12' }), /nonce/],
    [{ ...V2, accepted: null }, /accepted/],
    [{ ...V2, accepted: { ...ACCEPTED, payTo: 'x' } }, /payTo/],
    [{ ...V2, accepted: { ...ACCEPTED, amount: 100 } }, /amount/],
  ];
  for (const [document, message] of bad) {
    t.throws(() => decodePayment(encodeHeader(document as object)), { name: 'PaymentFormatError', message });
  }
  for (const text of ['', '{', '{}', 'null', 'bnVsbA==', 'W10=', '%%', 'MQ==', `{"a":${'['.repeat(9000)}`]) {
    t.throws(() => decodePayment(text), PaymentFormatError, text.slice(0, 9));
  }
  const long = JSON.stringify({ ...V1, more: 'x'.repeat(MAX_PAYMENT_LENGTH) });
  t.throws(() => decodePayment(long), /longer/);
});

t.test('random text never does anything but decode or be refused', async (t) => {
  const refusesOrReads = (text: string): void => {
    try {
      decodePayment(text);
    } catch (error) {
      if (!(error instanceof PaymentFormatError)) throw error;
      if (/[^\x20-\x7e]/.test(error.message)) throw new Error('the message repeats what was sent', { cause: error });
    }
  };
  const bytes = fc.uint8Array({ maxLength: 300 }).map((raw) => Buffer.from(raw));
  fc.assert(fc.property(fc.string({ unit: 'binary' }), refusesOrReads), { numRuns: 3000 });
  fc.assert(
    fc.property(bytes, (raw) => refusesOrReads(raw.toString('latin1'))),
    { numRuns: 3000 },
  );
  fc.assert(
    fc.property(bytes, (raw) => refusesOrReads(raw.toString('base64'))),
    { numRuns: 3000 },
  );
  fc.assert(fc.property(fc.json(), refusesOrReads), { numRuns: 3000 });
  fc.assert(
    fc.property(fc.json(), (json) => refusesOrReads(Buffer.from(json).toString('base64'))),
    { numRuns: 3000 },
  );
  t.pass('15,000 headers');
});

t.test('a payment with one random change is refused or is the same payment', async (t) => {
  const text = JSON.stringify(V1);
  const original = decodePayment(text);
  const change = fc.tuple(fc.nat(text.length - 1), fc.string({ minLength: 1, maxLength: 1 }));
  fc.assert(
    fc.property(change, ([at, character]) => {
      let payment;
      try {
        payment = decodePayment(text.slice(0, at) + character + text.slice(at + 1));
      } catch (error) {
        return error instanceof PaymentFormatError;
      }
      if (checkOrigin(payment, MERCHANT) !== undefined) return true;
      const same = { ...payment, signature: original.signature };
      return JSON.stringify(same, text_) === JSON.stringify(original, text_);
    }),
    { numRuns: 3000 },
  );
  t.pass();
});

function text_(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value;
}

t.test('a payment is checked against merchant, price and date', async (t) => {
  const at = START_S * 1000;
  const made = (wish: Partial<Wish>, units = 100): SignedPayment =>
    decodePayment(headerV1(payer, wanted(units), { ...WISH, ...wish }));
  const other = '0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed';
  t.equal(checkOrigin(decode({ ...V1, scheme: 'upto' }), MERCHANT), 'unsupported_scheme');
  t.equal(checkOrigin(decode({ ...V1, network: 'base' }), MERCHANT), 'invalid_network');
  const foreign = decode({ ...V2, accepted: { ...ACCEPTED, asset: other } });
  t.equal(checkOrigin(foreign, MERCHANT), 'invalid_payment_requirements');
  const stolen = { ...payload, authorization: { ...payload.authorization, from: other } };
  t.equal(checkOrigin(decode({ ...V1, payload: stolen }), MERCHANT), 'invalid_exact_evm_payload_signature');
  t.equal(
    checkOrigin(made({ authorization: { to: other } }), MERCHANT),
    'invalid_exact_evm_payload_recipient_mismatch',
  );
  const long = decode({ ...V1, payload: { ...payload, signature: `0x${'ab'.repeat(66)}` } });
  t.equal(checkOrigin(long, MERCHANT), undefined, 'contract wallets are for the facilitator');

  const terms = (wish: Partial<Wish>, units = 100n, nowMs = at): string | undefined =>
    checkTerms(made(wish), MERCHANT, units, nowMs);
  const before = 'invalid_exact_evm_payload_authorization_valid_before';
  t.equal(terms({ validS: 5 }), before);
  t.equal(terms({ validS: 6 }), undefined);
  t.equal(terms({}, 100n, at + 295_000), before);
  t.equal(
    terms({ authorization: { validAfter: `${START_S + 1}` } }),
    'invalid_exact_evm_payload_authorization_valid_after',
  );
  t.equal(terms({ authorization: { validAfter: `${START_S}` } }), undefined);
  t.equal(terms({}, 101n), 'invalid_exact_evm_payload_authorization_value');
  t.equal(terms({}, 99n), undefined, 'version 1 may pay more');
  t.equal(terms({ authorization: { value: (2n ** 60n).toString() } }), 'invalid_exact_evm_payload_authorization_value');
  t.equal(
    checkTerms(decode(V2), MERCHANT, 99n, at),
    'invalid_exact_evm_payload_authorization_value_mismatch',
    'version 2 pays exactly',
  );
});

t.test('a header of broken and deep JSON is refused, and ends nothing', async (t) => {
  // JSON.parse of V8 14.6 corrupts its memory when it refuses this; the process ends when memory is collected.
  const text = `{"a":${'[[[[1,'.repeat(2700)}{x`;
  t.ok(text.length < MAX_PAYMENT_LENGTH);
  for (let round = 0; round < 200; round++) t.throws(() => decodePayment(text), PaymentFormatError);
  t.equal(Array.from({ length: 1_000_000 }, (_, index) => [index]).length, 1_000_000);
});
