// The real engines of `headrace host`: a server in front of which it stands (`--engine http://…`), or a model file that it
// runs itself (`--gguf FILE`). Called by host.ts; what is started here tells what it is, in one sentence.

import { parseDuration } from '../config/units.ts';
import type { Engine } from '../host/index.ts';
import { attachEngine, describeEngine, describeGguf, loadGguf } from '../host/index.ts';
import { UsageError } from './args.ts';

/** Flags that real engines read. */
export type RealFlags = Readonly<
  Partial<Record<'model' | 'engine' | 'engine-key' | 'engine-wait' | 'gguf' | 'context' | 'slots' | 'threads', string>>
>;

/** Counts of 1 or more that flags gave. */
export interface RealCounts {
  readonly slots: number | undefined;
  readonly contextTokens: number | undefined;
  readonly threads: number | undefined;
}

export interface RealEngine {
  readonly engine: Engine;
  /** What was found, for people. */
  readonly sentence: string;
}

const KEY_VARIABLE = 'HEADRACE_ENGINE_KEY';

/** Flags that mean something to a simulated engine only. */
const OF_SIMULATION = ['profile', 'speed', 'seed', 'ttft', 'itl', 'control'] as const;

const OF_ENGINES = ['engine-key', 'engine-wait'] as const;

/** Whether the flags ask for a real engine. Throws UsageError for flags that do not go together. */
export function wantsRealEngine(flags: Readonly<Record<string, string | undefined>>): boolean {
  const { engine, gguf } = flags;
  const isUrl = engine !== undefined && engine !== 'simulated';
  if (isUrl && !/^https?:\/\//.test(engine))
    throw new UsageError(`--engine takes "simulated" or the URL of an engine, not ${engine}`);
  if (engine !== undefined && gguf !== undefined) throw new UsageError('--engine and --gguf exclude each other');
  const isReal = isUrl || gguf !== undefined;
  const foreign: readonly string[] = [
    ...(isReal ? OF_SIMULATION : ['threads']),
    ...(isUrl ? ['slots', 'tokens', 'threads'] : OF_ENGINES),
    ...(isReal ? ['fleet'] : []),
  ];
  const wrong = foreign.find((name) => flags[name] !== undefined);
  if (wrong !== undefined) {
    const what = isUrl ? 'an engine of its own' : gguf === undefined ? 'the simulated engine' : 'a model file';
    throw new UsageError(`--${wrong} means nothing to a host with ${what}`);
  }
  return isReal;
}

/**
 * Attaches to the engine, waiting while it loads, or loads the file. Rejects with a sentence for people; `onNotice` hears
 * why it takes so long, and later that the engine has gone or come back.
 */
export async function startRealEngine(
  flags: RealFlags,
  counts: RealCounts,
  env: Readonly<Record<string, string | undefined>>,
  onNotice: (sentence: string) => void,
): Promise<RealEngine> {
  const models = flags.model?.split(',');
  return flags.gguf === undefined ? attach(flags, models, counts, env, onNotice) : load(flags.gguf, models, counts);
}

async function attach(
  flags: RealFlags,
  models: readonly string[] | undefined,
  { contextTokens }: RealCounts,
  env: Readonly<Record<string, string | undefined>>,
  onNotice: (sentence: string) => void,
): Promise<RealEngine> {
  const { engine: url = '' } = flags;
  const apiKey = flags['engine-key'] ?? env[KEY_VARIABLE];
  const wait = flags['engine-wait'];
  const readyMs = wait === undefined ? undefined : parseDuration(wait);
  if (wait !== undefined && readyMs === undefined) throw new UsageError(`--engine-wait takes a time such as 30s`);
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
  path: string,
  models: readonly string[] | undefined,
  { contextTokens, slots, threads }: RealCounts,
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
