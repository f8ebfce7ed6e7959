// Plain calls of tools over an exchange in the hands of the test: heartbeat, large results, clients that leave and calls that are cancelled.

import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/clock.ts';
import { ResponsePump, servePlainCall, type Tool, type ToolResult } from '../../src/mcp/index.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';

const FRAME = ': keepalive\n\n';

class PieceExchange extends StubExchange {
  readonly sizes: number[] = [];

  override write(chunk: Uint8Array): boolean {
    if (chunk.byteLength > 0) this.sizes.push(chunk.byteLength);
    return super.write(chunk);
  }
}

interface Call {
  readonly clock: ManualClock;
  readonly exchange: PieceExchange;
  readonly pump: ResponsePump;
  readonly served: Promise<void>;
  readonly finish: (result: ToolResult) => void;
  readonly isAborted: () => boolean;
  readonly isOver: () => boolean;
}

function begin(): Call {
  const exchange = new PieceExchange('POST');
  const clock = createManualClock();
  const abort = new AbortController();
  const pump = new ResponsePump(exchange, abort, () => exchange.respond(503, [], new Uint8Array(0)));
  const { promise, resolve } = Promise.withResolvers<ToolResult>();
  let isAborted = false;
  let isOver = false;
  const tool: Tool = {
    ...{ name: 'x', title: '', description: '', inputSchema: {}, outputSchema: {} },
    call: (_input, _onProgress, done) => {
      void promise.then(done);
      return { abort: () => void (isAborted = true) };
    },
  };
  const caller = { began: () => () => void (isOver = true) };
  const served = servePlainCall({ id: 1, tool, input: {} }, exchange, pump, clock, abort.signal, caller);
  return { clock, exchange, pump, served, finish: resolve, isAborted: () => isAborted, isOver: () => isOver };
}

t.test('a long call has a heartbeat until its end', async (t) => {
  const { clock, exchange, finish, isOver, served } = begin();
  clock.advance(14_999);
  t.equal(exchange.body, '');
  clock.advance(1);
  clock.advance(15_000);
  t.equal(exchange.body, FRAME + FRAME);
  finish({ text: 'a', structured: null });
  await served;
  const json = '{"result":{"content":[{"type":"text","text":"a"}],"isError":true},"jsonrpc":"2.0","id":1}';
  t.equal(exchange.body, `${FRAME}${FRAME}event: message\ndata: ${json}\n\n`);
  t.equal(exchange.answered['content-type'], 'text/event-stream');
  t.equal(clock.nextDueMs, Infinity);
  t.ok(isOver());
});

t.test('a large result is written in pieces, with the event loop turning between them', async (t) => {
  const { exchange, finish, served } = begin();
  const text = '\u00e4"\n'.repeat(1_000_000);
  let turns = 0;
  let isServed = false;
  void served.then(() => (isServed = true));
  finish({ text, structured: { content: text } });
  while (!isServed) {
    turns++;
    await setImmediate();
  }
  // An umlaut has two bytes, a quotation mark and the end of a line two each.
  t.ok(Math.max(...exchange.sizes) <= 262_144 * 2 * 2, `pieces of ${Math.max(...exchange.sizes)} bytes`);
  t.ok(turns >= 20, `${turns} turns`);
  const { result } = JSON.parse(exchange.body.slice('event: message\ndata: '.length)) as { result: unknown };
  t.same(result, { content: [{ type: 'text', text }], structuredContent: { content: text } });
});

t.test('a client that leaves ends its call', async (t) => {
  const { clock, exchange, isAborted, isOver, served } = begin();
  exchange.leave();
  await served;
  t.ok(isAborted() && isOver());
  t.equal(exchange.body, '');
  t.equal(clock.nextDueMs, Infinity);
});

t.test('a cancelled call has no result', async (t) => {
  const { exchange, isAborted, pump, served } = begin();
  pump.cancel();
  await served;
  t.ok(isAborted());
  t.equal(exchange.status, 202);
  t.equal(exchange.body, '');
});
