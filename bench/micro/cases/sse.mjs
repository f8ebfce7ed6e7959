// Cases of splitting a stream into events: EventSplitter with whole events, events cut by the network, CRLF and one large event
// in many reads; and judging and counting a stream of 64 events, one by one, as the relay does.

const EVENT_BYTES = 225;
const READ_BYTES = 65_536;

const data = `data: ${'x'.repeat(EVENT_BYTES - 8)}`;
const event = `${data}\n\n`;
const cut = event.slice(0, 100);
const large = Buffer.from(`data: ${'x'.repeat(READ_BYTES * 12)}\n\n`);
const reads = Array.from({ length: 13 }, (_, at) => large.subarray(at * READ_BYTES, (at + 1) * READ_BYTES));

const STREAMS = {
  'one event a chunk': [Buffer.from(event)],
  'one CRLF event a chunk': [Buffer.from(`${data}\r\n\r\n`)],
  'ten events a chunk': [Buffer.from(event.repeat(10))],
  'an event in two chunks': [Buffer.from(cut), Buffer.from(event.slice(cut.length))],
  'chunks that end inside events': [Buffer.from(event.slice(cut.length) + event.repeat(4) + cut)],
  'a 768 KiB event in 64 KiB reads': reads,
};

const chatEvent = (delta, finish) =>
  Buffer.from(`data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
const CHAT = [
  chatEvent({ role: 'assistant' }, null),
  ...Array.from({ length: 61 }, () => chatEvent({ content: ' a word or two' }, null)),
  chatEvent({}, 'stop'),
  Buffer.from('data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":64}}\n\ndata: [DONE]\n\n'),
];
const HEAD = { status: 200, contentType: 'text/event-stream', encoded: false, contentLength: -1 };

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { DIALECTS } = await load('src/dialect/dialects.js', 'src/dialect/table.js');
  const { AnswerJudge, UsageWatch } = await load('src/dialect/index.js');
  const { EventSplitter } = await load('src/net/sse.js');
  const chat = DIALECTS['chat-completions'];
  const split = (chunks) => {
    const splitter = new EventSplitter();
    return () => {
      for (const chunk of chunks) splitter.push(chunk);
    };
  };
  const judge = () => {
    const judge = new AnswerJudge(chat, 1);
    judge.begin(HEAD);
    for (const piece of CHAT) judge.events(piece);
    if (!judge.complete) throw new Error('the stream is not complete');
  };
  const watch = () => {
    const judge = new AnswerJudge(chat, 1);
    const usage = new UsageWatch({ bytesPerToken: 4 });
    judge.begin(HEAD);
    usage.begin(judge);
    for (const piece of CHAT) {
      judge.events(piece);
      usage.events(piece);
    }
    if (usage.result(9).completionTokens !== 64) throw new Error('other tokens');
  };
  return {
    ...Object.fromEntries(Object.entries(STREAMS).map(([name, chunks]) => [`split, ${name}`, split(chunks)])),
    'judge 64 events': judge,
    'judge and count 64 events': watch,
  };
}
