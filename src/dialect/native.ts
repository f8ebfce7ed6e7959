// Generation without a dialect: the own APIs of Ollama, TGI, SGLang and vLLM, and paths of which nothing is known. Answers pass as they
// come. The output limit of a request is found and lowered wherever these servers read it, and their counts are read where they document
// some.

import { type HeadraceError, invalidRequest } from '../errors.ts';
import { tokenCount, type Usage } from './dialect.ts';
import { usualPath } from './dialects.ts';
import { promptsIn, type ScannedBody, SPAN } from './body-scan.ts';
import { scanMembers, skipSpace, skipValue } from './json-scan.ts';
import { found, type Found, memberTable, type MemberTable } from './member-table.ts';
import { type BodyEdit, countAt, limitEdits, loweredLimit } from './output-limit.ts';
import { textBytes, textMembers } from './text-counter.ts';

/** How a server without a dialect counts. */
export interface NativeApi {
  /** Members of an answer, at any level, that hold token counts. */
  readonly usageMembers: readonly string[];
  /** The token counts in the parsed values of those members, as far as they are there. */
  readonly usage: (members: Readonly<Record<string, unknown>>) => Usage | undefined;
  /** Servers keep a system prompt that is not in the request. */
  readonly keepsPrompt: boolean;
}

/** What a request to a path without a dialect may generate. */
export interface NativeRequest {
  /** Undefined for a path of which nothing is known. */
  readonly api: NativeApi | undefined;
  /** Answers that are generated beyond what `n` and `best_of` of the body itself say: factor of at least 1. */
  readonly answers: number;
  /** Limit of one answer that the request sets itself; undefined when it sets none that its server surely obeys. */
  readonly limit: number | undefined;
  /** What has to be changed so that no answer is longer. On a path of which nothing is known nothing is added. */
  edits(limit: number): readonly BodyEdit[];
}

/** Ollama, `/api/generate` and `/api/chat`: counts are in the last object. */
const OLLAMA: NativeApi = {
  usageMembers: ['prompt_eval_count', 'eval_count'],
  usage: ({ eval_count: completion, prompt_eval_count: prompt }) => countsOf(prompt, completion, 0),
  keepsPrompt: true,
};

/** `/generate` of TGI (`details`) and of SGLang (`meta_info`). That of vLLM has no counts. */
const GENERATE: NativeApi = {
  usageMembers: ['generated_tokens', 'input_length', 'completion_tokens', 'prompt_tokens', 'cached_tokens'],
  usage: (members) =>
    countsOf(members['prompt_tokens'], members['completion_tokens'], members['cached_tokens']) ??
    countsOf(members['input_length'], members['generated_tokens'], 0),
  keepsPrompt: false,
};

const APIS: ReadonlyMap<string, NativeApi> = new Map([
  ['/api/generate', OLLAMA],
  ['/api/chat', OLLAMA],
  ['/generate', GENERATE],
  ['/generate_stream', GENERATE],
]);

/** Whether requests to a path are answered as such servers do. */
export function isNativePath(path: string): boolean {
  return APIS.has(usualPath(path));
}

/** Paths whose answers hold vectors, scores and labels: whatever their size, nothing in them was generated. */
const WITHOUT_OUTPUT: ReadonlySet<string> = new Set([
  ...['/v1/embeddings', '/embeddings', '/embedding', '/embed', '/embed_all', '/embed_sparse', '/v2/embed'],
  ...['/api/embed', '/api/embeddings', '/v1/rerank', '/v2/rerank', '/rerank', '/v1/reranking', '/reranking'],
  ...['/v1/score', '/score', '/similarity', '/predict', '/classify', '/v1/classify', '/pooling', '/v1/moderations'],
]);

/** Paths that answer with the tokens of a text, their number, or the text of tokens: no model runs. */
const TOKENS: ReadonlySet<string> = new Set([
  '/tokenize',
  '/v1/tokenize',
  '/detokenize',
  '/v1/detokenize',
  '/apply-template',
]);

/** What an answer holds: text of a model, as far as is known; numbers about its input, so that input is all that its tokens are; or tokens. */
export type AnswerContent = 'text' | 'input' | 'tokens';

/** What answers of a path without a dialect hold. */
export function contentOf(path: string): AnswerContent {
  const usual = usualPath(path);
  return WITHOUT_OUTPUT.has(usual) ? 'input' : TOKENS.has(usual) ? 'tokens' : 'text';
}

/** Texts in the events of streams of such servers, and of those that speak like a dialect on another path. */
export const NATIVE_TEXTS: readonly Buffer[] = textMembers(
  ...['content', 'arguments', 'reasoning_content', 'reasoning', 'refusal', 'text', 'response', 'thinking'],
);

/** TGI repeats the whole text in the last event of a stream, so it counts in other answers alone. */
const ANSWER_TEXTS: readonly Buffer[] = [...NATIVE_TEXTS, ...textMembers('generated_text')];

/** Bytes of text in a whole answer, or in lines of one. */
export function nativeTextBytes(json: Buffer): number {
  return textBytes(json, ANSWER_TEXTS);
}

function countsOf(prompt: unknown, completion: unknown, cached: unknown): Usage | undefined {
  const completionTokens = tokenCount(completion);
  if (completionTokens === undefined) return undefined;
  const promptTokens = tokenCount(prompt) ?? 0;
  const cachedTokens = Math.min(tokenCount(cached) ?? 0, promptTokens);
  return { promptTokens, completionTokens, cachedTokens, saysCached: tokenCount(cached) !== undefined };
}

/** Objects of a body in which servers read a limit, and members that tell whose request it is. */
const OUTER = memberTable([
  'options',
  'parameters',
  'sampling_params',
  'inputs',
  'text',
  'input_ids',
  'max_new_tokens',
]);
const OPTIONS = 0;
const PARAMETERS = 2;
const SAMPLING_PARAMS = 4;
const CONTAINERS = [OPTIONS, PARAMETERS, SAMPLING_PARAMS] as const;
const INPUTS = 6;
const TEXT = 8;
const INPUT_IDS = 10;
const OUTER_LIMIT = 12;

const INNER_NAMES = ['num_predict', 'max_new_tokens', 'max_tokens', 'n', 'best_of'];
const INNER = memberTable(INNER_NAMES);
const INNER_LIMITS = [0, 2, 4];
const INNER_CHOICES = [6, 8];

const MAX_DEPTH = 256;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;

/** Where a request to this server says its limit. */
interface LimitPlace {
  /** Object of the body; null: the body itself. */
  readonly container: typeof OPTIONS | typeof PARAMETERS | typeof SAMPLING_PARAMS | null;
  readonly name: 'num_predict' | 'max_new_tokens' | 'max_tokens';
}

/** Most objects with options in one request: SGLang takes one for each of its prompts. */
const MOST_OBJECTS = 1000;

/** Reads a well-formed body of a request to a path without a dialect. Throws 422 for more than `MOST_OBJECTS` objects with options. */
export function nativeRequest(path: string, body: Buffer, scan: ScannedBody): NativeRequest {
  const api = APIS.get(usualPath(path));
  const outer = scanned(OUTER, body, body.indexOf(OPEN_OBJECT), body.length);
  const place = api === undefined ? null : placeOf(api, outer);
  const objects: InnerObject[] = [];
  for (const container of CONTAINERS) {
    for (const [start, end] of valuesOf(outer, container)) {
      const found = objectsIn(body, start, end);
      if (objects.length + found.length > MOST_OBJECTS) throw tooManyObjects(container);
      for (const [at, behind] of found) objects.push({ container, at, found: scanned(INNER, body, at, behind) });
    }
  }
  let answers = 1;
  for (const { found: inner } of objects) {
    for (const [start, end] of INNER_CHOICES.flatMap((at) => valuesOf(inner, at))) {
      answers = Math.max(answers, countAt(body, start, end) ?? 1);
    }
  }
  // SGLang answers each text of a list. On other paths a list may be anything.
  const at = (outer.spans[TEXT] as number) < 0 ? INPUT_IDS : TEXT;
  const prompts = api === GENERATE ? promptsIn(body, outer.spans[at] as number, outer.spans[at + 1] as number) : 1;
  // Every object must say it: in a list each answer has one of its own.
  const said = place === null ? [] : saidLimits(place, body, scan, objects);
  const isSaid = said.length > 0 && said.every((value) => value !== undefined);
  return {
    api,
    answers: answers * prompts,
    limit: isSaid ? said.reduce((most, value) => Math.max(most, value), 0) : undefined,
    edits(limit) {
      const edits = [...limitEdits(undefined, body, scan, limit)];
      const lower = (each: Found, places: readonly number[]): void => {
        for (const [start, end] of places.flatMap((at) => valuesOf(each, at))) {
          const edit = loweredLimit(body, start, end, limit);
          if (edit !== null) edits.push(edit);
        }
      };
      lower(outer, [OUTER_LIMIT]);
      for (const { found: inner } of objects) lower(inner, INNER_LIMITS);
      return place === null ? edits : edits.concat(addedLimits(body, scan, outer, objects, place, limit));
    },
  };
}

/** The limits where the server reads them; undefined: an object without one, or with one that is no number. */
function saidLimits(
  { container, name }: LimitPlace,
  body: Buffer,
  { spans }: ScannedBody,
  objects: readonly InnerObject[],
): (number | undefined)[] {
  if (container === null) {
    const start = spans[SPAN.max_tokens] as number;
    return start < 0 ? [] : [countAt(body, start, spans[SPAN.max_tokens + 1] as number)];
  }
  return objects
    .filter((each) => each.container === container)
    .flatMap(({ found: inner }) => {
      const values = valuesOf(inner, 2 * INNER_NAMES.indexOf(name));
      return values.length === 0 ? [undefined] : values.map(([start, end]) => countAt(body, start, end));
    });
}

/** An object in which servers read limits. */
interface InnerObject {
  readonly container: number;
  /** Offset of its brace. */
  readonly at: number;
  readonly found: Found;
}

function placeOf(api: NativeApi, { spans }: Found): LimitPlace {
  if (api === OLLAMA) return { container: OPTIONS, name: 'num_predict' };
  if ((spans[INPUTS] as number) >= 0) return { container: PARAMETERS, name: 'max_new_tokens' };
  const isSglang = (spans[TEXT] as number) >= 0 || (spans[INPUT_IDS] as number) >= 0;
  return isSglang ? { container: SAMPLING_PARAMS, name: 'max_new_tokens' } : { container: null, name: 'max_tokens' };
}

/** Adds the limit where the server reads it and the request does not say it. */
function addedLimits(
  body: Buffer,
  scan: ScannedBody,
  outer: Found,
  objects: readonly InnerObject[],
  { container, name }: LimitPlace,
  limit: number,
): BodyEdit[] {
  const first = body.indexOf(OPEN_OBJECT) + 1;
  const member = `"${name}":${limit}`;
  if (container === null) {
    const isSaid = (scan.spans[SPAN.max_tokens] as number) >= 0;
    return isSaid ? [] : [{ start: first, end: first, text: `${member},` }];
  }
  const object = `{${member}}`;
  const values = valuesOf(outer, container);
  if (values.length === 0) return [{ start: first, end: first, text: `"${CONTAINER_NAMES[container]}":${object},` }];
  const edits = objects
    .filter((each) => each.container === container && valuesOf(each.found, 2 * INNER_NAMES.indexOf(name)).length === 0)
    .map(({ at }) => {
      const isEmpty = body[skipSpace(body, at + 1, body.length)] === CLOSE_OBJECT;
      return { start: at + 1, end: at + 1, text: isEmpty ? member : `${member},` };
    });
  // null, and what is no object.
  const others = values.filter(([start, end]) => objectsIn(body, start, end).length === 0);
  return [...edits, ...others.map(([start, end]) => ({ start, end, text: object }))];
}

const CONTAINER_NAMES = { [OPTIONS]: 'options', [PARAMETERS]: 'parameters', [SAMPLING_PARAMS]: 'sampling_params' };

function tooManyObjects(container: keyof typeof CONTAINER_NAMES): HeadraceError {
  const msg = `There should be at most ${MOST_OBJECTS} objects`;
  return invalidRequest(['body', CONTAINER_NAMES[container]], msg, 'too_long');
}

/** Members of the object `[start, end)`. */
function scanned(table: MemberTable, body: Buffer, start: number, end: number): Found {
  const members = found(table);
  scanMembers(body, start, end, table, members, MAX_DEPTH);
  return members;
}

/** All values of a member: of two of one name a server may read the first or the last. */
function valuesOf({ repeated, spans }: Found, at: number): (readonly [start: number, end: number])[] {
  const values: (readonly [number, number])[] = [];
  if ((spans[at] as number) >= 0) values.push([spans[at] as number, spans[at + 1] as number]);
  for (let each = 0; repeated !== null && each < repeated.length; each += 3) {
    if (repeated[each] === at) values.push([repeated[each + 1] as number, repeated[each + 2] as number]);
  }
  return values;
}

/** The object `[start, end)`, or each object of the list there. */
function objectsIn(body: Buffer, start: number, end: number): (readonly [start: number, end: number])[] {
  if (body[start] === OPEN_OBJECT) return [[start, end]];
  if (body[start] !== OPEN_ARRAY) return [];
  const objects: (readonly [number, number])[] = [];
  let pos = skipSpace(body, start + 1, end);
  while (pos < end - 1) {
    const behind = skipValue(body, pos, end, 0, MAX_DEPTH);
    if (body[pos] === OPEN_OBJECT) objects.push([pos, behind]);
    // Behind the value is a comma or the end of the list.
    pos = skipSpace(body, skipSpace(body, behind, end) + 1, end);
  }
  return objects;
}

/** Most bytes of a line that are kept until its end has come. */
const MOST_LINE_BYTES = 1024 * 1024;
const LF = 0x0a;
const NO_BYTES: Buffer = Buffer.alloc(0);

/** Counts the text of an answer that is no event stream: one JSON value, or one in each line. */
export class LineTextCounter {
  readonly #count: (json: Buffer) => number;
  #bytes = 0;
  #line: Buffer = NO_BYTES;

  constructor(count: (json: Buffer) => number) {
    this.#count = count;
  }

  add(piece: Buffer): void {
    const end = piece.lastIndexOf(LF) + 1;
    if (end > 0) this.#bytes += this.#count(Buffer.concat([this.#line, piece.subarray(0, end)]));
    this.#line = end > 0 ? Buffer.from(piece.subarray(end)) : Buffer.concat([this.#line, piece]);
    if (this.#line.byteLength <= MOST_LINE_BYTES) return;
    this.#bytes += this.#line.byteLength;
    this.#line = NO_BYTES;
  }

  /** Bytes of text; of a line without its end, in which no text is whole, all bytes. */
  get bytes(): number {
    if (this.#line.byteLength === 0) return this.#bytes;
    return this.#bytes + (this.#count(this.#line) || this.#line.byteLength);
  }
}
