// Tells the other gateways what became of search engines here, and puts what they say on the board: failures in a row, suspensions,
// answers, and requests that count in rate limits. What has changed leaves as one message, at most every 20 ms. The trial of a suspended engine
// is claimed by a key.

import { createHash } from 'node:crypto';
import type { Behavior, Clock } from '../actor/index.ts';
import type { EngineBoard, EngineSpec, EngineStanding, RateLimit, TrialCommand } from '../search/index.ts';
import { Alarm } from '../net/alarm.ts';
import { defineScript } from './cluster-service.ts';
import type { ClusterEvent, ClusterLink } from './link.ts';

export interface EngineStandingsDeps {
  readonly link: ClusterLink;
  readonly board: EngineBoard;
  readonly clock: Clock;
}

interface SharedEngine {
  readonly cell: number;
  readonly rates: readonly RateLimit[];
  /** Hash of its id and settings, in hexadecimal: engines with other keys stand on their own. */
  readonly identity: string;
  /** What was told last. */
  changes: bigint;
  taken: bigint;
  /** Is told at the next turn, changed or not. */
  isDue: boolean;
}

interface Claim {
  readonly key: string;
  /** When its trial was seen to have ended; null: it goes on. */
  endedMs: number | null;
}

/** Time between two messages; before the first one after a pause; and between two looks at the trials that are claimed. */
const TELL_MS = 20;
const SETTLE_MS = 2;
const CLAIMS_MS = 50;

/** Standings that say something are told again after this long: messages may be lost. */
const REPEAT_MS = 5000;

/** The word of what a trial came to arrives before the next one can be claimed. */
const CLAIM_REST_MS = 100;

/** A claim of a gateway that has died ends after this long. */
const CLAIM_TTL_MS = 30_000;
const CLAIM_TIMEOUT_MS = 40;
const RELEASE_TIMEOUT_MS = 1000;

/** KEYS: claim. ARGV: the gateway, which may not have got it. */
const RELEASE = defineScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`);

/** One engine in a message. */
const RECORD_BYTES = 64;
const MOST_RECORDS = 64;
const IDENTITY_BYTES = 16;
const OWN_WORDS = 1;
const SEVERAL = 2;
const NEVER = 0xffff_ffff;

/** No suspension is longer, and no gateway takes more requests of an engine within a turn. */
const MOST_REMAINING_MS = 86_400_000;
const MOST_TAKEN = 100_000;

export class EngineStandings {
  readonly #deps: EngineStandingsDeps;
  readonly #claims = new Map<number, Claim>();
  #engines = new Map<string, SharedEngine>();
  readonly #alarm: Alarm;
  #toldMs = -Infinity;
  #repeatMs = 0;
  #gateways = 1;

  constructor(deps: EngineStandingsDeps) {
    this.#deps = deps;
    this.#alarm = new Alarm(deps.clock, () => this.#turn());
    deps.link.on('suspensions', (body) => this.#receive(body));
    deps.link.onChange((event) => this.#onChange(event));
    if (deps.link.enabled) this.#start();
  }

  /** The engines of the present settings, with their places on the board. */
  configure(specs: readonly Pick<EngineSpec, 'cell' | 'fingerprint' | 'id' | 'rates'>[]): void {
    const engines = new Map<string, SharedEngine>();
    for (const { cell, fingerprint, id, rates } of specs) {
      const identity = identityOf(id, fingerprint);
      const before = this.#engines.get(identity);
      engines.set(identity, before ?? { cell, rates, identity, ...this.#deps.board.counts(cell), isDue: true });
    }
    this.#engines = engines;
    this.#wakeSoon();
  }

  /** Whether the trial of an engine is for this gateway; true where it cannot be told. */
  async claim(cell: number): Promise<boolean> {
    const { link } = this.#deps;
    const engine = [...this.#engines.values()].find((each) => each.cell === cell);
    if (engine === undefined || !link.connected) return true;
    const own = this.#claims.get(cell);
    if (own !== undefined) {
      own.endedMs = null;
      return true;
    }
    const key = link.key('trial', engine.identity);
    try {
      const set = ['SET', key, link.instance, 'NX', 'PX', String(CLAIM_TTL_MS)];
      if ((await link.command(set, CLAIM_TIMEOUT_MS)) === null) return false;
    } catch {
      // The engine may have taken the claim all the same, and is only late to say so.
    }
    this.#claims.set(cell, { key, endedMs: null });
    this.#wake(this.#deps.clock.now() + CLAIMS_MS);
    return true;
  }

  close(): void {
    this.#alarm.clear();
    this.#deps.board.changed.stop();
  }

  #onChange({ type }: ClusterEvent): void {
    if (type === 'enabled') this.#start();
    if (type === 'connected' || type === 'joined') this.#repeatMs = 0;
    if (type === 'disabled') {
      this.close();
      this.#claims.clear();
      this.#gateways = 1;
      this.#deps.board.shareWith(1, false);
    } else this.#wake(this.#deps.clock.now());
  }

  #start(): void {
    this.#deps.board.changed.wait(this.#onChanged);
    this.#wake(this.#deps.clock.now());
  }

  readonly #onChanged = (): void => {
    this.#deps.board.changed.wait(this.#onChanged);
    this.#wakeSoon();
  };

  #wakeSoon(): void {
    this.#wake(Math.max(this.#deps.clock.now() + SETTLE_MS, this.#toldMs + TELL_MS));
  }

  /** Looks after everything at this time, or before. */
  #wake(dueMs: number): void {
    if (this.#deps.link.enabled) this.#alarm.setBy(dueMs);
  }

  #turn(): void {
    const { board, clock, link } = this.#deps;
    // Without the link siblings are not gone, but cannot be heard.
    if (link.connected) this.#gateways = link.siblings().length;
    board.shareWith(this.#gateways, !link.connected);
    if (!link.connected) return;
    const nowMs = clock.now();
    this.#endClaims(nowMs);
    if (this.#claims.size > 0) this.#wake(nowMs + CLAIMS_MS);
    if (this.#gateways === 1) return;
    const isRepeat = nowMs >= this.#repeatMs;
    if (isRepeat) this.#repeatMs = nowMs + REPEAT_MS;
    const records: Buffer[] = [];
    let saysSomething = false;
    for (const engine of this.#engines.values()) {
      const { changes, taken } = board.counts(engine.cell);
      const isChanged = engine.isDue || changes !== engine.changes;
      const standing = board.standing(engine.cell, nowMs);
      const isNews = standing.queries !== 0n || standing.remainingMs > 0;
      saysSomething ||= isNews;
      if (!isChanged && !isRepeat && taken === engine.taken) continue;
      const says = isChanged || isNews;
      if (!says && taken === engine.taken) continue;
      records.push(recordOf(engine.identity, standing, Number(taken - engine.taken)));
      engine.isDue = false;
      engine.changes = changes;
      engine.taken = taken;
    }
    if (records.length > 0) this.#toldMs = nowMs;
    for (let at = 0; at < records.length; at += MOST_RECORDS)
      link.publish('suspensions', Buffer.concat(records.slice(at, at + MOST_RECORDS)));
    if (saysSomething) this.#wake(this.#repeatMs);
  }

  #endClaims(nowMs: number): void {
    const { board, link } = this.#deps;
    for (const [cell, claim] of this.#claims) {
      if (board.isTried(cell)) continue;
      claim.endedMs ??= nowMs;
      if (nowMs - claim.endedMs < CLAIM_REST_MS) continue;
      this.#claims.delete(cell);
      // Without it the claim ends with its time.
      link.script(RELEASE, [claim.key], [link.instance], RELEASE_TIMEOUT_MS).catch(() => undefined);
    }
  }

  #receive(body: Buffer): void {
    const { board, clock } = this.#deps;
    if (body.length % RECORD_BYTES !== 0 || body.length > MOST_RECORDS * RECORD_BYTES)
      throw new RangeError(`${body.length} bytes of standings`);
    const nowMs = clock.now();
    for (let at = 0; at < body.length; at += RECORD_BYTES) {
      const { identity, standing, taken } = readRecord(body.subarray(at, at + RECORD_BYTES));
      const engine = this.#engines.get(identity);
      if (engine === undefined) continue;
      if (taken > 0) board.count(engine.cell, engine.rates, taken, nowMs);
      // The sender has not heard of an answer that was had here.
      if (board.takeOver(engine.cell, standing, nowMs)) continue;
      engine.isDue = true;
      this.#wakeSoon();
    }
  }
}

/** The actor that threads ask for trials. */
export function engineTrials(standings: EngineStandings): Behavior<TrialCommand> {
  return () =>
    ({ cell, replyTo }) =>
      void standings.claim(cell).then((isOwn) => replyTo.tell(isOwn));
}

function identityOf(id: string, fingerprint: string): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([id, fingerprint]))
    .digest('hex');
  return hash.slice(0, 2 * IDENTITY_BYTES);
}

function recordOf(identity: string, standing: EngineStanding, taken: number): Buffer {
  const { account, answerAgeMs, ownWords, queries, remainingMs, rowAgeMs, scope, several, suspensions } = standing;
  const record = Buffer.alloc(RECORD_BYTES);
  record.write(identity, 0, 'hex');
  record.writeUInt8((ownWords ? OWN_WORDS : 0) | (several ? SEVERAL : 0), 16);
  record.writeUInt8(Math.min(suspensions, 0xff), 17);
  record.writeUInt32LE(Math.min(taken, MOST_TAKEN), 20);
  record.writeUInt32LE(Math.min(Math.ceil(remainingMs), MOST_REMAINING_MS), 24);
  record.writeUInt32LE(Math.min(Math.floor(rowAgeMs), NEVER - 1), 28);
  record.writeUInt32LE(Math.min(Math.ceil(answerAgeMs), NEVER), 32);
  record.writeBigUInt64LE(scope, 40);
  record.writeBigUInt64LE(account, 48);
  record.writeBigUInt64LE(queries, 56);
  return record;
}

function readRecord(record: Buffer): { identity: string; standing: EngineStanding; taken: number } {
  const flags = record.readUInt8(16);
  const taken = record.readUInt32LE(20);
  const remainingMs = record.readUInt32LE(24);
  const answerAgeMs = record.readUInt32LE(32);
  const scope = record.readBigUInt64LE(40);
  const account = record.readBigUInt64LE(48);
  const queries = record.readBigUInt64LE(56);
  const isPossible = taken <= MOST_TAKEN && remainingMs <= MOST_REMAINING_MS && flags <= (OWN_WORDS | SEVERAL);
  // Hashes have 62 bits, and queries 61.
  if (!isPossible || scope >> 62n !== 0n || account >> 62n !== 0n || queries >> 61n !== 0n)
    throw new RangeError('no standing of an engine');
  return {
    identity: record.toString('hex', 0, IDENTITY_BYTES),
    standing: {
      remainingMs,
      ownWords: (flags & OWN_WORDS) !== 0,
      several: (flags & SEVERAL) !== 0,
      suspensions: record.readUInt8(17),
      rowAgeMs: record.readUInt32LE(28),
      answerAgeMs: answerAgeMs === NEVER ? Infinity : answerAgeMs,
      ...{ scope, account, queries },
    },
    taken,
  };
}
