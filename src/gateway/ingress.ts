// The ingress actor: a data plane and the public port in front of it, in the calling thread and in each ingress thread. It
// takes new snapshots and drains.

import { ask, type Behavior, type Clock, type Ref } from '../actor/index.ts';
import type { ClusterStatus } from '../api/deps.ts';
import { createHttp1Server } from '../ingress/http1.ts';
import type { Server, ServerOptions } from '../ingress/server.ts';
import type { CancelCommand } from '../mcp/index.ts';
import type { MetricsPart } from '../telemetry/metrics.ts';
import type { LogEntry, LogPart, LogQuery } from '../telemetry/request-log.ts';
import type { ThreadLoad, TotalsPart } from '../telemetry/totals.ts';
import type { BillingUpdate } from '../billing/index.ts';
import type { DataPlane } from './data-plane.ts';
import type { ExplainAnswer, ExplainRequest, LivePart, PlaneReport } from '../admin/index.ts';
import type { Snapshot } from './snapshot.ts';

/** Time that the answer to a drain may take between threads, beyond the drain itself. */
const DRAIN_MARGIN_MS = 1000;

/** The last accepted connections may not have sent their request yet. */
const LINGER_MS = 200;

/** Time that clients get to read the ends of responses that were cut off. Slow readers have up to 64 KiB before them. */
const CUT_MS = 500;

/** Which HTTP server listens: `uws` is uWebSockets.js, `auto` and `node` are the gateway's own. */
export type ServerChoice = 'auto' | 'uws' | 'node';

export type IngressCommand =
  | { readonly type: 'Configure'; readonly snapshot: Snapshot }
  | { readonly type: 'Billing'; readonly update: BillingUpdate }
  /** The last probe of a CRN failed for another reason than the one before; null: it was good. */
  | { readonly type: 'Probed'; readonly url: string; readonly reason: string | null }
  /** A client has cancelled a call, which this thread may have. */
  | CancelCommand
  /** The link to sibling gateways has changed. */
  | { readonly type: 'Cluster'; readonly status: ClusterStatus }
  /** Cuts off what is in flight after `withinMs`. Answers when every request has ended and what it cost was reported. */
  | { readonly type: 'Drain'; readonly withinMs: number; readonly replyTo: Ref<Drained> }
  | { readonly type: 'PortClosed' }
  | { readonly type: 'Lingered' }
  | { readonly type: 'Idle' }
  | { readonly type: 'DrainTimeout' }
  | { readonly type: 'CutTimeout' }
  | { readonly type: 'Metrics'; readonly part: number; readonly replyTo: Ref<MetricsPart> }
  | { readonly type: 'Report'; readonly replyTo: Ref<PlaneReport> }
  | { readonly type: 'Live'; readonly replyTo: Ref<LivePart> }
  | { readonly type: 'Log'; readonly query: LogQuery; readonly replyTo: Ref<LogPart> }
  | { readonly type: 'LogEntry'; readonly id: string; readonly replyTo: Ref<LogEntry[]> }
  | { readonly type: 'Totals'; readonly part: number; readonly replyTo: Ref<TotalsPart> }
  | { readonly type: 'Load'; readonly replyTo: Ref<ThreadLoad> }
  | { readonly type: 'Explain'; readonly request: ExplainRequest; readonly replyTo: Ref<ExplainAnswer> }
  /** Throws in the thread, outside of any actor: for tests of the supervisor. */
  | { readonly type: 'Crash' };

/** How a drain ended: requests that were cut off. */
export interface Drained {
  readonly cut: number;
}

export interface IngressOptions {
  readonly plane: DataPlane;
  /** The public port; null where requests come by `inject` or `nodeListener` only. */
  readonly server: Server | null;
}

/** Makes the behaviour of an ingress actor. */
export function ingress({ plane, server }: IngressOptions): Behavior<IngressCommand> {
  return (context) => {
    let draining: Ref<Drained>[] = [];
    let cut = 0;
    const awaitIdle = (): void =>
      context.pipe(
        plane.idle(),
        () => ({ type: 'Idle' }),
        () => ({ type: 'Idle' }),
      );
    const close = (): void => {
      context.timers.cancel('drain');
      context.timers.cancel('cut');
      // An exchange is charged when it is over, and a charge after the reply may be lost with the thread.
      server?.close();
      plane.closeLeases();
      for (const replyTo of draining) replyTo.tell({ cut });
      draining = [];
    };
    return (command) => {
      switch (command.type) {
        case 'Configure':
          plane.configure(command.snapshot);
          break;
        case 'Billing':
          plane.updateBilling(command.update);
          break;
        case 'Cluster':
          plane.noteCluster(command.status);
          break;
        case 'Cancel':
          plane.cancelled(command);
          break;
        case 'Probed':
          plane.noteProbe(command.url, command.reason);
          break;
        case 'Drain':
          draining.push(command.replyTo);
          context.timers.once('drain', command.withinMs, { type: 'DrainTimeout' });
          context.pipe(
            server?.drain() ?? Promise.resolve(),
            () => ({ type: 'PortClosed' }),
            () => ({ type: 'PortClosed' }),
          );
          break;
        case 'PortClosed':
          context.timers.once('linger', server === null ? 0 : LINGER_MS, { type: 'Lingered' });
          break;
        case 'Lingered':
          awaitIdle();
          break;
        case 'DrainTimeout':
          context.timers.cancel('linger');
          cut = plane.inFlight;
          plane.cutOff();
          context.timers.once('cut', CUT_MS, { type: 'CutTimeout' });
          awaitIdle();
          break;
        case 'Idle':
        case 'CutTimeout':
          close();
          break;
        case 'Metrics':
          command.replyTo.tell(plane.metrics(command.part));
          break;
        case 'Report':
          command.replyTo.tell(plane.report());
          break;
        case 'Live':
          command.replyTo.tell(plane.live());
          break;
        case 'Log':
          void plane.log(command.query).then((part) => command.replyTo.tell(part));
          break;
        case 'LogEntry':
          void plane.logEntries(command.id).then((entries) => command.replyTo.tell(entries));
          break;
        case 'Totals':
          command.replyTo.tell(plane.totals(command.part));
          break;
        case 'Load':
          command.replyTo.tell(plane.load());
          break;
        case 'Explain':
          void plane.explain(command.request).then((answer) => command.replyTo.tell(answer));
          break;
        case 'Crash':
          setImmediate(() => {
            throw new Error('crash on request');
          });
          break;
      }
    };
  };
}

/** Makes the HTTP server of a data plane. `onError` gets what was thrown in it and cost a connection. */
export async function createServer(
  plane: DataPlane,
  clock: Clock,
  choice: ServerChoice,
  onError: (error: unknown) => void,
): Promise<Server> {
  const { budget, connections: counts, decorate, handler, limits, refused: onRefused } = plane;
  const options: ServerOptions = { handler, onRefused, decorate, onError, clock, limits, budget, counts };
  if (choice !== 'uws') return createHttp1Server(options);
  const { createUwsServer } = await import('../ingress/uws.ts');
  return createUwsServer(options);
}

/** Asks an ingress to drain; resolves with the requests it had to cut off. */
export async function askDrain<M>(
  ref: Ref<M>,
  wrap: (command: IngressCommand) => M,
  withinMs: number,
): Promise<number> {
  const options = { timeoutMs: withinMs + CUT_MS + DRAIN_MARGIN_MS };
  try {
    return (await ask<M, Drained>(ref, (replyTo) => wrap({ type: 'Drain', withinMs, replyTo }), options)).cut;
  } catch {
    // A thread that died meanwhile has nothing left to drain.
    return 0;
  }
}
