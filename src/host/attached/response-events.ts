// Events of the Responses API as official clients need them. llama-server leaves out the numbers of events, items and parts, by
// which the clients put an answer together; all else passes as it is.
import { EventSplitter, isWholeButItsEnd, parseEvents } from '../../net/sse.ts';
import { membersOf, parsedJson } from '../../net/json-object.ts';
import { type JsonObject } from './engine-http.ts';

/** The last event repeats the prompt or the whole answer, so an event may be as large as a request. */
const MAX_EVENT_BYTES = 128 * 1024 * 1024;

/** The text of whole events, some at a time. The blank line behind the last event may be missing. */
export async function* wholeEvents(body: AsyncIterable<Buffer>): AsyncGenerator<string, void, void> {
  const splitter = new EventSplitter({ maxHeldBytes: MAX_EVENT_BYTES });
  for await (const chunk of body) {
    const whole = splitter.push(chunk);
    if (whole !== undefined) yield whole.toString();
  }
  const rest = splitter.take();
  if (isWholeButItsEnd(rest)) yield `${rest.toString()}\n\n`;
}

/** The same stream with `sequence_number`, `output_index` and `content_index` where they are missing. */
export async function* withIndexes(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
  const numbering = new Numbering();
  for await (const events of wholeEvents(body)) {
    yield Buffer.from(
      events
        .split(BEHIND_BLANK_LINE)
        .map((event) => withNumbers(event, numbering))
        .join(''),
    );
  }
}

const BEHIND_BLANK_LINE = /(?<=\n\r?\n|\r\r)/;

/** The text of one event with other data; what is not about an object stays as it is. */
function withNumbers(text: string, numbering: Numbering): string {
  const value = parsedJson(parseEvents(text)[0]?.data ?? '');
  if (typeof value !== 'object' || value === null) return text;
  const others = text.split(/\r\n|\n|\r/).filter((line) => line !== '' && !/^\uFEFF?data(?::|$)/.test(line));
  return [...others, `data: ${JSON.stringify(numbering.complete(membersOf(value)))}`, '', ''].join('\n');
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
    const item = event['item_id'] ?? membersOf(event['item'])['id'];
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
  const { type, annotations } = membersOf(part);
  return type === 'output_text' && annotations === undefined ? { part: { ...membersOf(part), annotations: [] } } : {};
}
