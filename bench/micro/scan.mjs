// Times scanBody against JSON.parse on the three bodies that bound the hot path, and prefixHash beside it.
// Run after a build: node bench/micro/scan.mjs. Prints medians in nanoseconds per call.
import { DIALECTS, prefixHash, scanBody } from '../../dist/src/dialect/index.js';
import { medianNs } from './median.mjs';

const SMALL_BYTES = 862;

function smallBody() {
  const system = 'You are a careful assistant. Answer in short sentences and say so when you do not know. ';
  const value = {
    model: 'atlas-27b',
    messages: [
      { role: 'system', content: system.repeat(3) },
      { role: 'user', content: 'How does a headrace differ from a tailrace?' },
      { role: 'assistant', content: 'The headrace brings water to the wheel; the tailrace takes it away.' },
      { role: 'user', content: '' },
    ],
    temperature: 0.7,
    top_p: 0.95,
    max_tokens: 256,
    stream: true,
    stream_options: { include_usage: true },
  };
  const missing = SMALL_BYTES - Buffer.byteLength(JSON.stringify(value));
  value.messages[3].content = 'Explain the difference once more. '.repeat(20).slice(0, missing);
  return Buffer.from(JSON.stringify(value));
}

/** Source code quoted inside a message: an escape every few bytes, the worst case of a string skipper. */
function escapedBody() {
  const line = 'const name = "größe";\n\tif (name === "x") return "\\\\n";\n';
  const content = line.repeat(Math.ceil(92_000 / line.length));
  return Buffer.from(JSON.stringify({ model: 'atlas-27b', messages: [{ role: 'user', content }], stream: true }));
}

function imageBody(modelFirst) {
  const url = `data:image/png;base64,${'iVBORw0KGgo'.repeat(Math.ceil(1e7 / 11))}`;
  const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }];
  return Buffer.from(JSON.stringify(modelFirst ? { model: 'atlas-27b', messages } : { messages, model: 'atlas-27b' }));
}

const BODIES = {
  '862 B chat': smallBody(),
  'escaped text': escapedBody(),
  '10 MB base64, model first': imageBody(true),
  '10 MB base64, model last': imageBody(false),
};

const chat = DIALECTS['chat-completions'];

for (const [name, body] of Object.entries(BODIES)) {
  const scan = scanBody(body);
  const figures = {
    scan: medianNs(() => scanBody(body)),
    'JSON.parse(latin1)': medianNs(() => JSON.parse(body.latin1Slice())),
    'JSON.parse(utf8)': medianNs(() => JSON.parse(body.toString())),
    prefixHash: medianNs(() => prefixHash(body, scan, chat)),
  };
  const row = Object.entries(figures).map(([what, ns]) => `${what} ${ns.toFixed(0)} ns`);
  console.log([name, `${body.length} B`, ...row].join(' | '));
}
