// Text in the events of a stream and in whole answers: counted exactly as a parser would, whatever the events look like.

import fc from 'fast-check';
import t from 'tap';
import { DIALECTS } from '../../src/dialect/dialects.ts';
import type { DialectName } from '../../src/dialect/dialect.ts';
import { textBytes, TextCounter, TokenSizes } from '../../src/dialect/text-counter.ts';

const lengthOf = (text: string): number => Buffer.byteLength(JSON.stringify(text)) - 2;

/** Feeds events as they lie in a piece: one behind the other, with framing between. */
function counted(name: DialectName, events: readonly string[]): number {
  const counter = new TextCounter(DIALECTS[name].deltaTexts);
  const piece = Buffer.from(events.map((event) => `data: ${event}\n\n`).join(''));
  let at = 0;
  for (const event of events) {
    counter.add(piece, at + 6, at + 6 + Buffer.byteLength(event));
    at += Buffer.byteLength(event) + 8;
  }
  return counter.bytes;
}

/** Events of each dialect around a text, and what they are worth beside it. */
const SHAPES: Readonly<
  Record<DialectName, readonly ((text: string, index: number) => [event: object, extra: string])[]>
> = {
  'chat-completions': [
    (content, index) => [{ id: 'c', choices: [{ index, delta: { content }, finish_reason: null }] }, ''],
    (content) => [{ choices: [{ delta: { role: 'assistant', content } }] }, ''],
    (text) => [{ choices: [{ delta: { reasoning_content: text } }] }, ''],
    (text) => [{ choices: [{ delta: { tool_calls: [{ index: 0, function: { arguments: text } }] } }] }, ''],
    (input) => [{ choices: [{ delta: { tool_calls: [{ index: 0, custom: { input } }] } }] }, ''],
    (content, n) => [{ choices: [{ delta: { content } }], usage: { completion_tokens: n } }, ''],
    (content) => [{ choices: [{ delta: { content } }, { delta: { content: 'two' } }] }, 'two'],
    (content) => [{ choices: [{ delta: { content }, logprobs: { content: [{ token: content }] } }] }, ''],
  ],
  completions: [(text, index) => [{ choices: [{ text, index, logprobs: null }] }, '']],
  responses: [
    (delta, n) => [{ type: 'response.output_text.delta', sequence_number: n, delta }, ''],
    (delta) => [{ type: 'response.function_call_arguments.delta', delta }, ''],
  ],
  messages: [
    (text, index) => [{ type: 'content_block_delta', index, delta: { type: 'text_delta', text } }, ''],
    (text) => [{ type: 'content_block_delta', delta: { type: 'input_json_delta', partial_json: text } }, ''],
    (thinking) => [{ type: 'content_block_delta', delta: { type: 'thinking_delta', thinking } }, ''],
  ],
  llama: [(content, index) => [{ index, content, tokens: [], stop: false }, '']],
};

/** Events without text. */
const SILENT: readonly string[] = [
  '{}',
  '[DONE]',
  '{"choices":[]}',
  '{"type":"response.output_text.done","text_":"delta"}',
  '{"choices":[{"delta":{"content":null},"finish_reason":"stop"}]}',
  '"content"',
];

t.test('any mixture of events counts as if each were parsed', async () => {
  for (const name of Object.keys(SHAPES) as DialectName[]) {
    const shapes = SHAPES[name];
    const event = fc
      .tuple(
        fc.nat(shapes.length - 1),
        fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('"', '\\', '","', '":"')),
        fc.nat(12),
        fc.boolean(),
      )
      .map(([shape, text, index, isSpaced]) => {
        const [value, extra] = (shapes[shape] as (typeof shapes)[number])(text, index);
        const printed = JSON.stringify(value);
        return {
          text: isSpaced ? printed.replaceAll('":', '": ') : printed,
          bytes: lengthOf(text) + extra.length,
          isSpaced,
        };
      })
      // Spaces were put into texts too.
      .filter(({ isSpaced, text }) => !isSpaced || !/[^{,]": .*\\"/.test(text));
    const silent = fc.constantFrom(...SILENT).map((text) => ({ text, bytes: 0 }));
    fc.assert(
      fc.property(fc.array(fc.oneof({ weight: 5, arbitrary: event }, silent), { maxLength: 20 }), (events) => {
        const expected = events.reduce((sum, { bytes }) => sum + bytes, 0);
        return (
          counted(
            name,
            events.map(({ text }) => text),
          ) === expected
        );
      }),
    );
  }
});

t.test('the text of whole answers', async (t) => {
  const rows: [DialectName, object, number][] = [
    ['chat-completions', { choices: [{ message: { role: 'assistant', content: 'abcd', refusal: null } }] }, 4],
    [
      'chat-completions',
      { choices: [{ message: { content: 'ab' } }, { message: { content: 'cd', reasoning: 'e' } }] },
      5,
    ],
    ['chat-completions', { choices: [{ message: { tool_calls: [{ function: { name: 'f', arguments: '{}' } }] } }] }, 2],
    ['chat-completions', { choices: [{ message: { tool_calls: [{ custom: { name: 'f', input: 'abcd' } }] } }] }, 4],
    ['completions', { choices: [{ text: 'abcd' }, { text: '' }] }, 4],
    ['responses', { text: { format: {} }, output: [{ content: [{ type: 'output_text', text: 'abcd' }] }] }, 4],
    ['responses', { output: [{ type: 'custom_tool_call', name: 'f', input: 'abcd' }] }, 4],
    [
      'messages',
      {
        content: [
          { type: 'text', text: 'ab' },
          { type: 'tool_use', input: { a: 1 } },
        ],
      },
      2 + 7,
    ],
    // The input of a call counts once, whatever its members are called.
    [
      'messages',
      { content: [{ type: 'tool_use', input: { text: 'abcd', input: { input: {} } } }, { text: 'ab' }] },
      36 + 2,
    ],
    ['llama', { content: 'abcd', prompt: 'x'.repeat(99) }, 4],
    ['llama', {}, 0],
  ];
  for (const [name, answer, bytes] of rows) {
    t.equal(textBytes(Buffer.from(JSON.stringify(answer)), DIALECTS[name].answerTexts), bytes, JSON.stringify(answer));
  }
});

t.test('the size of tokens is learnt by model, and odd answers change it little', async (t) => {
  const sizes = new TokenSizes();
  t.equal(sizes.of('m'), 4);
  for (let answer = 0; answer < 100; answer++) sizes.note('m', 300, 100);
  t.ok(Math.abs(sizes.of('m') - 3) < 0.01, `${sizes.of('m')}`);
  sizes.note('m', 300, 100_000_000);
  sizes.note('m', 1e9, 20);
  sizes.note('m', 0, 100);
  sizes.note('m', 100, 1);
  t.ok(Math.abs(sizes.of('m') - 3) < 0.6, `${sizes.of('m')}`);
  t.equal(sizes.of('n'), 4);
});
