// The sampler of one sequence: takes the logits of the language model, applies bias, penalties, sampler chain and grammar,
// and appends the chosen token to the context. Samplers of one `Sampling` share working memory, so calls of next() must not
// overlap.
import type { LanguageModel } from '../model/language-model.ts';
import { TokenContext } from '../model/token-context.ts';
import { TokenCandidates } from './candidates.ts';
import { type TokenProbability, createChain } from './chain.ts';
import type { TokenGrammar } from './grammar-mask.ts';
import { LogProbabilities } from './log-probabilities.ts';
import { applyLogitBias } from './logit-bias.ts';
import { createPenalties } from './penalties.ts';
import type { Random } from './random.ts';
import type { SamplingOptions } from './sampling-options.ts';
/** Chooses the tokens of one sequence. */
export interface Sampler {
  /**
   * The next token, which is then part of the context. The end of sequence, when the model, or a complete grammar, ends
   * the text, and also when options and grammar together leave no token at all.
   */
  next(): number;
  /** The most likely tokens of the last call, as many as `nProbs` asks for; empty when it asks for none. */
  readonly probabilities: readonly TokenProbability[];
  /** What the model held of the tokens of the last call; null when the options ask for none. */
  readonly logProbabilities: LogProbabilities | null;
  readonly context: TokenContext;
}

/** What a sequence starts from. */
export interface Start {
  readonly options: SamplingOptions;
  /** Prompt tokens, beginning-of-sequence included. */
  readonly prompt: Int32Array;
  /** Tokens at the end of the prompt that count as generated. Default 0. */
  readonly prefilled?: number;
  readonly random: Random;
  /** Default none. */
  readonly grammar?: TokenGrammar | undefined;
}

/** Makes the samplers of one model. */
export interface Sampling {
  start(start: Start): Sampler;
}

/** Creates the samplers of a model, with the working space they share. */
export function createSampling(model: LanguageModel): Sampling {
  const candidates = new TokenCandidates(model.vocabulary.size);
  return { start: (start) => createSampler(model, candidates, start) };
}

function createSampler(model: LanguageModel, candidates: TokenCandidates, start: Start): Sampler {
  const { options, grammar } = start;
  const { eos, newline } = model.vocabulary;
  const { prefilled = 0, prompt } = start;
  const context = new TokenContext(prompt.subarray(0, prompt.length - prefilled));
  for (const token of prompt.subarray(prompt.length - prefilled)) context.push(token);
  const biases = options.ignoreEos ? new Map([[eos, -Infinity], ...options.logitBias]) : options.logitBias;
  const penalize = createPenalties(options, context, newline);
  const logProbabilities = options.logProbs === null ? null : new LogProbabilities(options.logProbs);
  const chain = createChain(options, start.random);
  let state = grammar?.start;
  let probabilities: readonly TokenProbability[] = [];

  function choose(allowed: Uint8Array | null): number | null {
    model.logits(context, candidates);
    logProbabilities?.observe(candidates);
    applyLogitBias(candidates, biases);
    penalize?.(candidates);
    candidates.allowed = allowed;
    return chain.choose(candidates);
  }

  /** Tries without the grammar first: most choices fit, and finding all tokens that fit costs more than trying one. */
  function chooseByGrammar(grammar: TokenGrammar): number | null {
    let token = choose(null);
    if (token !== null && grammar.advance(state!, token) === null) token = choose(grammar.allowed(state!));
    if (token !== null) state = grammar.advance(state!, token)!;
    return token;
  }

  return {
    next() {
      const token = grammar === undefined ? choose(null) : chooseByGrammar(grammar);
      if (token !== null) chain.confirm(candidates);
      probabilities = token === null ? [] : chain.probabilities(candidates);
      context.push(token ?? eos);
      return token ?? eos;
    },
    get probabilities() {
      return probabilities;
    },
    logProbabilities,
    context,
  };
}
