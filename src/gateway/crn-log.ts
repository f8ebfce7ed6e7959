// What the log says of CRNs: every change of a standing, with its reason. Bounded: a CRN that flaps and a network that fails as a
// whole cannot flood it. What was held back is logged later, as it stands then.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { type CrnEvent, STANDING, STANDING_WORDS } from '../routing/index.ts';
import type { Log } from '../telemetry/log.ts';

/** Time over which lines are counted. */
const WINDOW_MS = 10_000;
/** Most lines about standings in a window. */
const MOST_LINES = 100;
/** Most lines about the standing of one model on one CRN in a window: down and up again, twice. */
const MOST_OF_ONE = 4;

type Standing = Extract<CrnEvent, { readonly type: 'standing' }>;

/** One model on one CRN. */
interface Subject {
  /** What is true of it. */
  latest: Standing;
  /** What the log says of it; '' for nothing. */
  logged: string;
  /** Lines in the present window. */
  lines: number;
}

export class CrnLog {
  readonly #log: Log;
  readonly #clock: Clock;
  /** By model and base URL. */
  readonly #subjects = new Map<string, Subject>();
  readonly #heldBack = new Set<Subject>();
  #lines = 0;
  #timer: TimerHandle | null = null;

  constructor(log: Log, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  note(event: CrnEvent): void {
    const log = this.#log;
    if (event.type === 'standing') {
      this.#noteStanding(event);
    } else if (event.type === 'ejected') {
      const { failure, forMs, reason, url } = event;
      log.warn({ crn: url, forMs: Math.round(forMs), failure, reason }, 'CRN ejected');
    } else if (event.type === 'left out') {
      const { count, model, url } = event;
      log.error(
        { crn: url, model, count },
        'CRNs left out: there are more than the board has cells; the first one is named',
      );
    } else if (event.type === 'drained') {
      log.warn({ crn: event.url }, 'CRN drained');
    } else if (event.type === 'returned') {
      log.info({ crn: event.url }, 'CRN returned');
    } else if (event.type === 'refused credentials') {
      const advice = 'see apiKey of the model, and the keys that the CRN knows';
      log.warn({ crn: event.url, advice }, 'CRN refuses the credentials of requests');
    } else if (event.type === 'restarted') {
      log.info({ crn: event.url }, 'CRN restarted: its KV cache is taken for empty');
    }
  }

  /** Forgets CRNs that are no more. */
  keep(urls: ReadonlySet<string>): void {
    for (const [key, subject] of this.#subjects) {
      if (urls.has(subject.latest.url)) continue;
      this.#subjects.delete(key);
      this.#heldBack.delete(subject);
    }
  }

  close(): void {
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
  }

  #noteStanding(event: Standing): void {
    const key = `${event.model}\n${event.url}`;
    let subject = this.#subjects.get(key);
    if (subject === undefined) {
      subject = { latest: event, logged: '', lines: 0 };
      this.#subjects.set(key, subject);
    }
    subject.latest = event;
    this.#timer ??= this.#clock.setTimeout(this.#nextWindow, WINDOW_MS);
    this.#write(subject);
  }

  #write(subject: Subject): void {
    const { model, reason, standing, url } = subject.latest;
    const state = `${standing} ${reason}`;
    if (state === subject.logged) {
      this.#heldBack.delete(subject);
    } else if (subject.lines >= MOST_OF_ONE || this.#lines >= MOST_LINES) {
      this.#heldBack.add(subject);
    } else {
      this.#heldBack.delete(subject);
      subject.logged = state;
      subject.lines++;
      this.#lines++;
      const line = { crn: url, model, standing: STANDING_WORDS.get(standing), ...(reason !== null && { reason }) };
      this.#log[standing === STANDING.down ? 'warn' : 'info'](line, 'CRN standing changed');
    }
  }

  readonly #nextWindow = (): void => {
    this.#timer = null;
    this.#lines = 0;
    for (const subject of this.#subjects.values()) subject.lines = 0;
    for (const subject of [...this.#heldBack]) this.#write(subject);
    if (this.#lines > 0) this.#timer = this.#clock.setTimeout(this.#nextWindow, WINDOW_MS);
  };
}
