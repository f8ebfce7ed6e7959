// `headrace host --fleet` with a section `trust`, beside `headrace serve`: every host of the fleet registers under its own
// port, takes over added and revoked keys of the gateway, and unregisters when the fleet ends.

import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { runCli, startCli } from '../support/cli.ts';
import { freePort } from '../support/free-port.ts';
import { chat, KEY, MODEL, until } from '../support/system.ts';
import { hostTrust, trustedGateway } from '../support/trust.ts';

const SECOND = 'hr_second';
const OTHER = 'boreal-2b';

t.test('every host of a fleet takes the keys of the gateway and registers itself', async (t) => {
  const adminPort = await freePort();
  const settings = (keys: readonly string[]): object => trustedGateway(adminPort, keys);
  const plan = {
    defaults: { profile: 'even', speed: 100 },
    hosts: [
      { models: [MODEL], count: 2, name: 'mill' },
      { models: [OTHER], name: 'boreal' },
    ],
  };
  const folder = t.testdir({
    'gateway.json': JSON.stringify(settings([KEY, SECOND])),
    'plan.json': JSON.stringify(plan),
  });
  const trust = { ...hostTrust(adminPort, 'http://127.0.0.1:1'), file: `${folder}/keys.json` };
  writeFileSync(`${folder}/host.json`, JSON.stringify({ trust, log: { level: 'error' } }));

  const fleet = startCli(t, [
    'host',
    '--fleet',
    `${folder}/plan.json`,
    '--config',
    `${folder}/host.json`,
    '--tokens',
    '3',
  ]);
  const [, ...urls] = await fleet.shows(/^mill-1 of .+ on (\S+)\nmill-2 of .+ on (\S+)\nboreal of .+ on (\S+)\n/);
  const health = async (url: string): Promise<number> => (await fetch(`${url}/health`)).status;
  t.same(await Promise.all(urls.map(health)), [503, 503, 503], 'no host has a key yet');

  const gateway = startCli(t, ['serve', '--config', `${folder}/gateway.json`]);
  const [, url = ''] = await gateway.shows(/headrace listening on (\S+)/);
  await until('all hosts have keys', async () => (await Promise.all(urls.map(health))).every((each) => each === 200));
  const listed = async (): Promise<Record<string, { servers: string[] }>> =>
    (await (await fetch(`${url}/svc/models`)).json()) as Record<string, { servers: string[] }>;
  await until('the gateway has all hosts', async () => {
    const models = await listed();
    return models[MODEL]?.servers.length === 2 && models[OTHER]?.servers.length === 1;
  });
  const models = await listed();
  t.same(models[MODEL]!.servers.toSorted(), urls.slice(0, 2).toSorted());
  t.same(models[OTHER]!.servers, [urls[2]]);
  t.equal((await chat(url)).status, 200);

  const ask = async (key: string): Promise<number[]> => {
    const body = (at: number): string => JSON.stringify({ model: at < 2 ? MODEL : OTHER, prompt: 'x' });
    const headers = { authorization: `Bearer ${key}` };
    const sent = urls.map((each, at) => fetch(`${each}/v1/completions`, { method: 'POST', headers, body: body(at) }));
    return (await Promise.all(sent)).map(({ status }) => status);
  };
  t.same(await Promise.all([KEY, SECOND, 'hr_wrong'].map(ask)), [
    [200, 200, 200],
    [200, 200, 200],
    [401, 401, 401],
  ]);
  for (const name of ['mill-1', 'mill-2', 'boreal']) t.ok(existsSync(`${folder}/keys.json.${name}`), name);

  writeFileSync(`${folder}/gateway.json`, JSON.stringify(settings([KEY])));
  gateway.signal('SIGHUP');
  await until('the key is revoked on all hosts', async () => (await ask(SECOND)).every((status) => status === 401));
  t.same(await ask(KEY), [200, 200, 200]);

  fleet.signal('SIGTERM');
  t.strictSame(await fleet.ends(), { code: 0, signal: null });
  await until('the gateway has let them go', async () => (await listed())[OTHER] === undefined);
});

t.test('a fleet that cannot start ends, also when it has asked for keys', async (t) => {
  const blocker = createServer();
  await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve));
  t.teardown(() => blocker.close());
  const { port } = blocker.address() as AddressInfo;
  const trust = hostTrust(9);
  const folder = t.testdir({
    'plan.json': JSON.stringify({ hosts: [{ models: ['a'], port }] }),
    'host.json': JSON.stringify({ trust, log: { level: 'error' } }),
  });
  const flags = ['--fleet', `${folder}/plan.json`, '--config', `${folder}/host.json`];
  const { exit, stderr } = await runCli(t, ['host', ...flags]);
  t.equal(exit.code, 1);
  t.match(stderr, /: the port is taken\n$/);
});
