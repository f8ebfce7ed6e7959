// The rules of a robots.txt for one user agent (RFC 9309 §2.2). Reading a file takes time linear in it; judging a path is bounded,
// whatever the file says.

interface Rule {
  /** Percent-encoded. `*` stands for any text, `$` at the end for the end of the path. */
  readonly pattern: string;
  readonly isAllowed: boolean;
}

/** Longer patterns are ignored. */
const MAX_PATTERN = 512;

/** What a rule takes in memory beside its pattern, about, in bytes. */
const RULE_BYTES = 64;

/**
 * Steps that the patterns with wildcards may take for one path: each at most its length times that of the path. The largest files that
 * sites have need a tenth of it for usual paths. Further patterns are ignored.
 */
const MAX_STEPS = 50_000_000;

export class RobotsRules {
  readonly #rules: readonly Rule[];

  /** @param agent product token in lower case, without its version */
  constructor(text: string, agent: string) {
    this.#rules = rulesFor(agent, text);
  }

  /** Memory that the rules take, about. */
  get bytes(): number {
    return this.#rules.reduce((sum, { pattern }) => sum + RULE_BYTES + pattern.length, RULE_BYTES);
  }

  /** By the longest pattern that matches; of equal ones the one that allows (§2.2.2). */
  allows({ pathname, search }: URL): boolean {
    const path = encoded(pathname + search);
    let best: Rule | null = null;
    let steps = 0;
    for (const rule of this.#rules) {
      const { isAllowed, pattern } = rule;
      const longest = best?.pattern.length ?? -1;
      if (pattern.length < longest || (pattern.length === longest && !isAllowed)) continue;
      const hasWildcard = pattern.includes('*');
      if (hasWildcard) steps += pattern.length * path.length;
      if ((!hasWildcard || steps <= MAX_STEPS) && matches(pattern, path)) best = rule;
    }
    return best?.isAllowed ?? true;
  }
}

/** The rules of all groups that name the agent, else of those for all agents. */
function rulesFor(agent: string, text: string): readonly Rule[] {
  let own: Rule[] | null = null;
  const common: Rule[] = [];
  /** The lists that the group under way belongs to. */
  let group = new Set<Rule[]>();
  let hasRules = false;
  for (const line of text.split(/\r\n|\r|\n/)) {
    const [statement = ''] = line.split('#', 1);
    const colon = statement.indexOf(':');
    const field = statement.slice(0, Math.max(colon, 0)).trim().toLowerCase();
    const value = statement.slice(colon + 1).trim();
    if (field === 'user-agent') {
      if (hasRules) group = new Set();
      hasRules = false;
      const name = productOf(value);
      if (name === agent) group.add((own ??= []));
      else if (name === '*') group.add(common);
    } else if (field === 'allow' || field === 'disallow') {
      hasRules = true;
      if (value === '' || value.length > MAX_PATTERN) continue;
      for (const rules of group) rules.push({ pattern: encoded(value), isAllowed: field === 'allow' });
    }
  }
  return own ?? common;
}

/** The product token of a user agent, in lower case. */
export function productOf(userAgent: string): string {
  const [product = ''] = userAgent.split('/', 1);
  return product.trim().toLowerCase();
}

/** One spelling of a path or pattern (§2.2.2): what is no ASCII is percent-encoded, what needs no escape has none, others are in upper case. */
function encoded(path: string): string {
  const escaped = encodeURI(path).replaceAll('%25', '%');
  return escaped.replace(/%[\da-f]{2}/gi, (escape) => {
    const character = String.fromCodePoint(Number.parseInt(escape.slice(1), 16));
    return /[\w.~-]/.test(character) ? character : escape.toUpperCase();
  });
}

/** Whether a path begins with a pattern: each part behind a `*` is taken where it comes first. */
function matches(pattern: string, path: string): boolean {
  const isToEnd = pattern.endsWith('$');
  const [first = '', ...parts] = (isToEnd ? pattern.slice(0, -1) : pattern).split('*');
  if (!path.startsWith(first)) return false;
  let at = first.length;
  const last = isToEnd ? parts.pop() : '';
  for (const part of parts) {
    const found = path.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  if (last === undefined) return at === path.length;
  return path.length - last.length >= at && path.endsWith(last);
}
