// `headrace search-worker`: one search engine on the command line, for gateways that call it as an engine of kind
// `worker`.

import { readFile } from 'node:fs/promises';
import { environment } from '../config/env.ts';
import { expandVariables, type Mistake, parseConfigText } from '../config/load.ts';
import { isLoopback, parseAddress, parseDuration, printAddress } from '../config/units.ts';
import { createSearchWorker, type SearchWorker, type SearchWorkerSettings } from '../search-worker/index.ts';
import { createLog } from '../telemetry/log.ts';
import { takeFlags, UsageError } from './args.ts';
import { closeOnSignal } from './shutdown.ts';

const FLAGS = ['engine', 'port', 'listen', 'config', 'timeout', 'concurrency', 'secret-file'] as const;

type Flags = Readonly<Partial<Record<(typeof FLAGS)[number], string>>>;
type Environment = Readonly<Record<string, string | undefined>>;

const DEFAULT_PORT = 9101;
const SECRET_VARIABLE = 'HEADRACE_WORKER_SECRET';

/** Runs until a signal comes. Resolves with an exit code only when the start fails. */
export async function searchWorker(flags: Readonly<Record<string, string>>): Promise<number | undefined> {
  const { own, rest } = takeFlags(flags, FLAGS);
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw new UsageError(`headrace search-worker has no flag --${unknown}`);
  const env = environment();
  const log = createLog('info');
  const address = addressOf(own);
  const secret = await secretOf(own['secret-file'], env);
  if (secret === undefined && !isLoopback(address.host))
    log.warn(`whoever reaches the port may search: name a secret by --secret-file or ${SECRET_VARIABLE}`);
  const worker = make({
    ...(await engineOf(own, env)),
    listen: printAddress(address),
    ...(secret === undefined ? {} : { secret }),
    ...(own.timeout === undefined ? {} : { timeoutMs: timeoutOf(own.timeout) }),
    onNotice: (sentence) => log.warn(sentence),
  });
  try {
    process.stdout.write(`search worker listening on ${await worker.listen()}\n`);
  } catch (error) {
    process.stderr.write(`headrace cannot start: ${error instanceof Error ? error.message : String(error)}\n`);
    await worker.abort();
    return 1;
  }
  closeOnSignal({ close: () => worker.close(), abort: () => worker.abort() });
  return undefined;
}

/** What is wrong with the settings of an engine is a mistake of whoever wrote them, not of this program. */
function make(settings: SearchWorkerSettings): SearchWorker {
  try {
    return createSearchWorker(settings);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function addressOf({ listen, port }: Flags): { host: string; port: number } {
  const address = parseAddress(listen ?? port ?? DEFAULT_PORT, '127.0.0.1');
  if (address === undefined || (listen === undefined && port !== undefined && !/^\d+$/.test(port)))
    throw new UsageError(listen === undefined ? '--port takes a port number' : '--listen takes HOST:PORT');
  return address;
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

/** The engine of the flags and of the file, which holds what an entry of `search.engines` does. */
async function engineOf(flags: Flags, env: Environment): Promise<Pick<SearchWorkerSettings, 'kind' | 'engine'>> {
  const { kind: named, ...entry } = flags.config === undefined ? {} : await entryOf(flags.config, env);
  const kind = flags.engine ?? named;
  if (typeof kind !== 'string') throw new UsageError('--engine KIND is missing');
  if (named !== undefined && named !== kind) throw new UsageError(`${flags.config} is of another kind than ${kind}`);
  if (flags.concurrency === undefined) return { kind, engine: entry };
  const concurrency = Number(flags.concurrency);
  if (!Number.isInteger(concurrency) || concurrency < 1) throw new UsageError('--concurrency takes a number above 0');
  return { kind, engine: { ...entry, concurrency } };
}

async function entryOf(file: string, env: Environment): Promise<Record<string, unknown>> {
  const parsed = parseConfigText(await readText(file), file);
  if ('mistakes' in parsed) throw new UsageError(sentence(parsed.mistakes));
  const expanded = expandVariables(parsed.input, env);
  if ('mistakes' in expanded) throw new UsageError(`${file}: ${sentence(expanded.mistakes)}`);
  const entry = expanded.value;
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry))
    throw new UsageError(`${file} must be a mapping of names to values`);
  return entry as Record<string, unknown>;
}

function sentence(mistakes: readonly Mistake[]): string {
  return mistakes.map(({ path, message }) => `${path} ${message}`).join('; ');
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new UsageError(`${file} cannot be read (${code ?? 'unknown reason'})`);
  }
}

function timeoutOf(text: string): number {
  const timeoutMs = parseDuration(text);
  if (timeoutMs === undefined || timeoutMs <= 0) throw new UsageError('--timeout takes a duration, such as 8s');
  return timeoutMs;
}
