// Many requests at once over CRNs that fail in every way there is, with clients that stall and leave: whatever happens,
// every request ends once, every attempt is told once, and nothing is left behind.
import t, { type Test } from 'tap';
import { createSeededRandom } from '../../src/actor/testkit.ts';
import { createHost, type FaultPlan, parseFault } from '../../src/host/index.ts';
import { parseEvents } from '../../src/net/sse.ts';
import { Bench, type Run } from '../support/upstream-bench.ts';

const FAULTS = [
  ...['refuse', 'hang', 'slow-headers=5', 'status=500', 'status=503', 'status=429', 'status=404', 'reset'],
  ...['status=400,body=context%20window', 'reset-after=0', 'reset-after=2,partial', 'truncate-after=3', 'split,crlf'],
  ...['stall-after=0', 'stall-after=2,partial', 'end-after=0', 'end-after=2', 'error-after=1', 'no-done', ''],
];

const PATHS = ['/v1/chat/completions', '/v1/completions', '/v1/responses', '/completion'];

t.test('whatever happens, nothing is left behind', async (t) => {
  const random = createSeededRandom(20);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const hosts = await Promise.all(
    [0, 1, 2].map(async () => {
      const host = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0, maxTokens: 6 });
      await host.listen();
      t.teardown(() => host.kill());
      return host;
    }),
  );
  const b = new Bench(t, {
    urls: hosts.map(({ url }) => url),
    burst: 10_000,
    relay: { keepAliveMs: 400 },
    timeouts: { headersMs: 1500, firstByteMs: 1000, idleMs: 1000 },
  });
  const runs: Run[] = [];
  for (let i = 0; i < 600; i++) {
    for (const host of hosts) if (random() < 0.3) void host.setFault(faultPlan(pick(FAULTS)));
    const body = {
      model: 'm',
      stream: random() < 0.8,
      messages: [{ role: 'user', content: 'a' }],
      prompt: 'a',
      input: 'a',
    };
    const run = b.ask({ path: pick(PATHS), stream: body.stream, body });
    runs.push(run);
    if (random() < 0.2) run.downstream.full = true;
    const leaver = pick(runs);
    if (random() < 0.1 && !leaver.downstream.handedOver) leaver.downstream.leave();
    const reader = pick(runs);
    if (random() < 0.3 && reader.downstream.full) reader.downstream.read();
    if (random() < 0.5) await new Promise(setImmediate);
    b.clock.advance(random() * 40);
  }
  await Promise.all(hosts.map((host) => host.setFault(null)));
  while (runs.some(({ downstream }) => !downstream.handedOver)) {
    for (const { downstream } of runs) if (downstream.full && !downstream.handedOver) downstream.read();
    await new Promise(setImmediate);
    b.clock.advance(50);
  }
  for (const run of runs) check(t, run);
  t.equal(b.inFlight, 0);
  const endings = new Set(runs.map(({ downstream }) => downstream.ending));
  t.same(endings, new Set(['complete', 'aborted']), 'every ending was seen');
  t.ok(runs.filter(({ downstream }) => downstream.status === 200).length > 200);
  // Unwanted answers are read on for a moment at most.
  b.clock.advance(2000);
  await new Promise(setImmediate);
  for (const pool of b.pools.values()) pool.close();
  t.same(
    [...b.pools.values()].map(({ openConnections }) => openConnections),
    [0, 0, 0],
  );
  b.clock.advance(1_000_000);
  t.equal(b.clock.nextDueMs, Infinity, 'no deadline is left');
});

function faultPlan(fault: string): FaultPlan | null {
  return fault === '' ? null : [{ fault: parseFault(fault) }];
}

function check(t: Test, { downstream, attempts }: Run): void {
  const { ending, text, headers } = downstream;
  // A CRN is asked again only when a kept connection closed before any byte.
  const asked = attempts.filter(([, , failure]) => failure !== 'stale').map(([crn]) => crn);
  t.ok(asked.length <= 3 && new Set(asked).size === asked.length);
  if (ending !== 'complete' || !headers.includes('text/event-stream; charset=utf-8')) return;
  const events = parseEvents(text);
  const cut = events.filter(({ data }) => data !== '[DONE]' && !isJson(data));
  t.same(cut, [], 'no event is cut');
  t.match(text, /\n\r?\n$/);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
