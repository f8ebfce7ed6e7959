import t, { type Test } from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/testkit.ts';
import { Registration, type RegistrationSettings } from '../../src/host/registration.ts';
import type { BufferedRequest } from '../../src/net/buffered-client.ts';
import { advance } from '../support/advance.ts';

interface Scene {
  readonly clock: ManualClock;
  readonly registration: Registration;
  readonly sent: { readonly line: string; readonly body: unknown; readonly atMs: number }[];
  readonly problems: string[];
  answer: readonly [number, object | string] | null | Promise<readonly [number, object]>;
  readonly turn: () => Promise<void>;
  readonly advance: (ms: number) => Promise<void>;
}

function setUp(t: Test, more: Partial<RegistrationSettings> = {}): Scene {
  const clock = createManualClock();
  let load = 0;
  const scene: Scene = {
    clock,
    sent: [],
    problems: [],
    answer: [201, { status: 'new', ttl_ms: 30_000 }],
    registration: new Registration(
      {
        ...{ gateway: 'http://gateway:9090', token: 'sesame', name: 'one', url: 'http://one:1', models: ['atlas-27b'] },
        ...more,
      },
      {
        clock,
        random: () => 0.5,
        load: () => load++,
        log: { info: () => {}, warn: ({ problem }: { problem: string }) => void scene.problems.push(problem) } as never,
        send: async ({ method, url, headers, body }: BufferedRequest) => {
          t.equal(headers['authorization'], 'Bearer sesame');
          const text = body === undefined ? null : (JSON.parse(String(body)) as unknown);
          scene.sent.push({ line: `${method} ${url}`, body: text, atMs: clock.now() });
          const answer = await scene.answer;
          if (answer === null) throw new Error('no connection');
          const [status, value] = answer;
          return { status, body: Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)) };
        },
      },
    ),
    turn: () => new Promise((resolve) => void setImmediate(resolve)),
    advance: (ms) => advance(clock, ms),
  };
  return scene;
}

t.test('announces the host three times within the time the gateway gives', async (t) => {
  const scene = setUp(t);
  scene.registration.start();
  await scene.advance(20_000);
  t.same(scene.sent, [
    {
      line: 'POST http://gateway:9090/hosts',
      atMs: 0,
      body: { name: 'one', url: 'http://one:1', models: ['atlas-27b'], load: 0 },
    },
    {
      line: 'POST http://gateway:9090/hosts',
      atMs: 10_000,
      body: { name: 'one', url: 'http://one:1', models: ['atlas-27b'], load: 1 },
    },
    {
      line: 'POST http://gateway:9090/hosts',
      atMs: 20_000,
      body: { name: 'one', url: 'http://one:1', models: ['atlas-27b'], load: 2 },
    },
  ]);
  t.equal(scene.registration.registered, true);
});

t.test('announces what its settings say of it as a server, without what has its default', async (t) => {
  const aliases = { 'atlas-27b': ['gpt-5'], 'finch-3b': ['of another host'] };
  const server = { dialects: ['chat'], apiKey: 'own', weight: 2, aliases } as const;
  const scene = setUp(t, { server });
  scene.registration.start();
  await scene.turn();
  const plain = { name: 'one', url: 'http://one:1', models: ['atlas-27b'], load: 0 };
  const said = { dialects: ['chat'], apiKey: 'own', weight: 2, aliases: { 'atlas-27b': ['gpt-5'] } };
  t.same(scene.sent[0]?.body, { ...plain, ...said });
  const silent = setUp(t, { server: { dialects: 'auto', apiKey: null, weight: 1, aliases: {} } });
  silent.registration.start();
  await silent.turn();
  t.same(silent.sent[0]?.body, plain);
});

t.test('a gateway that is away is tried again, less and less, and says so once', async (t) => {
  const scene = setUp(t);
  scene.answer = null;
  scene.registration.start();
  await scene.advance(60_000);
  t.same(
    scene.sent.map(({ atMs }) => atMs),
    [0, 250, 750, 1750, 3750, 7750, 15_750, 30_750, 45_750],
  );
  t.same(scene.problems, ['no connection']);
  t.equal(scene.registration.registered, false);
  scene.answer = [200, { ttl_ms: 3000 }];
  await scene.advance(2000);
  t.equal(scene.registration.registered, true);
  scene.answer = null;
  await scene.advance(750);
  t.equal(scene.registration.registered, false);
  scene.answer = [200, { ttl_ms: 3000 }];
  await scene.advance(250);
  t.equal(scene.registration.registered, true, 'the waiting starts anew after a success');
});

t.test('a refusal is logged with the message of the gateway', async (t) => {
  const scene = setUp(t);
  scene.answer = [409, { detail: 'the name belongs to another host' }];
  scene.registration.start();
  await scene.turn();
  t.same(scene.problems, ['it answered 409: the name belongs to another host']);
});

t.test('an answer that makes no sense neither stops nor hurries the announcements', async (t) => {
  for (const [answer, dueMs] of [
    ['nonsense', 10_000],
    ['null', 10_000],
    [{ ttl_ms: 'soon' }, 10_000],
    [{ ttl_ms: 0 }, 100],
    [{ ttl_ms: -5 }, 100],
  ] as const) {
    const scene = setUp(t);
    scene.answer = [200, answer];
    scene.registration.start();
    await scene.turn();
    t.equal(scene.clock.nextDueMs, dueMs, JSON.stringify(answer));
  }
});

t.test('a host that leaves says so after its last announcement, and announces nothing more', async (t) => {
  const scene = setUp(t);
  const slow = Promise.withResolvers<readonly [number, object]>();
  scene.answer = slow.promise;
  scene.registration.start();
  await scene.turn();
  const left = scene.registration.leave();
  await scene.turn();
  t.equal(scene.sent.length, 1);
  scene.answer = [200, {}];
  slow.resolve([201, { ttl_ms: 30_000 }]);
  await left;
  t.equal(scene.sent[1]?.line, 'DELETE http://gateway:9090/hosts/one?url=http%3A%2F%2Fone%3A1');
  t.equal(scene.registration.registered, false);
  t.equal(scene.clock.nextDueMs, Infinity);
  await scene.registration.leave();
  t.equal(scene.sent.length, 2, 'once');
});

t.test('leaving a gateway that is away is no error', async (t) => {
  const scene = setUp(t);
  scene.registration.start();
  await scene.turn();
  scene.answer = null;
  await scene.registration.leave();
  t.same(scene.problems, ['no connection']);
});
