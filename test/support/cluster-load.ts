// Load on several gateways, whose every answer is checked: status, regular end, and the number of tokens that was asked for. Requests
// go through a balancer inside the clients, as balancers with active health checks work: /health of each gateway is asked every
// 100 ms, new requests go in turn to those that are ready, and one that cannot be connected to is passed over. A request that has
// been sent is never sent again.

import { Agent, request as send, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask, type Cluster, type Customer, CUSTOMERS, type GatewayService } from './cluster.ts';
import { priceOf } from './ledger-fixture.ts';
import { MODEL } from './system.ts';

/** How often readiness is asked for, and how long it may take, in milliseconds. */
const CHECK_MS = 100;
const CHECK_TIMEOUT_MS = 500;

/** How long a client waits for a complete answer, in milliseconds: longer than any fault lasts. */
const PATIENCE_MS = 45_000;

/** How long requests wait for a gateway that is ready before they count as failed, in milliseconds. */
const NO_GATEWAY_MS = 5000;

/** Pause of a client that was refused by a limit, in milliseconds. */
const REFUSED_PAUSE_MS = 150;

/** For how long a gateway keeps the lease of an account that it does not serve, in milliseconds, at least. */
const LEASE_MS = 5000;

/** Window in which limits are checked, in milliseconds: answers begin somewhat later than their requests are admitted. */
const LIMIT_WINDOW_MS = 59_000;

/** Clients read the end of an answer so late at most, in milliseconds: what overlaps for less may not have run at the same time. */
const READ_LATE_MS = 50;

/** What a stream ends with whose host is gone. */
const BROKEN_STREAM = 'incomplete: HR_STREAM_BROKEN in the stream';

/** Clients of each account. Those with a limit ask for more than they may have. */
const CLIENTS: Readonly<Record<string, number>> = {
  'by-running': 5,
  'by-requests': 2,
  'by-tokens': 1,
  'by-spending': 1,
};
const CLIENTS_WITHOUT_LIMITS = 2;

const LENGTHS = [3, 8, 20, 60, 8, 3, 20, 120];

/** Prompts that share their beginning, as those of one application do. */
const TEXTS: readonly string[] = Array.from(
  { length: 8 },
  (_, at) =>
    `${'The mill stands at the weir of the upper headrace. '.repeat(20)} Question ${at}: where does the water go?`,
);

/** Work of one account that clients have seen from beginning to end. */
export interface Work {
  requests: number;
  promptTokens: number;
  completionTokens: number;
  amount: bigint;
}

interface Admitted {
  readonly beganMs: number;
  readonly tokens: number;
}

/** A complete answer. */
interface Completion {
  readonly account: string;
  readonly gateway: GatewayService;
  readonly endedMs: number;
}

/** A request under way. */
interface Underway {
  gateway: GatewayService | null;
  readonly sentMs: number;
}

class LoadError extends Error {}

/** A gateway as the balancer sees it. */
class Target {
  readonly gateway: GatewayService;
  readonly agent: Agent = new Agent({ keepAlive: true, maxFreeSockets: 64 });
  isReady = true;
  /** When it was killed last, in milliseconds of `performance.now`. */
  killedMs = -Infinity;
  /** When the balancer saw for the first time that it was dead. */
  noticedMs = -Infinity;
  /** When the last request that was answered completely was sent. */
  answeredMs = -Infinity;
  /** When it has served an account last since its start, in milliseconds. */
  readonly servedMs = new Map<string, number>();

  constructor(gateway: GatewayService) {
    this.gateway = gateway;
  }

  hasLease(account: string): boolean {
    return performance.now() - (this.servedMs.get(account) ?? -Infinity) < LEASE_MS;
  }

  notice(): void {
    this.servedMs.clear();
    this.noticedMs = Math.min(this.noticedMs, performance.now());
  }
}

export class ClusterLoad {
  readonly #cluster: Cluster;
  readonly #targets: readonly Target[];
  readonly #promptTokens = new Map<string, number>();
  readonly #running: Promise<void>[] = [];
  readonly #admitted = new Map<string, Admitted[]>();
  readonly #live = new Set<Underway>();
  readonly work: Map<string, Work> = new Map();
  readonly #completions: Completion[] = [];
  /** Failed requests by reason; those in flight on a gateway that was killed are in `lost`. */
  readonly failures: Map<string, number> = new Map();
  /** Requests in flight on a gateway that was killed, by account. */
  readonly lost: Map<string, number> = new Map();
  readonly refusals: Map<string, number> = new Map();
  /** Times to the first byte of streams, in milliseconds. */
  readonly firstByteMs: number[] = [];
  sent = 0;
  /** Whether PostgreSQL is stopped, or starts. */
  ledgerIsAway = false;
  #next = 0;
  #isOver = false;
  #hostKilledMs = -Infinity;
  /** Streams of the account with a limit of running requests. */
  readonly #ran: { readonly beganMs: number; readonly endedMs: number }[] = [];

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.#targets = cluster.gateways.map((gateway) => new Target(gateway));
    for (const { account } of CUSTOMERS) {
      this.work.set(account, { requests: 0, promptTokens: 0, completionTokens: 0, amount: 0n });
      this.#admitted.set(account, []);
    }
  }

  /** Learns from a host how many tokens each prompt has. Its work counts in the truth of the hosts. */
  async learn(): Promise<void> {
    const [host] = this.#cluster.hosts;
    for (const text of TEXTS) {
      const response = await fetch(`http://${host!.address}:${host!.port}/v1/chat/completions`, {
        method: 'POST',
        headers: { connection: 'close' },
        body: bodyOf(text, 1, false, false),
      });
      const { usage } = (await response.json()) as { usage: { prompt_tokens: number } };
      this.#promptTokens.set(text, usage.prompt_tokens);
    }
  }

  start(): void {
    for (const target of this.#targets) this.#running.push(this.#watch(target));
    for (const customer of CUSTOMERS) {
      const clients = CLIENTS[customer.account] ?? CLIENTS_WITHOUT_LIMITS;
      for (let index = 0; index < clients; index++) this.#running.push(this.#client(customer, index));
    }
  }

  /** Ends when all answers under way are complete. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#running);
    for (const { agent } of this.#targets) agent.destroy();
  }

  /** To be called just before a gateway is killed: what it has in flight is lost, not failed. */
  kills(gateway: GatewayService): void {
    const target = this.#target(gateway);
    target.killedMs = performance.now();
    target.noticedMs = Infinity;
  }

  /** To be called just before a host is killed: streams that break off on it are lost, not failed. */
  killsHost(): void {
    this.#hostKilledMs = performance.now();
  }

  /** Whether each gateway has answered a request that was sent after `sinceMs`. */
  hasAnsweredSince(sinceMs: number): boolean {
    return this.#targets.every(({ answeredMs }) => answeredMs > sinceMs);
  }

  get failed(): number {
    return sum(this.failures.values());
  }

  get lostRequests(): number {
    return sum(this.lost.values());
  }

  /** Complete answers of a gateway that ended in a span of `performance.now`, by account. */
  endedBetween(gateway: GatewayService, fromMs: number, toMs: number): Map<string, number> {
    const counts = new Map<string, number>();
    for (const each of this.#completions) {
      if (each.gateway === gateway && each.endedMs >= fromMs && each.endedMs <= toMs + CHECK_MS)
        counts.set(each.account, (counts.get(each.account) ?? 0) + 1);
    }
    return counts;
  }

  /** By how much each limit of a key was exceeded: requests, tokens, running requests. */
  overshoot(): { readonly requests: number; readonly tokens: number; readonly running: number } {
    const most = (account: string, weight: (admitted: Admitted) => number): number => {
      const all = [...this.#admitted.get(account)!].sort((a, b) => a.beganMs - b.beganMs);
      let [first, inside, highest] = [0, 0, 0];
      for (const admitted of all) {
        inside += weight(admitted);
        while (all[first]!.beganMs < admitted.beganMs - LIMIT_WINDOW_MS) inside -= weight(all[first++]!);
        highest = Math.max(highest, inside);
      }
      return highest;
    };
    const limit = (account: string): number =>
      Object.values(CUSTOMERS.find((customer) => customer.account === account)!.limits)[0] as number;
    const over = (account: string, measured: number): number => Math.max(0, measured - limit(account));
    return {
      requests: over(
        'by-requests',
        most('by-requests', () => 1),
      ),
      tokens: over(
        'by-tokens',
        most('by-tokens', ({ tokens }) => tokens),
      ),
      running: over('by-running', this.#mostRunning()),
    };
  }

  #mostRunning(): number {
    const edges = this.#ran
      .filter(({ beganMs, endedMs }) => endedMs > beganMs)
      .flatMap(({ beganMs, endedMs }) => [
        { atMs: beganMs, change: 1 },
        { atMs: endedMs, change: -1 },
      ])
      .sort((a, b) => a.atMs - b.atMs || a.change - b.change);
    let [running, most] = [0, 0];
    for (const { change } of edges) most = Math.max(most, (running += change));
    return most;
  }

  #target(gateway: GatewayService): Target {
    return this.#targets.find((target) => target.gateway === gateway)!;
  }

  async #watch(target: Target): Promise<void> {
    while (!this.#isOver || this.#live.size > 0) {
      const answer = await ask(target.gateway, '/health', CHECK_TIMEOUT_MS).catch(() => null);
      target.isReady = answer?.status === 200;
      if (!target.isReady) target.notice();
      await sleep(CHECK_MS);
    }
  }

  async #client(customer: Customer, index: number): Promise<void> {
    for (let count = index; !this.#isOver; count++) {
      // Only of streams a client sees when they begin and end, which a limit of running requests is checked with.
      const isStream = customer.limits.runningRequests !== undefined || count % 3 !== 0;
      const text = TEXTS[count % TEXTS.length]!;
      const tokens = LENGTHS[(count * 3 + index) % LENGTHS.length]!;
      const underway: Underway = { gateway: null, sentMs: performance.now() };
      this.sent++;
      this.#live.add(underway);
      try {
        const isServed = await this.#exchange(customer, underway, text, tokens, isStream, count % 2 === 0);
        if (!isServed) await sleep(REFUSED_PAUSE_MS);
      } catch (error) {
        this.#fail(customer, underway, error as Error & { code?: string });
        await sleep(CHECK_MS);
      } finally {
        this.#live.delete(underway);
      }
    }
  }

  #fail(customer: Customer, underway: Underway, error: Error & { code?: string }): void {
    const target = underway.gateway === null ? null : this.#target(underway.gateway);
    const reason = error instanceof LoadError ? error.message : (error.code ?? error.message);
    const isBroken = !(error instanceof LoadError) || error.message.startsWith('incomplete');
    // Until the balancer has seen that the gateway is dead it sends requests over connections that are not there any more.
    const isLost = target !== null && performance.now() > target.killedMs && underway.sentMs <= target.noticedMs;
    // A stream that has begun cannot move to another host.
    const isCut = error.message === BROKEN_STREAM && underway.sentMs < this.#hostKilledMs;
    if ((isLost && isBroken) || isCut) {
      this.lost.set(customer.account, (this.lost.get(customer.account) ?? 0) + 1);
      return;
    }
    const place = underway.gateway?.program.name ?? 'no gateway';
    const text = `${customer.account} at ${place}: ${reason}${this.ledgerIsAway ? ' while PostgreSQL is away' : ''}`;
    this.failures.set(text, (this.failures.get(text) ?? 0) + 1);
  }

  /** Waits for a gateway that is ready and can be connected to, and sends. */
  async #connect(underway: Underway, key: string, body: string): Promise<IncomingMessage> {
    const deadlineMs = performance.now() + NO_GATEWAY_MS;
    for (;;) {
      const ready = this.#targets.filter(({ isReady }) => isReady);
      const target = ready[this.#next++ % Math.max(1, ready.length)];
      if (target === undefined) {
        if (performance.now() > deadlineMs) throw new LoadError('none was ready');
        await sleep(CHECK_MS / 4);
        continue;
      }
      underway.gateway = target.gateway;
      try {
        return await post(target, key, body);
      } catch (error) {
        const { code, syscall } = error as NodeJS.ErrnoException;
        // Nothing was sent: any balancer goes on to the next.
        if (syscall !== 'connect' || code === undefined) throw error;
        target.isReady = false;
        target.notice();
        if (performance.now() > deadlineMs) throw error;
      }
    }
  }

  /** Whether the request was served: false when a limit of its key refuses it. */
  async #exchange(
    { account, key, limits }: Customer,
    underway: Underway,
    text: string,
    tokens: number,
    isStream: boolean,
    withUsage: boolean,
  ): Promise<boolean> {
    const response = await this.#connect(underway, key, bodyOf(text, tokens, isStream, withUsage));
    const { statusCode: status = 0 } = response;
    const beganMs = performance.now();
    let answer = '';
    try {
      response.setEncoding('utf8');
      for await (const piece of response) answer += piece as string;
    } finally {
      if (limits.runningRequests !== undefined && status === 200)
        this.#ran.push({ beganMs, endedMs: performance.now() - READ_LATE_MS });
    }
    const isLimited = Object.keys(limits).length > 0;
    if (status !== 200) {
      const code = String(response.headers['x-headrace-error'] ?? '');
      // An account that a gateway has not served lately has no lease there, and gets none while the ledger is away.
      const hasNoLease =
        this.ledgerIsAway && code === 'HR_CREDIT_UNKNOWN' && !this.#target(underway.gateway!).hasLease(account);
      if (hasNoLease || (isLimited && /^HR_(?:KEY|BUDGET)_/.test(code))) {
        this.refusals.set(`${account} ${code}`, (this.refusals.get(`${account} ${code}`) ?? 0) + 1);
        return false;
      }
      throw new LoadError(`${status} ${code}`);
    }
    this.#check(answer, tokens, isStream, isLimited);
    const limit = response.headers['x-headrace-output-limit'];
    const made = limit === undefined ? tokens : Math.min(tokens, Number(limit));
    const promptTokens = this.#promptTokens.get(text)!;
    const work = this.work.get(account)!;
    work.requests++;
    work.promptTokens += promptTokens;
    work.completionTokens += made;
    work.amount += priceOf(promptTokens, 0, made);
    this.#admitted.get(account)!.push({ beganMs, tokens: promptTokens + made });
    if (isStream) this.firstByteMs.push(beganMs - underway.sentMs);
    this.#completions.push({ account, gateway: underway.gateway!, endedMs: performance.now() });
    const target = this.#target(underway.gateway!);
    target.answeredMs = Math.max(target.answeredMs, underway.sentMs);
    target.servedMs.set(account, performance.now());
    return true;
  }

  /** Throws when an answer is not complete. */
  #check(answer: string, tokens: number, isStream: boolean, isLimited: boolean): void {
    if (!isStream) {
      let usage: { completion_tokens?: number } | undefined;
      try {
        ({ usage } = JSON.parse(answer) as { usage?: { completion_tokens?: number } });
      } catch {
        throw new LoadError('incomplete: not a whole answer');
      }
      if (usage?.completion_tokens !== tokens && !isLimited)
        throw new LoadError(`${usage?.completion_tokens} of ${tokens} tokens`);
      return;
    }
    const error = /^data: \{"error".*?"code":"(\w+)"/m.exec(answer)?.[1];
    if (error !== undefined) throw new LoadError(`incomplete: ${error} in the stream`);
    if (!answer.endsWith('data: [DONE]\n\n')) throw new LoadError('incomplete: a stream without its end');
    const pieces = answer.match(/"content":"/g)?.length ?? 0;
    if (pieces !== tokens && !isLimited) throw new LoadError(`${pieces} of ${tokens} tokens in a stream`);
    if (!answer.includes('"finish_reason":"')) throw new LoadError('a stream without a reason to finish');
  }
}

function sum(numbers: Iterable<number>): number {
  let total = 0;
  for (const each of numbers) total += each;
  return total;
}

function bodyOf(text: string, tokens: number, isStream: boolean, withUsage: boolean): string {
  return JSON.stringify({
    ...{ model: MODEL, max_tokens: tokens, stream: isStream, messages: [{ role: 'user', content: text }] },
    ...(isStream && withUsage && { stream_options: { include_usage: true } }),
  });
}

function post({ gateway, agent }: Target, key: string, body: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = send({
      ...{ host: gateway.address, port: gateway.port, method: 'POST', path: '/v1/chat/completions', agent },
      headers: {
        ...{ authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        'content-length': Buffer.byteLength(body),
      },
    });
    const timer = setTimeout(
      () => request.destroy(new LoadError(`no answer within ${PATIENCE_MS / 1000} s`)),
      PATIENCE_MS,
    );
    request.on('response', (response) => {
      response.on('close', () => clearTimeout(timer));
      resolve(response);
    });
    request.on('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    request.end(body);
  });
}
