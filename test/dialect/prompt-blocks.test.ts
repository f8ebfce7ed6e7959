// promptBlocks: what counts as the prompt, what does not, and how its blocks are chained.
import * as fc from 'fast-check';
import t from 'tap';
import type { DialectName } from '../../src/dialect/dialect.ts';
import { DIALECTS } from '../../src/dialect/dialects.ts';
import { scanBody } from '../../src/dialect/json-scan.ts';
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
  for (const value of [{}, { prompt: null }, { prompt: '' }, { prompt: [] }]) {
    t.same(chain('completions', value), { bytes: 0, blocks: [] });
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
