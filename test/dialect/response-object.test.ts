// Response objects and the events that carry them, as bytes.
import t from 'tap';
import {
  endingEventIn,
  endsResponse,
  joinedResponse,
  responseEventOf,
  responsePartsOf,
  withMembers,
} from '../../src/dialect/response-object.ts';

t.test('a response is taken apart and joined without a changed byte', (t) => {
  const text = '{"id":"resp_1", "status":"completed","model":"m","output":[ {"a":1.50} ],"x":[]}';
  const parts = responsePartsOf(Buffer.from(text));
  t.same(parts, {
    id: 'resp_1',
    status: 'completed',
    model: 'm',
    output: '[ {"a":1.50} ]',
    rest: '{"id":"resp_1", "status":"completed","model":"m","output":null,"x":[]}',
  });
  t.equal(joinedResponse(parts?.rest ?? '', parts?.output ?? '').toString(), text);
  t.match(responsePartsOf(Buffer.from('{"id":"r"}')), { output: '[]', rest: '{"output":null,"id":"r"}' });
  t.equal(responsePartsOf(Buffer.from('{"output":[]}')), null, 'without an id it cannot be found again');
  t.equal(responsePartsOf(Buffer.from('[]')), null);
  t.equal(responsePartsOf(Buffer.from('{"id":"r",')), null);
  t.end();
});

t.test('members are replaced where they are, or added', (t) => {
  const changed = (text: string): string => withMembers(Buffer.from(text), { id: '"b"', n: '1' }).toString();
  t.equal(changed('{"id":"a","x":1}'), '{"n":1,"id":"b","x":1}');
  t.equal(changed('{"n": 7 , "id":"a"}'), '{"n": 1 , "id":"b"}');
  t.equal(changed('{}'), '{"id":"b","n":1}');
  t.equal(changed('no object'), 'no object');
  t.end();
});

t.test('the event that ends a response is found in any piece of a stream', (t) => {
  const delta =
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"\\"response.completed\\""}\n\n';
  const end = (type: string): string => `event: ${type}\ndata: {"type":"${type}","response":{"id":"r"}}\n\n`;
  for (const type of ['response.completed', 'response.incomplete', 'response.failed']) {
    t.ok(endsResponse(type));
    t.equal(endingEventIn(Buffer.from(end(type))), 0, type);
    t.equal(endingEventIn(Buffer.from(delta + delta + end(type))), 2 * delta.length);
    t.equal(endingEventIn(Buffer.from(`${delta}data: {"response":{},"type":"${type}"}\n\n`)), delta.length);
    t.equal(endingEventIn(Buffer.from(`${end(type)}data: [DONE]\n\n`)), 0, 'also before another event');
  }
  const ended = delta + end('response.completed');
  t.equal(endingEventIn(Buffer.from(ended.replaceAll('\n', '\r\n'))), delta.length + 3, 'lines may end with CRLF');
  t.equal(endingEventIn(Buffer.from(ended.replaceAll('\n', '\r'))), delta.length, 'or with CR');
  t.equal(endingEventIn(Buffer.from(delta)), -1);
  t.equal(endingEventIn(Buffer.from(end('response.created'))), -1);
  t.equal(endingEventIn(Buffer.from(delta.replace('event: response.output_text.delta\n', ''))), -1);
  t.equal(endingEventIn(Buffer.from(': keep-alive\n\n')), -1);
  t.equal(endingEventIn(Buffer.from('')), -1);
  const word = delta.replace('\\"response.completed\\"', 'response.completed');
  t.equal(endingEventIn(Buffer.from(word + end('response.failed'))), word.length, 'a text may be the name of one');
  t.equal(endingEventIn(Buffer.from(word.replace(/^.*\n/, ''))), -1);
  const cut = 'event: response.completed\r\ndata: {"response":{"id":"r","output":[';
  t.equal(endingEventIn(Buffer.from(cut)), 0, 'the type may be behind the response');
  t.equal(endingEventIn(Buffer.from(delta.replaceAll('\n', '\r\n') + cut)), delta.length + 3);
  t.equal(endingEventIn(Buffer.from(cut.replace('completed', 'created'))), -1);
  t.notOk(endsResponse('response.created'));
  t.end();
});

t.test('an event is read whatever its lines are', (t) => {
  for (const text of [
    'event: response.created\ndata: {"type":"response.created","response":{"id":"r"}}\n\n',
    'data:{"response":{"id":"r"},"type":"response.created"}\r\n\r\n',
    ': hi\ndata: {"type":"response.created",\ndata: "response":{"id":"r"}}\n\n',
    'event: response.created\rdata: {"type":"response.created",\rdata: "response":{"id":"r"}}\r\r',
  ]) {
    const event = responseEventOf(Buffer.from(text));
    t.equal(event?.type, 'response.created', text);
    t.equal(event?.response?.toString(), '{"id":"r"}');
  }
  t.equal(responseEventOf(Buffer.from('data: {"type":"x","response":"text"}\n\n'))?.response, null);
  t.equal(responseEventOf(Buffer.from('data: [DONE]\n\n')), null);
  t.equal(responseEventOf(Buffer.from('event: ping\n\n')), null);
  t.end();
});
