// Command lines and the values of options. A message never repeats a value that may be a secret.

import { type Command, InvalidArgumentError, type Option } from 'commander';
import type { Mistake } from '../config/load.ts';
import { durationProblem, parseDuration } from '../config/units.ts';
import { UsageError } from './io.ts';

/**
 * A command line in the order that commander needs: words first, so that options may stand before the command, then options
 * with their values. A value that begins with a dash is joined to its option, or commander would read it as another option.
 * Every `--name` takes a value unless `program` or one of its commands declares it without one.
 */
export function orderArguments(argv: readonly string[], program: Command): string[] {
  const flags = new Set(['--help']);
  const shortNames = new Set<string>();
  for (const { short, long, required } of declaredOptions(program)) {
    if (!required && long !== undefined) flags.add(long);
    if (required && short !== undefined) shortNames.add(short);
  }
  const words: string[] = [];
  const options: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i] as string;
    if (word === '--') {
      options.push(...argv.slice(i));
      break;
    }
    if (!word.startsWith('-') || word === '-') {
      words.push(word);
      continue;
    }
    const name = nameOf(word);
    if (flags.has(name)) {
      const value = word.slice(name.length);
      if (!['', '=true', '=false'].includes(value)) throw new UsageError(`option '${name}' takes only true or false`);
      if (value !== '=false') options.push(name);
      continue;
    }
    const value = argv[i + 1];
    if ((word.startsWith('--') ? word !== name : !shortNames.has(word)) || value === undefined) {
      options.push(word);
      continue;
    }
    i++;
    if (!/^-[^-]/.test(value)) options.push(word, value);
    else options.push(word.startsWith('--') ? `${word}=${value}` : word + value);
  }
  return [...words, ...options];
}

function declaredOptions({ commands, options }: Command): Option[] {
  return [...options, ...commands.flatMap(declaredOptions)];
}

/** The name of an option without its value: `--name` of `--name=value`, `-n` of `-nvalue`. */
export function nameOf(option: string): string {
  return option.startsWith('--') ? option.replace(/=.*$/s, '') : option.slice(0, 2);
}

/** An option as it is written: `--cold-start` of `coldStart`. */
export function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
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
  throw new InvalidArgumentError(`It ${durationProblem(text)}.`);
}

export function yesOrNo(text: string): boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  throw new InvalidArgumentError('It must be true or false.');
}
