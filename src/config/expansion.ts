// Replaces `${NAME}` in strings with variables of the environment. `$${` stands for a literal `${`. Problems name the
// variable and never repeat a value.

import { isPlain } from './value-types.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** A string with its variables replaced, or what is wrong with it. */
export type Expansion = { readonly text: string } | { readonly problems: readonly string[] };

const REFERENCE = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{/g;

/** Expands one string. A variable that is set but empty gives the empty string. */
export function expand(text: string, env: Environment): Expansion {
  const problems: string[] = [];
  const expanded = text.replace(REFERENCE, (match: string, name: string | undefined) => {
    if (match === '$${') return '${';
    if (name === undefined) {
      problems.push('holds ${ without a variable name and a closing }; write $${ for a literal ${');
      return '';
    }
    const value = Object.hasOwn(env, name) ? env[name] : undefined;
    if (value === undefined) problems.push(`names the environment variable ${name}, which is not set`);
    return value ?? '';
  });
  return problems.length > 0 ? { problems } : { text: expanded };
}

/**
 * Expands every string inside lists and mappings. A string that cannot be expanded becomes a symbol, which no setting
 * accepts; `problems` tells what is wrong with it. Functions and instances of classes, such as plug-ins, stay as they are.
 */
export function expandInput(raw: unknown, env: Environment, problems: Map<unknown, readonly string[]>): unknown {
  if (typeof raw === 'string') {
    const expansion = expand(raw, env);
    if ('text' in expansion) return expansion.text;
    const symbol = Symbol('not expanded');
    problems.set(symbol, expansion.problems);
    return symbol;
  }
  if (Array.isArray(raw)) return raw.map((item: unknown) => expandInput(item, env, problems));
  if (!isPlain(raw)) return raw;
  return Object.fromEntries(Object.entries(raw).map(([name, value]) => [name, expandInput(value, env, problems)]));
}
