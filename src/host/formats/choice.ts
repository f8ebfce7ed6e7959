// One choice of an answer while it is generated: its reasoning, text and tool calls, and the log probabilities of the tokens
// sent. Members about its end are valid once it has ended.
import type { CompletionEnd, TokenLogProbs, TokenReport } from '../model-engine.ts';
import type { ScriptPart } from '../script.ts';
import type { Json, RequestFields, ToolCall } from './format.ts';
/** What all choices of an answer have in common. */
export interface ChoiceParts {
  /** Unique within the host; formats put their own prefix before it. */
  readonly id: string;
  readonly model: string;
  /** Unix seconds. */
  readonly created: number;
  readonly body: Json;
  readonly fields: RequestFields;
  /** Whether the answer is tool calls in place of text. */
  readonly callsTools: boolean;
  /** Parts of a scripted answer: reasoning, text and tool calls, each if any; null for others. */
  readonly script: readonly ScriptPart[] | null;
}

export class Choice {
  readonly parts: ChoiceParts;
  readonly index: number;
  /** All choices of the answer in order, this one included. */
  readonly siblings: readonly Choice[];
  /** Joined they are the text. */
  readonly pieces: string[] = [];
  reasoning = '';
  reasoningTokens = 0;
  /** One for each token that has left; null when the request asks for none or the answer is calls. */
  readonly logProbs: TokenLogProbs[] | null;
  readonly calls: (ToolCall & { arguments: string })[] = [];
  hasEnded = false;
  finish: 'stop' | 'length' | 'tool_calls' = 'stop';
  /** The stop string matched, or an empty string. */
  stoppingWord = '';
  promptTokens = 0;
  /** Prompt tokens that were found in a cache. */
  cachedTokens = 0;
  outputTokens = 0;
  /** Log probabilities of tokens that may still become part of a stop string. */
  readonly #held: TokenLogProbs[] = [];
  #textBytes = 0;
  #tokenBytes = 0;

  /** `siblings` is the array that all choices are put in. */
  constructor(parts: ChoiceParts, siblings: readonly Choice[], index: number) {
    this.parts = parts;
    this.index = index;
    this.siblings = siblings;
    this.logProbs = parts.fields.logProbs === null || parts.callsTools ? null : [];
  }

  /** Adds text and returns the log probabilities of the tokens that began in it; undefined when none were requested. */
  take(text: string, reports: readonly TokenReport[]): readonly TokenLogProbs[] | undefined {
    if (text !== '') this.pieces.push(text);
    if (this.logProbs === null) return undefined;
    this.#textBytes += Buffer.byteLength(text);
    for (const { logProbs } of reports) if (logProbs !== undefined) this.#held.push(logProbs);
    const out: TokenLogProbs[] = [];
    while (this.#held.length > 0 && this.#tokenBytes < this.#textBytes) {
      const one = this.#held.shift()!;
      this.#tokenBytes += one.bytes.length;
      out.push(one);
    }
    this.logProbs.push(...out);
    return out;
  }

  /** Whether the answer is, or ends with, tool calls. */
  get hasCalls(): boolean {
    return this.parts.callsTools || this.calls.length > 0;
  }

  /** Whether the answer has a text, be it an empty one. */
  get hasText(): boolean {
    return this.pieces.length > 0 || (!this.hasCalls && this.reasoning === '');
  }

  beginCall(name: string): ToolCall {
    const call = {
      id: `call_${this.parts.id}_${this.index === 0 ? '' : `${this.index}_`}${this.calls.length}`,
      name,
      arguments: '',
    };
    this.calls.push(call);
    return call;
  }

  /** Ends the choice and returns the remaining log probabilities, of tokens without text. */
  end({ reason, stoppingWord, generatedTokens }: CompletionEnd): readonly TokenLogProbs[] {
    const isCut = reason === 'limit' || reason === 'context';
    this.hasEnded = true;
    this.outputTokens = generatedTokens;
    this.stoppingWord = stoppingWord;
    this.finish = isCut ? 'length' : this.hasCalls ? 'tool_calls' : 'stop';
    const rest = reason === 'word' ? [] : this.#held.splice(0);
    this.logProbs?.push(...rest);
    return rest;
  }
}
