// Recent failures of one data plane.

import t from 'tap';
import { MOST_ERRORS, Recent } from '../../src/telemetry/recent.ts';

const FINISHED = { requestId: 'r', endpoint: '/v1/models', model: '', errorCode: '', crn: '' };

t.test('keeps errors of the gateway and broken answers of CRNs, and no successes', async (t) => {
  const recent = new Recent(() => 5);
  recent.closed({ ...FINISHED, requestId: 'well' }, 200);
  recent.closed({ ...FINISHED, requestId: "the client's own mistake, said by a CRN" }, 422);
  recent.closed({ ...FINISHED, requestId: 'refused', errorCode: 'HR_AUTH_MISSING' }, 401);
  recent.closed({ ...FINISHED, requestId: 'broken', errorCode: 'HR_STREAM_BROKEN', model: 'm', crn: 'http://x' }, 200);
  recent.closed({ ...FINISHED, requestId: 'failed' }, 500);
  const { errors } = recent.report();
  t.same(
    errors.map(({ requestId, status }) => [requestId, status]),
    [
      ['refused', 401],
      ['broken', 200],
      ['failed', 500],
    ],
  );
  t.same(errors[1], {
    requestId: 'broken',
    dateMs: 5,
    endpoint: '/v1/models',
    model: 'm',
    code: 'HR_STREAM_BROKEN',
    status: 200,
    crn: 'http://x',
  });
});

t.test('forgets the oldest first once the list is full', async (t) => {
  const recent = new Recent(() => 0);
  for (let at = 0; at < MOST_ERRORS + 3; at++) recent.closed({ ...FINISHED, requestId: `r${at}` }, 503);
  const ids = recent.report().errors.map(({ requestId }) => requestId);
  t.equal(ids.length, MOST_ERRORS);
  t.same([ids[0], ids.at(-1)], ['r3', `r${MOST_ERRORS + 2}`]);
});

t.test('keeps why each CRN failed last, of a bounded number of CRNs', async (t) => {
  let nowMs = 1;
  const recent = new Recent(() => nowMs++);
  const failure = { reason: 'connection refused', model: 'm', requestId: 'r1' };
  recent.attemptFailed('http://x', failure);
  recent.attemptFailed('http://y', failure);
  recent.attemptFailed('http://x', { ...failure, reason: '500 at /v1/chat/completions', requestId: 'r2' });
  t.same(recent.report().crnFailures, [
    ['http://y', { dateMs: 2, ...failure }],
    ['http://x', { dateMs: 3, reason: '500 at /v1/chat/completions', model: 'm', requestId: 'r2' }],
  ]);
  for (let at = 0; at < 5000; at++) recent.attemptFailed(`http://${at}`, failure);
  const { crnFailures } = recent.report();
  t.equal(crnFailures.length, 4096);
  t.equal(crnFailures.at(-1)?.[0], 'http://4999');
});

t.test('keeps why each engine failed last, and counts failovers by the CRN they left', async (t) => {
  let nowMs = 1;
  const recent = new Recent(() => nowMs++);
  for (const outcome of ['timeout', 'ok', 'rate limited', 'suspended', 'ok']) recent.engine('engine_a', outcome);
  recent.engine('engine_b', 'ok');
  for (const crn of ['http://x', 'http://y', 'http://x']) recent.failover(crn);
  const { troubles, failovers } = recent.report();
  t.same(troubles, [{ engine: 'engine_a', reason: 'rate limited', dateMs: 2 }]);
  t.same(
    new Map(failovers),
    new Map([
      ['http://x', 2],
      ['http://y', 1],
    ]),
  );
  for (let at = 0; at < 5000; at++) recent.failover(`http://${at}`);
  t.equal(recent.report().failovers.length, 4096);
});
