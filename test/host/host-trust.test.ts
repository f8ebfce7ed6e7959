import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ManualClock, createManualClock } from '../../src/actor/testkit.ts';
import { type SigningKey, hashKey } from '../../src/billing/index.ts';
import { createSigningKey, readTrustedKeys, signSnapshot } from '../../src/billing/main-thread.ts';
import { type SnapshotStore, type TrustSettings, HostTrust, snapshotFile } from '../../src/host/host-trust.ts';
import type { BufferedRequest } from '../../src/net/buffered-client.ts';
import { advance } from '../support/advance.ts';

import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/temporary-folder.ts';

const GATEWAY = createSigningKey();
const START = 1_700_000_000_000;

/** A snapshot of keys, each of an account of its own name. */
function snapshot(version: number, keys: readonly string[], key: SigningKey = GATEWAY, expiresMs?: number): Buffer {
  const records = keys.map((name) => ({
    hash: hashKey(name),
    account: name,
    ...(expiresMs === undefined ? {} : { expiresMs }),
  }));
  return signSnapshot({ version, issuedAtMs: version, keys: records }, key);
}

interface Scene {
  readonly clock: ManualClock;
  readonly trust: HostTrust;
  readonly asked: BufferedRequest[];
  readonly problems: string[];
  /** What the gateway answers; null for no connection. */
  gateway: readonly [number, Buffer] | null | Promise<readonly [number, Buffer]>;
  readonly turn: () => Promise<void>;
  readonly advance: (ms: number) => Promise<void>;
}

function setUp(t: Test, settings: Partial<TrustSettings> = {}, store: SnapshotStore | null = null): Scene {
  const clock = createManualClock(START);
  const scene: Scene = {
    clock,
    asked: [],
    problems: [],
    gateway: null,
    trust: new HostTrust(
      {
        trusted: readTrustedKeys(GATEWAY.publicKey),
        gateway: 'http://gateway:9090',
        token: 'sesame',
        intervalMs: 30_000,
        own: [],
        ...settings,
      },
      {
        clock,
        random: () => 0.5,
        wallMs: () => clock.now(),
        store,
        log: { info: () => {}, warn: (_: object, text: string) => void scene.problems.push(text) } as never,
        send: async (request) => {
          scene.asked.push(request);
          const answer = await scene.gateway;
          if (answer === null) throw new Error('no connection');
          return { status: answer[0], body: answer[1] };
        },
      },
    ),
    turn: () => new Promise((resolve) => void setImmediate(resolve)),
    advance: (ms) => advance(clock, ms),
  };
  t.teardown(() => scene.trust.close());
  return scene;
}

t.test('knows no key before the first snapshot, and the keys of the last one after', async (t) => {
  const { trust } = setUp(t);
  t.equal(trust.ready, false);
  t.same(trust.check('one'), { kind: 'bad' });
  t.same(trust.check(undefined), { kind: 'none' });
  t.same(trust.answer('POST', snapshot(START, ['one', 'two'])), {
    status: 200,
    headers: {},
    body: { status: 'taken', version: START, keys: 2 },
  });
  t.equal(trust.ready, true);
  t.match(trust.check('one'), { kind: 'good', account: 'one' });
  trust.answer('POST', snapshot(START + 1, ['two']));
  t.same(trust.check('one'), { kind: 'bad' }, 'revoked, although it was seen as good before');
  t.match(trust.check('two'), { kind: 'good', account: 'two' });
});

t.test('keys of its own stay good beside those of the gateway', async (t) => {
  const { trust } = setUp(t, { own: [{ hash: hashKey('mine'), account: 'local' }] });
  t.match(trust.check('mine'), { kind: 'good', account: 'local' });
  trust.answer('POST', snapshot(START, ['one']));
  t.match(trust.check('mine'), { kind: 'good', account: 'local' });
});

t.test('a key is bad from the moment it expires', async (t) => {
  const { trust, clock } = setUp(t);
  trust.answer('POST', snapshot(START, ['brief'], GATEWAY, START + 1000));
  clock.advance(999);
  t.equal(trust.check('brief').kind, 'good');
  clock.advance(1);
  t.equal(trust.check('brief').kind, 'bad');
  trust.answer('POST', snapshot(START + 1000, ['late'], GATEWAY, START));
  t.equal(trust.check('late').kind, 'bad', 'one that has expired on arrival never is good');
});

t.test('what is refused changes nothing and is answered by its reason', async (t) => {
  const { trust, problems } = setUp(t);
  trust.answer('POST', snapshot(START, ['one']));
  const good = snapshot(START + 1, ['thief']);
  const bent = Buffer.from(good);
  bent[bent.length - 5] = 0;
  for (const [body, status, problem] of [
    [snapshot(START, ['one']), 409, 'replayed'],
    [snapshot(START - 1, ['thief']), 409, 'replayed'],
    [snapshot(START + 3_600_000, ['thief']), 409, 'early'],
    [snapshot(START + 1, ['thief'], createSigningKey()), 403, 'untrusted'],
    [bent, 403, 'forged'],
    [good.subarray(0, good.length - 1), 403, 'forged'],
    [good.subarray(0, 50), 400, 'malformed'],
    [Buffer.alloc(0), 400, 'malformed'],
    [Buffer.alloc(16 * 1024 * 1024 + 1), 413, 'oversize'],
  ] as const) {
    t.match(trust.answer('POST', body), { status, body: { problem, version: START, detail: /^the snapshot / } });
  }
  t.equal(problems.length, 9);
  t.same(trust.check('thief'), { kind: 'bad' });
  t.equal(trust.check('one').kind, 'good');
});

t.test('says whom it trusts, and what it can be asked', async (t) => {
  const { trust } = setUp(t);
  t.match(trust.answer('GET', Buffer.alloc(0)), { status: 200, body: { trusted: [GATEWAY.id], version: null } });
  trust.answer('POST', snapshot(START, []));
  t.match(trust.answer('GET', Buffer.alloc(0)), { body: { version: START } });
  t.match(trust.answer('DELETE', Buffer.alloc(0)), { status: 405, headers: { allow: 'GET, POST' } });
});

t.test('a host that starts first asks until somebody answers', async (t) => {
  const scene = setUp(t);
  await scene.trust.start();
  t.match(scene.trust.health(), { version: null, ageS: null, stale: true, gateway: 'lost' });
  await scene.advance(2000);
  t.equal(scene.asked.length, 4, 'after 250, 500 and 1000 ms');
  t.match(scene.asked[0], {
    method: 'GET',
    url: 'http://gateway:9090/keys/snapshot',
    headers: { authorization: 'Bearer sesame' },
  });
  t.equal(scene.problems.length, 1, 'said once');
  scene.gateway = [401, Buffer.alloc(0)];
  await scene.advance(2000);
  t.equal(scene.trust.ready, false);
  scene.gateway = [200, snapshot(START + 2000, ['one'])];
  await scene.advance(4000);
  t.match(scene.trust.check('one'), { kind: 'good', account: 'one' });
  t.match(scene.trust.health(), { version: START + 2000, stale: false, gateway: 'reachable' });
  t.equal(scene.asked.length, 6);
});

t.test('a gateway that pushes is not asked; one that falls silent is, and then found lost', async (t) => {
  const scene = setUp(t);
  scene.gateway = [200, snapshot(START, ['one'])];
  await scene.trust.start();
  for (let cycle = 1; cycle <= 5; cycle++) {
    await scene.advance(30_000);
    scene.trust.answer('POST', snapshot(scene.clock.now(), ['one']));
  }
  t.equal(scene.asked.length, 1);
  scene.gateway = null;
  await scene.advance(44_999);
  t.match(scene.trust.health(), { ageS: 44, stale: false, gateway: 'reachable' });
  await scene.advance(1);
  t.match(scene.trust.health(), { ageS: 45, stale: false, gateway: 'lost' });
  await scene.advance(45_001);
  t.match(scene.trust.health(), { ageS: 90, stale: true, gateway: 'lost' });
  t.equal(scene.trust.check('one').kind, 'good', 'the last snapshot stays in force');
  scene.trust.answer('POST', snapshot(scene.clock.now(), ['one']));
  t.match(scene.trust.health(), { ageS: 0, stale: false, gateway: 'reachable' });
});

t.test('an answer that a push has overtaken is no failure', async (t) => {
  const scene = setUp(t);
  const slow = Promise.withResolvers<readonly [number, Buffer]>();
  scene.gateway = slow.promise;
  const started = scene.trust.start();
  await scene.turn();
  scene.trust.answer('POST', snapshot(START, ['one']));
  slow.resolve([200, snapshot(START, ['one'])]);
  await started;
  t.match(scene.trust.health(), { gateway: 'reachable' });
  t.same(scene.problems, []);
});

t.test('an answer that is no snapshot is a failure', async (t) => {
  const scene = setUp(t);
  scene.gateway = [200, snapshot(START, ['thief'], createSigningKey())];
  await scene.trust.start();
  t.match(scene.trust.health(), { version: null, gateway: 'lost' });
  t.equal(scene.trust.check('thief').kind, 'bad');
});

t.test('without the address of a gateway it waits to be told', async (t) => {
  const scene = setUp(t, { gateway: null });
  await scene.trust.start();
  await scene.advance(600_000);
  t.same(scene.asked, []);
  t.match(scene.trust.health(), { gateway: 'unknown' });
});

t.test('a restart without the gateway uses the snapshot on disk, however old', async (t) => {
  const path = join(temporaryFolder(t), 'keys');
  const first = setUp(t, {}, snapshotFile(path));
  await first.trust.start();
  first.trust.answer('POST', snapshot(START, ['one', 'two']));
  first.trust.answer('POST', snapshot(START + 1, ['two']));
  await first.trust.close();
  t.same(readdirSync(join(path, '..')), ['keys'], 'nothing is left beside it');
  t.notMatch(readFileSync(path, 'utf8'), 'secret');
  const second = setUp(t, {}, snapshotFile(path));
  second.clock.advance(86_400_000);
  await second.trust.start();
  t.equal(second.trust.check('two').kind, 'good');
  t.equal(second.trust.check('one').kind, 'bad', 'the last of two writes is the one on disk');
  t.match(second.trust.health(), { version: START + 1, ageS: 86_399, stale: true, gateway: 'lost' });
  t.match(second.trust.answer('POST', snapshot(START, ['one'])), { status: 409 }, 'older ones stay refused');
});

t.test('a file that was changed, or cannot be read or written, is said and not used', async (t) => {
  const path = join(t.testdir({ keys: snapshot(START, ['thief'], createSigningKey()) }), 'keys');
  const scene = setUp(t, {}, snapshotFile(path));
  await scene.trust.start();
  t.equal(scene.trust.ready, false);
  t.match(scene.problems, [/stored key snapshot cannot be used/, /gateway sends no keys/]);
  writeFileSync(path, '');
  chmodSync(path, 0o600);
  const odd = setUp(t, {}, snapshotFile(join(path, 'below-a-file')));
  await odd.trust.start();
  odd.trust.answer('POST', snapshot(START, ['one']));
  await odd.trust.close();
  t.equal(odd.trust.check('one').kind, 'good');
  t.match(odd.problems.at(-1), /could not be written to disk/);
});

t.test('nothing is asked after the end', async (t) => {
  const scene = setUp(t);
  const late = Promise.withResolvers<readonly [number, Buffer]>();
  scene.gateway = late.promise;
  const started = scene.trust.start();
  await scene.turn();
  await scene.trust.close();
  late.resolve([200, snapshot(START, ['one'])]);
  await started;
  t.equal(scene.trust.ready, false);
  t.equal(scene.clock.nextDueMs, Infinity);
});
