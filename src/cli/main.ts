// The command line: finds the command, loads its file, and turns failures into a sentence and an exit code.

import { Command, CommanderError } from 'commander';
import { packageVersion } from '../config/env.ts';
import { nearest } from '../config/spelling.ts';
import { ListenError } from '../ingress/server.ts';
import { type CliIo, processIo, StartError, UsageError } from './io.ts';
import { nameOf, orderArguments } from './options.ts';

/** Adds options and the action to a command. */
type Configure = (command: Command, io: CliIo) => void;

interface Entry {
  readonly summary: string;
  readonly group: string;
  /** Commands are loaded when they are asked for: printing a version need not wait for a web server to be read. */
  readonly load: () => Promise<Configure>;
}

const SERVERS = 'Servers:';
const ACCOUNTS = 'Keys, credits and accounts:';
const TOOLS = 'Tools:';

const COMMANDS: Readonly<Record<string, Entry>> = {
  demo: {
    summary: 'a gateway, four simulated model hosts and a key, without any set-up',
    group: SERVERS,
    load: async () => (await import('./demo.ts')).configureDemo,
  },
  serve: {
    summary: 'the gateway; prints one ready line once the public port answers',
    group: SERVERS,
    load: async () => (await import('./serve.ts')).configureServe,
  },
  host: {
    summary: 'a model host: simulated, or in front of llama-server, vLLM or a GGUF file',
    group: SERVERS,
    load: async () => (await import('./host.ts')).configureHost,
  },
  'search-worker': {
    summary: 'one search engine on its own port, called by gateways',
    group: SERVERS,
    load: async () => (await import('./search-worker.ts')).configureSearchWorker,
  },
  picker: {
    summary: 'picks servers for Envoy and other data planes of the Kubernetes Gateway API',
    group: SERVERS,
    load: async () => (await import('./picker.ts')).configurePicker,
  },
  mcp: {
    summary: 'search and fetch as tools of the Model Context Protocol, over standard input and output',
    group: SERVERS,
    load: async () => (await import('./mcp.ts')).configureMcp,
  },
  init: {
    summary: 'writes a commented configuration after three questions, or from flags',
    group: TOOLS,
    load: async () => (await import('./init.ts')).configureInit,
  },
  check: {
    summary: 'reads the configuration and explains what would run, or every mistake',
    group: TOOLS,
    load: async () => (await import('./check.ts')).configureCheck,
  },
  top: {
    summary: 'what a running gateway does, live in the terminal',
    group: TOOLS,
    load: async () => (await import('./top.ts')).configureTop,
  },
  completion: {
    summary: 'prints a completion script for bash, zsh or fish',
    group: TOOLS,
    load: async () => (await import('./completion.ts')).configureCompletion,
  },
  tail: {
    summary: 'the requests of a running gateway, one line for each as it ends',
    group: TOOLS,
    load: async () => (await import('./tail.ts')).configureTail,
  },
  explain: {
    summary: 'which server a request would go to, and why',
    group: TOOLS,
    load: async () => (await import('./explain.ts')).configureExplain,
  },
  bench: {
    summary: 'sends load to a model server or gateway and reports latencies',
    group: TOOLS,
    load: async () => (await import('./bench.ts')).configureBench,
  },
  fetch: {
    summary: 'a page as clean text',
    group: TOOLS,
    load: async () => (await import('./fetch.ts')).configureFetch,
  },
  keys: {
    summary: 'creates, lists, edits, disables and rotates API keys',
    group: ACCOUNTS,
    load: async () => (await import('./keys.ts')).configureKeys,
  },
  budgets: {
    summary: 'what accounts, keys and models may spend in a day, a week or a month',
    group: ACCOUNTS,
    load: async () => (await import('./budgets.ts')).configureBudgets,
  },
  credits: {
    summary: 'grants credit, shows balances and the history of an account',
    group: ACCOUNTS,
    load: async () => (await import('./credits.ts')).configureCredits,
  },
  accounts: {
    summary: 'creates and lists accounts, their credit limits and organisations',
    group: ACCOUNTS,
    load: async () => (await import('./accounts.ts')).configureAccounts,
  },
  requests: {
    summary: 'single requests with their cost, as a table or an export',
    group: ACCOUNTS,
    load: async () => (await import('./requests.ts')).configureRequests,
  },
  usage: {
    summary: 'what was used and charged, by account, key, model and day',
    group: ACCOUNTS,
    load: async () => (await import('./usage.ts')).configureUsage,
  },
  admins: {
    summary: 'tokens of operators, and the log of what they did',
    group: ACCOUNTS,
    load: async () => (await import('./admins.ts')).configureAdmins,
  },
  webhooks: {
    summary: 'deliveries of events to other systems',
    group: ACCOUNTS,
    load: async () => (await import('./webhooks.ts')).configureWebhooks,
  },
  payments: {
    summary: 'lists payments by x402, and closes those without a known outcome',
    group: ACCOUNTS,
    load: async () => (await import('./payments.ts')).configurePayments,
  },
  backup: {
    summary: 'copies a store in a SQLite file while it is in use',
    group: ACCOUNTS,
    load: async () => (await import('./backup.ts')).configureBackup,
  },
  audit: {
    summary: 'verifies that the ledger adds up to zero',
    group: ACCOUNTS,
    load: async () => (await import('./audit.ts')).configureAudit,
  },
};

/** Columns of help where the terminal has as many, and outside of terminals. */
const HELP_WIDTH = 118;

/** Runs a command line without the name of the program; resolves with the exit code once everything is closed. */
export async function main(argv: readonly string[], io: CliIo = processIo()): Promise<number> {
  let program: Command | undefined;
  try {
    if (argv[0] === 'help') refuseUnknown(argv[1]);
    // Commander's own knows the first word only, not that of `keys create`.
    const words = argv[0] === 'help' ? [...argv.slice(1), '--help'] : argv;
    program = await programFor(words, io);
    await program.parseAsync(words.length === 0 ? ['--help'] : orderArguments(words, program), { from: 'user' });
    return io.exitCode;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    io.stderr.write(report(error, argv, program));
    return 1;
  }
}

/** The program with the options of every command that the command line names, or of all commands. */
export async function programFor(argv: readonly string[] | 'all', io: CliIo): Promise<Command> {
  const isWhole = argv === 'all' || argv.includes('completion');
  const program = new Command('headrace')
    .description('An ingress for hosted generative models and web search.')
    .version(`headrace ${packageVersion()}`, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .helpCommand('help [command]', 'print help for a command')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      // Printed by `main` together with all other failures.
      outputError: () => undefined,
      getOutHelpWidth: () => helpWidth(io.stdout),
      getErrHelpWidth: () => helpWidth(io.stderr),
    })
    .addHelpText(
      'after',
      '\nStart with\n  headrace demo\nYour own servers\n  headrace init\nMore about a command\n  headrace COMMAND --help',
    );
  for (const [name, { summary, group, load }] of Object.entries(COMMANDS)) {
    const command = program.command(name).summary(summary).helpGroup(group);
    if (isWhole || argv.includes(name)) (await load())(command, io);
    if (helpWidth(io.stdout) < HELP_WIDTH) joinLines(command);
  }
  return program;
}

function helpWidth({ columns }: CliIo['stdout']): number {
  return Math.min(columns || HELP_WIDTH, HELP_WIDTH);
}

/** Descriptions have lines of `HELP_WIDTH`: broken again, every second one would be short. */
function joinLines(command: Command): void {
  command.description(command.description().replaceAll(/(?<!\n)\n(?![\n ])/g, ' '));
  for (const each of command.commands) joinLines(each);
}

/** Commander prints the help of everything when it is asked for that of an unknown command. */
function refuseUnknown(command: string | undefined): void {
  if (command === undefined || command.startsWith('-') || command === 'help' || Object.hasOwn(COMMANDS, command))
    return;
  const near = nearest(command, Object.keys(COMMANDS));
  throw new UsageError(`unknown command '${command}'${near === undefined ? '' : ` (Did you mean ${near}?)`}`);
}

/**
 * A command that takes settings takes any option: a required one that is missing may be there in another spelling, or its value alone behind
 * the command.
 */
function meantOption(message: string, command: string | undefined, argv: readonly string[]): string | undefined {
  const [required = ''] = /--[\w-]+/.exec(message) ?? [];
  const given = argv.filter((word) => word.startsWith('--')).map(nameOf);
  const misspelt = given.find(
    (name) =>
      name.length > 2 && (required.startsWith(name) || nearest(name.slice(2), [required.slice(2)]) !== undefined),
  );
  if (misspelt !== undefined) return `unknown option '${misspelt}' (Did you mean ${required}?)`;
  // Behind a command that has subcommands stands the name of one.
  const takesValue = command !== undefined && COMMANDS[command]?.group !== ACCOUNTS;
  const value = takesValue ? argv[argv.indexOf(command) + 1] : undefined;
  return value === undefined || value.startsWith('-') ? undefined : `${message} (Did you mean ${required} ${value}?)`;
}

/** The words of a command line that name a command and its subcommand. */
function commandWords(argv: readonly string[], program: Command | undefined): string[] {
  const words: string[] = [];
  let at = program;
  for (const word of argv) {
    const found = at?.commands.find((command) => command.name() === word);
    if (found === undefined) continue;
    words.push(word);
    at = found;
  }
  return words;
}

function report(error: unknown, argv: readonly string[], program: Command | undefined): string {
  if (error instanceof StartError && error.file !== undefined)
    return `headrace cannot start with ${error.file}:\n${error.message}`;
  if (error instanceof StartError || error instanceof ListenError) return `headrace cannot start: ${error.message}\n`;
  if (!(error instanceof CommanderError) && !(error instanceof UsageError))
    return `headrace: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`;
  // The help of a command that needs a subcommand has been printed.
  if (error instanceof CommanderError && error.code === 'commander.help') return '';
  const words = commandWords(argv, program);
  const message = error.message.replace(/^error: /, '').replaceAll('\n', ' ');
  const code = error instanceof CommanderError ? error.code : '';
  const isUnknownOption = code === 'commander.unknownOption';
  const meant = code === 'commander.missingMandatoryOptionValue' ? meantOption(message, words[0], argv) : undefined;
  const sentence = meant ?? (isUnknownOption ? message.replace(/(?<=^unknown option ').*(?=')/, nameOf) : message);
  return `headrace: ${sentence}\nRun "${['headrace', ...words].join(' ')} --help" for usage.\n`;
}
