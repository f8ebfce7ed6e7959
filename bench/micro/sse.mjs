// Times EventSplitter per chunk: whole events, events cut by the network, CRLF, one large event in many reads.
// Run after a build: node bench/micro/sse.mjs. Prints medians in nanoseconds per chunk.
import { DIALECTS, endsWell, usageOfStream } from '../../dist/src/dialect/index.js';
import { EventSplitter } from '../../dist/src/net/sse.js';
import { medianNs } from './median.mjs';

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

for (const [name, chunks] of Object.entries(STREAMS)) {
  const splitter = new EventSplitter();
  const ns = medianNs(() => {
    for (const chunk of chunks) splitter.push(chunk);
  });
  console.log(`${name} | ${(ns / chunks.length).toFixed(0)} ns a chunk`);
}

const tail = Buffer.from(
  `${event.repeat(17)}data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":64}}\n\ndata: [DONE]\n\n`,
);
const chat = DIALECTS['chat-completions'];
console.log(`endsWell, ${tail.length} B tail | ${medianNs(() => endsWell(chat, tail)).toFixed(0)} ns`);
console.log(`usageOfStream, ${tail.length} B tail | ${medianNs(() => usageOfStream(chat, tail)).toFixed(0)} ns`);
