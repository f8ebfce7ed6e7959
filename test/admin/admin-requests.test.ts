// Request schemas of the admin API: keys, expiry, amounts, rotation, usage and history.
import t from 'tap';
import * as requests from '../../src/admin/admin-requests.ts';
import { HeadraceError } from '../../src/errors.ts';

const NOW_MS = Date.UTC(2030, 0, 1);
const DAY_MS = 86_400_000;

/** The names of the fields that are refused, with what is refused. */
function refusals(read: () => unknown): Record<string, string> {
  try {
    read();
  } catch (error) {
    if (!(error instanceof HeadraceError) || error.validation === undefined) throw error;
    return Object.fromEntries(error.validation.map(({ loc, msg }) => [loc.join('.'), msg]));
  }
  return {};
}

t.test('a key request: a limit that is left out is unlimited', async (t) => {
  t.strictSame(requests.readKeyRequest({ account: 'a', label: null }, NOW_MS), {
    account: 'a',
    label: '',
    expiresMs: null,
    limits: {},
  });
  t.strictSame(
    requests.readKeyRequest(
      { account: 'a', label: 'ci', expires: '30d', rpm: '60', tpm: 1000, monthly: '25.00' },
      NOW_MS,
    ),
    {
      account: 'a',
      label: 'ci',
      expiresMs: NOW_MS + 30 * DAY_MS,
      limits: { requestsPerMinute: 60, tokensPerMinute: 1000, monthlySpend: '25000000000000' },
    },
  );
});

t.test('accounts are not made with ids that clients resolve away in paths', async (t) => {
  const words = 'must be 1 to 128 characters without blanks, other than . and ..';
  for (const id of ['.', '..']) {
    t.strictSame(
      refusals(() => requests.readAccountRequest({ id })),
      { 'body.id': words },
    );
    t.strictSame(
      refusals(() => requests.readKeyRequest({ account: id }, NOW_MS)),
      { 'body.account': words },
    );
  }
  t.match(requests.readAccountRequest({ id: '...' }), { id: '...' });
});

t.test('an edit keeps what it does not name, and removes what is null or none', async (t) => {
  t.strictSame(requests.readKeyEdit({ rpm: '5' }, NOW_MS), { limits: { requestsPerMinute: 5 } });
  t.strictSame(requests.readKeyEdit({ label: '', expires: null, tpm: null, monthly: 'none', running: 3 }, NOW_MS), {
    label: '',
    expiresMs: null,
    limits: { runningRequests: 3, tokensPerMinute: null, monthlySpend: null },
  });
  t.match(
    refusals(() => requests.readKeyEdit({ rpm: 0, account: 'b', expires: 'none' }, NOW_MS)),
    { 'body.rpm': /must be/, 'body.account': /not a field/, 'body.expires': /must be/ },
  );
  t.match(
    refusals(() => requests.readKeyEdit({}, NOW_MS)),
    { 'body.label': /is required/ },
  );
});

t.test('a budget is for something, in a period, with an alert below its limit', async (t) => {
  const read = (fields: object): unknown => requests.readBudgetRequest({ period: 'day', limit: '2', ...fields });
  t.strictSame(read({ account: 'a', alert: '50%' }), {
    account: 'a',
    key: null,
    model: null,
    period: 'day',
    limit: 2_000_000_000_000n,
    soft: 1_000_000_000_000n,
  });
  t.match(
    refusals(() => read({})),
    { 'body.account': /is required/ },
  );
  for (const [fields, name] of [
    [{ alert: '101%' }, 'body.alert'],
    [{ alert: '0%' }, 'body.alert'],
    [{ alert: '2.01' }, 'body.alert'],
    [{ period: 'year' }, 'body.period'],
    [{ limit: '0' }, 'body.limit'],
    [{ limit: 5 }, 'body.limit'],
  ] as const) {
    t.match(
      refusals(() => read({ account: 'a', ...fields })),
      { [name]: /must be/ },
      JSON.stringify(fields),
    );
  }
});

t.test('an expiry is a duration with its unit or a future date', async (t) => {
  const until = (expires: unknown): number | null =>
    requests.readKeyRequest({ account: 'a', expires }, NOW_MS).expiresMs;
  t.equal(until('2030-01-31'), Date.UTC(2030, 0, 31));
  t.equal(until('2030-01-31T12:00:00+02:00'), Date.UTC(2030, 0, 31, 10));
  t.equal(until('12h'), NOW_MS + DAY_MS / 2);
  for (const expires of [
    '30',
    '0s',
    '-1d',
    '2030-01-01',
    '2029-12-31',
    'soon',
    '',
    '99999999d',
    '2030-13-01',
    '2030-02-30',
    '2030-02-30T12:00:00Z',
    5,
  ]) {
    t.match(
      refusals(() => until(expires)),
      { 'body.expires': /must be / },
      String(expires),
    );
  }
});

t.test('all mistakes of a request are reported at once, and no value is repeated', async (t) => {
  const request = {
    account: 'with blank',
    label: 'two\nlines',
    rpm: 1.5,
    tpm: 0,
    monthly: 25,
    expires: '7',
    colour: 'x',
  };
  const refused = refusals(() => requests.readKeyRequest(request, NOW_MS));
  t.strictSame(Object.keys(refused).sort(), [
    'body.account',
    'body.colour',
    'body.expires',
    'body.label',
    'body.monthly',
    'body.rpm',
    'body.tpm',
  ]);
  t.notMatch(Object.values(refused).join(), /with blank|two/);
  t.match(
    refusals(() => requests.readKeyRequest({}, NOW_MS)),
    { 'body.account': /is required/ },
  );
});

t.test('amounts are positive, within the range of a movement, and strings, not JSON numbers', async (t) => {
  t.equal(requests.readGrantRequest({ amount: '0.000000000001' }, NOW_MS).amount, 1n);
  t.equal(requests.readGrantRequest({ amount: '1152921.504606846976' }, NOW_MS).amount, 1n << 60n);
  for (const amount of ['0', '0.00', '-1', '1152921.504606846977', '0.0000000000001', '1e3', 25, true, {}]) {
    t.match(
      refusals(() => requests.readGrantRequest({ amount }, NOW_MS)),
      { 'body.amount': /must be/ },
      JSON.stringify(amount),
    );
  }
});

t.test('a rotation gives a day of grace by default', async (t) => {
  t.strictSame(requests.readRotationRequest({}, NOW_MS), { graceMs: DAY_MS, expiresMs: undefined });
  t.equal(requests.readRotationRequest({ grace: '0s' }, NOW_MS).graceMs, 0);
  for (const grace of ['24', '367d', '-1h', 24]) {
    t.match(
      refusals(() => requests.readRotationRequest({ grace }, NOW_MS)),
      { 'body.grace': /must be/ },
    );
  }
});

t.test('a usage query has existing days in order and known dimensions', async (t) => {
  t.strictSame(requests.readUsageQuery({}), { by: ['account', 'key', 'model', 'day'], limit: 1000 });
  t.strictSame(requests.readUsageQuery({ by: '' }), { by: [], limit: 1000 });
  t.strictSame(requests.readUsageQuery({ by: 'day,model', from: '2028-02-29', to: '2028-02-29', key: 'k' }), {
    by: ['day', 'model'],
    limit: 1000,
    fromDay: '2028-02-29',
    toDay: '2028-02-29',
    key: 'k',
  });
  for (const [name, value] of [
    ['by', 'day,day'],
    ['by', 'hour'],
    ['by', 'toString'],
    ['from', '2030-02-29'],
    ['from', '2030-1-1'],
    ['to', 'today'],
    ['model', ''],
  ] as const) {
    t.match(
      refusals(() => requests.readUsageQuery({ [name]: value })),
      { [`query.${name}`]: /must be/ },
      `${name} ${value}`,
    );
  }
  t.match(
    refusals(() => requests.readUsageQuery({ from: '2030-01-02', to: '2030-01-01' })),
    { 'query.to': /before/ },
  );
});

t.test('a history query has a bounded page and the position of a movement as its cursor', async (t) => {
  t.strictSame(requests.readHistoryQuery('a', { limit: '5', before: '1893456000000-c--1' }), {
    account: 'a',
    limit: 5,
    before: '1893456000000-c--1',
  });
  t.match(
    refusals(() => requests.readRequestQuery({ from: '2030-02-30T00:00:00Z' })),
    { 'query.from': /must be/ },
  );
  t.match(
    refusals(() => requests.readHistoryQuery('a', { limit: '1001', before: '-1' })),
    { 'query.limit': /from 1 to 1000/, 'query.before': /must be/ },
  );
});

t.test('endpoints of webhooks have any name that the configuration takes', async (t) => {
  const name = 'Accounting system';
  t.equal(requests.readRedelivery({ endpoint: name }), name);
  t.match(requests.readDeliveryQuery({ endpoint: name }), { endpoint: name });
  for (const endpoint of ['', 'a\0', 'x'.repeat(2049)]) t.throws(() => requests.readRedelivery({ endpoint }));
});

t.test('a field that is given and wrong is not missing as well', async (t) => {
  const mistakes = (read: () => unknown): number => {
    try {
      read();
    } catch (error) {
      return (error as HeadraceError).validation?.length ?? 0;
    }
    return 0;
  };
  for (const name of ['amount', 'charge', 'request'])
    t.equal(
      mistakes(() => requests.readRefundRequest({ [name]: ' ' })),
      1,
      name,
    );
  for (const name of ['account', 'key', 'model'])
    t.equal(
      mistakes(() => requests.readBudgetRequest({ [name]: ' ', period: 'day', limit: '1' })),
      1,
      name,
    );
  t.equal(
    mistakes(() => requests.readRefundRequest({ amount: null })),
    1,
  );
  t.equal(
    mistakes(() => requests.readBudgetRequest({ period: 'day', limit: '1' })),
    1,
  );
});
