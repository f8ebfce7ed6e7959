// Reads whole answers of chat completion servers. Those that say texts and calls and nothing unusual are read from the tape of their scan,
// which the judge of the answer has left; texts are copied as they are written. All others are parsed.

import { HeadraceError } from '../../errors.ts';
import { nameIds } from '../json-names.ts';
import { parsedValue } from '../json-scan.ts';
import { JsonTape } from '../json-tape.ts';
import { membersOf, parsedJson } from '../../net/json-object.ts';
import { argumentsIn } from './arguments-end.ts';
import { type CallPart, callsOf, FAILED_FINISHES, reasoningOf, refusalOf, textOf } from './chat-answer.ts';

type Members = Readonly<Record<string, unknown>>;

/** Bytes `[start, end)` of a text as it is written between the quotes of JSON. */
export interface EscapedText {
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;
}

/** What is read of a whole answer, of whose choices other dialects know one. */
export interface WholeAnswer {
  /** `id`, `created`, `model` and `service_tier`. */
  readonly head: Members;
  /** `finish_reason`, `logprobs`, `matched_stop` and `stop_reason`. */
  readonly choice: Members;
  /** Members of the message beside its texts and calls. */
  readonly message: Members;
  readonly reasoning: EscapedText;
  readonly text: EscapedText;
  readonly refusal: EscapedText;
  readonly calls: readonly CallPart[];
  /** Token counts, which some servers write into the choice. */
  readonly usage: Members;
}

const { NONE, ROOT } = JsonTape;
const NAME = nameIds(
  'cache_write_tokens',
  'cached_tokens',
  'choices',
  'completion_tokens',
  'completion_tokens_details',
  'content',
  'created',
  'finish_reason',
  'function_call',
  'id',
  'logprobs',
  'matched_stop',
  'message',
  'model',
  'prompt_tokens',
  'prompt_tokens_details',
  'reasoning',
  'reasoning_content',
  'reasoning_tokens',
  'refusal',
  'service_tier',
  'stop_reason',
  'tool_calls',
  'total_tokens',
  'usage',
);

/** Longer answers have log-probabilities or many choices, and are parsed. */
const MOST_SCANNED_BYTES = 256 * 1024;
const NO_CALLS: readonly CallPart[] = [];
const NO_MEMBERS: Members = {};
const NO_TEXT: EscapedText = { bytes: Buffer.alloc(0), start: 0, end: 0 };

const tape = new JsonTape();

/** Reads a whole answer. Throws `HR_UPSTREAM_ANSWER` for what is none. */
export function wholeAnswerOf(body: Buffer): WholeAnswer {
  const answer = usualAnswer(body) ?? parsedAnswer(body);
  if (FAILED_FINISHES.has(answer.choice['finish_reason'])) throw new HeadraceError('HR_UPSTREAM_ANSWER');
  return answer;
}

/** @internal For tests: as `wholeAnswerOf`, by parsing. */
export function parsedAnswer(body: Buffer): WholeAnswer {
  const head = membersOf(parsedJson(body.toString()));
  const { choices } = head;
  const all: readonly unknown[] = Array.isArray(choices) ? choices : [];
  const choice = membersOf(all.find((one) => membersOf(one)['index'] === 0) ?? all[0]);
  if (typeof choice['message'] !== 'object' || choice['message'] === null)
    throw new HeadraceError('HR_UPSTREAM_ANSWER');
  const message = membersOf(choice['message']);
  return {
    head,
    choice,
    message,
    reasoning: escaped(reasoningOf(message)),
    text: escaped(textOf(message['content'])),
    refusal: escaped(refusalOf(message)),
    calls: wholeCallsOf(message),
    usage: membersOf(head['usage'] ?? choice['usage']),
  };
}

/** Calls as those of a stream, which end with their arguments. */
function wholeCallsOf(message: Members): readonly CallPart[] {
  return callsOf(message).map((call) => ({ ...call, arguments: argumentsIn(call.arguments) }));
}

function escaped(text: string): EscapedText {
  if (text === '') return NO_TEXT;
  const bytes = Buffer.from(JSON.stringify(text));
  return { bytes, start: 1, end: bytes.length - 1 };
}

/** @internal The same from the tape; undefined for an answer that is to be parsed. */
export function usualAnswer(body: Buffer): WholeAnswer | undefined {
  if (body.length > MOST_SCANNED_BYTES || !tape.readUsual(body)) return undefined;
  const choice = onlyElement(tape.member(ROOT, NAME.choices));
  const message = tape.member(choice, NAME.message);
  const logprobs = tape.member(choice, NAME.logprobs);
  if (!hasTextsOnly(message) || (logprobs !== NONE && !tape.isEmpty(logprobs))) return undefined;
  const reasoning = tape.member(message, NAME.reasoning_content);
  const usage = tape.member(ROOT, NAME.usage);
  const calls = tape.member(message, NAME.tool_calls);
  const hasCalls = calls !== NONE && !tape.isEmpty(calls);
  return {
    head: {
      id: tape.string(tape.member(ROOT, NAME.id)),
      created: tape.number(tape.member(ROOT, NAME.created)),
      model: tape.string(tape.member(ROOT, NAME.model)),
      service_tier: tape.string(tape.member(ROOT, NAME.service_tier)),
    },
    choice: {
      finish_reason: tape.string(tape.member(choice, NAME.finish_reason)),
      matched_stop: tape.string(tape.member(choice, NAME.matched_stop)),
      stop_reason: tape.string(tape.member(choice, NAME.stop_reason)),
    },
    message: NO_MEMBERS,
    reasoning: textAt(
      reasoning !== NONE && !tape.isEmpty(reasoning) ? reasoning : tape.member(message, NAME.reasoning),
    ),
    text: textAt(tape.member(message, NAME.content)),
    refusal: textAt(tape.member(message, NAME.refusal)),
    calls: hasCalls ? wholeCallsOf({ tool_calls: parsedValue(body, tape.start(calls), tape.end(calls)) }) : NO_CALLS,
    usage: countsAt(usage === NONE || tape.isNull(usage) ? tape.member(choice, NAME.usage) : usage),
  };
}

/** The element of a list of one; `NONE` of any other value. */
function onlyElement(list: number): number {
  if (!tape.isArray(list)) return NONE;
  const first = tape.first(list);
  const end = tape.next(list);
  return first < end && tape.next(first) === end ? first : NONE;
}

/** Whether a value is an object in which nothing but texts and calls of tools say something. */
function hasTextsOnly(message: number): boolean {
  if (!tape.isObject(message)) return false;
  const end = tape.next(message);
  for (let key = tape.first(message); key < end; key = tape.next(tape.valueOf(key))) {
    const value = tape.valueOf(key);
    const name = tape.name(key);
    if (tape.isEmpty(value) || name === NAME.tool_calls) continue;
    if (!tape.isString(value) || name === NAME.function_call) return false;
  }
  return true;
}

function textAt(value: number): EscapedText {
  if (!tape.isString(value) || tape.isEmpty(value)) return NO_TEXT;
  return { bytes: tape.body, start: tape.start(value) + 1, end: tape.end(value) - 1 };
}

function countsAt(usage: number): Members {
  const prompt = tape.member(usage, NAME.prompt_tokens_details);
  return {
    completion_tokens: numberIn(usage, NAME.completion_tokens),
    completion_tokens_details: {
      reasoning_tokens: numberIn(tape.member(usage, NAME.completion_tokens_details), NAME.reasoning_tokens),
    },
    prompt_tokens: numberIn(usage, NAME.prompt_tokens),
    prompt_tokens_details: {
      cache_write_tokens: numberIn(prompt, NAME.cache_write_tokens),
      cached_tokens: numberIn(prompt, NAME.cached_tokens),
    },
    total_tokens: numberIn(usage, NAME.total_tokens),
  };
}

function numberIn(object: number, name: number): number {
  return tape.number(tape.member(object, name));
}
