// What is counted and logged of the link: the engine lost and found, siblings that come and go, messages of no use. Lines are
// bounded: an engine that flaps and a stranger on the channels cannot flood the log.

import type { Clock } from '../actor/index.ts';
import { ClusterMetrics } from '../telemetry/cluster-metrics.ts';
import type { Log } from '../telemetry/log.ts';
import { messageOf } from '../errors.ts';
import type { ClusterObserver, MessageResult, MessageTopic } from './cluster-service.ts';
import type { ClusterError, ClusterEvent, Topic } from './link.ts';

/** Time over which lines of one subject are counted. */
const WINDOW_MS = 60_000;
/** Most lines of one subject in a window. Siblings of a rolling restart of many gateways fit. */
const MOST_LINES = 8;
const MOST_SIBLING_LINES = 200;

interface Subject {
  sinceMs: number;
  lines: number;
  heldBack: number;
}

export class ClusterLog implements ClusterObserver {
  readonly metrics = new ClusterMetrics();
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #subjects = new Map<string, Subject>();
  readonly #onNotConnected: () => void;
  #problem = '';

  constructor(log: Log, clock: Clock, onNotConnected: () => void) {
    this.#log = log;
    this.#clock = clock;
    this.#onNotConnected = onNotConnected;
  }

  message(topic: MessageTopic, direction: 'in' | 'out', result: MessageResult, bytes: number): void {
    this.metrics.message(topic, direction, result, bytes);
  }

  command(result: 'ok' | ClusterError['reason']): void {
    this.metrics.command(result);
  }

  answered(durationMs: number): void {
    this.metrics.answered(durationMs);
  }

  badMessage(topic: Topic, from: string, error: unknown): void {
    const problem = messageOf(error);
    this.#write(`bad ${topic}`, (fields) =>
      this.#log.warn({ topic, from, problem: problem.slice(0, 500), ...fields }, 'message of a sibling ignored'),
    );
  }

  notConnected(reason: string): void {
    this.#onNotConnected();
    if (reason === this.#problem) return;
    this.#problem = reason;
    this.#write('not connected', (fields) =>
      this.#log.warn(
        { problem: reason, ...fields },
        'Redis or Valkey (cluster.url) cannot be reached: this gateway goes on alone and keeps trying',
      ),
    );
  }

  event(event: ClusterEvent): void {
    const log = this.#log;
    switch (event.type) {
      case 'enabled':
      case 'disabled':
        this.#problem = '';
        break;
      case 'connected': {
        this.#problem = '';
        const { awayMs } = event;
        const away = awayMs === Infinity ? {} : { awayMs: Math.round(awayMs) };
        this.#write('connected', (fields) => log.info({ ...away, ...fields }, 'connected to Redis or Valkey'));
        break;
      }
      case 'lost':
        this.metrics.lost();
        if (event.isOwn === true) break;
        this.#write('lost', (fields) =>
          log.warn(
            { problem: event.reason, ...fields },
            'connection to Redis or Valkey lost: this gateway goes on alone',
          ),
        );
        break;
      case 'joined':
      case 'left': {
        const { address, instance, name, version } = event.sibling;
        const reason = event.type === 'left' ? { reason: event.reason } : {};
        const text = event.type === 'left' ? 'a sibling gateway left' : 'a sibling gateway joined';
        this.#write(
          'siblings',
          (fields) => log.info({ gateway: name, address, version, instance, ...reason, ...fields }, text),
          MOST_SIBLING_LINES,
        );
      }
    }
  }

  /** Writes a line unless there were too many of the subject; the next one says how many were held back. */
  #write(name: string, write: (fields: object) => void, most = MOST_LINES): void {
    const nowMs = this.#clock.now();
    let subject = this.#subjects.get(name);
    if (subject === undefined || nowMs - subject.sinceMs >= WINDOW_MS) {
      subject = { sinceMs: nowMs, lines: 0, heldBack: subject?.heldBack ?? 0 };
      this.#subjects.set(name, subject);
    }
    if (subject.lines++ >= most) {
      subject.heldBack++;
      return;
    }
    write(subject.heldBack === 0 ? {} : { heldBack: subject.heldBack });
    subject.heldBack = 0;
  }
}
