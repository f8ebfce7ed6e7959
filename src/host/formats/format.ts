// What the compatible dialects have in common: fields of a request, server-sent events, errors, usage.
import { invalidOption } from '../completion-options.ts';
import type { TokenLogProbs, TokenReport } from '../model-engine.ts';
import type { Choice } from './choice.ts';
import type { PromptSpec } from './conversation.ts';
/** A parsed JSON object. */
export type Json = Readonly<Record<string, unknown>>;

/** What a request wants, whatever its dialect. */
export interface RequestFields {
  readonly prompt: string;
  /** Undefined when the request names none (or asks for no bound). */
  readonly maxTokens: number | undefined;
  readonly stops: readonly string[];
  readonly stream: boolean;
  /** Whether a stream reports usage. */
  readonly includeUsage: boolean;
  /** Answers to each prompt, 1 or more. */
  readonly choices: number;
  /** Most likely tokens to list with each token and its log probability; null: no log probabilities. */
  readonly logProbs: number | null;
}

/** What dialects say that have one choice and no log probabilities. */
export const ONE_CHOICE: Pick<RequestFields, 'choices' | 'logProbs'> = { choices: 1, logProbs: null };

/** A tool call of an answer. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
}

/** The server-sent events of one generation; every string is one whole event, its blank line included. */
export interface Frames {
  /** Events that leave together with the first token. */
  opening(): string[];
  /** Reasoning or text begins, and what came before it has ended. */
  begin(part: 'reasoning' | 'text'): string[];
  /** More reasoning. */
  reasoning(piece: string): string;
  /** `logProbs` are those of the tokens that end with this piece. */
  token(piece: string, at: number, logProbs?: readonly TokenLogProbs[]): string;
  /** The last of the generation's calls begins. */
  call(call: ToolCall, at: number): string[];
  /** More of the arguments of the last call, which has them already. */
  argument(text: string, at: number): string;
  /**
   * Events after the last token; the last of them is the one that closes the stream in this dialect. Of an answer with
   * more choices those of this one, and what closes the stream when all of them have ended.
   */
  closing(): string[];
  /** The event that reports a failure within the stream. */
  failure(message: string): string;
}

/** One dialect. */
export interface ApiFormat {
  /** Reads the request. Throws an Error that says what is wrong with it. */
  read(body: Json): RequestFields;
  /** Reads what engines need beyond that. Throws as `read` does. */
  readPrompts(body: Json): PromptSpec;
  /** The whole answer of a request that is not streamed, from its first choice. */
  answer(choice: Choice): Json;
  frames(choice: Choice): Frames;
  /** The error body of this dialect. */
  problem(status: number, message: string, code: string): Json;
}

const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
};

/** Error body of the OpenAI dialects. */
export function openaiProblem(status: number, message: string, code: string): Json {
  return {
    error: {
      message,
      type: TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
      param: null,
      code,
    },
  };
}

/** Error body of the Messages dialect. */
export function messagesProblem(status: number, message: string): Json {
  return {
    type: 'error',
    error: { type: TYPES[status] ?? (status === 503 ? 'overloaded_error' : 'api_error'), message },
  };
}

/** An event without a name. */
export function dataFrame(value: Json): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** An event with the name its `type` says. */
export function namedFrame(value: Json & { readonly type: string }): string {
  return `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;
}

/** What dialects without tools and reasoning say about them. */
export const TEXT_ONLY: Pick<Frames, 'begin' | 'reasoning' | 'call' | 'argument'> = {
  begin: () => [],
  reasoning: () => '',
  call: () => [],
  argument: () => '',
};

/** The last event of the OpenAI dialects. */
const DONE_FRAME: string = 'data: [DONE]\n\n';

/**
 * The last events of a choice of an OpenAI completion dialect: the one that says how it ended and, when all choices have,
 * usage and the closing word.
 */
export function closingFrames(choice: Choice, head: Json, last: Json): string[] {
  const { includeUsage } = choice.parts.fields;
  const finish = dataFrame({ ...head, choices: [last], ...(includeUsage && { usage: null }) });
  if (!choice.siblings.every(({ hasEnded }) => hasEnded)) return [finish];
  const usage = includeUsage ? [dataFrame({ ...head, choices: [], usage: completionUsage(choice) })] : [];
  return [finish, ...usage, DONE_FRAME];
}

/** Plain text of a content that is a text, a part with `text` or `content`, or an array of such. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (Array.isArray(content)) return content.map(textOf).join('\n');
  if (typeof content !== 'object' || content === null) return typeof content === 'number' ? String(content) : '';
  const { text, content: inner } = content as Json;
  return typeof text === 'string' ? text : textOf(inner);
}

/** The first of the values that is a number; negative ones mean no bound. Throws for anything that is not a number. */
export function limitOf(body: Json, ...names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = body[name];
    if (value === undefined || value === null) continue;
    if (typeof value !== 'number' || !Number.isFinite(value)) throw new Error(`${name} must be a number`);
    return value < 0 ? undefined : Math.floor(value);
  }
  return undefined;
}

/** Stop strings: a text, an array of texts, or nothing; empty ones are dropped. Throws for anything else. */
export function stopsOf(body: Json, name: string): string[] {
  const value = body[name] ?? [];
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (!list.every((stop) => typeof stop === 'string')) throw new Error(`${name} must be a text or an array of texts`);
  return list.filter((stop) => stop !== '');
}

/** Whether a stream of an OpenAI dialect ends with a usage chunk. */
export function wantsUsage(body: Json): boolean {
  const options = body['stream_options'];
  return typeof options === 'object' && options !== null && (options as Json)['include_usage'] === true;
}

/** Most choices of one prompt, and most tokens listed at one place. */
const MAX_CHOICES = 128;
const MAX_LOG_PROBS = 20;

/** Choices of a request of an OpenAI completion dialect. Throws InvalidOptions. */
export function choicesOf({ n }: Json): number {
  return n === undefined || n === null ? 1 : wholeNumber('n', n, 1, MAX_CHOICES);
}

/** A number of most likely tokens to list. Throws InvalidOptions. */
export function listedOf(name: string, value: unknown): number {
  return wholeNumber(name, value, 0, MAX_LOG_PROBS);
}

/** Tokens that the reports of an answer list, of all choices: 300 MB in memory, and a third of the longest JSON text. */
const MAX_LISTED_TOKENS = 2_097_152;

/** Counts what the reports of an answer list, which keeps all of them until its end. */
export class ListedTokens {
  #count = 0;

  /** Why the answer fails: these reports are too many. Undefined where they are not. */
  add(reports: readonly TokenReport[]): string | undefined {
    for (const { logProbs, probs } of reports) this.#count += 1 + probs.length + (logProbs?.top_logprobs.length ?? 0);
    if (this.#count <= MAX_LISTED_TOKENS) return undefined;
    return `the probabilities of an answer are those of at most ${MAX_LISTED_TOKENS} tokens; ask for fewer or shorter choices`;
  }
}

function wholeNumber(name: string, value: unknown, least: number, most: number): number {
  if (Number.isInteger(value) && Number(value) >= least && Number(value) <= most) return Number(value);
  throw invalidOption(name, `it must be a whole number from ${least} to ${most}`);
}

/** Usage of the two OpenAI completion dialects: the tokens of all choices, and those of each prompt once. */
export function completionUsage(choice: Choice): Json {
  const all = choice.siblings;
  const firsts = all.filter(({ index }) => index % choice.parts.fields.choices === 0);
  const sum = (of: readonly Choice[], name: 'promptTokens' | 'cachedTokens' | 'outputTokens'): number =>
    of.reduce((total, each) => total + each[name], 0);
  const promptTokens = sum(firsts, 'promptTokens');
  const cachedTokens = sum(firsts, 'cachedTokens');
  const outputTokens = sum(all, 'outputTokens');
  return {
    prompt_tokens: promptTokens,
    completion_tokens: outputTokens,
    total_tokens: promptTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    completion_tokens_details: { reasoning_tokens: all.reduce((total, each) => total + each.reasoningTokens, 0) },
  };
}
