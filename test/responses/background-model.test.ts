// Random lives of background responses on two gateways with one store: whatever the server, clients, a shutdown and lost leases do and in
// whichever order, a response ends once, its states only move on, its events have no gap, and nothing goes on to run.

import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { createSeededRandom, createSystem, systemClock } from '../../src/actor/index.ts';
import { createManualClock } from '../../src/actor/testkit.ts';
import type { StoredResponse } from '../../src/billing/index.ts';
import { openLedger } from '../../src/billing/main-thread.ts';
import { errorEvent, dialectOf, sseEvent } from '../../src/dialect/index.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import { type DetachedExchange, startDetached } from '../../src/ingress/detached-exchange.ts';
import { BackgroundResponse } from '../../src/responses/background-response.ts';
import { createResponseMemory, responseStore } from '../../src/responses/response-store.ts';
import { StoredResponses } from '../../src/responses/stored-responses.ts';
import { ResponseMetrics } from '../../src/telemetry/response-metrics.ts';
import { valuesOf } from '../support/metric-values.ts';

const SEEDS = 120;
const STEPS = 25;

const RANK: Readonly<Record<string, number>> = { queued: 0, in_progress: 1 };
const ENDED = 2;

const SETTINGS = { ttlMs: 1e9, accountBytes: 1e9, background: 10, backgroundPerAccount: 10 };

function responseOf(status: string): object {
  return {
    id: 'resp_of_server',
    object: 'response',
    status,
    error: null,
    output: status === 'in_progress' ? [] : [{ id: 'msg_1' }],
  };
}

function eventOf(type: string, data: object): string {
  return sseEvent(type, { type, sequence_number: 99, ...data });
}

t.test('every life of a background response ends once', async (t) => {
  const seen = new Set<string>();
  for (let seed = 1; seed <= SEEDS; seed++) {
    const random = createSeededRandom(seed);
    const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
    const clock = createManualClock();
    const system = createSystem({ name: `seed-${seed}`, clock });
    const ledger = await openLedger(':memory:', { clock: systemClock, dateMs: () => 1e12, lingerMs: 0 });
    const metrics = [new ResponseMetrics(), new ResponseMetrics()] as const;
    const [own, other] = ['a', 'b'].map((holder, thread) => {
      const memory = createResponseMemory();
      const deps = { ledger: () => ledger, memory, holder, settings: SETTINGS, isShared: true };
      const ref = system.spawn(
        responseStore({ ...deps, metrics: metrics[thread] as ResponseMetrics, onProblem: () => undefined }),
      );
      return new StoredResponses({ system, ref, memory, thread });
    }) as [StoredResponses, StoredResponses];
    const settle = async (turns: number): Promise<void> => {
      for (let turn = 0; turn < turns; turn++) {
        clock.advance(25);
        await setImmediate();
      }
    };

    const key = { account: 'a', id: 'resp_1' };
    const queued = Buffer.from('{"id":"resp_1","object":"response","status":"queued","error":null,"output":[]}');
    let exchange: DetachedExchange | undefined;
    let answers = 0;
    const outcomes: string[] = [];
    const run = new BackgroundResponse(
      { store: own, clock, epochMs: () => 1e12, maxBytes: 1e6 },
      { key, queued, hasEvents: true },
      {
        ...{ begun: () => answers++, refused: () => answers++, ended: () => undefined },
        ...{ delivered: () => outcomes.push('delivered'), undelivered: () => outcomes.push('undelivered') },
      },
    );
    const origin = { account: 'a', model: 'm', previous: null, input: () => '[]' };
    const handler = (inner: DetachedExchange): void => {
      inner.listener = {
        onWritable: () => undefined,
        onEnded: () => undefined,
        onCut: () => {
          const failure = { code: 'HR_DRAINING', message: 'The gateway is shutting down', status: 503, sequence: 5 };
          inner.end(Buffer.from(errorEvent(dialectOf('/v1/responses'), failure)));
        },
      };
      inner.start(200, ['content-type', 'text/event-stream'], -1);
    };
    startDetached(
      {
        handler: handler as never,
        ...{ clock, budget: new BodyBudget(1e9), limits: { maxBodyBytes: 1e6, bodyIdleMs: 1e9 } },
      },
      { method: 'POST', path: '/v1/responses', query: '', headers: [], remoteAddress: '' },
      Buffer.from('{}'),
      run,
      (inner) => {
        exchange = inner;
        run.runIn(inner);
      },
    );
    const inner = exchange as unknown as DetachedExchange;
    run.begin(
      origin,
      () => undefined,
      (thrown) => t.fail(String(thrown)),
    );
    if (random() < 0.9) await settle(4);

    const pending: Promise<unknown>[] = [];
    const send = (text: string): void => void (inner.handedOver || inner.write(Buffer.from(text)));
    const end = (text: string): void => void (inner.handedOver || inner.end(Buffer.from(text)));
    const note = (question: Promise<unknown>): void => void pending.push(question.catch(() => undefined));
    const steps: Readonly<Record<string, () => void>> = {
      delta: () => send(eventOf('response.output_text.delta', { delta: 'x' })),
      more: () => send(eventOf('response.output_text.delta', { delta: 'y' })),
      progress: () => send(eventOf('response.in_progress', { response: responseOf('in_progress') })),
      comment: () => send(': keep-alive\n\n'),
      wait: () => undefined,
      read: () => note(other.find(key)),
      complete: () => end(eventOf('response.completed', { response: responseOf('completed') })),
      incomplete: () => end(eventOf('response.incomplete', { response: responseOf('incomplete') })),
      fail: () => end(eventOf('response.failed', { response: responseOf('failed') })),
      truncate: () => end(''),
      breakOff: () => inner.destroy(),
      drain: () => (inner.handedOver ? undefined : inner.listener?.onCut()),
      cancelHere: () => note(own.cancel(key)),
      cancelThere: () => note(other.cancel(key)),
      loseLease: () => {
        note(ledger.responses.renew('a', -1000, 1e9).then(() => other.find(key)));
      },
      remove: () => note(other.remove(key)),
    };
    const names = Object.keys(steps);
    let last: StoredResponse | undefined;
    const log: string[] = [];
    for (let step = 0; step < STEPS; step++) {
      // The usual steps are frequent, so that lives are long.
      const name = random() < 0.6 ? pick(names.slice(0, 6)) : pick(names);
      log.push(name);
      steps[name]?.();
      await settle(Math.floor(random() * 4));
      const found = await ledger.responses.find(key);
      if (last !== undefined && found !== undefined) {
        const [before, after] = [RANK[last.status] ?? ENDED, RANK[found.status] ?? ENDED];
        if (after < before) t.fail(`${seed}: ${last.status} became ${found.status}: ${log.join(' ')}`);
        if (before === ENDED && (found.status !== last.status || found.response !== last.response)) {
          t.fail(`${seed}: an ended response changed: ${log.join(' ')}`);
        }
      }
      if (found !== undefined) last = found;
    }
    end(eventOf('response.completed', { response: responseOf('completed') }));
    // Longer than the interval at which leases are renewed, and every question of a client.
    await settle(400);
    await Promise.all(pending);
    const found = await ledger.responses.find(key);
    const removed = found === undefined;
    const why = `${seed}: ${log.join(' ')}`;
    t.equal(answers, 1, `the client is answered once; ${why}`);
    t.ok(inner.endCause !== null, `nothing goes on to run; ${why}`);
    t.equal(outcomes.length, 1, `its charge is decided once; ${why}`);
    if (!removed) {
      const isDelivered = found.status === 'completed' || found.status === 'incomplete' || found.output !== '[]';
      t.equal(outcomes[0], isDelivered ? 'delivered' : 'undelivered', `charged is what can be polled; ${why}`);
    }
    t.ok(removed ? log.includes('remove') : (RANK[found.status] ?? ENDED) === ENDED, why);
    for (const each of metrics) {
      const running = valuesOf(each.snapshot(), 'headrace_responses_background');
      t.same(
        running.filter(({ value }) => value !== 0),
        [],
        why,
      );
    }
    if (found !== undefined) {
      seen.add(found.status);
      const batches = await ledger.responses.eventsAfter(key, -1, 1e6);
      const numbers = batches.flatMap(({ data }) =>
        [...data.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number)),
      );
      t.same(
        numbers,
        numbers.map((_, at) => at),
        `without a gap; ${why}`,
      );
      t.equal(JSON.parse(found.response).status, found.status, why);
      t.equal(JSON.parse(found.response).id, 'resp_1', why);
      if (found.status === 'completed') t.match(batches.at(-1)?.data, /event: response\.completed\n/, why);
      if (found.status === 'cancelled')
        t.match(batches.at(-1)?.data, /^event: response\.incomplete\n.*"cancelled"/, why);
    }
    await system.terminate();
    await ledger.close();
  }
  t.same([...seen].sort(), ['cancelled', 'completed', 'failed', 'incomplete'], 'every end was seen');
});
