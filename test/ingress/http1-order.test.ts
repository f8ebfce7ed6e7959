// The gateway's own HTTP/1.1 server under random input: requests cut anywhere, pipelined, read slowly, and left. Every request is
// answered exactly once, in order and whole, every exchange ends exactly once, and nothing is left behind.
import fc from 'fast-check';
import t from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import type { Exchange } from '../../src/ingress/exchange.ts';
import { createHttp1Server } from '../../src/ingress/http1.ts';
import { dial } from '../support/server-adapter-wire.ts';

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

t.test('every request is answered once, in order and whole, and nothing is left', async (t) => {
  const clock = createManualClock();
  const budget = new BodyBudget(1e9);
  const counts = { open: 0, refused: 0 };
  const limits = {
    ...{ maxBodyBytes: 1e6, bodyIdleMs: 30_000, clientIdleMs: 120_000 },
    ...{ connections: 100, headerBytes: 16_384 },
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
      while (counts.open > 0) {
        await new Promise(setImmediate);
        clock.advance(50);
      }
      // The timer of all deadlines runs out by itself.
      clock.advance(200_000);
      return begun === ended && budget.usedBytes === 0 && errors.length === 0 && clock.nextDueMs === Infinity;
    }),
    { numRuns: 150 },
  );
});
