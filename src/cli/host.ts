// `headrace host`: a model host on the command line, simulated or with a real engine, or a fleet of simulated ones.

import { readFile } from 'node:fs/promises';
import { environment } from '../config/env.ts';
import type { Settings } from '../config/settings.ts';
import { loadConfigFile, parseConfigText } from '../config/load.ts';
import type { Engine, HostSettings, ProfileName, SimulatedSettings } from '../host/index.ts';
import { createHost, FleetError, planFleet, PROFILE_NAMES, startFleet } from '../host/index.ts';
import { takeFlags, UsageError } from './args.ts';
import { hostLifecycle, fleetLifecycle } from './host-lifecycle.ts';
import { startRealEngine, wantsRealEngine } from './real-engine.ts';
import { closeOnSignal } from './shutdown.ts';

const FLAGS = [
  'model',
  'port',
  'listen',
  'engine',
  'engine-key',
  'engine-wait',
  'gguf',
  'threads',
  'name',
  'profile',
  'slots',
  'context',
  'speed',
  'seed',
  'ttft',
  'itl',
  'tokens',
  'config',
  'control',
  'fleet',
] as const;

type Own = Partial<Record<(typeof FLAGS)[number], string>>;

function number(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0) throw new UsageError(`--${name} takes a number of 0 or more, not ${text}`);
  return value;
}

function count(name: string, text: string | undefined): number | undefined {
  const value = number(name, text);
  if (value === undefined || (Number.isInteger(value) && value > 0)) return value;
  throw new UsageError(`--${name} takes a whole number of 1 or more, not ${text}`);
}

/** The configuration that --config names. */
async function settingsOf(file: string | undefined): Promise<Settings | undefined> {
  if (file === undefined) return undefined;
  const resolution = await loadConfigFile(file, environment());
  if ('mistakes' in resolution) {
    const [first] = resolution.mistakes;
    throw new UsageError(`${file} is wrong, first at ${first?.path}: ${first?.message}; see headrace check`);
  }
  return resolution.settings;
}

/** Keys a host asks for; undefined when it asks for none. */
function keysOf(settings: Settings | undefined): string[] | undefined {
  return settings?.keys.required === true ? settings.keys.static.map(({ key }) => key) : undefined;
}

/** The step engine, unless a pace is given. */
function engineOf(own: Own): 'paced' | SimulatedSettings {
  const ofSteps = (['profile', 'slots', 'context', 'speed'] as const).filter((name) => own[name] !== undefined);
  if (own.ttft !== undefined || own.itl !== undefined) {
    if (ofSteps.length > 0) throw new UsageError(`--${ofSteps[0]} and a fixed pace (--ttft, --itl) exclude each other`);
    return 'paced';
  }
  const { profile } = own;
  if (profile !== undefined && !(PROFILE_NAMES as readonly string[]).includes(profile)) {
    throw new UsageError(`--profile takes one of ${PROFILE_NAMES.join(', ')}, not ${profile}`);
  }
  const speed = number('speed', own.speed);
  if (speed === 0) throw new UsageError('--speed takes a number above 0');
  return {
    profile: profile as ProfileName | undefined,
    slots: count('slots', own.slots),
    contextTokens: count('context', own.context),
    speed,
  };
}

/** What all hosts of a command line have in common. */
function commonOf(own: Own, settings: Settings | undefined): Partial<HostSettings> {
  const maxTokens = number('tokens', own.tokens);
  const keys = keysOf(settings);
  return {
    control: own.control === 'true',
    ...(maxTokens !== undefined && { maxTokens }),
    ...(keys !== undefined && { keys }),
  };
}

async function readFleet(file: string): Promise<unknown> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${file} cannot be read (${error.code ?? 'unknown reason'})`);
  });
  const parsed = parseConfigText(text, file);
  if ('input' in parsed) return parsed.input;
  throw new UsageError(parsed.mistakes.map(({ path, message }) => `${path}: ${message}`).join('; '));
}

async function runFleet(own: Own, file: string): Promise<void> {
  const hostname = own.listen?.slice(0, own.listen.lastIndexOf(':')) ?? '127.0.0.1';
  try {
    const settings = await settingsOf(own.config);
    const lifecycle = fleetLifecycle(settings, planFleet(await readFleet(file), hostname, commonOf(own, settings)));
    const { planned } = lifecycle;
    await lifecycle.start();
    const hosts = await startFleet(planned).catch(async (error: Error) => {
      await lifecycle.leave();
      throw error;
    });
    const lines = hosts.map(
      (host, at) =>
        `${planned[at]!.settings.name} of ${planned[at]!.settings.models.join(',')} listening on ${host.url}\n`,
    );
    process.stdout.write(lines.join(''));
    lifecycle.listening(hosts);
    closeOnSignal({
      close: async () => {
        await lifecycle.leave();
        await Promise.all(hosts.map((host) => host.close()));
      },
    });
  } catch (error) {
    throw error instanceof FleetError ? new UsageError(`${file} is wrong: ${error.message}`) : error;
  }
}

/** A real engine, once it is ready; null when it cannot be had, which was said. */
async function realEngineOf(own: Own): Promise<Engine | null> {
  const say = (sentence: string): void => void process.stderr.write(`headrace: ${sentence}\n`);
  const counts = {
    slots: count('slots', own.slots),
    contextTokens: count('context', own.context),
    threads: count('threads', own.threads),
  };
  try {
    const { engine, sentence } = await startRealEngine(own, counts, environment(), say);
    process.stdout.write(`${sentence}\n`);
    return engine;
  } catch (error) {
    if (error instanceof UsageError) throw error;
    say(`the host cannot start: ${(error as Error).message}`);
    return null;
  }
}

/** Runs until a signal comes. Resolves with an exit code only when a real engine cannot be had. */
export async function host(flags: Readonly<Record<string, string>>): Promise<number | undefined> {
  const { own, rest } = takeFlags(flags, FLAGS);
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw new UsageError(`headrace host has no flag --${unknown}`);
  const isReal = wantsRealEngine(own);
  if (own.fleet !== undefined) {
    await runFleet(own, own.fleet);
    return undefined;
  }
  if (own.model === undefined && !isReal) throw new UsageError('--model NAME is missing');
  const timeToFirstTokenMs = number('ttft', own.ttft);
  const interTokenMs = number('itl', own.itl);
  const seed = number('seed', own.seed);
  const settings = await settingsOf(own.config);
  const real = isReal ? await realEngineOf(own) : null;
  if (isReal && real === null) return 1;
  const models = real?.models ?? own.model?.split(',') ?? [];
  const lifecycle = settings === undefined ? null : hostLifecycle(settings, models);
  const guard = lifecycle?.guard ?? null;
  const running = createHost({
    ...commonOf(own, settings),
    models,
    ...(guard !== null && { guard, guardPath: `/${settings?.servicePrefix}/keys` }),
    listen: own.listen ?? `127.0.0.1:${number('port', own.port) ?? 9001}`,
    engine: real ?? engineOf(own),
    // What clients sent to a real model is nobody's to look at later.
    ...(real !== null && { journalEntries: 0 }),
    ...(own.name !== undefined && { name: own.name }),
    ...(seed !== undefined && { seed }),
    ...(timeToFirstTokenMs !== undefined && { timeToFirstTokenMs }),
    ...(interTokenMs !== undefined && { interTokenMs }),
  });
  await lifecycle?.start();
  process.stdout.write(`host of ${models.join(',')} listening on ${await running.listen()}\n`);
  lifecycle?.listening({ name: own.name ?? 'host', load: () => running.live });
  closeOnSignal({
    close: async () => {
      await lifecycle?.leave();
      await running.close();
    },
  });
  return undefined;
}
