// Token counts: estimates, asking for counts, reading them from JSON responses and from both ends of streams.
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { type AnswerHead, AnswerJudge } from '../../src/dialect/answer.ts';
import type { Dialect, DialectName, Usage } from '../../src/dialect/dialect.ts';
import { dialectOf, DIALECTS } from '../../src/dialect/dialects.ts';
import { scanBody, type ScannedBody } from '../../src/dialect/body-scan.ts';
import { EventSplitter } from '../../src/net/sse.ts';
import { edited } from '../../src/dialect/output-limit.ts';
import { usageEdit, usageIn, UsageWatch } from '../../src/dialect/usage.ts';

/** Without `cachedTokens`: the CRN does not say how many there are. */
const tokens = (promptTokens: number, completionTokens: number, cachedTokens?: number): Usage => ({
  promptTokens,
  completionTokens,
  cachedTokens: cachedTokens ?? 0,
  saysCached: cachedTokens !== undefined,
});
/** The same in what is charged. */
function metered(promptTokens: number, completionTokens: number, cachedTokens = 0): Usage {
  return { promptTokens, completionTokens, cachedTokens, saysCached: cachedTokens > 0 };
}

const WHOLE: AnswerHead = { status: 200, contentType: 'application/json', encoded: false, contentLength: -1 };
const STREAM: AnswerHead = { ...WHOLE, contentType: 'text/event-stream' };

function judgeOf(dialect: Dialect | undefined, head: AnswerHead): AnswerJudge {
  const judge = new AnswerJudge(dialect, 1, true);
  judge.begin(head);
  return judge;
}

/** A whole answer in pieces of `size`, judged and then passed as a relay does. */
function pass(watch: UsageWatch, dialect: Dialect | undefined, whole: Buffer, size: number): void {
  const judge = judgeOf(dialect, WHOLE);
  watch.begin(judge);
  const held: Buffer[] = [];
  for (let at = 0; at < whole.length; at += size) {
    held.push(whole.subarray(at, at + size));
    if (judge.data(held.at(-1)!) === 'begun') for (const piece of held.splice(0)) watch.data(piece);
  }
  if (judge.end(Buffer.concat(held), false) === null) for (const piece of held) watch.data(piece);
}

const openai = { prompt_tokens: 10, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 3 } };
const numbered = { input_tokens: 10, output_tokens: 4, input_tokens_details: { cached_tokens: 3 } };
const timings = { cache_n: 6, prompt_n: 4, predicted_n: 9 };

t.test('reads the counts of every dialect from a JSON response', (t) => {
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
    ['llama', { tokens_evaluated: 10, tokens_cached: 19 }, { ...tokens(10, 0, 10), saysCached: false }],
    ['llama', { content: 'x' }, undefined],
  ];
  for (const [name, value, expected] of rows) {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    const judge = judgeOf(DIALECTS[name], WHOLE);
    judge.data(Buffer.from(text));
    judge.end(Buffer.from(text), false);
    t.strictSame(judge.usage, expected, `${name}: ${text}`);
  }
  t.end();
});

const sse = (...events: object[]): string => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');

t.test('reads the counts of every dialect from a part of a stream', (t) => {
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
  const rows: [string, DialectName, string, Usage | undefined][] = [
    [
      'the usage chunk',
      'chat-completions',
      `${sse({ choices: [1], usage: null }, { choices: [], usage: openai })}data: [DONE]\n\n`,
      tokens(10, 4, 3),
    ],
    [
      'running totals',
      'chat-completions',
      sse({ usage: { ...openai, completion_tokens: 2 } }, { usage: openai }),
      tokens(10, 4, 3),
    ],
    [
      'text about usage',
      'chat-completions',
      sse({ choices: [{ delta: { content: '"usage":{"prompt_tokens":9}' } }] }),
      undefined,
    ],
    ['an event cut in front', 'responses', sse(completed).slice(-4096), tokens(10, 4, 3)],
    ['first and last events', 'messages', sse(start, stop), tokens(8, 4, 3)],
    ['an event cut inside', 'messages', sse(stop) + sse(start).slice(0, 70), tokens(0, 4)],
    ['the last frame', 'llama', sse({ content: 'a', stop: false }, frame).slice(-4096), tokens(10, 9, 6)],
    ['nothing', 'llama', sse({ content: 'a', stop: false }), undefined],
    ['no bytes', 'messages', '', undefined],
  ];
  for (const [title, name, text, expected] of rows)
    t.strictSame(usageIn(DIALECTS[name], Buffer.from(text)), expected, title);
  t.end();
});

const CHAT = dialectOf('/v1/chat/completions');

function scanned(text: string): { body: Buffer; scan: ScannedBody } {
  const body = Buffer.from(text);
  const scan = scanBody(body);
  if (!scan.ok) throw new Error(JSON.stringify(scan.errors));
  return { body, scan };
}

const asking = (text: string, path = '/v1/chat/completions'): string | undefined => {
  const { body, scan } = scanned(text);
  const edit = usageEdit(dialectOf(path), body, scan);
  return edit === undefined ? undefined : edited(body, [edit]).toString();
};

t.test('adds include_usage to streams of the OpenAI dialects', async (t) => {
  const wanted = '{"stream_options":{"include_usage":true},"model":"m","stream":true}';
  t.equal(asking('{"model":"m","stream":true}'), wanted);
  t.equal(asking('{"model":"m","stream":true}', '/v1/completions'), wanted);
  t.equal(
    asking('  { "model": "m", "stream": true}'),
    '  {"stream_options":{"include_usage":true}, "model": "m", "stream": true}',
  );
  t.equal(
    asking('{"stream":true,"stream_options":null,"model":"m"}'),
    '{"stream":true,"stream_options":{"include_usage":true},"model":"m"}',
  );
  t.equal(
    asking('{"stream":true,"stream_options":{"x":1,"include_usage":false},"model":"m"}'),
    '{"stream":true,"stream_options":{"x":1,"include_usage":true},"model":"m"}',
  );
  t.equal(
    asking(`{"stream":true,"stream_options":{"x":"${'x'.repeat(5000)}"},"model":"m"}`),
    '{"stream":true,"stream_options":{"include_usage":true},"model":"m"}',
    'longer options than a client has',
  );
});

t.test('leaves bodies that ask already, need not ask or are wrong', async (t) => {
  for (const text of [
    '{"model":"m"}',
    '{"model":"m","stream":false}',
    '{"model":"m","stream":true,"stream_options":{"include_usage":true}}',
    '{"model":"m","stream":true,"stream_options":{"include_usage":"yes"}}',
    '{"model":"m","stream":true,"stream_options":[]}',
    '{"model":"m","stream":true,"stream_options":7}',
  ]) {
    t.equal(asking(text), undefined, text);
  }
  for (const path of ['/v1/messages', '/v1/responses', '/completions', '/v1/embeddings']) {
    t.equal(asking('{"model":"m","stream":true}', path), undefined, path);
  }
});

t.test('asks for counts where only some servers stream, or give none', async (t) => {
  for (const stream of ['1', '1.0', '"true"', '"1"', '"YES"', '"on"', '"t"', String.raw`"\u0074ru\u0065"`]) {
    t.type(asking(`{"model":"m","stream":${stream}}`), 'string', stream);
  }
  for (const stream of ['0', '2', 'false', 'null', '"false"', '"trueish"', '[1]', '""']) {
    t.equal(asking(`{"model":"m","stream":${stream}}`), undefined, stream);
  }
  for (const option of ['0', '"no"', '"False"', '"0"']) {
    const asked = asking(`{"model":"m","stream":true,"stream_options":{"include_usage":${option}}}`);
    t.match(asked, '"include_usage":true', option);
  }
});

t.test('changes nothing but the option', async () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }), (extra) => {
      const { stream_options: _, ...rest } = extra;
      const request = { ...rest, model: 'm', stream: true };
      const { body, scan } = scanned(JSON.stringify(request));
      const edit = usageEdit(CHAT, body, scan);
      const asked = edited(body, edit === undefined ? [] : [edit]).toString();
      const parsed = JSON.parse(asked) as Record<string, unknown>;
      const { stream_options: added, ...same } = parsed;
      return JSON.stringify(added) === '{"include_usage":true}' && isDeepStrictEqual(same, JSON.parse(body.toString()));
    }),
  );
});

const chat = (members: object): string => `data: ${JSON.stringify({ id: 'c', ...members })}\n\n`;
const word = (content: string): string => chat({ choices: [{ delta: { content } }], usage: null });
const USAGE = { prompt_tokens: 9, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 4 } };
const LAST = chat({ choices: [], usage: USAGE });

/** The bytes that the client gets of a stream in these pieces. */
function passed(watch: UsageWatch, pieces: readonly string[], dialect = CHAT): string {
  const judge = judgeOf(dialect, STREAM);
  watch.begin(judge);
  return pieces
    .map((piece) => {
      judge.events(Buffer.from(piece));
      return watch.events(Buffer.from(piece))?.toString() ?? '';
    })
    .join('');
}

t.test('removes the usage event that the gateway asked for and nothing else', async (t) => {
  const before = word('a') + word('say "usage":{} and "choices":[]');
  const after = 'data: [DONE]\n\n';
  for (const pieces of [
    [before, LAST, after],
    [before + LAST + after],
    [before, LAST + after],
    [before + LAST, after],
  ]) {
    const watch = new UsageWatch({ strip: true, bytesPerToken: 4 });
    t.equal(passed(watch, pieces), before + after);
    t.same(watch.result(0), {
      promptTokens: 9,
      completionTokens: 3,
      cachedTokens: 4,
      saysCached: true,
      measured: true,
    });
  }
  for (const end of ['\r\n', '\r']) {
    const written = (text: string): string => text.replaceAll('\n', end);
    const watch = new UsageWatch({ strip: true, bytesPerToken: 4 });
    t.equal(passed(watch, [written(before + LAST + after)]), written(before + after));
  }
  for (const last of [`: ping\nid: 7\n${LAST}`, LAST.replace(',"usage"', ',\ndata: "usage"'), LAST.trimEnd()]) {
    const watch = new UsageWatch({ strip: true, bytesPerToken: 4 });
    t.equal(passed(watch, [before + last]), before, last);
  }
});

t.test('passes every byte of a stream that the client asked counts for', async (t) => {
  const watch = new UsageWatch({ bytesPerToken: 4 });
  t.equal(passed(watch, [word('a') + LAST]), word('a') + LAST);
  t.match(watch.result(0), { promptTokens: 9, measured: true });
});

t.test('keeps events with choices, with other members or with broken usage', async (t) => {
  const filter = chat({ choices: [], prompt_filter_results: [] });
  const both = chat({ choices: [{ delta: { content: 'x' } }], usage: USAGE });
  const watch = new UsageWatch({ strip: true, bytesPerToken: 4 });
  t.equal(
    passed(watch, [filter, both, 'data: {"choices":[],"usage":{broken\n\n']),
    filter + both + 'data: {"choices":[],"usage":{broken\n\n',
  );
});

t.test('estimates a truncated stream by the text that was delivered', async (t) => {
  const watch = new UsageWatch({ strip: true, bytesPerToken: 4 });
  passed(watch, [word('four'), word('f') + word('our and')]);
  t.same(watch.result(11), {
    promptTokens: 11,
    completionTokens: 3,
    cachedTokens: 0,
    saysCached: false,
    measured: false,
  });
  const role = new UsageWatch({ strip: true, bytesPerToken: 4 });
  passed(role, [word(''), word('b')]);
  t.equal(role.result(1).completionTokens, 1, 'a chunk with the role only is no token');
  const large = new UsageWatch({ strip: true, bytesPerToken: 5 });
  passed(large, [word('x'.repeat(20_000))]);
  t.equal(large.result(1).completionTokens, 4000, 'one event may hold many tokens');
});

t.test('a count of 0 beside text, or no count of the prompt, is none', async (t) => {
  const rows: [usage: object, expected: object][] = [
    [
      { prompt_tokens: 9, completion_tokens: 0 },
      { promptTokens: 9, completionTokens: 3, measured: false },
    ],
    [{ prompt_tokens: 9 }, { promptTokens: 9, completionTokens: 3, measured: false }],
    [{ completion_tokens: 7 }, { promptTokens: 11, completionTokens: 7, measured: false }],
    [
      { prompt_tokens: 9, completion_tokens: 1 },
      { promptTokens: 9, completionTokens: 1, measured: true },
    ],
  ];
  const text = 'twelve bytes';
  for (const [usage, expected] of rows) {
    const streamed = new UsageWatch({ strip: true, bytesPerToken: 4 });
    passed(streamed, [
      word(text),
      chat({ choices: [{ delta: {}, finish_reason: 'stop' }] }),
      chat({ choices: [], usage }),
    ]);
    t.match(streamed.result(11), expected, JSON.stringify(usage));
    const whole = new UsageWatch({ strip: true, bytesPerToken: 4 });
    pass(whole, CHAT, Buffer.from(JSON.stringify({ choices: [{ message: { content: text } }], usage })), 1e9);
    t.match(whole.result(11), expected, JSON.stringify(usage));
  }
  const uncounted = new UsageWatch({ strip: true, bytesPerToken: 4 });
  pass(
    uncounted,
    CHAT,
    Buffer.from(JSON.stringify({ id: 'long'.repeat(50), choices: [{ message: { content: text } }] })),
    1e9,
  );
  t.match(uncounted.result(11), { promptTokens: 11, completionTokens: 3, measured: false });
});

t.test('a JSON answer without output delivers nothing', async (t) => {
  for (const text of [
    '{}',
    '{"object":"error","message":"no"}',
    '{"choices":[],"usage":{"prompt_tokens":5}}',
    '{"detail":"x"}',
  ]) {
    const watch = new UsageWatch({ bytesPerToken: 4 });
    pass(watch, CHAT, Buffer.from(text), 1e9);
    t.equal(watch.delivered, false, text);
  }
});

t.test('of a truncated messages stream the prompt is counted and the response estimated', async (t) => {
  const event = (type: string, more: object): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
  const usage = { input_tokens: 5, cache_read_input_tokens: 20, output_tokens: 1 };
  const start = event('message_start', { message: { usage } }) + event('content_block_start', {});
  const delta = event('content_block_delta', { delta: { text: 'word' } });
  const cut = new UsageWatch({ bytesPerToken: 4 });
  passed(cut, [start, delta, delta, delta, delta, delta, delta], DIALECTS.messages);
  t.same(cut.result(99), {
    promptTokens: 25,
    completionTokens: 6,
    cachedTokens: 20,
    saysCached: true,
    measured: false,
  });
  const whole = new UsageWatch({ bytesPerToken: 4 });
  const end = event('message_delta', { usage: { output_tokens: 6 } }) + event('message_stop', {});
  passed(whole, [start, delta, delta, delta, end], DIALECTS.messages);
  t.same(whole.result(99), {
    promptTokens: 25,
    completionTokens: 6,
    cachedTokens: 20,
    saysCached: true,
    measured: true,
  });
});

t.test('reads a JSON response in one piece, in many, and at its end when it is long', async (t) => {
  const answer = Buffer.from(JSON.stringify({ choices: [{ text: 'x'.repeat(200) }], usage: USAGE }));
  const read = (size: number, whole: Buffer): object => {
    const watch = new UsageWatch({ bytesPerToken: 4 });
    pass(watch, undefined, whole, size);
    return watch.result(1);
  };
  const counted = { promptTokens: 9, completionTokens: 3, cachedTokens: 4, saysCached: true, measured: true };
  t.same(read(1e9, answer), counted);
  t.same(read(7, answer), counted);
  const long = Buffer.from(JSON.stringify({ data: 'y'.repeat(3_000_000), usage: USAGE }));
  t.same(read(65_536, long), counted);
  t.match(read(1e9, Buffer.from('{"choices":[]}')), { promptTokens: 1, measured: false });
  t.match(read(1e9, Buffer.from('no json')), { promptTokens: 1, completionTokens: 2, measured: false });
});

t.test('begin forgets the response before', async (t) => {
  const watch = new UsageWatch({ bytesPerToken: 4 });
  pass(watch, undefined, Buffer.from(JSON.stringify({ usage: USAGE })), 1e9);
  t.equal(watch.delivered, true);
  watch.begin(judgeOf(undefined, STREAM));
  t.equal(watch.delivered, false);
  t.match(watch.result(2), { promptTokens: 2, completionTokens: 0, measured: false });
});

t.test('ignores counts above the possible', async (t) => {
  const watch = new UsageWatch({ bytesPerToken: 4 });
  const usage = { prompt_tokens: 1e15, completion_tokens: 1e15 };
  pass(watch, CHAT, Buffer.from(JSON.stringify({ choices: [], usage })), 1e9);
  t.match(watch.result(7), { promptTokens: 7, measured: false });
  passed(watch, [word('a'), chat({ choices: [], usage })]);
  t.match(watch.result(7), { promptTokens: 7, measured: false });
});

t.test('comments, usage events and errors alone deliver nothing', async (t) => {
  for (const [path, pieces] of [
    ['/v1/chat/completions', [': ping\n\n', ': ping\n\n']],
    ['/v1/chat/completions', [LAST]],
    ['/v1/chat/completions', ['data: {"error":{"message":"out of memory"}}\n\n', 'data: [DONE]\n\n']],
    ['/v1/messages', ['event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n']],
  ] as const) {
    const watch = new UsageWatch({ strip: true, bytesPerToken: 4 });
    passed(watch, pieces, dialectOf(path));
    t.equal(watch.delivered, false, pieces[0]);
  }
  const watch = new UsageWatch({ strip: true, bytesPerToken: 4 });
  passed(watch, [': ping\n\n', word('a')]);
  t.equal(watch.delivered, true);
  t.match(watch.result(5), { promptTokens: 5, completionTokens: 1 });
});

t.test('null and nested usage members, white space and cut values do not hide the counts', async (t) => {
  const usage = '{"prompt_tokens":9,"completion_tokens":3}';
  const counted = tokens(9, 3);
  for (const text of [
    `data: {"usage":null}\n\ndata: {"usage" :\t${usage}}\n\n`,
    `data: {"usage": ${usage}}\n\ndata: {"usage":null}\n\ndata: [DONE]\n\n`,
    `data: {"usage":{"details":{"usage":${usage}}}}\n\n`,
    `data: {"usage":${usage},"usage":"none","usage":[1],"usage":7}\n\ndata: {"usage":{"prompt_tokens":`,
    `data: {"usage":${usage}}\n\ndata: {"usage"`,
    `data: {"usage":${usage}}\n\ndata: {"usage": `,
  ]) {
    t.same(usageIn(DIALECTS['chat-completions'], Buffer.from(text)), counted, text);
  }
  const frame =
    'data: {"timings":{"prompt_n":1},"tokens_predicted":2}\n\ndata: {"tokens_predicted":5,"timings":{"prompt_n":4';
  t.same(usageIn(DIALECTS.llama, Buffer.from(frame)), tokens(1, 5, 0));
});

t.test('the counts in an event that is too long to be held are read, wherever it is cut', async (t) => {
  const long = 'x'.repeat(9000);
  const completed = `event: response.completed\ndata: ${JSON.stringify({
    type: 'response.completed',
    response: { output: [long], usage: numbered, more: long },
  })}\n\n`;
  const bytes = Buffer.from(
    `data: ${JSON.stringify({ type: 'response.output_text.delta', delta: 'a' })}\n\n${completed}`,
  );
  for (const size of [1, 7, 100, 4000, 9100, 9200, 1e6]) {
    const splitter = new EventSplitter({ maxHeldBytes: 64 });
    const judge = judgeOf(DIALECTS.responses, STREAM);
    const watch = new UsageWatch({ bytesPerToken: 4 });
    watch.begin(judge);
    for (let at = 0; at < bytes.length; at += size) {
      const piece = splitter.push(bytes.subarray(at, at + size));
      if (piece === undefined) continue;
      judge.events(piece, splitter.midEvent);
      watch.events(piece, splitter.midEvent);
    }
    t.same(watch.result(1), { ...metered(10, 4, 3), measured: true }, `reads of ${size} bytes`);
    t.equal(judge.complete, true);
  }
});

t.test('counts that a client has written into its request are not those of a response that is left', async (t) => {
  const tools = [{ type: 'function', parameters: { usage: { input_tokens: 1, output_tokens: 16 } } }];
  const text = 'x'.repeat(4000);
  for (const maxHeldBytes of [64, 1e6]) {
    const splitter = new EventSplitter({ maxHeldBytes });
    const judge = judgeOf(DIALECTS.responses, STREAM);
    const watch = new UsageWatch({ bytesPerToken: 4 });
    watch.begin(judge);
    const pass = (event: object): void => {
      const piece = splitter.push(Buffer.from(sse(event))) as Buffer;
      judge.events(piece, splitter.midEvent);
      watch.events(piece, splitter.midEvent);
    };
    pass({ type: 'response.created', response: { tools, usage: null } });
    pass({ type: 'response.output_text.delta', delta: text });
    t.match(watch.result(7), { promptTokens: 7, measured: false });
    t.ok(watch.result(7).completionTokens >= 1000);
    pass({ type: 'response.completed', response: { tools, usage: { input_tokens: 10, output_tokens: 900 } } });
    t.same(watch.result(7), { ...metered(10, 900), measured: true });
  }
  const judge = judgeOf(DIALECTS.responses, WHOLE);
  const watch = new UsageWatch({ bytesPerToken: 4 });
  watch.begin(judge);
  const part = Buffer.from(`{"tools":${JSON.stringify(tools)},"output":["${'x'.repeat(300_000)}`);
  t.equal(judge.data(part), 'begun');
  watch.data(part);
  t.same(watch.result(7), { ...metered(7, Math.ceil(part.byteLength / 4)), measured: false });
});

t.test('counts that a client has written into its request are not those of a response that is complete', async (t) => {
  const pass = (usage: object | null, planted: number): object => {
    const tools = [{ type: 'function', parameters: { usage: { input_tokens: planted, output_tokens: planted } } }];
    const judge = judgeOf(DIALECTS.responses, STREAM);
    const watch = new UsageWatch({ bytesPerToken: 4 });
    watch.begin(judge);
    for (const event of [
      { type: 'response.created', response: { tools, usage: null } },
      { type: 'response.output_text.delta', delta: 'x'.repeat(400) },
      { type: 'response.completed', response: { tools, usage } },
    ]) {
      const piece = Buffer.from(sse(event));
      judge.events(piece);
      watch.events(piece);
    }
    return watch.result(7);
  };
  t.same(pass(numbered, 9000), { ...metered(10, 4, 3), measured: true }, 'larger ones');
  t.same(pass(numbered, 1), { ...metered(10, 4, 3), measured: true }, 'smaller ones');
  t.same(pass(null, 1), { ...metered(7, 100), measured: false }, 'where the server counts nothing');
});

t.test('only output that has passed is delivered', async (t) => {
  const html: AnswerHead = { ...WHOLE, contentType: 'text/html' };
  const wholes: [string, AnswerHead, string, boolean][] = [
    ['HTML', html, '<html></html>', false],
    ['error JSON', WHOLE, '{"error":{"message":"no"},"usage":{"prompt_tokens":5}}', false],
    ['cut JSON', WHOLE, '{"choices":[{"text":"abc', false],
    ['nothing', WHOLE, '', false],
    ['an answer', WHOLE, '{"choices":[{"text":"abc"}]}', true],
  ];
  for (const [title, head, text, expected] of wholes) {
    const judge = judgeOf(CHAT, head);
    const watch = new UsageWatch({ bytesPerToken: 4 });
    watch.begin(judge);
    const body = Buffer.from(text);
    judge.data(body);
    const failure = judge.end(body, true);
    t.equal(failure === null, expected, title);
    if (failure === null) {
      t.equal(watch.delivered, false, 'nothing has passed');
      watch.data(body);
    }
    t.equal(watch.delivered, expected, title);
  }
  const held = judgeOf(CHAT, STREAM);
  const watch = new UsageWatch({ bytesPerToken: 4 });
  watch.begin(held);
  held.events(Buffer.from(word('a')));
  t.equal(watch.delivered, false, 'an answer that has begun and is still held');
  watch.events(Buffer.from(word('a')));
  t.equal(watch.delivered, true);
});

t.test('several llama-style answers are estimated: each has counts of its own', async (t) => {
  const frame = (index: number, stop: boolean): string =>
    sse({ index, content: stop ? '' : 'a word, or', stop, tokens_evaluated: 4, tokens_predicted: 3, timings });
  const judge = new AnswerJudge(DIALECTS.llama, 2, true);
  judge.begin(STREAM);
  const watch = new UsageWatch({ bytesPerToken: 4 });
  watch.begin(judge);
  for (const text of [
    frame(0, false),
    frame(1, false),
    frame(1, false),
    frame(1, true),
    frame(0, false),
    frame(0, true),
  ]) {
    judge.events(Buffer.from(text));
    watch.events(Buffer.from(text));
  }
  t.match(watch.result(20), { promptTokens: 20, completionTokens: 10, measured: false });
  const whole = new UsageWatch({ bytesPerToken: 4 });
  pass(
    whole,
    DIALECTS.llama,
    Buffer.from(JSON.stringify([{ content: 'a', tokens_evaluated: 4 }, { content: 'b' }])),
    1e9,
  );
  t.match(whole.result(20), { promptTokens: 20, measured: false });
});

t.test('usage objects are read as a parser reads them', async () => {
  const names = ['prompt_tokens', 'completion_tokens', 'input_tokens', 'output_tokens', 'cache_read_input_tokens'];
  const detailed = ['prompt_tokens_details', 'input_tokens_details', 'other'];
  const value = fc.oneof(
    fc.nat(200_000_000).map(String),
    fc.constantFrom('null', '-1', '5.0', '5.5', '1e2', '"7"', '18446744073709551616', 'true', '[1]', '{}'),
  );
  const detail = fc.oneof(
    value,
    fc
      .array(fc.tuple(fc.constantFrom('cached_tokens', 'audio'), value), { maxLength: 3 })
      .map((members) => `{${members.map(([name, text]) => `"${name}": ${text}`).join(' , ')}}`),
  );
  const members = fc.array(
    fc.oneof(fc.tuple(fc.constantFrom(...names), value), fc.tuple(fc.constantFrom(...detailed), detail)),
    { maxLength: 6 },
  );
  fc.assert(
    fc.property(fc.constantFrom<DialectName>('chat-completions', 'responses', 'messages'), members, (name, each) => {
      const text = `{${each.map(([member, printed]) => `"${member}":${printed}`).join(',')}}`;
      const dialect = DIALECTS[name];
      const read = usageIn(dialect, Buffer.from(`data: {"usage":${text}}\n\n`));
      return isDeepStrictEqual(read, dialect.usage({ usage: JSON.parse(text) }));
    }),
    { numRuns: 3000 },
  );
});

/** Passes whole events one by one, with the judge that such a watch asks for; returns what went to the client, and the counts. */
function passLightly(
  watch: UsageWatch,
  dialect: Dialect,
  events: readonly string[],
): readonly [string, Usage | undefined] {
  const judge = new AnswerJudge(dialect, 1, true);
  judge.begin(STREAM);
  watch.begin(judge);
  const passed = events
    .map((event) => {
      const piece = Buffer.from(event);
      judge.events(piece);
      return watch.events(piece)?.toString() ?? '';
    })
    .join('');
  return [passed, watch.counted(judge)];
}

t.test(
  'a watch that does not read every event reads what the CRN counts at the end, and passes every byte',
  async (t) => {
    const usage = { prompt_tokens: 90, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 64 } };
    const responseUsage = { input_tokens: 90, output_tokens: 3, input_tokens_details: { cached_tokens: 64 } };
    const messageUsage = { input_tokens: 26, cache_read_input_tokens: 64, output_tokens: 1 };
    const word = { choices: [{ index: 0, delta: { content: 'a' } }] };
    const last = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
    const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
    const cases: readonly (readonly [DialectName, readonly string[], Usage | undefined])[] = [
      [
        'chat-completions',
        [data(word), data(last), data({ choices: [], usage }), 'data: [DONE]\n\n'],
        tokens(90, 3, 64),
      ],
      ['chat-completions', [data(word), data({ ...last, usage }) + 'data: [DONE]\n\n'], tokens(90, 3, 64)],
      ['chat-completions', [data(word), data(last), 'data: [DONE]\n\n'], undefined],
      ['chat-completions', [data({ ...word, usage }), data(word)], undefined],
      [
        'responses',
        [
          data({ type: 'response.created', response: { tools: [{ usage: { input_tokens: 1, output_tokens: 1 } }] } }),
          data({ type: 'response.output_text.delta', delta: 'a' }),
          data({ type: 'response.completed', response: { usage: responseUsage } }),
        ],
        tokens(90, 3, 64),
      ],
      [
        'messages',
        [
          data({ type: 'message_start', message: { content: [], usage: messageUsage } }),
          data({ type: 'content_block_delta', delta: { text: 'a' } }),
          data({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 3 } }),
          data({ type: 'message_stop' }),
        ],
        tokens(90, 3, 64),
      ],
      [
        'llama',
        [
          data({ content: 'a', stop: false }),
          data({ content: '', stop: true, timings: { cache_n: 64, prompt_n: 26, predicted_n: 3 } }),
        ],
        tokens(90, 3, 64),
      ],
    ];
    for (const [name, events, expected] of cases) {
      const watch = new UsageWatch({ bytesPerToken: 4, readsEveryEvent: false });
      const [passed, counted] = passLightly(watch, DIALECTS[name], events);
      t.equal(passed, events.join(''), name);
      t.same(counted, expected, `${name}: ${events.join('')}`);
    }
  },
);

t.test('a watch that does not read every event reads whole answers, held or not', async (t) => {
  const usage = { prompt_tokens: 90, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 0 } };
  const whole = (text: string): Usage | undefined => {
    const body = Buffer.from(JSON.stringify({ choices: [{ message: { content: text } }], usage }));
    const watch = new UsageWatch({ bytesPerToken: 4, readsEveryEvent: false });
    const judge = new AnswerJudge(DIALECTS['chat-completions'], 1, true);
    judge.begin(WHOLE);
    const isHeld = judge.data(body) === 'undecided';
    judge.end(isHeld ? body : Buffer.alloc(0), false);
    watch.begin(judge);
    watch.data(body);
    return watch.counted(judge);
  };
  t.same(whole('hello'), tokens(90, 3, 0));
  t.same(whole('x'.repeat(300_000)), tokens(90, 3, 0));
});

t.test('an answer of two CRNs has no counts of its own', async (t) => {
  const dialect = DIALECTS['chat-completions'];
  const usage = { prompt_tokens: 90, completion_tokens: 3 };
  const end = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage })}\n\n`;
  const watch = new UsageWatch({ bytesPerToken: 4 });
  const judge = judgeOf(dialect, STREAM);
  watch.begin(judge);
  const word = Buffer.from('data: {"choices":[{"index":0,"delta":{"content":"some text"}}]}\n\n');
  judge.events(word);
  watch.events(word);
  const next = judgeOf(dialect, STREAM);
  watch.resume(next);
  next.events(Buffer.from(end));
  watch.events(Buffer.from(end));
  t.match(watch.result(0), { measured: false });
  t.equal(watch.counted(next), undefined);
  t.equal(watch.counted(judge), undefined);
});
