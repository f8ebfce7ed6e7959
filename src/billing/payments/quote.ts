// Price of a request without a key, before it runs: `exact` payments cannot be corrected afterwards, so the price is that of
// the longest answer allowed. Integers only.

import type { Pico } from '../ledger/store.ts';

export interface TokenPrices {
  /** For one token each. */
  readonly prompt: Pico;
  readonly completion: Pico;
}

export interface CallSize {
  /** Estimated tokens of the prompt. */
  readonly promptTokens: number;
  /** Limit of all its answers together; undefined when the request sets none. */
  readonly maxTokens: number | undefined;
  /** Answers that the request asks for, over all its prompts. Default 1. */
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

/** The price of a call. Invalid counts count as 0, and answers are limited to what the context leaves. */
export function quoteCall(size: CallSize, prices: TokenPrices, rules: QuoteRules): Pico {
  const prompt = count(size.promptTokens);
  const { choices = 1, prompts = 1 } = size;
  // Every answer shares the context with its prompt alone.
  const left = rules.contextTokens === undefined ? undefined : count(rules.contextTokens - Number(prompt) / prompts);
  const limit = left === undefined ? undefined : left * count(choices);
  const requested = count(size.maxTokens ?? rules.defaultTokens * choices);
  const answer = limit === undefined || requested < limit ? requested : limit;
  const price = prompt * prices.prompt + answer * prices.completion;
  return price > rules.floor ? price : rules.floor;
}

function count(value: number): bigint {
  return Number.isFinite(value) && value > 0 ? BigInt(Math.ceil(value)) : 0n;
}
