// Type declarations and loading of the optional package `node-llama-cpp`, which runs models in this process. It is imported
// only when a model file is to be served.
/** A token of the model; a plain number at run time. */
export type Token = number;

/** Text with special tokens in it, as chat templates make it. */
export interface TemplateText {
  readonly values: readonly unknown[];
  tokenize(tokenizer: unknown): Token[];
}

export interface LlamaSequence {
  /** Tokens in it, and so the place of the next one. */
  readonly nextTokenIndex: number;
  compareContextTokens(tokens: Token[]): { firstDifferentIndex: number };
  eraseContextTokenRanges(ranges: { start: number; end: number }[]): Promise<void>;
  evaluateWithoutGeneratingNewTokens(tokens: Token[], options?: object): Promise<void>;
  evaluate(tokens: Token[], options: EvaluateOptions): AsyncGenerator<Token, void, void>;
  evaluateWithMetadata(
    tokens: Token[],
    metadata: { readonly probabilities: true },
    options: EvaluateOptions,
  ): AsyncGenerator<{ token: Token; probabilities: Map<Token, number> }, void, void>;
}

export interface EvaluateOptions {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly seed: number;
  readonly yieldEogToken: true;
  readonly tokenBias?: TokenBias;
  readonly grammarEvaluationState?: object;
  readonly repeatPenalty?: {
    readonly punishTokens: () => Token[];
    readonly maxPunishTokens: number;
    readonly penalty: number;
    readonly frequencyPenalty: number;
    readonly presencePenalty: number;
  };
  readonly contextShift: {
    readonly strategy: (shift: { sequence: LlamaSequence; size: number }) => { start: number; end: number }[];
  };
}

export interface TokenBias {
  set(token: Token, bias: 'never' | { logit: number }): unknown;
}

export interface LlamaContext {
  /** Tokens of one sequence. */
  readonly contextSize: number;
  getSequence(): LlamaSequence;
  dispose(): Promise<void>;
}

export interface LlamaModel {
  readonly tokenizer: unknown;
  readonly tokens: {
    readonly bos: Token | null;
    readonly nl: Token | null;
    readonly shouldPrependBosToken: boolean;
    readonly infill: { readonly prefix: Token | null; readonly suffix: Token | null; readonly middle: Token | null };
  };
  tokenize(text: string, specialTokens: boolean, options?: 'trimLeadingSpace'): Token[];
  detokenize(tokens: readonly Token[], specialTokens: boolean, lastTokens?: readonly Token[]): string;
  isEogToken(token: Token): boolean;
  createContext(options: object): Promise<LlamaContext>;
  dispose(): Promise<void>;
}

export interface Llama {
  loadModel(options: object): Promise<LlamaModel>;
  createGrammar(options: { grammar: string }): Promise<object>;
  dispose(): Promise<void>;
}

/** The module itself. */
export interface LlamaModule {
  getLlama(options: object): Promise<Llama>;
  readonly TokenBias: { for(model: LlamaModel): TokenBias };
  readonly LlamaGrammarEvaluationState: new (options: { model: LlamaModel; grammar: object }) => object;
  resolveChatWrapper(model: LlamaModel): {
    generateContextState(state: { chatHistory: object[] }): {
      contextText: TemplateText;
      stopGenerationTriggers: readonly TemplateText[];
    };
  };
}

const PACKAGE = 'node-llama-cpp';

/** The version this was made with. */
const VERSION = '3.22.1';

/** Imports the package. Rejects with a sentence that says how to install it when it is not there. */
export async function loadLlamaModule(name: string = PACKAGE): Promise<LlamaModule> {
  try {
    return (await import(name)) as LlamaModule;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const install = `npm install ${PACKAGE}@${VERSION}`;
    throw new Error(`serving a GGUF file needs the package ${PACKAGE}; install it beside headrace: ${install}`, {
      cause: error,
    });
  }
}
