// prefixHash: what changes the key, what does not, and how well it spreads.
import * as fc from 'fast-check';
import t from 'tap';
import { prefixHash } from '../../src/dialect/prefix.ts';
import { scanBody } from '../../src/dialect/json-scan.ts';
import { DIALECTS } from '../../src/dialect/dialects.ts';
import type { DialectName } from '../../src/dialect/dialect.ts';

function hash(dialect: DialectName, value: unknown): number {
  const body = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  const scan = scanBody(body, { requireModel: false });
  if (!scan.ok) throw new Error(JSON.stringify(scan.errors));
  return prefixHash(body, scan, DIALECTS[dialect]);
}

const system = { role: 'system', content: 'Be brief.' };
const developer = { role: 'developer', content: 'Use metric units.' };
const hello = { role: 'user', content: 'Hello' };
const answer = { role: 'assistant', content: 'Hi.' };
const more = { role: 'user', content: 'And now?' };
/** Another value would move every conversation to another CRN when a gateway is upgraded. */
const KNOWN = [1785891924, 3749759630, 2108352374];
const long = 'words and more words '.repeat(500);

t.test('stays the same while a conversation goes on', (t) => {
  for (const [dialect, name] of [
    ['chat-completions', 'messages'],
    ['messages', 'messages'],
    ['responses', 'input'],
  ] as const) {
    for (const opening of [[hello], [system, hello], [system, developer, hello], [{ role: 'user', content: long }]]) {
      const first = hash(dialect, { model: 'm', [name]: opening });
      t.not(first, 0);
      t.equal(hash(dialect, { model: 'm', [name]: [...opening, answer, more], temperature: 1 }), first, dialect);
    }
  }
  t.end();
});

t.test('depends on the system text and the first message of another role', (t) => {
  const chat = (...messages: object[]): number => hash('chat-completions', { messages });
  const keys = [
    chat(hello),
    chat(more),
    chat(system, hello),
    chat(system, more),
    chat(system, developer, hello),
    chat(developer, hello),
    chat(developer, more),
    chat({ ...system, content: long }, hello),
    chat({ ...system, content: long }, more),
    chat({ ...system, content: `${long}x` }, hello),
    chat({ role: 'user', content: `${long}a${long}` }),
    hash('messages', { system: 'Be brief.', messages: [hello] }),
    hash('messages', { system: [{ type: 'text', text: 'Be long.' }], messages: [hello] }),
    hash('responses', { instructions: 'Be brief.', input: 'Hello' }),
    hash('responses', { instructions: 'Be long.', input: 'Hello' }),
    hash('responses', { instructions: 'Be brief.', input: 'Bye' }),
  ];
  t.equal(new Set(keys).size, keys.length);
  t.equal(
    hash('chat-completions', '{"messages":[{"content":"Be brief.","role":"syst\\u0065m"},{"a":1},{"b":2}]}'),
    hash('chat-completions', '{"messages":[{"content":"Be brief.","role":"syst\\u0065m"},{"a":1}]}'),
    'roles with escapes',
  );
  t.end();
});

t.test('depends on text, not on the form in which a client writes it', (t) => {
  const parts = (...texts: string[]): object[] => texts.map((text) => ({ type: 'text', text }));
  for (const text of ['Hello', 'x'.repeat(150), 'caf\u00e9 "quoted"\n', long]) {
    const plain = { messages: [system, { role: 'user', content: text }] };
    const key = hash('messages', plain);
    const same: unknown[] = [
      JSON.stringify(plain, null, 2),
      { messages: [system, { content: text, role: 'user' }] },
      {
        messages: [
          { role: 'system', content: parts('Be brief.') },
          { role: 'user', content: parts(text) },
        ],
      },
      { messages: [system, { role: 'user', content: [{ text, type: 'input_text', annotations: [] }], name: 'a' }] },
    ];
    for (const value of same) t.equal(hash('messages', value), key, JSON.stringify(value).slice(0, 100));
    const systems = [text, parts(text), [{ cache_control: { type: 'ephemeral' }, type: 'text', text }]];
    t.equal(new Set(systems.map((value) => hash('messages', { system: value, messages: [hello] }))).size, 1);
    t.not(hash('messages', { messages: [system, { role: 'user', content: parts(text, text) }] }), key);
  }
  t.end();
});

t.test('depends on every image, call and result that has no text of its own', (t) => {
  const image = (url: string, extra: object = {}): object => ({ type: 'image_url', image_url: { url, ...extra } });
  const result = (text: string, extra: object = {}): object => ({
    type: 'tool_result',
    content: [{ type: 'text', text, ...extra }],
  });
  const first = (...parts: unknown[]): number => hash('messages', { messages: [{ role: 'user', content: parts }] });
  const keys = [
    first(image('http://a/1.png')),
    first(image('http://a/2.png')),
    first(image('http://a/1.png', { detail: 'low' })),
    first(image('http://a/1.png'), image('http://a/2.png')),
    first(result('one')),
    first(result('two')),
    first('text'),
    first(1),
    hash('responses', { input: [{ type: 'function_call', name: 'a', arguments: '{}' }] }),
    hash('responses', { input: [{ type: 'function_call', name: 'b', arguments: '{}' }] }),
  ];
  t.equal(new Set(keys).size, keys.length);
  t.equal(first(result('one', { cache_control: { type: 'ephemeral' } })), keys[4], 'marks inside a result');
  t.equal(
    new Set([first(...Array.from({ length: 300 }, () => 1)), first(...Array.from({ length: 301 }, () => 1))]).size,
    1,
  );
  t.end();
});

t.test('ignores cache marks wherever a client may put them', (t) => {
  const TEXT = fc.oneof(
    fc.string(),
    fc.nat(3000).map((length) => 'words '.repeat(length / 6 + 1).slice(0, length)),
  );
  const PART = fc.oneof(
    TEXT.map((text) => ({ type: 'text', text })),
    TEXT.map((url) => ({ type: 'image', source: { type: 'url', url } })),
    TEXT.map((text) => ({ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text }] })),
  );
  const CONTENT = fc.array(PART, { minLength: 1, maxLength: 4 });
  const MARK = fc.constantFrom({ type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }, null);
  /** The objects of a value that may carry a mark: parts, at every level. */
  const marked = (value: unknown, marks: readonly [number, object | null][], at = { next: 0 }): unknown => {
    if (Array.isArray(value)) return value.map((item) => marked(item, marks, at));
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).map(([name, inner]): [string, unknown] => [name, marked(inner, marks, at)]);
    const mark = 'type' in value && 'content' in value === false ? marks[at.next++] : undefined;
    if (mark !== undefined && mark[0] >= 0)
      entries.splice(mark[0] % (entries.length + 1), 0, ['cache_control', mark[1]]);
    return Object.fromEntries(entries);
  };
  fc.assert(
    fc.property(
      fc.option(CONTENT, { nil: undefined }),
      CONTENT,
      fc.array(fc.tuple(fc.integer({ min: -1, max: 5 }), MARK), { maxLength: 12 }),
      fc.boolean(),
      (systemParts, content, marks, isIndented) => {
        const plain = { system: systemParts, messages: [{ role: 'user', content }, answer] };
        const body = marked(plain, marks);
        return hash('messages', JSON.stringify(body, null, isIndented ? 1 : 0)) === hash('messages', plain);
      },
    ),
    { numRuns: 500 },
  );
  t.end();
});

t.test('tells conversations apart that share a preamble', (t) => {
  const preamble = 'You answer questions about the rules of a game. '.repeat(60);
  const questions = Array.from({ length: 200 }, (_, n) => `Question ${n}: what happens on field ${n * 7}?`);
  const chats = questions.map((content) =>
    hash('chat-completions', {
      messages: [
        { role: 'system', content: preamble },
        { role: 'user', content },
      ],
    }),
  );
  t.equal(new Set(chats).size, questions.length);
  // One message, and prompts that are twice as long as the preamble.
  for (const [dialect, name] of [
    ['completions', 'prompt'],
    ['llama', 'prompt'],
    ['responses', 'input'],
  ] as const) {
    const texts = questions.map((question) => preamble + question.repeat(100));
    t.equal(new Set(texts.map((text) => hash(dialect, { [name]: text }))).size, questions.length, dialect);
  }
  const messages = questions.map((question) => ({ role: 'user', content: preamble + question }));
  t.equal(new Set(messages.map((one) => hash('chat-completions', { messages: [one] }))).size, questions.length);
  t.end();
});

t.test('a growing prompt keeps its key until its length passes a power of two', (t) => {
  const text = 'Once upon a time there was '.repeat(2000);
  for (const [dialect, name] of [
    ['completions', 'prompt'],
    ['llama', 'prompt'],
    ['responses', 'input'],
  ] as const) {
    const key = (length: number): number => hash(dialect, { [name]: text.slice(0, length) });
    const keys = new Map<number, number[]>();
    for (let length = 256; length < 40_000; length += 97)
      keys.set(key(length), [...(keys.get(key(length)) ?? []), length]);
    const ranges = [...keys.values()].map((lengths) => Math.floor(Math.log2(lengths[0] as number)));
    t.same(ranges, [8, 9, 10, 11, 12, 13, 14], dialect);
    t.not(key(20), key(21), 'a short text is hashed whole');
    if (name === 'prompt')
      t.equal(hash(dialect, { prompt: [text.slice(0, 300), 'x'] }), key(300), 'the first of a list');
    t.not(hash(dialect, { [name]: `The ${text}` }), key(text.length));
  }
  t.not(hash('completions', { prompt: [1, 2, 3] }), hash('completions', { prompt: [1, 2, 4] }));
  t.end();
});

t.test('is 0 without a conversation', (t) => {
  t.equal(hash('chat-completions', { model: 'm', prompt: 'for another dialect' }), 0);
  t.equal(hash('chat-completions', { messages: [] }), 0);
  t.equal(hash('completions', { prompt: '' }), 0);
  t.equal(hash('completions', { prompt: null }), 0);
  const body = Buffer.from('{"model":"m","input":"embed me"}');
  const scan = scanBody(body);
  t.equal(scan.ok && prefixHash(body, scan, undefined), 0, 'a path without a dialect');
  t.end();
});

t.test('has known values', (t) => {
  t.same(
    [
      hash('completions', { prompt: 'Hello, world' }),
      hash('completions', { prompt: long }),
      hash('messages', { system: long, messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }] }),
    ],
    KNOWN,
  );
  t.end();
});

t.test('one changed character flips half of the bits', (t) => {
  const rounds = 2000;
  let flipped = 0;
  for (let n = 0; n < rounds; n++) {
    const one = hash('chat-completions', { messages: [{ role: 'user', content: `Question ${n}` }] });
    const two = hash('chat-completions', { messages: [{ role: 'user', content: `Question ${n + 1}` }] });
    for (let bits = (one ^ two) >>> 0; bits !== 0; bits &= bits - 1) flipped++;
  }
  t.ok(Math.abs(flipped / rounds - 16) < 0.5, `${flipped / rounds} of 32 bits`);
  t.end();
});
