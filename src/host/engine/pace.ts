// The pace of a host with constant pace: its settings, the request header that changes it for one answer, and how long
// answers are.

/** Pace of an answer, in milliseconds; `tokens`, when given, is its exact length. */
export interface Pace {
  readonly timeToFirstTokenMs: number;
  /** 0: as fast as the socket takes it. */
  readonly interTokenMs: number;
  readonly tokens?: number;
}

/** Defaults of the host. */
export interface PacedSettings extends Pick<Pace, 'timeToFirstTokenMs' | 'interTokenMs'> {
  /** Tokens of an answer when the request names no maximum. */
  readonly maxTokens: number;
  /** Tokens after which the model ends by itself when the request allows more. */
  readonly naturalTokens: number;
}

/** No answer is longer, whatever is asked. */
const MAX_TOKENS = 1_000_000;

/**
 * Reads `ttft=0,itl=5,tokens=64` (header `x-headrace-sim`; milliseconds, milliseconds, tokens), each part optional. Throws an
 * Error that names the part it does not understand.
 */
export function parsePace(spec: string | undefined): Partial<Pace> {
  const pace: { timeToFirstTokenMs?: number; interTokenMs?: number; tokens?: number } = {};
  for (const part of (spec ?? '').split(',')) {
    if (part.trim() === '') continue;
    const [name, value = ''] = part.trim().split('=', 2);
    const amount = Number(value);
    if (value === '' || !(amount >= 0 && amount < Infinity)) throw new Error(`cannot read the pace '${part.trim()}'`);
    if (name === 'ttft') pace.timeToFirstTokenMs = amount;
    else if (name === 'itl') pace.interTokenMs = amount;
    else if (name === 'tokens') pace.tokens = Math.floor(amount);
    else throw new Error(`unknown pace '${name}'; known: ttft, itl, tokens`);
  }
  return pace;
}

/** How many words the model says: as many as asked for (`isCut`), or fewer because it ends by itself. */
export function pacedLength(
  { maxTokens, naturalTokens }: PacedSettings,
  limit: number,
  ignoreEos: boolean,
): { readonly tokens: number; readonly isCut: boolean } {
  if (limit < 0) return { tokens: Math.min(maxTokens, MAX_TOKENS), isCut: false };
  const tokens = Math.min(limit, ignoreEos ? MAX_TOKENS : naturalTokens, MAX_TOKENS);
  return { tokens, isCut: tokens === limit };
}
