// What a tool is to the server of the Model Context Protocol: a description for models, and a call whose result is one answer.

import type { ExchangeProgress } from '../ingress/exchange.ts';

/** A schema object of JSON Schema 2020-12. */
export type JsonSchema = { readonly [keyword: string]: unknown };

/** What a model gets of a call. */
export interface ToolResult {
  /** For models: short Markdown. */
  readonly text: string;
  /** The same for programs, by the output schema; null for an error. */
  readonly structured: object | null;
  /** For programs beside it, by names with a prefix; undefined: nothing. */
  readonly meta?: Readonly<Record<string, unknown>>;
}

/** A call under way. */
export interface ToolCall {
  /** Ends it; nothing is called any more. */
  abort(): void;
}

export interface Tool {
  readonly name: string;
  readonly title: string;
  /** What it does, when to use it, and how to go on from its result. */
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema: JsonSchema;
  /** Calls it. `done` is called once, at once or later, unless the call is aborted. */
  call(
    input: Readonly<Record<string, unknown>>,
    onProgress: ((progress: ExchangeProgress) => void) | undefined,
    done: (result: ToolResult) => void,
  ): ToolCall;
}
