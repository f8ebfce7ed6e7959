// The memory of request bodies under clients at random: whatever they send, however it is coded, read and answered, and whenever they leave,
// all of it comes back exactly once, and every exchange and connection ends.

import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { WebSocket } from 'ws';
import { createManualClock } from '../../src/actor/clock.ts';
import { BodyBudget } from '../../src/ingress/body.ts';
import type { Exchange } from '../../src/ingress/exchange.ts';
import { createHttp1Server } from '../../src/ingress/http1.ts';
import { createNodeListener } from '../../src/ingress/node-listener.ts';
import { respondError } from '../../src/ingress/respond.ts';
import { handshakeFault } from '../../src/ingress/web-socket.ts';
import { Random } from '../support/random.ts';
import { until } from '../support/system.ts';

const CLIENTS = 700;
const AT_ONCE = 40;
const LARGEST = 1_500_000;
const LARGEST_MESSAGE = 500_000;

const CODINGS: readonly (readonly [string, (body: Buffer) => Buffer])[] = [
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', (body) => brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } })],
  ['zstd', zstdCompressSync],
];

for (const [name, limitBytes] of [
  ['enough memory', 64e6],
  ['little memory', 400_000],
] as const) {
  t.test(name, async (t) => {
    const random = new Random(limitBytes);
    // Time passes with the turns of the event loop, in each of which whatever has come is read.
    const clock = createManualClock();
    const pass = (ms: number): Promise<void> => new Promise((resolve) => clock.setTimeout(resolve, ms));
    let isOver = false;
    const turn = (): void => {
      clock.advance(1);
      if (!isOver) setImmediate(turn);
    };
    t.teardown(() => (isOver = true));
    setImmediate(turn);
    const budget = new BodyBudget(limitBytes);
    const counts = { open: 0, refused: 0 };
    const limits = {
      ...{ maxBodyBytes: LARGEST, bodyIdleMs: 300, clientIdleMs: 400, keepAliveMs: 12_000 },
      ...{ connections: 1000, headerBytes: 16_384 },
    };
    const running = new Set<Exchange>();
    const errors: unknown[] = [];
    let endedTwice = 0;
    let delivered = 0;

    const answer = (exchange: Exchange): void => {
      const way = random.below(6);
      if (way === 0) {
        exchange.destroy();
      } else if (way === 1) {
        exchange.start(200, [], -1);
        exchange.write(Buffer.alloc(random.below(200_000)));
        clock.setTimeout(() => exchange.end(Buffer.from('x')), random.below(20));
      } else {
        exchange.respond(200, [], Buffer.alloc(way === 2 ? random.below(LARGEST) : 2));
      }
    };
    const read = (exchange: Exchange): void => {
      exchange.readBody(
        (error) => {
          try {
            if (error !== null) throw error;
            if (random.chance(0.4)) exchange.reserveBody(random.below(200_000));
            if (random.chance(0.4)) exchange.adoptBody(Buffer.allocUnsafeSlow(random.below(100_000)));
          } catch (thrown) {
            respondError(exchange, thrown);
            return;
          }
          if (random.chance(0.5)) answer(exchange);
          else clock.setTimeout(() => answer(exchange), random.below(30));
        },
        random.chance(0.2) ? 1000 : undefined,
      );
    };
    const openSocket = (exchange: Exchange): void => {
      const socket = exchange.openSocket(
        {
          onWritable: () => undefined,
          onCut: () => undefined,
          onDrain: () => undefined,
          onEnded: () => undefined,
          onMessage: (message) => {
            if (random.chance(0.2)) socket?.close(1000, '');
            else socket?.send(message);
          },
        },
        LARGEST_MESSAGE,
      );
      if (socket === null) exchange.destroy();
    };
    const handler = (exchange: Exchange): void => {
      running.add(exchange);
      exchange.onClose = () => {
        if (!running.delete(exchange)) endedTwice++;
        if (exchange.endCause === 'delivered') delivered++;
      };
      exchange.keyless = random.chance(0.3);
      exchange.bodyIsRead = random.chance(0.5);
      const way = random.below(10);
      if (handshakeFault(exchange) === null) openSocket(exchange);
      else if (way === 0) answer(exchange);
      else if (way === 1) throw new Error('expected');
      else if (way < 6) read(exchange);
      else clock.setTimeout(() => read(exchange), random.below(20));
      if (random.chance(0.1)) clock.setTimeout(() => answer(exchange), random.below(20));
    };
    const onError = (error: unknown): void => {
      if ((error as Error).message !== 'expected') errors.push(error);
    };
    const options = { handler, clock, limits, budget, counts, onError };
    const own = createHttp1Server(options);
    const mounted = createServer(createNodeListener(options)).listen(0, '127.0.0.1');
    t.teardown(() => {
      own.close();
      mounted.close();
      mounted.closeAllConnections();
    });
    await once(mounted, 'listening');
    const ownPort = (await own.listen({ host: '127.0.0.1', port: 0 })).port;
    const mountedPort = (mounted.address() as AddressInfo).port;

    const request = (): Buffer[] => {
      let body = Buffer.alloc(random.below(random.pick([1, 11, 5000, 70_000, 300_000, LARGEST])), 'abc{}1');
      let fields = random.chance(0.1) ? 'expect: 100-continue\r\n' : random.chance(0.05) ? 'connection: close\r\n' : '';
      if (random.chance(0.25)) {
        const [coding, encode] = random.pick(CODINGS);
        body = Buffer.from(encode(body));
        if (random.chance(0.15)) body = body.subarray(0, body.byteLength >> 1);
        fields += `content-encoding: ${coding}\r\n`;
      }
      const line = `${random.pick(['POST', 'POST', 'PUT', 'GET'])} / HTTP/1.${random.chance(0.05) ? 0 : 1}\r\nhost: x\r\n${fields}`;
      if (random.chance(0.6)) {
        const missing = random.chance(0.05) ? 10 : 0;
        return [Buffer.from(`${line}content-length: ${body.byteLength + missing}\r\n\r\n`), body];
      }
      const pieces = [Buffer.from(`${line}transfer-encoding: chunked\r\n\r\n`)];
      for (let at = 0; at < body.byteLength;) {
        const piece = body.subarray(at, at + 1 + random.below(body.byteLength));
        pieces.push(Buffer.from(`${piece.byteLength.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
        at += piece.byteLength;
      }
      return [...pieces, Buffer.from(random.chance(0.05) ? 'x' : '0\r\n\r\n')];
    };
    const client = async (): Promise<void> => {
      const socket = connect({
        port: random.chance(0.6) ? ownPort : mountedPort,
        host: '127.0.0.1',
        allowHalfOpen: true,
      });
      socket.on('error', () => undefined);
      if (random.chance(0.85)) socket.resume();
      const all = Buffer.concat(Array.from({ length: 1 + random.below(3) }, request).flat());
      let left = all.subarray(0, random.chance(0.3) ? random.below(all.byteLength) : undefined);
      while (left.byteLength > 0 && !socket.destroyed) {
        const length = 1 + random.below(random.chance(0.5) ? left.byteLength : 100_000);
        socket.write(left.subarray(0, length));
        left = left.subarray(length);
        if (random.chance(0.3)) await pass(random.below(8));
      }
      const way = random.below(4);
      if (way === 0) socket.resetAndDestroy();
      else if (way === 1) socket.end();
      if (way > 0) await pass(random.below(100));
      socket.destroy();
    };
    const socketClient = async (): Promise<void> => {
      const socket = new WebSocket(`ws://127.0.0.1:${ownPort}/`);
      socket.on('error', () => undefined);
      await new Promise((resolve) => socket.on('open', resolve).on('close', resolve));
      for (let left = random.below(6); left > 0 && socket.readyState === WebSocket.OPEN; left--) {
        if (random.chance(0.2)) socket.ping(Buffer.alloc(random.below(120)));
        else
          socket.send(Buffer.alloc(random.below(random.pick([3000, 100_000, 600_000]))), { fin: random.chance(0.8) });
        if (random.chance(0.3)) await pass(random.below(10));
      }
      if (random.chance(0.5)) socket.close();
      await pass(random.below(50));
      socket.terminate();
    };

    let begun = 0;
    const clients = async (): Promise<void> => {
      while (begun++ < CLIENTS) await (random.chance(0.15) ? socketClient() : client());
    };
    await Promise.all(Array.from({ length: AT_ONCE }, clients));
    await until('all has ended', () => running.size === 0 && counts.open === 0 && budget.usedBytes === 0);

    t.equal(budget.usedBytes, 0);
    t.equal(budget.take(limitBytes / 8 - 1024, true), true, 'the part for requests without a key too');
    t.equal(running.size, 0);
    t.equal(counts.open, 0);
    t.equal(endedTwice, 0);
    t.same(errors, []);
    t.ok(delivered > CLIENTS / 10, `${delivered} were answered`);
  });
}
