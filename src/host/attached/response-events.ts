// Events of the Responses API as official clients need them. llama-server leaves out the numbers of events, items and parts, by
// which the clients put an answer together; all else passes as it is.
import { EventSplitter, parseEvents } from '../../net/sse.ts';
import { type JsonObject, objectOf, parsed } from './engine-http.ts';

/** The last event repeats the whole answer. */
const MAX_EVENT_BYTES = 128 * 1024 * 1024;

/** The same stream with `sequence_number`, `output_index` and `content_index` where they are missing. */
export async function* withIndexes(body: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, void> {
  const splitter = new EventSplitter({ maxHeldBytes: MAX_EVENT_BYTES });
  const numbering = new Numbering();
  for await (const chunk of body) {
    const whole = splitter.push(Buffer.from(chunk));
    if (whole === undefined) continue;
    const frames = parseEvents(whole.toString()).map(({ event, data }) => {
      const value = parsed(data);
      const name = event === '' ? '' : `event: ${event}\n`;
      if (typeof value !== 'object' || value === null) return `${name}data: ${data}\n\n`;
      return `${name}data: ${JSON.stringify(numbering.complete(objectOf(value)))}\n\n`;
    });
    if (frames.length > 0) yield Buffer.from(frames.join(''));
  }
}

/** Events about a part of a message. */
const OF_PARTS = /^response\.(content_part|output_text|refusal|reasoning_text)\./;

/** Numbers the events and items of one answer. */
class Numbering {
  readonly #items = new Map<unknown, number>();
  #events = 0;

  complete(event: JsonObject): JsonObject {
    const sequence_number = this.#events++;
    const type = String(event['type']);
    const item = event['item_id'] ?? objectOf(event['item'])['id'];
    if (item === undefined) return { sequence_number, ...event, ...responseOf(event) };
    let index = this.#items.get(item);
    if (index === undefined) this.#items.set(item, (index = this.#items.size));
    const content = OF_PARTS.test(type) ? { content_index: 0 } : {};
    return { sequence_number, output_index: index, ...content, ...event, ...partOf(event) };
  }
}

/** A response that has only begun has no output yet. */
function responseOf({ response }: JsonObject): JsonObject {
  if (typeof response !== 'object' || response === null || 'output' in response) return {};
  return { response: { ...response, output: [] } };
}

function partOf({ part }: JsonObject): JsonObject {
  const { type, annotations } = objectOf(part);
  return type === 'output_text' && annotations === undefined ? { part: { ...objectOf(part), annotations: [] } } : {};
}
