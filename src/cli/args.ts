// Command lines into words and flags. Setting flags are open-ended (`--timeouts.connect 5s`), so flags are read by shape:
// `--name value`, `--name=value`, and the few that stand alone.

/** A command line that makes no sense; its message is for people. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export interface Args {
  /** What is no flag, the command first. */
  readonly words: readonly string[];
  /** Flags without their dashes. One that was given twice has its last value. */
  readonly flags: Readonly<Record<string, string>>;
}

/** Flags that take no value. */
const ALONE = new Set(['help', 'version', 'quiet', 'once']);

const SHORT: ReadonlyMap<string, string> = new Map([
  ['-h', '--help'],
  ['-v', '--version'],
  ['-c', '--config'],
]);

/** Reads a command line. Throws `UsageError` for a flag without its value. */
export function parseArgs(argv: readonly string[]): Args {
  const words: string[] = [];
  const flags: Record<string, string> = {};
  for (let i = 0; i < argv.length; i++) {
    const word = SHORT.get(argv[i] as string) ?? (argv[i] as string);
    if (!word.startsWith('--')) {
      words.push(word);
      continue;
    }
    const equals = word.indexOf('=');
    const name = word.slice(2, equals < 0 ? undefined : equals);
    if (equals >= 0) {
      flags[name] = word.slice(equals + 1);
    } else if (ALONE.has(name)) {
      flags[name] = 'true';
    } else {
      const value = argv[++i];
      if (value === undefined) throw new UsageError(`the flag --${name} needs a value`);
      flags[name] = value;
    }
  }
  return { words, flags };
}

/** Splits off the flags of a command from those that are settings. */
export function takeFlags<Name extends string>(
  flags: Readonly<Record<string, string>>,
  names: readonly Name[],
): { own: Partial<Record<Name, string>>; rest: Record<string, string> } {
  const own: Partial<Record<Name, string>> = {};
  const rest: Record<string, string> = {};
  for (const [name, value] of Object.entries(flags)) {
    if ((names as readonly string[]).includes(name)) own[name as Name] = value;
    else rest[name] = value;
  }
  return { own, rest };
}
