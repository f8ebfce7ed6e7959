// Sends the events of the ledger to the endpoints of the configuration, as Standard Webhooks describes: signed with HMAC-SHA256 over
// id, time and body, at least once, with backoff until an endpoint accepts. One process of a store sends, the one with the lease.
// Connections pass the guard against private addresses. Secrets and bodies are never logged.

import { createHmac } from 'node:crypto';
import type { Clock, TimerHandle } from '../actor/index.ts';
import { type Ledger, printUsd, type WebhookDelivery, type WebhookOutcome } from '../billing/index.ts';
import { isServed, OPEN_PAYMENT } from '../billing/main-thread.ts';
import type { Settings } from '../config/settings.ts';
import { HeadraceError, messageOf } from '../errors.ts';
import { createGuard, GuardedClient } from '../fetch/main-thread.ts';
import { joinedSignal } from '../net/abortable.ts';
import type { Log } from '../telemetry/log.ts';
import { RecurringProblem } from '../telemetry/recurring-problem.ts';

export type WebhookSettings = Settings['webhooks'];

export interface WebhookSenderOptions {
  readonly settings: WebhookSettings;
  /** Null while it is opening. */
  readonly ledger: () => Ledger | null;
  /** Tells this process from the others of the store. */
  readonly instance: string;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  readonly random: () => number;
  readonly log: Log;
}

/** Interval at which events and due deliveries are looked for. */
const TICK_MS = 1000;

/** The lease on sending outlives some failed renewals. */
const LEASE_MS = 30_000;
const RENEW_MS = 10_000;

/** Interval at which open payments are looked for, old events are removed, and deliveries that were put off too far are recalled. */
const CHORES_MS = 30_000;

/** A payment whose settlement has been unknown for so long is reported as open. */
const OPEN_PAYMENT_MS = 60_000;

/** Deliveries to one endpoint at once. */
const CONCURRENCY = 4;

/** Of an answer as on the wire. Nothing of it counts but its status. */
const MAX_ANSWER_BYTES = 1_048_576;

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** Pauses after failed attempts, as Standard Webhooks recommends them; then a delivery is given up, after three days. */
const BACKOFF_MS: readonly number[] = [
  5000,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];

/** Share of a pause that is drawn at random, so that endpoints that return are not met all at once. */
const JITTER = 0.2;

const LONGEST_PAUSES_MS: readonly number[] = BACKOFF_MS.map((pauseMs) => pauseMs * (1 + JITTER / 2));

const SECRET_PREFIX = 'whsec_';

/** Value of `webhook-signature`. `secrets`: one, or several with blanks between them while they are changed. */
export function webhookSignature(secrets: string, id: string, timestampS: number, body: string): string {
  return secrets
    .split(/\s+/)
    .map((secret) => {
      const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64');
      return `v1,${createHmac('sha256', key).update(`${id}.${timestampS}.${body}`).digest('base64')}`;
    })
    .join(' ');
}

/** What the endpoints of the present settings are reached by. */
interface Connection {
  readonly client: GuardedClient;
  readonly guard: ReturnType<typeof createGuard>;
}

export class WebhookSender {
  readonly #options: WebhookSenderOptions;
  readonly #inFlight = new Map<string, Promise<void>>();
  readonly #closing = new AbortController();
  #settings: WebhookSettings;
  #connection: Connection;
  #timer: TimerHandle | null = null;
  #ticking: Promise<void> | null = null;
  readonly #ticks: RecurringProblem;
  /** Whether this process has the lease on sending. */
  #leads = false;
  #renewAtMs = 0;
  #choresAtMs = 0;

  constructor(options: WebhookSenderOptions) {
    this.#options = options;
    this.#settings = options.settings;
    const { clock, log } = options;
    this.#ticks = new RecurringProblem('webhooks could not be read from the store', {
      clock: () => clock,
      onProblem: (error, what) => log.warn({ problem: messageOf(error) }, what),
      onOver: (what) => log.info(what),
    });
    this.#connection = this.#open();
    this.#arm();
  }

  /** Takes over other endpoints. Deliveries under way go on. */
  configure(settings: WebhookSettings): void {
    if (JSON.stringify(settings) === JSON.stringify(this.#settings)) return;
    this.#settings = settings;
    const { client } = this.#connection;
    this.#connection = this.#open();
    void Promise.allSettled(this.#inFlight.values()).then(() => client.close());
  }

  /** Ends deliveries under way, which another process repeats, and gives the lease up. */
  async close(): Promise<void> {
    this.#closing.abort();
    if (this.#timer !== null) this.#options.clock.clearTimeout(this.#timer);
    await this.#ticking;
    await Promise.allSettled(this.#inFlight.values());
    await this.#connection.client.close();
    if (this.#leads)
      await this.#options
        .ledger()
        ?.webhooks.resign(this.#options.instance)
        .catch(() => undefined);
  }

  #open(): Connection {
    const { allow, endpoints, timeoutMs } = this.#settings;
    const { clock } = this.#options;
    // An endpoint may be on any port: operators name it, not strangers.
    const ports = Object.values(endpoints).map(({ url }) => portOf(new URL(url)));
    const guard = createGuard({ allow, ports });
    const client = new GuardedClient({
      guard,
      clock,
      timeoutMs,
      firstByteTimeoutMs: timeoutMs,
      maxWireBytes: MAX_ANSWER_BYTES,
      // Endpoints may have one origin: those that do not answer must not keep others waiting for a connection.
      connections: CONCURRENCY * Math.max(ports.length, 1),
    });
    return { client, guard };
  }

  #arm(): void {
    const { clock } = this.#options;
    this.#timer = clock.setTimeout(() => {
      this.#ticking = this.#tick()
        .then(() => this.#ticks.succeeded())
        .catch((error: unknown) => this.#ticks.failed(error))
        .finally(() => {
          if (!this.#closing.signal.aborted) this.#arm();
        });
    }, TICK_MS);
  }

  async #tick(): Promise<void> {
    const { clock, instance } = this.#options;
    const ledger = this.#options.ledger();
    const names = Object.keys(this.#settings.endpoints);
    if (ledger === null || this.#closing.signal.aborted) return;
    const nowMs = clock.now();
    if (nowMs >= this.#renewAtMs) {
      this.#leads = false;
      this.#leads = await ledger.webhooks.lead(instance, LEASE_MS);
      this.#renewAtMs = nowMs + RENEW_MS;
    }
    if (!this.#leads) return;
    if (nowMs >= this.#choresAtMs) {
      this.#choresAtMs = nowMs + CHORES_MS;
      await this.#doChores(ledger);
    }
    if (names.length === 0) return;
    await ledger.webhooks.fanOut((type) => this.#endpointsOf(type));
    // What is under way now may end before the answer comes, which would show it as due still.
    const busy = new Set(this.#inFlight.keys());
    for (const delivery of await ledger.webhooks.due(names, CONCURRENCY * 2)) {
      if (!busy.has(nameOf(delivery))) this.#send(ledger, delivery);
    }
  }

  #endpointsOf(type: string): string[] {
    return Object.entries(this.#settings.endpoints)
      .filter(([, { events }]) => (events as readonly string[]).includes(type))
      .map(([name]) => name);
  }

  async #doChores(ledger: Ledger): Promise<void> {
    for (const payment of await ledger.paymentsIn('submitted')) {
      const nowMs = ledger.dateMs();
      // A date in the future is of a clock that was ahead.
      if (Math.abs(nowMs - payment.changedMs) < OPEN_PAYMENT_MS || isServed(payment, nowMs)) continue;
      const { amount, id, network, payer } = payment;
      const data = { payment: id, network, payer, amount_usd: printUsd(amount) };
      await ledger.webhooks.emit({ type: 'payment.open', account: payer, id: OPEN_PAYMENT + id, data });
    }
    const { endpoints, retentionMs } = this.#settings;
    // An endpoint that is added later gets what happens from then on.
    if (Object.keys(endpoints).length === 0) await ledger.webhooks.fanOut(() => []);
    await ledger.webhooks.prune(retentionMs, Object.keys(endpoints));
    await ledger.webhooks.recall(Object.keys(endpoints), LONGEST_PAUSES_MS);
  }

  #send(ledger: Ledger, delivery: WebhookDelivery): void {
    const name = nameOf(delivery);
    const running = [...this.#inFlight.keys()].filter((each) => endpointOf(each) === delivery.endpoint).length;
    if (running >= CONCURRENCY) return;
    const { log } = this.#options;
    const sending = this.#attempt(delivery)
      .then(async (outcome) => {
        if (outcome === null) return;
        const { message, endpoint, type } = delivery;
        const { result, state } = outcome;
        if (state !== 'delivered') log.warn({ message, endpoint, type, result, state }, 'a webhook was not accepted');
        await ledger.webhooks.attempted(delivery, outcome);
      })
      .catch((error: unknown) =>
        log.warn({ problem: messageOf(error) }, 'the outcome of a webhook could not be recorded; it is sent again'),
      )
      .finally(() => this.#inFlight.delete(name));
    this.#inFlight.set(name, sending);
  }

  /** Null: the process closes, and the delivery stays due. */
  async #attempt(delivery: WebhookDelivery): Promise<WebhookOutcome | null> {
    const { epochMs } = this.#options;
    const endpoint = this.#settings.endpoints[delivery.endpoint];
    const { client, guard } = this.#connection;
    if (endpoint === undefined) return null;
    const { message, type } = delivery;
    const data = { account: delivery.account, ...delivery.data };
    const body = JSON.stringify({ type, timestamp: new Date(delivery.dateMs).toISOString(), data });
    const timestampS = Math.floor(epochMs() / 1000);
    const headers = {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      'user-agent': 'headrace-webhooks',
      'webhook-id': message,
      'webhook-timestamp': String(timestampS),
      'webhook-signature': webhookSignature(endpoint.secret, message, timestampS, body),
    };
    const timeout = AbortSignal.timeout(this.#settings.timeoutMs);
    const { release, signal } = joinedSignal(this.#closing.signal, timeout);
    try {
      const response = await client.post(guard.admit(endpoint.url), headers, body, signal);
      // Receivers answer with nothing of use; the connection ends with what they say.
      response.close();
      return this.#judge(delivery, response.status);
    } catch (error) {
      if (this.#closing.signal.aborted) return null;
      return this.#again(delivery, timeout.aborted ? 'timeout' : reasonOf(error));
    } finally {
      release();
    }
  }

  #judge(delivery: WebhookDelivery, status: number): WebhookOutcome {
    const result = `HTTP ${status}`;
    if (status >= 200 && status < 300) return { state: 'delivered', pauseMs: 0, result };
    // The receiver is gone for good (Standard Webhooks).
    if (status === 410) return { state: 'failed', pauseMs: 0, result };
    return this.#again(delivery, result);
  }

  #again({ attempts }: WebhookDelivery, result: string): WebhookOutcome {
    const pauseMs = BACKOFF_MS[attempts];
    if (pauseMs === undefined) return { state: 'failed', pauseMs: 0, result };
    return { state: 'pending', pauseMs: pauseMs * (1 - JITTER / 2 + this.#options.random() * JITTER), result };
  }
}

function nameOf({ endpoint, message }: WebhookDelivery): string {
  return `${message} ${endpoint}`;
}

/** Names of endpoints may hold blanks, ids of messages do not. */
function endpointOf(name: string): string {
  return name.slice(name.indexOf(' ') + 1);
}

function portOf({ port, protocol }: URL): number {
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
}

function reasonOf(error: unknown): string {
  return error instanceof HeadraceError ? error.subject || error.code : 'connection failed';
}
