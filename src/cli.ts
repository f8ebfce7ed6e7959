// The command line door: words to a command, failures to a sentence and an exit code.

import { readFileSync } from 'node:fs';
import { parseArgs, UsageError } from './cli/args.ts';
import { demo } from './cli/demo.ts';
import { fetchPage } from './cli/fetch.ts';
import { helpFor } from './cli/help.ts';
import { host } from './cli/host.ts';
import { searchWorker } from './cli/search-worker.ts';
import { check, serve } from './cli/serve.ts';

type Command = (flags: Readonly<Record<string, string>>, words: readonly string[]) => Promise<number | undefined>;

const COMMANDS: Readonly<Record<string, Command>> = {
  serve,
  fetch: fetchPage,
  check,
  demo,
  host,
  'search-worker': searchWorker,
};

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
    process.stdout.write(`headrace ${version()}\n`);
    return 0;
  }
  if (flags['help'] !== undefined || name === undefined || name === 'help') {
    process.stdout.write(helpFor(name === 'help' ? words[1] : name));
    return 0;
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) throw new UsageError(`there is no command "${name}"`);
  const operands = words.slice(1);
  if (operands.length > (name === 'fetch' ? 1 : 0)) throw new UsageError(`"${operands.at(-1)}" is one word too many`);
  return command(flags, operands);
}

function version(): string {
  // dist/src/cli.js lies two folders below the package.
  const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  return manifest.version;
}
