// Cases of splitting a stream into events: EventSplitter with whole events, events cut by the network, CRLF and one large event
// in many reads; and reading the usage from the end of a stream.

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

const tail = Buffer.from(
  `${event.repeat(17)}data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":64}}\n\ndata: [DONE]\n\n`,
);

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { DIALECTS, endsWell } = await load('src/dialect/dialects.js', 'src/dialect/table.js');
  const { usageOfStream } = await load('src/dialect/usage.js');
  const { EventSplitter } = await load('src/net/sse.js');
  const chat = DIALECTS['chat-completions'];
  const split = (chunks) => {
    const splitter = new EventSplitter();
    return () => {
      for (const chunk of chunks) splitter.push(chunk);
    };
  };
  return {
    ...Object.fromEntries(Object.entries(STREAMS).map(([name, chunks]) => [`split, ${name}`, split(chunks)])),
    [`endsWell, ${tail.length} B tail`]: () => endsWell(chat, tail),
    [`usageOfStream, ${tail.length} B tail`]: () => usageOfStream(chat, tail),
  };
}
