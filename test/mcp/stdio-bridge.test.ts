import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { StdioBridge } from '../../src/mcp/index.ts';
import { within } from '../support/system.ts';

interface Sent {
  readonly message: { readonly id?: unknown; readonly method?: unknown };
  readonly signal: AbortSignal;
  readonly answer: (response?: Response) => void;
}

interface Message {
  readonly id?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

/** A bridge whose messages are answered by the test. */
class Bridged {
  readonly stdin: PassThrough = new PassThrough();
  readonly stdout: PassThrough = new PassThrough();
  /** In the order in which they were sent; never removed. */
  readonly sent: Sent[] = [];
  readonly complaints: string[] = [];
  readonly ended: Promise<void>;
  readonly #stop = new AbortController();
  isOver = false;

  constructor(t: Test) {
    const { stdin, stdout } = this;
    const bridge = new StdioBridge({
      ...{ stdin, stdout, complain: (sentence) => this.complaints.push(sentence) },
      send: (text, _headers, signal) =>
        new Promise((resolve, reject) => {
          const message = JSON.parse(text) as Sent['message'];
          const answer = (response = Response.json({ jsonrpc: '2.0', id: message.id, result: {} })): void =>
            resolve(response);
          signal.addEventListener('abort', () => reject(signal.reason as Error));
          this.sent.push({ message, signal, answer });
        }),
    });
    this.ended = bridge.run(this.#stop.signal).then(() => {
      this.isOver = true;
    });
    t.teardown(() => this.stop());
  }

  stop(): Promise<void> {
    this.#stop.abort();
    return within('the end of the bridge', this.ended, 2000);
  }

  /** Lets what was written be read, and what was answered be written. */
  async settle(): Promise<void> {
    for (let i = 0; i < 20; i++) await turn();
  }

  /** Ids of what was sent and has not been cancelled. */
  get ids(): unknown[] {
    return this.sent.filter(({ signal }) => !signal.aborted).map(({ message }) => message.id);
  }

  answers(): Message[] {
    let text = '';
    for (let piece: Buffer | null; (piece = this.stdout.read() as Buffer | null) !== null;) text += piece.toString();
    const lines = text.split('\n').filter((line) => line !== '');
    return lines.map((line) => JSON.parse(line) as Message);
  }
}

function lineOf(id: unknown, method = 'ping', params?: object): string {
  return `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`;
}

function cancellationOf(requestId: unknown): string {
  return `${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } })}\n`;
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

t.test('at most 32 requests are under way, however many come at once', async (t) => {
  const bridged = new Bridged(t);
  bridged.stdin.write(
    numbers(100)
      .map((id) => lineOf(id))
      .join(''),
  );
  await bridged.settle();
  t.same(bridged.ids, numbers(32));
  bridged.sent[5]?.answer();
  await bridged.settle();
  t.same(bridged.ids, numbers(33));
  const batch = numbers(50).map((id) => lineOf(100 + id).trimEnd());
  bridged.stdin.write(`[${batch.join(',')}]\n`);
  bridged.stdin.end();
  const answered = new Set([5]);
  while (!bridged.isOver) {
    await bridged.settle();
    for (const [at, { answer }] of bridged.sent.entries()) {
      if (!answered.has(at)) answer();
      answered.add(at);
    }
  }
  t.same(bridged.ids, numbers(150), 'every request was sent before the end');
});

t.test('cancellations pass requests that wait', async (t) => {
  const bridged = new Bridged(t);
  for (const id of numbers(40)) bridged.stdin.write(lineOf(id));
  await bridged.settle();
  bridged.stdin.write(cancellationOf(3) + cancellationOf(35));
  await bridged.settle();
  t.equal(bridged.sent[3]?.signal.aborted, true, 'one that is under way');
  for (const at of [4, 5, 6, 7]) bridged.sent[at]?.answer();
  await bridged.settle();
  t.same(bridged.ids.slice(31), [32, 33, 34, 36, 37], 'one that waits is never sent');
});

t.test('a client that does not read is read no further', async (t) => {
  const bridged = new Bridged(t);
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  t.teardown(() => process.off('warning', onWarning));
  let pieces = 0;
  while (pieces < 50) {
    if (!bridged.stdin.write('x\n'.repeat(8192))) {
      await bridged.settle();
      if (bridged.stdin.writableNeedDrain) break;
    }
    pieces++;
  }
  t.ok(pieces < 10, `${pieces} pieces were read`);
  t.ok(bridged.stdout.listenerCount('drain') <= 2);
  t.same(warnings, []);
  // And on with it when the client reads.
  bridged.stdout.resume();
  bridged.stdin.write(lineOf('last'));
  await bridged.settle();
  t.same(bridged.ids, ['last']);
});

t.test('a client that does not read does not hold up the end', async (t) => {
  const bridged = new Bridged(t);
  bridged.stdin.write(lineOf(1) + lineOf(2));
  await bridged.settle();
  const large = { jsonrpc: '2.0', id: 1, result: 'x'.repeat(100_000) };
  bridged.sent[0]?.answer(Response.json(large));
  await bridged.settle();
  await bridged.stop();
  t.equal(bridged.isOver, true);
});

t.test('the end cuts notifications and requests of one id too', async (t) => {
  const bridged = new Bridged(t);
  bridged.stdin.write(lineOf(1) + lineOf(1) + lineOf(undefined, 'notifications/initialized'));
  await bridged.settle();
  t.equal(bridged.sent.length, 3);
  await bridged.stop();
  t.ok(bridged.sent.every(({ signal }) => signal.aborted));
  t.same(bridged.complaints, []);
});

t.test('an input that breaks ends the work', async (t) => {
  const bridged = new Bridged(t);
  bridged.stdin.write(lineOf(1));
  await bridged.settle();
  bridged.stdin.destroy(new Error('read ECONNRESET'));
  await within('the end of the bridge', bridged.ended, 2000);
  t.equal(bridged.sent[0]?.signal.aborted, true);
});

t.test('an output that breaks ends the work', async (t) => {
  const bridged = new Bridged(t);
  bridged.stdin.write(lineOf(1) + lineOf(2));
  await bridged.settle();
  bridged.stdout.destroy(new Error('write EPIPE'));
  await within('the end of the bridge', bridged.ended, 2000);
  t.ok(bridged.sent.every(({ signal }) => signal.aborted));
});

t.test('a refusal keeps its code, whatever its status', async (t) => {
  const bridged = new Bridged(t);
  bridged.stdin.write(lineOf(1) + lineOf(2) + lineOf(3));
  await bridged.settle();
  const error = { code: -32_601, message: 'Method not found' };
  bridged.sent[0]?.answer(Response.json({ jsonrpc: '2.0', id: 1, error }, { status: 404 }));
  bridged.sent[1]?.answer(Response.json({ detail: 'Too deep' }, { status: 400 }));
  bridged.sent[2]?.answer(new Response('<h1>Bad gateway</h1>', { status: 502 }));
  await bridged.settle();
  t.same(
    bridged.answers().map(({ error, id }) => [id, error?.code, error?.message]),
    [
      [1, -32_601, 'Method not found'],
      [2, -32_000, 'the gateway answers 400: Too deep'],
      [3, -32_000, 'the gateway answers 502'],
    ],
  );
});

t.test('an event of many pieces is read in time that its length takes', async (t) => {
  const bridged = new Bridged(t);
  bridged.stdin.write(lineOf(1));
  await bridged.settle();
  const text = 'ä'.repeat(3 << 20);
  const progress = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress' });
  const result = JSON.stringify({ jsonrpc: '2.0', id: 1, result: { text } });
  const events = Buffer.from(`: a comment\n\nevent: message\ndata: ${progress}\n\nid: 7\r\ndata:${result}\r\n\r\n`);
  let at = 0;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      if (at >= events.length) return controller.close();
      controller.enqueue(events.subarray(at, (at += 4095)));
    },
  });
  const startMs = performance.now();
  bridged.sent[0]?.answer(new Response(body, { headers: { 'content-type': 'text/event-stream' } }));
  bridged.stdin.end();
  let out = '';
  for await (const piece of bridged.stdout.setEncoding('utf8')) {
    out += String(piece);
    if (out.endsWith('}\n') && out.length > text.length) break;
  }
  t.ok(performance.now() - startMs < 3000, `${performance.now() - startMs} ms`);
  t.same(out, `${progress}\n${result}\n`);
});

t.test('lines that are not UTF-8 or too long are refused, each once, and the next are taken', async (t) => {
  const bridged = new Bridged(t);
  const long = lineOf('x'.repeat(1024 * 1024));
  bridged.stdin.write(Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":1,"method":"'), Buffer.from([0xc3, 0x28])]));
  bridged.stdin.write(`"}\n${lineOf('ä'.repeat(600 * 1024))}`);
  for (let at = 0; at < long.length; at += 65_536) bridged.stdin.write(long.slice(at, at + 65_536));
  const whole = Buffer.from(`\ufeff${lineOf('größe')}`);
  // A character in two pieces.
  bridged.stdin.write(whole.subarray(0, 30));
  await bridged.settle();
  bridged.stdin.write(whole.subarray(30));
  bridged.stdin.write(long.trimEnd());
  bridged.stdin.end();
  for (let i = 0; i < 10; i++) await bridged.settle();
  t.same(bridged.ids, ['größe']);
  t.same(
    bridged.answers().map(({ error, id }) => [id, error?.code]),
    numbers(4).map(() => [null, -32_700]),
  );
});

t.test('a message without method and result is refused, a result is not', async (t) => {
  const bridged = new Bridged(t);
  bridged.stdin.write(
    '{"jsonrpc":"2.0","id":1}\n{"jsonrpc":"2.0","id":2,"result":{}}\n{"jsonrpc":"2.0","id":3,"error":{}}\n',
  );
  await bridged.settle();
  t.same(bridged.ids, [1]);
});

t.test('a message is passed on as it came', async (t) => {
  const texts: string[] = [];
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const send = (text: string): Promise<Response> => {
    texts.push(text);
    return Promise.resolve(new Response(null, { status: 202 }));
  };
  const running = new StdioBridge({ stdin, stdout, send, complain: () => undefined }).run(new AbortController().signal);
  const line = '{"jsonrpc":"2.0","method":"a","params":{"n":12345678901234567890}}';
  const deep = (levels: number): string =>
    `{"jsonrpc":"2.0","method":"b","params":${'['.repeat(levels)}${']'.repeat(levels)}}`;
  stdin.end(`${line}\n${deep(999)}\n${deep(100_000)}\n`);
  await running;
  t.same(texts, [line, deep(999)]);
  t.match(String(stdout.read()), '"code":-32700', 'no gateway takes one that is nested deeper than 1000 levels');
});
