// What a keyless request costs, known before it runs: `exact` payments cannot be corrected afterwards, so the price is
// that of the longest answer allowed. Integers only; rounded up to a whole unit of the token by the cashier.

import type { Pico } from '../ledger/store.ts';

export interface TokenPrices {
  /** For one token each. */
  readonly prompt: Pico;
  readonly completion: Pico;
}

export interface CallSize {
  /** Estimated tokens of the prompt. */
  readonly promptTokens: number;
  /** What the request allows its answers to be long together; undefined when it does not say. */
  readonly maxTokens: number | undefined;
  /** Answers that the request wants, over all its prompts. Default 1. */
  readonly choices?: number;
  /** Prompts that share `promptTokens`. Default 1. */
  readonly prompts?: number;
}

export interface QuoteRules {
  /** Tokens of the answer that a request without a limit pays for. Clients refuse quotes of whole context windows. */
  readonly defaultTokens: number;
  /** Tokens of prompt and answer together; undefined when not known. */
  readonly contextTokens: number | undefined;
  /** The least a request costs. */
  readonly floor: Pico;
}

/** The price of a call. Counts that are no counts are taken as 0 and answers cut to what the context leaves. */
export function quoteCall(size: CallSize, prices: TokenPrices, rules: QuoteRules): Pico {
  const prompt = count(size.promptTokens);
  const { choices = 1, prompts = 1 } = size;
  // Every answer shares the context with its prompt alone.
  const left = rules.contextTokens === undefined ? undefined : count(rules.contextTokens - Number(prompt) / prompts);
  const room = left === undefined ? undefined : left * count(choices);
  const wished = count(size.maxTokens ?? rules.defaultTokens * choices);
  const answer = room === undefined || wished < room ? wished : room;
  const price = prompt * prices.prompt + answer * prices.completion;
  return price > rules.floor ? price : rules.floor;
}

function count(value: number): bigint {
  return Number.isFinite(value) && value > 0 ? BigInt(Math.ceil(value)) : 0n;
}
