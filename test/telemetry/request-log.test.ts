// The request log in memory: what a row holds, filters, pages while requests go on ending, bounds, and memory.

import t from 'tap';
import {
  type EndedRequest,
  type LogQuery,
  printPlace,
  readPlace,
  RequestLog,
  type RequestRingOptions,
} from '../../src/telemetry/request-log.ts';

const CHAT = '/v1/chat/completions';
const CRN = 'http://10.0.0.1:8000';

const REQUEST: EndedRequest = {
  ...{ requestId: 'id-1', method: 'POST', path: CHAT, endpoint: CHAT, model: 'atlas-27b', alias: '' },
  ...{ account: 'team', credential: 'key_1', crn: CRN, attempts: 1, failures: null, affinity: 'cache' },
  ...{ errorCode: '', tool: '', translation: '', heldMs: 0, predictedHit: 0.934, cost: 925_000_000 },
  ...{ attempt: { sentMs: 1001, begunMs: 1040 }, receivedMs: 1000, firstPieceMs: 1050, bytesIn: 120, bytesOut: 3400 },
  ...{ aborted: false, remoteAddress: '192.0.2.7', span: null, texts: null },
  tokens: { promptTokens: 90, cachedTokens: 64, completionTokens: 41, saysCached: true, measured: false },
  settlement: {},
};

const ALL: LogQuery = {
  ...{ limit: 100, before: null, after: null, upToUs: Infinity, model: '', account: '', crn: '', endpoint: '' },
  ...{ tool: '', code: '', minStatus: 0, maxStatus: 999, failed: false, slowerThanMs: 0, text: '' },
};

const EPOCH_MS = 1_795_000_000_000;

function ring(options: Partial<RequestRingOptions> = {}): { ring: RequestLog; at: (ms: number) => void } {
  let nowMs = 5000;
  const made = new RequestLog({
    ...{ size: 4, thread: 1, clientAddress: false, now: () => nowMs, epochMs: () => EPOCH_MS + nowMs },
    dialectOf: (endpoint) => (endpoint === CHAT ? 'chat-completions' : null),
    ...options,
  });
  return { ring: made, at: (ms) => void (nowMs = ms) };
}

const idsOf = async (made: RequestLog, query: Partial<LogQuery> = {}): Promise<string[]> =>
  (await made.page({ ...ALL, ...query })).rows.map(({ requestId }) => requestId);

t.test('a row has the tool by which a search was asked, and is found by it', async (t) => {
  const { ring: made } = ring();
  for (const tool of ['', 'mcp', 'tavily'])
    made.add({ ...REQUEST, requestId: `by ${tool}`, endpoint: '/search', tool }, 200, 3000);
  t.same(await idsOf(made, { tool: 'mcp' }), ['by mcp']);
  t.same(await idsOf(made, { text: 'TAVI' }), ['by tavily']);
  t.same(
    (await made.page(ALL)).rows.map(({ tool }) => tool),
    ['tavily', 'mcp', null],
  );
});

t.test('a row has the names, times, tokens and cost of a request', async (t) => {
  const { ring: made } = ring();
  made.add(REQUEST, 200, 3050);
  t.same(await made.page(ALL), {
    rows: [
      {
        ...{
          cursor: '3050000-1-0',
          requestId: 'id-1',
          dateMs: EPOCH_MS + 3050,
          method: 'POST',
          endpoint: CHAT,
          path: null,
        },
        ...{
          dialect: 'chat-completions',
          model: 'atlas-27b',
          alias: null,
          tool: null,
          account: 'team',
          key: 'key_1',
          crn: CRN,
          attempts: 1,
        },
        ...{ failures: [], affinity: 'cache', status: 200, code: null, streamed: true, aborted: false },
        ...{ durationMs: 2050, heldMs: 0, sentMs: 1, begunMs: 40, firstByteMs: 50 },
        ...{
          inputTokens: 90,
          cachedTokens: 64,
          outputTokens: 41,
          estimated: true,
          tokensPerSecond: 20,
          costUsd: '0.000925',
        },
        ...{ bytesIn: 120, bytesOut: 3400, translation: null, predictedHit: 0.93, traceId: null, client: null },
      },
    ],
    sinceMs: null,
  });
});

t.test('what few requests have is in their rows alone', async (t) => {
  const { ring: made } = ring({ clientAddress: true });
  const failures = [
    { crn: 'http://10.0.0.2:8000', failure: 'connect', reason: 'connection refused', sentMs: null, endMs: 3.04 },
  ];
  const long = 'x'.repeat(128);
  const span = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736' };
  made.add(
    { ...REQUEST, requestId: long, path: '/v1/v1/models', endpoint: 'other', alias: 'atlas', failures, span },
    404,
    3000,
  );
  t.match((await made.page(ALL)).rows, [
    {
      ...{
        requestId: long,
        path: '/v1/v1/models',
        alias: 'atlas',
        traceId: span.traceId,
        client: '192.0.2.7',
        dialect: null,
      },
      failures: [
        { crn: 'http://10.0.0.2:8000', failure: 'connect', reason: 'connection refused', sentMs: null, endMs: 3 },
      ],
    },
  ]);
  const bare = {
    ...REQUEST,
    settlement: null,
    tokens: null,
    cost: 0,
    attempt: null,
    firstPieceMs: 0,
    predictedHit: -1,
    credential: null,
  };
  made.add({ ...bare, crn: '', attempts: 0, affinity: '', model: '', account: '' }, 200, 3000);
  t.match((await made.page({ ...ALL, limit: 1 })).rows[0], {
    ...{ requestId: 'id-1', path: null, traceId: null, failures: [], model: null, account: null, key: null, crn: null },
    ...{ sentMs: null, begunMs: null, firstByteMs: null, inputTokens: null, cachedTokens: null, outputTokens: null },
    ...{ tokensPerSecond: null, costUsd: null, predictedHit: null, affinity: null, streamed: false },
  });
});

t.test('the ring keeps the last rows, and says since when it has all', async (t) => {
  const { ring: made } = ring();
  for (let i = 0; i < 4; i++) made.add({ ...REQUEST, requestId: `id-${i}` }, 200, 2000 + i);
  t.equal((await made.page(ALL)).sinceMs, null);
  for (let i = 4; i < 10; i++) made.add({ ...REQUEST, requestId: `id-${i}` }, 200, 2000 + i);
  t.same(await idsOf(made), ['id-9', 'id-8', 'id-7', 'id-6']);
  t.equal((await made.page(ALL)).sinceMs, EPOCH_MS + 2006);
});

t.test('pages go on where they ended while further requests end', async (t) => {
  const { ring: made } = ring({ size: 8 });
  for (let i = 0; i < 5; i++) made.add({ ...REQUEST, requestId: `id-${i}` }, 200, 2000);
  const first = (await made.page({ ...ALL, limit: 2 })).rows;
  t.same(
    first.map(({ requestId }) => requestId),
    ['id-4', 'id-3', 'id-2'],
    'one more than asked for says that there are more',
  );
  made.add({ ...REQUEST, requestId: 'new' }, 200, 2000);
  const before = readPlace(first[1]?.cursor ?? '');
  t.same(await idsOf(made, { before, limit: 2 }), ['id-2', 'id-1', 'id-0']);
  t.same(await idsOf(made, { after: before }), ['id-4', 'new'], 'forwards, oldest first');
  t.same(await idsOf(made, { upToUs: 2_000_000 }), [], 'not what ends at that moment or later');
});

t.test('filters', async (t) => {
  const { ring: made } = ring({ size: 16 });
  const add = (requestId: string, more: Partial<EndedRequest>, status = 200, endMs = 1100): void =>
    made.add({ ...REQUEST, requestId, ...more }, status, endMs);
  add('plain', {});
  add('model', { model: 'other-model', alias: 'Their-Name' });
  add('account', { account: 'acme' });
  add('failed over', {
    failures: [{ crn: 'http://10.0.0.9:8000', failure: 'status 503', reason: null, sentMs: 1, endMs: 2 }],
  });
  add('missing', { errorCode: 'HR_ROUTE_UNKNOWN_MODEL' }, 404);
  add('late', { errorCode: 'HR_ROUTE_ALL_FAILED' }, 503);
  add('gone', { aborted: true }, 200);
  add('cut', { errorCode: 'HR_STREAM_BROKEN' }, 200);
  add('slow', {}, 200, 9000);
  add('models', { endpoint: '/v1/models', path: '/v1/models' });
  t.same(await idsOf(made, { model: 'other-model' }), ['model']);
  t.same(await idsOf(made, { model: 'Their-Name' }), ['model'], 'by the name that the client used');
  t.same(await idsOf(made, { account: 'acme' }), ['account']);
  t.same(await idsOf(made, { crn: 'http://10.0.0.9:8000' }), ['failed over'], 'also of an attempt that failed');
  t.same(await idsOf(made, { code: 'HR_ROUTE_ALL_FAILED' }), ['late']);
  t.same(await idsOf(made, { endpoint: '/v1/models' }), ['models']);
  t.same(await idsOf(made, { minStatus: 400, maxStatus: 499 }), ['missing']);
  t.same(await idsOf(made, { failed: true }), ['cut', 'gone', 'late', 'missing']);
  t.same(await idsOf(made, { slowerThanMs: 5000 }), ['slow']);
  t.same(await idsOf(made, { text: 'STATUS 503' }), ['failed over']);
  t.same(await idsOf(made, { text: 'their-name' }), ['model']);
  t.same(await idsOf(made, { text: 'unknown_model', minStatus: 404, maxStatus: 404 }), ['missing'], 'filters add up');
  t.same(await idsOf(made, { text: 'nothing like it' }), []);
});

t.test('a search of many rows leaves others their turns, and leaves out what is overwritten meanwhile', async (t) => {
  let nowMs = 5000;
  // Each look at the clock takes two milliseconds.
  const { ring: made } = ring({ size: 5000, now: () => (nowMs += 2) });
  for (let i = 0; i < 5000; i++) made.add({ ...REQUEST, requestId: `id-${i}` }, 200, 2000 + i);
  let turns = 0;
  const other = (): void => {
    turns++;
    others = setImmediate(other);
  };
  let others = setImmediate(other);
  const reading = made.page({ ...ALL, limit: 10_000, text: 'ID-' });
  for (let i = 5000; i < 7000; i++) made.add({ ...REQUEST, requestId: `id-${i}` }, 200, 2000 + i);
  const { rows, sinceMs } = await reading;
  t.same([rows[0]?.requestId, rows.at(-1)?.requestId, rows.length], ['id-4999', 'id-2000', 3000]);
  t.ok(sinceMs !== null && sinceMs > EPOCH_MS, 'older rows are gone');
  turns = 0;
  t.same(await made.find('none', 5), []);
  clearImmediate(others);
  t.ok(turns > 0, `${turns} turns`);
});

t.test('an entry is found by its request id or its cursor, with its texts', async (t) => {
  const { ring: made } = ring();
  const texts = { texts: () => ({ prompt: 'Where does the water go?', answer: 'Down the headrace.' }) };
  made.add({ ...REQUEST, requestId: 'same' }, 200, 2000);
  made.add({ ...REQUEST, requestId: 'same', texts }, 200, 2001);
  t.match(await made.find('same', 5), [
    { cursor: '2001000-1-1', texts: { prompt: 'Where does the water go?' } },
    { cursor: '2000000-1-0', texts: null },
  ]);
  t.match(await made.find('2000000-1-0', 5), [{ cursor: '2000000-1-0' }]);
  t.same(await made.find('2000000-2-0', 5), [], 'of another thread');
  t.same(await made.find('none', 5), []);
  t.equal(printPlace(readPlace('2000000-1-0') as never), '2000000-1-0');
  for (const wrong of ['', 'x', '1-2', '-1-2-3', '1-2-3-4', `${'9'.repeat(20)}-1-1`])
    t.equal(readPlace(wrong), null, wrong);
});

t.test('texts are dropped with their rows, and the oldest beyond 16 Mi characters', async (t) => {
  const { ring: made } = ring({ size: 3 });
  const long = { texts: () => ({ prompt: 'p'.repeat(9 * 1024 * 1024), answer: '' }) };
  made.add({ ...REQUEST, requestId: 'a', texts: long }, 200, 2000);
  made.add({ ...REQUEST, requestId: 'b', texts: long }, 200, 2001);
  t.equal((await made.find('a', 1))[0]?.texts, null);
  t.not((await made.find('b', 1))[0]?.texts, null);
  for (let i = 0; i < 3; i++) made.add({ ...REQUEST, requestId: `c${i}` }, 200, 2002 + i);
  t.same(await made.find('b', 1), []);
  made.add({ ...REQUEST, requestId: 'd', texts: long }, 200, 2010);
  t.not((await made.find('d', 1))[0]?.texts, null, 'the space of rows that are gone is free');
});

t.test('10,000 rows take less than 2.2 MB', async (t) => {
  t.ok(RequestLog.bytesOf(10_000) < 2_200_000, String(RequestLog.bytesOf(10_000)));
});
