// Which gateways are alive, by their heartbeats. Ages are by the local clock alone: clocks of machines may differ by minutes.

import * as z from 'zod/mini';
import { MAX_GATEWAYS, type Sibling } from './link.ts';
import { parseJson } from '../config/json-text.ts';

/** A gateway that is silent for so long is gone: six heartbeats. */
export const GONE_MS = 3000;

/** Largest heartbeat; a real one has some 150 bytes. */
const MAX_HEARTBEAT_BYTES = 2048;

/** What a gateway says of itself. */
export type SelfReport = Pick<
  Sibling,
  'name' | 'version' | 'address' | 'stage' | 'uptimeMs' | 'inFlight' | 'requestsPerS'
>;

/** The body of a message of the topic `roll-call`. */
export interface Heartbeat extends SelfReport {
  /** It has just connected and wants to hear of the others at once. */
  readonly ask?: boolean | undefined;
  /** It ends: nobody needs to wait for its silence. */
  readonly leaving?: boolean | undefined;
}

const quantity = z.number().check(z.minimum(0), z.maximum(Number.MAX_SAFE_INTEGER));
/** Printable ASCII: it is shown to operators and written to the log. */
const text = z.string().check(z.regex(/^[\x20-\x7e]{1,255}$/));

/** Fields of later versions are ignored. */
const HEARTBEAT = z.object({
  name: text,
  version: text,
  address: z.nullable(text),
  stage: z.enum(['starting', 'ready', 'draining']),
  uptimeMs: quantity,
  inFlight: quantity,
  requestsPerS: quantity,
  ask: z.optional(z.boolean()),
  leaving: z.optional(z.boolean()),
});

/** Throws when it is no heartbeat. */
export function readHeartbeat(body: Buffer): Heartbeat {
  if (body.length > MAX_HEARTBEAT_BYTES) throw new Error('the heartbeat is too large');
  return HEARTBEAT.parse(parseJson(body.toString('utf8')));
}

export function writeHeartbeat(heartbeat: Heartbeat): Buffer {
  return Buffer.from(JSON.stringify(heartbeat));
}

interface Row {
  readonly instance: string;
  readonly index: number;
  report: SelfReport;
  heardMs: number;
}

/** The siblings, without this gateway. */
export class RollCall {
  readonly #rows = new Map<string, Row>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Takes a heartbeat. `joined` on the first one; null when there are too many gateways. */
  note(instance: string, report: SelfReport): 'joined' | 'known' | null {
    const known = this.#rows.get(instance);
    if (known !== undefined) {
      known.report = report;
      known.heardMs = this.#now();
      return 'known';
    }
    const index = this.#freeIndex();
    if (index === null) return null;
    this.#rows.set(instance, { instance, index, report, heardMs: this.#now() });
    return 'joined';
  }

  /** Any message of a sibling is a sign of life. */
  heard(instance: string): Sibling | undefined {
    const row = this.#rows.get(instance);
    if (row === undefined) return undefined;
    row.heardMs = this.#now();
    return this.#sibling(row);
  }

  sibling(instance: string): Sibling | undefined {
    const row = this.#rows.get(instance);
    return row === undefined ? undefined : this.#sibling(row);
  }

  siblings(): Sibling[] {
    return Array.from(this.#rows.values(), (row) => this.#sibling(row));
  }

  /** Removes one; undefined when it is not there. */
  remove(instance: string): Sibling | undefined {
    const gone = this.sibling(instance);
    this.#rows.delete(instance);
    return gone;
  }

  /** Removes those that have been silent for too long. */
  removeSilent(): Sibling[] {
    const gone = this.siblings().filter(({ ageMs }) => ageMs >= GONE_MS);
    for (const { instance } of gone) this.#rows.delete(instance);
    return gone;
  }

  #freeIndex(): number | null {
    const taken = new Set(Array.from(this.#rows.values(), ({ index }) => index));
    for (let index = 1; index < MAX_GATEWAYS; index++) if (!taken.has(index)) return index;
    return null;
  }

  #sibling({ heardMs, index, instance, report }: Row): Sibling {
    return { ...report, instance, index, self: false, ageMs: Math.max(0, this.#now() - heardMs) };
  }
}
