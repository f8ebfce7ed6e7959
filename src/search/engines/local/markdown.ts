// Front matter, title and text of a Markdown file. It is not rendered: marks are removed, words stay in their order.

import { parse } from 'yaml';
import { plainText } from '../../text.ts';

export interface MarkdownText {
  /** The YAML mapping at the top of the file; empty without one or when it is broken. */
  readonly meta: Readonly<Record<string, unknown>>;
  /** The first heading; empty without one. */
  readonly heading: string;
  readonly text: string;
}

const MAX_FRONT_MATTER_LENGTH = 64_000;

/** To tell keys apart and to write those that are mappings as text takes the square of their number, and more. */
const LINEAR = { logLevel: 'silent', mapAsMap: true, uniqueKeys: false } as const;

/** Reads front matter (`---` lines around YAML) and body. */
export function markdownText(source: string): MarkdownText {
  const { meta, body } = splitFrontMatter(source);
  const heading = /^ {0,3}#{1,6}[ \t]+(.*)$/m.exec(body)?.[1] ?? /^(\S.*)\r?\n(?:=+|-+)[ \t]*$/m.exec(body)?.[1] ?? '';
  return { meta, heading: plain(heading), text: plain(body) };
}

function splitFrontMatter(source: string): { meta: Record<string, unknown>; body: string } {
  const opening = /^---[ \t]*\r?\n/.exec(source);
  const closing = opening === null ? null : /^(?:---|\.\.\.)[ \t]*$/m.exec(source.slice(opening[0].length));
  if (opening === null || closing === null) return { meta: {}, body: source };
  const start = opening[0].length;
  const body = source.slice(start + closing.index + closing[0].length);
  if (closing.index > MAX_FRONT_MATTER_LENGTH) return { meta: {}, body };
  try {
    const meta: unknown = parse(source.slice(start, start + closing.index), LINEAR);
    return { meta: meta instanceof Map ? (Object.fromEntries(meta) as Record<string, unknown>) : {}, body };
  } catch {
    return { meta: {}, body };
  }
}

/** Every expression takes linear time: none can match the same characters in two ways. */
function plain(markdown: string): string {
  const unmarked = markdown
    .replace(/!?\[([^[\]]*)\]\([^()\n]*\)/g, '$1')
    .replace(/!?\[([^[\]]*)\]\[[^[\]]*\]/g, '$1')
    .replace(/^ {0,3}\[[^[\]\n]+\]:.*$/gm, '')
    .replace(/^[ \t]*(?:#{1,6}[ \t]|>|[-*+][ \t]|`{3}.*|~{3}.*|={3,}[ \t]*$|(?:\|[ \t]*)?:?-{3}[-:| \t]*$)/gm, '')
    .replace(/[*`|]|~~|[ \t]#+[ \t]*$/gm, '');
  return plainText(unmarked, unmarked.length);
}
