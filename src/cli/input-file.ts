// Files that a command line names. What cannot be read is a mistake in the command line.

import { readFile } from 'node:fs/promises';
import { parseConfigText } from '../config/load.ts';
import { isJsonObject } from '../net/json-object.ts';
import { UsageError } from './io.ts';
import { sentenceOf } from './options.ts';

/** The text of a file. */
export async function readText(file: string): Promise<string> {
  return await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${file} cannot be read (${error.code ?? 'unknown reason'})`);
  });
}

/** The value of a YAML or JSON file. */
export async function readDocument(file: string): Promise<unknown> {
  const parsed = parseConfigText(await readText(file), file);
  if ('mistakes' in parsed) throw new UsageError(sentenceOf(parsed.mistakes));
  return parsed.input;
}

/** The same, where it must be a mapping. */
export async function readMapping(file: string): Promise<Record<string, unknown>> {
  const input = await readDocument(file);
  if (isJsonObject(input)) return input;
  throw new UsageError(`${file} must be a mapping of names to values`);
}
