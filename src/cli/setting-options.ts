// The open-ended settings (`--timeouts.connect 5s`) that some commands take beside their options.

import type { Command } from 'commander';
import { SETTINGS } from '../config/settings.ts';
import { nearest } from '../config/spelling.ts';
import { UsageError } from './io.ts';
import { nameOf } from './options.ts';

/** Words and settings of a command line. */
export interface Rest {
  readonly words: readonly string[];
  /** Settings without their dashes. One that was given twice has its last value. */
  readonly settings: Readonly<Record<string, string>>;
}

/**
 * Sorts what commander leaves of a command with unknown options: `--name value`, `--name=value` and words. What is no setting, and
 * near to an option of the command, is that one misspelt.
 */
export function readRest({ args, options }: Pick<Command, 'args' | 'options'>, maxWords: number): Rest {
  const own = options.map(({ long = '' }) => long.slice(2));
  const words: string[] = [];
  const settings: Record<string, string> = {};
  for (let i = 0; i < args.length; i++) {
    const word = args[i] as string;
    if (!word.startsWith('--')) {
      if (words.push(word) > maxWords)
        throw new UsageError(`too many arguments: ${word.startsWith('-') ? nameOf(word) : word}`);
      continue;
    }
    const name = nameOf(word);
    const isSetting = SETTINGS.some(({ flag }) => flag === name);
    const near = isSetting ? undefined : nearest(name.slice(2), own);
    if (near !== undefined) throw new UsageError(`unknown option '${name}' (Did you mean --${near}?)`);
    const equals = word.indexOf('=');
    if (equals >= 0) {
      settings[word.slice(2, equals)] = word.slice(equals + 1);
      continue;
    }
    const value = args[++i];
    if (value === undefined)
      throw new UsageError(isSetting ? `option '${word}' argument missing` : `unknown option '${name}'`);
    settings[word.slice(2)] = value;
  }
  return { words, settings };
}
