// What a gateway and its siblings say to each other and to the engine: the interface, without a trace of the protocol below it.

/** Subjects of messages. A receiver counts and ignores subjects that it does not know, such as those of later versions. */
export const TOPICS = [
  'roll-call',
  'acts',
  'keys',
  'placements',
  'snapshot',
  'suspensions',
  'shares',
  'limits',
  'cancels',
] as const;

export type Topic = (typeof TOPICS)[number];

/** Most gateways of one name, this one included: rows in shared memory are numbered below it. More are counted and ignored. */
export const MAX_GATEWAYS = 64;

/** Largest body of a message in bytes; larger ones are neither sent nor taken. */
export const MAX_BODY_BYTES: number = 1024 * 1024;

/** A gateway that answers the roll call. */
export interface Sibling {
  /** 16 hexadecimal digits, new with every start of a process. */
  readonly instance: string;
  /** Row of this gateway in local tables: 0 for this process, 1 to `MAX_GATEWAYS` - 1 for others. Used again after `left`. */
  readonly index: number;
  readonly self: boolean;
  /** Name of its machine or pod. */
  readonly name: string;
  readonly version: string;
  /** Where clients reach it, as HOST:PORT; null before it listens. */
  readonly address: string | null;
  readonly stage: 'starting' | 'ready' | 'draining';
  readonly uptimeMs: number;
  readonly inFlight: number;
  readonly requestsPerS: number;
  /** Time since anything of it arrived, by the local clock; 0 for this process. */
  readonly ageMs: number;
}

export type ClusterEvent =
  /** The setting `cluster.url` has been set, or points elsewhere; `connected` follows when the engine answers. */
  | { readonly type: 'enabled' }
  /** The setting `cluster.url` is null now; `lost` and `left` came before. */
  | { readonly type: 'disabled' }
  /** The engine answers and messages arrive from now on. `awayMs` is Infinity after `enabled`. */
  | { readonly type: 'connected'; readonly awayMs: number }
  /** Messages may be missing from now on. Siblings stay in the roll call for 3 s of silence. */
  | {
      readonly type: 'lost';
      readonly reason: string;
      /** This gateway has ended the connection. */ readonly isOwn?: true;
    }
  | { readonly type: 'joined'; readonly sibling: Sibling }
  /** `silent`: nothing came for 3 s. `leaving`: it said that it ends. */
  | { readonly type: 'left'; readonly sibling: Sibling; readonly reason: 'silent' | 'leaving' };

/** A Lua script with its SHA-1, for `ClusterLink.script`. */
export interface Script {
  readonly source: string;
  readonly sha1: string;
}

/** Why a command was not answered. The caller goes on alone; nothing is repeated for it. */
export class ClusterError extends Error {
  override readonly name = 'ClusterError';
  /**
   * `away`: there is no connection, or it broke before the answer. `timeout`: no answer in time; the command may still run. `full`:
   * too much is unanswered. `refused`: the engine answered with an error.
   */
  readonly reason: 'away' | 'timeout' | 'full' | 'refused';
  /** First word of the engine's error, such as `OOM` or `READONLY`; '' where it sent none. */
  readonly code: string;

  constructor(reason: ClusterError['reason'], message: string, code = '') {
    super(message);
    this.reason = reason;
    this.code = code;
  }
}

export type CommandArgument = string | Buffer;

/** Takes a message of a sibling. Throws when it is not of the expected form: that is counted, logged and goes no further. */
export type MessageHandler = (body: Buffer, from: Sibling) => void;

export interface ClusterLink {
  /** Whether `cluster.url` is set. It may change at a reload, which is an event. */
  readonly enabled: boolean;
  /** Whether the engine answers now. */
  readonly connected: boolean;
  /** Own id: 16 hexadecimal digits. */
  readonly instance: string;
  /** Gateways that are alive, self first. Only self when alone. */
  siblings(): readonly Sibling[];
  /** One of them; undefined for unknown ids and those that have left. */
  sibling(instance: string): Sibling | undefined;
  /**
   * Sends `body` to all siblings, or to one. Fire and forget: false when it was dropped (and counted), because the engine is away, the
   * queue is full or the body is too large. The body is copied.
   */
  publish(topic: Topic, body: Buffer, to?: string): boolean;
  /**
   * Messages of siblings in the roll call, in the order in which each sent them, never own ones. A message of somebody unknown is
   * dropped, except that of `roll-call`: answers to the roll call arrive
   * within a round trip and 50 ms of `connected`. The body may be kept.
   */
  on(topic: Topic, handler: MessageHandler): () => void;
  /**
   * Runs a command. Rejects with `ClusterError`, at once when the engine is away or the queue is full. Bulk strings of the answer are
   * `Buffer`, maps are flat lists of names and values, integers are numbers.
   */
  command(args: readonly CommandArgument[], timeoutMs: number): Promise<unknown>;
  /** Runs a script by EVALSHA; the engine is sent the source when it does not have it. */
  script(
    script: Script,
    keys: readonly string[],
    args: readonly CommandArgument[],
    timeoutMs: number,
  ): Promise<unknown>;
  /** The name of a key: `{name}:a:b` for `key('a', 'b')`. Every key must have a TTL and a row in docs/cluster.md. */
  key(...parts: readonly string[]): string;
  onChange(handler: (event: ClusterEvent) => void): () => void;
}
