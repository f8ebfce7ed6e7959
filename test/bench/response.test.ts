// The response parser of the load clients: bodies with a length and in chunks, events across pieces, and what it refuses.
import t from 'tap';
import { benchModule } from './modules.ts';

interface Response {
  readonly ResponseReader: new (onEvent: (index: number, stampUs: number) => void) => {
    push: (bytes: Buffer) => boolean;
    reset: () => void;
    readonly status: number;
    readonly bodyBytes: number;
    readonly events: number;
  };
}

const { ResponseReader } = await benchModule<Response>('lib/response.mjs');

const EVENTS = 'data: one\n\ndata: [DONE]\n\n';
const WHOLE = `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: ${EVENTS.length}\r\n\r\n${EVENTS}`;
const CHUNKED =
  'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n' +
  `${EVENTS.length.toString(16)}\r\n${EVENTS}\r\n0\r\n\r\n`;
const JSON_ANSWER = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"a":\n\n}';

t.test('events are counted in chunks and in a body with a length, however they are cut', async (t) => {
  for (const text of [WHOLE, CHUNKED]) {
    for (let cut = 1; cut < text.length; cut++) {
      const seen: number[] = [];
      const reader = new ResponseReader((index) => seen.push(index));
      t.equal(reader.push(Buffer.from(text.slice(0, cut))), false);
      t.equal(reader.push(Buffer.from(text.slice(cut))), true, `cut at ${cut}`);
      t.strictSame([reader.status, reader.bodyBytes, reader.events, seen], [200, EVENTS.length, 2, [0, 1]]);
    }
  }
});

t.test('blank lines in JSON are no events', async (t) => {
  const reader = new ResponseReader(() => t.fail('no event'));
  t.equal(reader.push(Buffer.from(JSON_ANSWER)), true);
  t.equal(reader.bodyBytes, 8);
});

t.test('what is no HTTP answer, has no length or goes on after its end is an error', async (t) => {
  const push = (text: string): boolean => new ResponseReader(() => {}).push(Buffer.from(text));
  t.throws(() => push('ICY 200 OK\r\n\r\n'), /no HTTP answer/);
  t.throws(() => push('HTTP/1.1 200 OK\r\n\r\n'), /without a length/);
  t.throws(() => push(`${JSON_ANSWER}HTTP`), /bytes after the answer/);
});
