// The command line door: words to a command, failures to a sentence and an exit code.

import { parseArgs, UsageError } from './args.ts';
import { packageVersion } from '../config/env.ts';

type Command = (flags: Readonly<Record<string, string>>, words: readonly string[]) => Promise<number | undefined>;

/** Loaded when asked for: a list of keys need not wait for a web server to be read. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./serve.ts')).serve,
  bench: async () => (await import('./bench.ts')).bench,
  fetch: async () => (await import('./fetch.ts')).fetchPage,
  check: async () => (await import('./serve.ts')).check,
  demo: async () => (await import('./demo.ts')).demo,
  host: async () => (await import('./host.ts')).host,
  'search-worker': async () => (await import('./search-worker.ts')).searchWorker,
  top: async () => (await import('./top.ts')).top,
  keys: async () => (await import('./keys.ts')).keys,
  credits: async () => (await import('./credits.ts')).credits,
  usage: async () => (await import('./usage.ts')).usage,
  audit: async () => (await import('./audit.ts')).audit,
};

/** Most words after the name of a command; none unless said here. */
const MAX_OPERANDS: ReadonlyMap<string, number> = new Map([
  ['bench', 1],
  ['fetch', 1],
  ['keys', 2],
  ['credits', 3],
]);

/** Runs a command line. Commands that serve keep the process alive; the others end it with their exit code. */
export async function main(argv: readonly string[]): Promise<void> {
  try {
    const code = await run(argv);
    if (code !== undefined) process.exitCode = code;
  } catch (error) {
    const usage = error instanceof UsageError;
    const text = error instanceof Error ? (usage ? error.message : (error.stack ?? error.message)) : String(error);
    process.stderr.write(usage ? `headrace: ${text}\n       headrace --help tells more\n` : `headrace: ${text}\n`);
    process.exit(1);
  }
}

async function run(argv: readonly string[]): Promise<number | undefined> {
  const { words, flags } = parseArgs(argv);
  const [name] = words;
  if (flags['version'] !== undefined) {
    process.stdout.write(`headrace ${packageVersion()}\n`);
    return 0;
  }
  if (flags['help'] !== undefined || name === undefined || name === 'help') {
    const { helpFor } = await import('./help.ts');
    process.stdout.write(helpFor(name === 'help' ? words[1] : name));
    return 0;
  }
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (load === undefined) throw new UsageError(`there is no command "${name}"`);
  const operands = words.slice(1);
  const tooMany = operands[MAX_OPERANDS.get(name) ?? 0];
  if (tooMany !== undefined) throw new UsageError(`"${tooMany}" is one word too many`);
  const command = await load();
  return command(flags, operands);
}
