// The gateway's own HTTP/1.1 server under random input: requests cut anywhere, pipelined, read slowly, and left. Every request is
// answered exactly once, in order and whole, every exchange ends exactly once, and nothing is left behind.
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import type { Exchange } from '../../src/ingress/exchange.ts';
import { createHttp1Server } from '../../src/ingress/http1.ts';
import { dial, type Wire } from '../support/server-adapter-wire.ts';

interface Asked {
  /** When and how the handler answers. */
  readonly mode: 'now' | 'later' | 'streamed' | 'ignoring the body';
  /** The body; null for none. */
  readonly body: string | null;
  readonly chunked: boolean;
  /** Bytes of the response. */
  readonly size: number;
}

const asked: fc.Arbitrary<Asked> = fc.record({
  mode: fc.constantFrom('now', 'later', 'streamed', 'ignoring the body'),
  body: fc.option(fc.string({ unit: 'binary-ascii', maxLength: 40 })),
  chunked: fc.boolean(),
  size: fc.constantFrom(0, 1, 100, 20_000, 400_000),
});

interface Run {
  readonly requests: readonly Asked[];
  /** Where the bytes are cut, as parts of 1. */
  readonly cuts: readonly number[];
  readonly slow: boolean;
  /** After how many answers the client leaves; more than there are: never. */
  readonly leavesAfter: number;
}

const run: fc.Arbitrary<Run> = fc.record({
  requests: fc.array(asked, { minLength: 1, maxLength: 12 }),
  cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 }),
  slow: fc.boolean(),
  leavesAfter: fc.oneof({ weight: 3, arbitrary: fc.constant(99) }, { weight: 1, arbitrary: fc.nat(6) }),
});

function encode({ mode, body, chunked, size }: Asked, index: number): string {
  const head = `POST /${index} HTTP/1.1\r\nhost: x\r\nx-mode: ${mode}\r\nx-size: ${size}\r\n`;
  if (body === null) return `${head}\r\n`;
  // The connection ends with a response to a body whose length is not known and that nobody reads.
  if (!chunked || mode === 'ignoring the body') return `${head}content-length: ${body.length}\r\n\r\n${body}`;
  const middle = Math.floor(body.length / 2);
  const chunks = [body.slice(0, middle), body.slice(middle)].filter((piece) => piece !== '');
  const coded = chunks.map((piece) => `${piece.length.toString(16)};x\r\n${piece}\r\n`).join('');
  return `${head}transfer-encoding: chunked\r\n\r\n${coded}0\r\nx-trailer: 1\r\n\r\n`;
}

function expected({ mode, body, size }: Asked, index: number): string {
  return `/${index} ${mode === 'ignoring the body' ? '' : (body ?? '')}${'x'.repeat(size)}`;
}

function handle(exchange: Exchange): void {
  const mode = exchange.header('x-mode');
  const fill = Buffer.alloc(Number(exchange.header('x-size')), 'x');
  const answer = (body: Buffer): void => {
    const begin = Buffer.concat([Buffer.from(`${exchange.path} `), body]);
    if (mode !== 'streamed') {
      exchange.respond(200, [], Buffer.concat([begin, fill]));
      return;
    }
    exchange.start(200, [], -1);
    exchange.write(begin);
    setImmediate(() => exchange.end(fill));
  };
  if (mode === 'ignoring the body') answer(Buffer.alloc(0));
  else if (mode === 'later') setImmediate(() => exchange.readBody((_, body) => setImmediate(answer, body)));
  else exchange.readBody((_, body) => answer(body));
}

/** A server that answers as the requests ask it to. */
async function serve(t: Test, connections: number) {
  const clock = createManualClock();
  const budget = new BodyBudget(1e9);
  const counts = { open: 0, refused: 0 };
  const limits = {
    ...{ maxBodyBytes: 1e6, bodyIdleMs: 30_000, clientIdleMs: 120_000, keepAliveMs: 12_000 },
    ...{ connections, headerBytes: 16_384 },
  };
  const errors: unknown[] = [];
  let begun = 0;
  let ended = 0;
  const server = createHttp1Server({
    ...{ clock, budget, counts, limits },
    handler: (exchange) => {
      begun++;
      exchange.listener = { onWritable: () => undefined, onCut: () => undefined, onEnded: () => void ended++ };
      handle(exchange);
    },
    onError: (error) => errors.push(error),
  });
  t.teardown(() => server.close());
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  /** Whether nothing is left when all clients have gone. */
  const isClean = async (): Promise<boolean> => {
    while (counts.open > 0) {
      await new Promise(setImmediate);
      clock.advance(50);
    }
    // The timer of all deadlines runs out by itself.
    clock.advance(200_000);
    return begun === ended && budget.usedBytes === 0 && errors.length === 0 && clock.nextDueMs === Infinity;
  };
  return { clock, counts, isClean, port };
}

t.test('every request is answered once, in order and whole, and nothing is left', async (t) => {
  const { isClean, port } = await serve(t, 100);
  await fc.assert(
    fc.asyncProperty(run, async ({ requests, cuts, slow, leavesAfter }) => {
      const wire = dial({ teardown: () => undefined }, port);
      const bytes = requests.map(encode).join('');
      const at = [...cuts.map((cut) => Math.floor(cut * bytes.length)), 0, bytes.length].sort((a, b) => a - b);
      const sending = (async () => {
        for (let i = 1; i < at.length; i++) {
          await wire.send(bytes.slice(at[i - 1], at[i]));
          await new Promise(setImmediate);
        }
      })();
      for (const [index, request] of requests.entries()) {
        if (index === leavesAfter) break;
        if (slow) {
          wire.socket.pause();
          for (let i = 0; i < 5; i++) await new Promise(setImmediate);
          wire.socket.resume();
        }
        const answer = await wire.answer();
        if (answer.status !== 200 || answer.text() !== expected(request, index)) return false;
      }
      wire.leave();
      await sending;
      return isClean();
    }),
    { numRuns: 150 },
  );
});

/** What a client of a burst does. */
interface Client {
  readonly requests: readonly Asked[];
  /** Where its bytes are cut, as a part of 1. */
  readonly cut: number;
  /** What it does behind its last byte. `resets`: at once, behind the first part. */
  readonly leave: 'stays' | 'closes its side' | 'resets';
}

const client: fc.Arbitrary<Client> = fc.record({
  requests: fc.oneof(
    { weight: 4, arbitrary: fc.array(asked, { minLength: 1, maxLength: 1 }) },
    { weight: 1, arbitrary: fc.array(asked, { minLength: 2, maxLength: 60 }) },
  ),
  cut: fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true })),
  leave: fc.oneof(
    { weight: 4, arbitrary: fc.constant('stays') },
    { weight: 2, arbitrary: fc.constant('closes its side') },
    { weight: 1, arbitrary: fc.constant('resets') },
  ),
});

interface Burst {
  /** They take turns until there are `count` clients. */
  readonly clients: readonly Client[];
  readonly count: number;
  /** Time that passes in each turn. */
  readonly tickMs: number;
}

const burst: fc.Arbitrary<Burst> = fc.record({
  clients: fc.array(client, { minLength: 1, maxLength: 12 }),
  count: fc.integer({ min: 40, max: 160 }),
  tickMs: fc.constantFrom(0, 1, 100),
});

/** Plays one client; whether it got all that it is owed. */
async function play({ requests, cut, leave }: Client, wire: Wire): Promise<boolean> {
  const bytes = requests.map(encode).join('');
  const at = Math.ceil(cut * bytes.length);
  const first = wire.send(bytes.slice(0, at));
  if (leave === 'resets') {
    await new Promise(setImmediate);
    wire.socket.resetAndDestroy();
    return true;
  }
  if (at < bytes.length) {
    await first;
    void wire.send(bytes.slice(at));
  }
  if (leave === 'closes its side') wire.socket.end();
  for (const [index, request] of requests.entries()) {
    const answer = await wire.answer();
    if (answer.status !== 200 || answer.text() !== expected(request, index)) return false;
  }
  if (leave === 'stays') wire.leave();
  // The server closes behind the last answer.
  return leave === 'stays' || (await wire.ended) === 'fin';
}

t.test('the same holds for many connections that are read in one turn of the event loop', async (t) => {
  const { clock, counts, isClean, port } = await serve(t, 200);
  await fc.assert(
    fc.asyncProperty(burst, async ({ clients, count, tickMs }) => {
      const wires = Array.from({ length: count }, () => dial({ teardown: () => undefined }, port));
      while (counts.open < count) await new Promise(setImmediate);
      for (const { socket } of wires) socket.allowHalfOpen = true;
      let isOver = false;
      function pass(): void {
        clock.advance(tickMs);
        if (!isOver) setImmediate(pass);
      }
      const played = wires.map((wire, i) => play(clients[i % clients.length] as Client, wire));
      pass();
      const whole = await Promise.all(played);
      isOver = true;
      for (const wire of wires) wire.leave();
      return whole.every(Boolean) && (await isClean());
    }),
    { numRuns: 15 },
  );
});
