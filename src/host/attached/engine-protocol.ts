// The interface between a streamed generation and the two protocols of attached engines: how to request it, and what an event
// of the response means.
import type { CompletionEnd, TextDetails, TokenReport } from '../model-engine.ts';
import type { DetectedEngine, DetectedModel } from './detect.ts';
import type { JsonObject } from './engine-http.ts';
/** What a translation knows besides the task. */
export interface ProtocolDeps {
  readonly engine: DetectedEngine;
  readonly model: DetectedModel;
  /** Text in front of the prompt; empty: none. */
  readonly system: string;
  /** Tokens of a text as the engine makes them; `isFirst` adds what begins a sequence. */
  readonly tokenize: (text: string, isFirst: boolean) => Promise<number[]>;
  /** What stands for an image in a prompt of llama-server; it differs from one start of the engine to the next. */
  readonly mediaMarker: () => Promise<string>;
  readonly now: () => number;
}

/** One event of an answer, understood. All parts are optional. */
export interface ProtocolEvent {
  /** The prompt is known: tokens in all, tokens found in the cache, slot. */
  readonly start?: { readonly promptTokens: number; readonly cachedTokens: number; readonly slotId: number };
  readonly text?: string;
  readonly reports?: readonly TokenReport[];
  /** What the request asked for beside the text. */
  readonly details?: TextDetails;
  readonly end?: CompletionEnd;
  /** With `end`: the engine does not know that this is the end and would go on. */
  readonly isCut?: boolean;
  /** The engine reports that it failed. */
  readonly failure?: string;
}

export interface EngineRequest {
  readonly path: string;
  readonly body: JsonObject;
}

/** One generation in the protocol of an engine. Made for one task; reads the events in order. */
export interface EngineProtocol {
  /** Throws InvalidOptions for what can only be seen with the engine's help. */
  ask(): Promise<EngineRequest>;
  hear(event: JsonObject): ProtocolEvent;
  /** After the last event: the end, when it follows from the events; undefined when the response is incomplete. */
  close(): CompletionEnd | undefined;
}
