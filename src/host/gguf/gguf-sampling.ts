// Completion options as options of `node-llama-cpp`; options it does not support are refused by name.
import { type CompletionOptions, invalidOption, InvalidOptions, valueError } from '../completion-options.ts';
import { parseGrammar } from '../engine/grammar/gbnf.ts';
import type { EvaluateOptions, LlamaModule, LlamaModel, Token, TokenBias } from './binding.ts';

/** Options that the sampler has no counterpart for. */
export const MISSING_OPTIONS = ['tfs_z', 'typical_p', 'mirostat', 'ignore_eos', 'image_data'] as const;

const IS_ASKED: Readonly<Record<(typeof MISSING_OPTIONS)[number], (options: CompletionOptions) => boolean>> = {
  tfs_z: (options) => options.tfs_z < 1,
  typical_p: (options) => options.typical_p < 1,
  mirostat: (options) => options.mirostat !== 0,
  ignore_eos: (options) => options.ignore_eos,
  image_data: (options) => options.image_data.length > 0,
};

/** Throws InvalidOptions with every option that the sampler has no counterpart for, and for what is no grammar. */
export function refuseUnsupported(options: CompletionOptions): void {
  const entries = MISSING_OPTIONS.filter((name) => IS_ASKED[name](options)).map((name) =>
    valueError(name, `the engine behind this host (gguf) has no ${name}`),
  );
  if (entries.length > 0) throw new InvalidOptions(entries);
  if (options.grammar === '') return;
  try {
    parseGrammar(options.grammar);
  } catch (error) {
    throw invalidOption('grammar', (error as Error).message);
  }
}

/** Everything about sampling but the grammar; `history` is looked at again for every token. */
export function samplingOf(
  options: CompletionOptions,
  seed: number,
  model: LlamaModel,
  contextTokens: number,
  history: readonly Token[],
): Pick<EvaluateOptions, 'temperature' | 'topK' | 'topP' | 'minP' | 'seed' | 'repeatPenalty'> {
  const { repeat_last_n, penalize_nl } = options;
  const window = repeat_last_n < 0 ? contextTokens : repeat_last_n;
  const newline = model.tokens.nl;
  return {
    temperature: Math.max(0, options.temperature),
    topK: Math.max(0, options.top_k),
    topP: Math.min(1, options.top_p),
    minP: Math.max(0, options.min_p),
    seed,
    ...(window > 0 && {
      repeatPenalty: {
        punishTokens: () => history.slice(-window).filter((token) => penalize_nl || token !== newline),
        maxPunishTokens: window,
        penalty: options.repeat_penalty,
        frequencyPenalty: options.frequency_penalty,
        presencePenalty: options.presence_penalty,
      },
    }),
  };
}

/** Throws InvalidOptions for tokens that end a text: the sampler does not let them be biased. */
export function biasOf(
  given: unknown,
  module: LlamaModule,
  model: LlamaModel,
  vocabularySize: number,
): TokenBias | undefined {
  const pairs = Array.isArray(given) ? (given as [unknown, unknown][]) : Object.entries(given as object);
  if (pairs.length === 0) return undefined;
  const bias = module.TokenBias.for(model);
  for (const [at, [named, value]] of pairs.entries()) {
    const isNumber = /^\d+$/.test(String(named));
    const tokens = isNumber ? [Number(named)] : model.tokenize(String(named), false, 'trimLeadingSpace');
    for (const token of tokens) {
      // Tokens that do not exist have no effect, as before.
      if (token >= vocabularySize) continue;
      if (model.isEogToken(token)) {
        const message = `the engine behind this host (gguf) cannot bias token ${token}, which ends a text`;
        throw invalidOption('logit_bias', message, at);
      }
      bias.set(token, value === false ? 'never' : { logit: value as number });
    }
  }
  return bias;
}
