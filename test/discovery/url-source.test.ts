// The source that polls a discovery map at a URL.
import t from 'tap';
import { createSystem } from '../../src/actor/index.ts';
import { createManualClock } from '../../src/actor/testkit.ts';
import { urlSource } from '../../src/discovery/url-source.ts';
import type { FoundModels } from '../../src/routing/model-table.ts';

t.test('polls again after the interval, also after a failure', async (t) => {
  const clock = createManualClock();
  const system = createSystem({ clock, random: () => 0.5 });
  const answers = [
    { status: 200, body: Buffer.from('{"a":{"servers":["http://one","ftp://two"]}}') },
    { status: 500, body: Buffer.from('{}') },
    { status: 200, body: Buffer.from('secret nonsense') },
  ];
  const polled: [FoundModels | null, string | null][] = [];
  const noted: (readonly string[])[] = [];
  let next = Promise.withResolvers<void>();
  const ref = system.spawn(
    urlSource(
      { url: 'http://directory', intervalMs: 1000 },
      {
        get: () => Promise.resolve(answers.shift() ?? { status: 404, body: Buffer.alloc(0) }),
        onAnswer: (models, notes) => {
          polled.push([models, null]);
          noted.push(notes);
          next.resolve();
        },
        onFailure: (problem) => {
          polled.push([null, problem]);
          next.resolve();
        },
      },
    ),
  );
  for (let round = 0; round < 3; round++) {
    await next.promise;
    next = Promise.withResolvers();
    clock.advance(999);
    t.equal(polled.length, round + 1, 'not before its time');
    clock.advance(1);
  }
  await next.promise;
  t.same(
    polled.map(([models]) => models?.get('a')),
    [{ servers: [{ url: 'http://one' }], aliases: [] }, undefined, undefined, undefined],
  );
  t.match(noted[0], [/server 2 of model a is left out/]);
  t.same(polled.map(([, problem]) => problem)[1], 'answered 500');
  t.equal(polled.map(([, problem]) => problem)[2], 'is not valid JSON', 'and not what it says');
  system.stop(ref);
  await system.terminate();
});

t.test('why a URL cannot be read is said in plain words', async (t) => {
  const reasons = [
    [new DOMException('The operation was aborted due to timeout', 'TimeoutError'), 'timeout after 10 s'],
    [Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }), 'connection refused'],
  ] as const;
  for (const [error, reason] of reasons) {
    const failed = Promise.withResolvers<string>();
    const deps = { get: () => Promise.reject(error), onAnswer: () => undefined, onFailure: failed.resolve };
    const system = createSystem({ clock: createManualClock() });
    system.spawn(urlSource({ url: 'http://directory', intervalMs: 1000 }, deps));
    t.equal(await failed.promise, reason);
    await system.terminate();
  }
});
