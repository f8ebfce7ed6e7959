// What an inference request may cost, from the bounds of its tokens and the prices of its model; and the output limit that follows
// from what it was given. Whatever a server reports, prompt and output together never cost more than that.

import { costOf, type ModelPrice, type RequestBound, type Tokens } from '../billing/index.ts';
import type { TokenBounds } from '../dialect/index.ts';

/** What is believed of the tokens that a server reports: `limit` is that of one answer in the request that it got, if any. */
export function clampTokens<T extends Tokens>(tokens: T, bounds: TokenBounds, limit: number | undefined): T {
  const { answers, context, mostPromptTokens } = bounds;
  const mostOutput = Math.min(limit ?? Infinity, context) * answers;
  if (tokens.promptTokens <= mostPromptTokens && tokens.completionTokens <= mostOutput) return tokens;
  const promptTokens = Math.min(tokens.promptTokens, mostPromptTokens);
  return {
    ...tokens,
    promptTokens,
    completionTokens: Math.min(tokens.completionTokens, mostOutput),
    cachedTokens: Math.min(tokens.cachedTokens, promptTokens),
  };
}

const FREE: ModelPrice = { prompt: 0, completion: 0, cachedPrompt: 0 };

/** An answer shorter than this is of no use: a request whose credit allows less is refused. */
const LEAST_OUTPUT = 16;

export class TokenBudget implements RequestBound {
  readonly least: number;
  readonly most: number;
  readonly leastTokens: number;
  readonly mostTokens: number;
  /** The longest answer that is held for, in tokens. */
  readonly output: number;
  readonly bounds: TokenBounds;
  readonly #price: ModelPrice;

  /** `assumed`: tokens of an answer without a limit. `price`: undefined for a free model. */
  constructor(bounds: TokenBounds, assumed: number, price: ModelPrice = FREE) {
    const { answers, context, limit, mostPromptTokens, promptTokens, surelyFree } = bounds;
    // Servers refuse a limit that does not fit into the context beside the prompt: then the context itself is the limit.
    const output = Math.min(limit ?? (assumed <= surelyFree ? assumed : context), context);
    const leastOutput = Math.min(output, LEAST_OUTPUT) * answers;
    const dearest = Math.max(price.prompt, price.cachedPrompt);
    const most = mostPromptTokens * dearest + output * answers * price.completion;
    this.bounds = bounds;
    this.#price = price;
    this.output = output;
    this.most = Math.min(most, Number.MAX_SAFE_INTEGER);
    this.mostTokens = mostPromptTokens + output * answers;
    this.least = Math.min(promptTokens * price.prompt + leastOutput * price.completion, this.most);
    this.leastTokens = promptTokens + leastOutput;
  }

  /** Version of the price; undefined for a free model. */
  get priceVersion(): string | undefined {
    return this.#price.version;
  }

  /** What a request pays for that is paid before it runs: each answer gets no more than its part of these tokens. */
  get longest(): Tokens {
    const { answers, promptTokens } = this.bounds;
    return { promptTokens, completionTokens: this.longestAnswer * answers, cachedTokens: 0 };
  }

  get longestAnswer(): number {
    const { free, limit } = this.bounds;
    return limit === undefined ? this.#fitting(this.output) : Math.min(this.output, free);
  }

  /**
   * The limit of each answer that must stand in the request, so that it stays within `amount` pico-USD and `tokens`, as far as the
   * prompt is as long as estimated. Undefined when output costs nothing, or the context of the model limits it well enough.
   */
  limitFor(amount: number, tokens: number): number | undefined {
    const { answers, context, limit, promptTokens } = this.bounds;
    const { completion, prompt } = this.#price;
    if (completion === 0 && tokens >= this.mostTokens) return undefined;
    let output = this.output;
    if (amount < this.most && completion > 0) {
      output = Math.min(output, Math.floor((amount - promptTokens * prompt) / (completion * answers)));
    }
    if (tokens < this.mostTokens) output = Math.min(output, Math.floor((tokens - promptTokens) / answers));
    if (output === this.output && limit !== undefined) return limit;
    if (output === context) return undefined;
    return limit === undefined ? this.#fitting(Math.max(output, 1)) : Math.max(output, 1);
  }

  costOf(tokens: Tokens): number {
    return costOf(this.#price, tokens);
  }

  /** A limit for a request that sets none: as much of it as probably fits into the context beside the prompt. */
  #fitting(limit: number): number {
    const { free, surelyFree } = this.bounds;
    return limit <= surelyFree ? limit : Math.min(limit, Math.max(surelyFree, Math.floor(free / 2), 1));
  }
}
