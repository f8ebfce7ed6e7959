// The reader of chat streams gives the same texts, chunks and errors however a stream is written and cut.

import fc from 'fast-check';
import t from 'tap';
import {
  type ChatObject,
  type ChatEventListener,
  ChatEventReader,
} from '../../../src/dialect/translation/chat-events.ts';
import { cpuMsOf } from '../../support/cpu-time.ts';

/** Writes down what a reader says; `texts` are those that were not parsed. */
class Record implements ChatEventListener {
  readonly said: unknown[] = [];
  readonly texts: string[] = [];
  onChunk(data: ChatObject): void {
    this.said.push(data);
  }
  onText(piece: Buffer, start: number, end: number): void {
    this.texts.push(JSON.parse(`"${piece.toString('utf8', start, end)}"`) as string);
    this.said.push(this.texts.at(-1));
  }
  onDone(): void {
    this.said.push('[DONE]');
  }
  onError(error: unknown): void {
    this.said.push({ error });
  }
  onComment(line: string): void {
    this.said.push(line);
  }
}

function read(...pieces: (string | Buffer)[]): Record {
  const record = new Record();
  const reader = new ChatEventReader(record);
  for (const piece of pieces) reader.read(Buffer.from(piece));
  reader.end();
  return record;
}

const chunk = (delta: object, others: object = {}): object => ({
  id: 'chatcmpl-1',
  choices: [{ index: 0, delta, finish_reason: null, ...others }],
});
const event = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;
const textOf = (said: unknown[]): string =>
  said
    .map((one) => {
      if (typeof one === 'string') return one;
      const [choice] = (one as { choices?: { delta: { content?: string } }[] }).choices ?? [];
      return choice?.delta.content ?? '';
    })
    .join('');

t.test('parses an event only where more than its text has changed', async (t) => {
  const words = ['a', 'b "quoted" \\ \n', 'é😀', '', 'c'];
  const { texts } = read(words.map((content) => event(chunk({ content }))).join(''));
  t.same(texts, words.slice(1));
  const tool = (args: string): string => event(chunk({ tool_calls: [{ index: 1, function: { arguments: args } }] }));
  t.same(read(tool('{"a'), tool('":1}')).texts, ['":1}']);
  const thought = (reasoning: string): string => event(chunk({ role: 'assistant', content: null, reasoning }));
  t.same(read(thought('hm'), thought('so')).texts, ['so']);
  const spaced = (content: string): string =>
    `data: {"choices": [{"delta": {"content" : ${JSON.stringify(content)}}}]}\n\n`;
  t.same(read(spaced('a'), spaced('b')).texts, ['b']);
});

t.test('does not parse an event for digits before its choices', async (t) => {
  const timed = (created: number, index: number, content: string): object => ({
    created,
    ...chunk({ content }, { index }),
    sent: created,
  });
  t.same(read(event({ ...timed(19, 0, 'a'), sent: 1 }), event({ ...timed(20, 0, 'b'), sent: 1 })).texts, ['b']);
  for (const other of [
    timed(9, 0, 'b'),
    timed(19, 1, 'b'),
    timed(20, 0, 'b'),
    { ...timed(19, 0, 'b'), id: 'chatcmpl-x' },
  ]) {
    t.same(read(event(timed(19, 0, 'a')), event(other)).texts, [], JSON.stringify(other));
  }
  const call = (index: number, text: string): string =>
    event({ created: 1, ...chunk({ tool_calls: [{ index, function: { arguments: text } }] }) });
  t.same(read(call(0, '{'), call(1, '{'), call(1, '}')).texts, ['}']);
  // The index is part of a member that only looks as if it stood before the choices.
  const hidden = (index: number): string =>
    `data: {"\\u0063hoices":[{"index":${index},"delta":{"content":"a"},"choices":[]}]}\n\n`;
  t.same(read(hidden(0), hidden(1)).texts, []);
});

t.test('parses every event that says more than a text', async (t) => {
  for (const others of [
    chunk({ content: 'x' }, { index: 1 }),
    chunk({ content: 'x' }, { finish_reason: 'stop' }),
    chunk({ content: 'x' }, { logprobs: { content: [{ token: 'x', logprob: -1 }] } }),
    chunk({ content: 'x', reasoning: 'y' }),
    chunk({ tool_calls: [{ index: 0, id: 'call', function: { arguments: 'x' } }] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: 'x', name: 'f' } }] }),
    chunk({ tool_calls: [{ function: { arguments: 'x' } }] }),
    chunk({ content: ['x'] }),
    { ...chunk({ content: 'x' }), usage: { prompt_tokens: 1 } },
    { choices: [...(chunk({ content: 'x' }) as { choices: object[] }).choices, { index: 1, delta: { content: 'y' } }] },
    { content: 'twice', ...chunk({ content: 'x' }) },
  ]) {
    const { said, texts } = read(event(others), event(others));
    t.same(texts, [], JSON.stringify(others));
    t.strictSame(said, [others, others]);
  }
});

t.test('a text that is no JSON string is not taken for one', async (t) => {
  const line = event(chunk({ content: 'X' }));
  for (const text of ['a\nb', 'a\tb', '\\x', '"', 'a","role":"system']) {
    const { said, texts } = read(
      line,
      line.replace('X', () => text),
    );
    t.same(texts, [], text);
    t.equal(said.length > 1, true);
  }
});

t.test('reads comments, names, several lines of data, and streams without the last blank line', async (t) => {
  t.same(read(': hello\n\ndata: [DONE]\n\n').said, [': hello', '[DONE]']);
  t.same(read('event: chunk\nid: 7\ndata: {"a":\ndata:1}\n\n').said, [{ a: 1 }]);
  t.same(read('\uFEFFdata: {"a":1}').said, [{ a: 1 }]);
  t.same(read('data:\n\ndata\n\nevent: ping\n\n').said, []);
  t.same(read('data:  [DONE] \r\n').said, ['[DONE]']);
});

t.test('reports errors in every form', async (t) => {
  const error = { message: 'out of memory', code: 500 };
  for (const text of [
    event({ error }),
    `event: error\ndata: ${JSON.stringify(error)}\n\n`,
    `event: error\ndata: ${JSON.stringify({ error })}\n\n`,
    `error: ${JSON.stringify(error)}\n\n`,
    event({ error, choices: [] }),
  ]) {
    t.match(read(text).said.at(-1), { error }, text);
  }
  t.same(read(event({ object: 'error', message: 'no' })).said, [{ error: { object: 'error', message: 'no' } }]);
  t.same(read('event: error\ndata: plain text\n\n').said, [{ error: 'plain text' }]);
  t.match(read('data: <html>\n\n').said, [{ error: { message: /not JSON/ } }]);
});

t.test('any cut and any line end give the same', async (t) => {
  const delta = fc.oneof(
    fc.record({ content: fc.string({ unit: 'binary', maxLength: 8 }) }),
    fc.record({ reasoning_content: fc.string({ maxLength: 8 }) }),
    fc.record({ role: fc.constant('assistant'), content: fc.constant('') }),
  );
  fc.assert(
    fc.property(
      fc.array(delta, { maxLength: 12 }),
      fc.constantFrom('\n', '\r\n', '\r'),
      fc.array(fc.nat({ max: 40 }), { maxLength: 30 }),
      (deltas, lineEnd, sizes) => {
        const whole = Buffer.from(
          `: hi\n\n${deltas.map((one) => event(chunk(one))).join('')}data: [DONE]\n\n`.replaceAll('\n', lineEnd),
        );
        const pieces: Buffer[] = [];
        let at = 0;
        for (const size of sizes) pieces.push(whole.subarray(at, (at += size)));
        pieces.push(whole.subarray(at));
        const { said } = read(...pieces);
        const expected = deltas.map((one) => ('content' in one ? (one.content ?? '') : '')).join('');
        t.equal(said[0], ': hi');
        t.equal(said.at(-1), '[DONE]');
        const texts = said.slice(1, -1);
        if (deltas.every((one) => 'content' in one)) t.equal(textOf(texts), expected);
        t.equal(texts.length, deltas.length);
      },
    ),
  );
});

t.test('reads many lines in linear time, whatever ends them', async (t) => {
  for (const [line, last] of [
    [':\r', '\r'],
    [':\n', '\r\n'],
    [':\r\n', '\n'],
  ] as const) {
    const lines = 400_000;
    let said: unknown[] = [];
    const ms = cpuMsOf(() => ({ said } = read(`${line.repeat(lines)}data: {}${last}${last}`)));
    t.equal(said.length, lines + 1);
    t.ok(ms < 1000, `${JSON.stringify(line)}: ${ms} ms`);
  }
});
