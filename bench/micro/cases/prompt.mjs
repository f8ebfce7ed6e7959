// Cases of reading the prompt of a chat as hashed blocks: bodies from 1 KB to 1 MB with the messages of a coding agent, that is with an
// escaped line end about every 60 bytes.

const LINE = 'const level = gauge.read(intake) ?? limits.least; // of the weir\n';

/** A chat of `bytes` with messages of up to 8 KB. */
function chatOf(bytes) {
  const messages = [{ role: 'system', content: 'You change code. ' }];
  const sized = () => Buffer.from(JSON.stringify({ model: 'atlas-27b', messages, max_tokens: 256, stream: true }));
  for (let size = sized().length; bytes - size > 120; size = sized().length) {
    const room = Math.min(bytes - size - 60, 8192);
    const content = LINE.repeat(Math.max(1, Math.floor(room / (LINE.length + 1))));
    messages.push({
      role: messages.length % 2 === 1 ? 'user' : 'assistant',
      content: `${messages.length}: ${content}`,
    });
  }
  return sized();
}

/** From the largest down, so that the small ones find compiled code, as in a gateway. */
const SIZES = { '1 MB': 1_000_000, '100 KB': 100_000, '10 KB': 10_000, '1 KB': 1000 };

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { DIALECTS } = await load('src/dialect/dialects.js');
  const { scanBody } = await load('src/dialect/json-scan.js');
  const { promptBlocks } = await load('src/dialect/prompt-blocks.js');
  const chat = DIALECTS['chat-completions'];
  const named = Object.entries(SIZES).map(([name, bytes]) => {
    const body = chatOf(bytes);
    const scanned = scanBody(body);
    return [`blocks of a prompt, ${name}`, () => promptBlocks(body, scanned, chat, 7)];
  });
  return Object.fromEntries(named);
}
