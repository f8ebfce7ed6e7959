// `headrace host` beside `headrace serve`: a host that registers gets requests and the keys of its gateway, a revoked key is
// revoked on the host, and the host keeps its last keys when the gateway is gone.

import { writeFileSync } from 'node:fs';
import t from 'tap';
import { startCli } from '../support/cli.ts';
import { freePort } from '../support/free-port.ts';
import { chat, KEY, MODEL, until } from '../support/system.ts';
import { hostTrust, trustedGateway } from '../support/trust.ts';

const SECOND = 'hr_second';

t.test('a host takes the keys of its gateway, and goes when it is told to', async (t) => {
  const [adminPort, hostPort] = [await freePort(), await freePort()];
  const settings = (keys: readonly string[]): object => trustedGateway(adminPort, keys);
  const trust = hostTrust(adminPort, `http://127.0.0.1:${hostPort}`);
  const folder = t.testdir({
    'gateway.json': JSON.stringify(settings([KEY, SECOND])),
    'host.json': JSON.stringify({
      trust: { ...trust, server: { weight: 2, aliases: { [MODEL]: ['gpt-5'] } } },
      log: { level: 'error' },
    }),
  });

  // The host starts first: without keys it is not healthy.
  const flags = ['--model', MODEL, '--port', String(hostPort), '--name', 'late', '--config', `${folder}/host.json`];
  flags.push('--profile', '8b-h100', '--speed', '100', '--kv-events', 'tcp://*:*');
  const host = startCli(t, ['host', ...flags]);
  await host.shows(/listening on/);
  const direct = `http://127.0.0.1:${hostPort}`;
  t.equal((await fetch(`${direct}/health`)).status, 503);

  const gateway = startCli(t, ['serve', '--config', `${folder}/gateway.json`]);
  const [, url = ''] = await gateway.shows(/headrace listening on (\S+)/);
  await until('the host has keys', async () => (await fetch(`${direct}/health`)).status === 200);
  await until('the gateway has the host', async () => (await chat(url)).status === 200);
  t.match(await (await fetch(`${url}/svc/models`)).json(), { [MODEL]: { servers: [direct] } });
  t.equal((await chat(url, { model: 'gpt-5' })).status, 200, 'by the alias that the host has announced');
  await until('the gateway reads its KV events', async () => {
    const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
    return text.includes(`headrace_kv_events_connected{crn="${direct}"} 1`);
  });
  const ask = async (key: string): Promise<number> =>
    (await chat(direct, { headers: { authorization: `Bearer ${key}` } })).status;
  t.same([await ask(KEY), await ask(SECOND), await ask('hr_wrong')], [200, 200, 401]);

  writeFileSync(`${folder}/gateway.json`, JSON.stringify(settings([KEY])));
  gateway.signal('SIGHUP');
  await until('the key is revoked on the host', async () => (await ask(SECOND)) === 401);
  t.equal(await ask(KEY), 200);

  gateway.signal('SIGTERM');
  await gateway.ends();
  t.equal(await ask(KEY), 200, 'the last keys stay');
  await until('it says that the gateway is lost', async () => {
    const { keys } = (await (await fetch(`${direct}/health`)).json()) as { keys: { gateway: string } };
    return keys.gateway === 'lost';
  });
  host.signal('SIGTERM');
  t.strictSame(await host.ends(), { code: 0, signal: null });
});

t.test('hosts that are given no names register side by side', async (t) => {
  const [adminPort, ...ports] = await Promise.all([freePort(), freePort(), freePort()]);
  const paths = ['', '/with/a/path/that/is/longer/than/a/name/of/a/host/may/be/at/its/gateway'];
  const folder = t.testdir({
    'gateway.json': JSON.stringify(trustedGateway(adminPort, [KEY])),
    ...Object.fromEntries(
      ports.map((port, at) => [
        `${at}.json`,
        JSON.stringify({
          trust: hostTrust(adminPort, `http://127.0.0.1:${port}${paths[at]}`),
          log: { level: 'error' },
        }),
      ]),
    ),
  });
  const gateway = startCli(t, ['serve', '--config', `${folder}/gateway.json`]);
  await gateway.shows(/headrace listening on (\S+)/);
  for (const [at, port] of ports.entries())
    startCli(t, ['host', '--model', MODEL, '--port', String(port), '--config', `${folder}/${at}.json`]);
  const names = async (): Promise<string[]> => {
    const { hosts } = (await (await fetch(`http://127.0.0.1:${adminPort}/status`)).json()) as {
      hosts: { registered: { name: string }[] };
    };
    return hosts.registered.map(({ name }) => name);
  };
  await until('both have registered', async () => (await names()).length === 2);
  t.ok((await names()).includes(`127.0.0.1-${ports[0]}`));
});
