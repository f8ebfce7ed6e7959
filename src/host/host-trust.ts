// The keys a host accepts: those of its settings, and those of the last valid key snapshot from its gateway. A host that
// loses its gateway keeps the last snapshot and reports it; a host without any snapshot is not ready.
import { readFile, rename, writeFile } from 'node:fs/promises';
import type { Clock, TimerHandle } from '../actor/index.ts';
import {
  type Credential,
  type KeyRecord,
  type KeySnapshot,
  type SnapshotKey,
  type TrustedKey,
  KeyTable,
} from '../billing/index.ts';
import { MAX_SNAPSHOT_BYTES, SnapshotError, verifySnapshot } from '../billing/main-thread.ts';
import { messageOf } from '../errors.ts';
import type { BufferedRequest } from '../net/buffered-client.ts';
import type { Log } from '../telemetry/log.ts';

export interface TrustSettings {
  /** Keys of the gateway; at least one. */
  readonly trusted: readonly TrustedKey[];
  /** Base URL of the gateway's admin listener; null: the host only accepts pushed snapshots. */
  readonly gateway: string | null;
  /** Token for the admin listener. */
  readonly token: string | null;
  /** Time between two snapshots from the gateway. After one and a half the host asks, after three it is stale. */
  readonly intervalMs: number;
  /** Keys that are good beside those of the gateway. */
  readonly own: readonly KeyRecord[];
}

/** Keeps one snapshot over restarts. */
export interface SnapshotStore {
  /** Resolves with null when there is none. */
  readonly load: () => Promise<Uint8Array | null>;
  readonly save: (body: Uint8Array) => Promise<void>;
}

export interface TrustDeps {
  readonly clock: Clock;
  readonly random: () => number;
  /** Milliseconds since 1970. */
  readonly wallMs: () => number;
  readonly send: (
    request: BufferedRequest,
    timeoutMs: number,
    maxBytes: number,
  ) => Promise<{ readonly status: number; readonly body: Buffer }>;
  readonly store: SnapshotStore | null;
  readonly log: Pick<Log, 'info' | 'warn'>;
}

/** The member `keys` of the host's health answer. */
export interface TrustHealth {
  /** Null before the first snapshot. */
  readonly version: number | null;
  /** Seconds since the snapshot was signed; null before the first. */
  readonly ageS: number | null;
  /** No snapshot for three intervals: revocations may be missing. */
  readonly stale: boolean;
  /** `lost`: the last request failed and nothing was received since. `unknown`: before the first request or push. */
  readonly gateway: 'reachable' | 'lost' | 'unknown';
}

/** An answer to be sent as JSON. */
export interface TrustAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: object;
}

/** Largest body of the key endpoint. */
export const MAX_PUSH_BYTES: number = MAX_SNAPSHOT_BYTES;

const TIMEOUT_MS = 5000;
const FIRST_RETRY_MS = 250;

const STATUS: Readonly<Record<SnapshotError['problem'], number>> = {
  oversize: 413,
  malformed: 400,
  untrusted: 403,
  forged: 403,
  replayed: 409,
  stale: 409,
  early: 409,
};

export class HostTrust {
  readonly maxBodyBytes: number = MAX_PUSH_BYTES;
  readonly #settings: TrustSettings;
  readonly #deps: TrustDeps;
  #ring: KeyTable;
  #snapshot: KeySnapshot | null = null;
  /** When the next key of the snapshot expires, as `wallMs`. */
  #nextExpiryMs = Infinity;
  #gateway: TrustHealth['gateway'] = 'unknown';
  #failures = 0;
  #timer: TimerHandle | null = null;
  #saving: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(settings: TrustSettings, deps: TrustDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#ring = new KeyTable(settings.own);
  }

  /** Takes up the snapshot on disk, then asks the gateway until it has answered. Resolves once the disk is read. */
  async start(): Promise<void> {
    await this.#load();
    await this.#ask();
  }

  /** True once there is a snapshot; before that, keys cannot be checked. */
  get ready(): boolean {
    return this.#snapshot !== null;
  }

  /** Judges a key as presented; undefined is none. */
  check(key: string | undefined): Credential {
    if (this.#deps.wallMs() >= this.#nextExpiryMs) this.#admitKeys();
    return this.#ring.check(key);
  }

  /** The key endpoint: GET lists the trusted signing keys, POST accepts a snapshot. `body` is at most `MAX_PUSH_BYTES`. */
  answer(method: string, body: Uint8Array): TrustAnswer {
    const version = this.#snapshot?.version ?? null;
    if (method === 'GET') {
      return answerOf(200, { trusted: this.#settings.trusted.map(({ id }) => id), version });
    }
    if (method !== 'POST')
      return { ...answerOf(405, { detail: 'Method Not Allowed' }), headers: { allow: 'GET, POST' } };
    try {
      const { version: taken, keys } = this.#take(body);
      return answerOf(200, { status: 'taken', version: taken, keys: keys.length });
    } catch (error) {
      if (!(error instanceof SnapshotError)) throw error;
      this.#deps.log.warn({ problem: error.problem }, `a key snapshot was refused: it ${error.message}`);
      return answerOf(STATUS[error.problem], {
        detail: `the snapshot ${error.message}`,
        problem: error.problem,
        version,
      });
    }
  }

  health(): TrustHealth {
    const { version, issuedAtMs } = this.#snapshot ?? { version: null, issuedAtMs: null };
    const ageMs = issuedAtMs === null ? null : Math.max(0, this.#deps.wallMs() - issuedAtMs);
    return {
      version,
      ageS: ageMs === null ? null : Math.floor(ageMs / 1000),
      stale: ageMs === null || ageMs > 3 * this.#settings.intervalMs,
      gateway: this.#gateway,
    };
  }

  /** Asks no more. Resolves when what was taken is on disk. */
  close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) this.#deps.clock.clearTimeout(this.#timer);
    return this.#saving;
  }

  async #load(): Promise<void> {
    const { store, wallMs, log } = this.#deps;
    try {
      const body = (await store?.load()) ?? null;
      if (body === null) return;
      const { trusted } = this.#settings;
      this.#hold(verifySnapshot(body, { trusted, nowMs: wallMs(), held: this.#snapshot?.version ?? 0, fresh: false }));
      log.info({ version: this.#snapshot?.version }, 'the stored key snapshot is in force');
    } catch (error) {
      log.warn({ problem: String(error) }, 'the stored key snapshot cannot be used');
    }
  }

  /** Throws `SnapshotError`. */
  #take(body: Uint8Array): KeySnapshot {
    const { trusted } = this.#settings;
    const nowMs = this.#deps.wallMs();
    const snapshot = verifySnapshot(body, { trusted, nowMs, held: this.#snapshot?.version ?? 0 });
    this.#hold(snapshot);
    this.#read();
    this.#save(body);
    return snapshot;
  }

  #hold(snapshot: KeySnapshot): void {
    this.#snapshot = snapshot;
    this.#admitKeys();
  }

  #admitKeys(): void {
    const nowMs = this.#deps.wallMs();
    const keys: readonly SnapshotKey[] = this.#snapshot?.keys ?? [];
    const good = keys.filter(({ expiresMs = Infinity }) => expiresMs > nowMs);
    this.#nextExpiryMs = good.reduce((first, { expiresMs = Infinity }) => Math.min(first, expiresMs), Infinity);
    this.#ring = new KeyTable([...good, ...this.#settings.own]);
  }

  /** One write at a time, the last one last. */
  #save(body: Uint8Array): void {
    const { store, log } = this.#deps;
    if (store === null) return;
    this.#saving = this.#saving
      .then(() => store.save(body))
      .catch((error: unknown) => {
        log.warn({ problem: String(error) }, 'the key snapshot could not be written to disk');
      });
  }

  #read(): void {
    if (this.#gateway === 'lost') this.#deps.log.info({}, 'the gateway is reachable again');
    this.#gateway = 'reachable';
    this.#failures = 0;
    this.#askIn(1.5 * this.#settings.intervalMs);
  }

  #askIn(delayMs: number): void {
    if (this.#timer !== null) this.#deps.clock.clearTimeout(this.#timer);
    if (this.#closed || this.#settings.gateway === null) return;
    this.#timer = this.#deps.clock.setTimeout(() => void this.#ask(), delayMs * (0.9 + 0.2 * this.#deps.random()));
  }

  async #ask(): Promise<void> {
    const { gateway, token, intervalMs } = this.#settings;
    if (gateway === null || this.#closed) return;
    const headers = { 'user-agent': 'headrace', ...(token === null ? {} : { authorization: `Bearer ${token}` }) };
    try {
      const request = { method: 'GET', url: `${gateway}/keys/snapshot`, headers } as const;
      const { status, body } = await this.#deps.send(request, TIMEOUT_MS, MAX_SNAPSHOT_BYTES);
      if (this.#closed) return;
      if (status !== 200) throw new Error(`it answered ${status}`);
      this.#takeAsked(body);
    } catch (error) {
      if (this.#closed) return;
      if (this.#gateway !== 'lost') {
        const problem = messageOf(error);
        this.#deps.log.warn({ gateway, problem }, 'the gateway sends no keys: the last snapshot stays in force');
      }
      this.#gateway = 'lost';
      this.#askIn(Math.min(FIRST_RETRY_MS * 2 ** this.#failures++, intervalMs));
    }
  }

  /** A push may have brought the same snapshot while the answer was on its way. */
  #takeAsked(body: Buffer): void {
    try {
      this.#take(body);
    } catch (error) {
      if (!(error instanceof SnapshotError) || error.problem !== 'replayed') throw error;
      this.#read();
    }
  }
}

function answerOf(status: number, body: object): TrustAnswer {
  return { status, headers: {}, body };
}

/** Keeps the snapshot in `path`; its folder must exist. */
export function snapshotFile(path: string): SnapshotStore {
  return {
    load: () =>
      readFile(path).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null;
        throw error;
      }),
    save: async (body) => {
      await writeFile(`${path}.new`, body, { mode: 0o600 });
      await rename(`${path}.new`, path);
    },
  };
}
