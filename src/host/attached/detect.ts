// Detects what an attached engine is, waiting while it loads. llama-server is recognised by /props, its name in a header or its
// list of models, vLLM by /version, Ollama by /api/version; any other server that lists models at /v1/models counts as
// OpenAI-compatible. Empty requests show which dialects it serves. What an engine keeps to itself counts as absent.
import type { Clock } from '../../actor/index.ts';
import { membersOf } from '../../net/json-object.ts';
import { AttachedEngineError } from './engine-dispatch.ts';
import { type EngineHttp, type JsonObject, type AttachedResponse, complaintOf, numberOf } from './engine-http.ts';
import { missingOptions } from './unsupported-options.ts';
export type AttachedEngineKind = 'llama-server' | 'vllm' | 'ollama' | 'openai';

export interface DetectedModel {
  /** As the engine calls it. */
  readonly id: string;
  /** Tokens of one sequence, prompt and generated; null when the engine does not say. */
  readonly contextTokens: number | null;
  /** What the engine says of it besides; null: nothing. */
  readonly meta: JsonObject | null;
}

/** What was detected about an engine. */
export interface DetectedEngine {
  readonly url: string;
  readonly kind: AttachedEngineKind;
  /** As the engine writes it; null when it does not. */
  readonly version: string | null;
  /** At least one. */
  readonly models: readonly DetectedModel[];
  /** Sequences with a number of their own that requests may name; 0: none. */
  readonly slots: number;
  readonly isMultimodal: boolean;
  /** What stands for an image in a prompt of llama-server. */
  readonly mediaMarker: string;
  readonly canInfill: boolean;
  readonly canTokenize: boolean;
  /** Compatible paths it serves. */
  readonly dialects: ReadonlySet<string>;
}

/** What shows without a request for a model. */
export type RecognisedEngine = Omit<DetectedEngine, 'canInfill' | 'canTokenize' | 'dialects'>;

/** The engine wants a key, or another one. */
export class KeyRefused extends Error {
  readonly status: number;

  constructor(url: string, status: number) {
    super(`the engine at ${url} refuses the key of the host (${status})`);
    this.status = status;
  }
}

export interface DetectionSettings {
  readonly clock: Clock;
  /** All of the detection, waiting included; an engine may load for minutes. */
  readonly deadlineMs: number;
  /** Between two attempts. */
  readonly retryMs: number;
  /** One question. */
  readonly questionMs: number;
  /** Called with the reason for waiting, once per new reason. */
  readonly onWaiting: (reason: string) => void;
}

/** Paths of compatible dialects whose presence is asked for; others are passed on, and the engine's answer says. */
export const DIALECT_PATHS: readonly string[] = [
  '/v1/completions',
  '/v1/chat/completions',
  '/v1/responses',
  '/v1/messages',
  '/v1/embeddings',
];

const DEFAULT_MARKER = '<__media__>';

/** The engine is there and not ready: with AttachedEngineError, the only reason to ask again. */
class NotYet extends Error {}

/**
 * Retries until the engine is ready. Rejects with a message for operators: when the time is over, when the engine requires
 * another key, or when what answers is no engine.
 */
export async function detectEngine(http: EngineHttp, settings: DetectionSettings): Promise<DetectedEngine> {
  const { clock, deadlineMs, retryMs, onWaiting } = settings;
  const endMs = clock.now() + deadlineMs;
  let said = '';
  for (;;) {
    try {
      return await identify(http, settings);
    } catch (error) {
      const reason = (error as Error).message;
      if (!(error instanceof NotYet || error instanceof AttachedEngineError)) throw error;
      if (clock.now() + retryMs > endMs) {
        throw new Error(`no engine is ready at ${http.url} after ${deadlineMs / 1000} s: ${reason}`, { cause: error });
      }
      if (reason !== said) onWaiting(reason);
      said = reason;
    }
    await new Promise<void>((resolve) => clock.setTimeout(resolve, retryMs));
  }
}

const NAMES: Readonly<Record<AttachedEngineKind, string>> = {
  'llama-server': 'llama-server',
  vllm: 'vLLM',
  ollama: 'Ollama',
  openai: 'an OpenAI-compatible server',
};

/** One sentence for the log. */
export function describeEngine(engine: DetectedEngine): string {
  const { url, kind, version, models, slots, dialects } = engine;
  const name = NAMES[kind];
  const listed = models.map(({ id, contextTokens }) =>
    contextTokens === null ? id : `${id} (${contextTokens} tokens)`,
  );
  const abilities = [
    ...(slots > 0 ? [`${slots} slots`] : []),
    ...(engine.isMultimodal ? ['images'] : []),
    ...(engine.canInfill ? ['infill'] : []),
    ...(engine.canTokenize ? ['tokenize'] : []),
    ...DIALECT_PATHS.filter((path) => dialects.has(path)),
  ];
  const lacks = [
    ...DIALECT_PATHS.filter((path) => !dialects.has(path)),
    ...(engine.canInfill ? [] : ['infill']),
    ...(engine.canTokenize ? [] : ['tokenize']),
    ...missingOptions(engine),
  ];
  const head = `The engine at ${url} is ${name}${version === null ? '' : ` ${version}`} with ${listed.join(', ')}`;
  return `${head}: ${abilities.join(', ')}; without ${lacks.join(', ')}.`;
}

async function identify(http: EngineHttp, { questionMs }: DetectionSettings): Promise<DetectedEngine> {
  const engine = await recognise(http, questionMs);
  const probes = [...DIALECT_PATHS, '/infill', '/tokenize'];
  const served = new Set<string>();
  for (const [at, isServed] of (await Promise.all(probes.map((path) => serves(http, path, questionMs)))).entries()) {
    if (isServed) served.add(probes[at]!);
  }
  const isLlama = engine.kind === 'llama-server';
  return {
    ...engine,
    canInfill: isLlama && served.has('/infill'),
    canTokenize: (isLlama || engine.kind === 'vllm') && served.has('/tokenize'),
    dialects: new Set(DIALECT_PATHS.filter((path) => served.has(path))),
  };
}

/** Asks once. Rejects with a message for operators. */
export async function recognise(http: EngineHttp, questionMs: number): Promise<RecognisedEngine> {
  const { url } = http;
  const needed = async (path: string): Promise<AttachedResponse> =>
    refuseUnready(url, await http.ask(path, undefined, questionMs));
  // What is late or refused is not there, as long as the engine answers at all.
  const shown = (path: string): Promise<AttachedResponse> =>
    http.ask(path, undefined, questionMs).catch(() => NOT_SHOWN);
  const [health, list, props, version, ollama] = await Promise.all([
    http.ask('/health', undefined, questionMs),
    needed('/v1/models'),
    shown('/props'),
    shown('/version'),
    shown('/api/version'),
  ]);
  if (health.status === 503) throw new NotYet(`it is not ready: ${complaintOf(health.status, health.text)}`);
  const models = modelsOf(list);
  const properties = props.status === 200 ? membersOf(props.json) : {};
  const isLlama =
    'default_generation_settings' in properties || 'total_slots' in properties || isLlamaServer(list, health);
  const number = versionOf(version);
  const isVllm = !isLlama && number !== null;
  const ollamaNumber = isLlama || isVllm ? null : versionOf(ollama);
  if (models.length === 0 && !isLlama && ollamaNumber === null) {
    const what = `/v1/models answered ${list.status}, /health ${health.status}`;
    throw new Error(`${url} is no engine: ${what}`);
  }
  if (models.length === 0 && ollamaNumber !== null) throw new NotYet('it is Ollama and has no model yet');
  if (isLlama) return { url, ...llamaOf(properties, models) };
  const rest = { url, slots: 0, isMultimodal: false, mediaMarker: DEFAULT_MARKER };
  if (isVllm) return { ...rest, models, kind: 'vllm', version: number };
  if (ollamaNumber === null) return { ...rest, models, kind: 'openai', version: null };
  const loaded = loadedOf(await shown('/api/ps'));
  const sized = models.map((model) => ({ ...model, contextTokens: loaded.get(model.id) ?? model.contextTokens }));
  return { ...rest, models: sized, kind: 'ollama', version: ollamaNumber };
}

const NOT_SHOWN: AttachedResponse = { status: 404, headers: {}, json: undefined, text: '' };

function isLlamaServer(list: AttachedResponse, { headers }: AttachedResponse): boolean {
  const { data } = membersOf(list.json);
  const owners = Array.isArray(data) ? data.map((entry: unknown) => membersOf(entry)['owned_by']) : [];
  return owners.includes('llamacpp') || headers['server'] === 'llama.cpp';
}

function versionOf({ status, json }: AttachedResponse): string | null {
  const number = membersOf(json)['version'];
  return status === 200 && typeof number === 'string' ? number : null;
}

/** Context sizes of the models that Ollama has loaded; those of others are not known before. */
function loadedOf({ json }: AttachedResponse): ReadonlyMap<string, number> {
  const { models } = membersOf(json);
  return new Map(
    (Array.isArray(models) ? models : []).flatMap((entry: unknown): [string, number][] => {
      const { name, context_length } = membersOf(entry);
      const tokens = numberOf(context_length);
      return typeof name === 'string' && tokens !== undefined ? [[name, tokens]] : [];
    }),
  );
}

function refuseUnready(url: string, answer: AttachedResponse): AttachedResponse {
  const { status, text } = answer;
  if (status === 503) throw new NotYet(`it is not ready: ${complaintOf(status, text)}`);
  return refuseKeyless(url, answer);
}

function refuseKeyless(url: string, answer: AttachedResponse): AttachedResponse {
  const { status } = answer;
  if (status === 401 || status === 403) throw new KeyRefused(url, status);
  return answer;
}

/** What a list of models names; empty when the answer is no list. */
export function modelsOf({ status, json }: AttachedResponse): DetectedModel[] {
  const { data } = membersOf(json);
  if (status !== 200 || !Array.isArray(data)) return [];
  return data.flatMap((entry: unknown) => {
    const { id, max_model_len, context_length, meta } = membersOf(entry);
    if (typeof id !== 'string') return [];
    const size = numberOf(max_model_len) ?? numberOf(context_length) ?? numberOf(membersOf(meta)['n_ctx']);
    return [{ id, contextTokens: size ?? null, meta: meta === undefined ? null : membersOf(meta) }];
  });
}

function llamaOf(
  props: JsonObject,
  models: readonly DetectedModel[],
): Pick<DetectedEngine, 'kind' | 'version' | 'models' | 'slots' | 'isMultimodal' | 'mediaMarker'> {
  const { default_generation_settings, total_slots, model_alias, model_path, modalities, media_marker, build_info } =
    props;
  // Of one slot, which is what a sequence may fill; the list of models knows the training's size only.
  const contextTokens = numberOf(membersOf(default_generation_settings)['n_ctx']) || null;
  const name = [model_alias, model_path].find((words) => typeof words === 'string' && words !== '');
  const listed =
    models.length > 0 ? models : [{ id: typeof name === 'string' ? name : 'default', contextTokens, meta: null }];
  return {
    kind: 'llama-server',
    version: typeof build_info === 'string' ? build_info : null,
    models: listed.map((model) => ({ ...model, contextTokens: contextTokens ?? model.contextTokens })),
    // A router has models with slots of their own.
    slots: numberOf(total_slots) ?? (props['role'] === 'router' ? 0 : 1),
    isMultimodal: membersOf(modalities)['vision'] === true,
    mediaMarker: typeof media_marker === 'string' ? media_marker : DEFAULT_MARKER,
  };
}

/** Whether a path is there: an empty request is refused for what it lacks, or because there is nothing to ask. */
async function serves(http: EngineHttp, path: string, questionMs: number): Promise<boolean> {
  const { status, text } = refuseKeyless(http.url, await http.ask(path, {}, questionMs));
  if (status === 405 || status === 501) return false;
  // Some servers look for the model first, and say that with the status of a missing path.
  return status !== 404 || /model/i.test(complaintOf(status, text));
}
