// Cases of reading the prompt of a chat as hashed blocks, alone and with the choice among 8 CRNs by what they hold of it: bodies from
// 1 KB to 1 MB with the messages of a coding agent, that is with an escaped line end about every 60 bytes; and bodies of 100 KB that differ
// in what their text consists of.

import { createPlanes, pickerDefaults } from '../../lib/picker-planes.mjs';

const LINE = 'const level = gauge.read(intake) ?? limits.least; // of the weir\n';

/** A chat of `bytes` with messages of up to 8 KB. */
function chatOf(bytes, number = 0) {
  const messages = [{ role: 'system', content: `You change code of project ${number}. ` }];
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

const TEXT_BYTES = 100_000;

/** One message of about `TEXT_BYTES` in JSON. */
function bodyOf(text, write = JSON.stringify) {
  const count = Math.ceil(TEXT_BYTES / Buffer.byteLength(write(text)));
  return Buffer.from(write({ model: 'atlas-27b', messages: [{ role: 'user', content: text.repeat(count) }] }));
}

/** Other writers of JSON escape all that is not ASCII. */
function asciiJson(value) {
  const escaped = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value).replace(/[\u0080-\uffff]/g, escaped);
}

/** Tools with schemas, and turns of a few hundred bytes. */
function agentBody() {
  const properties = Object.fromEntries(
    Array.from({ length: 8 }, (_, at) => [
      `value_${at}`,
      { type: 'string', description: 'A value, "quoted".\nOr none.' },
    ]),
  );
  const tools = Array.from({ length: 40 }, (_, at) => ({
    ...{ name: `tool_${at}`, description: LINE.repeat(8) },
    input_schema: { type: 'object', properties, required: ['value_0'], additionalProperties: false },
  }));
  const messages = Array.from({ length: 80 }, (_, at) =>
    at % 2 === 0
      ? { role: 'user', content: [{ type: 'tool_result', tool_use_id: `call_${at}`, content: LINE.repeat(6) }] }
      : {
          role: 'assistant',
          content: [{ type: 'tool_use', id: `call_${at}`, name: 'tool_1', input: { value_0: LINE } }],
        },
  );
  return Buffer.from(JSON.stringify({ model: 'atlas-27b', tools, messages, system: LINE.repeat(100) }));
}

const TEXTS = {
  plain: bodyOf('Explain the difference once more. '),
  code: bodyOf(LINE),
  'code with quotes': bodyOf('const name = "size";\n\tif (name === "x") return "\\n";\n'),
  'code with quotes, content before role': Buffer.from(
    JSON.stringify({
      messages: [{ content: 'if (a === "x") return;\n'.repeat(TEXT_BYTES / 27), role: 'user' }],
      model: 'm',
    }),
  ),
  Chinese: bodyOf('解释一下两者之间的区别。'),
  'Chinese in escapes': bodyOf('解释一下两者之间的区别。', asciiJson),
  'tools and turns of an agent': agentBody(),
  tokens: Buffer.from(JSON.stringify({ model: 'm', prompt: Array.from({ length: 16_000 }, (_, at) => 10_000 + at) })),
  'an image of 1 MB': Buffer.from(
    JSON.stringify({
      ...{
        model: 'm',
        messages: [
          {
            role: 'user',
            content: [
              { type: 'image_url', image_url: { url: `data:image/png;base64,${'iVBORw0KGgo'.repeat(95_000)}` } },
            ],
          },
        ],
      },
    }),
  ),
};

/** From the largest down, so that the small ones find compiled code, as in a gateway. */
const SIZES = { '1 MB': 1_000_000, '100 KB': 100_000, '10 KB': 10_000, '1 KB': 1000 };

/** Prompts that take turns in the cases of a choice: all are known after the first turn. */
const PROMPTS = 8;
const MEMBERS = 8;

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { DIALECTS } = await load('src/dialect/dialects.js');
  const { scanBody } = await load('src/dialect/index.js');
  const { promptBlocks } = await load('src/dialect/prompt-blocks.js');
  const routing = await load('src/routing/index.js');
  const settings = pickerDefaults(await load('src/config/load.js'));
  const chat = DIALECTS['chat-completions'];
  const readersOf = (bytes) =>
    Array.from({ length: PROMPTS }, (_, number) => {
      const body = chatOf(bytes, number);
      const scanned = scanBody(body);
      return { bytes: body.length, blocks: () => promptBlocks(body, scanned, chat, 7) };
    });
  const read = Object.entries(SIZES).map(([name, bytes]) => [
    `blocks of a prompt, ${name}`,
    readersOf(bytes)[0].blocks,
  ]);
  const choices = Object.entries(SIZES).map(([name, bytes]) => [
    `choice of ${MEMBERS}, ${name}`,
    choiceOf(routing, settings, readersOf(bytes)),
  ]);
  const texts = Object.entries(TEXTS).map(([name, body]) => {
    const scanned = scanBody(body);
    const dialect = DIALECTS[name === 'tokens' ? 'completions' : 'messages'];
    return [`blocks of 100 KB, ${name}`, () => promptBlocks(body, scanned, dialect, 7)];
  });
  return Object.fromEntries([...read, ...choices, ...texts]);
}

/** One choice for a prompt, which is read for it; the request begins and ends at once. */
function choiceOf(routing, settings, prompts) {
  let seed = 1;
  const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const clock = { now: () => 1_000_000 };
  const {
    model,
    planes: [plane],
  } = createPlanes(routing, { count: MEMBERS, clock, random });
  const hints = prompts.map((prompt) => ({
    url: undefined,
    session: 0,
    holder: 0,
    dialectBit: 0,
    translatedBit: 0,
    isUntranslatable: false,
    stream: true,
    ...prompt,
  }));
  let request = 0;
  return () => {
    const candidates = new routing.Candidates(model, plane, settings, hints[request++ % hints.length]);
    const member = candidates.next();
    candidates.prefilled(candidates, 10);
    plane.board.leave(member.server);
  };
}
