// The request log: which requests are logged, with which fields, and what is never logged.

import t from 'tap';
import { type FinishedRequest, AccessLog, type AccessLogOptions } from '../../src/telemetry/access-log.ts';

const REQUEST: FinishedRequest = {
  requestId: 'id-1',
  endpoint: '/v1/chat/completions',
  method: 'POST',
  path: '/v1/chat/completions',
  model: 'atlas-27b',
  alias: 'atlas',
  errorCode: '',
  bytesIn: 120,
  bytesOut: 3400,
  receivedMs: 1000,
  firstPieceMs: 1040.26,
  crn: 'http://10.0.0.1:8000',
  tool: '',
  translation: 'messages-chat',
  attempts: 2,
  heldMs: 20.04,
  predictedHit: 0.9345,
  tokens: { promptTokens: 700, cachedTokens: 640, completionTokens: 78, saysCached: true, measured: true },
  cost: 0,
  aborted: false,
  account: 'team',
  span: null,
  settlement: null,
};

function logging(options: Partial<AccessLogOptions> = {}): {
  log: AccessLog;
  lines: () => Record<string, unknown>[];
} {
  const written: string[] = [];
  const write = (line: string): void => void written.push(line);
  const log = new AccessLog({ level: 'info', requests: 'all', sample: 1, random: () => 0.5, write, ...options });
  return { log, lines: () => written.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

t.test('a request is one JSON object per line', async (t) => {
  const { log, lines } = logging();
  log.finished(REQUEST, 200, 812.349);
  t.same(lines(), [
    {
      level: 30,
      time: lines()[0]?.['time'],
      name: 'headrace',
      requestId: 'id-1',
      endpoint: '/v1/chat/completions',
      method: 'POST',
      path: '/v1/chat/completions',
      model: 'atlas-27b',
      status: 200,
      account: 'team',
      crn: 'http://10.0.0.1:8000',
      attempts: 2,
      translation: 'messages-chat',
      heldMs: 20,
      predictedHit: 0.93,
      inputTokens: 700,
      cachedTokens: 640,
      outputTokens: 78,
      tokensPerSecond: 99.7,
      streamed: true,
      aborted: false,
      durationMs: 812.3,
      firstByteMs: 40.3,
      bytesIn: 120,
      bytesOut: 3400,
      msg: 'request',
    },
  ]);
  t.type(lines()[0]?.['time'], 'number');
});

t.test('fields without a value are left out', async (t) => {
  const { log, lines } = logging();
  const bare = {
    model: '',
    account: '',
    crn: '',
    translation: '',
    attempts: 0,
    heldMs: 0,
    firstPieceMs: 0,
    bytesIn: 0,
    bytesOut: 0,
    predictedHit: -1,
    tokens: null,
  };
  log.finished({ ...REQUEST, ...bare, errorCode: 'HR_AUTH_INVALID', span: { traceId: 'abc' } }, 401, 1);
  const [line = {}] = lines();
  t.match(line, { code: 'HR_AUTH_INVALID', status: 401, streamed: false, traceId: 'abc' });
  for (const name of [
    ...['model', 'account', 'crn', 'attempts', 'heldMs', 'firstByteMs', 'bytesIn', 'bytesOut'],
    ...['predictedHit', 'inputTokens', 'cachedTokens', 'outputTokens', 'tokensPerSecond', 'translation'],
  ])
    t.notOk(name in line);
});

t.test('a long path is truncated', async (t) => {
  const { log, lines } = logging();
  log.finished({ ...REQUEST, path: `/${'x'.repeat(9000)}` }, 404, 1);
  t.equal(String(lines()[0]?.['path']).length, 200);
});

t.test('a path has no characters that a terminal obeys or that end a line', async (t) => {
  const { log, lines } = logging();
  log.finished({ ...REQUEST, path: '/a\u009b31mb\u0085c\u009d0;x\u009c' }, 404, 1);
  t.equal(lines()[0]?.['path'], '/a?31mb?c?0;x?');
});

t.test(
  'a model that is not known is named as the client asked for it, cut and without control characters',
  async (t) => {
    const { log, lines } = logging();
    const unknown = { ...REQUEST, model: '', errorCode: 'HR_ROUTE_UNKNOWN_MODEL' };
    log.finished({ ...unknown, alias: 'gpt-5' }, 404, 1);
    log.finished({ ...unknown, alias: `a\u001b[2J\n\u202e${'b'.repeat(300)}` }, 404, 1);
    log.finished({ ...unknown, alias: '' }, 404, 1);
    const [first, second, third] = lines();
    t.match(first, { status: 404, unknownModel: 'gpt-5' });
    t.notOk('model' in (first ?? {}));
    t.equal(second?.['unknownModel'], `a?[2J??${'b'.repeat(93)}`);
    t.notOk('unknownModel' in (third ?? {}));
  },
);

const ERRORS: readonly [what: string, request: FinishedRequest, status: number][] = [
  ['a status of 400 and above', REQUEST, 429],
  ['a stream that broke behind its status', { ...REQUEST, errorCode: 'HR_STREAM_BROKEN' }, 200],
  ['a client that left', { ...REQUEST, aborted: true }, 200],
];

for (const [what, request, status] of ERRORS) {
  t.test(`${what} is an error: logged with errors only, and whatever the sample`, async (t) => {
    const { log, lines } = logging({ requests: 'errors', sample: 0 });
    log.finished(request, status, 1);
    log.finished(REQUEST, 200, 1);
    t.equal(lines().length, 1);
  });
}

t.test('the sample is the share of requests without an error', async (t) => {
  const turns = [0.1, 0.6, 0.29, 0.3];
  const { log, lines } = logging({ sample: 0.3, random: () => turns.shift() ?? 0 });
  for (let request = 0; request < 4; request++) log.finished(REQUEST, 200, 1);
  t.equal(lines().length, 2);
});

t.test('lines have level info: a log with a higher level has none', async (t) => {
  const { log, lines } = logging({ level: 'warn' });
  log.finished(REQUEST, 500, 1);
  t.same(lines(), []);
});

t.test('a line says what the request cost, exactly', async (t) => {
  const { log, lines } = logging();
  for (const cost of [0, 1, 925_000_000, 12_500_000_000_000])
    log.finished({ ...REQUEST, settlement: {}, cost }, 200, 1);
  log.finished(REQUEST, 200, 1);
  t.same(
    lines().map(({ costUsd }) => costUsd),
    ['0.00', '0.000000000001', '0.000925', '12.50', undefined],
  );
});
