// The log of a running gateway: its level, and that it never contains what clients send.

import t from 'tap';
import { createLog } from '../../src/telemetry/log.ts';
import { chat, KEY, startHosts, until } from '../support/system.ts';
import { startServe } from '../support/system-cli.ts';

t.test('has the level it is given', (t) => {
  for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const) {
    t.equal(createLog(level).level, level);
  }
  t.end();
});

/** pino's numbers. */
const LEVELS = { debug: 20, info: 30, warn: 40, error: 50 } as const;

for (const level of ['debug', 'warn', 'error'] as const) {
  t.test(`at ${level} no line is below it`, async (t) => {
    const hosts = await startHosts(t);
    const served = await startServe(t, hosts, { threads: 1, log: { level } });
    await hosts[0]?.kill();
    await until('judged', async () =>
      (await fetch(`${served.adminUrl}/status`).then((r) => r.text())).includes('"down"'),
    );
    served.cli.signal('SIGTERM');
    await served.cli.ends();
    for (const line of served.cli.log) t.ok((line['level'] as number) >= LEVELS[level], JSON.stringify(line));
    t.equal(
      served.cli.log.some(({ msg }) => msg === 'CRN standing changed'),
      level !== 'error',
    );
  });
}

t.test('nothing that clients send is logged, at any level', async (t) => {
  const hosts = await startHosts(t);
  const { cli, url } = await startServe(t, hosts, { threads: 1, log: { level: 'trace' } });
  await chat(url, { text: 'a private question', headers: { 'x-api-key': 'hr_secret_guess' } });
  await chat(url, { model: 'private-model', text: 'a private question' });
  await chat(url, { headers: { authorization: 'Bearer hr_secret_guess' } });
  await chat(url, { text: 'a private question', headers: { 'x-headrace-fault': 'reset' } });
  cli.signal('SIGTERM');
  await cli.ends();
  t.ok(cli.log.length > 0);
  t.notMatch(cli.stderr, /private|hr_secret_guess/);
  t.notMatch(cli.stderr, new RegExp(KEY));
});
