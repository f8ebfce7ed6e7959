// Conversations as the load client plays them, and the workloads that supply them.
/** One message of a request. */
export interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  readonly text: string;
}

/** What the user says next, and how long the answer may be. */
export interface UserTurn {
  readonly text: string;
  /** Most tokens of the answer. */
  readonly outputTokens: number;
}

/** One conversation: each turn is sent with all earlier messages, the model's own answers included. */
export interface Script {
  /** What all turns begin with; empty for none. Scripts that share it share a prefix. */
  readonly system: string;
  /** At least one. */
  readonly turns: readonly UserTurn[];
  /** When it began in the trace it comes from, in milliseconds from the first. */
  readonly atMs?: number;
}

/** An endless or a limited supply of scripts. */
export interface Workload {
  /** A sentence for the report. */
  readonly description: string;
  /** Its scripts have times. Default false. */
  readonly isTimed?: boolean;
  /** The next script; undefined when there is none left, which ends the run: no further turn is sent. */
  next(): Script | undefined;
}

/** A workload, a file of one, a limit or a condition that makes no sense. The message says which and, of a file, the line. */
export class LoadError extends Error {
  override readonly name = 'LoadError';
}
