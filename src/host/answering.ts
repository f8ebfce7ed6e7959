// A request of a compatible dialect, answered by an engine: the dialect's request as a task, and what the engine says as
// the dialect's answer or events. Called by routes.ts for hosts with an engine; the llama-style paths have their own way
// (llama/routes.ts). Nothing is sent before the first token, so a failure before it is answered with a status.
import type { CallSink } from './wire/call-reader.ts';
import { CallReader } from './wire/call-reader.ts';
import { schemaGrammar } from './engine/grammar/schema.ts';
import { toolCallGrammar } from './engine/grammar/tool-calls.ts';
import type { CompletionEnd, Engine, Run, Sink, Task } from './llama/engine.ts';
import { readSampling } from './llama/options.ts';
import type { Reply } from './reply.ts';
import type { Want } from './wire/turns.ts';
import type { Call, Frames, Generation, Json, Wire } from './wire/wire.ts';

/** What is known of a request before its answer begins. */
export interface DialectRequest {
  readonly wire: Wire;
  readonly body: Json;
  readonly model: string;
  /** Id of the answer, unique within the host. */
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  /** Tokens of an answer when the request names no maximum; -1: no bound. */
  readonly maxTokens: number;
  readonly truthId: string | null;
}

/** Begins the answer. Throws what reading the request throws: InvalidOptions, PromptTooLong, or an Error of the dialect. */
export function answerByEngine(engine: Engine, reply: Reply, request: DialectRequest): void {
  const { wire, body, model, truthId } = request;
  const ask = wire.read(body);
  const want = wire.want(body);
  const options = {
    ...readSampling({ cache_prompt: true, ...body, stop: null, grammar: grammarOf(want) ?? body['grammar'] }),
    stop: ask.stops,
    n_predict: ask.maxTokens ?? request.maxTokens,
  };
  const task: Task = { model, prompt: want.prompt, options, whenFull: 'stop', truthId };
  const answer = new Growing(request, ask, want.tools.length > 0);
  const sink = ask.stream ? new Streaming(answer, wire, reply, engine) : new Whole(answer, wire, reply, engine);
  const run: Run = engine.complete(task, sink);
  reply.onClose(() => run.cancel());
}

function grammarOf({ tools, schema }: Want): string | undefined {
  if (tools.length > 0) return toolCallGrammar(tools);
  return schema === undefined ? undefined : schemaGrammar(schema);
}

/** A generation that grows; see wire.ts. */
class Growing implements Generation {
  readonly id: string;
  readonly model: string;
  readonly created: number;
  readonly body: Json;
  readonly ask: Generation['ask'];
  readonly pieces: string[] = [];
  finish: Generation['finish'] = 'stop';
  stoppingWord = '';
  promptTokens = 0;
  cachedTokens = 0;
  outputTokens = 0;
  readonly callsTools: boolean;
  readonly calls: (Call & { arguments: string })[] = [];
  readonly truthId: string | null;
  readonly timeToFirstTokenMs = 0;
  readonly interTokenMs = 0;

  constructor({ id, model, created, body, truthId }: DialectRequest, ask: Generation['ask'], callsTools: boolean) {
    this.id = id;
    this.model = model;
    this.created = created;
    this.body = body;
    this.ask = ask;
    this.callsTools = callsTools;
    this.truthId = truthId;
  }

  beginCall(name: string): Call {
    const call = { id: `call_${this.id}_${this.calls.length}`, name, arguments: '' };
    this.calls.push(call);
    return call;
  }

  end({ reason, stoppingWord, generatedTokens }: CompletionEnd): void {
    const isCut = reason === 'limit' || reason === 'context';
    this.outputTokens = generatedTokens;
    this.stoppingWord = stoppingWord;
    this.finish = isCut ? 'length' : this.callsTools ? 'tool_calls' : 'stop';
  }
}

abstract class Answering implements Sink {
  protected readonly answer: Growing;
  protected readonly wire: Wire;
  protected readonly reply: Reply;
  protected readonly engine: Engine;

  constructor(answer: Growing, wire: Wire, reply: Reply, engine: Engine) {
    this.answer = answer;
    this.wire = wire;
    this.reply = reply;
    this.engine = engine;
  }

  start(promptTokens: number, cachedTokens: number): void {
    this.answer.promptTokens = promptTokens;
    this.answer.cachedTokens = cachedTokens;
  }

  abstract text(text: string): void;
  abstract end(end: CompletionEnd): void;

  protected refuse(message: string): void {
    const problem = this.wire.problem(500, message, 'server_error');
    this.reply.json(500, { detail: message, ...problem });
  }
}

/** Answers at the end, with one body. */
class Whole extends Answering {
  readonly #reader: CallReader | null;

  constructor(answer: Growing, wire: Wire, reply: Reply, engine: Engine) {
    super(answer, wire, reply, engine);
    const sink: CallSink = {
      begin: (name) => void answer.beginCall(name),
      more: (text) => void (answer.calls.at(-1)!.arguments += text),
    };
    this.#reader = answer.callsTools ? new CallReader(sink) : null;
  }

  text(text: string): void {
    if (this.#reader === null) this.answer.pieces.push(text);
    else this.#reader.push(text);
  }

  end(end: CompletionEnd): void {
    const { answer, wire, reply, engine } = this;
    this.#reader?.end(end.reason === 'eos');
    if (end.reason === 'failed') return this.refuse(end.message);
    if (reply.fault.errorAfter !== undefined) return this.refuse('the simulated engine failed');
    answer.end(end);
    const truth = answer.truthId === null ? undefined : engine.truth?.(answer.truthId);
    reply.json(200, wire.answer(answer), truth === undefined ? {} : { 'x-headrace-truth': JSON.stringify(truth) });
  }
}

/** Answers with events, each as soon as its token is made. */
class Streaming extends Answering {
  readonly #frames: Frames;
  readonly #reader: CallReader | null;
  #isOpen = false;

  constructor(answer: Growing, wire: Wire, reply: Reply, engine: Engine) {
    super(answer, wire, reply, engine);
    this.#frames = wire.frames(answer);
    const sink: CallSink = {
      begin: (name) => this.#send(this.#frames.call(answer.beginCall(name), answer.calls.length - 1)),
      more: (text) => {
        answer.calls.at(-1)!.arguments += text;
        this.#send([this.#frames.argument(text, answer.calls.length - 1)]);
      },
    };
    this.#reader = answer.callsTools ? new CallReader(sink) : null;
  }

  text(text: string): void {
    const { answer, reply } = this;
    this.#open();
    if (this.#reader !== null) this.#reader.push(text);
    else reply.event(this.#frames.token(text, answer.pieces.push(text) - 1), this.#frames);
    reply.flush();
  }

  end(end: CompletionEnd): void {
    const { answer, reply, engine } = this;
    if (end.reason === 'failed') {
      if (!this.#isOpen) return this.refuse(end.message);
      return reply.fail(this.#frames.failure(end.message));
    }
    this.#open();
    this.#reader?.end(end.reason === 'eos');
    answer.end(end);
    const closing = this.#frames.closing();
    const last = closing.pop();
    this.#send(closing);
    if (last !== undefined) reply.lastEvent(last, this.#frames);
    const truth = answer.truthId === null ? undefined : engine.truth?.(answer.truthId);
    if (truth !== undefined) reply.comment(`truth ${JSON.stringify(truth)}`);
    reply.end();
  }

  #open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.reply.open();
    this.#send(this.#frames.opening());
  }

  #send(frames: readonly string[]): void {
    for (const frame of frames) this.reply.event(frame, this.#frames);
  }
}
