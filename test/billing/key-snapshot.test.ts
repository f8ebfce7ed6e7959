import { createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { hashKey, type KeySnapshot, type SigningKey } from '../../src/billing/index.ts';
import {
  createSigningKey,
  MAX_SKEW_MS,
  MAX_SNAPSHOT_BYTES,
  nextVersion,
  printSigningKey,
  readSigningKey,
  readTrustedKey,
  readTrustedKeys,
  signSnapshot,
  SnapshotError,
  verifySnapshot,
} from '../../src/billing/main-thread.ts';

const NOW = 1_700_000_000_000;
const KEY = createSigningKey();
const TRUSTED = readTrustedKeys(KEY.publicKey);
const CONTENT = {
  version: NOW,
  issuedAtMs: NOW,
  keys: [
    { hash: hashKey('b'), account: 'beta', expiresMs: NOW + 1 },
    { hash: hashKey('a'), account: 'álpha "one"' },
  ],
};
const BODY = signSnapshot(CONTENT, KEY);

function check(body: Uint8Array, held = 0, nowMs = NOW): KeySnapshot {
  return verifySnapshot(body, { trusted: TRUSTED, held, nowMs });
}

/** The word for why a snapshot is refused; fails on any other error. */
function refusal(body: Uint8Array, held = 0, nowMs = NOW): string {
  try {
    check(body, held, nowMs);
  } catch (error) {
    if (error instanceof SnapshotError) return error.problem;
    throw error;
  }
  return 'accepted';
}

/** Signs what a gateway never would. */
function signText(payload: string, key: SigningKey = KEY): Buffer {
  const signature = sign(null, Buffer.from(`headrace-keys-1 ${key.id}\n${payload}`), key.privateKey);
  return Buffer.from(`headrace-keys-1 ${key.id} ${signature.toString('base64url')}\n${payload}`);
}

t.test('a snapshot contains what was signed, keys ordered by hash', async (t) => {
  const { keys, ...rest } = check(BODY);
  t.same(rest, { version: NOW, issuedAtMs: NOW, issuer: KEY.id });
  t.same(
    keys,
    CONTENT.keys.toSorted((a, b) => (a.hash < b.hash ? -1 : 1)),
  );
  const turned = signSnapshot({ ...CONTENT, keys: CONTENT.keys.toReversed() }, KEY);
  t.ok(turned.equals(BODY), 'the same keys are the same bytes');
  t.notMatch(BODY.toString(), /"a"|"b"/, 'no key is in it');
});

t.test('a snapshot is accepted once, and never after a later one', async (t) => {
  t.equal(refusal(BODY, NOW - 1), 'accepted');
  t.equal(refusal(BODY, NOW), 'replayed');
  t.equal(refusal(BODY, NOW + 1), 'replayed');
});

t.test('a replayed snapshot is refused when it is old, one from the future at once', async (t) => {
  t.equal(refusal(BODY, 0, NOW + 300_000), 'accepted');
  t.equal(refusal(BODY, 0, NOW + 300_001), 'stale');
  t.equal(refusal(BODY, 0, NOW - MAX_SKEW_MS), 'accepted');
  t.equal(refusal(BODY, 0, NOW - MAX_SKEW_MS - 1), 'early');
  t.equal(
    refusal(signSnapshot({ ...CONTENT, version: NOW + 1e9 }, KEY)),
    'early',
    'no version locks out the next ones',
  );
  const kept = verifySnapshot(BODY, { trusted: TRUSTED, held: 0, nowMs: NOW + 1e12, fresh: false });
  t.equal(kept.version, NOW, 'one from disk may be of any age');
});

t.test('every flipped bit and every cut is refused', async (t) => {
  for (let index = 0; index < BODY.length; index++) {
    const bent = Buffer.from(BODY);
    bent[index] = (bent[index] ?? 0) ^ 1;
    if (refusal(bent) === 'accepted' && !sameSignature(bent)) t.fail(`byte ${index}`);
    if (refusal(BODY.subarray(0, index)) === 'accepted') t.fail(`cut at ${index}`);
  }
  t.equal(refusal(Buffer.concat([BODY, Buffer.from(' ')])), 'forged', 'nothing can be added');
});

/** The last letter of a signature in base64url has two bits that mean nothing. */
function sameSignature(bent: Buffer): boolean {
  const signature = (body: Buffer): string => body.toString('latin1').split(/[ \n]/, 3)[2] ?? '';
  return Buffer.from(signature(bent), 'base64url').equals(Buffer.from(signature(BODY), 'base64url'));
}

t.test('an untrusted key is refused, also under the id of a trusted one', async (t) => {
  const untrusted = createSigningKey();
  t.equal(refusal(signSnapshot(CONTENT, untrusted)), 'untrusted');
  t.equal(refusal(signSnapshot(CONTENT, { ...untrusted, id: KEY.id })), 'forged');
  const both = readTrustedKeys(`${KEY.publicKey}, ${untrusted.publicKey}`);
  t.equal(
    verifySnapshot(signSnapshot(CONTENT, untrusted), { trusted: both, held: 0, nowMs: NOW }).issuer,
    untrusted.id,
  );
});

t.test('a signature over other bytes is refused', async (t) => {
  const payload = BODY.subarray(BODY.indexOf('\n') + 1);
  const signature = sign(null, payload, KEY.privateKey).toString('base64url');
  t.equal(refusal(Buffer.concat([Buffer.from(`headrace-keys-1 ${KEY.id} ${signature}\n`), payload])), 'forged');
});

t.test('what is signed must still be a snapshot', async (t) => {
  const row = `["${hashKey('a')}","a"]`;
  for (const payload of [
    '',
    'null',
    '[]',
    '{',
    '{"version":1,"issuedAtMs":1}',
    `{"version":1.5,"issuedAtMs":${NOW},"keys":[]}`,
    `{"version":"9","issuedAtMs":${NOW},"keys":[]}`,
    `{"version":1,"issuedAtMs":${NOW},"keys":[["short","a"]]}`,
    `{"version":1,"issuedAtMs":${NOW},"keys":[null]}`,
    `{"version":1,"issuedAtMs":${NOW},"keys":[["${hashKey('a').toUpperCase()}","a"]]}`,
    `{"version":1,"issuedAtMs":${NOW},"keys":[["${hashKey('a')}",7]]}`,
    `{"version":1,"issuedAtMs":${NOW},"keys":[["${hashKey('a')}","a","tomorrow"]]}`,
  ]) {
    t.equal(refusal(signText(payload)), 'malformed', payload);
  }
  t.equal(refusal(signText(`{"version":1,"issuedAtMs":${NOW},"keys":[${row}],"later":true}`)), 'accepted');
});

t.test('sizes are bounded on both sides', async (t) => {
  t.equal(refusal(Buffer.alloc(MAX_SNAPSHOT_BYTES + 1)), 'oversize');
  const keys = Array.from({ length: 100_000 }, (_, index) => ({
    hash: hashKey(String(index)),
    account: `account-${index}`,
  }));
  const large = signSnapshot({ ...CONTENT, keys }, KEY);
  t.equal(check(large).keys.length, 100_000);
  const long = keys.slice(0, 2000).map(({ hash }) => ({ hash, account: 'x'.repeat(10_000) }));
  t.throws(() => signSnapshot({ ...CONTENT, keys: long }, KEY), {
    name: 'SnapshotError',
    message: '2000 keys are more than a snapshot holds',
  });
});

t.test('random bytes are refused with a reason', async () => {
  const noise = fc.uint8Array({ maxLength: 400 });
  fc.assert(
    fc.property(noise, (bytes) => refusal(bytes) === 'malformed'),
    { numRuns: 2000 },
  );
  const headed = fc.tuple(fc.stringMatching(/^[\w-]{86}$/), noise);
  fc.assert(
    fc.property(headed, ([signature, bytes]) => {
      const body = Buffer.concat([Buffer.from(`headrace-keys-1 ${KEY.id} ${signature}\n`), bytes]);
      return refusal(body) === 'forged';
    }),
    { numRuns: 500 },
  );
  fc.assert(
    fc.property(fc.json(), (payload) =>
      ['malformed', 'early', 'stale', 'replayed'].includes(refusal(signText(payload))),
    ),
    { numRuns: 500 },
  );
  const spliced = fc.tuple(fc.nat(BODY.length - 1), fc.uint8Array({ minLength: 1, maxLength: 40 }));
  fc.assert(
    fc.property(spliced, ([at, bytes]) => {
      const body = Buffer.concat([BODY.subarray(0, at), bytes, BODY.subarray(at)]);
      return ['malformed', 'untrusted', 'forged'].includes(refusal(body));
    }),
    { numRuns: 1000 },
  );
});

t.test('versions grow with the date, and when the date does not', async (t) => {
  t.equal(nextVersion(0, NOW), NOW);
  t.equal(nextVersion(NOW, NOW), NOW + 1);
  t.equal(nextVersion(NOW + 5, NOW), NOW + 6, 'the clock was set back');
  t.equal(nextVersion(NOW + 60_001, NOW), NOW, 'it was set back so far that no host would take a later version');
});

t.test('signing keys are read as PEM and as the bytes of the seed', async (t) => {
  t.equal(readSigningKey(printSigningKey(KEY)).publicKey, KEY.publicKey);
  const seed = KEY.privateKey.export({ format: 'jwk' }).d ?? '';
  t.equal(readSigningKey(` ${seed}\n`).id, KEY.id);
  t.equal(readSigningKey(Buffer.from(seed, 'base64url').toString('base64')).id, KEY.id);
});

t.test('public keys are read as PEM and as bytes', async (t) => {
  const pem = createPublicKey(KEY.privateKey).export({ format: 'pem', type: 'spki' }) as string;
  t.equal(readTrustedKey(pem).id, KEY.id);
  t.equal(readTrustedKey(KEY.publicKey).id, KEY.id);
});

t.test('what is not an Ed25519 key is refused without being repeated', async (t) => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 1024 });
  const pem = rsa.privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
  for (const text of ['', 'sesame', 'A'.repeat(44), `${'A'.repeat(42)}*=`, pem, KEY.publicKey.slice(1)]) {
    t.throws(() => readSigningKey(text), { message: 'is no Ed25519 private key (PEM, or 32 bytes in base64)' });
  }
  const open = rsa.publicKey.export({ format: 'pem', type: 'spki' }) as string;
  for (const text of ['', 'sesame', open, printSigningKey(KEY)]) {
    t.throws(() => readTrustedKey(text), { message: 'is no Ed25519 public key (PEM, or 32 bytes in base64)' });
  }
  t.throws(() => readTrustedKeys(`${KEY.publicKey},`));
});
