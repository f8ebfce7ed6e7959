// The catalog's record of a model, and the conversion of its prices from USD per million tokens to USD per token. Prices are
// decimal strings throughout: no step goes through a float.

/** USD per million tokens, as plain decimal strings: `'0.25'`, never `'2.5e-1'`. */
export interface CatalogPricing {
  readonly prompt: string;
  readonly completion: string;
  /** Price of prompt tokens that were already in the server's cache. */
  readonly cachedPrompt?: string;
}

/** One model as the lists show it. */
export interface CatalogModel {
  /** The id as configured; responses show this spelling. */
  readonly id: string;
  /** Base URLs of the servers behind the model, healthy or not. */
  readonly servers: readonly string[];
  /** Tokens of prompt and answer together. */
  readonly contextLength?: number;
  readonly huggingFaceId?: string;
  /** Whether the model runs in a trusted execution environment. */
  readonly tee?: boolean;
  /** Display name. Default: the id. */
  readonly name?: string;
  /** Values of the setting `capabilities`. Absent or empty: not declared. */
  readonly capabilities?: readonly string[];
  readonly pricing?: CatalogPricing;
  /** Longest answer in tokens. Default: the context length. */
  readonly maxOutputLength?: number;
  /** Number format of the weights, such as `fp8`. */
  readonly quantization?: string;
  /** Unix time in seconds. Default: the time the list is given. */
  readonly created?: number;
}

const PLAIN_DECIMAL = /^(\d+)(?:\.(\d+))?$/;
const TOKENS_PER_MILLION_DIGITS = 6;

/**
 * Turns a price per million tokens into a price per token by moving the decimal point six places.
 * Leading and trailing zeros are dropped, an exponent never appears: `'0.15'` gives `'0.00000015'`, `'0.00'` gives `'0'`.
 * Throws a `RangeError` for anything but a plain, non-negative decimal.
 */
export function perToken(perMillion: string): string {
  const match = PLAIN_DECIMAL.exec(perMillion);
  if (match === null) throw new RangeError(`not a plain decimal price: '${perMillion}'`);
  const whole = (match[1] as string).padStart(TOKENS_PER_MILLION_DIGITS + 1, '0');
  const units = whole.slice(0, -TOKENS_PER_MILLION_DIGITS).replace(/^0+(?=\d)/, '');
  const fraction = (whole.slice(-TOKENS_PER_MILLION_DIGITS) + (match[2] ?? '')).replace(/0+$/, '');
  return fraction === '' ? units : `${units}.${fraction}`;
}

/** Whether a model answers chat requests. A model without declared capabilities does when it has text prices. */
export function isChat(model: CatalogModel): boolean {
  if (model.capabilities === undefined || model.capabilities.length === 0) return model.pricing !== undefined;
  return model.capabilities.includes('chat');
}
