// prefixHash: what changes the key, what does not, and how well it spreads.
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
const KNOWN = 3922668154;
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
    hash('messages', { system: [{ type: 'text', text: 'Be brief.' }], messages: [hello] }),
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

t.test('ignores cache marks that move to newer messages', (t) => {
  const turn = (text: string, mark: object): object => ({ role: 'user', content: [{ type: 'text', text, ...mark }] });
  for (const mark of [{ type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }]) {
    for (const text of ['Hello', 'x'.repeat(1000), 'x'.repeat(1990), 'x'.repeat(2030), long]) {
      const marked = hash('messages', { messages: [turn(text, { cache_control: mark })] });
      const later = hash('messages', { messages: [turn(text, {}), answer, turn('So?', { cache_control: mark })] });
      t.equal(marked, later, `${text.length} characters`);
    }
  }
  t.end();
});

t.test('depends on the first 256 bytes of a growing text', (t) => {
  const start = 'Once upon a time '.repeat(20);
  for (const [dialect, name] of [
    ['completions', 'prompt'],
    ['llama', 'prompt'],
    ['responses', 'input'],
  ] as const) {
    t.equal(hash(dialect, { [name]: start }), hash(dialect, { [name]: `${start} there was more` }), dialect);
    t.not(hash(dialect, { [name]: start }), hash(dialect, { [name]: `The ${start}` }));
    t.not(hash(dialect, { [name]: 'short' }), hash(dialect, { [name]: 'other' }));
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

t.test('has a known value', (t) => {
  t.equal(hash('completions', { prompt: 'Hello, world' }), KNOWN);
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
