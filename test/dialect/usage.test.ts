// Token counts of every dialect, from JSON answers and from streams of which only the ends were kept.
import t from 'tap';
import { DIALECTS } from '../../src/dialect/dialects.ts';
import type { DialectName, Usage } from '../../src/dialect/dialect.ts';
import { usageOfAnswer, usageOfStream } from '../../src/dialect/usage.ts';

const tokens = (promptTokens: number, completionTokens: number, cachedTokens = 0): Usage => ({
  promptTokens,
  completionTokens,
  cachedTokens,
});
const openai = { prompt_tokens: 10, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 3 } };
const numbered = { input_tokens: 10, output_tokens: 4, input_tokens_details: { cached_tokens: 3 } };
const timings = { cache_n: 6, prompt_n: 4, predicted_n: 9 };

t.test('reads every dialect from a JSON answer', (t) => {
  const rows: [DialectName, object | string, Usage | undefined][] = [
    ['chat-completions', { choices: [], usage: openai }, tokens(10, 4, 3)],
    ['chat-completions', { usage: { ...openai, prompt_tokens_details: null } }, tokens(10, 4)],
    ['chat-completions', { usage: null }, undefined],
    ['chat-completions', { usage: { prompt_tokens: '10', completion_tokens: -1 } }, undefined],
    ['chat-completions', { choices: [{ usage: openai }] }, undefined],
    ['chat-completions', {}, undefined],
    ['chat-completions', '[1]', undefined],
    ['chat-completions', '{"usage":', undefined],
    ['chat-completions', '', undefined],
    ['completions', { usage: { prompt_tokens: 2 } }, tokens(2, 0)],
    ['responses', { output: [], usage: numbered }, tokens(10, 4, 3)],
    ['responses', { usage: openai }, undefined],
    [
      'messages',
      { usage: { input_tokens: 5, cache_read_input_tokens: 3, cache_creation_input_tokens: 2, output_tokens: 4 } },
      tokens(10, 4, 3),
    ],
    [
      'messages',
      { content: [{ input: { usage: { input_tokens: 99 } } }], usage: { input_tokens: 1, output_tokens: 2 } },
      tokens(1, 2),
    ],
    ['llama', { tokens_evaluated: 10, tokens_predicted: 9, timings }, tokens(10, 9, 6)],
    ['llama', { timings }, tokens(10, 9, 6)],
    [
      'llama',
      { tokens_evaluated: 10, tokens_predicted: 9, tokens_cached: 19, timings: { prompt_n: 4 } },
      tokens(10, 9, 6),
    ],
    ['llama', { tokens_evaluated: 10, tokens_predicted: 9, tokens_cached: 6 }, tokens(10, 9, 6)],
    ['llama', { tokens_evaluated: 10, tokens_cached: 19 }, tokens(10, 0, 10)],
    ['llama', { content: 'x' }, undefined],
  ];
  for (const [name, value, expected] of rows) {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    t.strictSame(usageOfAnswer(DIALECTS[name], Buffer.from(text)), expected, `${name}: ${text}`);
  }
  t.end();
});

const sse = (...events: object[]): string => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');

t.test('reads every dialect from the ends of a stream', (t) => {
  const start = {
    type: 'message_start',
    message: { usage: { input_tokens: 5, cache_read_input_tokens: 3, output_tokens: 1 } },
  };
  const stop = { type: 'message_delta', usage: { output_tokens: 4 } };
  const completed = {
    type: 'response.completed',
    response: { output: ['x'.repeat(5000)], usage: numbered, tools: [{ usage: { type: 'object' } }] },
  };
  const frame = {
    content: '',
    stop: true,
    tokens_predicted: 9,
    tokens_evaluated: 10,
    prompt: 'x'.repeat(5000),
    tokens_cached: 6,
    timings,
  };
  const rows: [string, DialectName, string, string | undefined, Usage | undefined][] = [
    [
      'the usage chunk',
      'chat-completions',
      `${sse({ choices: [1], usage: null }, { choices: [], usage: openai })}data: [DONE]\n\n`,
      undefined,
      tokens(10, 4, 3),
    ],
    [
      'running totals',
      'chat-completions',
      sse({ usage: { ...openai, completion_tokens: 2 } }, { usage: openai }),
      undefined,
      tokens(10, 4, 3),
    ],
    [
      'text about usage',
      'chat-completions',
      sse({ choices: [{ delta: { content: '"usage":{"prompt_tokens":9}' } }] }),
      undefined,
      undefined,
    ],
    ['an event cut in front', 'responses', sse(completed).slice(-4096), undefined, tokens(10, 4, 3)],
    ['head and tail', 'messages', sse(stop, { type: 'message_stop' }), sse(start), tokens(8, 4, 3)],
    ['all in the tail', 'messages', sse(start, stop), undefined, tokens(8, 4, 3)],
    ['a head cut inside', 'messages', sse(stop), sse(start).slice(0, 70), tokens(0, 4)],
    ['the last frame', 'llama', sse({ content: 'a', stop: false }, frame).slice(-4096), undefined, tokens(10, 9, 6)],
    ['nothing', 'llama', sse({ content: 'a', stop: false }), undefined, undefined],
    ['no bytes', 'messages', '', '', undefined],
  ];
  for (const [title, name, tail, head, expected] of rows) {
    const usage = usageOfStream(DIALECTS[name], Buffer.from(tail), head === undefined ? undefined : Buffer.from(head));
    t.strictSame(usage, expected, title);
  }
  t.end();
});
