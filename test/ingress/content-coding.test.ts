// Decoding of request bodies: what comes out is what went in, within size, ratio and memory; and whatever comes in, there is one outcome
// and no memory stays taken.

import { randomBytes } from 'node:crypto';
import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import { HeadraceError } from '../../src/errors.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import { type Coding, codingsOf, Decoding } from '../../src/ingress/content-coding.ts';

const ENCODERS: Readonly<Record<string, readonly [Coding, (bytes: Buffer) => Buffer]>> = {
  gzip: ['gzip', (bytes) => gzipSync(bytes)],
  deflate: ['deflate', (bytes) => deflateSync(bytes)],
  'deflate without its format': ['deflate', (bytes) => deflateRawSync(bytes)],
  br: ['br', (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } })],
  zstd: ['zstd', (bytes) => zstdCompressSync(bytes)],
};

const MAX_BYTES = 4 * 1024 * 1024;
const BUDGET_BYTES = 64 * 1024 * 1024;

/** Notes the most that was taken at a time. */
class PeakBudget extends BodyBudget {
  most = 0;

  override take(bytes: number, keyless: boolean): boolean {
    const isTaken = super.take(bytes, keyless);
    this.most = Math.max(this.most, this.usedBytes);
    return isTaken;
  }
}

interface Outcome {
  readonly code: string;
  readonly message: string;
  readonly body: Buffer;
}

async function decode(
  bytes: Buffer,
  codings: readonly Coding[],
  budget: BodyBudget = new BodyBudget(BUDGET_BYTES),
): Promise<Outcome> {
  const limits = {
    maxBytes: MAX_BYTES,
    take: (count: number) => budget.take(count, false),
    give: (count: number) => budget.give(count, false),
  };
  const outcome = await new Promise<Outcome>((resolve) => {
    new Decoding(bytes, codings, limits, (error, body) =>
      resolve({ code: error?.code ?? '', message: error?.message ?? '', body }),
    );
  });
  if (outcome.code === '') budget.give(outcome.body.byteLength, false);
  if (budget.usedBytes !== 0) throw new Error(`${budget.usedBytes} bytes stay taken`);
  return outcome;
}

t.test('names of codings, with what is not supported', async (t) => {
  t.same(codingsOf('gzip'), ['gzip']);
  t.same(codingsOf(' X-GZIP , identity,,br'), ['gzip', 'br']);
  t.same(codingsOf('identity'), []);
  t.same(codingsOf(''), []);
  for (const value of ['compress', 'gzip;q=1', 'aws-chunked', 'gzip, br, zstd', 'gzip,'.repeat(1000), '\u00e9']) {
    const error = codingsOf(value);
    t.ok(error instanceof HeadraceError, value.slice(0, 20));
    t.match(error, {
      code: 'HR_REQUEST_ENCODING',
      status: 415,
      headers: ['accept-encoding', 'gzip, deflate, br, zstd'],
    });
  }
});

for (const [name, [coding, encode]] of Object.entries(ENCODERS)) {
  t.test(`${name}: every body comes out as it went in`, async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300_000, size: 'max' }), async (data) => {
        const body = Buffer.from(data);
        const { body: decoded } = await decode(encode(body), [coding]);
        return decoded.equals(body);
      }),
      { numRuns: 20 },
    );
    const large = randomBytes(MAX_BYTES);
    t.ok((await decode(encode(large), [coding])).body.equals(large), 'the largest one');
  });

  t.test(`${name}: a body that is cut, followed by something, changed or none is refused or as it was`, async (t) => {
    const body = Buffer.from(JSON.stringify({ text: 'Where does the water go? '.repeat(200), id: 'a81bc81b' }));
    const sound = encode(body);
    for (let length = 1; length < sound.length; length++) {
      t.match(await decode(sound.subarray(0, length), [coding]), { code: 'HR_REQUEST_MALFORMED' }, `${length} bytes`);
    }
    for (const garbage of ['\0', 'x', '{"model":"b"}', '\x1f\x8b', '\x28\xb5\x2f\xfd']) {
      const followed = Buffer.concat([sound, Buffer.from(garbage, 'latin1')]);
      t.match(await decode(followed, [coding]), { code: 'HR_REQUEST_MALFORMED' }, JSON.stringify(garbage));
    }
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 5 }), async (changes) => {
        const changed = Buffer.from(sound);
        for (const [at, value] of changes) changed[at % changed.length] = value;
        const { code } = await decode(changed, [coding]);
        return code === '' || code === 'HR_REQUEST_MALFORMED' || code === 'HR_REQUEST_TOO_LARGE';
      }),
      { numRuns: 200 },
    );
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 200 }), async (data) => {
        const { code } = await decode(Buffer.from(data), [coding]);
        return code === '' || code === 'HR_REQUEST_MALFORMED' || code === 'HR_REQUEST_TOO_LARGE';
      }),
      { numRuns: 200 },
    );
  });

  t.test(`${name}: bombs are refused, and take no more memory than a body may`, async (t) => {
    const counted = new PeakBudget(BUDGET_BYTES);
    const bomb = encode(Buffer.alloc(16 * 1024 * 1024));
    const outcome = await decode(bomb, [coding], counted);
    t.equal(outcome.code, 'HR_REQUEST_TOO_LARGE');
    t.match(outcome.message, /^Request body exceeds .+ bytes$/);
    t.ok(counted.most <= MAX_BYTES + 1024 * 1024, `${counted.most} bytes taken`);
    t.match(await decode(encode(bomb), [coding, coding], counted), { code: 'HR_REQUEST_TOO_LARGE' }, 'in itself');
    const small = new BodyBudget(128 * 1024);
    t.match(await decode(encode(Buffer.alloc(1024 * 1024, 'ab')), [coding], small), { code: 'HR_OVERLOADED' });
    t.equal((await decode(encode(Buffer.alloc(1024 * 1024)), [coding])).code, '', 'a MiB may have any ratio');
  });
}

t.test('two codings are undone in the order of their undoing', async (t) => {
  const body = Buffer.from('{"a":1}');
  t.ok((await decode(zstdCompressSync(gzipSync(body)), ['gzip', 'zstd'])).body.equals(body));
  t.equal((await decode(gzipSync(zstdCompressSync(body)), ['gzip', 'zstd'])).code, 'HR_REQUEST_MALFORMED');
});

t.test('many bodies at once are all decoded, and those that are given up take nothing', async (t) => {
  const budget = new BodyBudget(BUDGET_BYTES);
  const body = Buffer.alloc(200_000, 'The canal leads to the wheel. ');
  const sent = gzipSync(body);
  const limits = {
    maxBytes: MAX_BYTES,
    take: (count: number) => budget.take(count, false),
    give: (count: number) => budget.give(count, false),
  };
  let given = 0;
  const decoded = Array.from(
    { length: 60 },
    (_, at) =>
      new Promise<boolean>((resolve) => {
        const decoding = new Decoding(sent, ['gzip'], limits, (_error, bytes) => {
          budget.give(bytes.byteLength, false);
          given++;
          resolve(bytes.equals(body));
        });
        if (at % 3 > 0) return;
        // Some wait and some are under way.
        if (at % 2 === 0) decoding.abort();
        else setImmediate(() => decoding.abort());
        resolve(true);
      }),
  );
  t.ok((await Promise.all(decoded)).every(Boolean));
  t.equal(given, 40);
  t.equal(budget.usedBytes, 0);
});

t.test('thousands of malformed bodies that wait are all refused', async (t) => {
  const limits = { maxBytes: MAX_BYTES, take: () => true, give: () => undefined };
  const sound = gzipSync(Buffer.alloc(200_000, 'The canal leads to the wheel. '));
  const count = 20_000;
  let refused = 0;
  const outcomes = Array.from({ length: 8 + count }, (_, at) => {
    const [bytes, coding]: [Buffer, Coding] = at < 8 ? [sound, 'gzip'] : [Buffer.from('{"model":"b"}'), 'zstd'];
    return new Promise<void>((resolve) => {
      new Decoding(bytes, [coding], limits, (error) => {
        if (error?.code === 'HR_REQUEST_MALFORMED') refused++;
        resolve();
      });
    });
  });
  await Promise.all(outcomes);
  t.equal(refused, count);
});
