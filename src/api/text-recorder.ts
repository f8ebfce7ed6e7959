// Keeps what was asked and answered as text, for the request log where the setting `requestLog.prompts` allows it. The answer passes
// unchanged; up to 1 MiB of it is copied, and read once the request is over.

import type { Exchange } from '../ingress/exchange.ts';
import { parseEvents } from '../net/sse.ts';
import type { RequestTexts } from '../telemetry/request-log.ts';
import { type Downstream, DownstreamTap } from '../upstream/index.ts';
import { isJsonObject, parsedJson } from '../net/json-object.ts';

/** Most bytes of an answer that are copied. An event of a stream takes some 200 bytes for a token. */
const COPIED_BYTES = 1024 * 1024;

export class TextRecorder extends DownstreamTap {
  readonly #body: Buffer;
  readonly #length: number;
  readonly #pieces: Buffer[] = [];
  #bytes = 0;

  /** `length`: characters that are kept of the prompt and of the answer. */
  constructor(exchange: Exchange, downstream: Downstream, body: Buffer, length: number) {
    super(downstream);
    this.#body = body;
    this.#length = length;
    exchange.texts = this;
  }

  texts(): RequestTexts {
    const prompt = promptText(this.#body);
    const answer = answerText(Buffer.concat(this.#pieces).toString());
    return { prompt: flat(prompt.slice(-this.#length)), answer: flat(answer.slice(0, this.#length)) };
  }

  override write(chunk: Uint8Array): boolean {
    this.#copy(chunk);
    return super.write(chunk);
  }

  override end(chunk?: Uint8Array): void {
    if (chunk !== undefined) this.#copy(chunk);
    super.end(chunk);
  }

  #copy(chunk: Uint8Array): void {
    const rest = COPIED_BYTES - this.#bytes;
    if (rest <= 0) return;
    const piece = Buffer.from(chunk.subarray(0, rest));
    this.#pieces.push(piece);
    this.#bytes += piece.byteLength;
  }
}

/** A part of a text keeps all of it in memory. */
function flat(text: string): string {
  return Buffer.from(text).toString();
}

/** The text of a request body in any dialect, one paragraph for each message; of an unknown form its JSON. */
export function promptText(body: Buffer): string {
  const text = body.toString();
  const request = parsedJson(text);
  if (!isJsonObject(request)) return text;
  const { input, instructions, messages, prompt, system } = request;
  const asked = messages ?? input ?? prompt;
  if (asked === undefined) return text;
  const parts = [system, instructions, ...(Array.isArray(asked) ? (asked as unknown[]) : [asked])];
  return parts
    .map((part) => {
      const content = contentText(part);
      return isJsonObject(part) && typeof part['role'] === 'string' ? `${part['role']}: ${content}` : content;
    })
    .filter((part) => part !== '')
    .join('\n\n');
}

/** The text of an answer in any dialect, a stream or whole; of an unknown form as it came. */
export function answerText(text: string): string {
  const whole = parsedJson(text);
  if (isJsonObject(whole)) return contentText(whole) || text;
  const found: string[] = [];
  for (const { data } of parseEvents(text)) {
    const event = parsedJson(data);
    if (!isJsonObject(event)) continue;
    // The last events of responses repeat all of what came before.
    const isRepeat =
      typeof event['type'] === 'string' && /\.(?:done|completed|added|created|in_progress)$/.test(event['type']);
    if (!isRepeat) found.push(deltaText(event));
  }
  return found.join('') || text;
}

function deltaText(event: Readonly<Record<string, unknown>>): string {
  const { choices, content, delta } = event;
  if (Array.isArray(choices)) {
    return choices
      .map((choice) => (isJsonObject(choice) ? contentText(choice['delta'] ?? choice['text']) : ''))
      .join('');
  }
  return contentText(delta ?? content);
}

/** Members that hold text, in the order in which models write them. */
const TEXT_MEMBERS = [
  ...['reasoning_content', 'reasoning', 'thinking', 'summary', 'content', 'text', 'refusal', 'output'],
  ...['message', 'choices', 'tool_calls', 'function', 'name', 'arguments', 'partial_json', 'input', 'query'],
];

/** The texts of a message or a part of one; pictures and files are left out. */
function contentText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(contentText).join('');
  if (!isJsonObject(value)) return '';
  const texts = TEXT_MEMBERS.map((name) => contentText(value[name])).filter((text) => text !== '');
  return texts.join(typeof value['name'] === 'string' ? ' ' : '');
}
