// W3C Trace Context: parsing, writing and rejecting `traceparent`.

import t from 'tap';
import { randomId, readTraceParent, withoutTraceContext, writeTraceParent } from '../../src/telemetry/trace-context.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';

t.test('reads what it writes', async (t) => {
  for (const sampled of [true, false]) {
    const context = { traceId: TRACE, spanId: SPAN, sampled };
    t.same(readTraceParent(writeTraceParent(context)), context);
  }
  t.equal(writeTraceParent({ traceId: TRACE, spanId: SPAN, sampled: true }), `00-${TRACE}-${SPAN}-01`);
});

t.test('reads flags as bits, and the known part of later versions', async (t) => {
  t.equal(readTraceParent(`00-${TRACE}-${SPAN}-03`)?.sampled, true);
  t.equal(readTraceParent(`00-${TRACE}-${SPAN}-02`)?.sampled, false);
  t.match(readTraceParent(`cc-${TRACE}-${SPAN}-01-what-may-come`), { traceId: TRACE, spanId: SPAN, sampled: true });
});

t.test('rejects invalid headers', async (t) => {
  for (const header of [
    undefined,
    '',
    'x',
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}-011`,
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.slice(1)}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01,00-${TRACE}-${SPAN}-01`,
  ]) {
    t.equal(readTraceParent(header), null, String(header));
  }
});

t.test('ids have their length in hex and are never zero', async (t) => {
  t.equal(
    randomId(8, () => 0),
    '0000000000000001',
  );
  t.equal(
    randomId(16, () => 0.9999),
    'f'.repeat(32),
  );
});

t.test('reads the context from headers, with and without tracestate', async (t) => {
  const headers = ['accept', '*/*', 'traceparent', 'a', 'tracestate', 'b', 'traceparent', 'c'];
  t.same(withoutTraceContext(headers, true), ['accept', '*/*']);
  t.same(withoutTraceContext(headers, false), ['accept', '*/*', 'tracestate', 'b']);
});
