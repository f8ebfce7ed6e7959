// A payment processor over a ledger and the test facilitator, with a payer that has money.

import { ask, type Ref } from '../../../src/actor/index.ts';
import { type ManualClock, systemClock } from '../../../src/actor/clock.ts';
import { createTestSystem } from '../../../src/actor/testkit.ts';
import { Chain } from '../../../src/billing/payments/chain.ts';
import { Facilitator } from '../../../src/billing/payments/facilitator.ts';
import { readMerchantConfig, type MerchantConfig } from '../../../src/billing/payments/merchant-config.ts';
import { PaymentClient } from '../../../src/billing/payments/payment-client.ts';
import type { CallRequest, PaymentCommand, PurchaseRequest } from '../../../src/billing/payments/payment-commands.ts';
import { paymentProcessor, type PaymentProcessorDeps } from '../../../src/billing/payments/payment-processor.ts';
import type { RecoveryRound } from '../../../src/billing/payments/settlement.ts';
import type { Ledger } from '../../../src/billing/ledger/ledger.ts';
import { type FacilitatorOptions, TestFacilitator } from '../../support/facilitator.ts';
import { TestChain } from '../../support/chain.ts';
import { headerV1, Payer, type Wanted, type Wish } from '../../support/payer.ts';
import { openStore, START_MS, type StoreName } from '../ledger/stores.ts';

type Settings = PaymentProcessorDeps['settings'];

export const START_S: number = START_MS / 1000;
export const PAY_TO = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C';
export const MERCHANT: MerchantConfig = readMerchantConfig({ network: 'base-sepolia', payTo: PAY_TO });
export const RESOURCE = 'http://headrace.test/svc/credits';
export const BUYER = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed';
export const ACCOUNT: string = BUYER.toLowerCase();

/** What the payer starts with: 10,000 USD. */
export const FUNDS = 10_000_000_000n;

/** A client whose calls resolve when the processor has done with them, on a clock that stands still. */
export class TestProcessor extends PaymentClient {
  /** Failures of the ledger. */
  readonly defects: unknown[];
  readonly #processor: Ref<PaymentCommand>;

  readonly clock: ManualClock;

  static start(deps: Omit<PaymentProcessorDeps, 'onDefect' | 'onRound'>): TestProcessor {
    const { clock, system } = createTestSystem();
    const defects: unknown[] = [];
    const onDefect = (error: unknown): void => void defects.push(error);
    const processor = system.spawn(paymentProcessor({ ...deps, onDefect, onRound: () => undefined }));
    return new TestProcessor(system, processor, defects, clock);
  }

  private constructor(
    system: ReturnType<typeof createTestSystem>['system'],
    ref: Ref<PaymentCommand>,
    defects: unknown[],
    clock: ManualClock,
  ) {
    super(system, ref, 'test');
    this.#processor = ref;
    this.defects = defects;
    this.clock = clock;
  }

  /** Delivers, and resolves when that is posted. */
  async delivered(ticket: string): Promise<void> {
    this.deliver(ticket);
    await this.drained();
  }

  /** Cancels, and resolves when that is posted. */
  async cancelled(ticket: string): Promise<void> {
    this.cancel(ticket);
    await this.drained();
  }

  /** One recovery round. */
  async recover(): Promise<RecoveryRound> {
    const round = await this.#ask<RecoveryRound | null>((replyTo) => ({ type: 'Recover', replyTo }));
    if (round === null) throw this.defects.at(-1);
    return round;
  }

  drained(): Promise<null> {
    return this.#ask((replyTo) => ({ type: 'Drain', replyTo }));
  }

  #ask<T>(command: (replyTo: Ref<T>) => PaymentCommand): Promise<T> {
    return ask(this.#processor, command, { timeoutMs: 60_000 });
  }
}

/** An unanswered settlement is left open at once. */
export const NO_REPEATS = { repeats: 0 } as const;

export interface PaymentFixture {
  readonly facilitator: TestFacilitator;
  /** The chain on which the facilitator moves money; processors ask it with the option `rpc`. */
  readonly chain: TestChain;
  readonly ledger: Ledger;
  readonly payer: Payer;
  readonly paymentProcessor: TestProcessor;
  readonly url: string;
  pass(ms: number): void;
  /** Sets the wall clock of the processors, and not that of the chain. */
  setClock(ms: number): void;
  /** Another processor on the same store and facilitator, as another process has it. `change`: of its ledger. */
  other(settings?: Settings, change?: (ledger: Ledger) => Ledger): Promise<TestProcessor>;
  /** A header for an offer of so many units, by `payer` unless another one is given. */
  header(units: bigint | number, wish?: Partial<Wish> & { readonly payer?: Payer }): string;
}

export interface FixtureOptions extends Partial<FacilitatorOptions> {
  readonly store?: StoreName;
  readonly settings?: Settings;
  readonly settleTimeoutMs?: number;
  /** Processors may ask the chain. Default false. */
  readonly rpc?: boolean;
}

export function wanted(units: bigint | number): Wanted {
  return { maxAmountRequired: `${units}`, payTo: PAY_TO, network: 'base-sepolia' };
}

export async function openPaymentFixture(
  t: Parameters<typeof openStore>[0],
  options: FixtureOptions = {},
): Promise<PaymentFixture> {
  const { rpc = false, settings = NO_REPEATS, settleTimeoutMs = 5000, store = 'sqlite' } = options;
  const opened = await openStore(t, store);
  const { ledger, url } = opened;
  let passedMs = 0;
  let aheadMs = 0;
  const nowS = (): number => START_S + Math.floor(passedMs / 1000);
  const node = await new TestChain(nowS).listen();
  const facilitator = await new TestFacilitator({ nowS, chain: node, ...options }).listen();
  t.teardown(() => {
    node.close();
    facilitator.close();
  });
  const payer = new Payer(7n);
  facilitator.fund(payer.address, FUNDS);
  const open = (over: Ledger, with_: Settings): TestProcessor => {
    const client = new Facilitator({ url: facilitator.url, settleTimeoutMs }, systemClock);
    const chain = rpc ? new Chain({ url: node.url, timeoutMs: 1000 }, MERCHANT.chain, systemClock) : null;
    t.teardown(() => {
      client.close();
      chain?.close();
    });
    const dateMs = (): number => START_MS + passedMs + aheadMs;
    const more = with_ === undefined ? {} : { settings: with_ };
    return TestProcessor.start({ ledger: over, facilitator: client, chain, merchant: MERCHANT, dateMs, ...more });
  };
  let nonce = 0;
  return {
    facilitator,
    chain: node,
    ledger,
    payer,
    url,
    paymentProcessor: open(ledger, settings),
    other: async (more = settings, change = (one) => one) => open(change(await opened.again()), more),
    pass(ms) {
      passedMs += ms;
      opened.pass(ms);
    },
    setClock(ms) {
      aheadMs += ms;
      opened.pass(ms);
    },
    header: (units, { payer: by = payer, ...wish } = {}) =>
      headerV1(by, wanted(units), { nonce: ++nonce, nowS: nowS(), ...wish }),
  };
}

export function call(payment: string | undefined, more: Partial<CallRequest> = {}): CallRequest {
  return {
    price: 20_000_000_000n,
    resource: 'http://headrace.test/v1/chat/completions',
    description: 'One answer of m',
    digest: 'd',
    usage: { key: null, model: 'm', inputTokens: 10, cachedTokens: 0, outputTokens: 100, measured: false },
    payment,
    ...more,
  };
}

/** The price of `call` in units. */
export const CALL_UNITS = 20_000n;

export const PICO_PER_UNIT = 1_000_000n;

export function buying(payment: string | undefined, more: Partial<PurchaseRequest> = {}): PurchaseRequest {
  return { address: BUYER, amount: 5, resource: RESOURCE, payment, ...more };
}

/** What the answer of a purchase or call is, in a word. */
export function word(answer: { kind: string; offer?: { reason: string }; code?: string }): string {
  return answer.offer?.reason ?? answer.code ?? answer.kind;
}

/** Serves a request to its end; resolves with its ticket, or with why it was not served. */
export async function serve(processor: TestProcessor, request: CallRequest): Promise<string> {
  const begun = await processor.begin(request);
  if (begun.kind !== 'ticket') return word(begun);
  const paid = await processor.settle(begun.ticket);
  if (paid.kind !== 'paid') return word(paid);
  await processor.delivered(begun.ticket);
  return 'served';
}

/** Makes one call of a ledger fail, until what it returns is called. */
export function failing(ledger: Ledger, name: keyof Ledger, error: Error): () => void {
  const real: unknown = Reflect.get(ledger, name);
  Object.assign(ledger, { [name]: () => Promise.reject(error) });
  return () => void Object.assign(ledger, { [name]: real });
}

/** Throws unless what moved was posted, once, and the ledger balances. Resolves with the units that moved. */
export async function balances({ facilitator, ledger, payer }: PaymentFixture): Promise<bigint> {
  const wrong = [...(await ledger.audit()).problems];
  const nonces = facilitator.transfers.map(({ from, nonce }) => `${from}${nonce}`);
  if (new Set(nonces).size !== nonces.length) wrong.push('a nonce has moved money twice');
  const moved = facilitator.transfers.reduce((sum, { value }) => sum + value, 0n);
  if (facilitator.balance(payer.address) !== FUNDS - moved) wrong.push('the token does not balance');
  let booked = 0n;
  for (const { id } of await ledger.listAccounts()) {
    for (const entry of await ledger.history({ account: id, limit: 1000 })) {
      if (entry.kind !== 'payment') continue;
      booked += (await ledger.findPayment(entry.id.slice('payment:'.length)))?.amount ?? 0n;
    }
  }
  if (booked !== moved * PICO_PER_UNIT) wrong.push(`${moved} units moved, ${booked} pico-USD are posted`);
  if (wrong.length > 0) throw new Error(wrong.join('; '));
  return moved;
}
