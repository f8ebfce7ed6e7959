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

/** Heartbeat of answers that take long: below the usual limits of proxies. */
export const KEEP_ALIVE_MS = 15_000;

/** The result of a call as the protocol writes it, its members in the order of the SDK. */
export function resultOf({ meta, structured, text }: ToolResult): CallResult {
  return {
    ...(meta !== undefined && { _meta: meta }),
    content: [{ type: 'text', text }],
    ...(structured === null ? { isError: true } : { structuredContent: structured as Record<string, unknown> }),
  };
}

/** In the terms of the SDK. */
type CallResult = {
  content: { type: 'text'; text: string }[];
  isError?: true;
  structuredContent?: Record<string, unknown>;
  _meta?: Record<string, unknown>;
};

/** Runs a call until it is done, its client has gone or it is cancelled. */
export function runTool(
  tool: Tool,
  input: Readonly<Record<string, unknown>>,
  onProgress: ((progress: ExchangeProgress) => void) | undefined,
  { id, signal }: { readonly id: string | number; readonly signal: AbortSignal },
  caller: { began(id: string | number, abort: () => void): () => void },
): Promise<ToolResult> {
  return new Promise((resolve, reject) => {
    let call: ToolCall | null = null;
    let isOver = false;
    const end = (): void => {
      isOver = true;
      ended();
      signal.removeEventListener('abort', abort);
    };
    const abort = (): void => {
      if (isOver) return;
      end();
      call?.abort();
      reject(new Error('cancelled'));
    };
    const ended = caller.began(id, abort);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) {
      abort();
      return;
    }
    call = tool.call(input, onProgress, (result) => {
      end();
      resolve(result);
    });
  });
}
