// The actor of one ingress thread: starts the worker, passes commands on to the ingress actor inside, and fails when the
// thread ends on its own, so that its supervisor starts another. When it stops, the thread is asked to close, and terminated only
// where it does not answer and has no uWebSockets.js app: a thread that ends with an open one aborts the process.

import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import {
  type Behavior,
  type Clock,
  type Context,
  type Link,
  link,
  type Ref,
  type Signal,
  type System,
} from '../actor/index.ts';
import type { PagesCommand } from '../fetch/index.ts';
import type { BodyBudget } from '../ingress/body.ts';
import type { Address } from '../ingress/server.ts';
import type { CancelCommand } from '../mcp/index.ts';
import type { LimitMemory } from '../billing/index.ts';
import type { ResponseStoreCommand } from '../responses/index.ts';
import type { Board, BoardMemory, CrnRegistryCommand } from '../routing/index.ts';
import type { IndexesCommand } from '../search/index.ts';
import type { ClusterCacheRefs } from './cluster-caches.ts';
import type { IngressCommand, ServerChoice } from './ingress.ts';
import type { PlaneAccounts } from './data-plane.ts';
import type { Snapshot } from './snapshot.ts';

/**
 * Size of the young generation. A search lives for 50 ms and more: with 16 MiB much of it was promoted and kept until a full
 * collection. More than this makes single pauses longer.
 */
const YOUNG_MB = 48;

/**
 * How long a thread that is asked to close may take. It has been drained, or nothing is waited for any more; but what its requests
 * have spent is reported by its last messages, also on a busy machine.
 */
const CLOSE_MS = 5000;

/** How often a thread is asked whether it answers. */
const ASK_MS = 1000;

/**
 * Times at which an answer is missing before it is told: collections of garbage and the largest bodies take less. They are counted, not
 * measured: when the calling thread was blocked itself, or the machine suspended, the answer waits behind one tick of the timer.
 */
const MISSING = 3;

/** What a thread is started with. */
export interface ThreadData {
  readonly memory: BoardMemory;
  readonly engineMemory: SharedArrayBuffer;
  readonly searchMemory: SharedArrayBuffer;
  readonly bodyMemory: SharedArrayBuffer;
  /** Null without a ledger. */
  readonly limitMemory: LimitMemory | null;
  /** Null without a ledger. */
  readonly leaseMemory: SharedArrayBuffer | null;
  /** Whether x402 payments are taken. */
  readonly paid: boolean;
  /** Whether responses are stored at present. */
  readonly responseMemory: SharedArrayBuffer;
  readonly thread: number;
  readonly snapshot: Snapshot;
  readonly server: ServerChoice;
  readonly address: Address;
  /** Link to the control plane. */
  readonly port: MessagePort;
}

/** Messages outside of the actor link: about the thread itself. */
export type ThreadMessage =
  | { readonly type: 'Listening'; readonly address: Address; readonly server: string }
  | { readonly type: 'Failed'; readonly message: string }
  /** A thrown error that cost a connection. */
  | { readonly type: 'Error'; readonly message: string }
  | { readonly type: 'Event'; readonly text: string }
  /** The module of a search engine threw outside of a search. */
  | { readonly type: 'EngineModule'; readonly module: string; readonly message: string }
  /** The code of a search engine threw in a search. */
  | { readonly type: 'EngineThrew'; readonly engine: string; readonly thrown: string }
  /** Asks the thread whether it answers. */
  | { readonly type: 'Ping' }
  | { readonly type: 'Pong' }
  | { readonly type: 'Close' };

export type ThreadCommand =
  | { readonly type: 'Message'; readonly message: ThreadMessage }
  | { readonly type: 'Exited'; readonly code: number }
  | { readonly type: 'Ask' }
  | { readonly type: 'Pass'; readonly command: IngressCommand };

/** Wraps a command for the ingress actor in a thread. */
export function passOn(command: IngressCommand): ThreadCommand {
  return { type: 'Pass', command };
}

export interface ThreadDeps {
  readonly system: System;
  readonly clock: Clock;
  readonly board: Board;
  readonly bodies: BodyBudget;
  readonly registry: Ref<CrnRegistryCommand>;
  readonly pages: Ref<PagesCommand>;
  readonly indexes: Ref<IndexesCommand>;
  readonly cancellations: Ref<CancelCommand>;
  readonly responses: Ref<ResponseStoreCommand>;
  readonly caches: ClusterCacheRefs;
  /** Null without a ledger. */
  readonly accounts: Pick<
    PlaneAccounts,
    'accountReader' | 'leaseManager' | 'payments' | 'costLog' | 'sliceManager'
  > | null;
  /** The gateway accepts no more connections: a thread that has ended is not started again, as it would open the port again. */
  readonly isDraining: () => boolean;
  /** Start data with the present snapshot and address. */
  readonly data: () => Omit<ThreadData, 'port'>;
  readonly onMessage: (thread: number, message: ThreadMessage) => void;
  /** A thread has been started, or has ended for any reason. */
  readonly onRunning: (thread: number, running: boolean) => void;
  /** A thread has not answered since `askedMs`, for three seconds; null: it answers again. */
  readonly onSilent: (thread: number, askedMs: number | null) => void;
}

/** Makes the behaviour of the actor. */
export function ingressThread(deps: ThreadDeps): Behavior<ThreadCommand> {
  return (context) => {
    if (deps.isDraining()) {
      context.stop();
      return () => undefined;
    }
    const thread = new Thread(deps, context);
    return {
      receive: (command) => thread.receive(command),
      signal: (signal: Signal) => {
        if (signal.type === 'PostStop') thread.close();
      },
    };
  };
}

class Thread {
  readonly #deps: ThreadDeps;
  readonly #index: number;
  readonly #worker: Worker;
  readonly #link: Link;
  readonly #ingress: Ref<IngressCommand>;
  readonly #server: ServerChoice;
  readonly #context: Context<ThreadCommand>;
  #failure = '';
  #isRunning = true;
  /** When the thread was asked last and has not answered; null: it has. */
  #askedMs: number | null = null;
  #missing = 0;

  constructor(deps: ThreadDeps, context: Context<ThreadCommand>) {
    const { port1, port2 } = new MessageChannel();
    const data = deps.data();
    this.#deps = deps;
    this.#context = context;
    this.#index = data.thread;
    this.#server = data.server;
    this.#link = link(deps.system, port1);
    this.#link.expose('crns', deps.registry);
    this.#link.expose('pages', deps.pages);
    this.#link.expose('indexes', deps.indexes);
    this.#link.expose('cancellations', deps.cancellations);
    this.#link.expose('responses', deps.responses);
    this.#link.expose('sharedCache', deps.caches.cache);
    this.#link.expose('engineTrials', deps.caches.trials);
    if (deps.accounts !== null) {
      this.#link.expose('leaseManager', deps.accounts.leaseManager);
      this.#link.expose('accountReader', deps.accounts.accountReader);
      this.#link.expose('costLog', deps.accounts.costLog);
      this.#link.expose('sliceManager', deps.accounts.sliceManager);
    }
    if (data.paid && deps.accounts?.payments) this.#link.expose('payments', deps.accounts.payments);
    this.#ingress = this.#link.ref('ingress');
    this.#worker = new Worker(new URL('../../workers/ingress.js', import.meta.url), {
      name: `ingress-${data.thread}`,
      workerData: { ...data, port: port2 } satisfies ThreadData,
      transferList: [port2],
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
    });
    this.#worker.on('message', (message: ThreadMessage) => context.self.tell({ type: 'Message', message }));
    this.#worker.on('error', (error) => {
      this.#failure = error.stack ?? error.message;
    });
    this.#worker.on('exit', (code) => {
      this.#isRunning = false;
      deps.board.clearThread(this.#index);
      deps.bodies.clearThread(this.#index);
      // The link closes behind the last message of the thread, which may report what was spent.
      void this.#link.closed.then(() => {
        deps.onRunning(this.#index, false);
        context.self.tell({ type: 'Exited', code });
      });
    });
    deps.onRunning(this.#index, true);
  }

  receive(command: ThreadCommand): void {
    switch (command.type) {
      case 'Message':
        if (command.message.type === 'Failed') this.#failure = command.message.message;
        if (command.message.type === 'Listening') this.#askLater();
        if (command.message.type === 'Pong') this.#answered();
        this.#deps.onMessage(this.#index, command.message);
        break;
      case 'Pass':
        this.#ingress.tell(command.command);
        break;
      case 'Ask':
        this.#ask();
        break;
      case 'Exited':
        // Who asks it to drain hears that it is gone.
        if (this.#deps.isDraining()) {
          this.#context.stop();
          break;
        }
        throw new Error(
          `ingress thread ${this.#index} ended with code ${command.code}: ${this.#failure || 'no reason given'}`,
        );
    }
  }

  /** Each time is counted from the last one: after a late one, of a busy calling thread, three are no less than three seconds. */
  #askLater(): void {
    this.#context.timers.once('ask', ASK_MS, { type: 'Ask' });
  }

  #ask(): void {
    this.#askLater();
    if (this.#askedMs === null) {
      this.#askedMs = this.#deps.clock.now();
      this.#worker.postMessage({ type: 'Ping' } satisfies ThreadMessage);
    } else if (++this.#missing === MISSING) {
      this.#deps.onSilent(this.#index, this.#askedMs);
    }
  }

  #answered(): void {
    if (this.#missing >= MISSING) this.#deps.onSilent(this.#index, null);
    this.#missing = 0;
    this.#askedMs = null;
  }

  /** Asks the thread to end; does nothing when it has ended. */
  close(): void {
    if (!this.#isRunning) return;
    this.#worker.postMessage({ type: 'Close' } satisfies ThreadMessage);
    if (this.#server === 'uws') return;
    const { clock } = this.#deps;
    const timer = clock.setTimeout(() => void this.#worker.terminate(), CLOSE_MS);
    this.#worker.once('exit', () => clock.clearTimeout(timer));
  }
}
