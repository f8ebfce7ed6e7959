// promptBlocks: what counts as the prompt, what does not, and how its blocks are chained.
import * as fc from 'fast-check';
import t from 'tap';
import type { DialectName } from '../../src/dialect/dialect.ts';
import { DIALECTS } from '../../src/dialect/dialects.ts';
import { scanBody, type ScannedBody } from '../../src/dialect/body-scan.ts';
import { blockBytes as bytesInIndex } from '../../src/routing/block-index.ts';
import { CLIENT_SESSIONS } from './client-requests.ts';
import { randomFrom, randomMessage, randomText, writeVariant } from './prompt-variants.ts';
import { blockBytes, promptBlocks } from '../../src/dialect/index.ts';

interface Chain {
  readonly bytes: number;
  readonly blocks: readonly string[];
}

function chain(dialect: DialectName, value: unknown, seed = 1): Chain {
  const body = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  const scan = scanBody(body, { requireModel: false, maxDepth: 100_000 });
  if (!scan.ok) throw new Error(JSON.stringify(scan.errors));
  const { bytes, count, hashes } = promptBlocks(body, scan, DIALECTS[dialect], seed);
  const blocks = Array.from({ length: count }, (_, at) => `${hashes[2 * at]}:${hashes[2 * at + 1]}`);
  return { bytes, blocks };
}

const long = 'words and more words '.repeat(500);
const system = { role: 'system', content: long };
const hello = { role: 'user', content: `Hello ${long}` };
const answer = { role: 'assistant', content: `Hi. ${long}` };
const more = { role: 'user', content: `And now? ${long}` };

t.test('cuts the prompt into blocks of 512 bytes, and of 2 KiB beyond 64 KiB, up to 1 MiB', (t) => {
  t.same([0, 1, 128, 129, 608].map(blockBytes), [0, 512, 65_536, 67_584, 1_048_576]);
  for (const bytes of [0, 511, 512, 65_535, 65_536, 67_583, 67_584, 1_048_575, 1_048_576, 2_000_000]) {
    const { blocks, bytes: counted } = chain('completions', { prompt: 'x'.repeat(bytes) });
    t.equal(counted, bytes);
    t.ok(blockBytes(blocks.length) <= bytes);
    t.ok(blocks.length === 608 || blockBytes(blocks.length + 1) > bytes);
    t.equal(new Set(blocks).size, blocks.length);
  }
  t.end();
});

t.test('the index of blocks takes them for as long as they are', (t) => {
  for (let count = 0; count <= 608; count++) t.equal(bytesInIndex(count), blockBytes(count));
  t.end();
});

t.test('a growing conversation keeps all of its whole blocks', (t) => {
  for (const [dialect, name] of [
    ['chat-completions', 'messages'],
    ['messages', 'messages'],
    ['responses', 'input'],
  ] as const) {
    const first = chain(dialect, { model: 'm', [name]: [system, hello] });
    const second = chain(dialect, { model: 'm', [name]: [system, hello, answer, more], temperature: 1 });
    t.same(second.blocks.slice(0, first.blocks.length), first.blocks);
    t.ok(second.blocks.length > first.blocks.length + 20);
  }
  t.end();
});

t.test('follows the order of templates, not of the body', (t) => {
  const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }];
  const same = [
    chain('messages', { tools, system: long, messages: [hello] }),
    chain('messages', { messages: [hello], tools, system: long }),
    chain('messages', { system: [{ type: 'text', text: long }], messages: [hello], tools }),
    chain('messages', JSON.stringify({ system: long, messages: [hello], tools }, null, 2)),
    chain('messages', {
      tools: [{ ...tools[0], cache_control: { type: 'ephemeral' } }],
      system: [{ type: 'text', text: long, cache_control: { type: 'ephemeral' } }],
      messages: [{ content: [{ text: hello.content, type: 'text', cache_control: null }], role: 'user' }],
    }),
    chain('messages', {
      tools,
      system: [
        { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch=abc12;' },
        { type: 'text', text: long },
      ],
      messages: [hello],
    }),
    chain('messages', {
      tools,
      system: `x-anthropic-billing-header: cc_version=2.1; cch=def34;\n\n${long}`,
      messages: [hello],
    }),
  ];
  for (const one of same) t.same(one, same[0]);
  t.not(chain('messages', { system: long, messages: [hello] }).blocks[0], same[0]?.blocks[0]);
  t.not(chain('messages', { tools, system: long, messages: [hello] }, 2).blocks[0], same[0]?.blocks[0]);
  t.end();
});

t.test('reads escapes as the characters that they stand for', (t) => {
  const text = 'A"\\/\b\f\n\r\t\u0001\u007f\u00e9\u4e2d\u{1f600}\ud800x\udc00\ud83d\ud83d\ude00'.repeat(40);
  const escaped = [...text].flatMap((char) => {
    const units = Array.from({ length: char.length }, (_, at) => char.charCodeAt(at).toString(16).padStart(4, '0'));
    return units.map((unit) => `\\u${unit}`);
  });
  const plain = chain('completions', { prompt: text });
  t.same(chain('completions', `{"prompt":"${escaped.join('')}"}`), plain);
  t.same(chain('completions', `{"prompt":"${escaped.join('').toUpperCase().replaceAll('\\U', '\\u')}"}`), plain);
  t.same(chain('completions', JSON.stringify({ prompt: text }).replaceAll('/', '\\/')), plain);
  t.ok(plain.blocks.length > 1);
  t.end();
});

t.test('has no blocks without a dialect or a prompt', (t) => {
  const body = Buffer.from('{"model":"m","input":"embed me"}');
  const scan = scanBody(body);
  if (!scan.ok) return t.fail();
  t.match(promptBlocks(body, scan, undefined, 1), { count: 0, bytes: 0 });
  for (const value of [{}, { prompt: null }, { prompt: '' }, { prompt: [] }, { messages: [] }, { input: null }]) {
    for (const dialect of Object.keys(DIALECTS) as DialectName[]) {
      t.same(chain(dialect, value), { bytes: 0, blocks: [] });
    }
  }
  return t.end();
});

t.test('accepts any JSON', (t) => {
  const KEY = fc.constantFrom(
    ...['role', 'content', 'text', 'type', 'id', 'tool_calls', 'function', 'name', 'arguments', 'image_url', 'url'],
    ...['source', 'data', 'input', 'output', 'prompt_string', 'multimodal_data', 'cache_control', 'thinking', 'x'],
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', maxDepth: 6 },
      fc.oneof(fc.string(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom(null, true, 'data:a')),
      fc.array(tie('value')),
      fc.dictionary(KEY, tie('value')),
    ),
  }));
  const BODY = fc.dictionary(
    fc.constantFrom('messages', 'input', 'prompt', 'system', 'tools', 'instructions', 'functions', 'image_data'),
    value,
  );
  const DIALECT = fc.constantFrom(...(Object.keys(DIALECTS) as DialectName[]));
  fc.assert(
    fc.property(DIALECT, BODY, fc.nat(3), (dialect, body, indent) => {
      const compact = JSON.stringify(chain(dialect, body));
      return JSON.stringify(chain(dialect, JSON.stringify(body, null, indent))) === compact;
    }),
    { numRuns: 1000 },
  );
  t.end();
});

t.test('10,000 random conversations have the same blocks in whichever way they are written', (t) => {
  for (let round = 0; round < 10_000; round++) {
    const random = randomFrom(round);
    const body = {
      model: 'm',
      tools: random(2) === 0 ? undefined : [{ type: 'function', function: { name: randomText(random, 300) } }],
      system: random(4) === 0 ? randomText(random, 2000) : undefined,
      messages: Array.from({ length: random(6) }, () => randomMessage(random)),
      temperature: 1,
    };
    const first = chain('chat-completions', body);
    const second = chain('chat-completions', writeVariant(body, random));
    if (JSON.stringify(first) !== JSON.stringify(second)) return t.same(second, first, `round ${round}`);
  }
  return t.end();
});

t.test('a changed character changes the blocks from its own on, and no others', (t) => {
  for (let round = 0; round < 1000; round++) {
    const random = randomFrom(round);
    const messages = Array.from({ length: 1 + random(8) }, () => randomMessage(random));
    const at = random(messages.length);
    const text = randomText(random, 3000);
    const cut = random(text.length + 1);
    const request = (content: string, rest: readonly object[]): object => ({
      messages: [...messages.slice(0, at), { role: 'user', content }, ...rest],
    });
    const place = chain('chat-completions', request(text.slice(0, cut), [])).bytes;
    const one = chain('chat-completions', request(`${text.slice(0, cut)}1${text.slice(cut)}`, messages.slice(at)));
    const two = chain('chat-completions', request(`${text.slice(0, cut)}2${text.slice(cut)}`, messages.slice(at)));
    t.equal(one.bytes, two.bytes);
    let same = 0;
    while (same < one.blocks.length && one.blocks[same] === two.blocks[same]) same++;
    // Half of a surrogate pair, at the end of a text that is cut between both, takes two bytes more than the pair's half.
    const isBetween = cut > 0 && cut < text.length && /[\ud800-\udbff]/.test(text[cut - 1] as string);
    if (!isBetween) {
      t.ok(blockBytes(same) <= place || same === one.blocks.length);
      t.ok(same === one.blocks.length || blockBytes(same + 1) > place, `round ${round}`);
    }
    t.notOk(one.blocks.some((block, later) => later >= same && block === two.blocks[later]));
  }
  t.end();
});

t.test('10,000 growing conversations keep their whole blocks', (t) => {
  for (let round = 0; round < 10_000; round++) {
    const random = randomFrom(round);
    const messages = Array.from({ length: 1 + random(4) }, () => randomMessage(random));
    const before = chain('chat-completions', { messages }).blocks;
    const after = chain('chat-completions', { messages: [...messages, randomMessage(random)] }).blocks;
    if (before.some((block, at) => block !== after[at])) return t.fail(`round ${round}`);
  }
  return t.end();
});

/** Long enough that what follows it is in another block, short enough that what precedes it matters. */
const pad = 'y'.repeat(600);
const user = (content: unknown): object => ({
  messages: [
    { role: 'user', content },
    { role: 'user', content: pad },
  ],
});
const item = (...items: unknown[]): object => ({ input: [...items, { role: 'user', content: pad }] });
const part = (value: object): object => user([{ type: 'text', text: 'See' }, value]);
const image = (url: string, more: object = {}): object => part({ type: 'image_url', image_url: { url, ...more } });
const source = (value: object): object => part({ type: 'image', source: { type: 'base64', ...value } });
const call = (more: object): object => ({
  messages: [
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' }, ...more }],
    },
    { role: 'user', content: pad },
  ],
});
const base64 = Buffer.from(long).toString('base64');

const EQUAL: readonly (readonly [dialect: DialectName, why: string, ...bodies: unknown[]])[] = [
  [
    'chat-completions',
    'sampling',
    user('a'),
    { ...user('a'), temperature: 1, stream: true, n: 2, max_tokens: 5, user: 'u' },
  ],
  ['chat-completions', 'a text and a list with one text', user('a'), user([{ type: 'text', text: 'a' }]), user(['a'])],
  [
    'chat-completions',
    'null and empty members',
    user('a'),
    {
      messages: [
        { role: 'user', content: 'a', tool_calls: null, refusal: null, name: '', function_call: null, annotations: [] },
        { role: 'user', content: pad, tool_calls: [] },
      ],
    },
  ],
  [
    'chat-completions',
    'base64 with escaped slashes',
    image(`data:image/png;base64,${base64}`),
    JSON.stringify(image(`data:image/png;base64,${base64}`)).replaceAll('/', '\\/'),
  ],
  [
    'chat-completions',
    'the type of an image',
    image(`data:image/png;base64,${base64}`),
    image(`data:image/jpeg;base64,${base64}`),
  ],
  ['chat-completions', 'index of a call', call({}), call({ index: 0 })],
  ['chat-completions', 'empty tools', { ...user('a'), tools: [] }, { ...user('a'), functions: null }, user('a')],
  [
    'messages',
    'signatures',
    user([{ type: 'thinking', thinking: 'Hm', signature: 'a' }]),
    user([{ type: 'thinking', thinking: 'Hm', signature: 'b' }]),
  ],
  [
    'messages',
    'thinking that nobody can read',
    user([
      { type: 'redacted_thinking', data: 'a' },
      { type: 'text', text: 'a' },
    ]),
    user('a'),
  ],
  [
    'messages',
    'order in a source',
    source({ media_type: 'image/png', data: base64 }),
    source({ data: base64, media_type: 'image/png' }),
  ],
  [
    'messages',
    'cache marks in results of tools',
    user([{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'b' }] }]),
    user([{ type: 'tool_result', tool_use_id: 'a', content: 'b', cache_control: { type: 'ephemeral' } }]),
    user([{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'b', cache_control: null }] }]),
  ],
  [
    'messages',
    'cache marks of tools',
    { ...user('a'), tools: [{ name: 'f', input_schema: {} }, { name: 'g' }] },
    {
      ...user('a'),
      tools: [{ cache_control: { type: 'ephemeral', ttl: '1h' }, name: 'f', input_schema: {} }, { name: 'g' }],
    },
    {
      ...user('a'),
      tools: [
        { name: 'f', cache_control: [1, { a: ',}"' }], input_schema: {} },
        { name: 'g', cache_control: null },
      ],
    },
    `{"tools":[ {"name" : "f","cache\\u005fcontrol":{"type":"a"},"input_schema":{ } },{"cache_control":1,"name":"g"}],${JSON.stringify(user('a')).slice(1)}`,
  ],
  [
    'responses',
    'ids and states of items',
    item(
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: 'x' },
    ),
    item(
      { type: 'function_call', id: 'fc_1', status: 'completed', call_id: 'c', name: 'f', arguments: '{}' },
      { type: 'function_call_output', id: 'fco_2', call_id: 'c', output: [{ type: 'input_text', text: 'x' }] },
    ),
  ],
  ['responses', 'a text and the message of a user', { input: long }, { input: [{ role: 'user', content: long }] }],
  [
    'responses',
    'messages with and without a type',
    item({ role: 'user', content: 'a' }),
    item({ type: 'message', id: 'msg_1', role: 'user', content: [{ type: 'input_text', text: 'a' }] }),
  ],
  [
    'responses',
    'what is encrypted',
    item({ type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Hm' }], encrypted_content: 'a' }),
    item({ type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Hm' }], encrypted_content: 'b' }),
  ],
  ['completions', 'one prompt and a list of one', { prompt: long }, { prompt: [long] }],
  [
    'completions',
    'tokens however they are written',
    { prompt: [1, 20, 300, 70_000] },
    '{"prompt" : [ 1,20 ,\\n300, 7e4]}'.replaceAll('\\n', '\n'),
    { prompt: [[1, 20, 300, 70_000]] },
  ],
  [
    'llama',
    'a prompt with and without attachments',
    { prompt: long },
    { prompt: { prompt_string: long } },
    { prompt: { multimodal_data: [], prompt_string: long } },
  ],
];

const DIFFERENT: readonly (readonly [dialect: DialectName, why: string, ...bodies: unknown[]])[] = [
  [
    'chat-completions',
    'roles and names',
    user('a'),
    {
      messages: [
        { role: 'system', content: 'a' },
        { role: 'user', content: pad },
      ],
    },
    {
      messages: [
        { role: 'user', name: 'ann', content: 'a' },
        { role: 'user', content: pad },
      ],
    },
  ],
  ['chat-completions', 'parts', user('ab'), user(['a', 'b']), user(['ab', 'c'])],
  [
    'chat-completions',
    'calls',
    call({}),
    call({ id: 'b' }),
    call({ function: { name: 'g', arguments: '{}' } }),
    call({ function: { name: 'f', arguments: '{"a":1}' } }),
    call({ function: { name: 'f', arguments: { a: 1 } } }),
  ],
  [
    'chat-completions',
    'images',
    image('http://a/1.png'),
    image('http://a/2.png'),
    image('http://a/1.png', { detail: 'low' }),
    image(`data:image/png;base64,${base64}`),
    image(`data:image/png;base64,${base64.slice(4)}`),
    image(`data:image/png;base64,${base64.slice(0, -4)}`),
  ],
  [
    'chat-completions',
    'sounds and files',
    part({ type: 'input_audio', input_audio: { data: base64, format: 'wav' } }),
    part({ type: 'input_audio', input_audio: { data: base64.slice(8), format: 'wav' } }),
    part({ type: 'file', file: { file_id: 'f1' } }),
    part({ type: 'file', file: { file_id: 'f2' } }),
    part({ type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${base64}` } }),
    part({ type: 'file', file: { filename: 'b.pdf', file_data: `data:application/pdf;base64,${base64}` } }),
  ],
  [
    'chat-completions',
    'reasoning',
    {
      messages: [
        { role: 'assistant', content: 'a' },
        { role: 'user', content: pad },
      ],
    },
    {
      messages: [
        { role: 'assistant', reasoning_content: 'Hm', content: 'a' },
        { role: 'user', content: pad },
      ],
    },
  ],
  [
    'chat-completions',
    'salts, adapters and templates',
    user('a'),
    ...[
      { cache_salt: 'a' },
      { cache_salt: 'b' },
      { lora: [{ id: 1, scale: 1 }] },
      { lora_path: 'a' },
      { chat_template: 'x' },
      { chat_template_kwargs: { enable_thinking: false } },
      { reasoning_effort: 'low' },
    ].map((more) => ({ ...user('a'), ...more })),
  ],
  [
    'chat-completions',
    'tools',
    user('a'),
    ...[
      { tools: [{ name: 'f' }] },
      { tools: [{ name: 'g' }] },
      { functions: [{ name: 'f' }, 1] },
      { tools: [{ name: 'f', parameters: { cache_control: 1 } }] },
      { tools: [{ name: 'cache_control' }] },
      { tools: [['f', 'cache_control', 1], { a: 1 }] },
    ].map((more) => ({ ...user('a'), ...more })),
  ],
  [
    'messages',
    'results of tools',
    user([{ type: 'tool_result', tool_use_id: 'a', content: 'b' }]),
    user([{ type: 'tool_result', tool_use_id: 'b', content: 'b' }]),
    user([{ type: 'tool_result', tool_use_id: 'a', content: 'c' }]),
    user([{ type: 'tool_result', tool_use_id: 'a', content: 'b', is_error: true }]),
  ],
  [
    'messages',
    'uses of tools',
    user([{ type: 'tool_use', id: 'a', name: 'f', input: {} }]),
    user([{ type: 'tool_use', id: 'b', name: 'f', input: {} }]),
    user([{ type: 'tool_use', id: 'a', name: 'f', input: { cache_control: 1 } }]),
    user([{ type: 'tool_use', id: 'a', name: 'f', input: { a: 1 } }]),
  ],
  [
    'messages',
    'images and documents',
    source({ data: base64 }),
    source({ data: base64.slice(8) }),
    part({ type: 'image', source: { type: 'url', url: 'http://a/1' } }),
    part({ type: 'image', source: { type: 'file', file_id: 'f' } }),
    part({ type: 'document', source: { type: 'text', media_type: 'text/plain', data: long } }),
    part({ type: 'document', title: 'T', source: { type: 'text', media_type: 'text/plain', data: long } }),
  ],
  [
    'messages',
    'thinking',
    user([{ type: 'thinking', thinking: 'Hm', signature: 'a' }]),
    user([{ type: 'thinking', thinking: 'Ah', signature: 'a' }]),
    user([{ type: 'text', text: 'Hm' }]),
  ],
  [
    'responses',
    'items',
    item(),
    item('a'),
    item({ type: 'item_reference', id: 'a' }),
    item({ type: 'item_reference', id: 'b' }),
    item({ type: 'reasoning', summary: [{ type: 'summary_text', text: 'a' }] }),
    item({ type: 'custom_tool_call', call_id: 'a', name: 'f', input: 'x' }),
    item({ type: 'custom_tool_call_output', call_id: 'a', output: 'x' }),
    item({ type: 'local_shell_call', call_id: 'a', action: { command: ['ls'] } }),
    item({ type: 'unknown', value: 1 }),
    item({ type: 'unknown', value: 2 }),
  ],
  [
    'responses',
    'instructions and effort',
    { input: long },
    { input: long, instructions: 'a' },
    { input: long, instructions: 'b' },
    { input: long, reasoning: { effort: 'low' } },
    { input: `a${long}` },
  ],
  [
    'completions',
    'tokens and texts',
    { prompt: Array.from({ length: 200 }, (_, n) => n) },
    { prompt: Array.from({ length: 200 }, (_, n) => n + 1) },
    { prompt: Array.from({ length: 200 }, (_, n) => [n]) },
    { prompt: Array.from({ length: 200 }, (_, n) => n + 0.5 + 2 ** 31) },
    { prompt: [1, long] },
    { prompt: [long, 1] },
  ],
  [
    'llama',
    'parts of a prompt',
    { prompt: long },
    { prompt: { prompt_string: long, multimodal_data: [base64] } },
    { prompt: `[img-1]${long}` },
    { prompt: [1, 2, long] },
    { prompt: long, system_prompt: 'a' },
    { prompt: long, system_prompt: { prompt: 'a' } },
    { input_prefix: long, input_suffix: 'a' },
    { input_suffix: long, input_prefix: 'a' },
    { input_extra: [{ filename: 'a', text: 'b' }], input_prefix: long, input_suffix: 'a' },
  ],
];

t.test('what is no part of the prompt does not change it', (t) => {
  for (const [dialect, why, ...bodies] of EQUAL) {
    const chains = bodies.map((body) => chain(dialect, body));
    for (const one of chains) t.same(one, chains[0], `${dialect}: ${why}`);
    t.ok((chains[0] as Chain).bytes > 0);
  }
  t.end();
});

t.test('what is a part of the prompt changes it', (t) => {
  for (const [dialect, why, ...bodies] of DIFFERENT) {
    const chains = bodies.map((body) => chain(dialect, body));
    const last = chains.map(({ blocks }) => blocks.at(-1));
    t.equal(new Set(last).size, bodies.length, `${dialect}: ${why}`);
    t.notOk(last.includes(undefined));
  }
  t.end();
});

t.test('an image costs 4 KiB whatever its size, and a long list of attachments stays linear', (t) => {
  const sizes = [10, 1000, 1_000_000].map(
    (size) => chain('chat-completions', image(`data:image/png;base64,${'A'.repeat(size)}`)).bytes,
  );
  t.same(new Set(sizes).size, 1);
  const made = (size: number): number =>
    chain('responses', item({ type: 'image_generation_call', result: 'A'.repeat(size) })).bytes;
  t.equal(made(1000), made(100_000));
  const images = (count: number): number => {
    const list = Array.from({ length: count }, () => base64);
    return chain('chat-completions', { messages: [{ role: 'user', content: 'See', images: list }] }).bytes;
  };
  t.equal(images(3) - images(2), 4097);
  t.equal((sizes[0] as number) - chain('chat-completions', part({})).bytes > 4000, true);
  const { bytes } = chain('llama', {
    prompt: 'x',
    image_data: Array.from({ length: 200 }, (_, id) => ({ data: base64, id })),
  });
  t.ok(bytes > 200 * 4096 && bytes < 200 * 4200, String(bytes));
  const many = JSON.stringify(part({})).replace('{}', `{${'"url":"a",'.repeat(100_000)}"url":"b"}`);
  t.ok(chain('chat-completions', many).bytes < 2 ** 20 + many.length, 'tiny attachments');
  t.end();
});

t.test('only so many values are read one by one', (t) => {
  const parts = (count: number): string => `{"messages":[{"role":"user","content":[${'{},'.repeat(count)}{}]}]}`;
  t.ok(chain('chat-completions', parts(262_000)).blocks.length > 0);
  const empty = parts(999_999);
  const { bytes, blocks } = chain('chat-completions', empty);
  t.ok(bytes >= empty.length - 200_000 && bytes < 2 * empty.length);
  t.strictSame(blocks, []);
  const roles = `{"role":"user","content":"${long}",${'"role":"user",'.repeat(10_000)}"name":"a"}`;
  t.ok(chain('chat-completions', `{"messages":[${roles}]}`).bytes > 10_000 * 4);
  const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
  t.equal(chain('chat-completions', `{"messages":[{"role":"user","content":${deep}}]}`).bytes > 100_000, true);
  // Each of these is searched for something that is not there: nothing may be searched to the end of the body.
  const lines = `{"messages":[{"role":"system","content":[${'"x-anthropic-billing-header:",'.repeat(60_000)}"y"]}]}`;
  t.ok(chain('chat-completions', lines).bytes < 100);
  const keys = `{"prompt":{${'"a_long_name_of_a_key":1,'.repeat(130_000)}"prompt_string":"${long}"}}`;
  t.equal(chain('llama', keys).bytes, long.length);
  const nested = `${'{"content":'.repeat(30_000)}1${'}'.repeat(30_000)}`;
  t.ok(chain('chat-completions', `{"messages":[${nested}]}`).bytes > 100_000);
  t.end();
});

t.test('the requests of clients keep the blocks of the turns before', (t) => {
  for (const { client, dialect, request } of CLIENT_SESSIONS) {
    let before: Chain = { bytes: 0, blocks: [] };
    for (let turn = 1; turn <= 8; turn++) {
      const now = chain(dialect, request(turn));
      t.same(now.blocks.slice(0, before.blocks.length), before.blocks, `${client}, turn ${turn}`);
      t.ok(now.bytes > before.bytes);
      before = now;
    }
    t.ok(before.blocks.length > 20);
    // What JSON.stringify makes of it is the same prompt.
    t.same(chain(dialect, JSON.stringify(JSON.parse(request(5)), null, 1)), chain(dialect, request(5)), client);
  }
  t.end();
});

t.test('a billing line does not count wherever a proxy has put it', (t) => {
  const line = 'x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch=0a1b2;';
  const plain = chain('chat-completions', { messages: [system, hello] });
  for (const first of [
    { role: 'system', content: `${line}\n${long}` },
    { role: 'system', content: `${line}\n\n${long}` },
    {
      role: 'system',
      content: [
        { type: 'text', text: line },
        { type: 'text', text: long },
      ],
    },
    { role: 'system', content: [line, long] },
  ]) {
    t.same(chain('chat-completions', { messages: [first, hello] }), plain);
  }
  t.not(
    chain('chat-completions', { messages: [{ role: 'system', content: `${line} ${long}` }, hello] }).bytes,
    plain.bytes,
  );
  t.not(
    chain('chat-completions', { messages: [{ role: 'system', content: `See ${line}\n${long}` }, hello] }).bytes,
    plain.bytes,
  );
  const cut = `{"messages":[{"role":"system","content":"${line}\\n${'x'.repeat(1_100_000)}\\"\\u0041"},{"role":"user","content":"y"}]}`;
  t.equal(chain('chat-completions', cut).blocks.length, 608);
  t.end();
});

t.test('mutated requests of clients never throw, and have the same blocks when they are read again', (t) => {
  const random = randomFrom(1);
  const bodies = CLIENT_SESSIONS.flatMap(({ request }) => [1, 2, 3].map((turn) => Buffer.from(request(turn))));
  const dialects = Object.values(DIALECTS);
  const read = (body: Buffer, scan: ScannedBody): string => {
    return dialects
      .map((dialect) => {
        const { bytes, count, hashes } = promptBlocks(body, scan, dialect, 1);
        return [bytes, count, ...hashes.subarray(0, 2 * count)].join();
      })
      .join('\n');
  };
  let accepted = 0;
  for (let round = 0; round < 20_000; round++) {
    const body = Buffer.from(bodies[random(bodies.length)] as Buffer);
    const other = bodies[random(bodies.length)] as Buffer;
    for (let times = 1 + random(3); times > 0; times--) {
      const at = random(body.length);
      // A byte, or a piece of another body: brackets, quotes and keys at places where they do not belong.
      if (random(2) === 0) body[at] = '{}[]",:\\u0/n1tf \n'.charCodeAt(random(17));
      else other.copy(body, at, random(other.length), other.length);
    }
    const scan = scanBody(body, { requireModel: false });
    if (!scan.ok) continue;
    accepted++;
    const first = read(body, scan);
    if (read(body, scan) !== first) return t.fail(body.toString());
  }
  t.ok(accepted > 3000, String(accepted));
  return t.end();
});
