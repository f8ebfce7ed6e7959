// Items of the responses dialect, and the splice that puts earlier ones before the input of a request.
import t from 'tap';
import { createSeededRandom } from '../../src/actor/index.ts';
import { scanBody, type ScannedBody } from '../../src/dialect/body-scan.ts';
import {
  allItemsOf,
  inputOf,
  arrayItemsOf,
  asForeground,
  inputItemsOf,
  itemNameOf,
  socketMessageOf,
  stateFieldsOf,
  withEarlierItems,
  withInput,
} from '../../src/dialect/response-items.ts';

const EARLIER = ['{"role":"user","content":"one"}', '{"type":"message","id":"msg_1","content":[ ]}'];

t.test('earlier items stand before the input, and previous_response_id is gone', (t) => {
  const rows: [string, string][] = [
    [
      '{"model":"m","previous_response_id":"r","input":"two"}',
      '{"model":"m","input":[E,{"type":"message","role":"user","content":"two"}]}',
    ],
    ['{"input":[ {"a": 1.50} ],"previous_response_id":"r"}', '{"input":[E, {"a": 1.50} ]}'],
    ['{ "previous_response_id" : "r" , "input" : [ ] }', '{ "input" : [E ] }'],
    ['{"previous_response_id":"r","model":"m"}', '{"input":[E],"model":"m"}'],
    ['{"previous_response_id":"r"}', '{"input":[E]}'],
    ['{"previous_response_id":"r","input":null}', '{"input":[E]}'],
    ['{"previous\\u005fresponse_id":"r","input":{"x":":,\\""}}', '{"input":[E,{"x":":,\\""}]}'],
    [
      '{"input":"x","previous_response_id":"r","previous_response_id":"s"}',
      '{"input":[E,{"type":"message","role":"user","content":"x"}]}',
    ],
    [
      '{"metadata":{"previous_response_id":"kept"},"input":[1],"previous_response_id":null}',
      '{"metadata":{"previous_response_id":"kept"},"input":[E,1]}',
    ],
  ];
  for (const [body, expected] of rows) {
    t.equal(withEarlierItems(Buffer.from(body), EARLIER).toString(), expected.replace('E', EARLIER.join(',')), body);
  }
  const body = '{"a":1 , "previous_response_id":"r" }';
  t.equal(withEarlierItems(Buffer.from(body), []).toString(), '{"a":1  }', 'without earlier items only the id goes');
  t.end();
});

t.test('items are the texts in which they were written', (t) => {
  t.same(inputItemsOf(Buffer.from('{"input":[ {"a": 1.0e2},\n"x" , [] ]}')), ['{"a": 1.0e2}', '"x"', '[]']);
  t.same(inputItemsOf(Buffer.from('{"input":"h\\u00e9"}')), ['{"type":"message","role":"user","content":"h\\u00e9"}']);
  t.same(inputItemsOf(Buffer.from('{"input":[]}')), []);
  t.same(inputItemsOf(Buffer.from('{}')), []);
  t.same(arrayItemsOf(Buffer.from('[{"type":"message","text":"],["}]')), ['{"type":"message","text":"],["}']);
  t.same(arrayItemsOf(Buffer.from('[1, {"b":[2]}]')), ['1', '{"b":[2]}']);
  t.same(itemNameOf('{"id":"msg_1","type":"item_reference"}'), { id: 'msg_1', type: 'item_reference' });
  t.same(itemNameOf('"text"'), { id: '', type: '' });
  t.end();
});

function scanned(text: string): [body: Buffer, scan: ScannedBody] {
  const body = Buffer.from(text);
  const scan = scanBody(body, { requireModel: false });
  if (!scan.ok) throw new Error(JSON.stringify(scan.errors));
  return [body, scan];
}

t.test('items that a request names are seen where they stand', (t) => {
  const named = '{"type":"item_ref\\u0065rence","id":"x"}';
  const cases: [input: string, expected: boolean][] = [
    ['"item_reference"', false],
    ['[]', false],
    ['null', false],
    ['[{"role":"user","content":"{\\"type\\":\\"item_reference\\"}"}]', false],
    ['[{"role":"user","content":[{"type":"item_reference"}]}]', false],
    ['[{"type":"message","role":"user","content":"x"},{"id":"x","type":"item_reference"}]', true],
    [`[1,${named}]`, true],
    ['[{"type":"item_reference","type":"message"}]', false],
  ];
  for (const [input, expected] of cases) {
    for (const rest of ['', ',"metadata":{"input":[{"type":"item_reference"}]}']) {
      const [body, scan] = scanned(`{"input":7,"input":${input}${rest}}`);
      t.equal(stateFieldsOf(body, scan).hasReferences, expected, input);
    }
  }
  // Of a body that is not the last one that was scanned, text is enough to look closer.
  const [body, scan] = scanned('{"input":[{"role":"user","content":"an item_reference"}]}');
  scanned('{}');
  t.equal(stateFieldsOf(body, scan).hasReferences, true);
  t.end();
});

t.test('the state fields of a request, and a background request as it is sent', (t) => {
  const fields = (text: string): object => stateFieldsOf(...scanned(text));
  t.same(fields('{"store":false,"stream":true}'), {
    store: false,
    background: false,
    stream: true,
    hasReferences: false,
  });
  t.match(fields('{"background":true,"input":[{"type":"item_reference","id":"x"}]}'), {
    store: undefined,
    background: true,
    hasReferences: true,
  });
  t.match(fields('{"background":null,"store":null}'), { store: undefined, background: false });
  for (const text of ['{"background":"true"}', '{"store":0}', '{"store":[]}'])
    t.throws(() => fields(text), { code: 'HR_REQUEST_INVALID' }, text);
  const rows: [string, string][] = [
    ['{"background":true,"input":"x"}', '{"stream":true,"input":"x"}'],
    ['{"stream": false, "background": true}', '{"stream": true}'],
    ['{"background":true}', '{"stream":true}'],
  ];
  for (const [body, expected] of rows) t.equal(asForeground(Buffer.from(body)).toString(), expected);
  t.equal(withInput(Buffer.from('{"input":"x","a":1}'), ['1', '2']).toString(), '{"input":[1,2],"a":1}');
  t.end();
});

t.test('a splice of any request is what JSON says it is', (t) => {
  const random = createSeededRandom(16);
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  for (let round = 0; round < 2000; round++) {
    const members: [string, unknown][] = [
      ['model', 'm'],
      ['input', pick(['text', [], [{ role: 'user', content: 'a "quoted", {text}' }], [{ a: [] }, { b: '\\' }]])],
      ['previous_response_id', pick(['resp_1', 'r:",'])],
      ['metadata', { previous_response_id: 'x', input: [1, ','] }],
      ['temperature', 0.5],
    ];
    members.sort(() => random() - 0.5);
    const request = Object.fromEntries(members) as Record<string, unknown>;
    const text = JSON.stringify(request, null, pick([0, 1, 2]));
    const earlier = EARLIER.slice(0, 1 + Math.floor(random() * 2));
    const spliced = JSON.parse(withEarlierItems(Buffer.from(text), earlier).toString()) as Record<string, unknown>;
    const { previous_response_id: _, input, ...rest } = request;
    const own = typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : (input as unknown[]);
    const items: unknown[] = earlier.map((item) => JSON.parse(item) as unknown);
    t.strictSame(spliced, { ...rest, input: [...items, ...own] });
  }
  t.end();
});

t.test('a member that is repeated goes wherever it stands, in one reading', (t) => {
  const rows: [string, string][] = [
    ['{"background":true,"background":1,"input":"x","background":true}', '{"stream":true,"input":"x"}'],
    ['{"input":"x", "background":true , "background" : false}', '{"stream":true,"input":"x"}'],
    ['{"background":true,"background":true}', '{"stream":true}'],
    ['{"background":true,"a":[1,2],"background":true,"b":","}', '{"stream":true,"a":[1,2],"b":","}'],
  ];
  for (const [body, expected] of rows) t.equal(asForeground(Buffer.from(body)).toString(), expected);
  // One reading for each of them would take hours.
  const many = 200_000;
  const request = Buffer.from(`{${'"background":true,'.repeat(many)}"input":"x"}`);
  t.equal(asForeground(request).toString(), '{"stream":true,"input":"x"}');
  const message = socketMessageOf(Buffer.from(`{${'"type":"response.create",'.repeat(many)}"input":"x"}`));
  t.match(message, { type: 'response.create', body: Buffer.from('{"stream":true,"input":"x"}') });
  t.end();
});

t.test('input as one array, as it is written', (t) => {
  for (const [body, input, all] of [
    ['{"input":[ {"a":1} ,2 ]}', '[ {"a":1} ,2 ]', ['{"a":1} ,2']],
    ['{"input":[ ]}', '[ ]', []],
    [
      '{"input":"hi"}',
      '[{"type":"message","role":"user","content":"hi"}]',
      ['{"type":"message","role":"user","content":"hi"}'],
    ],
    ['{"input":null}', '[]', []],
    ['{}', '[]', []],
  ] as const) {
    t.equal(inputOf(Buffer.from(body)), input, body);
    t.strictSame(allItemsOf(input), all, body);
  }
  t.end();
});
