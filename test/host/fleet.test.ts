import t from 'tap';
import { FleetError, planFleet, startFleet } from '../../src/host/index.ts';

t.test('a plan becomes hosts, copies with names and ports that follow', (t) => {
  const plan = {
    defaults: { models: ['a'], profile: '8b-h100', seed: 4 },
    hosts: [
      { name: 'fast', count: 2, port: 9001, speed: 2 },
      {
        models: ['b', 'c'],
        profile: 'small-box',
        slots: 2,
        context: 512,
        loading: 50,
        dialects: ['chat'],
        systemPrompt: 'off',
        script: { steps: [{ text: 'a' }] },
        faults: [{ fault: 'hang' }],
      },
    ],
  };
  const planned = planFleet(plan, '127.0.0.1', { keys: ['k'] });
  t.match(
    planned.map(({ settings }) => settings),
    [
      { name: 'fast-1', listen: '127.0.0.1:9001', models: ['a'], seed: 4, keys: ['k'], engine: { speed: 2 } },
      { name: 'fast-2', listen: '127.0.0.1:9002', models: ['a'], engine: { profile: '8b-h100' } },
      {
        name: 'host-2',
        listen: '127.0.0.1:0',
        models: ['b', 'c'],
        loadingMs: 50,
        dialects: ['chat'],
        systemPrompt: 'off',
        script: { steps: [{ text: 'a' }] },
        engine: { profile: 'small-box', slots: 2, contextTokens: 512 },
      },
    ],
  );
  t.same(
    planned.map(({ faults }) => faults),
    [null, null, [{ fault: { hang: true } }]],
  );
  t.end();
});

t.test('every mistake of a plan is named by its path', (t) => {
  const mistakes: [unknown, RegExp][] = [
    [null, /^plan: /],
    [{}, /^hosts: Field required$/],
    [{ hosts: [] }, /hosts: List should have at least 1 item/],
    [{ hosts: [{}] }, /^hosts\.0\.models: Field required$/],
    [{ hosts: [{ models: ['a'], profil: 'even' }], x: 1 }, /^x: .*hosts\.0\.profil: unknown member$/],
    [{ hosts: [{ models: ['a'], script: { steps: [] } }] }, /^hosts\.0\.script: steps: List should have at least 1/],
    [{ hosts: [{ models: ['a'], dialects: ['x'] }] }, /hosts\.0\.dialects\.0: /],
    [{ hosts: [{ models: ['a'], systemPrompt: 'x' }] }, /hosts\.0\.systemPrompt: /],
    [{ hosts: [{ models: ['a'], profile: 'big', count: 0 }] }, /hosts\.0\.count: .*hosts\.0\.profile: /],
    [
      {
        hosts: [
          { models: ['a'], name: 'x' },
          { models: ['b'], name: 'x' },
        ],
      },
      /^hosts: the name 'x' is used twice$/,
    ],
    [{ hosts: [{ models: ['a'], faults: [{ fault: 'nothing' }] }] }, /^hosts\.0\.faults: rule 0: unknown fault/],
  ];
  for (const [plan, message] of mistakes) {
    const failure = t.throws(() => planFleet(plan, '127.0.0.1'));
    t.ok(failure instanceof FleetError);
    t.match(failure, { message });
  }
  t.end();
});

t.test('a fleet starts as a whole or not at all', async (t) => {
  const planned = planFleet({ hosts: [{ models: ['a'], count: 3 }] }, '127.0.0.1');
  const hosts = await startFleet(planned);
  t.teardown(() => Promise.all(hosts.map((host) => host.kill())));
  t.equal(new Set(hosts.map(({ port }) => port)).size, 3);
  for (const host of hosts) t.equal((await fetch(`${host.url}/health`)).status, 200);
  const taken = { hosts: [{ models: ['a'] }, { models: ['a'], port: hosts[0]!.port }] };
  await t.rejects(startFleet(planFleet(taken, '127.0.0.1')), { code: 'EADDRINUSE' });
  const tooMany = { hosts: [{ models: ['a'], name: 'one', count: 2, slots: 100_001 }] };
  await t.rejects(startFleet(planFleet(tooMany, '127.0.0.1')), {
    constructor: FleetError,
    message: /^host one-1: maxSequences/,
  });
});
