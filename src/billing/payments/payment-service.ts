// Starts the payment processor of a gateway from its settings, with its facilitator. The ledger must stay open until `close`
// has resolved.

import { ask, type Clock, type Ref, type System } from '../../actor/index.ts';
import type { Settings } from '../../config/settings.ts';
import type { Log } from '../../telemetry/log.ts';
import { PaymentMetrics } from '../../telemetry/payment-metrics.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { picoPerCall } from '../prices.ts';
import { Chain, type SignedTransfer, type TransferState } from './chain.ts';
import { Facilitator } from './facilitator.ts';
import { type MerchantSettings, readMerchantConfig } from './merchant-config.ts';
import type { PaymentCommand } from './payment-commands.ts';
import { paymentProcessor } from './payment-processor.ts';
import type { RecoveryRound } from './settlement.ts';

export interface PaymentServiceDeps {
  readonly system: System;
  readonly ledger: Ledger | Promise<Ledger>;
  readonly settings: Settings['payments'];
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly dateMs: () => number;
  readonly log: Log;
}

/** More than there are clients. */
const MAILBOX = { capacity: 65_536, overflow: 'drop-new' } as const;

/** Limit for settlements under way when the gateway closes; the ledger knows of them whatever becomes of them. */
export const CLOSE_MS = 90_000;

export interface PaymentService {
  readonly ref: Ref<PaymentCommand>;
  readonly metrics: PaymentMetrics;
  /** Waits for what is under way. */
  readonly close: () => Promise<void>;
}

/** Null where payments are off. Throws a `MerchantConfigError` for settings that contradict each other. */
export function startPayments(deps: PaymentServiceDeps): PaymentService | null {
  const { clock, dateMs, ledger, log, settings, system } = deps;
  const { facilitator: url, facilitatorHeaders, maxPurchase, payTo, rpc, unpaid, unpaidPerPayer } = settings;
  if (url === null || payTo === null) return null;
  const merchant = readMerchantConfig(merchantSettingsOf(settings, payTo));
  const headers = Object.fromEntries(
    Object.entries(facilitatorHeaders).map(([name, value]) => [name.toLowerCase(), value]),
  );
  const facilitator = new Facilitator({ url, headers }, clock);
  const node = rpc === null ? null : new Chain({ url: rpc }, merchant.chain, clock);
  const chain = node === null ? null : { find: (transfer: SignedTransfer) => lookedUp(log, node.find(transfer)) };
  const metrics = new PaymentMetrics();
  const behavior = paymentProcessor({
    ledger,
    facilitator,
    chain,
    merchant,
    dateMs,
    metrics,
    settings: { maxPurchase: BigInt(picoPerCall(maxPurchase)), unpaid, unpaidPerPayer },
    onDefect: (error) => log.error({ err: error }, 'payment processing failed'),
    onRound: (round) => logRound(log, round),
  });
  const ref = system.spawn(behavior, { name: 'payments', mailbox: MAILBOX });
  Promise.resolve(ledger).then(
    () => ref.tell({ type: 'Recover', replyTo: null }),
    // Commands that need the ledger say so.
    () => undefined,
  );
  return {
    ref,
    metrics,
    async close() {
      const drained = ask<PaymentCommand, null>(ref, (replyTo) => ({ type: 'Drain', replyTo }), {
        timeoutMs: CLOSE_MS,
      });
      await drained.catch((error: unknown) => log.error({ err: error }, 'payments under way may stay open'));
      facilitator.close();
      node?.close();
    },
  };
}

function merchantSettingsOf(settings: Settings['payments'], payTo: string): MerchantSettings {
  const { asset: address, assetDecimals: decimals, assetName: name, assetVersion: version, network } = settings;
  if (address === null) return { network, payTo };
  return { network, payTo, asset: { address, version, decimals, ...(name === null ? {} : { name }) } };
}

async function lookedUp(log: Log, finding: Promise<TransferState>): Promise<TransferState> {
  const seen = await finding;
  if (seen.kind === 'unknown') log.warn({ problem: seen.problem }, 'a payment could not be looked up on the chain');
  return seen;
}

function logRound(log: Log, { closed, expired, open, posted }: RecoveryRound): void {
  if (posted > 0) log.warn({ posted, open }, 'money of open payments has arrived and has become credit');
  if (closed > 0) log.info({ closed, open }, 'open payments have moved no money and are closed');
  if (expired > 0) log.info({ expired }, 'payments that were never settled have expired');
}
