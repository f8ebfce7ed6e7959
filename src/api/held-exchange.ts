// A request that waits for admission to the CRNs of its model. While it waits it is the listener of its exchange: a client that leaves
// leaves the queue, and a shutdown answers it.

import { HeadraceError } from '../errors.ts';
import type { Exchange, ExchangeListener } from '../ingress/exchange.ts';
import type { Admission, HeldRequest, Hold, Model } from '../routing/index.ts';
import { networkOf, type Peers } from '../upstream/index.ts';

/** What becomes of the request: exactly one of them is called, once, unless the exchange ends first. */
export interface HeldActions {
  /** It is admitted. May throw an error of the table. `model`: as it is configured now. */
  start(model: Model): void;
  /** It is to be answered with what was thrown. */
  refuse(thrown: unknown): void;
}

export class HeldExchange implements HeldRequest, ExchangeListener {
  readonly account: string;
  readonly work: number;
  readonly bytes: number;
  readonly holder: number;
  readonly #exchange: Pick<Exchange, 'heldMs' | 'listener'>;
  readonly #actions: HeldActions;
  #hold: Hold | null = null;

  constructor(
    exchange: Pick<Exchange, 'heldMs' | 'listener'>,
    { account, bytes, holder, work }: Pick<HeldRequest, 'account' | 'bytes' | 'holder' | 'work'>,
    actions: HeldActions,
  ) {
    this.account = account;
    this.work = work;
    this.bytes = bytes;
    this.holder = holder;
    this.#exchange = exchange;
    this.#actions = actions;
  }

  /** Begins the wait, which may be over at once. Throws 429 when too much waits. */
  wait(admission: Admission, model: Model): void {
    this.#exchange.listener = this;
    this.#hold = admission.hold(model, this);
  }

  onAdmitted(model: Model, waitedMs: number): void {
    this.#exchange.heldMs = waitedMs;
    this.#exchange.listener = null;
    try {
      this.#actions.start(model);
    } catch (thrown) {
      this.#actions.refuse(thrown);
    }
  }

  onRefused(error: HeadraceError, waitedMs: number): void {
    this.#exchange.heldMs = waitedMs;
    this.#actions.refuse(error);
  }

  onWritable(): void {
    // Nothing has been sent.
  }

  onCut(): void {
    if (this.#hold?.leave('draining') === true) this.#actions.refuse(new HeadraceError('HR_DRAINING'));
  }

  onEnded(): void {
    this.#hold?.leave('gone');
  }
}

/** Whose turn a request takes: its account's; without one, that of the network it comes from, as a trusted proxy says it. */
export function callerOf(exchange: Exchange, peers: Peers): string {
  if (exchange.account !== '') return exchange.account;
  const { address, isTrusted } = peers.of(exchange.remoteAddress);
  const said = isTrusted ? forwardedFor(exchange.headers) : undefined;
  return `@${networkOf(said ?? address)}`;
}

/** The client of the last proxy, without its port. Proxies add to the field, or add a field of their own behind those of the client. */
function forwardedFor(headers: readonly string[]): string | undefined {
  const field = headers.findLast((_, at) => at % 2 === 1 && headers[at - 1] === 'x-forwarded-for');
  const said = field?.split(',').at(-1)?.trim();
  return said?.replace(/^\[(.*)\](?::\d+)?$|^([\d.]+):\d+$/, '$1$2');
}
