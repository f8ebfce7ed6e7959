// Ids in requests and answers of the responses dialect.
import t from 'tap';
import { scanBody } from '../../src/dialect/body-scan.ts';
import { previousResponseId, responseIdOf } from '../../src/dialect/response-id.ts';

t.test('the id of a response is read from JSON and from the first event of a stream', (t) => {
  const rows: [string, boolean, string | undefined][] = [
    ['{"id":"resp_1","object":"response"}', false, 'resp_1'],
    ['{"created_at":1,"output":[{"id":"msg_1"}],"error":{"id":"x"},\n "id" : "resp_2"}', false, 'resp_2'],
    ['{"id":"resp_3","output":[{"type":"mess', false, 'resp_3'],
    ['{"output":[{"id":"msg_1"}', false, undefined],
    ['{"id":7}', false, undefined],
    ['{"id":""}', false, undefined],
    [`{"id":"${'x'.repeat(300)}"}`, false, undefined],
    ['not json', false, undefined],
    ['', false, undefined],
    ['data: {"type":"response.created","response":{"id":"resp_4","output":[]}}\n\n', true, 'resp_4'],
    [': hi\n\nevent: response.created\ndata:{"response":{"object":"response","id":"resp_5"}}\n\n', true, 'resp_5'],
    ['event: response.created\rdata: {"response":{"id":"resp_6"}}\r\r', true, 'resp_6'],
    [': hi\r\n\r\nevent: response.created\r\ndata: {"response":{"id":"resp_7"}}\r\n\r\n', true, 'resp_7'],
    ['event: ping\n\n', true, undefined],
    ['data: [DONE]\n\n', true, undefined],
    ['data: {"type":"response.output_text.delta","item_id":"msg_1"}\n\n', true, undefined],
  ];
  for (const [text, isStream, id] of rows) t.equal(responseIdOf(Buffer.from(text), isStream), id, text);
  t.end();
});

t.test('the id of the response that a request continues', (t) => {
  const idOf = (extra: string): string | undefined => {
    const body = Buffer.from(`{"model":"m"${extra}}`);
    const scan = scanBody(body);
    return scan.ok ? previousResponseId(body, scan) : 'refused';
  };
  t.equal(idOf(',"previous_response_id":"resp_1"'), 'resp_1');
  t.equal(idOf(',"previous_response_id": "resp\\u005f1"'), 'resp_1');
  for (const extra of [
    '',
    ',"previous_response_id":null',
    ',"previous_response_id":""',
    ',"previous_response_id":[1]',
  ]) {
    t.equal(idOf(extra), undefined, extra);
  }
  t.end();
});
