// A gateway that stands still for a while, as one that is short of CPU time does: what its servers have sent meanwhile counts before its own
// timers, which are all late.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { CHAT, startHost } from '../support/server-adapter.ts';
import { startServe } from '../support/system-cli.ts';

const STALL_MS = 3000;
const LIMITS = {
  timeouts: { connect: '1s', headers: '1s', idle: '1s' },
  health: { interval: '200ms', timeout: '1s', fall: 1 },
} as const;

t.setTimeout(60_000);

t.test('streams go on, and no server is blamed', async (t) => {
  const hosts = await Promise.all([1, 2].map(() => startHost(t, { timeToFirstTokenMs: 20, interTokenMs: 100 })));
  const settings = { threads: 1, keys: { required: false }, ...LIMITS };
  const { cli, url } = await startServe(t, hosts, settings);
  const ask = async (maxTokens: number): Promise<string> => {
    const body = JSON.stringify({ ...CHAT, stream: true, max_tokens: maxTokens });
    const headers = { 'content-type': 'application/json' };
    return (await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })).text();
  };
  const streams = Array.from({ length: 8 }, () => ask(60));
  await sleep(1000);
  for (const signal of ['SIGSTOP', 'SIGCONT'] as const) {
    cli.signal(signal);
    await sleep(STALL_MS);
  }
  for (const text of await Promise.all(streams)) t.ok(text.endsWith('data: [DONE]\n\n'), text.slice(-200));
  t.ok((await ask(2)).endsWith('data: [DONE]\n\n'));
  t.notMatch(cli.stderr, /ejected|"standing":"down"/);
});
