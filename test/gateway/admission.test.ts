// Admission in a data plane: whose turn it is, what a wait ends with, and what is shown of it.

import t from 'tap';
import type { InjectResponse } from '../../src/ingress/inject.ts';
import { STANDING } from '../../src/routing/board.ts';
import { type ControlledPlane, openPlane } from '../support/controlled-plane.ts';
import { valuesOf } from '../support/metric-values.ts';

const FLOOD = '10.0.0.1';
const QUIET = '10.0.0.2';

type Crn = ControlledPlane['crns'][number] | undefined;

/** Sends `count` requests of one caller, of which the CRNs take one each; the rest waits. */
async function flood(plane: ControlledPlane, count: number): Promise<Promise<InjectResponse>[]> {
  const before = plane.crns.map(({ arrived }) => arrived.length);
  const answers = Array.from({ length: count }, (_, at) => plane.send(`flood${at}`, { address: FLOOD }));
  await Promise.all(plane.crns.map((crn, at) => crn.has((before[at] as number) + 1)));
  return answers;
}

/**
 * A CRN answers its oldest request. Waits until `next` has the request that is admitted for it, the `count`th of all that ever arrived
 * there. The clock runs for the queue alone: sockets take what time they take.
 */
async function answered(plane: ControlledPlane, crn: Crn, next: Crn, count: number): Promise<void> {
  const { inFlight } = plane.plane;
  const { waiting } = plane.held;
  crn?.answer();
  while (plane.plane.inFlight === inFlight) await new Promise((resolve) => setImmediate(resolve));
  while (plane.held['waiting'] === waiting) {
    plane.clock.advance(1);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await next?.has(count);
}

/** Lets the CRNs answer everything. */
async function drain(plane: ControlledPlane, answers: readonly Promise<InjectResponse>[]): Promise<InjectResponse[]> {
  let left = true;
  const all = Promise.all(answers).finally(() => (left = false));
  while (left) {
    for (const crn of plane.crns) if (crn.open > 0) crn.answer();
    // Not while requests or answers are on their way.
    if (plane.plane.inFlight === plane.held['waiting']) plane.clock.advance(5);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return all;
}

t.test('the flood of one caller delays the request of another by one turn', async (t) => {
  const plane = await openPlane(t, 2);
  await plane.warm();
  const answers = await flood(plane, 20);
  t.match(plane.held, { waiting: 18 });
  const [first, second] = plane.crns;
  plane.clock.advance(1000);
  await answered(plane, first, first, 3);
  const quiet = plane.send('quiet', { address: QUIET });
  t.match(plane.held, { waiting: 18 });
  plane.clock.advance(1000);
  t.equal(plane.crns[0]?.arrived.length, 3, 'nothing is sent to a CRN that has work');
  await answered(plane, second, second, 3);
  t.equal(second?.arrived.at(-1), 'quiet');
  const all = await drain(plane, [...answers, quiet]);
  t.ok(all.every(({ status }) => status === 200));
  t.match(plane.held, { waiting: 0, admitted: 19 });
});

t.test('nothing waits while a CRN has room, and nothing is counted', async (t) => {
  const plane = await openPlane(t, 2);
  await plane.warm();
  const answers = [plane.send('a'), plane.send('b')];
  await Promise.all(plane.crns.map((crn) => crn.has(2)));
  t.same(plane.held, {});
  await drain(plane, answers);
});

t.test('without routing.hold nothing waits', async (t) => {
  const plane = await openPlane(t, 1, { routing: { hold: 0 } });
  await plane.warm();
  const answers = Array.from({ length: 9 }, (_, at) => plane.send(`a${at}`));
  await plane.crns[0]?.has(10);
  t.same(plane.held, {});
  await drain(plane, answers);
});

t.test('whole answers wait as streams do', async (t) => {
  const plane = await openPlane(t, 1);
  await plane.warm();
  const answers = Array.from({ length: 4 }, (_, at) => plane.send(`whole${at}`, { stream: false }));
  await plane.crns[0]?.has(2);
  t.match(plane.held, { waiting: 3 });
  const all = await drain(plane, answers);
  t.ok(all.every(({ status }) => status === 200));
});

t.test('a queue that is full for a caller is 429 with a time to come back', async (t) => {
  const plane = await openPlane(t, 1, { routing: { holdRequests: 4 } });
  await plane.warm();
  const answers = await flood(plane, 3);
  const refused = await plane.send('late', { address: FLOOD });
  t.equal(refused.status, 429);
  t.match(refused.headers, { 'x-headrace-error': 'HR_ROUTE_BACKLOG', 'retry-after': /^\d+$/ });
  // One request is being prefilled and two wait: 1 s each, of which 0.05 s are allowed.
  t.equal(refused.headers['retry-after'], '3');
  t.match(refused.json<object>(), {
    detail: 'All servers of model m have a long backlog, and too many requests wait for them',
  });
  const quiet = plane.send('quiet', { address: QUIET });
  t.match(plane.held, { waiting: 3, full: 1 });
  await drain(plane, [...answers, quiet]);
});

t.test('a wait that is too long is 429', async (t) => {
  const plane = await openPlane(t, 1, { routing: { holdTimeout: '400ms' } });
  await plane.warm();
  const [running, waiting] = await flood(plane, 2);
  plane.clock.advance(420);
  const refused = (await waiting) as InjectResponse;
  t.equal(refused.status, 429);
  t.equal(refused.headers['x-headrace-error'], 'HR_ROUTE_BACKLOG');
  t.match(plane.held, { waiting: 0, timeout: 1 });
  await drain(plane, [running as Promise<InjectResponse>]);
});

t.test('a client that leaves takes its request along, and its memory', async (t) => {
  const plane = await openPlane(t, 1);
  await plane.warm();
  const answers = await flood(plane, 2);
  const takenBytes = plane.plane.budget.usedBytes;
  const leaving = new AbortController();
  const gone = plane.send('gone', { signal: leaving.signal });
  t.match(plane.held, { waiting: 2 });
  leaving.abort();
  await t.rejects(gone);
  t.match(plane.held, { waiting: 1, gone: 1 });
  t.equal(plane.plane.budget.usedBytes, takenBytes);
  t.equal(plane.plane.inFlight, 2);
  await drain(plane, answers);
  t.notOk(plane.crns[0]?.arrived.includes('gone'));
});

t.test('a shutdown answers what waits', async (t) => {
  const plane = await openPlane(t, 1);
  await plane.warm();
  const [running, waiting] = await flood(plane, 2);
  plane.plane.cutOff();
  const cut = (await waiting) as InjectResponse;
  t.equal(cut.status, 503);
  t.equal(cut.headers['x-headrace-error'], 'HR_DRAINING');
  t.match(plane.held, { waiting: 0, draining: 1 });
  t.equal(((await running) as InjectResponse).headers['x-headrace-error'], 'HR_DRAINING');
  t.equal(plane.plane.inFlight, 0);
});

t.test('a reload without hold lets all go; one without the model refuses them', async (t) => {
  for (const isGone of [false, true]) {
    const plane = await openPlane(t, 1);
    await plane.warm();
    const [running, ...waiting] = await flood(plane, 5);
    plane.plane.configure(isGone ? plane.snapshot({}, false) : plane.snapshot({ hold: 0 }));
    if (isGone) {
      for (const answer of await Promise.all(waiting)) {
        t.equal(answer.headers['x-headrace-error'], 'HR_ROUTE_UNKNOWN_MODEL');
      }
      t.match(plane.held, { waiting: 0, removed: 4 });
      await drain(plane, [running as Promise<InjectResponse>]);
    } else {
      await plane.crns[0]?.has(6);
      t.match(plane.held, { waiting: 0, admitted: 4 });
      await drain(plane, [running as Promise<InjectResponse>, ...waiting]);
    }
  }
});

t.test('when no CRN is up any more what waits fails as other requests do', async (t) => {
  const plane = await openPlane(t, 1);
  await plane.warm();
  const [running, waiting] = await flood(plane, 2);
  plane.board.setStanding(0, STANDING.drained, 0);
  plane.clock.advance(5);
  t.equal(((await waiting) as InjectResponse).headers['x-headrace-error'], 'HR_ROUTE_ALL_FAILED');
  await drain(plane, [running as Promise<InjectResponse>]);
});

t.test('a request that has been admitted fails over without another wait', async (t) => {
  const plane = await openPlane(t, 2);
  await plane.warm();
  const answers = await flood(plane, 2);
  const [first, second] = plane.crns;
  first?.answer(500);
  await second?.has(3);
  t.same(plane.held, {});
  t.ok((await drain(plane, answers)).every(({ status }) => status === 200));
});

t.test('a request with a cookie waits for any CRN, and goes where the picker sends it', async (t) => {
  const plane = await openPlane(t, 2);
  await plane.warm();
  const answers = await flood(plane, 2);
  const [first, second] = plane.crns;
  const cookie = `preferred_instances={"m":"${first?.url}"}`;
  const sticky = plane.send('sticky', { address: QUIET, headers: { cookie } });
  plane.clock.advance(1000);
  t.match(plane.held, { waiting: 1 });
  await answered(plane, second, first, 3);
  t.match(plane.held, { waiting: 0, admitted: 1 }, 'the other CRN has room');
  t.equal(first?.arrived.at(-1), 'sticky', 'the cost of its own is within routing.stickiness');
  await drain(plane, [...answers, sticky]);
});

t.test('a response is continued by its CRN, when that one has room', async (t) => {
  const plane = await openPlane(t, 2);
  await plane.warm();
  const [first, second] = plane.crns;
  plane.plane.deps.responseHolders.note('resp_1', plane.members[0] as (typeof plane.members)[number]);
  const answers = [plane.send('a', { headers: { cookie: `preferred_instances={"m":"${first?.url}"}` } })];
  await first?.has(2);
  const body = { input: 'next', previous_response_id: 'resp_1' };
  const continued = plane.send('continued', { path: '/v1/responses', body });
  t.match(plane.held, { waiting: 1 }, 'though the other CRN is idle');
  answers.push(plane.send('b', { address: QUIET }));
  await second?.has(2);
  plane.clock.advance(1000);
  await answered(plane, first, first, 3);
  t.equal(first?.arrived.at(-1), 'continued');
  await drain(plane, [...answers, continued]);
});

t.test('the time of a wait is told apart from that of the gateway', async (t) => {
  const plane = await openPlane(t, 1, { serverTiming: true });
  await plane.warm();
  const answers = await flood(plane, 2);
  plane.clock.advance(300);
  await answered(plane, plane.crns[0], plane.crns[0], 3);
  const all = await drain(plane, answers);
  t.match(all[0]?.headers['server-timing'], /^gateway;dur=[\d.]+, upstream;dur=3\d\d/);
  t.match(all[1]?.headers['server-timing'], /^gateway;dur=0\.000, held;dur=3\d\d\.\d+, upstream;dur=/);
  t.match(valuesOf(plane.plane.report().metrics, 'headrace_held_seconds'), [{ value: 1 }]);
});
