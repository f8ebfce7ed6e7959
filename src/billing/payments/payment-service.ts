// Payments of the whole gateway: the till, the facilitator, the cashier over the ledger, and the actor all threads ask.
// Lives in the control plane, beside the ledger, which must stay open until it has closed.

import { ask, type Clock, type Ref, type System } from '../../actor/index.ts';
import { PaymentProcessor, type PaymentProcessorSettings, type Payments } from './payment-processor.ts';
import { Facilitator } from './facilitator.ts';
import type { Ledger } from '../ledger/store.ts';
import { readMerchantConfig, type MerchantSettings } from './merchant-config.ts';
import { picoPerCall } from '../prices.ts';
import type { Round } from './recovery.ts';
import type { Settings } from '../../config/settings.ts';
import type { Log } from '../../telemetry/log.ts';
import { type PaymentCommand, payments } from './payment-actor.ts';

export interface PaymentServiceOptions {
  readonly system: System;
  /** Who asks before it is open waits for it. */
  readonly ledger: Ledger | Promise<Ledger>;
  readonly settings: Settings['payments'];
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly dateMs: () => number;
  readonly log: Log;
}

/** Requests that may wait for the actor: far more than clients there are. */
const MAILBOX = { capacity: 65_536, overflow: 'drop-new' } as const;

/** A settlement that is under way at the end gets so long; the ledger knows of it whatever becomes of it. */
const CLOSE_MS = 45_000;

export class PaymentService {
  readonly ref: Ref<PaymentCommand>;
  readonly #paymentProcessor: Promise<PaymentProcessor>;
  readonly #facilitator: Facilitator;
  #closed = false;

  /** Throws a `MerchantConfigError` for settings that cannot be. */
  constructor({ clock, dateMs, ledger, log, settings, system }: PaymentServiceOptions, url: string, payTo: string) {
    const merchant = readMerchantConfig(merchantSettingsOf(settings, payTo));
    const headers = lowered(settings.facilitatorHeaders);
    this.#facilitator = new Facilitator({ url, headers }, clock);
    const rules: PaymentProcessorSettings = { maxPurchase: BigInt(picoPerCall(settings.maxPurchase)) };
    const parts = { facilitator: this.#facilitator, merchant, dateMs, clock };
    this.#paymentProcessor = Promise.resolve(ledger).then((opened) => {
      const paymentProcessor = new PaymentProcessor({ ...parts, ledger: opened }, rules);
      if (!this.#closed) paymentProcessor.start((round) => logRound(log, round));
      return paymentProcessor;
    });
    // Heard by everybody who asks.
    this.#paymentProcessor.catch(() => undefined);
    const onDefect = (error: unknown): void => log.error({ err: error }, 'a payment could not be written down');
    const service = deskOf(this.#paymentProcessor);
    this.ref = system.spawn(payments({ service, onDefect }), { name: 'payments', mailbox: MAILBOX });
  }

  /** Waits for what is under way. The ledger may be closed once it resolves. */
  async close(): Promise<void> {
    this.#closed = true;
    const paymentProcessor = await this.#paymentProcessor.catch(() => null);
    await paymentProcessor?.stop();
    await ask<PaymentCommand, null>(this.ref, (replyTo) => ({ type: 'Drain', replyTo }), {
      timeoutMs: CLOSE_MS,
    }).catch(() => null);
    this.#facilitator.close();
  }
}

/** The service, or null where payments are off. */
export function startPayments(options: PaymentServiceOptions): PaymentService | null {
  const { facilitator, payTo } = options.settings;
  return facilitator === null || payTo === null ? null : new PaymentService(options, facilitator, payTo);
}

function deskOf(paymentProcessor: Promise<PaymentProcessor>): Payments {
  return {
    purchase: async (request) => await (await paymentProcessor).purchase(request),
    begin: async (request) => await (await paymentProcessor).begin(request),
    settle: async (ticket) => await (await paymentProcessor).settle(ticket),
    cancel: async (ticket) => await (await paymentProcessor).cancel(ticket),
    refund: async (ticket) => await (await paymentProcessor).refund(ticket),
  };
}

function merchantSettingsOf(settings: Settings['payments'], payTo: string): MerchantSettings {
  const { asset: address, assetDecimals: decimals, assetName: name, assetVersion: version, network } = settings;
  if (address === null) return { network, payTo };
  return { network, payTo, asset: { address, version, decimals, ...(name === null ? {} : { name }) } };
}

function lowered(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function logRound(log: Log, round: Round | Error): void {
  if (round instanceof Error) log.error({ err: round }, 'payments left half done could not be looked at');
  else if (round.booked > 0) log.warn({ ...round }, 'payments left half done have become credit');
  else if (round.expired > 0) log.info({ ...round }, 'payments that were never settled have expired');
}
