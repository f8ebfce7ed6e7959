// One choice of an answer by an engine while it grows: its text or its calls, and the log probabilities of what is out.
// answering.ts makes one for each choice and feeds it; the dialect files read it as a `Generation`.
import type { CompletionEnd, TokenLogProbs, TokenReport } from './llama/engine.ts';
import type { Ask, Call, Generation, Json } from './wire/wire.ts';

/** What all choices of an answer have in common. */
export interface ChoiceParts {
  readonly id: string;
  readonly model: string;
  readonly created: number;
  readonly body: Json;
  readonly ask: Ask;
  readonly callsTools: boolean;
}

/** A generation that grows; see wire.ts. */
export class Choice implements Generation {
  readonly id: string;
  readonly model: string;
  readonly created: number;
  readonly body: Json;
  readonly ask: Ask;
  readonly index: number;
  readonly siblings: readonly Choice[];
  readonly pieces: string[] = [];
  readonly logProbs: TokenLogProbs[] | null;
  hasEnded = false;
  finish: Generation['finish'] = 'stop';
  stoppingWord = '';
  promptTokens = 0;
  cachedTokens = 0;
  outputTokens = 0;
  readonly callsTools: boolean;
  readonly calls: (Call & { arguments: string })[] = [];
  readonly timeToFirstTokenMs = 0;
  readonly interTokenMs = 0;
  /** Log probabilities of tokens that may still become part of a stop string. */
  readonly #held: TokenLogProbs[] = [];
  #textBytes = 0;
  #tokenBytes = 0;

  /** `siblings` is the array that all choices will stand in. */
  constructor({ id, model, created, body, ask, callsTools }: ChoiceParts, siblings: readonly Choice[], index: number) {
    this.id = id;
    this.model = model;
    this.created = created;
    this.body = body;
    this.ask = ask;
    this.callsTools = callsTools;
    this.index = index;
    this.siblings = siblings;
    this.logProbs = ask.logProbs === null || callsTools ? null : [];
  }

  /** Adds text, and gives the log probabilities of the tokens that have begun in it; undefined when none are wanted. */
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

  beginCall(name: string): Call {
    const call = {
      id: `call_${this.id}_${this.index === 0 ? '' : `${this.index}_`}${this.calls.length}`,
      name,
      arguments: '',
    };
    this.calls.push(call);
    return call;
  }

  /** It has come to its end; gives the log probabilities that are left, of tokens without text. */
  end({ reason, stoppingWord, generatedTokens }: CompletionEnd): readonly TokenLogProbs[] {
    const isCut = reason === 'limit' || reason === 'context';
    this.hasEnded = true;
    this.outputTokens = generatedTokens;
    this.stoppingWord = stoppingWord;
    this.finish = isCut ? 'length' : this.callsTools ? 'tool_calls' : 'stop';
    const rest = reason === 'word' ? [] : this.#held.splice(0);
    this.logProbs?.push(...rest);
    return rest;
  }
}
