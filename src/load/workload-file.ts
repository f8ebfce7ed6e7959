// Workloads from recorded files: conversations in the format of ShareGPT, traces in the format of Mooncake. Files are read
// completely before the first request is sent, so that a broken line does not interrupt a run. Formats:
//   ShareGPT: [{ id?, conversations: [{ from: 'human' | 'gpt' | 'system', value }] }], as one JSON array or a line each
//   Mooncake: { timestamp, input_length, output_length, hash_ids: [] } a line; timestamp in ms, 512 tokens to a hash
import { createSeededRandom } from '../actor/index.ts';
import { parseJson } from '../config/json-text.ts';
import { counted } from '../config/units.ts';
import { tokensOf, syntheticWords } from './synthetic.ts';
import { type Script, type UserTurn, type Workload, LoadError } from './workload.ts';
type Json = Readonly<Record<string, unknown>>;

/** Tokens of one block of a Mooncake trace. */
const BLOCK_TOKENS = 512;

/** Most tokens of a prompt or an answer, as options take them. */
const MOST_TOKENS = 9_999_999;

/** Longest answer that a recorded conversation asks for when nothing else is said. */
const RECORDED_OUTPUT_TOKENS = 2048;

/** Most blocks whose text is kept: the shared ones at the beginning of prompts come again and again. */
const KEPT_BLOCKS = 4096;

/** One record of a file and where it stands, `line 3` or `entry 3`. */
interface Placed {
  readonly value: unknown;
  readonly place: string;
}

/**
 * Conversations of a ShareGPT shaped text, from the first again after the last. Answers are as long as the recorded ones.
 * Entries without a question are left out. Throws `LoadError` with `name` and the line.
 * @param maxOutputTokens no answer may be longer
 */
function shareGptWorkload(text: string, name: string, maxOutputTokens: number): Workload {
  const scripts = recordsOf(text, name).flatMap(({ value, place }) => {
    const turns = (value as Json | null)?.['conversations'];
    if (!Array.isArray(turns)) throw new LoadError(`${name}, ${place}: there is no array "conversations"`);
    return conversation(turns, `${name}, ${place}`, maxOutputTokens) ?? [];
  });
  if (scripts.length === 0) throw new LoadError(`${name} has no conversation in which somebody asks something`);
  let at = 0;
  return {
    description: `${name}, ${counted(scripts.length, 'conversation')}`,
    next: () => scripts[at++ % scripts.length],
  };
}

function conversation(said: readonly unknown[], place: string, maxOutputTokens: number): Script | undefined {
  let system = '';
  const turns: UserTurn[] = [];
  said.forEach((one, at) => {
    const { from, value } = (one ?? {}) as Json;
    if (typeof from !== 'string' || typeof value !== 'string') {
      throw new LoadError(`${place}: message ${at + 1} has no texts "from" and "value"`);
    }
    if (from === 'system') system = value;
    if (!isAsking(from) || value === '') return;
    const { from: by, value: answer } = (said[at + 1] ?? {}) as Json;
    const isAnswered = typeof answer === 'string' && by !== 'system' && !isAsking(by);
    const outputTokens = isAnswered ? tokensOf(answer) : maxOutputTokens;
    turns.push({ text: value, outputTokens: Math.min(outputTokens, maxOutputTokens) });
  });
  return turns.length === 0 ? undefined : { system, turns };
}

function isAsking(from: unknown): boolean {
  return from === 'human' || from === 'user';
}

/**
 * Requests of a Mooncake shaped trace, once, in the order of their time stamps. A block of a prompt has the same text
 * wherever its hash appears, so that requests share prefixes as the recorded ones did. Throws `LoadError`.
 */
function mooncakeWorkload(text: string, name: string, maxOutputTokens: number): Workload {
  const requests = recordsOf(text, name).map(({ value, place }) => readRequest(value, `${name}, ${place}`));
  if (requests.length === 0) throw new LoadError(`${name} has no request`);
  requests.sort((a, b) => a.timestampMs - b.timestampMs);
  const firstMs = (requests[0] as TraceRequest).timestampMs;
  const blocks = new Map<number, string>();
  let at = 0;
  return {
    description: `${name}, ${counted(requests.length, 'request')}`,
    isTimed: true,
    next() {
      const request = requests[at];
      if (request === undefined) return undefined;
      const outputTokens = Math.min(request.outputTokens, maxOutputTokens);
      const turn = { text: promptOf(request, at++, blocks), outputTokens };
      return { system: '', turns: [turn], atMs: request.timestampMs - firstMs };
    },
  };
}

interface TraceRequest {
  readonly timestampMs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly hashIds: readonly number[];
}

function readRequest(value: unknown, place: string): TraceRequest {
  const record = (value ?? {}) as Json;
  const count = (member: string, least: number, most = Infinity): number => {
    const found = record[member];
    if (typeof found === 'number' && Number.isFinite(found) && found >= least && found <= most) return found;
    const range = most === Infinity ? `of ${least} or more` : `from ${least} to ${most}`;
    throw new LoadError(`${place}: "${member}" is not a number ${range}`);
  };
  const hashIds = record['hash_ids'] ?? [];
  if (!Array.isArray(hashIds) || !hashIds.every((id) => Number.isSafeInteger(id))) {
    throw new LoadError(`${place}: "hash_ids" is not an array of whole numbers`);
  }
  return {
    timestampMs: count('timestamp', 0),
    inputTokens: Math.round(count('input_length', 1, MOST_TOKENS)),
    outputTokens: Math.round(count('output_length', 1, MOST_TOKENS)),
    hashIds: hashIds as number[],
  };
}

/** The prompt of a request: the text of its blocks, the last one as long as is left; the rest has no hash and is unique. */
function promptOf(request: TraceRequest, index: number, blocks: Map<number, string>): string {
  const { inputTokens, hashIds, timestampMs } = request;
  const parts: string[] = [];
  let left = inputTokens;
  for (const id of hashIds) {
    if (left <= 0) break;
    parts.push(left < BLOCK_TOKENS ? syntheticWords(left, createSeededRandom(id)) : blockText(id, blocks));
    left -= BLOCK_TOKENS;
  }
  const seed = Math.imul(timestampMs + 1, 0x9e3779b1) + Math.imul(index, 0x85ebca6b) + inputTokens;
  if (left > 0) parts.push(syntheticWords(left, createSeededRandom(seed)));
  return parts.join(' ');
}

function blockText(id: number, blocks: Map<number, string>): string {
  let text = blocks.get(id);
  if (text !== undefined) return text;
  text = syntheticWords(BLOCK_TOKENS, createSeededRandom(id));
  blocks.set(id, text);
  if (blocks.size > KEPT_BLOCKS) blocks.delete(blocks.keys().next().value as number);
  return text;
}

/** The records of a JSON array, or of lines with one each. */
function recordsOf(text: string, name: string): Placed[] {
  if (text.trimStart().startsWith('[')) {
    const values = parsed(text, name);
    return (values as unknown[]).map((value, at) => ({ value, place: `entry ${at + 1}` }));
  }
  return text.split('\n').flatMap((line, at) => {
    const place = `line ${at + 1}`;
    return line.trim() === '' ? [] : { value: parsed(line, `${name}, ${place}`), place };
  });
}

function parsed(text: string, place: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw new LoadError(`${place}: no JSON (${(error as Error).message})`);
  }
}

/**
 * The shape of a file by its first record: a Mooncake trace has time stamps and no conversation, everything else is taken for ShareGPT. No
 * answer is longer than `maxOutputTokens`.
 */
export function workloadOf(text: string, name: string, maxOutputTokens?: number): Workload {
  const plain = text.replace(/^\uFEFF/, '');
  const [first = ''] = plain.trimStart().slice(0, 4096).split('\n', 1);
  const isTrace = first.startsWith('{') && /"timestamp"\s*:/.test(first) && !/"conversations"\s*:/.test(first);
  return isTrace
    ? mooncakeWorkload(plain, name, maxOutputTokens ?? Infinity)
    : shareGptWorkload(plain, name, maxOutputTokens ?? RECORDED_OUTPUT_TOKENS);
}
