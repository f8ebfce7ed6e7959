// Replaces `${NAME}` in the strings of a configuration with variables of the environment. `$${` stands for a literal
// `${`. The settings reader calls it on every string of the file; problems name the variable and never show a value.

/** A string with its variables replaced, or what is wrong with it. */
export type Expansion = { readonly text: string } | { readonly problems: readonly string[] };

const REFERENCE = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{/g;

/** Expands one string. A variable that is set but empty gives the empty string. */
export function expand(text: string, env: Readonly<Record<string, string | undefined>>): Expansion {
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
