import { test } from 'tap';
import { ResponseEcho } from '../../../src/dialect/translation/response-echo.ts';

const echoOf = (text: string): ResponseEcho => new ResponseEcho(Buffer.from(text), null);
const membersOf = (text: string): Record<string, unknown> =>
  JSON.parse(`{${echoOf(text).members.toString()}}`) as Record<string, unknown>;

test('has the defaults of the official API where the request says nothing', async (t) => {
  const defaults = {
    background: false,
    frequency_penalty: 0,
    instructions: null,
    max_output_tokens: null,
    max_tool_calls: null,
    metadata: {},
    parallel_tool_calls: true,
    presence_penalty: 0,
    previous_response_id: null,
    prompt_cache_key: null,
    reasoning: { effort: null, summary: null },
    safety_identifier: null,
    store: true,
    temperature: 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_logprobs: 0,
    top_p: 1,
    truncation: 'disabled',
    user: null,
  };
  t.strictSame(membersOf('{"model":"m","input":"hi"}'), defaults);
  const nulls = Object.fromEntries(Object.keys(defaults).map((name) => [name, null]));
  t.strictSame(membersOf(JSON.stringify({ model: 'm', ...nulls })), defaults);
  t.equal(echoOf('{"model":"m"}').serviceTier, '"auto"');
  t.equal(echoOf('{"model":"m","service_tier":null}').serviceTier, '"auto"');
  t.equal(echoOf('{}').model, '');
});

test('copies what the request says as it is written', async (t) => {
  const tools = [{ type: 'function', name: 'read', parameters: { type: 'object' }, strict: true }];
  const request = {
    model: 'atlas "27b"',
    instructions: 'Say \u00fc "hi".',
    input: [],
    tools,
    tool_choice: { type: 'function', name: 'read' },
    temperature: 0.2,
    metadata: { a: 'b' },
    store: false,
    service_tier: 'flex',
    previous_response_id: 'resp_1',
  };
  const echo = echoOf(JSON.stringify(request));
  const { input, model, service_tier: tier, ...repeated } = request;
  t.match(membersOf(JSON.stringify(request)), repeated);
  t.equal(echo.model, model);
  t.equal(echo.serviceTier, JSON.stringify(tier));
  t.notOk('input' in membersOf(JSON.stringify(request)), `${input.length} items are not repeated`);
  t.match(echoOf(' {"temperature": 0.20 ,"model":"m"}').members.toString(), '"temperature":0.20,');
});

test('repeats on one line what a request has on several', async (t) => {
  const request = {
    tools: [{ type: 'function', name: 'read', parameters: { type: 'object' } }],
    text: { verbosity: 'low' },
    metadata: { a: 'b\nc' },
  };
  for (const text of [JSON.stringify(request, null, 2), JSON.stringify(request, null, 2).replaceAll('\n', '\r\n')]) {
    t.notMatch(echoOf(text).members.toString(), /[\r\n]/);
    t.match(membersOf(text), { ...request, text: { ...request.text, format: { type: 'text' } } });
  }
});

test('names the response that is continued where the request does not any more', async (t) => {
  const request = '{"model":"m","metadata":{"a":"b"},"store":false}';
  const echo = new ResponseEcho(Buffer.from(request), null, null, 'resp_"1"');
  t.match(JSON.parse(`{${echo.members.toString()}}`), {
    ...{ metadata: { a: 'b' }, parallel_tool_calls: true, previous_response_id: 'resp_"1"', prompt_cache_key: null },
    store: false,
  });
});

test('adds the format to a text object without one', async (t) => {
  t.strictSame(membersOf('{"text":{}}')['text'], { format: { type: 'text' } });
  t.strictSame(membersOf('{"text":{ "verbosity":"low"}}')['text'], { format: { type: 'text' }, verbosity: 'low' });
  const format = { type: 'json_object' };
  t.strictSame(membersOf(JSON.stringify({ text: { format } }))['text'], { format });
  t.strictSame(membersOf('{"text":"odd"}')['text'], 'odd');
});

test('says which tool of the client a function stands for', async (t) => {
  const custom = { type: 'custom', name: 'apply_patch' } as const;
  const echo = new ResponseEcho(Buffer.from('{}'), new Map([['apply_patch', custom]]));
  t.equal(echo.toolOf('apply_patch'), custom);
  t.strictSame(echo.toolOf('read'), { type: 'function', name: 'read' });
});
