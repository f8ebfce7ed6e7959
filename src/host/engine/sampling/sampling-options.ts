// Sampling options of a generation and their defaults (docs/interface.md, section 12).
import type { LogitBias } from './logit-bias.ts';

/** How tokens are chosen when a request says nothing. Wire names are the same in snake_case. */
export const DEFAULT_SAMPLING = {
  /** Above 0: divides the logits. 0 or less: the most likely token. */
  temperature: 0.8,
  /** Keep the K most likely tokens; 0 or less keeps all. */
  topK: 40,
  /** Keep the fewest tokens whose probabilities reach this sum; 1 or more keeps all. */
  topP: 0.95,
  /** Least probability, as a part of that of the most likely token; 0 or less keeps all. */
  minP: 0.05,
  /** Mass of the tokens whose surprise is nearest to the entropy; 1 or more keeps all. */
  typicalP: 1,
  /** Mass of the second differences before the tail; 1 or more keeps all. */
  tfsZ: 1,
  /** Divides positive and multiplies negative logits of seen tokens; above 0, 1 is off. */
  repeatPenalty: 1.1,
  /** Tokens of the context that count as seen; 0 is off, below 0 is the whole context. */
  repeatLastN: 64,
  /** Whether the newline is penalised too. */
  penalizeNl: true,
  /** Taken once from the logit of a seen token. */
  presencePenalty: 0,
  /** Taken from the logit of a token for every time it was seen. */
  frequencyPenalty: 0,
  /** 0 off, 1 Mirostat, 2 Mirostat 2.0; replaces all truncations when on and the temperature is above 0. */
  mirostat: 0 as 0 | 1 | 2,
  /** Target surprise in bits. */
  mirostatTau: 5,
  /** Learning rate. */
  mirostatEta: 0.1,
  /** Whether the end of sequence is forbidden; a bias on it takes precedence. */
  ignoreEos: false,
  /** Added to the logits; -Infinity forbids a token. */
  logitBias: new Map() as LogitBias,
  /** Tokens to report with their probabilities after the chain. */
  nProbs: 0,
  /** Most likely tokens to list with the log probabilities of the model alone; null: those are not kept. */
  logProbs: null as number | null,
};

export type SamplingOptions = Readonly<typeof DEFAULT_SAMPLING>;
