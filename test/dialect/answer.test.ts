// The judge of a CRN's answer: when it begins, why it is none, and when it is complete, in every dialect.
import fc from 'fast-check';
import t from 'tap';
import {
  type AnswerFailure,
  type AnswerHead,
  AnswerJudge,
  type AnswerState,
  choicesOf,
} from '../../src/dialect/answer.ts';
import type { DialectName } from '../../src/dialect/dialect.ts';
import { DIALECTS } from '../../src/dialect/dialects.ts';
import { scanBody } from '../../src/dialect/body-scan.ts';
import { EventSplitter } from '../../src/net/sse.ts';
import { TRANSCRIPTS } from './transcripts.ts';

const WHOLE: AnswerHead = { status: 200, contentType: 'application/json', encoded: false, contentLength: -1 };
const STREAM: AnswerHead = { ...WHOLE, contentType: 'text/event-stream; charset=utf-8' };
const NOTHING = Buffer.alloc(0);

function judgeOf(name: DialectName | undefined, head: AnswerHead, choices = 1): AnswerJudge {
  const judge = new AnswerJudge(name && DIALECTS[name], choices);
  judge.begin(head);
  return judge;
}

/** The judge of a stream after these bytes. */
function judged(name: DialectName | undefined, text: string, choices = 1): AnswerJudge {
  const judge = judgeOf(name, STREAM, choices);
  judge.events(Buffer.from(text));
  return judge;
}

/** The verdict on a stream that consists of these bytes. */
function endOf(name: DialectName | undefined, text: string, choices = 1): AnswerFailure | null {
  return judged(name, text, choices).end(NOTHING, false);
}

/** The verdict on a whole answer. */
function wholeEnd(name: DialectName | undefined, text: string, byClose = false): AnswerFailure | null {
  const judge = judgeOf(name, WHOLE);
  const body = Buffer.from(text);
  if (body.length > 0) judge.data(body);
  return judge.end(judge.state === 'undecided' ? body : NOTHING, byClose);
}

const sse = (data: object, name = ''): string =>
  `${name === '' ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
const named = (type: string, more: object = {}): string => sse({ type, ...more }, type);
const chunk = (choice: object, more: object = {}): string =>
  sse({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, finish_reason: null, ...choice }], ...more });
const DONE = 'data: [DONE]\n\n';

t.test(
  'streams of llama.cpp, vLLM, SGLang, OpenAI and Anthropic begin with their first output and end well',
  async (t) => {
    for (const { title, dialect, opening, begins, rest, finishedAt, complete } of TRANSCRIPTS) {
      const judge = judgeOf(dialect, STREAM);
      for (const event of opening) t.equal(judge.events(Buffer.from(event)), 'undecided', `${title}: ${event}`);
      t.equal(judge.events(Buffer.from(begins)), 'begun', `${title}: ${begins}`);
      t.equal(judge.useful, true);
      for (const [at, event] of rest.entries()) {
        t.equal(judge.finished, at > finishedAt, `${title}: before ${event}`);
        t.equal(judge.complete, false);
        judge.events(Buffer.from(event));
      }
      t.equal(judge.complete, complete, `${title} is complete`);
      t.equal(judge.end(NOTHING, false), null);
      const cut = judged(dialect, [...opening, begins, ...rest.slice(0, finishedAt)].join(''));
      t.equal(cut.end(NOTHING, false), 'truncated', `${title}, cut`);
      t.equal(
        judged(dialect, opening.join('')).end(NOTHING, false),
        opening.length === 0 ? 'empty answer' : 'not begun',
      );
    }
  },
);

t.test('output of every kind begins an answer', async (t) => {
  const delta = (members: object): string => chunk({ delta: members });
  const rows: [DialectName, string][] = [
    ['chat-completions', delta({ content: 'a' })],
    ['chat-completions', delta({ role: 'assistant', content: ' ' })],
    ['chat-completions', delta({ content: null, reasoning_content: 'hm' })],
    ['chat-completions', delta({ content: '', reasoning: 'hm' })],
    ['chat-completions', delta({ tool_calls: [{ index: 0, id: 't', function: { name: 'f', arguments: '' } }] })],
    ['chat-completions', delta({ function_call: { name: 'f', arguments: '' } })],
    ['chat-completions', delta({ refusal: 'no' })],
    ['chat-completions', delta({ audio: { data: 'AA==' } })],
    ['chat-completions', delta({ annotations: [{ type: 'url_citation' }] })],
    ['chat-completions', delta({ images: [{ image_url: {} }] })],
    ['chat-completions', delta({ content: '', a_member_to_come: 'x' })],
    ['chat-completions', chunk({ delta: {}, token_ids: [7] })],
    ['chat-completions', chunk({ delta: {}, finish_reason: 'stop' })],
    ['chat-completions', chunk({ message: { role: 'assistant', content: 'a' } })],
    ['completions', chunk({ text: 'a' })],
    ['completions', chunk({ text: '', finish_reason: 'length' })],
    ['responses', named('response.output_text.delta', { delta: 'a' })],
    ['responses', named('response.reasoning_summary_text.delta', { delta: 'a' })],
    ['responses', named('response.function_call_arguments.delta', { delta: '{' })],
    ['responses', named('response.custom_tool_call_input.delta', { delta: '{' })],
    ['responses', named('response.refusal.delta', { delta: 'no' })],
    ['responses', named('response.audio.delta', { delta: 'AA==' })],
    ['responses', named('response.output_item.added', { item: { type: 'function_call', name: 'f', arguments: '' } })],
    ['responses', named('response.output_item.added', { item: { type: 'web_search_call', status: 'in_progress' } })],
    ['responses', named('response.content_part.added', { part: { type: 'output_text', text: 'a' } })],
    ['responses', named('response.output_text.done', { text: '' })],
    ['responses', named('response.failed', { response: { error: { code: 'server_error' } } })],
    ['responses', named('response.a_kind_to_come', {})],
    ['responses', sse({ type: 'response.incomplete' })],
    ['messages', named('content_block_start', { content_block: { type: 'tool_use', id: 't', name: 'f', input: {} } })],
    ['messages', named('content_block_start', { content_block: { type: 'redacted_thinking', data: 'x' } })],
    ['messages', named('content_block_delta', { delta: { type: 'text_delta', text: 'a' } })],
    ['messages', named('content_block_delta', { delta: { type: 'thinking_delta', thinking: 'a' } })],
    ['messages', named('content_block_delta', { delta: { type: 'input_json_delta', partial_json: '{' } })],
    ['messages', named('content_block_delta', { delta: { type: 'citations_delta', citation: { url: 'u' } } })],
    ['messages', named('message_start', { message: { content: [{ type: 'text', text: 'a' }] } })],
    ['messages', named('message_delta', { delta: { stop_reason: 'end_turn' } })],
    ['messages', named('message_stop')],
    ['messages', named('a_kind_to_come')],
    ['llama', sse({ content: 'a', stop: false })],
    ['llama', sse({ content: '', tokens: [7], stop: false })],
    ['llama', sse({ content: '', stop: true })],
    ['llama', 'data: not known\n\n'],
  ];
  for (const [name, text] of rows) {
    const judge = judged(name, text);
    t.same([judge.state, judge.useful], ['begun', true], `${name}: ${text}`);
  }
});

t.test('events without output do not begin an answer', async (t) => {
  const rows: [DialectName, string][] = [
    ['chat-completions', ': keep-alive\n\n'],
    ['chat-completions', 'event: ping\n\n'],
    ['chat-completions', 'id: 7\nretry: 1000\n\n'],
    ['chat-completions', chunk({ delta: { role: 'assistant', content: '' } })],
    ['chat-completions', chunk({ delta: { role: 'assistant', content: null, tool_calls: [] } })],
    ['chat-completions', chunk({ delta: {}, finish_reason: '' })],
    ['chat-completions', chunk({ delta: null })],
    ['chat-completions', sse({ choices: [], usage: { prompt_tokens: 7 } })],
    ['chat-completions', sse({ choices: [], prompt_filter_results: [{}], error: null })],
    ['chat-completions', sse({ choices: [null] })],
    ['chat-completions', sse({})],
    ['completions', chunk({ text: '' })],
    ['responses', named('response.created', { response: { output: [], error: null } })],
    ['responses', named('response.queued')],
    ['responses', named('response.in_progress')],
    ['responses', named('response.output_item.added', { item: { type: 'message', content: [] } })],
    ['responses', named('response.output_item.added', { item: { type: 'reasoning', summary: [] } })],
    ['responses', named('response.content_part.added', { part: { type: 'output_text', text: '', annotations: [] } })],
    ['responses', named('response.output_text.delta', { delta: '' })],
    ['responses', sse({}, 'response.created')],
    ['messages', named('message_start', { message: { content: [], usage: { input_tokens: 7 } } })],
    ['messages', named('ping')],
    ['messages', named('content_block_start', { content_block: { type: 'text', text: '' } })],
    ['messages', named('content_block_start', { content_block: { type: 'thinking', thinking: '', signature: '' } })],
    ['messages', named('content_block_delta', { delta: { type: 'signature_delta', signature: '' } })],
    ['messages', named('content_block_stop')],
    ['messages', named('message_delta', { delta: { stop_reason: null } })],
    ['llama', sse({ content: '', stop: false })],
    ['llama', sse({ content: '', tokens: [], stop: false, tokens_evaluated: 4 })],
  ];
  for (const [name, text] of rows) {
    const judge = judged(name, text);
    t.same([judge.state, judge.useful, judge.finished], ['undecided', false, false], `${name}: ${text}`);
    judge.events(Buffer.from(text));
    t.match(judge.end(NOTHING, false), /^(?:not begun|empty answer)$/);
  }
});

t.test('progress that the client asked for leaves at once and is no output', async (t) => {
  for (const [name, event] of [
    ['chat-completions', chunk({ delta: { role: 'assistant' } }, { prompt_progress: { total: 9, processed: 4 } })],
    ['llama', sse({ content: '', stop: false, prompt_progress: { total: 9, processed: 4 } })],
    ['llama', sse({ content: '', tokens: [0], stop: false, prompt_progress: { total: 9, processed: 4 } })],
  ] as const) {
    const judge = judged(name, event);
    t.same([judge.state, judge.useful], ['begun', false], name);
    t.equal(judge.end(NOTHING, false), 'truncated');
  }
});

t.test('a stream that reports an error before it has begun is a failure', async (t) => {
  const opening = chunk({ delta: { role: 'assistant', content: '' } });
  const rows: [DialectName, string][] = [
    ['chat-completions', sse({ error: { message: 'out of memory', code: 500 } })],
    ['chat-completions', `: ping\n\n${opening}${sse({ error: { message: 'no' } })}${DONE}`],
    ['chat-completions', sse({ id: 'c', choices: [], error: 'no' })],
    ['chat-completions', chunk({ delta: { content: '' }, finish_reason: 'error' }, { error: { code: 502 } })],
    ['chat-completions', sse({ object: 'error', message: 'no', code: 400 })],
    ['chat-completions', sse({ type: 'error', message: 'no' })],
    ['chat-completions', sse({ message: 'no' }, 'error')],
    ['chat-completions', 'error: {"content":"slot unavailable"}\n\n'],
    ['completions', sse({ error: { message: 'no' } })],
    ['responses', named('response.created') + named('error', { message: 'no' })],
    ['responses', sse({ error: { message: 'no' } })],
    ['messages', named('message_start') + named('error', { error: { type: 'overloaded_error' } })],
    ['messages', sse({ error: { type: 'overloaded_error' } }, 'error')],
    ['messages', sse({ error: { message: 'no' } })],
    ['llama', sse({ error: { code: 500, message: 'no' } })],
    ['llama', 'error: {"content":"slot unavailable"}\n\n'],
  ];
  for (const [name, text] of rows) {
    const judge = judged(name, text);
    t.same([judge.state, judge.reportedError, judge.useful], ['error event', true, false], `${name}: ${text}`);
    t.equal(judge.events(Buffer.from(chunk({ delta: { content: 'a' } }))), 'error event', 'a failure is final');
    t.equal(judge.end(NOTHING, false), 'error event');
  }
});

t.test('an error in the middle of a stream ends it, and nothing may be added', async (t) => {
  const rows: [DialectName, string, string][] = [
    ['chat-completions', chunk({ delta: { content: 'a' } }), sse({ error: { message: 'no' } })],
    ['chat-completions', chunk({ delta: { content: 'a' } }), sse({ id: 'c', error: { message: 'no' } })],
    ['chat-completions', chunk({ delta: { content: 'a' } }), sse({ object: 'error', message: 'no' })],
    ['responses', named('response.output_text.delta', { delta: 'a' }), named('error', { message: 'no' })],
    ['messages', named('content_block_delta', { delta: { text: 'a' } }), named('error', { error: {} })],
    ['llama', sse({ content: 'a', stop: false }), sse({ error: { code: 500 } })],
  ];
  for (const [name, text, error] of rows) {
    for (const judge of [judged(name, text + error), judged(name, text + text + error + text)]) {
      t.same([judge.state, judge.reportedError, judge.finished], ['begun', true, true], `${name}: ${error}`);
      t.equal(judge.end(NOTHING, false), null);
    }
  }
});

t.test('a stream that is nothing but [DONE], or has no output before it, fails at once', async (t) => {
  t.equal(judged('chat-completions', DONE).state, 'only done');
  t.equal(judged('chat-completions', `: ping\n\ndata:[DONE]\r\n\r\n`).state, 'only done');
  const opening = chunk({ delta: { role: 'assistant' } });
  t.equal(judged('chat-completions', opening + DONE).state, 'not begun');
  t.equal(endOf('chat-completions', ''), 'empty answer');
  t.equal(endOf('chat-completions', ': ping\n\n'), 'empty answer');
  t.equal(judged('chat-completions', DONE).complete, false);
});

t.test('a finish reason counts when it is a text, on every choice asked for', async (t) => {
  const text = chunk({ delta: { content: 'a' } });
  const finish = (reason: unknown, index = 0): string => chunk({ index, delta: {}, finish_reason: reason });
  t.equal(endOf('chat-completions', text + finish('')), 'truncated');
  t.equal(endOf('chat-completions', text + finish(null)), 'truncated');
  t.equal(endOf('chat-completions', text + finish(7)), 'truncated');
  t.equal(endOf('chat-completions', text + finish('stop')), null);
  t.equal(endOf('chat-completions', text + finish('stop'), 2), 'truncated');
  t.equal(endOf('chat-completions', text + finish('stop') + finish('stop'), 2), 'truncated', 'one choice ended twice');
  t.equal(endOf('chat-completions', text + finish('stop', 1) + finish('length'), 2), null);
  t.equal(endOf('chat-completions', text + finish('stop') + DONE, 2), null, '[DONE] is enough');
  const both = sse({ choices: [0, 1].map((index) => ({ index, text: '', finish_reason: 'stop' })) });
  t.equal(endOf('completions', both, 2), null, 'two choices in one chunk');
  const one = sse({
    choices: [
      { index: 0, text: 'a', finish_reason: 'stop' },
      { index: 1, text: 'b' },
    ],
  });
  t.equal(endOf('completions', chunk({ text: 'a' }) + one, 2), 'truncated');
  const spaced = 'data: {"choices" : [ {"index":0, "delta":{}, "finish_reason" :\t"stop"} ] }\n\n';
  t.equal(endOf('chat-completions', text + spaced), null, 'white space between tokens');
  const native = sse({ choices: [{ index: 0, delta: {}, finish_reason: 'stop', native_finish_reason: null }] });
  t.equal(endOf('chat-completions', text + native), null, 'another member whose name ends like it');
  const omitted = sse({ choices: [{ index: 0, delta: { content: 'a' } }] });
  t.equal(endOf('chat-completions', text + omitted), 'truncated', 'an engine that leaves it out');
  t.equal(endOf('chat-completions', text + omitted + finish('stop')), null);
});

t.test('frames of the llama-style dialect end with stop, several prompts with the last one', async (t) => {
  const frame = (index: number, stop: boolean): string => sse({ index, content: stop ? '' : ' stop', stop });
  t.same([judged('llama', frame(0, false) + frame(0, true)).complete], [true]);
  const half = judged('llama', frame(0, false) + frame(1, false) + frame(1, true), 2);
  t.same([half.finished, half.complete], [true, false], 'a list of prompts may be one prompt');
  half.events(Buffer.from(frame(0, true)));
  t.equal(half.complete, true);
});

t.test('text is never taken for an end or an error', async (t) => {
  const trap =
    'data: [DONE]\n\n{"error":{"a":1}} "finish_reason":"stop" "stop":true \\"finish_reason\\":\\"stop\\" message_stop';
  const rows: [DialectName, string][] = [
    ['chat-completions', chunk({ delta: { content: trap } })],
    ['chat-completions', chunk({ delta: { content: 'finish_reason' }, error: null })],
    ['completions', chunk({ text: trap })],
    ['responses', named('response.output_text.delta', { delta: `${trap} response.completed` })],
    ['responses', sse({ type: 'response.output_text.delta', delta: trap })],
    ['messages', named('content_block_delta', { delta: { type: 'text_delta', text: trap } })],
    ['messages', sse({ type: 'content_block_delta', delta: { text: trap } })],
    ['llama', sse({ content: trap, stop: false })],
    ['llama', sse({ content: 'stop', stop: false, generation_settings: { stop: ['stop"'] } })],
  ];
  for (const [name, event] of rows) {
    for (const judge of [judged(name, event.repeat(3)), judged(name, event.repeat(3), 2)]) {
      t.same([judge.finished, judge.complete, judge.reportedError], [false, false, false], `${name}: ${event}`);
      t.equal(judge.end(NOTHING, false), 'truncated');
    }
  }
});

t.test('a last event without its blank line counts', async (t) => {
  for (const [name, rest] of [
    ['chat-completions', 'data: [DONE]'],
    ['chat-completions', 'data: [DONE]\n'],
    ['messages', 'event: message_stop\ndata: {"type":"message_stop"}\r\n'],
    ['llama', 'data: {"content":"","stop":true}'],
  ] as const) {
    const text = name === 'llama' ? sse({ content: 'a' }) : name === 'messages' ? named('x') : chunk({ text: 'a' });
    t.equal(judged(name, text).end(Buffer.from(rest), false), null, rest);
    t.equal(judged(name, text).end(Buffer.from(rest.slice(0, -6)), false), 'truncated', rest.slice(0, -6));
  }
});

t.test('a stream of 64 KiB without output passes, and is charged only when output comes', async (t) => {
  const judge = judgeOf('chat-completions', STREAM);
  const opening = Buffer.from(chunk({ delta: { role: 'assistant' } }));
  let bytes = 0;
  while (judge.events(opening) === 'undecided') bytes += opening.length;
  t.ok(bytes > 65_000 && bytes <= 65_536, `${bytes}`);
  t.same([judge.state, judge.useful], ['begun', false]);
  judge.events(Buffer.from(chunk({ delta: { content: 'a' } })));
  t.equal(judge.useful, true);
});

t.test('without a dialect every event and every byte is useful and every end is good', async (t) => {
  t.same([judged(undefined, ': ping\n\n').state, judged(undefined, 'data: 1\n\n').state], ['undecided', 'begun']);
  t.equal(endOf(undefined, ''), null);
  t.equal(judged(undefined, ': ping\n\n').end(Buffer.from('data: 1'), false), null);
  const judge = judgeOf(undefined, { ...WHOLE, contentType: 'text/html' });
  t.equal(judge.state, 'undecided');
  t.equal(judge.data(Buffer.from('<')), 'begun');
  t.equal(judge.useful, true);
  t.equal(judgeOf(undefined, { ...WHOLE, contentLength: 0 }).end(NOTHING, false), null);
});

t.test('the head alone refuses empty answers and other types', async (t) => {
  const rows: [Partial<AnswerHead>, AnswerState][] = [
    [{}, 'undecided'],
    [{ contentType: '' }, 'undecided'],
    [{ contentType: 'application/json; charset=utf-8' }, 'undecided'],
    [{ contentType: 'text/json' }, 'undecided'],
    [{ contentType: 'application/vnd.api+json;v=1' }, 'undecided'],
    [{ contentType: 'text/event-stream;charset=utf-8' }, 'undecided'],
    [{ contentType: 'text/html' }, 'not an answer'],
    [{ contentType: 'text/html', encoded: true }, 'not an answer'],
    [{ contentType: 'text/plain; charset=utf-8' }, 'not an answer'],
    [{ contentType: 'application/jsonish' }, 'not an answer'],
    [{ status: 204, contentType: '' }, 'empty answer'],
    [{ contentLength: 0 }, 'empty answer'],
    [{ status: 400, contentType: 'text/html', contentLength: 0 }, 'begun'],
  ];
  for (const [head, expected] of rows) {
    const judge = new AnswerJudge(DIALECTS.messages, 1);
    t.equal(judge.begin({ ...WHOLE, ...head }), expected, JSON.stringify(head));
    if (expected === 'empty answer' || expected === 'not an answer') t.equal(judge.end(NOTHING, false), expected);
  }
});

t.test('a whole answer with an error and no output, or that is no JSON, is a failure', async (t) => {
  const error = { message: 'no' };
  const rows: [DialectName, object | string, AnswerFailure | null][] = [
    ['chat-completions', { choices: [{ message: {} }], error: null }, null],
    ['chat-completions', { choices: [{ message: {} }], error }, null],
    ['chat-completions', { error }, 'error answer'],
    ['chat-completions', { error: 'no', choices: [] }, 'error answer'],
    ['chat-completions', { error: 'no', choices: null }, 'error answer'],
    ['chat-completions', { error, detail: 'x'.repeat(300) }, 'error answer'],
    ['chat-completions', { error: '' }, null],
    ['chat-completions', { detail: 'not known' }, null],
    ['chat-completions', '{"\\u0065rror":{"message":"no"}}', 'error answer'],
    ['completions', { choices: [{ text: '' }] }, null],
    ['responses', { error: null, output: [] }, null],
    ['responses', { status: 'failed', error: { code: 'server_error' }, output: [] }, 'error answer'],
    ['responses', { error, output: [{ type: 'message' }] }, null],
    ['messages', { type: 'error', error }, 'error answer'],
    ['messages', { type: 'message', content: [{ type: 'text', text: '"error"' }] }, null],
    ['llama', { content: '' }, null],
    ['llama', { error: { code: 500 } }, 'error answer'],
    ['llama', [{ content: 'a' }], null],
    ['llama', { results: [{ content: 'a' }], error }, null],
    ['chat-completions', '\uFEFF {"choices":[1]}', null],
    ['chat-completions', ' \n', 'not an answer'],
    ['chat-completions', '<html></html>', 'not an answer'],
    ['chat-completions', '"text"', 'not an answer'],
    ['chat-completions', 'null', 'not an answer'],
    ['chat-completions', '', 'empty answer'],
  ];
  for (const [name, value, expected] of rows) {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    t.equal(wholeEnd(name, text), expected, `${name}: ${text}`);
    t.equal(wholeEnd(name, text, true), expected);
    const pretty = typeof value === 'string' ? text : JSON.stringify(value, null, 2);
    t.equal(wholeEnd(name, pretty), expected, 'with white space');
  }
});

t.test('a JSON body that repeats a deep request is no truncated one', async (t) => {
  const deep = '['.repeat(900) + ']'.repeat(900);
  const output = [{ type: 'message', content: [{ type: 'output_text', text: 'a' }] }];
  const answer = JSON.stringify({ id: 'resp_1', object: 'response', status: 'completed', output });
  t.equal(wholeEnd('responses', `${answer.slice(0, -1)},"metadata":${deep}}`, true), null);
});

t.test('a JSON body that is cut anywhere is truncated, however its framing ends', async (t) => {
  const text = JSON.stringify({
    a: [1, { b: '"}]\\' }, true],
    choices: [{ text: 'größe "quoted"' }],
    usage: { n: 1.5e3 },
  });
  for (let at = 1; at < text.length; at++) {
    for (const byClose of [true, false])
      t.equal(wholeEnd('completions', text.slice(0, at), byClose), 'truncated', text.slice(0, at));
  }
  const python = '{"choices":[{"logprob":NaN}]}';
  t.equal(wholeEnd('completions', python), null, 'what is whole but no strict JSON passes');
  t.equal(wholeEnd('completions', python, true), 'truncated', 'unless the end is the end of the connection');
});

t.test('a whole answer is held up to 256 KiB and passes as it comes beyond', async (t) => {
  const piece = Buffer.alloc(64 * 1024, 0x20);
  const judge = judgeOf('chat-completions', WHOLE);
  for (let at = 0; at < 4; at++) t.equal(judge.data(piece), 'undecided');
  t.equal(judge.data(piece), 'begun');
  t.same([judge.useful, judge.end(NOTHING, false)], [true, null]);
  const declared = judgeOf('chat-completions', { ...WHOLE, contentLength: 256 * 1024 + 1 });
  t.equal(declared.state, 'undecided');
  t.equal(declared.data(piece), 'begun', 'the declared length is enough');
  t.equal(judgeOf('chat-completions', { ...WHOLE, encoded: true }).data(piece), 'begun', 'a coded answer is not read');
  t.equal(judgeOf('chat-completions', { ...WHOLE, encoded: true }).end(NOTHING, false), 'empty answer');
  const coded = judgeOf('chat-completions', { ...STREAM, encoded: true });
  t.equal(coded.streams, false);
});

t.test('begin forgets the answer before', async (t) => {
  const judge = judged('responses', named('response.output_text.delta', { delta: 'a', sequence_number: 3 }));
  judge.events(Buffer.from(named('response.completed')));
  judge.begin(STREAM);
  t.same(
    [judge.state, judge.useful, judge.finished, judge.complete, judge.textBytes, judge.nextSequence],
    ['undecided', false, false, false, 0, 0],
  );
});

t.test('the next number of a numbered stream is known', async (t) => {
  const delta = (sequence_number: number): string =>
    named('response.output_text.delta', { sequence_number, delta: 'a' });
  const judge = judged('responses', named('response.created', { sequence_number: 0 }) + delta(1));
  t.equal(judge.nextSequence, 2);
  judge.events(Buffer.from(delta(2)));
  judge.events(Buffer.from(delta(3) + delta(4)));
  t.equal(judge.nextSequence, 5);
  t.equal(judged('responses', named('response.output_text.delta', { delta: 'a' }).repeat(2)).nextSequence, 0);
});

t.test('choices are prompts times n, not best_of', async (t) => {
  const rows: [object, number][] = [
    [{}, 1],
    [{ n: 3 }, 3],
    [{ n: 0 }, 1],
    [{ n: 'many' }, 1],
    [{ n: 2, best_of: 5 }, 2],
    [{ prompt: ['a', 'b'], n: 2 }, 4],
    [{ prompt: [1, 2, 3] }, 1],
    [{ prompt: 'a', n_cmpl: 2 }, 2],
  ];
  for (const [members, expected] of rows) {
    const body = Buffer.from(JSON.stringify({ model: 'm', ...members }));
    const scan = scanBody(body);
    t.equal(scan.ok && choicesOf(body, scan), expected, JSON.stringify(members));
  }
});

// Random streams: events whose meaning is known by construction, in any order, written and cut in any way.

/** What an event means to a reader that parses everything. */
interface Meaning {
  readonly counts: boolean;
  readonly begins?: boolean;
  readonly useful?: boolean;
  readonly error?: boolean;
  readonly last?: boolean;
  readonly done?: boolean;
  readonly ends?: readonly number[];
}

interface Sample {
  /** Lines without their ends; the blank line follows. */
  readonly lines: readonly string[];
  readonly meaning: Meaning;
}

const TRAPS = [
  '[DONE]',
  'finish_reason',
  'stop',
  '"error"',
  '"finish_reason":"stop"',
  '"stop":true',
  'message_stop',
  '\n\ndata: [DONE]\n\n',
  '\r',
  'ü€😀',
  '\\"',
];
const someText = fc
  .array(fc.oneof(fc.constantFrom(...TRAPS), fc.string({ minLength: 1, maxLength: 8 })), { minLength: 1, maxLength: 3 })
  .map((parts) => parts.join(''));

/** Data as engines write it: compact, with spaces, or on several lines; its name before, behind, or absent. */
function written(data: unknown, name: string, style: number): readonly string[] {
  const compact = JSON.stringify(data);
  const lines = JSON.stringify(data, null, 1).split('\n');
  const written =
    style % 3 === 0
      ? [`data: ${compact}`]
      : style % 3 === 1
        ? [`data:${lines.join(' ')}`]
        : lines.map((line) => `data: ${line}`);
  if (name === '') return written;
  return style % 5 === 4 ? [...written, `event: ${name}`] : [`event:${style % 2 === 0 ? ' ' : ''}${name}`, ...written];
}

const COMMENT: Sample = { lines: [': ping'], meaning: { counts: false } };
const NO_DATA: Sample = { lines: ['event: ping', 'id: 1'], meaning: { counts: false } };
const FINAL: Sample = { lines: ['data: [DONE]'], meaning: { counts: true, last: true, done: true } };
const UNKNOWN: Sample = { lines: ['data: [1]'], meaning: { counts: true, useful: true } };
const OLD_ERROR: Sample = { lines: ['error: {"content":"no"}'], meaning: { counts: true, error: true } };

type Event = readonly [data: object, name: string, meaning: Omit<Meaning, 'counts'>];

function samples(events: fc.Arbitrary<Event>): fc.Arbitrary<Sample> {
  const sample = fc.tuple(events, fc.nat(29)).map(([[data, name, meaning], style]): Sample => ({
    lines: written(data, name, style),
    meaning: { counts: true, ...meaning },
  }));
  return fc.oneof({ weight: 12, arbitrary: sample }, fc.constantFrom(COMMENT, NO_DATA, FINAL, UNKNOWN, OLD_ERROR));
}

const choice = (index: number, members: object): object => ({ index, finish_reason: null, ...members });
const chatEvents = fc
  .tuple(someText, fc.nat(2), fc.constantFrom(...Array.from({ length: 12 }).keys()))
  .map(([text, index, kind]): Event => {
    const one = (members: object, more: object = {}): object => ({
      id: 'c',
      choices: [choice(index, members)],
      ...more,
    });
    switch (kind) {
      case 0:
        return [one({ delta: { role: 'assistant', content: '' } }), '', {}];
      case 1:
        return [{ id: 'c', choices: [], usage: { prompt_tokens: 4 } }, '', {}];
      case 2:
        return [{ error: { message: text } }, '', { error: true }];
      case 3:
        return [one({ delta: {}, finish_reason: 'stop' }), '', { useful: true, ends: [index] }];
      case 4:
        return [one({ delta: { content: text }, finish_reason: 'length' }), '', { useful: true, ends: [index] }];
      case 5:
        return [one({ delta: {}, finish_reason: '' }), '', {}];
      case 6:
        return [one({ delta: { role: 'assistant' } }, { prompt_progress: { total: 1 } }), '', { begins: true }];
      case 7:
        return [one({ delta: { reasoning_content: text }, native_finish_reason: null }), '', { useful: true }];
      case 8:
        return [{ choices: [{ delta: { content: text } }] }, '', { useful: true }];
      case 9:
        return [
          one({ delta: {}, finish_reason: 'stop', native_finish_reason: null }),
          '',
          { useful: true, ends: [index] },
        ];
      default:
        return [one({ delta: { content: text }, logprobs: null }), '', { useful: true }];
    }
  });
const messageEvents = fc
  .tuple(someText, fc.constantFrom(...Array.from({ length: 11 }).keys()))
  .map(([text, kind]): Event => {
    const event = (type: string, more: object, meaning: Omit<Meaning, 'counts'>): Event => [
      { type, ...more },
      type,
      meaning,
    ];
    switch (kind) {
      case 0:
        return event('message_start', { message: { content: [], usage: { input_tokens: 3 } } }, {});
      case 1:
        return event('content_block_start', { content_block: { type: 'text', text: '' } }, {});
      case 2:
        return event('ping', {}, {});
      case 3:
        return event('error', { error: { message: text } }, { error: true });
      case 4:
        return event('message_delta', { delta: { stop_reason: 'end_turn' } }, { useful: true });
      case 5:
        return event('message_stop', {}, { useful: true, last: true });
      case 6:
        return event('content_block_stop', { index: 0 }, {});
      case 7:
        return event('content_block_start', { content_block: { type: 'tool_use', name: 'f' } }, { useful: true });
      default:
        return event('content_block_delta', { delta: { type: 'text_delta', text } }, { useful: true });
    }
  });
const responseEvents = fc
  .tuple(someText, fc.constantFrom(...Array.from({ length: 10 }).keys()))
  .map(([text, kind]): Event => {
    const event = (type: string, more: object, meaning: Omit<Meaning, 'counts'>): Event => [
      { type, ...more },
      type,
      meaning,
    ];
    switch (kind) {
      case 0:
        return event('response.created', { response: { status: 'in_progress' } }, {});
      case 1:
        return event('response.output_item.added', { item: { type: 'message', content: [] } }, {});
      case 2:
        return event('error', { message: text }, { error: true });
      case 3:
        return event('response.completed', { response: { output: [text] } }, { useful: true, last: true });
      case 4:
        return event('response.failed', { response: { error: { message: text } } }, { useful: true, last: true });
      case 5:
        return event('response.output_item.done', { item: { type: 'message', content: [text] } }, { useful: true });
      case 6:
        return [{ type: 'response.output_text.delta', delta: text }, '', { useful: true }];
      default:
        return event('response.output_text.delta', { delta: text }, { useful: true });
    }
  });
const llamaEvents = fc.tuple(someText, fc.nat(2), fc.nat(6)).map(([text, index, kind]): Event => {
  switch (kind) {
    case 0:
      return [{ index, content: '', stop: false }, '', {}];
    case 1:
      return [
        { index, content: '', stop: true, prompt: text, generation_settings: { stop: [text] } },
        '',
        { useful: true, ends: [index] },
      ];
    case 2:
      return [{ error: { code: 500, message: text } }, '', { error: true }];
    case 3:
      return [{ content: '', stop: false, prompt_progress: { total: 1 } }, '', { begins: true }];
    default:
      return [{ index, content: text, tokens: [1], stop: false }, '', { useful: true }];
  }
});

const POOLS: readonly (readonly [DialectName, fc.Arbitrary<Sample>])[] = [
  ['chat-completions', samples(chatEvents)],
  ['messages', samples(messageEvents)],
  ['responses', samples(responseEvents)],
  ['llama', samples(llamaEvents)],
];

interface Verdict {
  state: AnswerState;
  useful: boolean;
  finished: boolean;
  complete: boolean;
  reportedError: boolean;
  end: AnswerFailure | null;
}

/** The rules, one event after the other. */
function reference(name: DialectName, choices: number, stream: readonly Sample[]): Verdict {
  const verdict: Verdict = {
    state: 'undecided',
    useful: false,
    finished: false,
    complete: false,
    reportedError: false,
    end: null,
  };
  const ended = new Set<number>();
  let counted = 0;
  for (const { meaning } of stream) {
    if (!meaning.counts || (verdict.state !== 'undecided' && verdict.state !== 'begun')) continue;
    if (verdict.reportedError) {
      verdict.complete = true;
      continue;
    }
    counted++;
    if (meaning.useful === true) verdict.useful = true;
    if (meaning.useful === true || meaning.begins === true) verdict.state = 'begun';
    if (meaning.error === true) {
      verdict.reportedError = true;
      if (verdict.state === 'undecided') verdict.state = 'error event';
      else verdict.finished = true;
      if (verdict.state === 'begun' && name !== 'responses') verdict.complete = true;
    }
    for (const index of meaning.ends ?? []) {
      ended.add(choices === 1 ? 0 : index);
      if (ended.size >= choices || name === 'llama') verdict.finished = true;
      if (ended.size >= choices && name === 'llama') verdict.complete = true;
    }
    if (meaning.last !== true) continue;
    if (verdict.state === 'undecided')
      verdict.state = meaning.done === true && counted === 1 ? 'only done' : 'not begun';
    else verdict.finished = verdict.complete = true;
  }
  if (verdict.state === 'begun') verdict.end = verdict.finished ? null : 'truncated';
  else if (verdict.state === 'undecided') verdict.end = counted === 0 ? 'empty answer' : 'not begun';
  else verdict.end = verdict.state;
  if (verdict.state === 'undecided') verdict.state = verdict.end as AnswerFailure;
  return verdict;
}

function encode(stream: readonly Sample[], lineEnds: readonly string[], mark: boolean): Buffer {
  let at = 0;
  const lineEnd = (): string => lineEnds[at++ % lineEnds.length] as string;
  const text = stream.map(({ lines }) => `${lines.map((line) => line + lineEnd()).join('')}${lineEnd()}`).join('');
  return Buffer.from(`${mark ? '\uFEFF' : ''}${text}`);
}

/** Feeds a stream in pieces of these sizes, each in memory that is reused afterwards. */
function feed(judge: AnswerJudge, bytes: Buffer, sizes: readonly number[], maxHeldBytes?: number): Verdict {
  const splitter = new EventSplitter(maxHeldBytes === undefined ? {} : { maxHeldBytes });
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] as number;
    const piece = splitter.push(bytes.subarray(at, at + size));
    if (piece !== undefined) {
      const lent = Buffer.from(piece);
      judge.events(lent, splitter.midEvent);
      lent.fill(0x7d);
    }
    at += size;
  }
  const end = judge.end(splitter.take(), false);
  const { state, useful, finished, complete, reportedError } = judge;
  return { state, useful, finished, complete, reportedError, end };
}

const LINE_ENDS = fc.constantFrom(['\n'], ['\r\n'], ['\r'], ['\n', '\r\n'], ['\r\n', '\n', '\n']);
const SIZES = fc.array(fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 4000 })), {
  minLength: 1,
  maxLength: 12,
});

t.test('pieces that end like the usual one, but are not one event on one line, are read whole', async (t) => {
  const begun = (): AnswerJudge => judged('chat-completions', chunk({ delta: { content: 'a' } }));
  const quiet = chunk({ delta: { content: 'b' } });
  const end = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]';
  const rows: [string, string][] = [
    ['two events', `data: ${end}}\n\n${quiet}`],
    ['ends of lines without line feeds', `data: ${end}}\r\r${quiet}`],
    ['data of two lines', `data: ${end},\ndata: "more":{"finish_reason":null}}\n\n`],
    ['another field in front', `data: ${end}}\nid: 7\ndata: \n\n${quiet}`],
  ];
  for (const [title, text] of rows) {
    const judge = begun();
    judge.events(Buffer.from(text));
    t.equal(judge.finished, true, title);
  }
  const judge = begun();
  judge.events(Buffer.from(quiet));
  t.equal(judge.finished, false);
  judge.events(Buffer.from('data: {"error":{"message":"m"},"finish_reason":null}\n\n'));
  t.equal(judge.reportedError, true);
});

t.test('random events in any order, cut anywhere, get the verdict of a reader that parses everything', async (t) => {
  for (const [name, pool] of POOLS) {
    const property = fc.property(
      fc.array(pool, { maxLength: 12 }),
      fc.integer({ min: 1, max: 3 }),
      LINE_ENDS,
      fc.boolean(),
      SIZES,
      (stream, choices, lineEnds, mark, sizes) => {
        const expected = reference(name, choices, stream);
        const actual = feed(judgeOf(name, STREAM, choices), encode(stream, lineEnds, mark), sizes);
        return JSON.stringify(actual) === JSON.stringify(expected);
      },
    );
    const { failed, counterexample } = fc.check(property, { numRuns: 1500 });
    t.equal(failed, false, `${name}: ${JSON.stringify(counterexample)}`);
  }
});

t.test('events that are too long to be held are output, and their end is seen wherever it is cut', async (t) => {
  const long = 'x'.repeat(300);
  const frame = (stop: boolean): string =>
    sse({ prompt: long, content: 'a', generation_settings: { stop: [long] }, stop, model: long });
  const rows: [DialectName, string, string][] = [
    ['llama', frame(false), frame(true)],
    [
      'chat-completions',
      chunk({ delta: { content: long } }),
      chunk({ delta: { content: long }, finish_reason: 'stop' }) + DONE,
    ],
    [
      'responses',
      named('response.output_item.done', { item: { result: long } }),
      named('response.completed', { response: { output: [long] } }),
    ],
    [
      'responses',
      sse({ type: 'response.output_item.done', item: long }),
      sse({ type: 'response.completed', response: long }),
    ],
    [
      'messages',
      named('content_block_delta', { delta: { text: long } }),
      named('message_delta', { usage: long }) + named('message_stop'),
    ],
  ];
  for (const [name, output, end] of rows) {
    const property = fc.property(
      LINE_ENDS,
      SIZES,
      fc.integer({ min: 60, max: 200 }),
      (lineEnds, sizes, maxHeldBytes) => {
        const [lineEnd] = lineEnds as [string];
        const bytes = (text: string): Buffer => Buffer.from(text.replaceAll('\n', lineEnd));
        const cut = feed(judgeOf(name, STREAM), bytes(output + output), sizes, maxHeldBytes);
        const whole = feed(judgeOf(name, STREAM), bytes(output + end), sizes, maxHeldBytes);
        return cut.end === 'truncated' && cut.useful && whole.end === null && whole.complete;
      },
    );
    const { failed, counterexample } = fc.check(property, { numRuns: 300 });
    t.equal(failed, false, `${name}: ${end.slice(0, 40)} ${JSON.stringify(counterexample)}`);
  }
});

t.test('no bytes make the judge throw', async (t) => {
  const fragments = [
    'data:',
    'data: ',
    'event: ',
    '\n',
    '\r',
    '\n\n',
    '{',
    '}',
    '"',
    '\\',
    '[DONE]',
    'null',
    '{"choices":',
    '[{',
    '"finish_reason":',
    '"stop":true',
    '"type":"message_stop"',
    '{"error":1}',
    '\u0000',
    'é',
  ];
  const text = fc
    .array(fc.oneof(fc.constantFrom(...fragments), fc.string({ maxLength: 3 })), { maxLength: 40 })
    .map((parts) => parts.join(''));
  const names = fc.constantFrom(...(Object.keys(DIALECTS) as DialectName[]), undefined);
  fc.assert(
    fc.property(
      names,
      text,
      SIZES,
      fc.integer({ min: 1, max: 64 }),
      fc.boolean(),
      (name, written, sizes, held, byClose) => {
        const bytes = Buffer.from(written);
        feed(judgeOf(name, STREAM), bytes, sizes, held);
        feed(judgeOf(name, STREAM, 3), bytes, sizes);
        const judge = judgeOf(name, WHOLE);
        judge.data(bytes);
        judge.end(bytes, byClose);
      },
    ),
    { numRuns: 3000 },
  );
  t.pass();
});
