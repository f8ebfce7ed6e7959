// The real engines of `headrace host`: a server that the host stands in front of (`--engine http://…`), or a model file that
// it runs itself (`--gguf FILE`).

import type { ModelEngine } from '../host/index.ts';
import { attachEngine, describeEngine, describeGguf, loadGguf } from '../host/index.ts';
import { UsageError } from './io.ts';
import { flagOf } from './options.ts';

/** Options that real engines read, as commander reads them. */
export interface RealEngineOptions {
  readonly model?: string;
  readonly engine?: string;
  readonly engineKey?: string;
  readonly engineWait?: number;
  readonly gguf?: string;
  readonly context?: number;
  readonly slots?: number;
  readonly threads?: number;
}

export interface RealEngine {
  readonly engine: ModelEngine;
  /** What was found, for people. */
  readonly sentence: string;
}

const KEY_VARIABLE = 'HEADRACE_ENGINE_KEY';

/** Options that only the simulated engine reads. */
const OF_SIMULATION = [
  ...['profile', 'speed', 'variation', 'coldStart', 'slowdown', 'network', 'seed'],
  ...['ttft', 'itl', 'control', 'script'],
];

const OF_SERVERS = ['engineKey', 'engineWait'];

/** Whether the options ask for a real engine. Throws UsageError for options that cannot be combined. */
export function wantsRealEngine(options: RealEngineOptions): boolean {
  const { engine, gguf } = options;
  const isUrl = engine !== undefined && engine !== 'simulated';
  if (isUrl && !/^https?:\/\//.test(engine))
    throw new UsageError(`--engine takes "simulated" or the URL of an engine, not ${engine}`);
  if (engine !== undefined && gguf !== undefined) throw new UsageError('--engine cannot be combined with --gguf');
  const isReal = isUrl || gguf !== undefined;
  const foreign = [
    ...(isReal ? OF_SIMULATION : ['threads']),
    ...(isUrl ? ['slots', 'tokens', 'threads'] : OF_SERVERS),
    ...(isReal ? ['fleet'] : []),
  ];
  const wrong = foreign.find((name) => (options as Readonly<Record<string, unknown>>)[name] !== undefined);
  if (wrong === undefined) return isReal;
  const other = isUrl ? '--engine URL' : gguf === undefined ? 'the simulated engine' : '--gguf';
  throw new UsageError(`${flagOf(wrong)} cannot be combined with ${other}`);
}

/**
 * Attaches to the engine, waiting while it loads, or loads the file. Rejects with a sentence for people; `onNotice` is told
 * why it takes long, and later that the engine has gone away or come back.
 */
export async function startRealEngine(
  options: RealEngineOptions,
  env: Readonly<Record<string, string | undefined>>,
  onNotice: (sentence: string) => void,
): Promise<RealEngine> {
  const models = options.model?.split(',');
  return options.gguf === undefined ? attach(options, models, env, onNotice) : load(options, options.gguf, models);
}

async function attach(
  { engine: url = '', engineKey, engineWait: readyMs, context: contextTokens }: RealEngineOptions,
  models: readonly string[] | undefined,
  env: Readonly<Record<string, string | undefined>>,
  onNotice: (sentence: string) => void,
): Promise<RealEngine> {
  const apiKey = engineKey ?? env[KEY_VARIABLE];
  const engine = await attachEngine({
    url,
    ...(apiKey !== undefined && apiKey !== '' && { apiKey }),
    ...(models !== undefined && { models }),
    ...(contextTokens !== undefined && { contextTokens }),
    ...(readyMs !== undefined && { readyMs }),
    onWaiting: (reason) => onNotice(`waiting for the engine at ${url}: ${reason}`),
    onNotice,
  });
  return { engine, sentence: describeEngine(engine.detected) };
}

async function load(
  { context: contextTokens, slots, threads }: RealEngineOptions,
  path: string,
  models: readonly string[] | undefined,
): Promise<RealEngine> {
  const [model, second] = models ?? [];
  if (second !== undefined) throw new UsageError('a model file is one model: --model takes one name');
  const engine = await loadGguf({
    path,
    ...(model !== undefined && { model }),
    ...(slots !== undefined && { slots }),
    ...(contextTokens !== undefined && { contextTokens }),
    ...(threads !== undefined && { threads }),
  });
  return { engine, sentence: describeGguf(engine) };
}
