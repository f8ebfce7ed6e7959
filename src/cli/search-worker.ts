// `headrace search-worker`: serves one search engine to gateways that name it as an engine of kind `worker`.

import { dirname, resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { engineFrom, expandVariables } from '../config/load.ts';
import { type Address, isLoopback, parseAddress, printAddress } from '../config/units.ts';
import { messageOf } from '../errors.ts';
import { createSearchWorker, type SearchWorker, type SearchWorkerSettings } from '../search-worker/index.ts';
import { createLog } from '../telemetry/log.ts';
import { watchExceptions } from './exceptions.ts';
import { readMapping, readText } from './input-file.ts';
import { type CliIo, StartError, UsageError } from './io.ts';
import { durationMs, port, sentenceOf, wholeNumber } from './options.ts';
import { closeOnSignal } from './shutdown.ts';

interface SearchWorkerOptions {
  readonly engine?: string;
  readonly port: number;
  readonly listen?: Address;
  readonly config?: string;
  readonly timeout?: number;
  readonly concurrency?: number;
  readonly secretFile?: string;
}

type Environment = CliIo['env'];

const DEFAULT_PORT = 9101;
const SECRET_VARIABLE = 'HEADRACE_WORKER_SECRET';

const DESCRIPTION = `Serves one search engine to gateways that name it as { kind: worker, url: http://HOST:PORT }. Prints to standard
output, once the port answers:
  search worker listening on http://HOST:PORT

GET /health answers 200 once the engine can search, 503 before (an index that is being built) and while the worker
ends; GET /metrics has the counters. Neither asks for the secret. SIGTERM or SIGINT stops accepting, answers the
searches in flight and exits 0; a second signal exits at once.`;

export function configureSearchWorker(command: Command, io: CliIo): void {
  command
    .usage('--engine KIND [--port N] [options]')
    .description(DESCRIPTION)
    .option('--engine <kind>', 'kind of the engine, as in the section search.engines of a configuration')
    .option('--port <n>', '0 picks a free one', port, DEFAULT_PORT)
    .option('--listen <host:port>', 'instead of --port, to serve other interfaces than loopback', listenAddress)
    .option(
      '-c, --config <file>',
      'settings of the engine, YAML or JSON: an entry of search.engines; may hold kind, too',
    )
    .option('--timeout <time>', 'longest time of a search, less than the gateway waits; default 9s', timeoutMs)
    .option('--concurrency <n>', 'searches the engine runs at once; further ones wait', wholeNumber(1))
    .option('--secret-file <file>', `the secret that gateways must send; default: the variable ${SECRET_VARIABLE}`)
    .action(async (options: SearchWorkerOptions) => serveSearchWorker(options, io));
}

async function serveSearchWorker(options: SearchWorkerOptions, io: CliIo): Promise<void> {
  const log = createLog('info', io.log);
  const address = options.listen ?? { host: '127.0.0.1', port: options.port };
  const secret = await secretOf(options.secretFile, io.env);
  if (secret === undefined && !isLoopback(address.host))
    log.warn(`anyone who reaches the port can search: set a secret by --secret-file or ${SECRET_VARIABLE}`);
  const worker = create({
    ...(await engineOf(options, io.env)),
    listen: printAddress(address),
    ...(secret === undefined ? {} : { secret }),
    ...(options.timeout === undefined ? {} : { timeoutMs: options.timeout }),
    onNotice: (sentence) => log.warn(sentence),
  });
  let url: string;
  try {
    url = await worker.listen();
  } catch (error) {
    await worker.abort();
    throw new StartError(messageOf(error));
  }
  const serving = closeOnSignal(io, { close: () => worker.close(), abort: () => worker.abort() });
  const endWatch = watchExceptions(io, log, 'search worker', () => serving.fail());
  // Signals are handled before a line says that the worker is there.
  io.stdout.write(`search worker listening on ${url}\n`);
  await serving.ended.finally(endWatch);
}

/** Wrong settings of an engine are a mistake of the command line. */
function create(settings: SearchWorkerSettings): SearchWorker {
  try {
    return createSearchWorker(settings);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function listenAddress(text: string): Address {
  const address = parseAddress(text, '127.0.0.1');
  if (address !== undefined) return address;
  throw new InvalidArgumentError('It must be HOST:PORT.');
}

function timeoutMs(text: string): number {
  const valueMs = durationMs(text);
  if (valueMs > 0) return valueMs;
  throw new InvalidArgumentError('It must be longer than 0.');
}

/** The secret, without the line end of its file. It is never repeated, and a flag cannot hold it. */
async function secretOf(file: string | undefined, env: Environment): Promise<string | undefined> {
  const text = file === undefined ? env[SECRET_VARIABLE] : await readText(file);
  if (text === undefined) return undefined;
  const secret = text.trim();
  if (!/^[\x21-\x7e]+$/.test(secret))
    throw new UsageError(`the secret of ${file ?? SECRET_VARIABLE} must be visible ASCII characters without spaces`);
  return secret;
}

/** The engine of the options and of the file, which holds an entry of `search.engines`. Its path begins at the folder of the file. */
async function engineOf(
  { engine, config, concurrency }: SearchWorkerOptions,
  env: Environment,
): Promise<Pick<SearchWorkerSettings, 'kind' | 'engine'>> {
  const { kind: named, ...entry } = config === undefined ? {} : await entryOf(config, env);
  const kind = engine ?? named;
  if (typeof kind !== 'string') throw new UsageError("required option '--engine <kind>' not specified");
  if (named !== undefined && named !== kind) throw new UsageError(`${config} is of another kind than ${kind}`);
  return { kind, engine: concurrency === undefined ? entry : { ...entry, concurrency } };
}

async function entryOf(file: string, env: Environment): Promise<Record<string, unknown>> {
  const expanded = expandVariables(await readMapping(file), env);
  if ('mistakes' in expanded) throw new UsageError(`${file}: ${sentenceOf(expanded.mistakes)}`);
  return engineFrom(dirname(resolve(file)), expanded.value as Record<string, unknown>);
}
