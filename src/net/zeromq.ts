// Loading of the optional package `zeromq`, which has libzmq with prebuilt binaries, and the part of its interface that KV events
// need. It is imported only when a socket is to be opened.

/** Frames of one message. */
export type Frames = readonly Uint8Array[];

export interface ZeroMqSocket {
  readonly closed: boolean;
  /** The address that a socket is bound to, with its port. */
  readonly lastEndpoint: string | null;
  bind(endpoint: string): Promise<void>;
  connect(endpoint: string): void;
  /** Throws `ENOENT` when the socket is not connected to it. */
  disconnect(endpoint: string): void;
  /** A pending `receive` or `send` rejects. */
  close(): void;
}

export interface SendingSocket extends ZeroMqSocket {
  send(frames: readonly (string | Uint8Array)[]): Promise<void>;
}

export interface ReceivingSocket extends ZeroMqSocket {
  receive(): Promise<Uint8Array[]>;
}

export interface SubscriberSocket extends ReceivingSocket {
  /** Connections are reported once this is read. */
  readonly events: {
    on(type: 'handshake' | 'disconnect', listener: () => void): void;
  };
  subscribe(prefix?: string): void;
}

/** Options of sockets, named as in the package. Times are in milliseconds. */
export interface ZeroMqOptions {
  /** How long `close` waits for messages to be sent. */
  readonly linger?: number;
  readonly sendHighWaterMark?: number;
  readonly receiveHighWaterMark?: number;
  readonly receiveTimeout?: number;
  /** Largest frame that is received; a peer that sends a larger one is disconnected. */
  readonly maxMessageSize?: number;
  readonly reconnectInterval?: number;
  readonly reconnectMaxInterval?: number;
  readonly heartbeatInterval?: number;
  readonly heartbeatTimeout?: number;
}

export interface ZeroMq {
  readonly Dealer: new (options: ZeroMqOptions) => SendingSocket & ReceivingSocket;
  readonly Publisher: new (options: ZeroMqOptions) => SendingSocket;
  readonly Router: new (options: ZeroMqOptions) => SendingSocket & ReceivingSocket;
  readonly Subscriber: new (options: ZeroMqOptions) => SubscriberSocket;
}

/** Imports the package. Rejects with an error that says how to install it. */
export async function loadZeroMq(): Promise<ZeroMq> {
  try {
    return (await import('zeromq')) as unknown as ZeroMq;
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND' ? '' : ` (${String(error)})`;
    throw new Error(`KV events need the package zeromq: run "npm install zeromq@6" beside headrace${reason}`);
  }
}
