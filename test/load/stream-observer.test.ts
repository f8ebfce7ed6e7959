import type { DialectName } from '../../src/dialect/index.ts';
import { StreamObserver } from '../../src/load/stream-observer.ts';

import t from 'tap';

/** Pushes the text in pieces of so many bytes, a millisecond apart. */
function watched(dialect: DialectName, text: string, pieceBytes = 1e9): StreamObserver {
  const observer = new StreamObserver(dialect, true);
  const bytes = Buffer.from(text);
  for (let at = 0, ms = 1; at < bytes.length; at += pieceBytes, ms++)
    observer.push(bytes.subarray(at, at + pieceBytes), ms);
  return observer;
}

const CHAT = [
  ': welcome\n\n',
  'data: {"choices":[{"delta":{"role":"assistant","content":""}}],"usage":null}\n\n',
  'data: {"choices":[{"delta":{"content":"Grüße \\"content\\":\\"x\\""}}]}\n\n',
  'data: {"choices":[{"delta":{"content": " 水"}}]}\r\n\r\n',
  'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n',
  'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}\n\n',
  'data: [DONE]\n\n',
  ': truth {"arrivedUs":1}\n\n',
].join('');

t.test('sees the same in a chat stream however it is cut', (t) => {
  for (const pieceBytes of [1, 7, 64, 1e9]) {
    const observer = watched('chat-completions', CHAT, pieceBytes);
    t.equal(observer.textMs.length, 2, 'an empty delta and quoted members are no output');
    t.match(observer, { promptTokens: 12, cachedTokens: 8, outputTokens: 2, complete: true, failed: false });
    t.equal(observer.text, 'Grüße "content":"x" 水');
    t.equal(observer.serverTimings, '{"arrivedUs":1}');
    t.ok(observer.firstEventMs < observer.textMs[0]! || pieceBytes === 1e9);
  }
  t.end();
});

t.test('sees the same with every kind of line end, and without the last blank line', (t) => {
  const lines = CHAT.replaceAll('\r\n', '\n').replace(/: truth.*\n\n$/, '');
  for (const end of ['\n', '\r', '\r\n']) {
    for (const pieceBytes of [1, 7, 1e9]) {
      const observer = watched('chat-completions', lines.trimEnd().replaceAll('\n', end) + end, pieceBytes);
      observer.end(1e6);
      t.equal(observer.textMs.length, 2, JSON.stringify(end));
      t.match(observer, { outputTokens: 2, complete: true, failed: false });
    }
  }
  t.end();
});

t.test('an event that is cut off does not end a stream', (t) => {
  const observer = watched('responses', 'data: {"type":"response.completed","response":{"id":"r"');
  observer.end(2);
  t.notOk(observer.complete);
  t.end();
});

t.test('a comment is no first event', (t) => {
  const observer = new StreamObserver('chat-completions', false);
  observer.push(Buffer.from(': still waiting\n\n'), 5);
  t.ok(Number.isNaN(observer.firstEventMs));
  observer.push(Buffer.from('data: {"choices":[{"delta":{"content":"a"}}]}\n\n'), 9);
  t.equal(observer.firstEventMs, 9);
  t.strictSame(observer.textMs, [9]);
  t.equal(observer.text, '', 'what is said is kept only when it is wanted');
  t.end();
});

const OUTPUTS: readonly (readonly [DialectName, string])[] = [
  ['chat-completions', '{"choices":[{"delta":{"reasoning_content":"hm"}}]}'],
  ['chat-completions', '{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{"}}]}}]}'],
  ['completions', '{"choices":[{"text":"a"}]}'],
  ['responses', '{"type":"response.output_text.delta","delta":"a"}'],
  ['messages', '{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}'],
  ['messages', '{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"a"}}'],
  ['llama', '{"content":"a","stop":false}'],
];

const NO_OUTPUTS: readonly (readonly [DialectName, string])[] = [
  ['responses', '{"type":"response.output_text.done","text":"all"}'],
  ['messages', '{"type":"content_block_start","content_block":{"type":"text","text":""}}'],
  ['messages', '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}'],
  ['llama', '{"content":"","stop":true,"tokens_predicted":3}'],
];

t.test('knows the output of every dialect from what stands around it', (t) => {
  for (const [dialect, data] of OUTPUTS) t.equal(watched(dialect, `data: ${data}\n\n`).textMs.length, 1, data);
  for (const [dialect, data] of NO_OUTPUTS) t.equal(watched(dialect, `data: ${data}\n\n`).textMs.length, 0, data);
  t.end();
});

t.test('knows a complete stream and a failed one', (t) => {
  const ends: readonly (readonly [DialectName, string])[] = [
    ['completions', '[DONE]'],
    ['responses', '{"type":"response.completed"}'],
    ['responses', '{"type":"response.incomplete"}'],
    ['messages', '{"type":"message_stop"}'],
    ['llama', '{"content":"","stop":true}'],
  ];
  for (const [dialect, data] of ends) {
    t.match(watched(dialect, `data: {}\n\ndata: ${data}\n\n`), { complete: true, failed: false }, data);
  }
  t.notOk(watched('completions', 'data: [DONE]\n\n').complete, 'an end of nothing');
  const failures: readonly (readonly [DialectName, string])[] = [
    ['chat-completions', 'data: {"error":{"message":"x"}}'],
    ['chat-completions', 'data: {"error":{"type":"server_error","message":"x"}}'],
    ['chat-completions', 'data: {"id":"1","error":{"message":"x"},"choices":[]}'],
    ['messages', 'event: error\ndata: {"type":"error","error":{}}'],
    ['responses', 'event: response.failed\ndata: {"type":"response.failed","response":{}}'],
    ['llama', 'error: {"message":"x"}'],
  ];
  for (const [dialect, event] of failures)
    t.match(watched(dialect, `${event}\n\n`), { complete: false, failed: true }, event);
  for (const echoed of ['{"error":null}', '{"tools":[{"parameters":{"properties":{"error":{"type":"string"}}}}]}']) {
    const created = `data: {"type":"response.created","response":${echoed}}\n\n`;
    t.match(watched('responses', created), { failed: false }, echoed);
  }
  t.end();
});

t.test('adds what the messages dialect counts apart', (t) => {
  const usage = '"usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":1}';
  const later = 'data: {"type":"message_delta","usage":{"output_tokens":7}}\n\n';
  const observer = watched('messages', `data: {"type":"message_start","message":{${usage}}}\n\n${later}`);
  t.match(observer, { promptTokens: 100, cachedTokens: 90, outputTokens: 7 });
  const writing = '"usage":{"input_tokens":10,"cache_creation_input_tokens":50,"cache_read_input_tokens":40}';
  const first = watched('messages', `data: {"type":"message_start","message":{${writing}}}\n\n${later}`);
  t.match(first, { promptTokens: 100, cachedTokens: 40, outputTokens: 7 });
  t.end();
});

t.test('of responses only the text of messages is said', (t) => {
  const deltas = ['reasoning_text', 'reasoning_summary_text', 'output_text', 'function_call_arguments'];
  const stream = deltas.map((kind) => `data: {"type":"response.${kind}.delta","delta":"<${kind}>"}\n\n`).join('');
  const observer = watched('responses', stream);
  t.equal(observer.text, '<output_text>');
  t.equal(observer.textMs.length, 4, 'all of it is output of the model');
  const whole = new StreamObserver('responses', true);
  const output = [
    {
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'a' }],
      content: [{ text: 'b', type: 'reasoning_text' }],
    },
    { type: 'message', content: [{ type: 'output_text', annotations: [], text: 'c' }] },
    { type: 'message', content: [{ text: 'd', type: 'output_text' }] },
  ];
  whole.pushWhole(Buffer.from(JSON.stringify({ output, text: { format: { type: 'text' } } })));
  whole.endWhole();
  t.equal(whole.text, 'cd');
  t.end();
});

t.test('reads counts and text out of a whole answer', (t) => {
  const observer = new StreamObserver('chat-completions', true);
  const body = '{"choices":[{"message":{"content":"Grüße"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}';
  for (const byte of Buffer.from(body)) observer.pushWhole(Buffer.of(byte));
  observer.endWhole();
  t.match(observer, { promptTokens: 3, outputTokens: 2, text: 'Grüße', textMs: [] });
  t.end();
});

t.test('text that is no JSON is left out, and a long one is read', (t) => {
  const observer = watched(
    'chat-completions',
    'data: {"choices":[{"delta":{"content":"a\\qb"}}]}\n\ndata: {"choices":[{"delta":{"content":"c"}}]}\n\ndata: [DONE]\n\n',
  );
  t.match(observer, { text: 'c', complete: true });
  t.equal(observer.textMs.length, 2);
  const whole = new StreamObserver('chat-completions', true);
  const text = `${'a'.repeat(7_000_000)}\\"${'b'.repeat(7_000_000)}`;
  whole.pushWhole(Buffer.from(`{"choices":[{"message":{"content":"${text}"}}]}`));
  whole.endWhole();
  t.equal(whole.text.length, 14_000_001);
  t.end();
});
