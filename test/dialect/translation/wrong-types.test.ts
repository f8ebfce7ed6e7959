// Requests in which one value is of another type than its field: each is refused with the path of the field, or the value reaches the
// server, which refuses it. None becomes another request, and none makes a body that is no JSON.
import t from 'tap';
import { MessagesRequest } from '../../../src/dialect/translation/messages-request.ts';
import { ResponsesRequest } from '../../../src/dialect/translation/responses-request.ts';
import { HeadraceError } from '../../../src/errors.ts';

type Path = readonly (string | number)[];

const MARK = 'of another type';
const VALUES: readonly unknown[] = [987_654_321, MARK, true, { other: MARK }, [MARK], [{ other: MARK }]];

const IMAGE = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } };
const text = (value: string): object => ({ type: 'text', text: value });

const MESSAGES = {
  model: 'm',
  max_tokens: 10,
  system: [text('a'), text('b')],
  stop_sequences: ['a'],
  stream: true,
  thinking: { type: 'enabled', budget_tokens: 2000 },
  output_config: { effort: 'low', format: { type: 'json_schema', schema: { type: 'object' } } },
  metadata: { user_id: 'u' },
  service_tier: 'auto',
  tools: [{ name: 'f', description: 'd', input_schema: { type: 'object' }, strict: true }],
  tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true },
  messages: [
    { role: 'user', content: 'hi' },
    {
      role: 'user',
      content: [
        text('x'),
        IMAGE,
        { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } },
        { type: 'document', title: 'T', context: 'C', source: { type: 'text', media_type: 'text/plain', data: 'D' } },
        { type: 'document', source: { type: 'content', content: 'E' } },
        { type: 'document', source: { type: 'content', content: [text('F')] } },
        { type: 'search_result', title: 'G', source: 'H', content: [text('I')] },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'hm', signature: 's' },
        text('ok'),
        { type: 'tool_use', id: 'i', name: 'f', input: { a: 1 } },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'i', content: [text('res'), IMAGE], is_error: true },
        { type: 'tool_result', tool_use_id: 'j', content: [text('res')] },
        { type: 'tool_result', tool_use_id: 'k', content: 'plain' },
        text('go'),
      ],
    },
  ],
};

const FUNCTION = { type: 'function', name: 'f', description: 'd', parameters: {}, strict: true };
const GRAMMAR = { type: 'grammar', syntax: 'lark', definition: 'start: "x"' };

const RESPONSES = {
  model: 'm',
  instructions: 'a',
  max_output_tokens: 5,
  stream: true,
  include: ['message.output_text.logprobs'],
  top_logprobs: 2,
  reasoning: { effort: 'low' },
  text: { format: { type: 'json_schema', name: 'n', schema: {}, strict: true }, verbosity: 'low' },
  tools: [
    FUNCTION,
    { type: 'custom', name: 'c', description: 'd', format: GRAMMAR },
    { type: 'namespace', name: 'ns', tools: [{ ...FUNCTION, name: 'g' }] },
    { type: 'local_shell' },
    { type: 'tool_search', execution: 'client', description: 'd', parameters: {} },
  ],
  tool_choice: { type: 'function', name: 'g', namespace: 'ns' },
  parallel_tool_calls: false,
  input: [
    { role: 'user', content: 'a' },
    { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'b' }] },
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'c' },
        { type: 'input_image', image_url: 'https://a.example/b.png', detail: 'low' },
        { type: 'input_file', filename: 'f.txt', file_data: 'data:text/plain;base64,aGk=' },
      ],
    },
    { type: 'reasoning', summary: [{ text: 'sum' }] },
    { type: 'reasoning', content: [{ text: 'rt' }] },
    {
      type: 'message',
      role: 'assistant',
      content: [
        { type: 'output_text', text: 'o' },
        { type: 'refusal', refusal: 'no' },
      ],
    },
    { type: 'function_call', call_id: '1', name: 'f', arguments: '{}' },
    { type: 'custom_tool_call', call_id: '2', name: 'c', input: 'i' },
    { type: 'function_call', call_id: '3', name: 'g', namespace: 'ns', arguments: '{}' },
    { type: 'local_shell_call', call_id: '4', action: { command: ['ls'], env: {} } },
    { type: 'tool_search_call', call_id: '5', arguments: { q: 1 } },
    { type: 'function_call_output', call_id: '1', output: 'o' },
    {
      type: 'custom_tool_call_output',
      call_id: '2',
      output: [
        { type: 'input_text', text: 'o' },
        { type: 'input_image', image_url: 'https://a.example/c.png' },
      ],
    },
    { type: 'local_shell_call_output', id: '4', output: 'o' },
    { type: 'tool_search_output', call_id: '5', tools: [{ ...FUNCTION, name: 'h' }] },
  ],
};

/** What no answer depends on. */
const UNREAD = /(?:signature|format\.type|content\.3\.source\.media_type)$/;

const DIALECTS: readonly (readonly [string, object, (body: Buffer) => Buffer])[] = [
  ['messages', MESSAGES, (body) => new MessagesRequest(body).body],
  ['responses', RESPONSES, (body) => new ResponsesRequest(body).body],
];

for (const [dialect, request, translated] of DIALECTS) {
  t.test(`a value of another type in ${dialect} is refused by its path, or reaches the server`, (t) => {
    const usual = translated(Buffer.from(JSON.stringify(request))).toString();
    let refused = 0;
    let sent = 0;
    for (const path of pathsOf(request)) {
      for (const value of VALUES) {
        if (typeOf(at(request, path)) === typeOf(value)) continue;
        const place = `${path.join('.')} = ${JSON.stringify(value)}`;
        const changed = JSON.parse(JSON.stringify(request)) as object;
        const holder = at(changed, path.slice(0, -1)) as Record<string | number, unknown>;
        holder[path.at(-1) as string | number] = value;
        let body: string;
        try {
          body = translated(Buffer.from(JSON.stringify(changed))).toString();
        } catch (error) {
          if (!(error instanceof HeadraceError) || error.code !== 'HR_REQUEST_UNTRANSLATABLE') throw error;
          const [named = ''] = error.subject.split(': ');
          // Named is the value, or another one in its object: what a tool is can depend on two members.
          if (
            !`${named}.`.startsWith(`${path.slice(0, -1).join('.')}.`) &&
            !`${path.join('.')}.`.startsWith(`${named}.`)
          )
            t.fail(`${place}: ${error.subject}`);
          refused++;
          continue;
        }
        if (
          !JSON.stringify(JSON.parse(body)).includes(
            typeof value === 'number' ? String(value) : value === true ? 'true' : MARK,
          )
        ) {
          const isUnread = body === usual && UNREAD.test(path.join('.'));
          if (!isUnread) t.fail(`${place} is lost`);
        }
        sent++;
      }
    }
    t.ok(refused > 100, `${refused} were refused`);
    t.ok(sent > 50, `${sent} were sent`);
    t.end();
  });
}

t.test('a stream is asked for in one way, so that its token counts are', (t) => {
  for (const [dialect, , translated] of DIALECTS) {
    for (const stream of ['true', 1, [], {}]) {
      const body = Buffer.from(JSON.stringify({ model: 'm', stream }));
      t.throws(() => translated(body), /stream: It is neither true nor false/, dialect);
    }
    for (const stream of [false, null]) {
      const body = translated(Buffer.from(JSON.stringify({ model: 'm', stream })));
      t.notOk(body.includes('stream_options'), dialect);
    }
  }
  t.end();
});

function pathsOf(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path];
  const inner = Object.entries(value).flatMap(([key, one]) =>
    pathsOf(one, [...path, Array.isArray(value) ? Number(key) : key]),
  );
  return path.length === 0 ? inner : [path, ...inner];
}

function at(value: unknown, path: Path): unknown {
  return path.reduce((inner, key) => (inner as Record<string | number, unknown>)[key], value);
}

function typeOf(value: unknown): string {
  return Array.isArray(value) ? 'array' : typeof value;
}
