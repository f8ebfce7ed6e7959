// The options of `headrace bench`: their declaration and help, and the run that they describe.

import { type Command, InvalidArgumentError, Option } from 'commander';
import { httpUrl } from '../config/units.ts';
import type { Arrivals, Condition, Length, Limits, RunSettings, SyntheticSettings } from '../load/index.ts';
import { LOAD_DIALECTS, readConditions, readLimits } from '../load/index.ts';
import { isJsonObject, parsedJson } from '../net/json-object.ts';
import { UsageError } from './io.ts';
import { durationMs, positiveNumber, wholeNumber, yesOrNo } from './options.ts';

/** Options as commander reads them; undefined where the command line gives none and there is no default. */
export interface BenchOptions {
  readonly users?: number;
  readonly rate?: number;
  readonly arrivals?: 'poisson' | 'constant' | 'trace';
  readonly speed?: number;
  readonly ramp?: number;
  readonly warmUp: number;
  readonly duration?: number;
  readonly requests?: number;
  readonly grace: number;
  readonly maxInFlight: number;
  readonly think: number;
  readonly model?: string;
  readonly dialect: string;
  readonly stream: boolean;
  readonly inputTokens: Length;
  readonly outputTokens?: Length;
  readonly turns: Length;
  readonly prefixes?: number;
  readonly prefixTokens?: number;
  readonly workload?: string;
  readonly seed: number;
  readonly ignoreEos: boolean;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly key?: string;
  readonly timeout: number;
  readonly make?: string;
  readonly slo?: string;
  readonly failOn?: string;
  readonly truth: boolean;
  /** Paths of outputs; `-` for standard output. */
  readonly json?: string;
  readonly csv?: string;
  readonly html?: string;
  readonly progress: boolean;
}

/** What a synthetic workload is made from. */
export type SyntheticOptions = Omit<SyntheticSettings, 'seed'>;

/** A load to run. */
export interface BenchPlan {
  readonly url: URL;
  readonly run: RunSettings;
  readonly synthetic: SyntheticOptions;
  readonly limits: Limits;
  readonly conditions: readonly Condition[];
}

const DEFAULT_USERS = 8;
const DEFAULT_DURATION_MS = 30_000;
const DEFAULT_OUTPUT_TOKENS: Length = { least: 64, most: 64 };
const DEFAULT_PREFIX_TOKENS = 256;

const DESCRIPTION = `Sends load to a system that speaks one of the dialects (a gateway, a model server, any compatible service) and
reports how long it took. URL is where the paths begin, with or without /v1. The report goes to standard output,
progress to standard error. Ctrl-C ends the run and reports what there is.`;

const NOTES = `
How to read the report
  response counts from when a request was due, service from when it was sent. In an open loop a stalled server shows
  in the response times of all requests that were due meanwhile; in a closed loop they are not sent at all. "sent
  late" and "dropped" say whether this client kept up: when they are many, the figures are about the client. first
  event is the first with data, first text the first with output of the model; between texts are the gaps after it.

Exit code 0: measured, 1: a condition of --fail-on came true, nothing was answered, or a file is incomplete.

For example
  headrace bench http://127.0.0.1:8080 --model atlas-27b --rate 20 --duration 1m --slo ttft:500ms,itl:50ms
  headrace bench http://127.0.0.1:8080 --model atlas-27b --users 16 --turns 4 --prefixes 10 --html report.html`;

export function addBenchOptions(command: Command): void {
  command
    .usage('URL --model NAME [options]\n       headrace bench --make FILE [options of the workload]')
    .description(DESCRIPTION)
    .argument('[url]')
    .optionsGroup('Arrival of requests:')
    .addOption(
      new Option('--users <n>', `closed loop: N users, each waits for its answer; default ${DEFAULT_USERS}`)
        .argParser(wholeNumber(1))
        .conflicts('rate'),
    )
    .option('--rate <n>', 'open loop: conversations that begin each second, whatever becomes of others', positiveNumber)
    .addOption(
      new Option('--arrivals <kind>', 'of --rate, default poisson; trace: the time stamps of --workload').choices([
        'poisson',
        'constant',
        'trace',
      ]),
    )
    .option('--speed <n>', 'of a trace: how many times as fast', positiveNumber)
    .option('--ramp <time>', 'starts the users one by one, or raises the rate from zero', durationMs)
    .addOption(time('--warm-up <time>', 'requests due in this time are sent and not counted').default(0, '0s'))
    .option('--duration <time>', 'sends for so long after the warm-up; default 30s without --requests', durationMs)
    .option('--requests <n>', 'sends so many after the warm-up', wholeNumber(1))
    .addOption(
      time('--grace <time>', 'then waits so long for open requests; the others have failed').default(30_000, '30s'),
    )
    .option('--max-in-flight <n>', 'of an open loop: further requests are dropped and counted', wholeNumber(1), 4096)
    .addOption(time('--think <time>', 'between an answer and the next turn of a conversation').default(0, '0s'))
    .optionsGroup('Requests:')
    .option('--model <name>', 'the model')
    .addOption(
      new Option('--dialect <name>', 'llama is POST /completion').choices(Object.keys(LOAD_DIALECTS)).default('chat'),
    )
    .option('--stream <boolean>', 'false asks for whole answers', yesOrNo, true)
    .addOption(
      range('--input-tokens <n|n-m>', 'of a user turn, about one word each')
        .default(fixed(128), '128')
        .conflicts('workload'),
    )
    .addOption(range('--output-tokens <n|n-m>', 'most tokens of an answer; default 64, of a file what it says'))
    .addOption(
      range('--turns <n|n-m>', 'of a conversation; each is sent with all before it')
        .default(fixed(1), '1')
        .conflicts('workload'),
    )
    .addOption(
      new Option('--prefixes <n>', 'how many system messages conversations share; default none')
        .argParser(wholeNumber(0))
        .conflicts('workload'),
    )
    .addOption(
      new Option('--prefix-tokens <n>', `how long those are, default ${DEFAULT_PREFIX_TOKENS}`)
        .argParser(wholeNumber(1))
        .conflicts('workload'),
    )
    .option('--workload <file>', 'ShareGPT conversations (JSON or JSON lines), or a Mooncake trace (JSON lines)')
    .option('--seed <n>', 'of lengths, texts and arrivals', wholeNumber(0), 1)
    .option(
      '--ignore-eos <boolean>',
      'asks for answers as long as allowed (vLLM, SGLang, headrace host)',
      yesOrNo,
      false,
    )
    .addOption(
      new Option('--body <json>', 'further members of every body').argParser(objectOf('--body')).default({}, '{}'),
    )
    .addOption(new Option('--headers <json>', 'further headers').argParser(headers).default({}, '{}'))
    .option('--key <key>', 'bearer token; better in HEADRACE_API_KEY, which no list of processes shows')
    .addOption(time('--timeout <time>', 'longest time of a request').default(600_000, '10m'))
    .option('--make <file>', 'writes --requests (default 1000) of a workload: .jsonl a trace at --rate, else ShareGPT')
    .optionsGroup('Report:')
    .option('--slo <limits>', 'limits of a request, for goodput: ttft:500ms,itl:50ms,e2e:10s; also stall and tpot')
    .option(
      '--fail-on <conditions>',
      'exit code 1 when one is true: errors>1%,goodput<95%,ttft.p99>500ms,rps<10,dropped>0,late>0; latencies of what went well are ' +
        'e2e, service, head, ttfe, ttft, itl, tpot, and with --truth added and delay; at mean, min, p50 to p99.9, max',
    )
    .option('--truth <boolean>', 'asks a simulated host for its own times and reports the difference', yesOrNo, false)
    .option('--json <file>', 'the report as JSON; - as for --csv and --html: standard output, instead of the table')
    .option('--csv <file>', 'a line for each request')
    .option('--html <file>', 'one self-contained page with plots')
    .option('--progress <boolean>', 'false keeps standard error quiet', yesOrNo, true)
    .addHelpText('after', NOTES);
}

/** Standard output in place of a file. */
export const OUTPUT = '-';

/** The run of a command line. Throws `UsageError` or `LoadError`. */
export function planBench(options: BenchOptions, address: string | undefined): BenchPlan {
  const { dialect: name, duration, model, requests = Infinity } = options;
  if (address === undefined) throw new UsageError("missing required argument 'url'");
  if (model === undefined) throw new UsageError("required option '--model <name>' not specified");
  const { csv, html, json } = options;
  if ([csv, html, json].filter((file) => file === OUTPUT).length > 1)
    throw new UsageError('of --json, --csv and --html one can be -');
  const dialect = LOAD_DIALECTS[name];
  if (dialect === undefined) throw new UsageError(`there is no dialect ${name}`);
  const arrivals = arrivalsOf(options);
  const limits = options.slo === undefined ? {} : readLimits(options.slo);
  const ofStreams = Object.keys(limits).find((limit) => limit !== 'e2e');
  // Whole answers have no times of texts: all or none would be within the limit.
  if (ofStreams !== undefined && !options.stream) throw new UsageError(`--slo ${ofStreams} needs --stream true`);
  const isEndless = requests === Infinity && arrivals.kind !== 'trace';
  return {
    url: urlOf(address),
    run: {
      dialect,
      model,
      stream: options.stream,
      ignoreEos: options.ignoreEos,
      extra: options.body,
      arrivals,
      requests,
      warmUpMs: options.warmUp,
      durationMs: duration ?? (isEndless ? DEFAULT_DURATION_MS : Infinity),
      thinkMs: options.think,
      graceMs: options.grace,
      maxInFlight: options.maxInFlight,
    },
    synthetic: syntheticOf(options),
    limits,
    conditions: options.failOn === undefined ? [] : readConditions(options.failOn),
  };
}

export function syntheticOf(options: BenchOptions): SyntheticOptions {
  const { inputTokens, outputTokens = DEFAULT_OUTPUT_TOKENS, prefixTokens, turns } = options;
  // A length of prefixes without a number of them asks for one.
  const prefixes = options.prefixes ?? (prefixTokens === undefined ? 0 : 1);
  return { inputTokens, outputTokens, turns, prefixes, prefixTokens: prefixTokens ?? DEFAULT_PREFIX_TOKENS };
}

function arrivalsOf(options: BenchOptions): Arrivals {
  const { arrivals: kind, ramp: rampMs = 0, rate, speed, users = DEFAULT_USERS } = options;
  if (kind === 'trace') {
    if (options.workload === undefined) throw new UsageError('--arrivals trace needs --workload FILE');
    const other = (['rate', 'users', 'ramp'] as const).find((name) => options[name] !== undefined);
    if (other !== undefined) throw new UsageError(`--${other} cannot be combined with --arrivals trace`);
    return { kind, speed: speed ?? 1 };
  }
  if (speed !== undefined) throw new UsageError('--speed needs --arrivals trace');
  if (rate !== undefined) return { kind: kind ?? 'poisson', perSecond: rate, rampMs };
  if (kind !== undefined) throw new UsageError(`--arrivals ${kind} needs --rate N`);
  return { kind: 'closed', users, rampMs };
}

function urlOf(address: string): URL {
  const url = httpUrl(address);
  if (url === null) throw new UsageError('the URL must begin with http:// or https://');
  if (url.search !== '' || url.hash !== '') throw new UsageError('the URL may have no query: paths are added to it');
  if (url.username !== '' || url.password !== '') throw new UsageError('the URL may hold no password; give --key');
  return url;
}

function time(flags: string, description: string): Option {
  return new Option(flags, description).argParser(durationMs);
}

function fixed(length: number): Length {
  return { least: length, most: length };
}

/** `128`, or `64-512` for anything between. */
function range(flags: string, description: string): Option {
  return new Option(flags, description).argParser((text: string): Length => {
    const [, least = '', most = least] = /^(\d{1,7})(?:-(\d{1,7}))?$/.exec(text) ?? [];
    if (Number(least) >= 1 && Number(most) >= Number(least)) return { least: Number(least), most: Number(most) };
    throw new InvalidArgumentError('It must be a whole number of 1 or more, or two as in 64-512.');
  });
}

/** A reader of JSON objects. Its message does not repeat the text, which may hold secrets. */
function objectOf(flag: string): (text: string) => Record<string, unknown> {
  return (text) => {
    const value = parsedJson(text);
    if (isJsonObject(value)) return value;
    throw new UsageError(`${flag} takes a JSON object`);
  };
}

function headers(text: string): Record<string, string> {
  const entries = Object.entries(objectOf('--headers')(text));
  if (entries.some(([, value]) => typeof value !== 'string')) throw new UsageError('--headers takes texts as values');
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value as string]));
}
