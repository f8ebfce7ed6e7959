// A CRN that speaks chat completions and nothing else: it plays the answers it is given, one after another, and answers 404 on every
// other path. Beside it: random chat answers, whole and as streams, with the differences between servers.

import type { Test } from 'tap';
import { type Answer, events, type FakeEngine, json, startFakeEngine } from './fake-engine.ts';
import type { Random } from './random.ts';

export type Json = Readonly<Record<string, unknown>>;

export interface ScriptedChat extends FakeEngine {
  /** Answers to the next requests; the last one is repeated. */
  play(...answers: readonly Answer[]): void;
}

export const CHAT_PATH = '/v1/chat/completions';

export async function startScriptedChat(t: Pick<Test, 'teardown'>): Promise<ScriptedChat> {
  const script: Answer[] = [];
  const chat: Answer = (request, response) => {
    const [answer] = script.length > 1 ? script.splice(0, 1) : script;
    (answer ?? json({ detail: 'no answer is left in the script' }, 500))(request, response);
  };
  const answers = new Map<string, Answer>([
    ['/health', json({ status: 'ok' })],
    [CHAT_PATH, chat],
  ]);
  const engine = await startFakeEngine(answers, json({ detail: 'Not Found' }, 404));
  t.teardown(() => engine.close());
  return Object.assign(engine, { play: (...next: readonly Answer[]) => void script.splice(0, script.length, ...next) });
}

/** Members that all chunks of a stream have. */
const HEAD = { id: 'chatcmpl-7', object: 'chat.completion.chunk', created: 1_767_225_600, model: 'atlas-27b' };

/** A chunk with one choice. `choice` and `over` replace members. */
export function chunk(delta: Json, choice: Json = {}, over: Json = {}): Json {
  return { ...HEAD, choices: [{ index: 0, delta, logprobs: null, finish_reason: null, ...choice }], ...over };
}

/** The chunk that ends the choice. */
export function finish(reason: string, choice: Json = {}): Json {
  return chunk({}, { finish_reason: reason, ...choice });
}

/** The chunk with the token counts, which has no choice. */
export function usageChunk(usage: Json): Json {
  return { ...HEAD, choices: [], usage };
}

export const DONE = 'data: [DONE]\n\n';

/** Event text of a chunk; strings are events as they are. */
export function eventOf(frame: Json | string): string {
  return typeof frame === 'string' ? frame : `data: ${JSON.stringify(frame)}\n\n`;
}

/** A stream of chunks, which ends with `[DONE]`. */
export function chatStream(...frames: readonly (Json | string)[]): Answer {
  return events([...frames, DONE]);
}

/** A whole answer. */
export function chatAnswer(message: Json, choice: Json = {}, over: Json = {}): Answer {
  return json(wholeAnswer(message, choice, over));
}

/** The object of a whole answer. */
export function wholeAnswer(message: Json, choice: Json = {}, over: Json = {}): Json {
  const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: 'stop', ...choice }];
  return { ...HEAD, object: 'chat.completion', choices, usage: { prompt_tokens: 9, completion_tokens: 5 }, ...over };
}

/** What a model said. */
export interface ChatOutput {
  readonly reasoning: string;
  readonly text: string;
  readonly refusal: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  readonly reason: string;
  readonly choice: Json;
  readonly usage: Json;
}

const WORDS = ['water', ' runs', ' down', '\n', '"quoted"', '\\', ' \u{1f30a}', 'é', '\u0000', '</s>', '', '水'];

function randomText(random: Random, most: number): string {
  return Array.from({ length: random.below(most) }, () => random.pick(WORDS)).join('');
}

function randomValue(random: Random, depth: number): unknown {
  switch (random.below(depth > 0 ? 7 : 5)) {
    case 0:
      return null;
    case 1:
      return random.chance(0.5);
    case 2:
      return random.below(1_000_000) / 8;
    case 3:
    case 4:
      return randomText(random, 6);
    case 5:
      return Array.from({ length: random.below(4) }, () => randomValue(random, depth - 1));
    default:
      return randomObject(random, depth - 1);
  }
}

function randomObject(random: Random, depth: number): Json {
  const names = Array.from({ length: random.below(4) }, (_, at) => `${random.pick(['path', 'a "b"', '}{'])}${at}`);
  return Object.fromEntries(names.map((name) => [name, randomValue(random, depth)]));
}

/** A random answer of one choice. */
export function randomOutput(random: Random): ChatOutput {
  const calls = Array.from({ length: random.chance(0.5) ? random.below(4) : 0 }, (_, at) => ({
    id: `call_${at}_${random.below(1000)}`,
    name: random.pick(['read_file', 'write', 'search.web']),
    arguments: random.chance(0.1) ? '' : JSON.stringify(randomObject(random, 3), null, random.chance(0.3) ? 1 : 0),
  }));
  const prompt = random.below(5000);
  const cached = random.chance(0.5) ? { prompt_tokens_details: { cached_tokens: random.below(prompt + 1) } } : {};
  const reasoned = random.chance(0.3) ? { completion_tokens_details: { reasoning_tokens: random.below(9) } } : {};
  const isStopped = calls.length === 0 && random.chance(0.1);
  return {
    reasoning: random.chance(0.4) ? randomText(random, 12) : '',
    text: random.chance(0.8) ? randomText(random, 30) : '',
    refusal: random.chance(0.05) ? randomText(random, 8) : '',
    calls,
    reason: calls.length > 0 && random.chance(0.8) ? 'tool_calls' : random.pick(['stop', 'length', 'content_filter']),
    choice: isStopped ? { stop_reason: 'END' } : {},
    usage: { prompt_tokens: prompt, completion_tokens: random.below(500), total_tokens: 1, ...cached, ...reasoned },
  };
}

/** The answer whole. */
export function wholeOf({ calls, choice, reason, reasoning, refusal, text, usage }: ChatOutput): Json {
  const message = {
    content: text === '' && calls.length > 0 ? null : text,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(refusal !== '' && { refusal }),
    ...(calls.length > 0 && {
      tool_calls: calls.map(({ arguments: args, id, name }) => ({
        id,
        type: 'function',
        function: { name, arguments: args },
      })),
    }),
  };
  return wholeAnswer(message, { finish_reason: reason, ...choice }, { usage });
}

/** Pieces of a text, none empty. Pairs of surrogates are not cut. */
function piecesOf(random: Random, text: string): string[] {
  const chars = [...text];
  const pieces: string[] = [];
  while (chars.length > 0) pieces.push(chars.splice(0, 1 + random.below(random.chance(0.1) ? 40 : 6)).join(''));
  return pieces;
}

/**
 * The answer as the events of a stream, as one of many servers would send them.
 * @param interleaves whether the pieces of parallel calls may take turns
 */
export function streamOf(random: Random, output: ChatOutput, interleaves = true): string[] {
  const reasoningName = random.pick(['reasoning', 'reasoning_content']);
  const sendsBoth = random.chance(0.2);
  const counts = random.pick(['at the end', 'with the finish', 'always']);
  const usage = (): Json => (counts === 'always' ? { usage: { ...output.usage, completion_tokens: 1 } } : {});
  const frames: (Json | string)[] = [];
  const delta = (members: Json): void => {
    if (random.chance(0.05)) frames.push(': comment\n\n');
    if (random.chance(0.05)) frames.push(chunk({ content: '' }, {}, usage()));
    if (random.chance(0.05)) frames.push(chunk({}, {}, usage()));
    frames.push(chunk(members, {}, { ...usage(), ...(random.chance(0.1) && { obfuscation: 'x' }) }));
  };
  if (random.chance(0.7)) delta({ role: 'assistant', content: random.pick([null, '']) });
  for (const piece of piecesOf(random, output.reasoning)) {
    delta(sendsBoth ? { reasoning: piece, reasoning_content: piece } : { [reasoningName]: piece, content: null });
  }
  for (const piece of piecesOf(random, output.text)) delta({ content: piece });
  for (const piece of piecesOf(random, output.refusal)) delta({ refusal: piece });
  for (const members of callDeltas(random, output.calls, interleaves)) delta(members);
  const last = counts === 'with the finish' || counts === 'always' ? { usage: output.usage } : {};
  frames.push({ ...finish(output.reason, output.choice), ...last });
  if (counts === 'at the end') frames.push(usageChunk(output.usage));
  if (random.chance(0.8)) frames.push(DONE);
  const lineEnd = random.pick(['\n', '\n', '\r\n']);
  return frames.map((frame) => eventOf(frame).replaceAll('\n', lineEnd));
}

/** Tool calls as servers send them: whole, or in pieces, with and without an index. */
function callDeltas(random: Random, calls: ChatOutput['calls'], interleaves: boolean): Json[] {
  const how = random.pick(['pieces', 'pieces', 'whole', 'all at once', 'without index', 'same index']);
  const whole = calls.map(({ arguments: args, id, name }, index) => {
    const call = { id, type: 'function', function: { name, arguments: args } };
    return how === 'without index' ? call : { index: how === 'same index' ? 0 : index, ...call };
  });
  if (how === 'all at once') return whole.length === 0 ? [] : [{ tool_calls: whole }];
  if (how !== 'pieces') return whole.map((call) => ({ tool_calls: [call] }));
  const repeatsName = random.chance(0.2);
  const queues = calls.map(({ arguments: args, id, name }, index) => {
    const [first = '', ...rest] = repeatsName ? [name] : piecesOf(random, name);
    const part = (fn: Json, members: Json = {}): Json => ({ tool_calls: [{ index, ...members, function: fn }] });
    return [
      part({ name: first, arguments: '' }, { id, type: 'function' }),
      ...rest.map((piece) => part({ name: piece })),
      ...piecesOf(random, args).map((piece) => part({ ...(repeatsName && { name }), arguments: piece })),
    ];
  });
  if (!interleaves || random.chance(0.7)) return queues.flat();
  // Calls begin in their order.
  const deltas: Json[] = [];
  let begun = 0;
  while (queues.some(({ length }) => length > 0)) {
    const open = queues.flatMap(({ length }, at) => (length > 0 && at <= begun ? [at] : []));
    const at = random.pick(open);
    begun = Math.max(begun, at + 1);
    deltas.push(queues[at]?.shift() as Json);
  }
  return deltas;
}

/** The same bytes in pieces of whole events. */
export function inPieces(random: Random, frames: readonly string[]): Buffer[] {
  const left = [...frames];
  const pieces: Buffer[] = [];
  while (left.length > 0) {
    const size = random.chance(0.6) ? 1 : 1 + random.below(8);
    pieces.push(Buffer.from(left.splice(0, size).join('')));
  }
  return pieces;
}
