// One engine client under a manual clock: concurrency, suspension, trials, cancelling, engines of the embedder's own.
import t from 'tap';
import { EngineError, type EngineRequest, type InProcessEngine } from '../../src/search/engine.ts';
import type { EngineReport, EngineSpec } from '../../src/search/engine-client.ts';
import {
  type Answer,
  setUpClient,
  type ClientSetup,
  fakeEngine,
  FOUND,
  hang,
  hitOf,
  HITS,
  reasons,
  startSearch,
} from '../support/search.ts';

const ASKER = { account: 'me', query: 'rivers' };

t.test('reports the hits of its engine', async (t) => {
  const b = setUpClient(() => FOUND);
  const { reports } = startSearch(b.client, 11_000);
  await b.settle();
  t.strictSame(reports, [HITS]);
  t.same(b.outcomes, ['a ok 0']);
});

t.test('refuses a search type that its engine does not have, without a request', async (t) => {
  const b = setUpClient(() => FOUND);
  const { reports } = startSearch(b.client, 11_000, { type: 'images' });
  await b.settle();
  t.strictSame(reports, [{ reason: "unsupported search_type 'images'" }]);
  t.same([b.transport.asked, b.outcomes], [[], []]);
});

t.test('an answer with far more structure than a page of results is not parsed', async (t) => {
  // The answer itself has two.
  const found = (marks: number): ClientSetup =>
    setUpClient(() => ({ urls: [`http://a.org/${'['.repeat(marks - 2)}`] }));
  t.same(await reasons(found(500_001), 1), ['invalid response']);
  t.same(await reasons(found(500_000), 1), ['ok']);
});

t.test('reports failures in short and stable words', async (t) => {
  for (const [failure, reason] of [
    ['denied', 'access denied'],
    ['challenge', 'challenge page'],
    ['rate limited', 'rate limited'],
    ['quota', 'quota exceeded'],
    ['rejected', 'query rejected'],
    ['http', 'engine returned HTTP 500'],
    ['invalid', 'invalid response'],
  ] as const)
    t.same(
      await reasons(
        setUpClient(() => ({ failure, status: 500 })),
        1,
      ),
      [reason],
    );
  const worker = { workers: [fakeEngine('a', { kind: 'worker' })] };
  t.same(
    await reasons(
      setUpClient(() => ({ failure: 'http', status: 500 }), worker),
      1,
    ),
    ['worker returned HTTP 500'],
  );
  const broken = (): never => {
    throw new Error('secret');
  };
  t.same(await reasons(setUpClient(broken), 1), ['connection failed']);
});

t.test('never quotes unexpected errors of an engine', async (t) => {
  const boom = (): never => {
    throw new TypeError('secret');
  };
  const of = (about: object): Partial<EngineSpec> => ({ workers: [fakeEngine('a', about)] });
  t.same(
    await reasons(
      setUpClient(() => FOUND, of({ request: boom })),
      1,
    ),
    ['query rejected'],
  );
  t.same(
    await reasons(
      setUpClient(() => FOUND, of({ parse: boom })),
      1,
    ),
    ['invalid response'],
  );
  for (const page of [undefined, null, {}, { hits: null }, { hits: [null] }, { hits: [{ url: 'http://x.org/' }] }])
    t.same(
      await reasons(
        setUpClient(() => FOUND, of({ parse: () => page })),
        1,
      ),
      ['invalid response'],
    );
  const script = { hits: [{ title: 'x', snippet: '', url: 'javascript:alert(1)' }] };
  t.same(
    await reasons(
      setUpClient(() => FOUND, of({ parse: () => script })),
      1,
    ),
    ['invalid response'],
  );
});

t.test("requests of an embedder's engine that cannot be sent are its failures, and in the log", async (t) => {
  const request = { method: 'GET', url: 'http://a.org/', headers: {} };
  const wrong: readonly unknown[] = [
    ...[undefined, null, 'x', {}, { ...request, method: 'PUT' }, { ...request, url: 'file:///etc' }],
    ...[
      { ...request, headers: { a: 1 } },
      { ...request, headers: { a: 'x\r\nb: c' } },
      { ...request, body: {} },
    ],
  ];
  for (const each of wrong) {
    const engine = fakeEngine('a', { request: () => each as EngineRequest });
    const b = setUpClient(() => FOUND, { workers: [engine], generation: 1 });
    t.same(await reasons(b, 1), ['invalid response'], JSON.stringify(each));
    t.match(b.thrown, [{ name: 'TypeError' }]);
    t.same(b.transport.asked, []);
  }
});

t.test(
  'hits that are none, pages that an engine cannot tell, and engines that do not get ready are in the log',
  async (t) => {
    const of = (about: object): ClientSetup => setUpClient(() => FOUND, { workers: [fakeEngine('a', about)] });
    const pages = of({ parse: () => ({ hits: [{ url: 'http://x.org/' }] }) });
    const own = setUpClient(
      () => FOUND,
      inProcess(() => Promise.resolve([{ url: 7 }] as never)),
    );
    const reaches = of({
      reaches() {
        throw new RangeError('secret');
      },
    });
    t.same([await reasons(pages, 1), await reasons(own, 1)], [['invalid response'], ['invalid response']]);
    t.same(await reasons(reaches, 1), ['query rejected']);
    const ready = of({ ready: Promise.reject(new SyntaxError('secret')) });
    t.same(await reasons(ready, 1), ['engine failed']);
    const thrown = [pages, own, reaches, ready].map((each) => each.thrown);
    t.match(thrown, [[TypeError], [TypeError], [RangeError], [SyntaxError]]);
  },
);

t.test('what an engine says beside its hits is left out where it is of the wrong type', async (t) => {
  const hits = [hitOf('http://a.org/')];
  const query = { query: 'rivers', type: 'web', maxResults: 10, filters: { safeSearch: 'strict' } } as const;
  for (const said of [{ notApplied: 5 }, { notApplied: {} }, { note: 5 }, { note: {} }] as object[]) {
    const b = setUpClient(() => FOUND, { workers: [fakeEngine('a', { parse: () => ({ hits, ...said }) })] });
    const reports: EngineReport[] = [];
    b.client.search(query, 11_000, { onPage: () => undefined, onReport: (report) => reports.push(report) }, 'me');
    await b.settle();
    const notApplied = ['safe_search'];
    t.same(reports, [{ engine: 'a', hits, calls: 1, note: 'safe_search filter not applied', notApplied }]);
  }
});

t.test('runs at most as many searches at once as its concurrency', async (t) => {
  const gate = Promise.withResolvers<typeof FOUND>();
  const b = setUpClient(() => gate.promise, { concurrency: 3 });
  const all = Array.from({ length: 10 }, () => startSearch(b.client, 11_000));
  await b.settle();
  t.equal(b.transport.load.now, 3);
  gate.resolve(FOUND);
  await b.settle();
  t.equal(b.transport.load.most, 3);
  t.ok(all.every(({ reports }) => reports.length === 1 && 'hits' in (reports[0] ?? {})));
});

t.test('a search cancelled in the queue ends at once and does not blame the engine', async (t) => {
  let release: ((value: typeof FOUND) => void) | undefined;
  const b = setUpClient(
    (_request, signal) => Promise.race([new Promise<typeof FOUND>((r) => (release ??= r)), hang(signal)]),
    {
      concurrency: 1,
    },
  );
  const first = startSearch(b.client, 11_000);
  const queued = Array.from({ length: 5 }, () => startSearch(b.client, 11_000));
  await b.settle();
  for (const { call } of queued) call.cancel('timeout');
  await b.settle();
  t.ok(queued.every(({ reports }) => 'reason' in (reports[0] ?? {})));
  const last = startSearch(b.client, 11_000, { query: 'last' });
  release?.(FOUND);
  await b.settle();
  t.strictSame(first.reports, [HITS]);
  t.equal(b.transport.asked.length, 2, 'the first and the last');
  t.equal(b.board.fail(0, 0n, 'quota', 2000, ASKER), 3_600_000, 'the first failure that counts');
  b.board.reset(0);
  last.call.cancel('cancelled');
  await b.settle();
});

t.test('cancelling aborts the request and removes all listeners', async (t) => {
  const b = setUpClient((_request, signal) => hang(signal));
  const { call, reports } = startSearch(b.client, 11_000);
  await b.settle();
  call.cancel('cancelled');
  await b.settle();
  t.equal(b.transport.left.length, 1);
  t.equal(b.transport.load.now, 0);
  t.equal(b.transport.listeners(), 0);
  t.same(reports, [{ reason: 'cancelled' }]);
  for (let i = 0; i < 10; i++) {
    const again = startSearch(b.client, 11_000);
    await b.settle();
    again.call.cancel('cancelled');
    await b.settle();
  }
  t.equal(b.board.suspendedUntilMs(0), 0, 'clients that leave do not suspend the engine');
});

t.test(
  'three searches cut off by the deadline suspend the engine; a trial that is answered lets it back',
  async (t) => {
    let hangs = true;
    const b = setUpClient((_request, signal) => (hangs ? hang(signal) : FOUND));
    for (let i = 0; i < 3; i++) {
      const { call, reports } = startSearch(b.client, b.clock.now() + 10_000, { query: `rivers ${i}` }, `account ${i}`);
      await b.advance(10_000);
      call.cancel('timeout');
      await b.settle();
      t.same(reports, [{ reason: 'timeout' }]);
    }
    t.same(await reasons(b, 2), ['suspended', 'suspended']);
    t.equal(b.transport.asked.length, 3, 'suspended: not asked');
    hangs = false;
    await b.advance(5000);
    t.same(await reasons(b, 2), ['ok', 'ok']);
  },
);

t.test('a search of a suspended engine fails at once, also when others are running', async (t) => {
  const b = setUpClient((_request, signal) => hang(signal), { concurrency: 1 });
  startSearch(b.client, 11_000);
  await b.settle();
  b.board.fail(0, 0n, 'quota', 1000, ASKER);
  t.same(await reasons(b, 1), ['suspended']);
});

t.test('one search tries an engine after its suspension', async (t) => {
  let open: ((value: typeof FOUND) => void) | undefined;
  let answers: () => typeof FOUND | { failure: 'denied' } | Promise<typeof FOUND> = () => ({ failure: 'denied' });
  const b = setUpClient(() => answers());
  t.same(await reasons(b, 3), ['access denied', 'access denied', 'suspended']);
  await b.advance(180_000);
  answers = () => new Promise((resolve) => (open = resolve));
  const trial = startSearch(b.client, b.clock.now() + 10_000);
  await b.settle();
  t.same(await reasons(b, 3), ['suspended', 'suspended', 'suspended']);
  open?.(FOUND);
  await b.settle();
  t.strictSame(trial.reports, [HITS]);
  answers = () => FOUND;
  t.same(await reasons(b, 2), ['ok', 'ok']);
});

t.test('a trial whose client leaves is granted to the next search', async (t) => {
  let answers: Answer = () => ({ failure: 'denied' });
  const b = setUpClient((request, signal) => answers(request, signal));
  await reasons(b, 2);
  await b.advance(180_000);
  answers = (_request, signal) => hang(signal);
  const { call } = startSearch(b.client, b.clock.now() + 10_000);
  await b.settle();
  call.cancel('cancelled');
  await b.settle();
  answers = () => FOUND;
  t.same(await reasons(b, 1), ['ok']);
});

function inProcess(search: InProcessEngine['search']): Partial<EngineSpec> {
  return { workers: [{ kind: 'own', documentation: 'README.md', types: ['web'], search }], concurrency: 2 };
}

t.test('limits, checks and cancels an engine in this process, whether it heeds its signal or not', async (t) => {
  const many = Array.from({ length: 50 }, (_, i) => hitOf(`http://x.org/${i}`));
  const good = setUpClient(
    () => FOUND,
    inProcess(async () => many),
  );
  const { reports } = startSearch(good.client, 11_000);
  await good.settle();
  t.equal((reports[0] as typeof HITS).hits.length, 10);
  const deaf = setUpClient(
    () => FOUND,
    inProcess(() => new Promise(() => undefined)),
  );
  for (let i = 0; i < 3; i++) {
    const deadlineMs = deaf.clock.now() + 10_000;
    const search = startSearch(deaf.client, deadlineMs, { query: `rivers ${i}` }, `account ${i}`);
    await deaf.advance(10_000);
    search.call.cancel('timeout');
    await deaf.settle();
    t.same(search.reports, [{ reason: 'timeout' }], 'others may run again');
  }
  t.same(await reasons(deaf, 1), ['suspended']);
});

t.test('reports failures of an engine in this process in stable words', async (t) => {
  const of = (search: () => unknown): ClientSetup =>
    setUpClient(() => FOUND, inProcess(search as InProcessEngine['search']));
  const secret = of(() => Promise.reject(new Error('secret')));
  t.same(await reasons(secret, 4), ['engine failed', 'engine failed', 'engine failed', 'suspended']);
  t.same(
    await reasons(
      of(() => {
        throw new Error('secret');
      }),
      1,
    ),
    ['engine failed'],
  );
  t.same(
    await reasons(
      of(() => Promise.reject(new EngineError('quota'))),
      1,
    ),
    ['quota exceeded'],
  );
  t.same(
    await reasons(
      of(() => undefined),
      1,
    ),
    ['invalid response'],
  );
  t.same(
    await reasons(
      of(() => Promise.resolve([{ title: 'a', url: 'https://a.example', snippet: '', imageUrl: 7 }])),
      1,
    ),
    ['invalid response'],
  );
  const wrong = [
    { publishedAt: new Date(0) },
    { publishedAt: 2026 },
    { source: {} },
    { thumbnailUrl: null },
    { width: '640' },
    { width: 640.5 },
    { height: -1 },
    { height: NaN },
  ];
  for (const fields of wrong) {
    const hit = { title: 'a', url: 'https://a.example', snippet: '', ...fields };
    t.same(
      await reasons(
        of(() => Promise.resolve([hit])),
        1,
      ),
      ['invalid response'],
      JSON.stringify(fields),
    );
  }
  t.same(
    await reasons(
      of(() => Promise.reject(null)),
      1,
    ),
    ['engine failed'],
  );
});

t.test('cancelling every search aborts every request and empties the queue', async (t) => {
  const b = setUpClient((_request, signal) => hang(signal), { concurrency: 2 });
  const all = Array.from({ length: 5 }, () => startSearch(b.client, 11_000));
  await b.settle();
  for (const { call } of all) call.cancel('cancelled');
  for (const { call } of all) call.cancel('timeout');
  await b.settle();
  t.same([b.transport.asked.length, b.transport.load.now, b.transport.listeners()], [2, 0, 0]);
  t.ok(all.every(({ reports }) => reports.length === 1));
  t.equal(b.board.suspendedUntilMs(0), 0);
  t.equal(startSearch(b.client, 11_000).reports.length, 0, 'others may run again');
  await b.settle();
  t.equal(b.transport.asked.length, 3);
});

t.test('a suspension ends all searches in the queue', async (t) => {
  const gate = Promise.withResolvers<{ failure: 'quota' }>();
  const b = setUpClient(() => gate.promise, { concurrency: 1 });
  const all = Array.from({ length: 10_000 }, () => startSearch(b.client, 11_000));
  await b.settle();
  gate.resolve({ failure: 'quota' });
  await b.settle();
  t.equal(b.transport.asked.length, 1);
  t.strictSame(all[0]?.reports, [{ reason: 'quota exceeded' }]);
  t.ok(all.slice(1).every(({ reports }) => 'reason' in (reports[0] ?? {}) && reports.length === 1));
  t.strictSame(all.at(-1)?.reports, [{ reason: 'suspended' }]);
});
