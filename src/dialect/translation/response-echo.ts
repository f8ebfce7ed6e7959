// What a response object repeats of its request, and what the answer needs to know of the request's tools. Values are copied as
// they were written; what the request leaves out or sets to null has the default of the official API.

import { CHECKED_DEPTH, readString, scanMembers } from '../json-scan.ts';
import { found, memberTable } from '../member-table.ts';
import { JsonTape } from '../json-tape.ts';

/** A tool as the client knows it, where a server of chat completions knows a function in its place. */
export interface CalledTool {
  /**
   * Kind of the item that calls it: `function_call`, `custom_tool_call` (the text `input` of the arguments), `local_shell_call` (the
   * arguments are its action but for `type: exec`) or `tool_search_call` (with `execution: client` and the arguments as an object).
   */
  readonly type: 'function' | 'custom' | 'local_shell' | 'tool_search';
  readonly name: string;
  /** The namespace that holds a function or a custom tool; a member of the item that calls it. */
  readonly namespace?: string;
}

/** Members of the response object that repeat the request, with their defaults. */
const DEFAULTS: Readonly<Record<string, string>> = {
  background: 'false',
  frequency_penalty: '0',
  instructions: 'null',
  max_output_tokens: 'null',
  max_tool_calls: 'null',
  metadata: '{}',
  parallel_tool_calls: 'true',
  presence_penalty: '0',
  previous_response_id: 'null',
  prompt_cache_key: 'null',
  reasoning: '{"effort":null,"summary":null}',
  safety_identifier: 'null',
  store: 'true',
  temperature: '1',
  text: '{"format":{"type":"text"}}',
  tool_choice: '"auto"',
  tools: '[]',
  top_logprobs: '0',
  top_p: '1',
  truncation: '"disabled"',
  user: 'null',
};

const REPEATED = Object.keys(DEFAULTS);
const MODEL = 2 * REPEATED.length;
const SERVICE_TIER = MODEL + 2;
const INCLUDE = SERVICE_TIER + 2;
const MEMBERS = memberTable([...REPEATED, 'model', 'service_tier', 'include']);
const OPAQUE_REASONING = Buffer.from('"reasoning.encrypted_content"');
const SEARCH_SOURCES = Buffer.from('"web_search_call.action.sources"');
const FORMAT = memberTable(['format']);

/** What stands before the value of each member. */
const KEYS = REPEATED.map((name, index) => Buffer.from(`${index === 0 ? '' : ','}"${name}":`));

/** The members from `first` to before `end` with their defaults. Most requests say the same few members. */
function defaults(first: number, end: number): Buffer {
  const place = first * (REPEATED.length + 1) + end;
  const known = RUNS.get(place);
  if (known !== undefined) return known;
  const run = REPEATED.slice(first, end).flatMap((name, at) => [KEYS[first + at], DEFAULTS[name]]);
  const bytes = Buffer.from(run.join(''));
  RUNS.set(place, bytes);
  return bytes;
}
const RUNS = new Map<number, Buffer>();

const PREVIOUS = REPEATED.indexOf('previous_response_id');
const TEXT = REPEATED.indexOf('text');
const WITH_FORMAT = Buffer.from('{"format":{"type":"text"}');
const COMMA = Buffer.from(',');

const NULL = 0x6e;
const OPEN_OBJECT = 0x7b;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;

/** Where the members that are repeated stand in the request on the tape; for `ResponseEcho`. */
export function repeatedSpans(tape: JsonTape): readonly number[] {
  const spans = MEMBERS.absent.slice();
  for (let key = tape.first(JsonTape.ROOT), end = tape.next(JsonTape.ROOT); key < end;) {
    const value = tape.valueOf(key);
    const place = MEMBERS.places[tape.name(key)] as number;
    if (place >= 0) {
      spans[2 * place] = tape.start(value);
      spans[2 * place + 1] = tape.end(value);
    }
    key = tape.next(value);
  }
  return spans;
}

/** A response object without output: what the request says, and the defaults of the official API. */
export function emptyResponse(
  request: Buffer,
  { createdS, ...own }: { id: string; status: string; model: string; createdS: number; usage: object | null },
): Buffer {
  const members = JSON.stringify({
    ...{ object: 'response', created_at: createdS, error: null, incomplete_details: null, output: [] },
    ...own,
  });
  return Buffer.concat([
    Buffer.from(`${members.slice(0, -1)},`),
    new ResponseEcho(request, null).members,
    Buffer.from('}'),
  ]);
}

/** What the answer to one request repeats of it. Copies nothing until it is asked. */
export class ResponseEcho {
  readonly #request: Buffer;
  readonly #tools: ReadonlyMap<string, CalledTool> | null;
  readonly #continues: string;
  #spans: readonly number[] | null;
  #parts: readonly Buffer[] | null = null;

  /**
   * @param request a well-formed body of the responses dialect
   * @param tools what stands behind functions of the translated request, by the name that the server knows; null when all are as
   *   the client sent them
   * @param spans of the members in the request. Default: they are read
   * @param continues id of the response that is continued, where the request does not name it any more
   */
  constructor(
    request: Buffer,
    tools: ReadonlyMap<string, CalledTool> | null,
    spans: readonly number[] | null = null,
    continues = '',
  ) {
    this.#request = request;
    this.#tools = tools;
    this.#spans = spans;
    this.#continues = continues;
  }

  /** The tool that a call of the function `name` means. */
  toolOf(name: string): CalledTool {
    return this.#tools?.get(name) ?? { type: 'function', name };
  }

  /** `model` of the request; '' when it has none. */
  get model(): string {
    const { start, end } = this.#span(MODEL);
    return start < 0 ? '' : (readString(this.#request, start, end) ?? '');
  }

  /** `service_tier` of the request as JSON; `"auto"` when it has none. The server's own word is better. */
  get serviceTier(): string {
    const { start, end } = this.#span(SERVICE_TIER);
    return start < 0 ? '"auto"' : this.#request.toString('utf8', start, end);
  }

  /** Whether the client asks for reasoning as an opaque text, which it sends back. */
  get wantsOpaqueReasoning(): boolean {
    return this.#includes(OPAQUE_REASONING);
  }

  /** Whether the client asks for the addresses that searches have found. */
  get wantsSearchSources(): boolean {
    return this.#includes(SEARCH_SOURCES);
  }

  #includes(name: Buffer): boolean {
    const { start, end } = this.#span(INCLUDE);
    return start >= 0 && this.#request.subarray(start, end).includes(name);
  }

  /** The members that the response object repeats, as JSON without braces: `"background":false,"instructions":…`. */
  get members(): Buffer {
    return Buffer.concat(this.parts);
  }

  /** The same, not joined. */
  get parts(): readonly Buffer[] {
    this.#parts ??= this.#read();
    return this.#parts;
  }

  #read(): readonly Buffer[] {
    const parts: Buffer[] = [];
    let first = 0;
    for (let index = 0; index < REPEATED.length; index++) {
      const { start, end } = this.#span(2 * index);
      const isContinued = index === PREVIOUS && this.#continues !== '';
      if (start < 0 && !isContinued) continue;
      if (index > first) parts.push(defaults(first, index));
      first = index + 1;
      parts.push(KEYS[index] as Buffer);
      if (isContinued) parts.push(Buffer.from(JSON.stringify(this.#continues)));
      else if (index === TEXT && this.#hasNoFormat(start, end)) {
        const rest = this.#lineOf(start + 1, end);
        parts.push(WITH_FORMAT);
        if (rest.toString('latin1').trim() !== '}') parts.push(COMMA);
        parts.push(rest);
      } else parts.push(this.#lineOf(start, end));
    }
    if (first < REPEATED.length) parts.push(defaults(first, REPEATED.length));
    return parts;
  }

  /** JSON of the request without line ends, which stand between its values only: one would end a field of an event. */
  #lineOf(start: number, end: number): Buffer {
    const json = this.#request.subarray(start, end);
    if (!json.includes(LF) && !json.includes(CR)) return json;
    return Buffer.from(json.map((byte) => (byte === LF || byte === CR ? SPACE : byte)));
  }

  /** Whether the value is a text object without the format that it always has in responses. */
  #hasNoFormat(start: number, end: number): boolean {
    if (this.#request[start] !== OPEN_OBJECT) return false;
    const members = found(FORMAT);
    return (
      scanMembers(this.#request, start, end, FORMAT, members, CHECKED_DEPTH) >= 0 && (members.spans[0] as number) < 0
    );
  }

  /** A member's value; `start` is -1 when it is absent or null. */
  #span(at: number): { start: number; end: number } {
    this.#spans ??= this.#scan();
    const start = this.#spans[at] as number;
    const isNull = start >= 0 && this.#request[start] === NULL;
    return { start: isNull ? -1 : start, end: this.#spans[at + 1] as number };
  }

  #scan(): readonly number[] {
    const members = found(MEMBERS);
    const start = this.#request.indexOf(OPEN_OBJECT);
    scanMembers(this.#request, start, this.#request.length, MEMBERS, members, CHECKED_DEPTH);
    return members.spans;
  }
}
