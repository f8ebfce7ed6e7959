// Replaces `${NAME}` in strings with variables of the environment, and `${file:/PATH}` with the content of a file, as secrets are
// mounted. `$${` stands for a literal `${`. Problems name the variable or the file and never repeat a value.

import { readFileSync, statSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { isPlain } from './value-types.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** A string with its variables replaced, or what is wrong with it. */
export type Expansion = { readonly text: string } | { readonly problems: readonly string[] };

const REFERENCE = /\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)|file:([^{}]+))\}|\$\{/g;

/** Keys and certificates are smaller; a larger file is another one than is meant. */
const MAX_FILE_BYTES = 64 * 1024;

/** Expands one string. A variable that is set but empty gives the empty string; a byte order mark and line ends at the end of a file are left out. */
export function expand(text: string, env: Environment): Expansion {
  const problems: string[] = [];
  const expanded = text.replace(REFERENCE, (match: string, name: string | undefined, path: string | undefined) => {
    if (match === '$${') return '${';
    if (path !== undefined) {
      const read = readSecret(path.trim());
      if ('text' in read) return read.text;
      problems.push(read.problem);
      return '';
    }
    if (name === undefined) {
      problems.push(
        'holds ${ without a variable name, or file: and a path, and a closing }; write $${ for a literal ${',
      );
      return '';
    }
    const value = Object.hasOwn(env, name) ? env[name] : undefined;
    if (value === undefined) problems.push(`names the environment variable ${name}, which is not set`);
    return value ?? '';
  });
  return problems.length > 0 ? { problems } : { text: expanded };
}

function readSecret(path: string): { readonly text: string } | { readonly problem: string } {
  if (!isAbsolute(path)) return { problem: `names the file ${path}; write its full path` };
  try {
    const stats = statSync(path);
    if (!stats.isFile()) return { problem: `names ${path}, which is no file` };
    if (stats.size > MAX_FILE_BYTES) return { problem: `names the file ${path}, which is larger than 64 KiB` };
    return { text: readFileSync(path, 'utf8').replace(/^\uFEFF|[\r\n]+$/g, '') };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const reason = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code ?? 'unknown reason'})`;
    return { problem: `names the file ${path}, which ${reason}` };
  }
}

/** Else a model would have the name of the variable. */
const VARIABLE_IN_NAME = 'has a variable in its name, where none is replaced: write the name itself';

/** What is wrong with the values that symbols stand for. */
export type Problems = Map<unknown, readonly string[]>;

/**
 * Expands every string inside lists and mappings. A string that cannot be expanded becomes a symbol, which no setting
 * accepts; `problems` tells what is wrong with it. So does a list or mapping inside itself, which YAML aliases can make, a mapping with the
 * name `__proto__`, and what has a variable in its name.
 * Functions and instances of classes, such as plug-ins, stay as they are.
 */
export function expandInput(
  raw: unknown,
  env: Environment,
  problems: Problems,
  parents: readonly unknown[] = [],
): unknown {
  const refuse = (...messages: string[]): symbol => {
    const symbol = Symbol('refused');
    problems.set(symbol, messages);
    return symbol;
  };
  if (typeof raw === 'string') {
    const expansion = expand(raw, env);
    return 'text' in expansion ? expansion.text : refuse(...expansion.problems);
  }
  if (parents.includes(raw)) return refuse('must not contain itself');
  const path = [...parents, raw];
  if (Array.isArray(raw)) return raw.map((item: unknown) => expandInput(item, env, problems, path));
  if (!isPlain(raw)) return raw;
  // Readers of settings leave it out, but for the outermost, which knows its names.
  if (parents.length > 0 && Object.hasOwn(raw, '__proto__')) return refuse('may have no name __proto__');
  const entries = Object.entries(raw).map(([name, value]) => {
    const expanded = name.includes('${') ? refuse(VARIABLE_IN_NAME) : expandInput(value, env, problems, path);
    return [name, expanded] as const;
  });
  return Object.fromEntries(entries);
}
