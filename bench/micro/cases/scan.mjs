// Cases of scanning a request body for the keys that routing needs: scanBody on small, escaped and 10 MB bodies, JSON.parse for
// comparison, and the hash of the beginning of a prompt.

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

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { scanBody } = await load('src/dialect/index.js');
  const bodies = {
    '862 B chat': smallBody(),
    'escaped text': escapedBody(),
    '10 MB, model first': imageBody(true),
    '10 MB, model last': imageBody(false),
  };
  const small = bodies['862 B chat'];
  return {
    ...Object.fromEntries(Object.entries(bodies).map(([name, body]) => [`scan, ${name}`, () => scanBody(body)])),
    'JSON.parse, 862 B chat': () => JSON.parse(small.latin1Slice()),
  };
}
