// One request written in many ways that are the same prompt: members in another order, white space, escapes, cache marks, and texts as
// lists of one part.

/** 0 up to below `below`. */
export type Random = (below: number) => number;

/** A generator with a fixed sequence (mulberry32). */
export function randomFrom(seed: number): Random {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) % below;
  };
}

/** Values of members with these names are written by templates as they stand: the order of their members counts. */
const AS_WRITTEN = new Set(['arguments', 'input', 'tools', 'parameters', 'input_schema', 'chat_template_kwargs']);
const SPACES = ['', '', '', ' ', '\n', '\t \r\n'];

/** Writes a request body; equal `value`s are equal prompts whatever `random` says. */
export function writeVariant(value: unknown, random: Random): string {
  return write(value, random, true);
}

function write(value: unknown, random: Random, mayChange: boolean): string {
  const space = (): string => SPACES[random(SPACES.length)] as string;
  if (typeof value === 'string') return writeText(value, random);
  if (Array.isArray(value)) {
    const items = value.map((item) => `${space()}${write(item, random, mayChange)}${space()}`);
    return `[${items.length === 0 ? space() : items.join(',')}]`;
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined);
  if (mayChange) {
    if (typeof value === 'object' && ('role' in value || 'type' in value) && random(4) === 0) {
      entries.push(['cache_control', random(2) === 0 ? null : { type: 'ephemeral' }]);
    }
    for (let at = entries.length - 1; at > 0; at--) {
      const other = random(at + 1);
      [entries[at], entries[other]] = [entries[other] as [string, unknown], entries[at] as [string, unknown]];
    }
  }
  const members = entries.map(([name, inner]) => {
    const isParts = mayChange && (name === 'content' || name === 'system' || name === 'output');
    const wrapped = isParts && typeof inner === 'string' && random(2) === 0 ? [{ type: 'text', text: inner }] : inner;
    const text = write(wrapped, random, mayChange && !AS_WRITTEN.has(name));
    return `${space()}${writeText(name, random, 40)}${space()}:${space()}${text}${space()}`;
  });
  return `{${members.length === 0 ? space() : members.join(',')}}`;
}

/** A string with an escape, where there need not be one, for one character in `seldom`. */
function writeText(text: string, random: Random, seldom = 20): string {
  let written = '"';
  for (const char of text) {
    if (random(seldom) !== 0) {
      written += JSON.stringify(char).slice(1, -1);
    } else if (char === '/') {
      written += '\\/';
    } else {
      for (let at = 0; at < char.length; at++) {
        const unit = char.charCodeAt(at).toString(16).padStart(4, '0');
        written += `\\u${random(2) === 0 ? unit : unit.toUpperCase()}`;
      }
    }
  }
  return `${written}"`;
}

const WORDS = [
  'the ',
  'of ',
  'wheel ',
  'water ',
  'x = "1";\n',
  '\t',
  '{"a": 1}',
  '中文',
  'é',
  '😀',
  'a/b',
  '\\',
  '\u0001',
];

/** A text of up to about `most` characters. */
export function randomText(random: Random, most: number): string {
  const words = random(Math.ceil(most / 4));
  let text = '';
  for (let at = 0; at < words; at++) text += WORDS[random(WORDS.length)] as string;
  return text;
}

const IMAGE = `data:image/png;base64,${Buffer.from('an image').toString('base64')}`;

/** A message of the chat dialect. */
export function randomMessage(random: Random): object {
  const text = randomText(random, 800);
  switch (random(7)) {
    case 0:
      return { role: 'system', content: text };
    case 1: {
      const call = { id: `call_${random(100)}`, type: 'function', function: { name: 'f', arguments: text } };
      return { role: 'assistant', content: random(2) === 0 ? null : 'Let me see.', tool_calls: [call] };
    }
    case 2:
      return { role: 'tool', tool_call_id: `call_${random(100)}`, content: text };
    case 3:
      return {
        role: 'user',
        content: [
          { type: 'text', text },
          { type: 'image_url', image_url: { url: IMAGE, detail: 'low' } },
          { type: 'text', text: 'What is it?' },
        ],
      };
    case 4:
      return { role: 'assistant', reasoning_content: randomText(random, 200), content: text };
    case 5:
      return { role: 'user', name: 'ann', content: text };
    default:
      return { role: 'user', content: text };
  }
}
