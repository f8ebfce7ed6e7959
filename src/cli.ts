// The command line door: words to a command, failures to a sentence and an exit code.

import { parseArgs, UsageError } from './cli/args.ts';
import { audit } from './cli/audit.ts';
import { bench } from './cli/bench.ts';
import { credits } from './cli/credits.ts';
import { demo } from './cli/demo.ts';
import { fetchPage } from './cli/fetch.ts';
import { helpFor } from './cli/help.ts';
import { host } from './cli/host.ts';
import { keys } from './cli/keys.ts';
import { searchWorker } from './cli/search-worker.ts';
import { check, serve } from './cli/serve.ts';
import { top } from './cli/top.ts';
import { usage } from './cli/usage.ts';
import { packageVersion } from './config/version.ts';

type Command = (flags: Readonly<Record<string, string>>, words: readonly string[]) => Promise<number | undefined>;

const COMMANDS: Readonly<Record<string, Command>> = {
  serve,
  bench,
  fetch: fetchPage,
  check,
  demo,
  host,
  'search-worker': searchWorker,
  top,
  keys,
  credits,
  usage,
  audit,
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
    process.stdout.write(helpFor(name === 'help' ? words[1] : name));
    return 0;
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) throw new UsageError(`there is no command "${name}"`);
  const operands = words.slice(1);
  const tooMany = operands[MAX_OPERANDS.get(name) ?? 0];
  if (tooMany !== undefined) throw new UsageError(`"${tooMany}" is one word too many`);
  return command(flags, operands);
}
