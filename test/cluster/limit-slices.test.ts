// The script of shared limits on a real engine: every answer is that of its model, and no key stays for ever.

import t from 'tap';
import type { SliceClaim } from '../../src/billing/index.ts';
import type { ClusterLink } from '../../src/cluster/index.ts';
import { decodeGrant, encodeClaim, LIMIT_SLICES, limitSlices } from '../../src/cluster/limit-slices.ts';
import { connectEngine } from '../../src/cluster/connection.ts';
import { LimitEngine } from '../support/limit-engine.ts';
import { Random } from '../support/random.ts';
import { startRedis } from '../support/redis.ts';

const GATEWAYS = ['a', 'b', 'c'].map((letter) => letter.repeat(16));
const SECOND_US = 1_000_000;

function randomClaim(random: Random, sequence: number): SliceClaim {
  const isKey = random.chance(0.75);
  const isQuiet = random.chance(0.15);
  const parts = Array.from({ length: isKey ? random.below(9) : 0 }, () => ({
    leavesMs: 1 + random.below(62_000),
    requests: random.below(10),
    tokens: random.below(900),
  }));
  const resource = (limit: number, used: number): SliceClaim['resources'][number] => ({
    limit: random.chance(0.15) && isKey ? -1 : limit,
    used,
    keep: used + (isQuiet ? 0 : random.below(Math.ceil(limit / 8))),
    need: isQuiet ? 0 : random.below(Math.ceil(limit / 4)),
    want: isQuiet ? 0 : random.below(Math.ceil(limit / 8)),
    first: isQuiet ? 0 : random.below(Math.ceil(limit / 4)),
  });
  const sum = (of: (part: (typeof parts)[number]) => number): number =>
    parts.reduce((total, part) => total + of(part), 0);
  const resources = isKey
    ? [
        resource(20, isQuiet ? 0 : random.below(5)),
        resource(
          200,
          sum(({ requests }) => requests),
        ),
        resource(
          9000,
          sum(({ tokens }) => tokens),
        ),
      ]
    : [resource(5e12, isQuiet ? 0 : random.below(1e12))];
  return {
    id: `${isKey ? '0' : '1'}${random.below(3)}`.padStart(32, '0'),
    kind: isKey ? 'key' : 'budget',
    sequence: random.chance(0.05) ? 1 : sequence,
    isQuiet,
    resources,
    parts,
    ledger: isKey ? 0 : random.below(2e12),
  };
}

t.test('every answer of the script is that of the model, over leases that end and windows that pass', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const connection = await connectEngine({
    ...{ url: redis.url, channels: ['none'], clientName: 'test', timeoutMs: 5000 },
    onMessage: () => undefined,
    onLost: () => undefined,
  });
  t.teardown(() => connection.close());
  // The dates in the hashes move into the past: the script has the clock of the engine, which no test can turn.
  const source = LIMIT_SLICES.source.replace("redis.call('TIME')", "{ tonumber(redis.call('GET', 'seconds')), 0 }");
  t.not(source, LIMIT_SLICES.source);
  const engine = new LimitEngine();
  const random = new Random(19);
  // Two of the gateways are connected for as long as the test runs.
  const subscriber = await connectEngine({
    ...{ url: redis.url, channels: GATEWAYS.slice(0, 2).map((gateway) => `to:${gateway}`), clientName: 'siblings' },
    ...{ timeoutMs: 5000, onMessage: () => undefined, onLost: () => undefined },
  });
  t.teardown(() => subscriber.close());
  engine.gone.add(GATEWAYS[2] as string);
  let seconds = 1_800_000_000;
  let granted = 0;
  for (let sequence = 2; sequence < 800; sequence++) {
    seconds += random.chance(0.3) ? random.below(4) : random.chance(0.03) ? random.below(80) : 0;
    const claims = Array.from({ length: random.below(4) }, () => randomClaim(random, sequence));
    const holder = random.pick(GATEWAYS);
    const keys = claims.map(({ id }) => `limit:${id}`);
    await connection.send(['SET', 'seconds', String(seconds)]);
    const answer = await connection.send([
      'EVAL',
      source,
      String(keys.length),
      ...keys,
      holder,
      ...claims.map(encodeClaim),
    ]);
    const expected = engine.exchange(holder, claims, (seconds * SECOND_US) / 1000);
    const grants = claims.map((claim, at) => decodeGrant((answer as unknown[])[at + 1], claim));
    if (!t.strictSame(grants, expected, `claims ${sequence}`)) return;
    granted += grants.length;
  }
  t.ok(granted > 500, `${granted} claims`);
  for (const key of redis.cli('KEYS', 'limit:*').split('\n')) {
    const ttl = Number(redis.cli('PTTL', key));
    t.ok(
      ttl > 0 && ttl <= (key.startsWith(`limit:${'1'.padStart(31, '0')}`) ? 900_000 : 70_000),
      `${key} has ${ttl} ms`,
    );
  }
});

t.test('what others have written into a key of limits is removed, and fails no claim', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const connection = await connectEngine({
    ...{ url: redis.url, channels: ['none'], clientName: 'test', timeoutMs: 5000 },
    onMessage: () => undefined,
    onLost: () => undefined,
  });
  t.teardown(() => connection.close());
  const resource = { limit: 100, used: 10, keep: 10, need: 5, want: 0, first: 1 };
  const claim = (kind: 'key' | 'budget'): Buffer =>
    encodeClaim({
      ...{ id: '', kind, sequence: 2, isQuiet: false, ledger: 0, parts: [] },
      resources: kind === 'key' ? [resource, resource, resource] : [resource],
    });
  const numbers = (...list: readonly number[]): Buffer => {
    const bytes = Buffer.alloc(list.length * 8);
    for (const [at, number] of list.entries()) bytes.writeDoubleLE(number, at * 8);
    return bytes;
  };
  const hash = (value: Buffer | string): Promise<unknown> => connection.send(['HSET', 'limit:bad', 'b', value]);
  const spoilt: (() => Promise<unknown>)[] = [
    () => connection.send(['SET', 'limit:bad', 'text']),
    () => connection.send(['RPUSH', 'limit:bad', 'text']),
    () => hash('text'),
    () => hash(''),
    () => hash(Buffer.alloc(47, 0xff)),
    () => hash(numbers(1)),
    () => hash(numbers(1, NaN, 1, 1, 1, 1, 1)),
    () => hash(numbers(1, 9e15, NaN, 1, 1, 1)),
    () => hash(numbers(1, 9e15, Infinity, 1, 1)),
    () => hash(numbers(1, 9e15, -5, 1, 1, 1)),
    () => hash(numbers(...Array.from({ length: 6000 }, () => 1))),
    () => connection.send(['HSET', 'limit:bad', ...Array.from({ length: 5000 }, (_, at) => String(at))]),
  ];
  for (const spoil of spoilt) {
    for (const kind of ['key', 'budget'] as const) {
      await connection.send(['FLUSHALL']);
      await spoil();
      const keys = ['limit:good', 'limit:bad'];
      const args = [GATEWAYS[0] as string, claim(kind), claim(kind)];
      const [, ...answers] = (await connection.send(['EVAL', LIMIT_SLICES.source, '2', ...keys, ...args])) as unknown[];
      t.equal(answers.length, 2);
      t.same(answers[1], answers[0], `${kind}: ${String(spoil)}`);
      t.equal(redis.cli('HKEYS', 'limit:bad'), GATEWAYS[0]);
    }
  }
});

t.test('an engine that refuses writes is not asked for slices again', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const connection = await connectEngine({
    ...{ url: redis.url, channels: ['none'], clientName: 'test', timeoutMs: 5000 },
    onMessage: () => undefined,
    onLost: () => undefined,
  });
  t.teardown(() => connection.close());
  const link = {
    ...{ instance: GATEWAYS[0], key: (...parts: string[]) => parts.join(':') },
    command: (args: string[]) => connection.send(args),
    script: ({ source }: typeof LIMIT_SLICES, keys: string[], args: string[]) =>
      connection.send(['EVAL', source, String(keys.length), ...keys, ...args]),
  } as unknown as ClusterLink;
  t.same(await limitSlices(link).exchange([], 50), []);
  redis.cli('CONFIG', 'SET', 'maxmemory', '1');
  await t.rejects(limitSlices(link).exchange([], 50), /OOM/);
  redis.cli('CONFIG', 'SET', 'maxmemory', '0');
  redis.cli('REPLICAOF', '127.0.0.1', '1');
  await t.rejects(limitSlices(link).exchange([], 50), /READONLY/);
});

t.test('answers that are none of the script are refused', async (t) => {
  const claim = randomClaim(new Random(1), 2);
  t.throws(() => decodeGrant('text', claim), TypeError);
  t.throws(() => decodeGrant(Buffer.alloc(8), claim), TypeError);
  const wrong = Buffer.alloc((3 * claim.resources.length + 2) * 8);
  wrong.writeDoubleLE(NaN, 0);
  t.throws(() => decodeGrant(wrong, claim), TypeError);
  wrong.writeDoubleLE(-1, 0);
  t.throws(() => decodeGrant(wrong, claim), TypeError);
  const link = {
    ...{ instance: GATEWAYS[0], key: (...parts: string[]) => parts.join(':') },
    script: async () => [Buffer.from('0')],
  } as unknown as ClusterLink;
  await t.rejects(limitSlices(link).exchange([claim], 50), TypeError);
});
