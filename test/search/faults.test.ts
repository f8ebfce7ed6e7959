// The whole room against engines that misbehave: on real sockets under the real clock, each fault and every number of
// failures at once; then 10,000 searches of random faults in this process.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { type Clock, createSystem, systemClock } from '../../src/actor/index.ts';
import { createSeededRandom, createTestSystem } from '../../src/actor/testkit.ts';
import { worker } from '../../src/search/engines/worker.ts';
import { createEngineMemory } from '../../src/search/engine-board.ts';
import type { EngineSpec } from '../../src/search/engine-actor.ts';
import type { SearchAnswer } from '../../src/search/query.ts';
import { SearchService, type SearchServiceOptions } from '../../src/search/search.ts';
import { TransportError } from '../../src/search/transport.ts';
import { type Answer, fakeEngine, fakeTransport, hang, queryOf, type Said, specOf } from '../support/search.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const unhandled: unknown[] = [];
process.on('unhandledRejection', (error) => unhandled.push(error));

interface Test {
  teardown(run: () => unknown): unknown;
}

function roomOf(
  t: Test,
  engines: readonly (EngineSpec & { readonly weight: number })[],
  timeoutMs: number,
  more: Partial<SearchServiceOptions> = {},
): SearchService {
  const system = more.system ?? createSystem({ name: 'faults' });
  const room = new SearchService({
    ...{ clock: systemClock, random: createSeededRandom(7), epochMs: () => 1_790_000_000_000 },
    ...{ memory: createEngineMemory(engines.length), onOutcome: () => undefined, ...more, system },
  });
  room.configure({ timeoutMs, engines, cacheTtlMs: null, cacheBytes: 0 });
  t.teardown(async () => {
    await room.close();
    await system.terminate();
  });
  return room;
}

type Timed = SearchAnswer & { readonly tookMs: number };

function search(room: SearchService, engines: readonly string[], query: string): Promise<Timed> {
  const startedMs = systemClock.now();
  return new Promise((resolve) => {
    room.search(queryOf(engines, { query }), 'me', (answer) =>
      resolve({ ...answer, tookMs: systemClock.now() - startedMs }),
    );
  });
}

/** A timer of the test's own, set at the same moment as a search: what it is late by, the machine is. */
function timer(ms: number): Promise<number> {
  const startedMs = systemClock.now();
  return new Promise((resolve) => {
    setTimeout(() => setImmediate(() => resolve(systemClock.now() - startedMs)), ms);
  });
}

const GOOD = JSON.stringify({ results: [{ title: 'Good', url: 'http://x.org/', snippet: 'Fine.' }] });

/** Faults by path; each server closes over the address of a private one that nobody may reach. */
const FAULTS: Readonly<Record<string, { run: (response: ServerResponse, secret: string) => void; reason: string }>> = {
  hangs: { run: () => undefined, reason: 'timeout' },
  trickles: {
    run(response) {
      response.writeHead(200, { 'content-type': 'application/json' });
      const timer = setInterval(() => response.write(' '), 20);
      response.on('close', () => clearInterval(timer));
    },
    reason: 'timeout',
  },
  late: { run: (response) => void setTimeout(() => response.end(GOOD), 900), reason: 'timeout' },
  resets: { run: (response) => void response.socket?.resetAndDestroy(), reason: 'connection failed' },
  floods: { run: (response) => void response.end(Buffer.alloc(50_000_000, ' ')), reason: 'invalid response' },
  breaks: { run: (response) => void response.end('{"results": [{"title": "secret'), reason: 'invalid response' },
  redirects: {
    run: (response, secret) => void response.writeHead(302, { location: secret }).end(),
    reason: 'worker returned HTTP 302',
  },
  errs: { run: (response) => void response.writeHead(500).end('secret stack'), reason: 'worker returned HTTP 500' },
  throttles: { run: (response) => void response.writeHead(429).end('secret'), reason: 'rate limited' },
};

/** Serves every fault below its own path; counts the requests of the private server behind it. */
async function upstream(
  t: Test,
): Promise<{ readonly url: string; readonly secrets: () => number; open: () => number }> {
  let secrets = 0;
  const open = new Set<ServerResponse>();
  const listen = async (handle: (path: string, response: ServerResponse) => void): Promise<string> => {
    const server = createServer((request, response) => {
      open.add(response.on('close', () => open.delete(response)));
      handle(request.url?.split('/')[1] ?? '', response);
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    t.teardown(() => {
      server.closeAllConnections();
      server.close();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };
  const secret = await listen((_path, response) => {
    secrets++;
    response.end(GOOD);
  });
  const url = await listen((path, response) => {
    const fault = FAULTS[path];
    if (fault === undefined) response.end(GOOD);
    else fault.run(response, secret);
  });
  return { url, secrets: () => secrets, open: () => open.size };
}

t.test('each fault of a real engine is told in our words, in time, beside an engine that works', async (t) => {
  const { url, secrets, open } = await upstream(t);
  const ids = [...Object.keys(FAULTS), 'good'];
  const engines = ids.map((id, cell) => specOf(id, { cell, workers: [worker({ url: `${url}/${id}` })] }));
  const timeoutMs = 500;
  const room = roomOf(t, engines, timeoutMs);
  for (const [id, { reason }] of Object.entries(FAULTS)) {
    const control = timer(timeoutMs);
    const answer = await search(room, [id, 'good'], id);
    const controlMs = await control;
    t.strictSame(answer.meta.engine_errors, [{ engine: id, reason }], id);
    t.strictSame([answer.meta.engines_failed, answer.meta.engines_used], [[id], ['good']]);
    t.equal(answer.results.length, 1);
    t.ok(answer.tookMs <= controlMs + 50, `${id}: ${answer.tookMs} ms; the timer took ${controlMs} ms`);
    t.notMatch(JSON.stringify(answer), /secret/);
  }
  t.equal(secrets(), 0, 'the redirect was not followed');
  const alone = await search(room, ['late'], 'alone');
  t.strictSame(alone.meta.engines_used, []);
  // Every call is left: the servers see their sockets close.
  while (open() > 0) await new Promise((resolve) => setImmediate(resolve));
});

t.test('five engines of which none to all fail, every combination', async (t) => {
  const { url } = await upstream(t);
  const timeoutMs = 2000;
  const control = timer(timeoutMs);
  const faults = ['hangs', 'resets', 'breaks', 'errs', 'redirects'] as const;
  const outcomes = await Promise.all(
    Array.from({ length: 32 }, async (_, bits) => {
      const paths = faults.map((fault, i) => ((bits >> i) % 2 === 1 ? fault : `good${i}`));
      const engines = paths.map((path, cell) =>
        specOf(`engine${cell}`, { cell, workers: [worker({ url: `${url}/${path}` })] }),
      );
      const ids = engines.map(({ id }) => id);
      return { paths, answer: await search(roomOf(t, engines, timeoutMs), ids, String(bits)) };
    }),
  );
  const controlMs = await control;
  for (const { paths, answer } of outcomes) {
    const errors = paths.flatMap((path, i) => {
      const fault = FAULTS[path];
      return fault === undefined ? [] : [{ engine: `engine${i}`, reason: fault.reason }];
    });
    const failed = errors.map(({ engine }) => engine);
    const used = paths.map((_, i) => `engine${i}`).filter((id) => !failed.includes(id));
    t.strictSame(answer.meta.engine_errors, errors, paths.join());
    t.strictSame([answer.meta.engines_failed, answer.meta.engines_used], [failed, used]);
    t.strictSame(answer.results[0]?.found_in, used.length === 0 ? undefined : used);
    t.ok(answer.tookMs <= controlMs + 250, `${answer.tookMs} ms, 32 at once; the timer took ${controlMs} ms`);
  }
});

t.test('a client that leaves closes the sockets of its search', async (t) => {
  const { url, open } = await upstream(t);
  const engines = ['hangs', 'trickles'].map((id, cell) =>
    specOf(id, { cell, workers: [worker({ url: `${url}/${id}` })] }),
  );
  const room = roomOf(t, engines, 60_000);
  const pending = room.search(queryOf(['hangs', 'trickles']), 'me', () => t.fail('answered'));
  while (open() < 2) await new Promise((resolve) => setImmediate(resolve));
  pending.abort();
  while (open() > 0) await new Promise((resolve) => setImmediate(resolve));
  t.equal(open(), 0);
});

const TIMEOUT_MS = 300;
const SEARCHES = 10_000;
const IDS = ['a', 'b', 'c', 'd', 'e'];

/** An engine's answer of any kind: quick, slow, wrong, none. */
function chaos(random: () => number, clock: Clock): Answer {
  const later = (signal: AbortSignal, value: Said): Promise<Said> =>
    new Promise((resolve, reject) => {
      const timer = clock.setTimeout(() => {
        signal.removeEventListener('abort', leave);
        resolve(value);
      }, random() * 400);
      const leave = (): void => {
        clock.clearTimeout(timer);
        reject(signal.reason as Error);
      };
      if (signal.aborted) leave();
      else signal.addEventListener('abort', leave, { once: true });
    });
  return async (_request, signal) => {
    const dice = random();
    if (dice < 0.05) return hang(signal);
    if (dice > 0.97) throw new TransportError('connection', 'connection failed', new Error('secret'));
    if (dice > 0.95) throw new Error('secret');
    if (dice > 0.93) return { failure: 'http', status: 500, retryAfterMs: 5 };
    if (dice > 0.91) return { failure: 'invalid' };
    if (dice > 0.9) return { failure: 'rate limited', retryAfterMs: 20 };
    const good = { urls: [`http://x.org/${Math.floor(random() * 50)}`], ...(random() < 0.3 ? { next: 1 } : {}) };
    return dice < 0.5 ? later(signal, good) : good;
  };
}

function chaosEngines(): (EngineSpec & { readonly weight: number })[] {
  return IDS.map((id, cell) =>
    specOf(id, {
      cell,
      concurrency: 100,
      workers: id < 'c' ? [fakeEngine(`${id}0`), fakeEngine(`${id}1`)] : [fakeEngine(id)],
      hedgeMs: id === 'a' ? 50 : null,
      rates: id === 'e' ? [{ requests: 500, perMs: 1000 }] : [],
    }),
  );
}

/** What 10,000 searches came to. */
class Tally {
  answered = 0;
  left = 0;
  wrong = 0;
  worstMs = 0;
  requests = 0;
  readonly reasons = new Map<string, number>();

  count({ meta }: SearchAnswer, tookMs: number): void {
    this.answered++;
    this.worstMs = Math.max(this.worstMs, tookMs);
    if ([...meta.engines_used, ...meta.engines_failed].sort().join() !== IDS.join()) this.wrong++;
    for (const { reason } of meta.engine_errors) this.reasons.set(reason, (this.reasons.get(reason) ?? 0) + 1);
  }
}

t.test('10,000 searches with random faults: none hangs, none is late, nothing stays', async (t) => {
  const random = createSeededRandom(42);
  const test = createTestSystem();
  const { clock, system } = test;
  const transport = fakeTransport(chaos(random, clock));
  const memory = createEngineMemory(5);
  const room = roomOf(t, chaosEngines(), TIMEOUT_MS, { transport, memory, system, clock });
  const cells = new BigInt64Array(memory);
  const tally = new Tally();
  const heapMb: number[] = [];
  for (let i = 0; i < SEARCHES; i++) {
    const startedMs = clock.now();
    // Some are equal to the one before, some clients leave.
    const query = queryOf(IDS, { query: `q${i % 7 === 0 ? i - 1 : i}` });
    const pending = room.search(query, 'me', (answer) => tally.count(answer, clock.now() - startedMs));
    if (random() < 0.05) {
      tally.left++;
      clock.setTimeout(() => pending.abort(), random() < 0.5 ? 0 : random());
    }
    // Pauses of seconds would leave nothing to test: every suspension is lifted soon.
    if (i % 10 === 0) cells.fill(0n);
    if (i % 4 === 3) await test.advance(1 + Math.floor(random() * 3));
    if (i % 2500 === 2499) {
      await test.advance(2 * TIMEOUT_MS);
      tally.requests += transport.asked.splice(0).length;
      heapMb.push(heapAfterCollection());
      // Drops what has been collected; must come after: looking at a signal keeps it for this turn.
      transport.listeners();
    }
  }
  t.comment(`answered ${tally.answered}, left ${tally.left}, worst ${tally.worstMs.toFixed(1)} ms`);
  t.comment(`requests ${tally.requests}, at once ${transport.load.most}, heap ${heapMb.join(', ')} MB`);
  t.comment([...tally.reasons].map(([reason, count]) => `${reason} ${count}`).join(', '));
  t.equal(tally.wrong, 0, 'each engine once, used or failed');
  t.ok(tally.answered >= SEARCHES - tally.left && tally.answered < SEARCHES, 'all but those who left');
  t.ok(tally.worstMs <= TIMEOUT_MS + 20, 'in time');
  t.notMatch([...tally.reasons.keys()].join(), /secret/);
  t.same([transport.load.now, transport.listeners(), clock.nextDueMs], [0, 0, Infinity], 'no request, listener, timer');
  t.equal(system.stats().actors, IDS.length, 'no actor but the engines');
  t.same(test.failures, []);
  const [, second = 0, , last = 0] = heapMb;
  t.ok(last - second < 2, 'memory is flat');
});

t.test('no rejection was left unhandled', async (t) => {
  t.same(unhandled, []);
});

function heapAfterCollection(): number {
  collect();
  return Math.round(process.memoryUsage().heapUsed / 1e5) / 10;
}
