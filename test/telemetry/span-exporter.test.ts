// Spans from the request to the collector: sampling, the OTLP JSON that is sent, and the effect of a slow or missing collector.

import t from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/clock.ts';
import { metricsText } from '../../src/telemetry/exposition.ts';
import { SPAN_KIND, Tracer } from '../../src/telemetry/span.ts';
import { type CollectorAnswer, SpanExporter, SpanMetrics } from '../../src/telemetry/span-exporter.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

interface Collector {
  readonly clock: ManualClock;
  /** What the wall clock is ahead of it. */
  readonly wall: { aheadMs: number };
  readonly bodies: string[];
  readonly exporter: SpanExporter;
  readonly tracer: Tracer;
  /** Answers the post under way. */
  readonly answer: (status: number | Error, body?: string) => Promise<void>;
  readonly outcomes: () => Promise<Record<string, number>>;
}

function collector(sample = 1, random: () => number = () => 0.5): Collector {
  const clock = createManualClock(1000);
  const metrics = new SpanMetrics();
  const bodies: string[] = [];
  const posts: PromiseWithResolvers<CollectorAnswer>[] = [];
  const post = (body: string): Promise<CollectorAnswer> => {
    bodies.push(body);
    const posted = Promise.withResolvers<CollectorAnswer>();
    posts.push(posted);
    return posted.promise;
  };
  const wall = { aheadMs: 1_700_000_000_000 };
  const epochMs = (): number => clock.now() + wall.aheadMs;
  const exporter = new SpanExporter({ clock, epochMs, resource: { serviceName: 'tests', thread: 2 }, post }, metrics);
  return {
    clock,
    wall,
    bodies,
    exporter,
    tracer: new Tracer({ now: () => clock.now(), random, sample, sink: (span) => exporter.add(span) }),
    answer: async (status, body = '{}') => {
      const posted = posts.shift();
      if (status instanceof Error) posted?.reject(status);
      else posted?.resolve({ status, body: Buffer.from(body) });
      await new Promise(setImmediate);
    },
    outcomes: async () => {
      const text = metricsText([metrics.snapshot()]);
      const found = [...text.matchAll(/outcome="(\w+)"\} (\d+)/g)];
      return Object.fromEntries(found.map(([, outcome = '', count]) => [outcome, Number(count)]));
    },
  };
}

t.test('a span and its child are sent as OTLP JSON after two seconds', async (t) => {
  const { clock, bodies, tracer, answer, outcomes } = collector();
  const span = tracer.begin(`00-${TRACE}-${PARENT}-01`, 1000);
  if (span === null) return t.fail('not traced');
  span.name = 'POST /v1/chat/completions';
  clock.advance(1.5);
  const child = span.child('chat atlas-27b', SPAN_KIND.client).set('server.port', 8000).set('empty', '');
  child.usage({ promptTokens: 7, cachedTokens: 0, completionTokens: 11, saysCached: false });
  clock.advance(2);
  child.end('reset');
  span.set('ratio', 0.5).set('streamed', true).end();
  span.end('twice');
  clock.advance(2000);
  t.equal(bodies.length, 1);
  t.same(JSON.parse(bodies[0] ?? ''), {
    resourceSpans: [
      {
        resource: {
          attributes: [
            { key: 'service.name', value: { stringValue: 'tests' } },
            { key: 'headrace.thread', value: { intValue: '2' } },
          ],
        },
        scopeSpans: [
          {
            scope: { name: 'headrace' },
            spans: [
              {
                traceId: TRACE,
                spanId: '8080808080808080',
                parentSpanId: span.spanId,
                name: 'chat atlas-27b',
                kind: 3,
                startTimeUnixNano: '1700000001001500000',
                endTimeUnixNano: '1700000001003500000',
                attributes: [
                  { key: 'server.port', value: { intValue: '8000' } },
                  { key: 'gen_ai.usage.input_tokens', value: { intValue: '7' } },
                  { key: 'gen_ai.usage.output_tokens', value: { intValue: '11' } },
                  { key: 'error.type', value: { stringValue: 'reset' } },
                ],
                status: { code: 2, message: 'reset' },
              },
              {
                traceId: TRACE,
                spanId: span.spanId,
                parentSpanId: PARENT,
                name: 'POST /v1/chat/completions',
                kind: 2,
                startTimeUnixNano: '1700000001000000000',
                endTimeUnixNano: '1700000001003500000',
                attributes: [
                  { key: 'ratio', value: { doubleValue: 0.5 } },
                  { key: 'streamed', value: { boolValue: true } },
                ],
              },
            ],
          },
        ],
      },
    ],
  });
  await answer(200);
  t.same(await outcomes(), { exported: 2, dropped: 0, failed: 0 });
});

t.test('the sampled flag of the client decides for its trace, the sample share for all others', async (t) => {
  const rare = collector(0.25).tracer;
  t.equal(rare.begin(undefined, 0), null);
  t.not(rare.begin(`00-${TRACE}-${PARENT}-01`, 0), null);
  t.equal(rare.begin('no trace parent', 0), null);
  const often = collector(0.75).tracer;
  t.match(often.begin(undefined, 0), { traceId: '80'.repeat(16), parentId: '' });
  t.equal(often.begin(`00-${TRACE}-${PARENT}-00`, 0), null);
});

t.test('the dates of spans follow a wall clock that is set', async (t) => {
  const { answer, bodies, clock, exporter, tracer, wall } = collector();
  const dates: number[] = [];
  for (const jumpMs of [0, 3_600_000]) {
    wall.aheadMs += jumpMs;
    tracer.begin('', clock.now())?.end();
    const flushed = exporter.flush();
    await answer(200);
    await flushed;
    const [span] = JSON.parse(bodies.at(-1) ?? '').resourceSpans[0].scopeSpans[0].spans;
    dates.push(Number(span.endTimeUnixNano) / 1e6);
  }
  t.equal((dates[1] as number) - (dates[0] as number), 3_600_000);
});

t.test('spans are posted in batches, one post at a time; spans beyond the queue are dropped and counted', async (t) => {
  const { bodies, tracer, answer, outcomes, exporter } = collector();
  for (let count = 0; count < 5000; count++) tracer.begin(undefined, 0)?.end();
  t.equal(bodies.length, 1, 'the collector has not answered');
  t.equal(JSON.parse(bodies[0] ?? '').resourceSpans[0].scopeSpans[0].spans.length, 512);
  t.same(await outcomes(), { exported: 0, dropped: 5000 - 512 - 4096, failed: 0 });
  const flushed = exporter.flush();
  await answer(new Error('gone'));
  await answer(503);
  for (let batch = 2; batch < 9; batch++) await answer(202);
  await flushed;
  t.equal(bodies.length, 9);
  t.same(await outcomes(), { dropped: 392, failed: 1024, exported: 3584 });
});

t.test('an empty flush posts nothing, and what an alert counts shows as 0', async (t) => {
  const { bodies, exporter, outcomes } = collector();
  await exporter.flush();
  t.equal(bodies.length, 0);
  t.same(await outcomes(), { exported: 0, dropped: 0, failed: 0 });
});

t.test('spans that a collector rejects beside others count as failed', async (t) => {
  const { answer, exporter, outcomes, tracer } = collector();
  const failed = [
    ['{"partialSuccess":{"rejectedSpans":"4","errorMessage":"too old"}}', 4],
    ['{"partialSuccess":{"rejectedSpans":3}}', 3],
    // What makes no sense counts as nothing, or as all.
    ['{"partialSuccess":{"rejectedSpans":"1e9"}}', 10],
    ['{"partialSuccess":{"rejectedSpans":-3}}', 0],
    ['{"partialSuccess":{"rejectedSpans":"many"}}', 0],
    ['{"partialSuccess":{"errorMessage":"a warning"}}', 0],
    ['{"partialSuccess":null,"rejectedSpans":4}', 0],
    ['rejectedSpans', 0],
    ['null // rejectedSpans', 0],
    ['', 0],
  ] as const;
  let sum = 0;
  for (const [at, [body, count]] of failed.entries()) {
    for (let span = 0; span < 10; span++) tracer.begin(undefined, 0)?.end();
    const flushed = exporter.flush();
    await answer(200, body);
    await flushed;
    sum += count;
    t.same(await outcomes(), { exported: 10 * (at + 1) - sum, dropped: 0, failed: sum }, body);
  }
});
