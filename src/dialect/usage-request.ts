// Asks a CRN for the token counts of a stream. In the two OpenAI dialects a stream counts only when
// `stream_options.include_usage` says so; where the client does not, the gateway puts it in, and `UsageWatch` takes the
// extra event out again. Called by api/ for requests that are charged.
import type { Dialect } from './dialect.ts';
import { promptsIn } from './prompts.ts';
import { SPAN, type ScannedBody } from './scan.ts';

const OPTION = '{"include_usage":true}';
const MEMBER: Buffer = Buffer.from(`"stream_options":${OPTION},`);

/** The body that asks for counts; undefined when it asks already, when it need not, or when only the CRN can judge it. */
export function askingForUsage(dialect: Dialect | undefined, body: Buffer, scan: ScannedBody): Buffer | undefined {
  if (!scan.stream || (dialect?.name !== 'chat-completions' && dialect?.name !== 'completions')) return undefined;
  const start = scan.spans[SPAN.stream_options] as number;
  if (start < 0) {
    const first = body.indexOf(0x7b) + 1;
    return Buffer.concat([body.subarray(0, first), MEMBER, body.subarray(first)]);
  }
  const end = scan.spans[SPAN.stream_options + 1] as number;
  const options = optionsOf(body.toString('utf8', start, end));
  if (options === undefined) return undefined;
  return Buffer.concat([body.subarray(0, start), Buffer.from(options), body.subarray(end)]);
}

/** The same options with counts asked for; undefined when they ask already, or are no options. */
function optionsOf(text: string): string | undefined {
  let options: unknown;
  try {
    options = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (options === null) return OPTION;
  if (typeof options !== 'object' || Array.isArray(options)) return undefined;
  const { include_usage: asked } = options as { readonly include_usage?: unknown };
  // What is neither yes nor no is a mistake that the CRN has words for.
  if (asked !== undefined && asked !== null && asked !== false) return undefined;
  return JSON.stringify({ ...options, include_usage: true });
}

/** Bytes of a prompt that are one token on average; images and other attachments are counted like text. */
const BYTES_PER_TOKEN = 4;

const CONVERSATION = [SPAN.messages, SPAN.system, SPAN.prompt, SPAN.input, SPAN.instructions] as const;
const LIMITS = [SPAN.max_completion_tokens, SPAN.max_tokens, SPAN.max_output_tokens, SPAN.n_predict] as const;
const CHOICES = [SPAN.n, SPAN.best_of] as const;

/** How many tokens a request may come to, judged from its body. */
export interface TokenEstimate {
  /** A quarter of the bytes of the conversation. */
  readonly promptTokens: number;
  /** What the request allows the answer to be long, over all its choices; undefined when it does not say. */
  readonly maxTokens: number | undefined;
  /** Answers that are asked for, over all prompts; 1 where the request does not say. */
  readonly choices: number;
  /** Prompts that share `promptTokens`; 1 but for a list of them. */
  readonly prompts: number;
}

/** Estimates without counting: for holds, offers and answers that were broken off. */
export function estimateTokens(body: Buffer, { spans }: ScannedBody): TokenEstimate {
  let bytes = 0;
  for (const at of CONVERSATION) {
    const start = spans[at] as number;
    if (start >= 0) bytes += (spans[at + 1] as number) - start;
  }
  const limit = largestCount(body, spans, LIMITS);
  const prompts = promptsIn(body, spans[SPAN.prompt] as number, spans[SPAN.prompt + 1] as number);
  const choices = prompts * Math.max(largestCount(body, spans, CHOICES) ?? 1, 1);
  return {
    promptTokens: Math.ceil(bytes / BYTES_PER_TOKEN),
    maxTokens: limit === undefined ? undefined : limit * choices,
    choices,
    prompts,
  };
}

/** The largest whole number of 0 or more among members that mean the same. */
function largestCount(body: Buffer, spans: readonly number[], members: readonly number[]): number | undefined {
  let count: number | undefined;
  for (const at of members) {
    const start = spans[at] as number;
    if (start < 0) continue;
    const value = Number(body.toString('latin1', start, spans[at + 1]));
    if (Number.isSafeInteger(value) && value >= 0) count = Math.max(count ?? 0, value);
  }
  return count;
}
