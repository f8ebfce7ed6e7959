// An engine that is another server: llama-server, vLLM or any OpenAI-compatible one. Requests of compatible dialects are
// passed through; llama-style requests are translated both ways, and options the server does not support are refused by name.
import { type Clock, systemClock } from '../../actor/index.ts';
import { invalidOption } from '../completion-options.ts';
import {
  type CompletionEnd,
  type EngineFigures,
  type EngineProps,
  type ModelEngine,
  type RawAnswer,
  type RawRequest,
  type Run,
  type Sink,
  type SlotState,
  type Task,
  type TokenizeOptions,
  type TokenPiece,
  NO_FIGURES,
} from '../model-engine.ts';
import { membersOf } from '../../net/json-object.ts';
import { generate } from './attached-generation.ts';
import {
  type AttachedEngineKind,
  type DetectedEngine,
  type DetectedModel,
  detectEngine,
  recognise,
  type RecognisedEngine,
} from './detect.ts';
import { type EngineTimeouts, AttachedEngineError } from './engine-dispatch.ts';
import { type JsonObject, complaintOf, EngineHttp, failureOf, numberOf } from './engine-http.ts';
import { EngineMonitor } from './engine-monitor.ts';
import { relayToEngine } from './engine-relay.ts';
import { LlamaServerProtocol } from './llama-server-protocol.ts';
import { OpenAiProtocol } from './openai-protocol.ts';
import { refuseUnsupportedOptions } from './unsupported-options.ts';
/** Settings of an attached engine; only `url` is required. */
export interface AttachedSettings {
  /** Base URL of the engine, http: or https:. */
  readonly url: string;
  /** The engine's own key; default none. Keys of clients never reach the engine. */
  readonly apiKey?: string;
  /**
   * Model names of the host. Each must be a model of the engine, in any case of letters; when the engine has
   * only one, any single name stands for it. Default: the engine's own names.
   */
  readonly models?: readonly string[];
  /** Context size in tokens, for engines that do not say; default 0, which stands for unknown. */
  readonly contextTokens?: number;
  /** How long the engine may take to be there and ready; default 600000. */
  readonly readyMs?: number;
  /** Between two attempts to find it ready; default 1000. */
  readonly retryMs?: number;
  /** For one short question, such as its health; default 10000. */
  readonly questionMs?: number;
  /** Between two looks at its health; default 2000. */
  readonly watchMs?: number;
  /** Default: 10 s to connect, an hour for the beginning of an answer, 5 minutes between two pieces. */
  readonly timeouts?: Partial<EngineTimeouts>;
  /** Most requests at once; default 1024. */
  readonly maxConnections?: number;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Called with the reason while the engine is not ready. */
  readonly onWaiting?: (reason: string) => void;
  /** Called with a sentence when the engine becomes unavailable or available. */
  readonly onNotice?: (sentence: string) => void;
}

/** Paths of an engine's own API that are passed on: what answers requests, and nothing that changes the engine. */
const OWN_POSTS: Readonly<Partial<Record<AttachedEngineKind, readonly string[]>>> = {
  vllm: ['/classify', '/pooling', '/score', '/v1/score', '/v2/rerank'],
  ollama: ['/api/chat', '/api/embed', '/api/embeddings', '/api/generate', '/api/show'],
};

const OWN_GETS: Readonly<Partial<Record<AttachedEngineKind, readonly string[]>>> = {
  vllm: ['/version'],
  ollama: ['/api/ps', '/api/tags', '/api/version'],
};

const TIMEOUTS: EngineTimeouts = { connectMs: 10_000, firstMs: 3_600_000, idleMs: 300_000 };

/** How long an answer of the host waits for what the engine shows of itself. */
const SHOW_MS = 2000;

/** What answers at a URL, asked once, without a key and without a request for a model. Rejects with a message for operators. */
export async function recogniseEngine(url: string, questionMs: number): Promise<RecognisedEngine> {
  const timeouts = { ...TIMEOUTS, connectMs: questionMs };
  const http = new EngineHttp({ url, apiKey: undefined, clock: systemClock, timeouts, maxConnections: 1 });
  try {
    return await recognise(http, questionMs);
  } finally {
    http.close();
  }
}

/** Finds the engine, waiting while it loads, and attaches to it. Rejects with a message for operators. */
export async function attachEngine(settings: AttachedSettings): Promise<AttachedEngine> {
  const { url, apiKey, clock = systemClock, timeouts, maxConnections = 1024, onWaiting = () => undefined } = settings;
  const { readyMs = 600_000, retryMs = 1000, questionMs = 10_000 } = settings;
  const http = new EngineHttp({ url, apiKey, clock, timeouts: { ...TIMEOUTS, ...timeouts }, maxConnections });
  try {
    const detected = await detectEngine(http, { clock, deadlineMs: readyMs, retryMs, questionMs, onWaiting });
    return new AttachedEngine(http, detected, settings);
  } catch (error) {
    http.close();
    throw error;
  }
}

export class AttachedEngine implements ModelEngine {
  readonly kind: string;
  readonly givesTokens: boolean;
  readonly readsOthers: boolean;
  readonly models: readonly string[];
  readonly detected: DetectedEngine;
  readonly #http: EngineHttp;
  readonly #names: ReadonlyMap<string, DetectedModel>;
  readonly #settings: AttachedSettings;
  readonly #clock: Clock;
  readonly #questionMs: number;
  readonly #monitor: EngineMonitor;
  readonly #figures = { ...NO_FIGURES };

  /** @internal */
  constructor(http: EngineHttp, detected: DetectedEngine, settings: AttachedSettings) {
    const { models, clock = systemClock, questionMs = 10_000, watchMs = 2000, onNotice = () => undefined } = settings;
    this.#http = http;
    this.#settings = settings;
    this.#clock = clock;
    this.#questionMs = questionMs;
    this.detected = detected;
    this.kind = detected.kind;
    this.givesTokens = detected.kind === 'llama-server';
    this.readsOthers = this.givesTokens;
    this.#names = namesOf(detected, models ?? detected.models.map(({ id }) => id));
    this.models = [...this.#names.keys()];
    this.#monitor = new EngineMonitor(http, detected, { clock, periodMs: watchMs, questionMs, onNotice });
  }

  relays(path: string): boolean {
    return OWN_POSTS[this.detected.kind]?.includes(path) === true;
  }

  async shown(path: string): Promise<unknown> {
    return OWN_GETS[this.detected.kind]?.includes(path) === true ? this.#shown(path) : undefined;
  }

  contextTokens(model: string): number {
    return this.#of(model).contextTokens ?? this.#settings.contextTokens ?? 0;
  }

  health(): 'loading' | 'ready' | 'failed' {
    return this.#monitor.health;
  }

  complete(task: Task, sink: Sink): Run {
    refuseUnsupportedOptions(this.detected, task.options);
    const model = { ...this.#of(task.model), contextTokens: this.contextTokens(task.model) || null };
    const Protocol = this.kind === 'llama-server' ? LlamaServerProtocol : OpenAiProtocol;
    const protocol = new Protocol(task, {
      engine: this.detected,
      model,
      system: task.system ?? '',
      tokenize: (text, isFirst) => this.#tokens(model.id, text, isFirst),
      mediaMarker: () => this.#mediaMarker(),
      now: () => this.#clock.now(),
    });
    this.#figures.running++;
    return generate(this.#http, protocol, sink, (end, cause) => this.#ended(end, cause));
  }

  tokenize(
    model: string,
    content: string,
    { addSpecial = false, parseSpecial }: TokenizeOptions = {},
  ): Promise<number[]> {
    if (parseSpecial !== undefined && this.kind !== 'llama-server') {
      throw invalidOption('parse_special', `the engine behind this host (${this.kind}) does not know it`);
    }
    return this.#tokens(this.#of(model).id, content, addSpecial, parseSpecial);
  }

  async pieces(
    model: string,
    content: string,
    { addSpecial, parseSpecial }: TokenizeOptions = {},
  ): Promise<TokenPiece[]> {
    if (this.kind !== 'llama-server') {
      throw invalidOption('with_pieces', `the engine behind this host (${this.kind}) gives numbers alone`);
    }
    const flags = {
      add_special: addSpecial ?? false,
      ...(parseSpecial !== undefined && { parse_special: parseSpecial }),
    };
    const body = { model: this.#of(model).id, content, ...flags, with_pieces: true };
    const { status, json, text } = await this.#http.ask('/tokenize', body, this.#questionMs);
    const { tokens } = membersOf(json);
    if (status !== 200 || !Array.isArray(tokens)) throw failureOf(status, text);
    return tokens as TokenPiece[];
  }

  async detokenize(model: string, tokens: readonly number[]): Promise<string> {
    this.#needTokenizer('tokens');
    const body = { model: this.#of(model).id, tokens };
    const { status, json, text } = await this.#http.ask('/detokenize', body, this.#questionMs);
    const { content, prompt } = membersOf(json);
    const words = content ?? prompt;
    if (status === 200 && typeof words === 'string') return words;
    if (status >= 500 || status === 401 || status === 403) throw failureOf(status, text);
    throw invalidOption('tokens', complaintOf(status, text));
  }

  props(): EngineProps {
    return { slots: this.detected.slots, isMultimodal: this.detected.isMultimodal };
  }

  /** Null when the engine keeps them to itself. Requests of others in them, such as their options, are left out. */
  async slots(): Promise<readonly SlotState[] | null> {
    const list = await this.#shown('/slots');
    if (!Array.isArray(list)) return null;
    return list.map((entry: unknown, at) => {
      const { id, n_ctx, is_processing, speculative, next_token, n_prompt_tokens } = membersOf(entry);
      const next = membersOf([next_token].flat()[0]);
      return {
        id: numberOf(id) ?? at,
        n_ctx: numberOf(n_ctx) ?? 0,
        is_processing: is_processing === true,
        n_tokens: (numberOf(n_prompt_tokens) ?? 0) + (numberOf(next['n_decoded']) ?? 0),
        ...(typeof speculative === 'boolean' && { speculative }),
        ...(next_token !== undefined && { next_token }),
      };
    });
  }

  async ownProps(): Promise<JsonObject> {
    return this.kind === 'llama-server' ? membersOf(await this.#shown('/props')) : {};
  }

  listed(model: string): JsonObject {
    const { meta } = this.#of(model);
    return meta === null ? {} : { meta };
  }

  figures(): EngineFigures {
    return { ...this.#figures };
  }

  /** The engine's own metrics; null when it has none. */
  async metrics(): Promise<string | null> {
    try {
      const { status, text } = await this.#http.ask('/metrics', undefined, this.#questionMs);
      return status === 200 && text.startsWith('#') ? text : null;
    } catch {
      return null;
    }
  }

  readonly relay = async (request: RawRequest): Promise<RawAnswer> => {
    const figures = this.#figures;
    let isOver = false;
    const over = (): void => {
      if (!isOver) figures.running--;
      isOver = true;
    };
    figures.running++;
    // A client that leaves may never read the body.
    request.signal.addEventListener('abort', over, { once: true });
    try {
      const deps = { http: this.#http, engine: this.detected, onFailure: (cause: Error) => this.#doubt(cause) };
      const answer = await relayToEngine(deps, this.#of(request.model).id, request);
      return { ...answer, body: followed(answer.body, over) };
    } catch (error) {
      over();
      throw error;
    }
  };

  async close(): Promise<void> {
    this.#monitor.close();
    this.#http.close();
  }

  /** What the engine shows of itself on a path; undefined when it does not, or not soon. */
  async #shown(path: string): Promise<unknown> {
    const answer = await this.#http.ask(path, undefined, Math.min(SHOW_MS, this.#questionMs)).catch(() => null);
    return answer?.status === 200 ? answer.json : undefined;
  }

  async #mediaMarker(): Promise<string> {
    const { media_marker } = await this.ownProps();
    return typeof media_marker === 'string' ? media_marker : this.detected.mediaMarker;
  }

  #of(model: string): DetectedModel {
    const known = this.#names.get(model);
    if (known === undefined) throw new Error(`no such model: ${model}`);
    return known;
  }

  async #tokens(modelId: string, text: string, isFirst: boolean, parseSpecial?: boolean): Promise<number[]> {
    this.#needTokenizer('content');
    const special = parseSpecial === undefined ? {} : { parse_special: parseSpecial };
    const body =
      this.kind === 'vllm'
        ? { model: modelId, prompt: text, add_special_tokens: isFirst }
        : { model: modelId, content: text, add_special: isFirst, ...special };
    const { status, json, text: said } = await this.#http.ask('/tokenize', body, this.#questionMs);
    const { tokens } = membersOf(json);
    if (status !== 200 || !Array.isArray(tokens)) throw failureOf(status, said);
    return tokens as number[];
  }

  #needTokenizer(member: string): void {
    if (this.detected.canTokenize) return;
    throw invalidOption(member, `the engine behind this host (${this.kind}) shows nothing of its tokens`);
  }

  /** Marks the engine as failed at once: the next health check may be far away. */
  #doubt(cause: Error): void {
    if (cause instanceof AttachedEngineError && cause.isUnreachable) this.#monitor.doubt();
  }

  #ended(end: CompletionEnd | null, cause: Error | null): void {
    const figures = this.#figures;
    figures.running--;
    if (cause !== null) this.#doubt(cause);
    if (end === null) return;
    figures.promptTokens += end.promptTokens;
    figures.cachedTokens += end.cachedTokens;
    figures.generatedTokens += end.generatedTokens;
    figures.promptMs += end.promptMs;
    figures.generationMs += end.generationMs;
  }
}

/** The same body; calls back when it has ended, whichever way. */
async function* followed(body: AsyncIterable<Uint8Array>, onEnd: () => void): AsyncGenerator<Uint8Array, void, void> {
  try {
    yield* body;
  } finally {
    onEnd();
  }
}

/** The engine's model for each name of the host. */
function namesOf({ url, models }: DetectedEngine, names: readonly string[]): ReadonlyMap<string, DetectedModel> {
  const isAlias = names.length === 1 && models.length === 1;
  return new Map(
    names.map((name) => {
      const same =
        models.find(({ id }) => id === name) ?? models.find(({ id }) => id.toLowerCase() === name.toLowerCase());
      const model = same ?? (isAlias ? models[0] : undefined);
      if (model !== undefined) return [name, model];
      const served = models.map(({ id }) => id).join(', ');
      throw new Error(`the engine at ${url} has no model ${name}; it has ${served}`);
    }),
  );
}
