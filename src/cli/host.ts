// `headrace host`: a model host with the simulated engine or a real one, or a fleet of simulated hosts.

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Settings } from '../config/settings.ts';
import { loadConfigFile } from '../config/load.ts';
import type {
  Host,
  HostSettings,
  KvEventSettings,
  HostDialect,
  ModelEngine,
  ProfileName,
  Script,
  SimulatedSettings,
  SystemPromptScope,
} from '../host/index.ts';
import {
  createHost,
  DEFAULT_PROFILE,
  FleetError,
  HOST_DIALECTS,
  parseScript,
  planFleet,
  PROFILE_NAMES,
  profileTable,
  startFleet,
  SYSTEM_PROMPT_SCOPES,
} from '../host/index.ts';
import { hostLifecycle, fleetLifecycle } from './host-lifecycle.ts';
import { readDocument } from './input-file.ts';
import { type CliIo, StartError, UsageError } from './io.ts';
import { durationMs, flagOf, numberFromZero, port, positiveNumber, wholeNumber, yesOrNo } from './options.ts';
import { type RealEngineOptions, startRealEngine, wantsRealEngine } from './real-engine.ts';
import { closeOnSignal } from './shutdown.ts';

/** Options as commander reads them; undefined where the command line does not give one. */
interface HostOptions extends RealEngineOptions {
  readonly port?: number;
  readonly listen?: string;
  readonly config?: string;
  readonly name?: string;
  readonly tokens?: number;
  readonly profile?: ProfileName;
  readonly profiles?: boolean;
  readonly variation?: boolean;
  readonly coldStart?: boolean;
  readonly slowdown?: number;
  readonly network?: number;
  readonly speed?: number;
  readonly seed?: number;
  readonly ttft?: number;
  readonly itl?: number;
  readonly control?: boolean;
  readonly dialects?: readonly HostDialect[];
  readonly systemPrompt?: SystemPromptScope;
  readonly script?: string;
  readonly fleet?: string;
  readonly kvEvents?: string;
  readonly kvEventsReplay?: string;
  readonly kvEventsTopic?: string;
}

const DEFAULT_PORT = 9001;

const USAGE = `--model NAME --port N [--engine simulated] [options]
       headrace host --engine URL --port N [--model NAME] [options]
       headrace host --gguf FILE --port N [--model NAME] [options]
       headrace host --fleet FILE [options]`;

const DESCRIPTION = `Serves a model in four dialects (completions, chat completions, responses, messages) and over the llama-style API
(/completion, /infill, /tokenize, /detokenize, /props, /slots), streaming and not. The simulated engine works in
steps as real ones do: requests queue, share steps, keep prefixes in a cache and use up memory.`;

const EXAMPLES = `
A fleet file, YAML or JSON
  defaults: { models: [a], profile: 8b-h100 }
  hosts: [{ name: fast, count: 3, port: 9001 }, { name: slow, profile: small-box, port: 9010 }]
members: models, count, name, port, profile, slots, context, speed, seed, variation, coldStart, slowdown, network,
  loading, dialects, systemPrompt, script, faults

A script, YAML or JSON: the first step whose \`when\` holds answers; without \`when\`, step N answers turn N
  values: { file: '(\\S+\\.mjs)' }
  steps:
    - { reasoning: I read it first., calls: [{ name: Read, arguments: { file_path: '{{file}}' } }] }
    - { when: { results: 1, result: add }, text: It adds. }
  otherwise: Done.

In front of a real engine the first line of output says what was found. What the engine cannot do is refused by
name (422).

Faults by request header, and what really happened to a request, of simulated hosts
  curl -H 'x-headrace-fault: reset-after=3' ...
  curl -H 'x-headrace-truth: 1' ...`;

/** Reads a list of dialects, separated by commas. */
function dialects(text: string): HostDialect[] {
  const names = text.split(',').map((name) => name.trim());
  const wrong = names.find((name) => !HOST_DIALECTS.includes(name as HostDialect));
  if (wrong === undefined) return names as HostDialect[];
  throw new InvalidArgumentError(`'${wrong}' is none of ${HOST_DIALECTS.join(', ')}.`);
}

export function configureHost(command: Command, io: CliIo): void {
  command
    .usage(USAGE)
    .description(DESCRIPTION)
    .option('--model <names>', 'the model, several separated by commas; default with a real engine: its own names')
    .option('--port <n>', `default ${DEFAULT_PORT}; 0 picks a free one`, port)
    .option('--listen <host:port>', 'instead of --port, to serve other interfaces than loopback')
    .option('--name <name>', 'value of the header x-host of every answer; its name at the gateway where it registers')
    .option('-c, --config <file>', 'asks for the keys of the section `keys` of this file; reads its section `trust`')
    .option(
      '--slots <n>',
      'sequences at once, with memory of their own; default: those of the profile, 4 with --gguf; at most 100000',
      wholeNumber(1),
    )
    .option('--context <n>', 'most tokens of a sequence', wholeNumber(1))
    .option('--tokens <n>', 'most tokens of an answer when the request names no maximum', numberFromZero)
    .option('--dialects <names>', `${HOST_DIALECTS.join(', ')}; default all. Others are answered 404`, dialects)
    .addOption(
      new Option('--system-prompt <scope>', 'whose prompts the option system_prompt changes; default account').choices(
        SYSTEM_PROMPT_SCOPES,
      ),
    )
    .optionsGroup('Simulated engine:')
    .addOption(
      new Option('--profile <name>', `default ${DEFAULT_PROFILE}; --profiles lists them`).choices(PROFILE_NAMES),
    )
    .option('--profiles', 'lists the profiles and ends')
    .option('--speed <n>', 'times faster than real, default 1', positiveNumber)
    .option('--variation <boolean>', 'jitter, stalls and slow machines, as the profile has them; default true', yesOrNo)
    .option('--cold-start <boolean>', 'loads the model first, as long as the profile says; default false', yesOrNo)
    .option('--slowdown <n>', 'factor of all step times, default 1', positiveNumber)
    .option('--network <ms>', 'median time of a request on its way to the engine, default 0', numberFromZero)
    .option(
      '--seed <n>',
      'of the model, and with --name of step times; the same seed gives the same run',
      numberFromZero,
    )
    .option('--ttft <ms>', 'a fixed pace instead of steps: time to the first token, default 30', numberFromZero)
    .option('--itl <ms>', 'time between two tokens, default 10; 0 is as fast as the socket takes it', numberFromZero)
    .option('--script <file>', 'answers of the model to conversations, see below')
    .option('--control <boolean>', 'serves POST /sim/faults', yesOrNo)
    .option('--kv-events <endpoint>', 'publishes KV events as vLLM does, such as tcp://*:5557; needs --profile')
    .option('--kv-events-replay <endpoint>', 'sends missed KV events again, such as tcp://*:5558')
    .option('--kv-events-topic <topic>', 'of KV events, default none')
    .option('--fleet <file>', 'many hosts in one process, see below')
    .optionsGroup('Real engine:')
    .option('--engine <url>', 'simulated (default), or the URL of llama-server, vLLM or an OpenAI-compatible server')
    .option('--engine-key <key>', "the engine's key; better in HEADRACE_ENGINE_KEY, which no list of processes shows")
    .option('--engine-wait <time>', 'how long the engine may take to be ready, default 10m', durationMs)
    .option('--gguf <file>', 'runs a model file in this process; needs the package node-llama-cpp')
    .option('--threads <n>', 'of --gguf; default one for each core', wholeNumber(1))
    .addHelpText('after', EXAMPLES)
    .action(async (options: HostOptions) => {
      const isReal = wantsRealEngine(options);
      if (options.profiles === true) io.stdout.write(listProfiles());
      else if (options.fleet !== undefined) await serveFleet(options, options.fleet, io);
      else await serveHost(options, isReal, io);
    });
}

/** The profiles as text. */
function listProfiles(): string {
  const { heads, rows } = profileTable();
  const all = [heads, ...rows];
  const widths = heads.map((_, at) => Math.max(...all.map((row) => row[at]!.length)));
  const lines = all.map(([name, ...cells]) => {
    const aligned = cells.slice(0, -1).map((cell, at) => cell.padStart(widths[at + 1]!));
    return [name!.padEnd(widths[0]!), ...aligned, cells.at(-1)].join('  ');
  });
  return `${lines.join('\n')}\n`;
}

/** The configuration that --config names. */
async function settingsOf(file: string | undefined, { env }: CliIo): Promise<Settings | undefined> {
  if (file === undefined) return undefined;
  const resolution = await loadConfigFile(file, env);
  if ('mistakes' in resolution) {
    const [first] = resolution.mistakes;
    throw new UsageError(`${file} is wrong, first at ${first?.path}: ${first?.message}; see headrace check`);
  }
  return resolution.settings;
}

/** Keys a host asks for; undefined when it asks for none. */
function keysOf(settings: Settings | undefined): HostSettings['keys'] | undefined {
  if (settings?.keys.required !== true) return undefined;
  return settings.keys.static.map(({ key, account }) => ({ key, account }));
}

/** The step engine, unless a pace is given. */
function engineOf(options: HostOptions): 'paced' | SimulatedSettings {
  const { profile, slots, context: contextTokens, speed, ttft, itl } = options;
  const { variation, coldStart, slowdown, network: networkMs } = options;
  const varied = { variation, coldStart, slowdown, networkMs };
  if (ttft === undefined && itl === undefined) return { profile, slots, contextTokens, speed, ...varied };
  const steps = ['profile', 'slots', 'context', 'speed', 'slowdown', 'variation', 'coldStart', 'network'] as const;
  const given = steps.find((name) => options[name] !== undefined);
  if (given === undefined) return 'paced';
  throw new UsageError(`${flagOf(given)} cannot be combined with a fixed pace (--ttft, --itl)`);
}

/** What all hosts of a command line have in common. */
function commonOf(options: HostOptions, settings: Settings | undefined): Partial<HostSettings> {
  const { control = false, dialects, systemPrompt, tokens } = options;
  const keys = keysOf(settings);
  return {
    control,
    ...(dialects !== undefined && { dialects }),
    ...(systemPrompt !== undefined && { systemPrompt }),
    ...(tokens !== undefined && { maxTokens: tokens }),
    ...(keys !== undefined && { keys }),
  };
}

/** Where KV events are published; undefined where they are not asked for. */
function kvEventsOf(options: HostOptions): KvEventSettings | undefined {
  const { kvEvents: endpoint, kvEventsReplay: replay, kvEventsTopic: topic } = options;
  if (endpoint !== undefined) return { endpoint, replay, topic };
  if (replay !== undefined || topic !== undefined)
    throw new UsageError('--kv-events-replay and --kv-events-topic need --kv-events');
  return undefined;
}

async function readScript(file: string): Promise<Script> {
  const document = await readDocument(file);
  try {
    return parseScript(document);
  } catch (error) {
    throw new UsageError(`${file} is wrong: ${(error as Error).message}`);
  }
}

/** Options that no host of a fleet has, and those that its plan says for each host. */
const OF_SINGLE_HOSTS = ['kvEvents', 'kvEventsReplay', 'kvEventsTopic', 'ttft', 'itl'] as const;
const OF_PLANS = [
  ...(['script', 'model', 'port', 'name', 'profile', 'slots', 'context', 'speed'] as const),
  ...(['variation', 'coldStart', 'slowdown', 'network', 'seed'] as const),
] as const;

async function serveFleet(options: HostOptions, file: string, io: CliIo): Promise<void> {
  const { listen } = options;
  const single = OF_SINGLE_HOSTS.find((name) => options[name] !== undefined);
  if (single !== undefined) throw new UsageError(`${flagOf(single)} cannot be combined with --fleet`);
  const ofPlan = OF_PLANS.find((name) => options[name] !== undefined);
  if (ofPlan !== undefined)
    throw new UsageError(`${flagOf(ofPlan)} cannot be combined with --fleet; write it in the plan`);
  const hostname = listen?.slice(0, listen.lastIndexOf(':')) ?? '127.0.0.1';
  try {
    const settings = await settingsOf(options.config, io);
    const plan = planFleet(await readDocument(file), hostname, commonOf(options, settings));
    const lifecycle = fleetLifecycle(settings, plan);
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
    lifecycle.listening(hosts);
    // Signals are handled before a line says that the hosts are there.
    const { ended } = closeOnSignal(io, {
      close: async () => {
        await lifecycle.leave();
        await Promise.all(hosts.map((host) => host.close()));
      },
      abort: async () => void (await Promise.all(hosts.map((host) => host.kill()))),
    });
    io.stdout.write(lines.join(''));
    await ended;
  } catch (error) {
    throw error instanceof FleetError ? new UsageError(`${file} is wrong: ${error.message}`) : error;
  }
}

/** A real engine, once it is ready. */
async function openRealEngine(options: HostOptions, io: CliIo): Promise<ModelEngine> {
  const notice = (sentence: string): void => void io.stderr.write(`headrace: ${sentence}\n`);
  try {
    const { engine, sentence } = await startRealEngine(options, io.env, notice);
    io.stdout.write(`${sentence}\n`);
    return engine;
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new StartError((error as Error).message);
  }
}

function hostOf(settings: HostSettings): Host {
  try {
    return createHost(settings);
  } catch (error) {
    throw error instanceof RangeError ? new UsageError(error.message) : error;
  }
}

async function serveHost(options: HostOptions, isReal: boolean, io: CliIo): Promise<void> {
  const { ttft: timeToFirstTokenMs, itl: interTokenMs, name, seed } = options;
  if (options.model === undefined && !isReal) throw new UsageError("required option '--model <names>' not specified");
  const settings = await settingsOf(options.config, io);
  const real = isReal ? await openRealEngine(options, io) : null;
  const models = real?.models ?? options.model?.split(',') ?? [];
  const lifecycle = settings === undefined ? null : hostLifecycle(settings, models);
  const guard = lifecycle?.guard ?? null;
  const kvEvents = kvEventsOf(options);
  const script = options.script === undefined ? undefined : await readScript(options.script);
  const running = hostOf({
    ...commonOf(options, settings),
    models,
    ...(guard !== null && { guard, guardPath: `/${settings?.servicePrefix}/keys` }),
    listen: options.listen ?? `127.0.0.1:${options.port ?? DEFAULT_PORT}`,
    engine: real ?? engineOf(options),
    // Requests to a real model are never kept for inspection.
    ...(real !== null && { journalEntries: 0 }),
    ...(name !== undefined && { name }),
    ...(seed !== undefined && { seed }),
    ...(timeToFirstTokenMs !== undefined && { timeToFirstTokenMs }),
    ...(interTokenMs !== undefined && { interTokenMs }),
    ...(kvEvents !== undefined && { kvEvents }),
    ...(script !== undefined && { script }),
  });
  await lifecycle?.start();
  const url = await running.listen().catch(async (error: unknown) => {
    await lifecycle?.leave();
    throw error;
  });
  lifecycle?.listening({ name, load: () => running.live, kvEvents: running.kvEvents?.endpoint });
  const { ended } = closeOnSignal(io, {
    close: async () => {
      await lifecycle?.leave();
      await running.close();
    },
    abort: () => running.kill(),
  });
  io.stdout.write(`host of ${models.join(',')} listening on ${url}\n`);
  const published = running.kvEvents;
  if (published !== null) {
    const replay = published.replay === null ? '' : `, replay at ${published.replay}`;
    io.stdout.write(`KV events at ${published.endpoint}${replay}\n`);
  }
  await ended;
}
