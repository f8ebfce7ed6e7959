// Values of options, and the open-ended settings (`--timeouts.connect 5s`) that some commands take beside their options.
// A message never repeats a value that may be a secret.

import { InvalidArgumentError } from 'commander';
import type { Mistake } from '../config/load.ts';
import { parseDuration } from '../config/units.ts';
import { UsageError } from './io.ts';

/** Words and settings of a command line. */
export interface Rest {
  readonly words: readonly string[];
  /** Settings without their dashes. One that was given twice has its last value. */
  readonly settings: Readonly<Record<string, string>>;
}

/** Sorts what commander leaves of a command with unknown options: `--name value`, `--name=value` and words. */
export function readRest(args: readonly string[], maxWords: number): Rest {
  const words: string[] = [];
  const settings: Record<string, string> = {};
  for (let i = 0; i < args.length; i++) {
    const word = args[i] as string;
    if (!word.startsWith('--')) {
      if (words.push(word) > maxWords) throw new UsageError(`too many arguments: ${word}`);
      continue;
    }
    const equals = word.indexOf('=');
    if (equals >= 0) {
      settings[word.slice(2, equals)] = word.slice(equals + 1);
      continue;
    }
    const value = args[++i];
    if (value === undefined) throw new UsageError(`option '${word}' argument missing`);
    settings[word.slice(2)] = value;
  }
  return { words, settings };
}

/** Mistakes in one sentence. */
export function sentenceOf(mistakes: readonly Mistake[]): string {
  return mistakes.map(({ path, message }) => `${path}: ${message}`).join('; ');
}

/** Mistakes, one line each. */
export function mistakeLines(mistakes: readonly Mistake[]): string {
  return mistakes.map(({ path, message }) => `  ${path}: ${message}\n`).join('');
}

/** A reader of whole numbers of at least `least`. */
export function wholeNumber(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text !== '' && Number.isSafeInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`It must be a whole number of ${least} or more.`);
  };
}

export function positiveNumber(text: string): number {
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('It must be a number above 0.');
}

export function numberFromZero(text: string): number {
  const value = Number(text);
  if (text !== '' && Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError('It must be a number of 0 or more.');
}

export function port(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new InvalidArgumentError('It must be a port number.');
}

export function durationMs(text: string): number {
  const valueMs = parseDuration(text);
  if (valueMs !== undefined) return valueMs;
  throw new InvalidArgumentError('It must be a duration such as 30s or 250ms.');
}

export function yesOrNo(text: string): boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  throw new InvalidArgumentError('It must be true or false.');
}
