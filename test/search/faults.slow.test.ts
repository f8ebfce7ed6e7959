// The search service against engines that misbehave, under a manual clock: on real sockets each fault and every number of
// failures at once; then 10,000 searches with random faults in this process.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import type { Clock } from '../../src/actor/index.ts';
import { createManualClock, createSeededRandom, createTestSystem, type ManualClock } from '../../src/actor/testkit.ts';
import { worker } from '../../src/search/engines/worker.ts';
import { createPlaceMemory } from '../../src/routing/place-counts.ts';
import { createEngineMemory } from '../../src/search/engine-board.ts';
import type { EngineSpec } from '../../src/search/engine-client.ts';
import type { SearchAnswer } from '../../src/search/query.ts';
import { SearchService, type SearchServiceDeps } from '../../src/search/search-service.ts';
import {
  type Answer,
  answerOf,
  callerOf,
  fakeEngine,
  fakeTransport,
  hang,
  queryOf,
  type Said,
  specOf,
} from '../support/search.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const unhandled: unknown[] = [];
process.on('unhandledRejection', (error) => unhandled.push(error));

interface Test {
  teardown(run: () => unknown): unknown;
}

const TIMEOUT_MS = 300;

function serviceOf(
  t: Test,
  engines: readonly EngineSpec[],
  clock: Clock,
  deps: Pick<Partial<SearchServiceDeps>, 'memory' | 'onOutcome' | 'transport'> = {},
): SearchService {
  const service = new SearchService({
    ...{ clock, random: createSeededRandom(7), epochMs: () => 1_790_000_000_000 },
    ...{ memory: createEngineMemory(engines.length), onOutcome: () => undefined, onThrown: () => undefined, ...deps },
    ...{ placeMemory: createPlaceMemory(1), thread: 0 },
  });
  service.configure({
    timeoutMs: TIMEOUT_MS,
    softTimeoutMs: TIMEOUT_MS,
    perAccount: 1000,
    engines,
    cacheTtlMs: null,
    cacheBytes: 0,
  });
  t.teardown(() => service.close());
  return service;
}

interface Asked {
  readonly answered: Promise<SearchAnswer>;
  readonly answers: readonly SearchAnswer[];
  /** Resolves when so many engines have reported. */
  readonly reported: (engines: number) => Promise<void>;
}

/** A search of all these engines. */
function search(t: Test, engines: readonly EngineSpec[], clock: ManualClock): Asked {
  let reports = 0;
  let wake = (): void => undefined;
  const service = serviceOf(t, engines, clock, {
    onOutcome() {
      reports++;
      wake();
    },
  });
  const answers: SearchAnswer[] = [];
  const answered = new Promise<SearchAnswer>((resolve) => {
    service.search(queryOf(engines.map(({ id }) => id)), callerOf('me'), (found) => {
      const answer = answerOf(found);
      answers.push(answer);
      resolve(answer);
    });
  });
  return {
    ...{ answered, answers },
    async reported(count) {
      while (reports < count) await new Promise<void>((resolve) => (wake = resolve));
    },
  };
}

const GOOD = JSON.stringify({ results: [{ title: 'Good', url: 'http://x.org/', snippet: 'Fine.' }] });

/** Faults by path. `secret` is the address of a server that no redirect may reach. */
const FAULTS: Readonly<Record<string, { run: (response: ServerResponse, secret: string) => void; reason: string }>> = {
  hangs: { run: () => undefined, reason: 'timeout' },
  trickles: {
    run(response) {
      response.writeHead(200, { 'content-type': 'application/json' });
      const write = (): void => {
        if (!response.closed && response.write(' ')) setImmediate(write);
      };
      write();
    },
    reason: 'timeout',
  },
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

async function listen(t: Test, handle: (path: string, response: ServerResponse) => void): Promise<string> {
  const server = createServer((request, response) => handle(request.url?.split('/')[1] ?? '', response));
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Serves every fault below its own path; counts the requests of the private server behind it. */
async function upstream(
  t: Test,
): Promise<{ readonly url: string; readonly secrets: () => number; open: () => number }> {
  let secrets = 0;
  const open = new Set<ServerResponse>();
  const secret = await listen(t, (_path, response) => {
    secrets++;
    response.end(GOOD);
  });
  const url = await listen(t, (path, response) => {
    open.add(response.on('close', () => open.delete(response)));
    const fault = FAULTS[path];
    if (fault === undefined) response.end(GOOD);
    else fault.run(response, secret);
  });
  return { url, secrets: () => secrets, open: () => open.size };
}

const REACHES_DEADLINE = new Set(['hangs', 'trickles']);

t.test('reports each fault of an engine on a socket by the deadline, beside an engine that works', async (t) => {
  const { url, secrets, open } = await upstream(t);
  for (const [id, { reason }] of Object.entries(FAULTS)) {
    const clock = createManualClock();
    const engines = [id, 'good'].map((name, cell) =>
      specOf(name, { cell, workers: [worker({ url: `${url}/${name}` })] }),
    );
    const { answered, answers, reported } = search(t, engines, clock);
    if (REACHES_DEADLINE.has(id)) {
      await reported(1);
      clock.advance(TIMEOUT_MS - 1);
      t.same(answers, [], `${id}: not before the deadline`);
      clock.advance(1);
    }
    const answer = await answered;
    t.equal(clock.now(), REACHES_DEADLINE.has(id) ? TIMEOUT_MS : 0, id);
    t.equal(clock.nextDueMs, Infinity);
    t.strictSame(answer.meta.engine_errors, [{ engine: id, reason }], id);
    t.strictSame([answer.meta.engines_failed, answer.meta.engines_used], [[id], ['good']]);
    t.equal(answer.results.length, 1);
    t.notMatch(JSON.stringify(answer), /secret/);
  }
  t.equal(secrets(), 0, 'the redirect was not followed');
  // Every call has ended: the servers see their sockets close.
  while (open() > 0) await new Promise((resolve) => setImmediate(resolve));
});

t.test('an answer after the deadline has no effect', async (t) => {
  const arrived = Promise.withResolvers<ServerResponse>();
  const url = await listen(t, (_path, response) => arrived.resolve(response));
  const clock = createManualClock();
  const { answered, answers } = search(t, [specOf('late', { workers: [worker({ url })] })], clock);
  const response = await arrived.promise;
  const closed = new Promise((resolve) => response.on('close', resolve));
  clock.advance(TIMEOUT_MS);
  response.end(GOOD);
  t.strictSame((await answered).meta.engines_used, []);
  await closed;
  t.equal(answers.length, 1);
});

t.test('reports every combination of five engines that work or fail', async (t) => {
  const { url } = await upstream(t);
  const clock = createManualClock();
  const faults = ['hangs', 'resets', 'breaks', 'errs', 'redirects'] as const;
  const searches = Array.from({ length: 32 }, (_, bits) => {
    const paths = faults.map((fault, i) => ((bits >> i) % 2 === 1 ? fault : `good${i}`));
    const engines = paths.map((path, cell) =>
      specOf(`engine${cell}`, { cell, workers: [worker({ url: `${url}/${path}` })] }),
    );
    return { paths, hangs: paths[0] === 'hangs', ...search(t, engines, clock) };
  });
  await Promise.all(searches.map(({ hangs, reported }) => reported(hangs ? 4 : 5)));
  await Promise.all(searches.filter(({ hangs }) => !hangs).map(({ answered }) => answered));
  clock.advance(TIMEOUT_MS - 1);
  t.ok(searches.every(({ answers, hangs }) => answers.length === (hangs ? 0 : 1)));
  clock.advance(1);
  for (const { paths, answered } of searches) {
    const answer = await answered;
    const errors = paths.flatMap((path, i) => {
      const fault = FAULTS[path];
      return fault === undefined ? [] : [{ engine: `engine${i}`, reason: fault.reason }];
    });
    const failed = errors.map(({ engine }) => engine);
    const used = paths.map((_, i) => `engine${i}`).filter((id) => !failed.includes(id));
    t.strictSame(answer.meta.engine_errors, errors, paths.join());
    t.strictSame([answer.meta.engines_failed, answer.meta.engines_used], [failed, used]);
    t.strictSame(answer.results[0]?.found_in, used.length === 0 ? undefined : used);
  }
  t.equal(clock.now(), TIMEOUT_MS);
});

t.test('a client that leaves closes the sockets of its search', async (t) => {
  const { url, open } = await upstream(t);
  const engines = ['hangs', 'trickles'].map((id, cell) =>
    specOf(id, { cell, workers: [worker({ url: `${url}/${id}` })] }),
  );
  const service = serviceOf(t, engines, createManualClock());
  const pending = service.search(queryOf(['hangs', 'trickles']), callerOf('me'), () => t.fail('answered'));
  while (open() < 2) await new Promise((resolve) => setImmediate(resolve));
  pending.abort();
  while (open() > 0) await new Promise((resolve) => setImmediate(resolve));
  t.equal(open(), 0);
});

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
    if (dice > 0.95) throw new Error('secret');
    if (dice > 0.93) return { failure: 'http', status: 500, retryAfterMs: 5 };
    if (dice > 0.91) return { failure: 'invalid' };
    if (dice > 0.9) return { failure: 'rate limited', retryAfterMs: 20 };
    const good = { urls: [`http://x.org/${Math.floor(random() * 50)}`], ...(random() < 0.3 ? { next: 1 } : {}) };
    return dice < 0.5 ? later(signal, good) : good;
  };
}

function chaosEngines(): EngineSpec[] {
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

t.test('10,000 searches with random faults all end by their deadline and leave nothing behind', async (t) => {
  const random = createSeededRandom(42);
  const test = createTestSystem();
  const { clock } = test;
  const transport = fakeTransport(chaos(random, clock));
  const memory = createEngineMemory(5);
  const service = serviceOf(t, chaosEngines(), clock, { transport, memory });
  const cells = new BigInt64Array(memory, 0, memory.byteLength >> 3);
  const tally = new Tally();
  const made: WeakRef<object>[] = [];
  for (let i = 0; i < SEARCHES; i++) {
    const startedMs = clock.now();
    // Some are equal to the one before, some clients leave.
    const query = queryOf(IDS, { query: `q${i % 7 === 0 ? i - 1 : i}` });
    const pending = service.search(query, callerOf(`account ${Math.floor((i + 1) / 7)}`), (found) => {
      const answer = answerOf(found);
      tally.count(answer, clock.now() - startedMs);
      made.push(new WeakRef(answer));
    });
    made.push(new WeakRef(query), new WeakRef(pending));
    if (random() < 0.05) {
      tally.left++;
      clock.setTimeout(() => pending.abort(), random() < 0.5 ? 0 : random());
    }
    // Suspensions of seconds would leave nothing to test: each is lifted soon.
    if (i % 10 === 0) cells.fill(0n);
    if (i % 4 === 3) await test.advance(1 + Math.floor(random() * 3));
    if (i % 2500 === 2499) {
      await test.advance(2 * TIMEOUT_MS);
      tally.requests += transport.asked.splice(0).length;
      collect();
      // Drops what has been collected; must come after: looking at a signal keeps it for this turn.
      transport.listeners();
    }
  }
  const kept = made.filter((ref) => ref.deref() !== undefined).length;
  t.comment(`answered ${tally.answered}, left ${tally.left}, worst ${tally.worstMs.toFixed(1)} ms`);
  t.comment(`requests ${tally.requests}, at once ${transport.load.most}, objects ${made.length}, kept ${kept}`);
  t.comment([...tally.reasons].map(([reason, count]) => `${reason} ${count}`).join(', '));
  t.equal(tally.wrong, 0, 'each engine once, used or failed');
  t.ok(tally.answered >= SEARCHES - tally.left && tally.answered < SEARCHES, 'all but those who left');
  t.ok(tally.worstMs <= TIMEOUT_MS + 20, 'in time');
  t.notMatch([...tally.reasons.keys()].join(), /secret/);
  t.same([transport.load.now, transport.listeners(), clock.nextDueMs], [0, 0, Infinity], 'no request, listener, timer');
  t.ok(kept <= 4, `${kept} of ${made.length} queries, answers and searches stay in memory`);
});

t.test('no rejection was left unhandled', async (t) => {
  t.same(unhandled, []);
});
