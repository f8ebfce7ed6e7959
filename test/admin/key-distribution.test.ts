// Distribution of key snapshots to hosts on a manual clock: first request, pushes, retries, versions and hosts without support.
import t from 'tap';
import { hashKey, type SnapshotKey } from '../../src/billing/index.ts';
import { createSigningKey, readTrustedKeys, verifySnapshot } from '../../src/billing/main-thread.ts';
import { createManualClock, type ManualClock } from '../../src/actor/testkit.ts';
import { KeyDistribution } from '../../src/admin/key-distribution.ts';
import type { BufferedRequest } from '../../src/net/buffered-client.ts';
import { advance } from '../support/advance.ts';

const SIGNING = createSigningKey();
const TRUSTED = readTrustedKeys(SIGNING.publicKey);
const START = 1_700_000_000_000;
const A: SnapshotKey = { hash: hashKey('a'), account: 'a' };
const B: SnapshotKey = { hash: hashKey('b'), account: 'b' };

interface Call extends BufferedRequest {
  readonly atMs: number;
}

/** Hosts that answer as `respond` says: a status, a status and a body, or null for no connection. */
interface Scene {
  readonly clock: ManualClock;
  /** What the wall clock is ahead of `clock`. */
  aheadMs: number;
  readonly calls: Call[];
  readonly problems: object[];
  readonly distribution: KeyDistribution;
  respond: (request: BufferedRequest) => number | readonly [number, object] | null | Promise<never>;
  /** Accounts of the last push to a host. */
  readonly accounts: (url: string) => string[] | undefined;
  /** Lets promises run. */
  readonly turn: () => Promise<void>;
  readonly advance: (ms: number) => Promise<void>;
}

const SUBSCRIBED = [200, { trusted: [SIGNING.id], version: null }] as const;

function takesAll({ method }: BufferedRequest): readonly [number, object] {
  return method === 'GET' ? SUBSCRIBED : [200, {}];
}

function setUp(t: { teardown: (end: () => void) => void }, intervalMs = 30_000): Scene {
  const clock = createManualClock(START);
  const scene: Scene = {
    clock,
    aheadMs: 0,
    calls: [],
    problems: [],
    respond: takesAll,
    distribution: new KeyDistribution(
      { signingKey: SIGNING, path: '/svc/keys', intervalMs },
      {
        clock,
        random: () => 0.5,
        wallMs: () => clock.now() + scene.aheadMs,
        log: {
          info: () => {},
          warn: (fields: object) => scene.problems.push(fields),
          error: (fields: object) => scene.problems.push(fields),
        } as never,
        send: async (request) => {
          scene.calls.push({ ...request, atMs: clock.now() });
          const answer = await scene.respond(request);
          if (answer === null) throw new Error('no connection');
          const [status, body] = typeof answer === 'number' ? [answer, {}] : answer;
          return { status, body: Buffer.from(JSON.stringify(body)) };
        },
      },
    ),
    accounts(url) {
      const push = scene.calls.findLast((call) => call.method === 'POST' && call.url === `${url}/svc/keys`);
      if (push === undefined) return undefined;
      const { keys } = verifySnapshot(push.body as Buffer, { trusted: TRUSTED, nowMs: clock.now(), held: 0 });
      return keys.map(({ account }) => account).sort();
    },
    turn: () => new Promise((resolve) => void setImmediate(resolve)),
    advance: (ms) => advance(clock, ms),
  };
  t.teardown(() => scene.distribution.close());
  return scene;
}

function lines(calls: readonly Call[]): string[] {
  return calls.map(({ method, url }) => `${method} ${url}`);
}

t.test('a host is asked first, and gets the keys at once', async (t) => {
  const { distribution, calls, turn, accounts } = setUp(t);
  distribution.configure([A, B], ['http://one']);
  t.match(distribution.status(), [{ url: 'http://one', state: 'unknown' }]);
  await turn();
  t.same(lines(calls), ['GET http://one/svc/keys', 'POST http://one/svc/keys']);
  t.same(accounts('http://one'), ['a', 'b']);
  t.same(distribution.status(), [{ url: 'http://one', state: 'current' }]);
});

t.test('a change is pushed to every host at once, an unchanged list to none', async (t) => {
  const scene = setUp(t);
  scene.distribution.configure([A, B], ['http://one', 'http://two']);
  await scene.turn();
  scene.calls.length = 0;
  scene.distribution.configure([A, B], ['http://one', 'http://two']);
  await scene.turn();
  t.same(scene.calls, []);
  scene.distribution.configure([A], ['http://one', 'http://two']);
  await scene.turn();
  t.same(lines(scene.calls), ['POST http://one/svc/keys', 'POST http://two/svc/keys']);
  t.same(scene.accounts('http://two'), ['a']);
});

t.test('many changes to many keys are signed together, the first one at once', async (t) => {
  const scene = setUp(t);
  const keys = Array.from({ length: 1000 }, (_, index) => ({ hash: hashKey(`${index}`), account: `${index}` }));
  scene.distribution.configure(keys, ['http://one']);
  await scene.turn();
  scene.calls.length = 0;
  await scene.advance(100);
  for (let left = 999; left > 900; left--) scene.distribution.configure(keys.slice(0, left), ['http://one']);
  await scene.turn();
  t.equal(scene.accounts('http://one')?.length, 999);
  await scene.advance(10);
  t.equal(scene.accounts('http://one')?.length, 901);
  t.equal(scene.calls.length, 2);
  t.same(scene.distribution.status(), [{ url: 'http://one', state: 'current' }]);
  const asked = scene.distribution.snapshot() as Buffer;
  const { version } = verifySnapshot(asked, { trusted: TRUSTED, nowMs: scene.clock.now(), held: 0 });
  t.ok(version < scene.clock.now() + 5, 'a signature takes the next version');
});

t.test('a host that asks gets a change that is not signed yet', async (t) => {
  const scene = setUp(t);
  const keys = Array.from({ length: 1000 }, (_, index) => ({ hash: hashKey(`${index}`), account: `${index}` }));
  scene.distribution.configure(keys, []);
  scene.distribution.configure(keys.slice(1), []);
  const asked = scene.distribution.snapshot() as Buffer;
  t.equal(verifySnapshot(asked, { trusted: TRUSTED, nowMs: scene.clock.now(), held: 0 }).keys.length, 999);
  t.equal(scene.distribution.snapshot(), asked, 'one signature serves many that ask at once');
});

t.test('every cycle has a higher version, so that hosts see the gateway is alive', async (t) => {
  const scene = setUp(t);
  scene.distribution.configure([A], ['http://one']);
  await scene.advance(90_000);
  const versions = scene.calls
    .filter(({ method }) => method === 'POST')
    .map(({ body }) => verifySnapshot(body as Buffer, { trusted: TRUSTED, nowMs: scene.clock.now(), held: 0 }).version);
  t.equal(versions.length, 4);
  t.same(
    versions,
    [...new Set(versions)].sort((a, b) => a - b),
  );
});

t.test('a host without support never sees an account and is asked again after ten minutes', async (t) => {
  const scene = setUp(t);
  scene.respond = () => 404;
  scene.distribution.configure([A], ['http://plain']);
  await scene.advance(590_000);
  t.same(lines(scene.calls), ['GET http://plain/svc/keys']);
  t.same(scene.distribution.status(), [{ url: 'http://plain', state: 'unsupported' }]);
  scene.respond = takesAll;
  await scene.advance(41_000);
  t.same(scene.accounts('http://plain'), ['a']);
});

t.test('a host that trusts another gateway gets no keys, and this is logged', async (t) => {
  const scene = setUp(t);
  scene.respond = () => [200, { trusted: ['0123456789abcdef'] }];
  scene.distribution.configure([A], ['http://other']);
  await scene.turn();
  t.same(lines(scene.calls), ['GET http://other/svc/keys']);
  t.match(scene.problems, [{ host: 'http://other', trusted: ['0123456789abcdef'] }]);
});

t.test('only a list of trusted ids makes a host supported', async (t) => {
  for (const answer of [
    [200, {}],
    [200, { trusted: SIGNING.id }],
    [401, SUBSCRIBED[1]],
    [302, SUBSCRIBED[1]],
  ] as const) {
    const scene = setUp(t);
    scene.respond = () => answer;
    scene.distribution.configure([A], ['http://odd']);
    await scene.turn();
    t.same(lines(scene.calls), ['GET http://odd/svc/keys']);
  }
});

t.test('a failed push is repeated within fractions of a second, then less and less', async (t) => {
  const scene = setUp(t);
  scene.distribution.configure([A, B], ['http://one']);
  await scene.turn();
  scene.calls.length = 0;
  scene.respond = () => 500;
  scene.distribution.configure([A], ['http://one']);
  await scene.advance(5000);
  const startMs = scene.calls[0]?.atMs ?? 0;
  t.same(
    scene.calls.map(({ atMs }) => Math.round(atMs - startMs)),
    [0, 200, 600, 1400, 3000],
  );
  t.same(scene.distribution.status(), [{ url: 'http://one', state: 'behind' }]);
  t.equal(scene.problems.length, 1, 'said once');
  scene.respond = takesAll;
  await scene.advance(4000);
  t.same(scene.distribution.status(), [{ url: 'http://one', state: 'current' }]);
});

t.test('a host that starts later gets the keys', async (t) => {
  const scene = setUp(t);
  scene.respond = () => null;
  scene.distribution.configure([A], ['http://late']);
  await scene.advance(1000);
  t.equal(scene.accounts('http://late'), undefined);
  scene.respond = takesAll;
  await scene.advance(2000);
  t.same(scene.accounts('http://late'), ['a']);
});

t.test('hosts that hang do not delay others', async (t) => {
  const scene = setUp(t);
  const dead = Array.from({ length: 100 }, (_, index) => `http://dead-${index}`);
  const live = Array.from({ length: 30 }, (_, index) => `http://live-${index}`);
  scene.distribution.configure([A, B], [...dead, ...live]);
  await scene.turn();
  scene.respond = (request) => (request.url.includes('dead') ? new Promise<never>(() => {}) : takesAll(request));
  scene.distribution.configure([A], [...dead, ...live]);
  await scene.turn();
  for (const url of live) t.same(scene.accounts(url), ['a'], url);
});

t.test('a change during a push is pushed after it', async (t) => {
  const scene = setUp(t);
  const gate = Promise.withResolvers<never>();
  scene.respond = (request) => (request.method === 'GET' ? SUBSCRIBED : gate.promise);
  scene.distribution.configure([A, B], ['http://one']);
  await scene.turn();
  scene.distribution.configure([A], ['http://one']);
  scene.respond = takesAll;
  gate.resolve([200, {}] as never);
  await scene.turn();
  t.same(scene.accounts('http://one'), ['a']);
  t.equal(scene.calls.length, 3);
});

t.test('a host that holds a later version gets a still later one', async (t) => {
  const scene = setUp(t);
  let held = START + 20_000;
  scene.respond = ({ method, body }) => {
    if (method === 'GET') return SUBSCRIBED;
    const { version } = verifySnapshot(body as Buffer, { trusted: TRUSTED, nowMs: START, held: 0 });
    if (version <= held) return [409, { version: held }];
    held = version;
    return [200, {}];
  };
  scene.distribution.configure([A], ['http://ahead']);
  await scene.advance(1000);
  t.same(scene.distribution.status(), [{ url: 'http://ahead', state: 'current' }]);
  t.equal(held, START + 20_001);
});

t.test('a host that is being asked when keys come gets them once', async (t) => {
  const scene = setUp(t);
  const gate = Promise.withResolvers<never>();
  scene.respond = (request) => (request.method === 'GET' ? gate.promise : [200, {}]);
  scene.distribution.configure(null, ['http://one']);
  await scene.turn();
  scene.distribution.configure([A], ['http://one']);
  gate.resolve(SUBSCRIBED as never);
  await scene.advance(1000);
  t.same(lines(scene.calls), ['GET http://one/svc/keys', 'POST http://one/svc/keys']);
  t.same(scene.accounts('http://one'), ['a']);
  t.same(scene.distribution.status(), [{ url: 'http://one', state: 'current' }]);
});

t.test('a host that has asked for the keys and then registers is pushed a later version', async (t) => {
  const scene = setUp(t);
  scene.distribution.configure([A], []);
  const asked = scene.distribution.snapshot() as Buffer;
  let { version: held } = verifySnapshot(asked, { trusted: TRUSTED, nowMs: START, held: 0 });
  scene.respond = ({ method, body }) => {
    if (method === 'GET') return SUBSCRIBED;
    held = verifySnapshot(body as Buffer, { trusted: TRUSTED, nowMs: START, held }).version;
    return [200, {}];
  };
  scene.distribution.configure([A], ['http://one']);
  await scene.turn();
  t.match(scene.distribution.status(), [{ state: 'current' }]);
  t.same(scene.problems, []);
});

t.test('a version too far in the future is ignored', async (t) => {
  const scene = setUp(t);
  scene.respond = ({ method }) => (method === 'GET' ? SUBSCRIBED : [409, { version: Number.MAX_SAFE_INTEGER }]);
  scene.distribution.configure([A], ['http://liar']);
  await scene.advance(1000);
  scene.respond = takesAll;
  await scene.advance(60_000);
  t.same(scene.accounts('http://liar'), ['a'], 'verified against the clock');
});

t.test('hosts get the keys again as soon as a clock that was an hour ahead is set back', async (t) => {
  const scene = setUp(t);
  let held = 0;
  scene.respond = ({ method, body }) => {
    if (method === 'GET') return SUBSCRIBED;
    try {
      held = verifySnapshot(body as Buffer, { trusted: TRUSTED, nowMs: scene.clock.now(), held }).version;
      return [200, {}];
    } catch {
      return [409, { version: held }];
    }
  };
  scene.aheadMs = 3_600_000;
  scene.distribution.configure([A], ['http://one']);
  await scene.advance(1000);
  t.same(scene.distribution.status(), [{ url: 'http://one', state: 'behind' }]);
  scene.aheadMs = 0;
  const asked = scene.distribution.snapshot();
  t.equal(
    verifySnapshot(asked as Buffer, { trusted: TRUSTED, nowMs: scene.clock.now(), held }).issuedAtMs,
    START + 1000,
  );
  await scene.advance(31_000);
  t.same(scene.distribution.status(), [{ url: 'http://one', state: 'current' }]);
});

t.test('a host that is replaced by one without support is asked again', async (t) => {
  const scene = setUp(t);
  scene.distribution.configure([A, B], ['http://one']);
  await scene.turn();
  scene.respond = () => 404;
  scene.distribution.configure([A], ['http://one']);
  await scene.advance(1000);
  t.same(lines(scene.calls).slice(2), ['POST http://one/svc/keys', 'GET http://one/svc/keys']);
  t.match(scene.distribution.status(), [{ state: 'unsupported' }]);
});

t.test('a host that requests a snapshot gets the current one, and hosts without support are asked again', async (t) => {
  const scene = setUp(t);
  scene.respond = () => 404;
  scene.distribution.configure([A], ['http://one']);
  await scene.advance(5000);
  const body = scene.distribution.snapshot() ?? Buffer.alloc(0);
  t.equal(verifySnapshot(body, { trusted: TRUSTED, nowMs: scene.clock.now(), held: 0 }).issuedAtMs, START + 5000);
  t.equal(scene.distribution.snapshot(), body, 'one signature serves many that ask at once');
  scene.respond = takesAll;
  await scene.advance(30_000);
  t.same(scene.accounts('http://one'), ['a']);
});

t.test('a snapshot above the size limit is not sent, and hosts keep the previous one', async (t) => {
  const scene = setUp(t);
  scene.distribution.configure([A], ['http://one']);
  await scene.turn();
  const many = Array.from({ length: 2000 }, (_, index) => ({ hash: hashKey(`${index}`), account: 'x'.repeat(10_000) }));
  scene.distribution.configure(many, ['http://one']);
  await scene.turn();
  t.same(scene.accounts('http://one'), ['a']);
  t.same(scene.distribution.status(), [{ url: 'http://one', state: 'behind' }]);
  t.match(scene.problems[0], { keys: 2000 });
});

t.test('a removed host gets no more keys, and after closing none does', async (t) => {
  const scene = setUp(t);
  scene.respond = () => null;
  scene.distribution.configure([A], ['http://one', 'http://two']);
  await scene.turn();
  scene.distribution.configure([A], ['http://two']);
  scene.calls.length = 0;
  await scene.advance(1000);
  t.notOk(scene.calls.some(({ url }) => url.startsWith('http://one')));
  scene.distribution.close();
  scene.calls.length = 0;
  await scene.advance(100_000);
  t.same(scene.calls, []);
  t.equal(scene.clock.nextDueMs, Infinity, 'no timer is left');
});
