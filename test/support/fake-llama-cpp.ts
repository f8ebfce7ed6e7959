// A stand-in for the package `node-llama-cpp`, with the part of its API that the host uses: tokens are bytes (plus 1 begin,
// 2 end, 3 to 5 infill), and a sequence says what the test tells it to. Every evaluation is noted with its options.
import type {
  EvaluateOptions,
  LlamaModule,
  LlamaModel,
  LlamaSequence,
  TemplateText,
  TokenBias,
} from '../../src/host/gguf/binding.ts';

/** First byte's token. */
export const BYTE = 6;

export const EOS = 2;

/** Tokens of a text. */
export function tokensOf(text: string): number[] {
  return [...Buffer.from(text)].map((byte) => byte + BYTE);
}

export interface Evaluation {
  readonly tokens: number[];
  /** Undefined when nothing was to be generated. */
  readonly options: EvaluateOptions | undefined;
}

export interface FakeLlamaCpp {
  readonly module: LlamaModule;
  readonly evaluations: Evaluation[];
  /** What each generation says; after it the model ends. A function is asked for every token. */
  says: string | ((index: number) => number | Promise<number>);
  /** What went into the biases, `token: bias`. */
  readonly biases: Record<number, unknown>;
  /** Options of `getLlama`, `loadModel` and `createContext`. */
  readonly options: object[];
  disposed: number;
}

class FakeSequence implements LlamaSequence {
  tokens: number[] = [];
  readonly #fake: FakeLlamaCpp;
  readonly #contextSize: number;

  constructor(fake: FakeLlamaCpp, contextSize: number) {
    this.#fake = fake;
    this.#contextSize = contextSize;
  }

  get nextTokenIndex(): number {
    return this.tokens.length;
  }

  compareContextTokens(tokens: number[]): { firstDifferentIndex: number } {
    const at = this.tokens.findIndex((token, index) => token !== tokens[index]);
    return { firstDifferentIndex: at < 0 ? Math.min(this.tokens.length, tokens.length) : at };
  }

  async eraseContextTokenRanges(ranges: { start: number; end: number }[]): Promise<void> {
    for (const { start, end } of ranges) this.tokens.splice(start, end - start);
  }

  async evaluateWithoutGeneratingNewTokens(tokens: number[]): Promise<void> {
    this.#fake.evaluations.push({ tokens, options: undefined });
    this.tokens.push(...tokens);
  }

  async *evaluate(tokens: number[], options: EvaluateOptions): AsyncGenerator<number, void, void> {
    this.#fake.evaluations.push({ tokens, options });
    this.tokens.push(...tokens);
    for (let index = 0; ; index++) {
      const { says } = this.#fake;
      const token = typeof says === 'string' ? (tokensOf(says)[index] ?? EOS) : await says(index);
      yield token;
      if (this.tokens.length >= this.#contextSize) {
        await this.eraseContextTokenRanges(options.contextShift.strategy({ sequence: this, size: 1 }));
      }
      this.tokens.push(token);
    }
  }

  async *evaluateWithMetadata(
    tokens: number[],
    _metadata: object,
    options: EvaluateOptions,
  ): AsyncGenerator<{ token: number; probabilities: Map<number, number> }, void, void> {
    for await (const token of this.evaluate(tokens, options)) {
      yield {
        token,
        probabilities: new Map([
          [token, 0.75],
          [BYTE + 0x21, 0.25],
        ]),
      };
    }
  }
}

function decode(tokens: readonly number[], hasSpecials: boolean): string {
  const bytes = tokens.filter((token) => token >= BYTE).map((token) => token - BYTE);
  return (hasSpecials && tokens.includes(1) ? '<s>' : '') + Buffer.from(bytes).toString();
}

const plain = (text: string): TemplateText => ({ values: [text], tokenize: () => tokensOf(text) });

/** Creates one; nothing is shared between two. */
export function createFakeLlamaCpp(): FakeLlamaCpp {
  const bias: TokenBias = { set: (token, value) => void (fake.biases[token] = value) };
  const model: LlamaModel = {
    tokenizer: {},
    tokens: {
      bos: 1,
      nl: BYTE + 10,
      shouldPrependBosToken: true,
      infill: { prefix: 3, suffix: 4, middle: 5 },
    },
    tokenize: (text) => tokensOf(text),
    detokenize: (tokens, hasSpecials) => decode(tokens, hasSpecials),
    isEogToken: (token) => token === EOS,
    async createContext(options) {
      fake.options.push(options);
      const given = (options as { contextSize: number | { max: number } }).contextSize;
      const contextSize = typeof given === 'number' ? given : given.max;
      return {
        contextSize,
        getSequence: () => new FakeSequence(fake, contextSize),
        dispose: async () => void fake.disposed++,
      };
    },
    dispose: async () => void fake.disposed++,
  };
  const fake: FakeLlamaCpp = {
    evaluations: [],
    says: 'Hello',
    biases: {},
    options: [],
    disposed: 0,
    module: {
      async getLlama(options) {
        fake.options.push(options);
        return {
          async loadModel(how) {
            fake.options.push(how);
            return model;
          },
          async createGrammar({ grammar }) {
            if (grammar.includes('broken')) throw new Error('Failed to parse grammar');
            return { grammar };
          },
          dispose: async () => void fake.disposed++,
        };
      },
      TokenBias: { for: () => bias },
      LlamaGrammarEvaluationState: class {
        readonly grammar: object;

        constructor(options: { grammar: object }) {
          this.grammar = options.grammar;
        }
      },
      resolveChatWrapper: () => ({
        generateContextState: ({ chatHistory }) => ({
          contextText: plain(JSON.stringify(chatHistory)),
          stopGenerationTriggers: [plain('<end>'), { values: [{}], tokenize: () => [EOS] }],
        }),
      }),
    },
  };
  return fake;
}
