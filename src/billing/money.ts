// Parses and prints amounts of money as plain decimals of USD, digit by digit. No floating point is involved, so printing and
// parsing are inverse: parseUsd(printUsd(x)) is x.

import { PICO_PER_CREDIT, PICO_PER_USD, type Pico } from './ledger/ledger.ts';

/** Digits behind the point: a pico-USD is the twelfth. */
const USD_DIGITS = 12;
const CREDIT_DIGITS = 6;

/** Fifteen digits before the point exceed every amount, and bound the work on a hostile text. */
const USD_DECIMAL = /^(-?)(0|[1-9]\d{0,14})(?:\.(\d{1,12}))?$/;

/**
 * Pico-USD out of a decimal of USD: `'25'`, `'25.00'`, `'0.04'`, `'-1.5'`. Undefined for everything else: more than
 * twelve digits behind the point (even zeros), exponents, signs of plus, separators, blanks.
 */
export function parseUsd(text: string): Pico | undefined {
  const [, sign, whole, fraction = ''] = USD_DECIMAL.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const pico = BigInt(whole + fraction.padEnd(USD_DIGITS, '0'));
  return sign === '-' ? -pico : pico;
}

/** Exact USD, cents always shown: `'25.00'`, `'0.0000375'`, `'-1.50'`. */
export function printUsd(pico: Pico): string {
  return decimal(pico, PICO_PER_USD, USD_DIGITS, 2);
}

/** Exact credits, of which a USD has a million: `'25000000'`, `'0.5'`. */
export function printCredits(pico: Pico): string {
  return decimal(pico, PICO_PER_CREDIT, CREDIT_DIGITS, 0);
}

function decimal(pico: Pico, unit: Pico, digits: number, leastDigits: number): string {
  const size = pico < 0n ? -pico : pico;
  const all = (size % unit).toString().padStart(digits, '0');
  const fraction = all.slice(0, leastDigits) + all.slice(leastDigits).replace(/0+$/, '');
  return `${pico < 0n ? '-' : ''}${size / unit}${fraction === '' ? '' : `.${fraction}`}`;
}
