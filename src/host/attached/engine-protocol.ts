// The seam between a generation on its way (generation.ts) and the two languages that engines speak (llama-server.ts,
// openai-completions.ts): what to ask, and what an event of the answer means.
import type { SystemPrompt } from '../completion-options.ts';
import type { CompletionEnd, TokenReport } from '../engine.ts';
import type { DetectedEngine, DetectedModel } from './detect.ts';
import type { JsonObject } from './engine-http.ts';

/** What a translation knows besides the task. */
export interface DialogueDeps {
  readonly engine: DetectedEngine;
  readonly model: DetectedModel;
  /** The initial prompt of all slots; null when none is set. */
  readonly system: SystemPrompt | null;
  /** Tokens of a text as the engine makes them; `isFirst` adds what begins a sequence. */
  readonly tokenize: (text: string, isFirst: boolean) => Promise<number[]>;
  readonly now: () => number;
}

/** One event of an answer, understood. All parts are optional. */
export interface Heard {
  /** The prompt is known: tokens in all, tokens found in the cache, slot. */
  readonly start?: { readonly promptTokens: number; readonly cachedTokens: number; readonly slotId: number };
  readonly text?: string;
  readonly reports?: readonly TokenReport[];
  readonly end?: CompletionEnd;
  /** With `end`: the engine does not know that this is the end and would go on. */
  readonly isCut?: boolean;
  /** The engine reports that it failed. */
  readonly failure?: string;
}

export interface Request {
  readonly path: string;
  readonly body: JsonObject;
}

/** One generation in an engine's language. Made for one task; hears the events in order. */
export interface Dialogue {
  /** Throws InvalidOptions for what can only be seen with the engine's help. */
  ask(): Promise<Request>;
  hear(event: JsonObject): Heard;
  /** After the last event: the end, when it follows from what was said; undefined when the answer is not complete. */
  close(): CompletionEnd | undefined;
}
