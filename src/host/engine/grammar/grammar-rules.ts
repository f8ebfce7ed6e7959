// GBNF text under construction: rules with generated names, equal ones written once, within a size limit. Also the errors for
// unusable grammars and schemas.
/** Most characters of all rules together; a schema that unrolls further is refused. */
const MAX_TEXT = 500_000;

/** Rules under construction. */
export class RuleBook {
  readonly #names = new Map<string, string>();
  #length = 0;

  /** The name of a rule with this body. */
  add(body: string): string {
    let name = this.#names.get(body);
    if (name === undefined) {
      name = `r${this.#names.size}`;
      this.#length += body.length;
      if (this.#length > MAX_TEXT) throw new SchemaError('schema: too large for a grammar');
      this.#names.set(body, name);
    }
    return name;
  }

  /** The grammar whose root is this body. */
  text(root: string): string {
    const rules = [...this.#names].map(([body, name]) => `${name} ::= ${body}\n`);
    return `root ::= ${root}\n${rules.join('')}`;
  }
}

/** A GBNF literal of a text. */
export function literal(text: string): string {
  const escaped = text.replace(/["\\\r\n\t]/g, (mark) => LITERAL_ESCAPES[mark]!);
  return `"${escaped}"`;
}

const LITERAL_ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\r': '\\r',
  '\n': '\\n',
  '\t': '\\t',
};

/** Either of the bodies, in parentheses where more than one is given. */
export function oneOf(bodies: readonly string[]): string {
  return bodies.length === 1 ? bodies[0]! : `(${bodies.join(' | ')})`;
}

/** A grammar that cannot be used. The host answers it with 400 or 422; the message names the place. */
export class GrammarError extends Error {
  override readonly name = 'GrammarError';
}

/** A JSON schema that cannot be turned into a grammar. The message names the keyword and where it stands. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
}
