// A gateway that stands still for a while, as one that is short of CPU time does: what its servers have sent meanwhile counts before its own
// timers, which are all late.

import t from 'tap';
import { CHAT, startHost } from '../support/server-adapter.ts';
import { startServe } from '../support/system-cli.ts';

/** Far longer than any of the limits. */
const ANSWER_MS = 6000;
const INTERVAL_MS = 100;
const LIMITS = {
  timeouts: { connect: '1s', headers: '1s', idle: '1s' },
  health: { interval: '200ms', timeout: '1s', fall: 1 },
} as const;

t.setTimeout(60_000);

t.test('streams go on, and no server is blamed', async (t) => {
  const hosts = await Promise.all(
    [1, 2].map(() => startHost(t, { timeToFirstTokenMs: 20, interTokenMs: INTERVAL_MS })),
  );
  const settings = { threads: 1, keys: { required: false }, ...LIMITS };
  const { cli, url } = await startServe(t, hosts, settings);
  const ask = (maxTokens: number): Promise<Response> => {
    const body = JSON.stringify({ ...CHAT, stream: true, max_tokens: maxTokens });
    const headers = { 'content-type': 'application/json' };
    return fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
  };
  // The head of an answer comes with its first event.
  const streams = await Promise.all(Array.from({ length: 8 }, () => ask(ANSWER_MS / INTERVAL_MS)));
  const requests = hosts.flatMap((host) => host.requests.filter(({ method }) => method === 'POST'));
  t.equal(requests.length, streams.length);
  cli.signal('SIGSTOP');
  await Promise.all(requests.map((request) => request.whenClosed()));
  cli.signal('SIGCONT');
  for (const stream of streams) {
    const text = await stream.text();
    t.ok(text.endsWith('data: [DONE]\n\n'), text.slice(-200));
  }
  t.ok((await (await ask(2)).text()).endsWith('data: [DONE]\n\n'));
  t.notMatch(cli.stderr, /ejected|"standing":"down"/);
});
