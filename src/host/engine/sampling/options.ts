// The sampling options of the llama-style API after reading, with the defaults of
// docs/interface.md, section 12. The host reads requests into this; every dialect shares the defaults.
import type { LogitBias } from './logit-bias.ts';

/** How tokens are chosen. Wire names are the same in snake_case. */
export interface SamplingOptions {
  /** Above 0: divides the logits. 0 or less: the most likely token. Default 0.8. */
  readonly temperature: number;
  /** Keep the K most likely tokens; 0 or less keeps all. Default 40. */
  readonly topK: number;
  /** Keep the fewest tokens whose probabilities reach this sum; 1 or more keeps all. Default 0.95. */
  readonly topP: number;
  /** Least probability, as a part of that of the most likely token; 0 or less keeps all. Default 0.05. */
  readonly minP: number;
  /** Mass of the tokens whose surprise is nearest to the entropy; 1 or more keeps all. Default 1. */
  readonly typicalP: number;
  /** Mass of the second differences before the tail; 1 or more keeps all. Default 1. */
  readonly tfsZ: number;
  /** Divides positive and multiplies negative logits of seen tokens; above 0, 1 is off. Default 1.1. */
  readonly repeatPenalty: number;
  /** Tokens of the context that count as seen; 0 is off, below 0 is the whole context. Default 64. */
  readonly repeatLastN: number;
  /** Whether the newline is penalised too. Default true. */
  readonly penalizeNl: boolean;
  /** Taken once from the logit of a seen token. Default 0. */
  readonly presencePenalty: number;
  /** Taken from the logit of a token for every time it was seen. Default 0. */
  readonly frequencyPenalty: number;
  /** Tokens that take the place of the prompt when penalties count; null: the prompt. Default null. */
  readonly penaltyPrompt: Int32Array | null;
  /** 0 off, 1 Mirostat, 2 Mirostat 2.0; replaces all truncations when on and the temperature is above 0. Default 0. */
  readonly mirostat: 0 | 1 | 2;
  /** Target surprise in bits. Default 5. */
  readonly mirostatTau: number;
  /** Learning rate. Default 0.1. */
  readonly mirostatEta: number;
  /** Whether the end of sequence is forbidden; a bias on it takes precedence. Default false. */
  readonly ignoreEos: boolean;
  /** Added to the logits; -Infinity forbids a token. Default none. */
  readonly logitBias: LogitBias;
  /** Tokens to report with their probabilities after the chain. Default 0. */
  readonly nProbs: number;
  /** Most likely tokens to list with the log probabilities of the model alone; null: those are not kept. Default null. */
  readonly logProbs: number | null;
  /** Least number of tokens every truncation keeps. Default 0, which works as 1. */
  readonly minKeep: number;
}

/** What applies when a request says nothing. */
export const DEFAULT_SAMPLING: SamplingOptions = {
  temperature: 0.8,
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  typicalP: 1,
  tfsZ: 1,
  repeatPenalty: 1.1,
  repeatLastN: 64,
  penalizeNl: true,
  presencePenalty: 0,
  frequencyPenalty: 0,
  penaltyPrompt: null,
  logProbs: null,
  mirostat: 0,
  mirostatTau: 5,
  mirostatEta: 0.1,
  ignoreEos: false,
  logitBias: new Map(),
  nProbs: 0,
  minKeep: 0,
};
