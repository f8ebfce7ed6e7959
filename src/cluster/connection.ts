// One connection to Redis or Valkey, for commands and messages (RESP3). It is never opened again: whoever uses it opens another one.
// This is the only file that knows the client package.

import type { RedisClientOptions } from '@redis/client';
import { messageOf } from '../errors.ts';
import { ClusterError, type CommandArgument } from './link.ts';

export interface EngineConnection {
  /** Answers come in the order of the commands. Rejects with `ClusterError`: `away` or `refused`. */
  send(args: readonly CommandArgument[]): Promise<unknown>;
  /** Ends it at once; commands without an answer reject. `onLost` is not called. */
  close(): void;
}

export interface EngineTarget {
  /** `redis://` or `rediss://`, with user, password, host, port and database. */
  readonly url: string;
  /** Channels that are subscribed to before the connection is handed out. */
  readonly channels: readonly string[];
  /** Shown by CLIENT LIST. */
  readonly clientName: string;
  /** Longest time to connect, greet and subscribe. */
  readonly timeoutMs: number;
  readonly onMessage: (message: Buffer) => void;
  /** The connection broke. Called once, and never before it has been handed out. */
  readonly onLost: (reason: string) => void;
}

/** Opens a connection; rejects with an `Error` whose message says what is wrong, without the password. */
export type EngineConnector = (target: EngineTarget) => Promise<EngineConnection>;

/** Types of RESP3 by their first byte, as the client names them: bulk strings are buffers, maps are flat lists. */
const TYPES = { 36: Buffer, 37: Array } as const;

export const connectEngine: EngineConnector = async (target) => {
  // Loaded when it is needed: the package costs 20 MiB and a tenth of a second.
  const { createClient, ErrorReply } = await import('@redis/client');
  const client = createClient(clientOptions(target));
  let opened = false;
  let ended = false;
  const end = (error: unknown): void => {
    if (ended) return;
    ended = true;
    if (client.isOpen) client.destroy();
    if (opened) target.onLost(lostReason(error));
  };
  client.on('error', end);
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error('no answer in time')), target.timeoutMs);
  const open = async (): Promise<void> => {
    await client.connect();
    await client.subscribe([...target.channels], target.onMessage, true);
  };
  try {
    await Promise.race([open(), late.promise]);
  } catch (error) {
    end(error);
    throw new Error(openingProblem(error), { cause: error });
  } finally {
    clearTimeout(timer);
  }
  opened = true;
  return {
    send: (args) => client.sendCommand(args).catch((error: unknown) => rethrow(error, ErrorReply)),
    close: () => {
      opened = false;
      end(null);
    },
  };
};

function rethrow(error: unknown, answered: abstract new () => Error): never {
  const message = messageOf(error);
  if (!(error instanceof answered)) throw new ClusterError('away', `the engine is away: ${message}`);
  throw new ClusterError('refused', message, /^[A-Z]+/.exec(message)?.[0]);
}

function clientOptions({ clientName, timeoutMs, url }: EngineTarget): RedisClientOptions {
  const { hostname, password, pathname, port, protocol, username } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, '$1') || '127.0.0.1';
  const socket = {
    host,
    port: port === '' ? 6379 : Number(port),
    connectTimeout: timeoutMs,
    reconnectStrategy: false as const,
    keepAlive: true,
    keepAliveInitialDelay: 5000,
  };
  const database = Number(pathname.slice(1) || '0');
  return {
    RESP: 3,
    socket: protocol === 'rediss:' ? { ...socket, tls: true as const } : socket,
    name: clientName,
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    ...(database === 0 ? {} : { database }),
    // A timer for each command would double the cost of a command; the service has its own.
    commandOptions: { timeout: undefined as never, typeMapping: TYPES },
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
  };
}

function lostReason(error: unknown): string {
  return error instanceof Error ? error.message : 'closed';
}

/** What an operator can do about a connection that does not open. */
function openingProblem(error: unknown): string {
  const message = error instanceof Error ? error.message || String((error as { code?: unknown }).code) : String(error);
  if (/^WRONGPASS|invalid password/i.test(message)) return `wrong user or password in cluster.url (${message})`;
  if (message.startsWith('NOAUTH')) return `the engine asks for a password: put it in cluster.url (${message})`;
  if (message.startsWith('NOPERM')) return `the user of cluster.url may not do what is needed (${message})`;
  return message;
}
