// Reads how many tokens a request took, from a JSON answer or from the two ends of a stream. Called by upstream/relay
// when an answer has passed; nothing here touches the bytes. Counts are the CRN's own: absent means undefined, not 0.
import type { Dialect, Usage } from './dialect.ts';
import { found, memberTable, scanMembers, skipSpace, skipValue } from './members.ts';

const MEMBERS = ['usage', 'timings', 'tokens_evaluated', 'tokens_predicted', 'tokens_cached'];
const ANSWER = memberTable(MEMBERS);
const ANSWER_MAX_DEPTH = 256;
/** Usage objects are flat but for one level of details. */
const USAGE_MAX_DEPTH = 8;

/** Usage in a whole JSON answer; undefined when it has none or is not a JSON object. */
export function usageOfAnswer(dialect: Dialect, answer: Buffer): Usage | undefined {
  const start = skipSpace(answer, 0, answer.length);
  if (answer[start] !== 0x7b) return undefined;
  const members = found(ANSWER);
  if (scanMembers(answer, start, answer.length, ANSWER, members, ANSWER_MAX_DEPTH) < 0) return undefined;
  return dialect.usage((member) => {
    const at = 2 * MEMBERS.indexOf(member);
    const from = members.spans[at] as number;
    return from < 0 ? undefined : parsed(answer, from, members.spans[at + 1] as number);
  });
}

/**
 * Usage in a stream. Counts in several events are running totals, so the largest of each is the answer's.
 * @param tail the last bytes relayed; they may begin inside an event. 4 KiB are enough
 * @param head the first bytes relayed: the messages dialect gives the prompt count in its first event
 */
export function usageOfStream(dialect: Dialect, tail: Buffer, head?: Buffer): Usage | undefined {
  let total: Usage | undefined;
  for (const bytes of head === undefined ? [tail] : [tail, head]) {
    for (const usage of valuesOf(bytes, 'usage')) {
      total = larger(
        total,
        dialect.usage((member) => (member === 'usage' ? usage : undefined)),
      );
    }
    total = larger(
      total,
      dialect.usage((member) => (member === 'usage' ? undefined : valuesOf(bytes, member).at(-1))),
    );
  }
  return total;
}

/** Every value of a member called `name`, at any level: a quote inside a JSON string is escaped and cannot match. */
function valuesOf(bytes: Buffer, name: string): unknown[] {
  const quoted = `"${name}"`;
  const values: unknown[] = [];
  for (let at = bytes.indexOf(quoted); at >= 0; at = bytes.indexOf(quoted, at + 1)) {
    const colon = skipSpace(bytes, at + quoted.length, bytes.length);
    if (bytes[colon] !== 0x3a) continue;
    const start = skipSpace(bytes, colon + 1, bytes.length);
    const end = skipValue(bytes, start, bytes.length, 0, USAGE_MAX_DEPTH);
    if (end > 0) values.push(parsed(bytes, start, end));
  }
  return values;
}

function parsed(bytes: Buffer, start: number, end: number): unknown {
  try {
    return JSON.parse(bytes.toString('utf8', start, end));
  } catch {
    return undefined;
  }
}

function larger(one: Usage | undefined, other: Usage | undefined): Usage | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return {
    promptTokens: Math.max(one.promptTokens, other.promptTokens),
    completionTokens: Math.max(one.completionTokens, other.completionTokens),
    cachedTokens: Math.max(one.cachedTokens, other.cachedTokens),
  };
}
