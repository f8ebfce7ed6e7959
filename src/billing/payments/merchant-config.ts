// Chain, token and receiving address of payments: names of both x402 versions, and the EIP-712 domain of the token. The only
// place that converts units of a token to the ledger's pico-USD.

import { PICO_PER_CREDIT, type Pico } from '../ledger/ledger.ts';

/** A token that moves by `transferWithAuthorization` (EIP-3009) and is worth one USD. */
export interface Asset {
  /** Lower case. */
  readonly address: string;
  /** `name` and `version` of the token's EIP-712 domain. */
  readonly name: string;
  readonly version: string;
  /** Digits after the decimal point, 6 to 12: a unit is a whole number of pico-USD and a credit one of units. */
  readonly decimals: number;
}

export interface Chain {
  /** CAIP-2, as x402 version 2 and the ledger write it. */
  readonly network: string;
  /** The name in x402 version 1. */
  readonly name: string;
  readonly chainId: bigint;
}

/** Supported chains with their version 1 names, and the address and domain name of USDC on them. */
const KNOWN: readonly (readonly [name: string, chainId: bigint, usdc: string, domainName: string])[] = [
  ['base', 8453n, '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913', 'USD Coin'],
  ['base-sepolia', 84532n, '0x036cbd53842c5426634e7929541ec2318f3dcf7e', 'USDC'],
];

const USDC_VERSION = '2';
const USDC_DECIMALS = 6;

/** Digits after the point in pico-USD. */
const PICO_DIGITS = 12;
const CREDIT_DIGITS = 6;

/** Where and in which token the operator is paid. */
export interface MerchantConfig {
  readonly chain: Chain;
  readonly asset: Asset;
  /** Lower case. */
  readonly payTo: string;
}

export interface MerchantSettings {
  /** `base`, `base-sepolia`, or their CAIP-2 names. */
  readonly network: string;
  /** 0x and 40 hexadecimal digits. */
  readonly payTo: string;
  /** Default: USDC on that chain. Another address needs a name; its version is 2 and its decimals 6 if not given. */
  readonly asset?: Partial<Asset>;
}

/** An invalid setting: the message says which and why. */
class MerchantConfigError extends Error {
  override readonly name = 'MerchantConfigError';
}

const ADDRESS = /^0x[0-9a-f]{40}$/i;

/** Checks the settings and looks the chain up. Throws `MerchantConfigError`. */
export function readMerchantConfig({ network, payTo, asset = {} }: MerchantSettings): MerchantConfig {
  const known = KNOWN.find(([name, chainId]) => network === name || network === caip2(chainId));
  if (known === undefined) throw new MerchantConfigError(`network: '${network}' is not one of ${knownNames()}`);
  if (!ADDRESS.test(payTo)) throw new MerchantConfigError(`payTo: '${payTo}' is not an address`);
  const [name, chainId, usdc, domainName] = known;
  const usual = { version: USDC_VERSION, decimals: USDC_DECIMALS };
  const isUsdc = (asset.address ?? usdc).toLowerCase() === usdc;
  const chosen = { ...usual, address: usdc, name: isUsdc ? domainName : '', ...asset };
  if (chosen.name === '') throw new MerchantConfigError(`asset: '${chosen.address}' needs a name`);
  if (!ADDRESS.test(chosen.address)) throw new MerchantConfigError(`asset: '${chosen.address}' is not an address`);
  if (!(Number.isInteger(chosen.decimals) && chosen.decimals >= CREDIT_DIGITS && chosen.decimals <= PICO_DIGITS)) {
    throw new MerchantConfigError(
      `asset: ${chosen.decimals} decimals are not between ${CREDIT_DIGITS} and ${PICO_DIGITS}`,
    );
  }
  return {
    chain: { network: caip2(chainId), name, chainId },
    asset: { ...chosen, address: chosen.address.toLowerCase() },
    payTo: payTo.toLowerCase(),
  };
}

function caip2(chainId: bigint): string {
  return `eip155:${chainId}`;
}

function knownNames(): string {
  return KNOWN.flatMap(([name, chainId]) => [name, caip2(chainId)]).join(', ');
}

function picoPerUnit({ decimals }: Asset): bigint {
  return 10n ** BigInt(PICO_DIGITS - decimals);
}

/** What a number of units is worth. */
export function picoOf(units: bigint, asset: Asset): Pico {
  return units * picoPerUnit(asset);
}

/** The fewest units that are worth at least so much. */
export function unitsFor(amount: Pico, asset: Asset): bigint {
  const per = picoPerUnit(asset);
  return (amount + per - 1n) / per;
}

/** The amount of a purchase, rounded to whole credits; undefined when it is not a positive amount. */
export function purchaseAmount(usd: number): Pico | undefined {
  if (!(Number.isFinite(usd) && usd > 0 && usd < 1e15)) return undefined;
  const credits = BigInt(usd.toFixed(CREDIT_DIGITS).replace('.', ''));
  return credits > 0n ? credits * PICO_PER_CREDIT : undefined;
}
