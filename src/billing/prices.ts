// Prices of tokens and calls, and what a request costs. Prices are read from decimal strings into whole pico-USD and stay
// exact: the numbers here are integers below 2^53, which is 9,000 USD for one request.

import { PICO_PER_USD } from './ledger/ledger.ts';

/** Prices in pico-USD for one token each. */
export interface ModelPrice {
  readonly prompt: number;
  readonly completion: number;
  /** For prompt tokens that the server had in its cache. */
  readonly cachedPrompt: number;
  /** The three in USD per million tokens, `PROMPT/COMPLETION/CACHED`: recorded with each charge. */
  readonly version?: string;
}

/** Tokens of one request. */
export interface Tokens {
  /** Whole prompt, cached part included. */
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
}

/** Digits after the point of a price that are exact: of USD per million tokens, and of USD per call. */
const TOKEN_PRICE_DIGITS = 6;
const CALL_PRICE_DIGITS = 12;

const PLAIN_DECIMAL = /^0*(\d{1,7})(?:\.(\d+))?$/;
const PICO_PER_USD_NUMBER = Number(PICO_PER_USD);

/**
 * Pico-USD for one token out of USD per million tokens: `'0.25'` is 250,000. Digits behind the sixth are rounded up, so
 * that nothing costs less than its price. Throws a `RangeError` for anything but a plain decimal below ten million.
 */
export function picoPerToken(perMillion: string): number {
  return scaled(perMillion, TOKEN_PRICE_DIGITS);
}

/** Pico-USD out of USD: `'0.005'` is 5,000,000,000. Throws like `picoPerToken`, and above 9,000 USD. */
export function picoPerCall(usd: string): number {
  const pico = scaled(usd, CALL_PRICE_DIGITS);
  if (Number.isSafeInteger(pico)) return pico;
  throw new RangeError(`a price of ${usd} USD is more than one call may cost`);
}

/** Pico-USD of a limit in USD: exact up to 9,000 USD, and within 16 decimal digits above. Throws like `picoPerToken`. */
export function picoLimit(usd: string): bigint {
  return BigInt(scaled(usd, CALL_PRICE_DIGITS));
}

function scaled(decimal: string, digits: number): number {
  const [, whole, fraction = ''] = PLAIN_DECIMAL.exec(decimal) ?? [];
  if (whole === undefined) throw new RangeError(`not a plain decimal price: '${decimal}'`);
  const exact = Number(whole + fraction.slice(0, digits).padEnd(digits, '0'));
  return /[1-9]/.test(fraction.slice(digits)) ? exact + 1 : exact;
}

/** Prices of a model in USD per million tokens. By default cached prompt tokens cost as much as others. */
export function modelPriceOf(pricing: {
  readonly prompt: string;
  readonly completion: string;
  readonly cachedPrompt?: string;
}): ModelPrice {
  const prompt = picoPerToken(pricing.prompt);
  const { cachedPrompt = pricing.prompt } = pricing;
  return {
    prompt,
    completion: picoPerToken(pricing.completion),
    cachedPrompt: picoPerToken(cachedPrompt),
    version: `${pricing.prompt}/${pricing.completion}/${cachedPrompt}`,
  };
}

/** Pico-USD for these tokens, at most 2^53 - 1. A count of cached tokens above that of prompt tokens is cut to it. */
export function costOf({ prompt, completion, cachedPrompt }: ModelPrice, tokens: Tokens): number {
  const cached = Math.min(tokens.cachedTokens, tokens.promptTokens);
  const cost = (tokens.promptTokens - cached) * prompt + cached * cachedPrompt + tokens.completionTokens * completion;
  return Math.min(cost, Number.MAX_SAFE_INTEGER);
}

const USD_DIGITS = 12;
const CENT_DIGITS = 2;
const ZERO = 0x30;

/** Pico-USD as exact USD, cents always shown: `'0.0000375'`, `'25.00'`. The same as `printUsd`, for amounts of 0 or more below 2^53. */
export function exactUsdText(pico: number): string {
  const amount = Math.ceil(pico);
  const whole = Math.floor(amount / PICO_PER_USD_NUMBER);
  // With a one before them, so that leading zeros are printed.
  const digits = String(amount - whole * PICO_PER_USD_NUMBER + PICO_PER_USD_NUMBER);
  let end = 1 + USD_DIGITS;
  while (end > 1 + CENT_DIGITS && digits.charCodeAt(end - 1) === ZERO) end--;
  return `${whole}.${digits.slice(1, end)}`;
}

/** Pico-USD as USD to display: `'0.0123'`, rounded up to a millionth. */
export function usdText(pico: number): string {
  const micro = Math.ceil(pico / (PICO_PER_USD_NUMBER / 1e6));
  const [whole, fraction = ''] = (micro / 1e6).toFixed(6).split('.');
  const digits = fraction.replace(/0+$/, '');
  return digits === '' ? (whole as string) : `${whole}.${digits}`;
}
