// Three processes that share the limits of two keys through a real engine, under concurrent load: exactly what the limit allows is
// admitted; without the engine each counts alone, and it is told afterwards; one that is killed loses nothing for ever.

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { startRedis } from '../support/redis.ts';
import type { LimitOrder, LimitReport } from './fixtures/limit-process.ts';

const COUNT = 3;

class Gateway {
  readonly process: ChildProcess;

  constructor(url: string) {
    this.process = fork(new URL('fixtures/limit-process.js', import.meta.url), [url], { execArgv: [] });
  }

  async tell(order: LimitOrder | { readonly type: 'mode'; readonly mode: string }): Promise<LimitReport> {
    const answer = once(this.process, 'message') as Promise<[LimitReport]>;
    this.process.send(order);
    return (await answer)[0];
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await ended;
  }
}

async function start(
  t: Tap,
  count = COUNT,
): Promise<{ redis: Awaited<ReturnType<typeof startRedis>>; gateways: Gateway[] }> {
  const redis = await startRedis();
  const gateways = Array.from({ length: count }, () => new Gateway(redis.url));
  t.teardown(async () => {
    await Promise.all(gateways.map((gateway) => gateway.kill()));
    await redis.stop();
  });
  await modes(gateways, 'shared');
  return { redis, gateways };
}

type Tap = Pick<typeof t, 'teardown'>;

function modes(gateways: readonly Gateway[], mode: string): Promise<LimitReport[]> {
  return Promise.all(gateways.map((gateway) => gateway.tell({ type: 'mode', mode })));
}

function ask(gateways: readonly Gateway[], key: 'rate' | 'running' | 'tokens', count: number): Promise<LimitReport[]> {
  return Promise.all(gateways.map((gateway) => gateway.tell({ type: 'ask', key, count })));
}

function admitted(reports: readonly LimitReport[]): number {
  return reports.reduce((sum, report) => sum + report.admitted, 0);
}

/**
 * Asks until this many are admitted, and once more. What a gateway holds and does not use is asked back, which a busy machine may do too
 * late for the last request of a round.
 */
async function askUntil(gateways: readonly Gateway[], key: 'rate' | 'tokens', count: number): Promise<LimitReport[]> {
  while (admitted(await ask(gateways, key, 40)) < count);
  return ask(gateways, key, 40);
}

t.test('of a key with 100 requests a minute, exactly 100 are admitted by three processes', async (t) => {
  const { gateways } = await start(t);
  const requests = await askUntil(gateways, 'rate', 100);
  t.equal(admitted(requests), 100, requests.map((report) => report.admitted).join(', '));
  t.ok(requests.every((report) => report.mode === 'shared'));
  // The same processes with a limit of 3,000 tokens, of which each request takes 50.
  const tokens = await askUntil(gateways, 'tokens', 100 + 60);
  t.equal(admitted(tokens), 100 + 60, tokens.map((report) => report.admitted).join(', '));
});

t.test('of a key with 3 running requests, exactly 3 run, and each end makes place for one anywhere', async (t) => {
  const { gateways } = await start(t);
  let reports = await ask(gateways, 'running', 20);
  t.equal(admitted(reports), 3);
  for (let turn = 0; turn < 4; turn++) {
    const from = reports.findIndex(({ running }) => running > 0);
    await gateways[from]?.tell({ type: 'settle' });
    do reports = await ask(gateways, 'running', 2);
    while (admitted(reports) < 4 + turn);
    t.equal(admitted(reports), 4 + turn, `turn ${turn}`);
    t.equal(
      reports.reduce((sum, { running }) => sum + running, 0),
      3,
    );
  }
});

t.test('without the engine each counts alone; when it is back it is told what was admitted', async (t) => {
  const { gateways, redis } = await start(t);
  t.equal(admitted(await ask(gateways, 'rate', 10)), 30);
  await redis.stop();
  await modes(gateways, 'away');
  t.equal(admitted(await ask(gateways, 'rate', 110)), 300, 'the whole limit each');
  await redis.start();
  await modes(gateways, 'shared');
  t.equal(admitted(await askUntil(gateways, 'rate', 300)), 300, 'nothing more');
});

t.test('a process that is killed keeps nothing from the others but what it has admitted and its slice', async (t) => {
  const { gateways } = await start(t);
  const [dying, ...others] = gateways as [Gateway, Gateway, Gateway];
  const before = admitted(await ask([dying], 'rate', 20));
  t.equal(before, 20);
  t.equal((await dying.tell({ type: 'ask', key: 'running', count: 8 })).running, 3);
  await dying.kill();
  await ask(others, 'rate', 60);
  const after = before + admitted(await ask(others, 'rate', 60));
  t.ok(after <= 100 && after >= 94, `${after}: a slice is 6 requests at most`);
});
