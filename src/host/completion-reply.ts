// The answer of a llama-style completion: one body, or a stream whose events have `content`, `stop` and what was asked for,
// until the last one, which is the whole result without its text. The result has the interface's names and today's.
import { DIALECTS } from '../dialect/index.ts';
import { type CompletionOptions, type InfillOptions, DEFAULT_OPTIONS } from './completion-options.ts';
import { timingsHeader } from './engine/server-timings.ts';
import { type Frames, type Json, dataFrame, ListedTokens } from './formats/format.ts';
import type { CompletionEnd, ModelEngine, Sink, StopReason, TextDetails, TokenReport } from './model-engine.ts';
import type { Reply } from './reply.ts';

/** What the result repeats of the request, and how it is sent. */
export interface ResultRequest {
  readonly options: CompletionOptions | InfillOptions;
  readonly model: string;
  readonly timingsId: string | null;
}

/** The error body of the llama-style paths. */
export function llamaProblem(status: number, message: string): Json {
  return { detail: message, ...llamaError(status, message) };
}

/** An error as llama-server writes it, without a stable code. */
function llamaError(status: number, message: string): Json {
  return DIALECTS.llama.errorMember({ code: '', message, status });
}

/** Events of this dialect do not depend on the generation; only a fault asks for one. */
const FRAMES: Pick<Frames, 'failure'> = { failure: (message) => dataFrame(llamaError(500, message)) };

/** Options that are left out of `generation_settings`: the prompt itself, what may be as large, and how to answer. */
const NOT_REPEATED: ReadonlySet<string> = new Set([
  'prompt',
  'image_data',
  'system_prompt',
  'input_prefix',
  'input_suffix',
  'input_extra',
  'response_fields',
  'return_tokens',
  'post_sampling_probs',
  'others',
]);

/** The options in use, `n_ctx` and the model. */
function generationSettings(options: CompletionOptions, model: string, contextTokens: number): Json {
  const given = Object.entries(options).filter(([name]) => !NOT_REPEATED.has(name));
  return { n_ctx: contextTokens, model, ...Object.fromEntries(given), ...options.others };
}

function timingsOf(end: CompletionEnd): Json {
  const evaluated = end.promptTokens - end.cachedTokens;
  const { promptMs, generationMs, generatedTokens } = end;
  return {
    cache_n: end.cachedTokens,
    prompt_n: evaluated,
    prompt_ms: promptMs,
    prompt_per_token_ms: ratio(promptMs, evaluated),
    prompt_per_second: ratio(evaluated * 1000, promptMs),
    predicted_n: generatedTokens,
    predicted_ms: generationMs,
    predicted_per_token_ms: ratio(generationMs, generatedTokens),
    predicted_per_second: ratio(generatedTokens * 1000, generationMs),
    ...end.timings,
  };
}

function ratio(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}

/** Today's word for why a generation ended. A full context is a limit. */
const STOP_TYPES: Readonly<Record<StopReason, string>> = {
  eos: 'eos',
  word: 'word',
  limit: 'limit',
  context: 'limit',
  failed: 'none',
  cancelled: 'none',
};

/** What was gathered while the text came. */
interface Gathered {
  readonly content: string;
  /** Whether the text had a line break, also where it was streamed. */
  readonly hasNewLine: boolean;
  readonly tokens: readonly number[];
  /** Null when no probabilities were asked for, or when they have been streamed. */
  readonly reports: readonly TokenReport[] | null;
}

/** The result object. */
function resultOf(request: ResultRequest, contextTokens: number, end: CompletionEnd, gathered: Gathered): Json {
  const { options, model } = request;
  const { reports } = gathered;
  return {
    index: 0,
    content: gathered.content,
    tokens: gathered.tokens,
    stop: true,
    model,
    prompt: 'input_prefix' in options ? options.input_prefix : options.prompt,
    slot_id: end.slotId,
    id_slot: end.slotId,
    generation_settings: generationSettings(options, model, contextTokens),
    stop_type: STOP_TYPES[end.reason],
    stopped_eos: end.reason === 'eos',
    stopped_limit: end.reason === 'limit',
    stopped_word: end.reason === 'word',
    stopping_word: end.stoppingWord,
    tokens_predicted: end.generatedTokens,
    tokens_evaluated: end.promptTokens,
    tokens_cached: end.cachedTokens,
    truncated: end.isTruncated,
    has_new_line: gathered.hasNewLine,
    timings: timingsOf(end),
    ...(reports !== null && { completion_probabilities: probabilitiesOf(reports, options) }),
  };
}

/** The members that a request asks for: `a/b` is the member `b` of `a`, and has this name in the answer. */
function fieldsOf(result: Json, names: readonly string[]): Json {
  if (names.length === 0) return result;
  const found = names.flatMap((name): [string, unknown][] => {
    let value: unknown = result;
    for (const part of name.split('/')) {
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return [];
      value = (value as Json)[part];
    }
    return [[name, value]];
  });
  return Object.fromEntries(found);
}

/** Probabilities in the form that the request asks for: the interface's, or today's. */
function probabilitiesOf(reports: readonly TokenReport[], { post_sampling_probs }: CompletionOptions): Json[] {
  return reports.map(({ content, probs, logProbs, today }) => {
    if (post_sampling_probs === null) return { content, probs };
    if (today !== undefined) return today;
    if (!post_sampling_probs && logProbs !== undefined) return { ...logProbs };
    const listed = probs.map(({ tok_str, prob }) => ({ token: tok_str, bytes: bytesOf(tok_str), prob }));
    const own = probs.find(({ tok_str }) => tok_str === content)?.prob ?? null;
    return { token: content, bytes: bytesOf(content), prob: own, top_probs: listed };
  });
}

/** A byte within a character has no text of its own and is named. */
function bytesOf(piece: string): number[] {
  const byte = /^byte: \\x([\da-f]{2})$/.exec(piece)?.[1];
  return byte === undefined ? [...Buffer.from(piece)] : [Number.parseInt(byte, 16)];
}

/** Sends what an engine generates, as one body or as events. */
export class CompletionReply implements Sink {
  readonly #request: ResultRequest;
  readonly #reply: Reply;
  readonly #engine: ModelEngine;
  readonly #reporting: boolean;
  readonly #streaming: boolean;
  readonly mayWait: boolean;
  #content = '';
  #hasNewLine = false;
  readonly #listed = new ListedTokens();
  #reports: TokenReport[] = [];
  #tokens: number[] = [];
  #made = 0;
  #isOpen = false;

  constructor(request: ResultRequest, reply: Reply, engine: ModelEngine) {
    this.#request = request;
    this.#reply = reply;
    this.#engine = engine;
    this.#reporting = request.options.n_probs > 0;
    this.#streaming = request.options.stream;
    this.mayWait = this.#streaming && reply.mayGather;
  }

  start(): void {}

  text(text: string, reports: readonly TokenReport[], waits = false, details?: TextDetails): void {
    this.#hasNewLine ||= text.includes('\n');
    if (!this.#streaming) {
      // A body has no events to count: what would be one in a stream counts.
      if (this.#made++ === this.#reply.fault.oomAfter) return this.#engine.exhaust?.();
      const tooMany = this.#listed.add(reports);
      if (tooMany !== undefined) return this.#reply.json(400, llamaProblem(400, tooMany));
      this.#content += text;
      // A whole answer comes at once, and a call does not take more than some 120,000 arguments.
      for (const report of reports) this.#reports.push(report);
      for (const token of details?.tokens ?? []) this.#tokens.push(token);
      return;
    }
    const isFirst = !this.#isOpen;
    this.#open();
    const { options } = this.#request;
    const listed = this.#reporting
      ? `,"completion_probabilities":${JSON.stringify(probabilitiesOf(reports, options))}`
      : '';
    const asked = details === undefined ? '' : detailMembers(details);
    this.#reply.event(`data: {"content":${JSON.stringify(text)},"stop":false${asked}${listed}}\n\n`, FRAMES);
    if (!waits || isFirst) this.#reply.flush();
  }

  leave(): void {
    this.#reply.flush();
  }

  end(end: CompletionEnd): void {
    const { timingsId, model, options } = this.#request;
    const failed = end.reason === 'failed' ? end.message : undefined;
    const streamed = this.#streaming && (this.#isOpen || failed === undefined);
    const faulty = !streamed && this.#reply.fault.errorAfter !== undefined ? 'the simulated engine failed' : undefined;
    if (failed !== undefined && streamed) return this.#reply.fail(FRAMES.failure(failed));
    const message = failed ?? faulty;
    const { status = 500 } = end;
    if (message !== undefined) return this.#reply.json(status, llamaProblem(status, message));
    const gathered: Gathered = {
      content: this.#content,
      hasNewLine: this.#hasNewLine,
      tokens: this.#tokens,
      reports: this.#reporting && !streamed ? this.#reports : null,
    };
    const all = resultOf(this.#request, this.#engine.contextTokens(model), end, gathered);
    const result = fieldsOf(all, options.response_fields);
    const timings = timingsId === null ? undefined : this.#engine.timings?.(timingsId);
    if (!streamed) return this.#reply.json(200, result, timingsHeader(timings));
    this.#open();
    // Whatever is asked for, a stream must say that this is its end.
    this.#reply.lastEvent(dataFrame({ ...result, stop: true }), FRAMES);
    if (timings !== undefined) this.#reply.comment(`truth ${JSON.stringify(timings)}`);
    this.#reply.end();
  }

  rest(): Promise<void> | undefined {
    return this.#streaming ? this.#reply.rest() : undefined;
  }

  #open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#reply.open();
  }
}

/** Members of an event as JSON, each behind a comma. */
function detailMembers({ tokens, timings, promptProgress }: TextDetails): string {
  let members = tokens === undefined ? '' : `,"tokens":${JSON.stringify(tokens)}`;
  if (timings !== undefined) members += `,"timings":${JSON.stringify(timings)}`;
  if (promptProgress !== undefined) members += `,"prompt_progress":${JSON.stringify(promptProgress)}`;
  return members;
}

/** Members of `default_generation_settings`. */
export function defaultSettings(model: string, contextTokens: number): Json {
  return generationSettings(DEFAULT_OPTIONS, model, contextTokens);
}
