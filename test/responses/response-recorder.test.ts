// What is stored of an answer, however its bytes are cut; and that the answer passes unchanged.

import t from 'tap';
import type { ResponseRecord } from '../../src/billing/index.ts';
import { createSeededRandom } from '../../src/actor/index.ts';
import { ResponseRecorder } from '../../src/responses/response-recorder.ts';
import type { ExchangeListener } from '../../src/ingress/exchange.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';

const RESPONSE =
  '{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"id":"msg_1","type":"message","text":"a \\"response.failed\\" b"}],"usage":{"x":1.50}}';

const LISTENER: ExchangeListener = { onWritable: () => undefined, onCut: () => undefined, onEnded: () => undefined };

function streamOf(end: string, line: string): string {
  const delta = '{"type":"response.output_text.delta","delta":"\\"response.completed\\""}';
  const created = '{"type":"response.created","response":{"id":"resp_1","output":[]}}';
  return [
    ['response.created', created],
    ['response.output_text.delta', delta],
    ['response.output_text.done', '{"type":"response.output_text.done","text":"response.completed"}'],
    [end, `{"type":"${end}","sequence_number":3,"response":${RESPONSE}}`],
  ]
    .map(([name, data]) => `event: ${name}${line}data: ${data}${line}${line}`)
    .join('');
}

interface Recorded {
  readonly records: ResponseRecord[];
  readonly forgotten: string[];
  readonly exchange: StubExchange;
  readonly recorder: ResponseRecorder;
}

function recorded(previous: string | null = null, maxBytes = 1e6, isOpen = true): Recorded {
  const records: ResponseRecord[] = [];
  const forgotten: string[] = [];
  const exchange = new StubExchange('POST');
  const store = {
    isOpen,
    put: (record: ResponseRecord) => void records.push(record),
    forget: ({ id }: { readonly id: string }) => void forgotten.push(id),
  };
  const origin = { account: 'a', model: 'm', previous, input: () => '[{"role":"user"}]' };
  const recorder = new ResponseRecorder(exchange, { store, maxBytes, epochMs: () => 7.5 }, origin);
  recorder.listener = LISTENER;
  return { records, forgotten, exchange, recorder };
}

const STREAM_HEADERS = ['content-type', 'text/event-stream'];

t.test('a stream is recorded however it is cut between events', (t) => {
  const random = createSeededRandom(3);
  for (const end of ['response.completed', 'response.incomplete', 'response.failed']) {
    for (const line of ['\n', '\r\n', '\r']) {
      for (let round = 0; round < 60; round++) {
        const { exchange, records, recorder } = recorded();
        const events = streamOf(end, line).split(new RegExp(`(?<=${line}${line})`));
        recorder.start(200, STREAM_HEADERS, -1);
        let piece = '';
        for (const event of events) {
          piece += event;
          if (random() < 0.5) {
            recorder.write(Buffer.from(piece));
            piece = '';
          }
        }
        recorder.end(Buffer.from(piece));
        t.match(records, [
          { id: 'resp_1', account: 'a', status: 'completed', createdMs: 7, items: ['msg_1'], previous: null },
        ]);
        t.equal(records.length, 1);
        t.equal(records[0]?.output, '[{"id":"msg_1","type":"message","text":"a \\"response.failed\\" b"}]');
        t.match(records[0]?.response, /"output":null,"usage":\{"x":1\.50\}/, 'numbers stay as they were written');
        t.equal(exchange.body, streamOf(end, line), 'the client gets every byte');
      }
    }
  }
  t.end();
});

t.test('an event that comes in parts is put together', (t) => {
  const random = createSeededRandom(4);
  const typeFirst = streamOf('response.completed', '\n');
  const typeLast = typeFirst.replace(/"type":"response.completed",("seq.*)\}/, '$1,"type":"response.completed"}');
  for (let round = 0; round < 200; round++) {
    const text = round % 2 === 0 ? typeFirst : typeLast;
    const start = text.lastIndexOf('event: ');
    const { exchange, records, recorder } = recorded('resp_0');
    recorder.start(200, STREAM_HEADERS, -1);
    recorder.write(Buffer.from(text.slice(0, start)));
    // The name of the event is in its first part: parts are cut where the largest held event ends, far behind it.
    let at = start;
    let next = start + 70;
    while (at < text.length) {
      recorder.write(Buffer.from(text.slice(at, next)));
      at = next;
      next += 1 + Math.floor(random() * 80);
    }
    recorder.end();
    t.equal(records.length, 1);
    t.match(records[0]?.response, /"previous_response_id":"resp_0"/);
    t.equal(exchange.body, text);
  }
  t.end();
});

t.test('a whole answer is recorded, in one piece or in many', (t) => {
  for (const size of [1, 7, 1000]) {
    const { exchange, records, recorder } = recorded();
    recorder.start(200, ['content-type', 'application/json'], RESPONSE.length);
    const pieces = RESPONSE.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
    for (const piece of pieces.slice(0, -1)) recorder.write(Buffer.from(piece));
    recorder.end(Buffer.from(pieces.at(-1) ?? ''));
    t.match(records, [{ id: 'resp_1', input: '[{"role":"user"}]' }], `${size}`);
    t.equal(exchange.body, RESPONSE);
  }
  t.end();
});

t.test('what is no finished response, or too large, is not recorded', (t) => {
  const json = ['content-type', 'application/json'];
  const none = (status: number, headers: string[], body: string, maxBytes?: number): void => {
    const { exchange, records, recorder } = recorded(null, maxBytes);
    recorder.start(status, headers, -1);
    recorder.end(Buffer.from(body));
    t.same(records, [], body.slice(0, 40));
    t.equal(exchange.body, body);
  };
  none(400, json, RESPONSE);
  none(200, json, '{"object":"response"}');
  none(200, json, 'not json');
  none(200, json, RESPONSE, 100);
  none(200, STREAM_HEADERS, streamOf('response.completed', '\n'), 100);
  none(200, STREAM_HEADERS, streamOf('response.completed', '\n').replace(/event: response.completed[^]*$/, ''));
  none(
    200,
    STREAM_HEADERS,
    'event: response.failed\ndata: {"type":"response.failed","response":{"status":"failed"}}\n\n',
  );
  t.end();
});

t.test('a response that was not delivered is forgotten, and one that is not stored says so', (t) => {
  const ended: string[] = [];
  const lost = recorded();
  lost.recorder.listener = { ...LISTENER, onEnded: (cause) => void ended.push(cause) };
  lost.recorder.start(200, STREAM_HEADERS, -1);
  lost.recorder.write(Buffer.from(streamOf('response.completed', '\n')));
  lost.recorder.onEnded('gone');
  t.same([lost.forgotten, ended], [['resp_1'], ['gone']]);
  const kept = recorded();
  kept.recorder.start(200, STREAM_HEADERS, -1);
  kept.recorder.end(Buffer.from(streamOf('response.completed', '\n')));
  kept.recorder.onEnded('delivered');
  t.same(kept.forgotten, []);
  const full = recorded(null, 1e6, false);
  full.recorder.start(200, STREAM_HEADERS, -1);
  full.recorder.end(Buffer.from(streamOf('response.completed', '\n')));
  t.same(full.records, []);
  t.equal(full.exchange.answered['x-headrace-stored'], 'false');
  t.end();
});
