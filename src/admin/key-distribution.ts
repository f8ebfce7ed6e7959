// Brings the key snapshot to every model host: at once when keys change, and in every cycle so that hosts know the
// gateway is there. A host is asked first whether it supports snapshots and trusts this gateway (a GET reveals nothing, a push
// would name accounts); one that does not is asked again rarely.
//
//   unknown ──ask──▶ supported ──push──▶ held        failure: again soon, with backoff
//      └──404──▶ unsupported ──after a while──▶ unknown

import pLimit from 'p-limit';
import type { SigningKey, SnapshotKey } from '../billing/index.ts';
import { MAX_SKEW_MS, nextVersion, signSnapshot, SNAPSHOT_TYPE } from '../billing/main-thread.ts';
import type { Clock, TimerHandle } from '../actor/index.ts';
import { messageOf } from '../errors.ts';
import type { BufferedRequest } from '../net/buffered-client.ts';
import type { Log } from '../telemetry/log.ts';
import { membersOf, parsedJson } from '../net/json-object.ts';

export interface KeyDistributionSettings {
  readonly signingKey: SigningKey;
  /** Path of the endpoint on a host, such as `/svc/keys`. */
  readonly path: string;
  /** Time between two rounds to all hosts. */
  readonly intervalMs: number;
}

export interface KeyDistributionDeps {
  readonly clock: Clock;
  readonly random: () => number;
  /** Milliseconds since 1970. */
  readonly wallMs: () => number;
  readonly send: (request: BufferedRequest, timeoutMs: number, maxBytes: number) => Promise<Answer>;
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>;
}

interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** The keys of a host, in `/status`. */
export interface DistributionStatus {
  readonly url: string;
  /** `current` has every change, `behind` not yet, `unsupported` takes no snapshots or trusts another gateway, `unknown` has not answered yet. */
  readonly state: 'current' | 'behind' | 'unsupported' | 'unknown';
}

/** Requests at once: as many as hosts may freeze at the same moment without holding up the others. */
const PARALLEL = 256;

/** Leaves time for a second attempt within two seconds of a change; large snapshots get a second more per megabyte. */
const TIMEOUT_MS = 1500;
const BYTES_PER_MS = 1000;

const ANSWER_BYTES = 64 * 1024;

/** First wait before a retry; it doubles. */
const RETRY_MS = 200;

/** A host that takes no snapshots may have been replaced by one that does. */
const UNSUPPORTED_MS = 600_000;

/** Hosts that ask get a snapshot no older than this. */
const REUSE_MS = 1000;

/**
 * Keys for each millisecond between two changes that are signed: 1 s for 100,000, whose signature takes up to a quarter of a second of
 * the control thread.
 */
const KEYS_PER_MS = 100;

/** Answers that mean "there is no such endpoint". */
const NO_ENDPOINT: ReadonlySet<number> = new Set([404, 405, 501]);

interface Host {
  readonly url: string;
  state: 'unknown' | 'supported' | 'unsupported';
  /** Last version it took. */
  held: number;
  failures: number;
  askedAtMs: number;
  busy: boolean;
  /** Something has changed while it was busy. */
  again: boolean;
  retry: TimerHandle | null;
  gone: boolean;
}

interface Signed {
  readonly keys: readonly SnapshotKey[];
  readonly version: number;
  readonly atMs: number;
  readonly body: Buffer;
}

export class KeyDistribution {
  readonly #settings: KeyDistributionSettings;
  readonly #deps: KeyDistributionDeps;
  readonly #limit = pLimit(PARALLEL);
  readonly #hosts = new Map<string, Host>();
  /** Null while they are not known yet. */
  #keys: readonly SnapshotKey[] | null = null;
  #fingerprint = '';
  #signed: Signed | null = null;
  /** Whether a host has asked for it: that host would refuse the same version as a repeat. */
  #isHandedOut = false;
  #version = 0;
  /** Version of the last snapshot whose keys differ from the one before; Infinity while no snapshot has the present keys. */
  #changedAt = Infinity;
  #cycle: TimerHandle | null = null;
  /** Until changed keys are signed again. */
  #pause: TimerHandle | null = null;
  #closed = false;

  constructor(settings: KeyDistributionSettings, deps: KeyDistributionDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#arm();
  }

  get issuer(): string {
    return this.#settings.signingKey.id;
  }

  /**
   * Takes over keys and base URLs of hosts. Changed keys set out to every host at once. Null: the keys are not known yet, and hosts keep
   * what they have.
   */
  configure(keys: readonly SnapshotKey[] | null, urls: Iterable<string>): void {
    if (keys !== null) this.#keys = keys;
    const wanted = new Set(urls);
    for (const [url, host] of this.#hosts) if (!wanted.has(url)) this.#forget(host);
    if (keys !== null && this.#pause === null) this.#takeOver(keys);
    for (const url of wanted) if (!this.#hosts.has(url)) this.#meet(url);
  }

  /** Signs keys that have changed. What changes in the pause after it is signed behind it, all together. */
  #takeOver(keys: readonly SnapshotKey[]): void {
    const fingerprint = JSON.stringify(keys.map(({ hash, account, expiresMs }) => [hash, account, expiresMs]));
    if (fingerprint === this.#fingerprint) return;
    this.#fingerprint = fingerprint;
    this.#changedAt = this.#sign() ? this.#version : Infinity;
    this.#visitAll();
    if (keys.length < KEYS_PER_MS) return;
    this.#pause = this.#deps.clock.setTimeout(() => {
      this.#pause = null;
      if (this.#keys !== null) this.#takeOver(this.#keys);
    }, keys.length / KEYS_PER_MS);
  }

  /** A snapshot for a host that asks; null while keys are not known, and when there are more than one holds. */
  snapshot(): Buffer | null {
    // The host has just started, maybe at the address of a host without support: all are asked again.
    for (const host of this.#hosts.values()) host.askedAtMs = -Infinity;
    const { atMs = -Infinity, keys } = this.#signed ?? {};
    if (keys !== this.#keys || Math.abs(this.#deps.wallMs() - atMs) >= REUSE_MS) this.#sign();
    this.#isHandedOut = true;
    return this.#signed?.body ?? null;
  }

  status(): DistributionStatus[] {
    return [...this.#hosts.values()].map(({ url, state, held }) => ({
      url,
      state: state !== 'supported' ? state : held >= this.#changedAt ? 'current' : 'behind',
    }));
  }

  close(): void {
    this.#closed = true;
    for (const timer of [this.#cycle, this.#pause]) if (timer !== null) this.#deps.clock.clearTimeout(timer);
    for (const host of this.#hosts.values()) this.#forget(host);
  }

  #arm(): void {
    const delayMs = this.#settings.intervalMs * (0.9 + 0.2 * this.#deps.random());
    this.#cycle = this.#deps.clock.setTimeout(() => {
      this.#arm();
      this.#sign();
      this.#visitAll();
    }, delayMs);
  }

  /** False when there is no new snapshot. */
  #sign(): boolean {
    if (this.#keys === null) return false;
    const nowMs = this.#deps.wallMs();
    const content = { version: nextVersion(this.#version, nowMs), issuedAtMs: Math.floor(nowMs), keys: this.#keys };
    try {
      const body = signSnapshot(content, this.#settings.signingKey);
      this.#signed = { keys: this.#keys, version: content.version, atMs: nowMs, body };
      if (content.version < this.#version) {
        // The clock was set back: versions are counted anew.
        this.#changedAt = content.version;
        for (const host of this.#hosts.values()) host.held = 0;
      }
      this.#version = content.version;
      this.#isHandedOut = false;
      return true;
    } catch (error) {
      // Hosts keep what they have: better the old keys than none.
      this.#deps.log.error({ keys: this.#keys.length, problem: messageOf(error) }, 'keys cannot be distributed');
      return false;
    }
  }

  #meet(url: string): void {
    const host: Host = {
      url,
      state: 'unknown',
      held: 0,
      failures: 0,
      askedAtMs: 0,
      busy: false,
      again: false,
      retry: null,
      gone: false,
    };
    this.#hosts.set(url, host);
    this.#visit(host);
  }

  #forget(host: Host): void {
    host.gone = true;
    if (host.retry !== null) this.#deps.clock.clearTimeout(host.retry);
    this.#hosts.delete(host.url);
  }

  /** Hosts that answer go first: those that do not would delay a revocation on the others. */
  #visitAll(): void {
    const nowMs = this.#deps.clock.now();
    const due = [...this.#hosts.values()].filter(
      ({ state, askedAtMs }) => state !== 'unsupported' || nowMs - askedAtMs >= UNSUPPORTED_MS,
    );
    for (const host of due.sort((a, b) => a.failures - b.failures)) this.#visit(host);
  }

  #visit(host: Host): void {
    if (host.retry !== null) this.#deps.clock.clearTimeout(host.retry);
    host.retry = null;
    if (host.busy) {
      host.again = true;
      return;
    }
    host.busy = true;
    this.#limit(() => (host.gone ? undefined : this.#serve(host)))
      .then(
        () => (host.failures = 0),
        (error: unknown) => this.#failed(host, error),
      )
      .finally(() => {
        host.busy = false;
        if (!host.again || host.gone) return;
        host.again = false;
        this.#visit(host);
      })
      .catch((error: unknown) => this.#deps.log.error({ err: error }, 'key distribution'));
  }

  /** Asks if need be, then pushes. Throws when the host gave no usable answer: it is visited again. */
  async #serve(host: Host): Promise<void> {
    if (host.state !== 'supported') await this.#ask(host);
    if (host.state !== 'supported') return;
    if (this.#isHandedOut) this.#sign();
    if (this.#signed === null) return;
    const { version, body } = this.#signed;
    // It would refuse the same version as a repeat.
    if (host.held >= version) return;
    const headers = { 'content-type': SNAPSHOT_TYPE, accept: 'application/json', 'user-agent': 'headrace' };
    const answer = await this.#send({ method: 'POST', url: this.#endpoint(host), headers, body });
    if (answer.status === 200) {
      host.held = version;
      return;
    }
    if (NO_ENDPOINT.has(answer.status)) Object.assign(host, { state: 'unknown', held: 0 });
    if (answer.status === 409) this.#overtake(readVersion(answer.body));
    throw new Error(`answered ${answer.status}`);
  }

  async #ask(host: Host): Promise<void> {
    host.askedAtMs = this.#deps.clock.now();
    const headers = { accept: 'application/json', 'user-agent': 'headrace' };
    const { status, body } = await this.#send({ method: 'GET', url: this.#endpoint(host), headers });
    if (status >= 500 && !NO_ENDPOINT.has(status)) throw new Error(`answered ${status}`);
    const trusted = status === 200 ? readTrusted(body) : null;
    host.state = trusted?.includes(this.issuer) === true ? 'supported' : 'unsupported';
    if (trusted !== null && host.state === 'unsupported') {
      this.#deps.log.warn({ host: host.url, trusted, issuer: this.issuer }, 'host trusts the keys of another gateway');
    }
  }

  /** A host holds a later version: of a gateway with the same key, or from before the clock was set back. */
  #overtake(version: number): void {
    if (version < this.#version || version > this.#deps.wallMs() + MAX_SKEW_MS) return;
    this.#version = version;
    this.#sign();
  }

  #failed(host: Host, error: unknown): void {
    host.failures++;
    if (this.#closed || host.gone) return;
    const { clock, random, log } = this.#deps;
    if (host.failures === 1 && host.state === 'supported') {
      log.warn({ host: host.url, problem: messageOf(error) }, 'host does not take the keys');
    }
    const delayMs = Math.min(RETRY_MS * 2 ** (host.failures - 1), this.#settings.intervalMs);
    host.retry = clock.setTimeout(() => this.#visit(host), delayMs * (0.75 + 0.5 * random()));
  }

  #send(request: BufferedRequest): Promise<Answer> {
    const timeoutMs = TIMEOUT_MS + (request.body?.length ?? 0) / BYTES_PER_MS;
    return this.#deps.send(request, Math.ceil(timeoutMs), ANSWER_BYTES);
  }

  #endpoint(host: Host): string {
    return host.url + this.#settings.path;
  }
}

function readTrusted(body: Buffer): string[] | null {
  const { trusted } = membersOf(parsedJson(body.toString()));
  return Array.isArray(trusted) && trusted.every((id) => typeof id === 'string') ? trusted : null;
}

function readVersion(body: Buffer): number {
  const { version } = membersOf(parsedJson(body.toString()));
  return Number.isSafeInteger(version) ? (version as number) : 0;
}
