// Cases of judging answers: a delta event of each dialect once the answer has begun, the events before, 64 events in one read,
// counting tokens beside, and whole answers of 600 bytes with and without their usage.

const HEAD = { status: 200, contentType: 'text/event-stream', encoded: false, contentLength: -1 };
const JSON_HEAD = { ...HEAD, contentType: 'application/json' };

const sse = (name, data) => Buffer.from(`${name === '' ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`);
const named = (data) => sse(data.type, data);
const chunk = (delta) =>
  sse('', {
    id: 'chatcmpl-0123456789abcdef',
    object: 'chat.completion.chunk',
    created: 1_770_000_000,
    model: 'atlas-27b',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: null }],
  });

const STREAMS = {
  'chat-completions': [chunk({ role: 'assistant', content: '' }), chunk({ content: ' water' })],
  completions: [
    null,
    sse('', { id: 'c', choices: [{ index: 0, text: ' water', logprobs: null, finish_reason: null }] }),
  ],
  messages: [
    named({ type: 'message_start', message: { id: 'm', content: [], usage: { input_tokens: 9, output_tokens: 1 } } }),
    named({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: ' water' } }),
  ],
  responses: [
    named({ type: 'response.created', sequence_number: 0, response: { id: 'r', status: 'in_progress', output: [] } }),
    named({ type: 'response.output_text.delta', sequence_number: 4, item_id: 'm', output_index: 0, delta: ' water' }),
  ],
  llama: [null, sse('', { index: 0, content: ' water', tokens: [1234], stop: false, id_slot: 0, tokens_predicted: 4 })],
};

const usage = { prompt_tokens: 42, completion_tokens: 64, total_tokens: 106 };
const message = { role: 'assistant', content: 'The headrace brings water to the wheel. '.repeat(10).slice(0, 320) };
const whole = Buffer.from(
  JSON.stringify({
    id: 'chatcmpl-0123456789abcdef',
    object: 'chat.completion',
    created: 1_770_000_000,
    model: 'atlas-27b',
    choices: [{ index: 0, message, logprobs: null, finish_reason: 'stop' }],
    usage,
    system_fingerprint: 'fp',
  }),
);

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { AnswerJudge } = await load('src/dialect/answer.js');
  const { DIALECTS } = await load('src/dialect/dialects.js');
  const { UsageWatch } = await load('src/dialect/usage.js');
  const begun = (name, choices = 1) => {
    const judge = new AnswerJudge(DIALECTS[name], choices, true);
    judge.begin(HEAD);
    judge.events(STREAMS[name][1]);
    return judge;
  };
  const deltas = Object.entries(STREAMS).map(([name, [, delta]]) => {
    const judge = begun(name);
    return [`event, ${name}`, () => judge.events(delta)];
  });
  const openings = Object.entries(STREAMS).flatMap(([name, [opening]]) => {
    if (opening === null) return [];
    const judge = new AnswerJudge(DIALECTS[name], 1, true);
    const open = () => {
      judge.begin(HEAD);
      judge.events(opening);
    };
    return [[`opening event, ${name}`, open]];
  });
  const [, delta] = STREAMS['chat-completions'];
  const read = Buffer.concat(Array.from({ length: 64 }, () => delta));
  const one = begun('chat-completions');
  const four = begun('chat-completions', 4);
  const watched = begun('chat-completions');
  const watch = new UsageWatch({ strip: true, bytesPerToken: 4 });
  watch.begin(watched);
  const judgeWhole = (counts) => {
    const judge = new AnswerJudge(DIALECTS['chat-completions'], 1, counts);
    return () => {
      judge.begin(JSON_HEAD);
      judge.data(whole);
      return judge.end(whole, false);
    };
  };
  return {
    ...Object.fromEntries([...deltas, ...openings]),
    'event, chat-completions, n = 4': () => four.events(delta),
    '64 events in one read': () => one.events(read),
    'event, tokens counted': () => {
      watched.events(delta);
      return watch.events(delta);
    },
    [`whole answer, ${whole.length} B`]: judgeWhole(false),
    [`whole answer, ${whole.length} B, tokens read`]: judgeWhole(true),
    [`JSON.parse, ${whole.length} B`]: () => JSON.parse(whole.toString('latin1')),
  };
}
