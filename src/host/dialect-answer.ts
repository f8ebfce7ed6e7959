// Answers a request of a compatible dialect with an engine: one task per choice, and the generated text as one body or as
// server-sent events. Nothing is sent before the first token, so an earlier failure still gets a status.
import { type CompletionOptions, DEFAULT_OPTIONS, invalidOption, readSampling } from './completion-options.ts';
import { schemaGrammar, toolCallGrammar } from './engine/grammar/json-schema-grammar.ts';
import type { Pace } from './engine/pace.ts';
import { type ServerTimings, timingsHeader } from './engine/server-timings.ts';
import { Choice } from './formats/choice.ts';
import type { PromptSpec } from './formats/conversation.ts';
import { type ApiFormat, type Frames, type Json, type RequestFields, ListedTokens } from './formats/format.ts';
import type { CompletionEnd, ModelEngine, Run, Sink, Task, TokenLogProbs, TokenReport } from './model-engine.ts';
import type { Reply } from './reply.ts';
import { type Script, generatedText, PartReader, scriptedParts } from './script.ts';
import { parseJson } from '../config/json-text.ts';

/** Each takes a place in the engine, before and while it runs. */
const MAX_CHOICES = 2048;

/** What is known of a request before its answer begins. */
export interface DialectRequest {
  readonly format: ApiFormat;
  readonly body: Json;
  readonly model: string;
  /** Text in front of every prompt of the caller; empty: none. */
  readonly system: string;
  /** Id of the answer, unique within the host. */
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  /** Tokens of an answer when the request names no maximum; -1: no bound. */
  readonly maxTokens: number;
  /** What a plan for this request changes in its options. */
  readonly planned: Partial<CompletionOptions>;
  readonly pace: Partial<Pace>;
  readonly timingsId: string | null;
  /** What the model says to conversations. Default: what the engine generates. */
  readonly script?: Script | undefined;
}

/** Tokens of the prompt of a request. The engine must be able to count. Throws what reading the request throws. */
export async function countTokens(
  engine: ModelEngine,
  model: string,
  format: ApiFormat,
  body: Json,
  system = '',
): Promise<number> {
  const { prompt } = format.read(body);
  const whole =
    engine.isPaced === true ? ({ kind: 'parts', parts: [prompt] } as const) : format.readPrompts(body).prompts[0]!;
  return engine.countPrompt!(model, whole, system);
}

/** Begins the answer. Throws what reading the request throws: InvalidOptions, PromptTooLong, or an Error of the dialect. */
export function answerByEngine(engine: ModelEngine, reply: Reply, request: DialectRequest): void {
  const { format, body, timingsId } = request;
  const fields = format.read(body);
  const read = engine.isPaced === true ? plainPromptSpec(fields) : format.readPrompts(body);
  const script = request.script === undefined ? undefined : scriptedParts(request.script, read);
  const spec = script === undefined ? read : scriptedSpec(read);
  if (fields.logProbs !== null && engine.givesLogProbs !== true) {
    throw invalidOption('logprobs', `the engine of this host (${engine.kind}) gives no log probabilities`);
  }
  const options = engine.isPaced === true ? plainOptions(request, fields) : optionsOf(request, fields, spec);
  const parts = { ...request, fields, callsTools: spec.tools.length > 0, script: script ?? null };
  const choices: Choice[] = [];
  const count = spec.prompts.length * fields.choices;
  if (count > MAX_CHOICES) throw invalidOption('prompt', `a request has at most ${MAX_CHOICES} choices of all prompts`);
  for (let at = 0; at < count; at++) choices.push(new Choice(parts, choices, at));
  const deps = { choices, format, reply, engine, timingsId };
  const answer = fields.stream ? new Streaming(deps) : new Whole(deps);
  reply.onClose(() => answer.cancel());
  try {
    for (const choice of choices) answer.run(choice, taskOf(request, spec, options, choice));
  } catch (error) {
    answer.cancel();
    throw error;
  }
}

/** A paced engine generates words only: tools and schemas are ignored. Throws InvalidOptions for more than one choice. */
function plainPromptSpec({ choices, prompt }: RequestFields): PromptSpec {
  if (choices > 1) throw invalidOption('n', 'a host with a fixed pace gives one choice');
  return { prompts: [{ kind: 'parts', parts: [prompt] }], offered: [], tools: [], schema: undefined };
}

/** What a script says is not constrained by tools or a schema. */
function scriptedSpec(spec: PromptSpec): PromptSpec {
  const prompts = spec.prompts.map((prompt) =>
    prompt.kind === 'chat' ? { ...prompt, speaks: 'prose' as const } : prompt,
  );
  return { ...spec, prompts, tools: [], schema: undefined };
}

function plainOptions({ body, maxTokens, planned }: DialectRequest, fields: RequestFields): CompletionOptions {
  const ignore_eos = body['ignore_eos'] === true;
  return { ...DEFAULT_OPTIONS, stop: fields.stops, n_predict: fields.maxTokens ?? maxTokens, ignore_eos, ...planned };
}

function optionsOf(
  { body, maxTokens, planned }: DialectRequest,
  fields: RequestFields,
  spec: PromptSpec,
): CompletionOptions {
  return {
    ...readSampling({ cache_prompt: true, ...body, stop: null, grammar: grammarOf(spec) ?? body['grammar'] }),
    stop: fields.stops,
    n_predict: fields.maxTokens ?? maxTokens,
    ...planned,
  };
}

/** Choices of one prompt have seeds that follow each other, so that the first is what it would be alone. */
function taskOf(
  { model, pace, system, timingsId }: DialectRequest,
  spec: PromptSpec,
  options: CompletionOptions,
  choice: Choice,
): Task {
  const { fields, script } = choice.parts;
  const { choices, logProbs } = fields;
  const seed = options.seed < 0 ? options.seed : options.seed + (choice.index % choices);
  return {
    model,
    system,
    prompt: spec.prompts[Math.floor(choice.index / choices)]!,
    options: { ...options, seed },
    whenFull: 'stop',
    timingsId: choice.index === 0 ? timingsId : null,
    pace,
    ...(logProbs !== null && { logProbs }),
    ...(script !== null && { text: generatedText(script) }),
  };
}

function grammarOf({ tools, schema }: PromptSpec): string | undefined {
  if (tools.length > 0) return toolCallGrammar(tools);
  return schema === undefined ? undefined : schemaGrammar(schema);
}

interface AnswerDeps {
  readonly choices: readonly Choice[];
  readonly format: ApiFormat;
  readonly reply: Reply;
  readonly engine: ModelEngine;
  readonly timingsId: string | null;
}

/** Takes what an engine says of all choices, until the last has ended or one has failed. */
abstract class Answer {
  protected readonly deps: AnswerDeps;
  readonly #runs: Run[] = [];
  readonly #listed = new ListedTokens();
  #isOver = false;

  constructor(deps: AnswerDeps) {
    this.deps = deps;
  }

  /** Begins a choice. */
  run(choice: Choice, task: Task): void {
    if (this.#isOver) return;
    const sink: Sink = {
      start(promptTokens, cachedTokens) {
        choice.promptTokens = promptTokens;
        choice.cachedTokens = cachedTokens;
      },
      text: (text, reports, waits = false) => {
        if (this.#isOver) return;
        const tooMany = choice.logProbs === null ? undefined : this.#listed.add(reports);
        if (tooMany === undefined) this.text(choice, text, reports, waits);
        else this.#fail(tooMany, 400);
      },
      leave: () => this.leave(),
      mayWait: this.mayWait,
      end: (end) => {
        if (!this.#isOver) this.#end(choice, end);
      },
      rest: () => this.rest(),
    };
    this.#runs.push(this.deps.engine.complete(task, sink));
  }

  cancel(): void {
    this.#isOver = true;
    for (const run of this.#runs) run.cancel();
  }

  protected abstract text(choice: Choice, text: string, reports: readonly TokenReport[], waits: boolean): void;
  protected abstract fail(message: string, status: number): void;
  protected abstract end(choice: Choice, end: CompletionEnd): void;

  /** Whether text may wait for more; see `Sink`. */
  protected readonly mayWait: boolean = false;

  protected leave(): void {}

  /** What the sink of every choice says when its engine asks whether the client takes more. */
  protected rest(): Promise<void> | undefined {
    return undefined;
  }

  protected refuse(message: string, status: number): void {
    const problem = this.deps.format.problem(status, message, status < 500 ? 'invalid_request' : 'server_error');
    this.deps.reply.json(status, { detail: message, ...problem });
  }

  protected timings(): ServerTimings | undefined {
    const { engine, timingsId } = this.deps;
    return timingsId === null ? undefined : engine.timings?.(timingsId);
  }

  /** Only scripted answers have reasoning, and their engine counts tokens at once. */
  #reasoningTokens({ parts, reasoning }: Choice, most: number): number {
    if (reasoning === '') return 0;
    const tokens = this.deps.engine.tokenize(parts.model, reasoning);
    return 'length' in tokens ? Math.min(tokens.length, most) : 0;
  }

  #end(choice: Choice, end: CompletionEnd): void {
    if (end.reason !== 'failed') {
      choice.reasoningTokens = this.#reasoningTokens(choice, end.generatedTokens);
      return this.end(choice, end);
    }
    this.#fail(end.message, end.status ?? 500);
  }

  #fail(message: string, status: number): void {
    this.cancel();
    this.fail(message, status);
  }
}

/** Answers at the end, with one body. */
class Whole extends Answer {
  readonly #readers: readonly (CallReader | PartReader | null)[];
  #made = 0;

  constructor(deps: AnswerDeps) {
    super(deps);
    this.#readers = deps.choices.map((choice) =>
      readerOf(choice, {
        begin: (name) => void choice.beginCall(name),
        more: (text) => void (choice.calls.at(-1)!.arguments += text),
        reasoning: (text) => void (choice.reasoning += text),
        text: (text) => void choice.take(text, []),
      }),
    );
  }

  protected text(choice: Choice, text: string, reports: readonly TokenReport[]): void {
    const { engine, reply } = this.deps;
    // A body has no events to count: what would be one in a stream counts.
    if (this.#made++ === reply.fault.oomAfter) return engine.exhaust?.();
    const reader = this.#readers[choice.index]!;
    if (reader === null) choice.take(text, reports);
    else reader.push(text);
  }

  protected fail(message: string, status: number): void {
    this.refuse(message, status);
  }

  protected end(choice: Choice, end: CompletionEnd): void {
    const { choices, reply, format } = this.deps;
    this.#readers[choice.index]?.end(end.reason === 'eos');
    choice.end(end);
    if (!choices.every(({ hasEnded }) => hasEnded)) return;
    if (reply.fault.errorAfter !== undefined) return this.refuse('the simulated engine failed', 500);
    reply.json(200, format.answer(choices[0]!), timingsHeader(this.timings()));
  }
}

/** Answers with events, each as soon as its token is made or, where the engine lets it wait, with the next one. */
class Streaming extends Answer {
  /** Choices share a socket, and each would let the other's text go. */
  protected override readonly mayWait: boolean = this.deps.choices.length === 1 && this.deps.reply.mayGather;
  readonly #frames: readonly Frames[];
  readonly #readers: readonly (CallReader | PartReader | null)[];
  #isOpen = false;

  constructor(deps: AnswerDeps) {
    super(deps);
    this.#frames = deps.choices.map((choice) => deps.format.frames(choice));
    this.#readers = deps.choices.map((choice) =>
      readerOf(choice, {
        begin: (name) => this.#send(choice, this.#of(choice).call(choice.beginCall(name), choice.calls.length - 1)),
        more: (text) => {
          choice.calls.at(-1)!.arguments += text;
          this.#send(choice, [this.#of(choice).argument(text, choice.calls.length - 1)]);
        },
        reasoning: (text) => {
          const frames = this.#of(choice);
          if (choice.reasoning === '') this.#send(choice, frames.begin('reasoning'));
          choice.reasoning += text;
          this.#send(choice, [frames.reasoning(text)]);
        },
        text: (text) => {
          if (choice.pieces.length === 0) this.#send(choice, this.#of(choice).begin('text'));
          this.#token(choice, text, choice.take(text, []), choice.pieces.length - 1);
        },
      }),
    );
  }

  protected text(choice: Choice, text: string, reports: readonly TokenReport[], waits: boolean): void {
    if (text === '') return void choice.take(text, reports);
    const isFirst = !this.#isOpen;
    this.#open(choice);
    const reader = this.#readers[choice.index]!;
    if (reader === null) this.#token(choice, text, choice.take(text, reports), choice.pieces.length - 1);
    else reader.push(text);
    if (!waits || isFirst) this.leave();
  }

  protected override leave(): void {
    this.deps.reply.flush();
  }

  protected override rest(): Promise<void> | undefined {
    return this.deps.reply.rest();
  }

  protected fail(message: string, status: number): void {
    if (!this.#isOpen) return this.refuse(message, status);
    this.deps.reply.fail(this.#frames[0]!.failure(message));
  }

  protected end(choice: Choice, end: CompletionEnd): void {
    const { choices, reply } = this.deps;
    const frames = this.#of(choice);
    this.#open(choice);
    this.#readers[choice.index]?.end(end.reason === 'eos');
    const rest = choice.end(end);
    if (rest.length > 0) this.#token(choice, '', rest, choice.pieces.length);
    const closing = frames.closing();
    if (!choices.every(({ hasEnded }) => hasEnded)) {
      this.#send(choice, closing);
      return reply.flush();
    }
    const last = closing.pop();
    this.#send(choice, closing);
    if (last !== undefined) reply.lastEvent(last, frames);
    const timings = this.timings();
    if (timings !== undefined) reply.comment(`truth ${JSON.stringify(timings)}`);
    reply.end();
  }

  #of(choice: Choice): Frames {
    return this.#frames[choice.index]!;
  }

  #open(choice: Choice): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.deps.reply.open();
    this.#send(choice, this.#of(choice).opening());
    if (this.#readers[choice.index] === null) this.#send(choice, this.#of(choice).begin('text'));
  }

  #token(choice: Choice, text: string, logProbs: readonly TokenLogProbs[] | undefined, at: number): void {
    const frames = this.#of(choice);
    this.deps.reply.event(frames.token(text, at, logProbs), frames);
  }

  #send(choice: Choice, frames: readonly string[]): void {
    for (const frame of frames) if (frame !== '') this.deps.reply.event(frame, this.#of(choice));
  }
}

/** Takes what a reader finds. */
export interface CallSink {
  /** A call of this tool begins. */
  begin(name: string): void;
  /** Its arguments go on: JSON text. */
  more(text: string): void;
}

interface AnswerSink extends CallSink {
  reasoning(text: string): void;
  text(text: string): void;
}

/** What finds tool calls and the parts of a script in the generated text; null where all of it is text. */
function readerOf({ parts: { callsTools, script } }: Choice, sink: AnswerSink): CallReader | PartReader | null {
  if (script === null) return callsTools ? new CallReader(sink) : null;
  return new PartReader(script, {
    begin: (part) => {
      if (part.kind === 'call') sink.begin(part.name);
    },
    more: ({ kind }, text) => {
      if (kind === 'call') sink.more(text);
      else sink[kind](text);
    },
  });
}

const HEAD = /^\{"name":("(?:[^"\\]|\\.)*"),"arguments":/;

export class CallReader {
  readonly #sink: CallSink;
  #held = '';
  #inside = false;

  constructor(sink: CallSink) {
    this.#sink = sink;
  }

  push(text: string): void {
    this.#held += text;
    // Strings in JSON hold no line breaks, so one always separates two calls.
    for (let end = this.#held.indexOf('\n'); end !== -1; end = this.#held.indexOf('\n')) {
      const rest = this.#held.slice(end + 1);
      this.#held = this.#held.slice(0, end);
      this.end(true);
      this.#held = rest;
    }
    this.#advance();
  }

  /** The text has ended; a call that was cut off keeps all of its arguments. */
  end(isWhole: boolean): void {
    this.#advance();
    const last = isWhole ? this.#held.slice(0, -1) : this.#held;
    if (this.#inside && last !== '') this.#sink.more(last);
    this.#held = '';
    this.#inside = false;
  }

  #advance(): void {
    if (!this.#inside) {
      const head = HEAD.exec(this.#held);
      if (head === null) return;
      this.#inside = true;
      this.#held = this.#held.slice(head[0].length);
      this.#sink.begin(parseJson(head[1]!) as string);
    }
    // The last character may be the brace that closes the call and not its arguments.
    if (this.#held.length < 2) return;
    this.#sink.more(this.#held.slice(0, -1));
    this.#held = this.#held.slice(-1);
  }
}
