// The check of a path that is passed on below a CRN's base URL. The CRN, or a proxy before it, may resolve dot segments and decode
// escapes (RFC 3986 §5.2.4, §6.2.2): no reading of the path may lead out of the base URL, where the gateway's credential is good.

/** Nearly all paths are of this form, and nothing is wrong with those. */
const PLAIN = /^(?:\/[\w-]+)+\/?$/;

/** `%2f` passes, as in model ids with a slash, but separates segments like a slash. `;` begins the parameters of a segment. */
const DOT_SEGMENT = /(?:\/|%2f)(?:\.|%2e){1,2}(?=\/|%2f|;|$)/i;
const EMPTY_SEGMENT = /(?:\/|%2f)(?=\/|%2f)/i;
const BACKSLASH = /\\|%5c/i;
const CONTROL = /[^\x21-\x7e\x80-\xff]|%(?:[01][\da-f]|7f)/i;
const BROKEN_ESCAPE = /%(?![\da-f]{2})/i;

const FAULTS: readonly (readonly [RegExp, string])[] = [
  [DOT_SEGMENT, 'the path has a dot segment'],
  [EMPTY_SEGMENT, 'the path has an empty segment'],
  [BACKSLASH, 'the path has a backslash'],
  [/#/, 'the path has a fragment'],
  [CONTROL, 'the path has a space or a control character'],
  [BROKEN_ESCAPE, 'the path has a percent sign without two hexadecimal digits'],
];

/** What makes `path` unfit to be passed on; null when nothing does. It begins with a slash and has no query. */
export function pathFault(path: string): string | null {
  if (PLAIN.test(path)) return null;
  for (const [pattern, fault] of FAULTS) if (pattern.test(path)) return fault;
  return null;
}
