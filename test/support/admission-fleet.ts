// Admission in one or several threads, in front of a simulated fleet: every CRN prefills what it was sent at its rate, in order of
// arrival, on a manual clock. A request goes to the CRN with the shortest backlog.

import { createManualClock, type ManualClock } from '../../src/actor/testkit.ts';
import type { HeadraceError } from '../../src/errors.ts';
import { DeadlineQueue } from '../../src/net/deadline.ts';
import {
  Admission,
  type AdmissionSettings,
  type ExpectedWait,
  type HeldRequest,
  type Hold,
} from '../../src/routing/admission.ts';
import { Board, type BoardMemory, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import type { Member, Model } from '../../src/routing/model-table.ts';

export const SETTINGS: AdmissionSettings = { holdMs: 100, timeoutMs: 60_000, requests: 1000, bytes: 2 ** 30 };

export interface FleetOptions {
  readonly crns?: number;
  /** Bytes that each CRN prefills in a millisecond; 10 by default. */
  readonly rate?: number;
  readonly threads?: number;
  readonly settings?: Partial<AdmissionSettings>;
}

export class Fleet implements ExpectedWait {
  readonly clock: ManualClock = createManualClock(1_000_000);
  readonly memory: BoardMemory;
  readonly boards: readonly Board[];
  readonly threads: readonly Admission[];
  readonly deadlines: DeadlineQueue = new DeadlineQueue(this.clock, 1);
  model: Model;
  readonly settings: AdmissionSettings;
  /** What happened, in order: `admitted a1`, `refused a1 HR_…`. */
  readonly log: string[] = [];
  /** Ended waits by outcome. */
  readonly outcomes = new Map<string, number>();
  readonly rate: number;
  /** Requests that wait, by model, as the thread that told last says. */
  readonly told = new Map<string, number>();
  /** How often a backlog was asked for. */
  asked = 0;
  /** When each CRN will have prefilled what it has. */
  readonly #freeAtMs: number[];

  constructor({ crns = 2, rate = 10, threads = 1, settings = {} }: FleetOptions = {}) {
    this.rate = rate;
    this.settings = { ...SETTINGS, ...settings };
    this.memory = createBoardMemory(crns, crns, threads);
    this.boards = Array.from({ length: threads }, (_, thread) => new Board(this.memory, thread));
    this.#freeAtMs = Array.from({ length: crns }, () => 0);
    const members = Array.from({ length: crns }, (_, at): Member => {
      this.board.setStanding(at, STANDING.up, 0);
      return {
        url: `http://crn${at}`,
        server: at,
        member: at,
        hash: at + 1,
        apiKey: undefined,
        weight: 1,
        dialects: 0,
      };
    });
    this.model = { id: 'm', members, budget: 0 };
    this.threads = this.boards.map(
      (board, thread) =>
        new Admission(
          {
            ...{ board, memory: this.memory, thread, expected: this, clock: this.clock, deadlines: this.deadlines },
            onWaiting: (model, count) => this.told.set(model, count),
            onOutcome: (_, outcome) => this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1),
          },
          this.settings,
        ),
    );
  }

  get board(): Board {
    return this.boards[0] as Board;
  }

  get admission(): Admission {
    return this.threads[0] as Admission;
  }

  /** Requests that wait, in all threads. */
  get waiting(): number {
    return this.threads.reduce((sum, thread) => sum + thread.waiting('m'), 0);
  }

  waitMs(member: number): number {
    this.asked++;
    return Math.max((this.#freeAtMs[member] as number) - this.clock.now(), 0);
  }

  msPerByte(): number {
    return 1 / this.rate;
  }

  /** Gives a CRN work, as if requests had been sent to it. */
  load(member: number, bytes: number): void {
    this.#freeAtMs[member] = this.clock.now() + this.waitMs(member) + bytes / this.rate;
  }

  /** A request of the account that its first letter names; null when it did not have to wait, or was refused. */
  send(
    name: string,
    work: number,
    options: { holder?: number; bytes?: number; model?: Model; thread?: number } = {},
  ): Sent {
    return new Sent(this, name, work, options);
  }
}

/** One request. It takes its CRN when it is admitted. */
export class Sent implements HeldRequest {
  readonly name: string;
  readonly account: string;
  readonly work: number;
  readonly bytes: number;
  readonly holder: number;
  readonly hold: Hold | null;
  /** How it ended; null while it waits. Counts every end. */
  ends = 0;
  error: HeadraceError | null = null;
  admittedMs: number | null = null;
  model: Model | null = null;
  readonly #fleet: Fleet;

  constructor(
    fleet: Fleet,
    name: string,
    work: number,
    { holder = 0, bytes = work, model = fleet.model, thread = 0 } = {},
  ) {
    this.#fleet = fleet;
    this.name = name;
    this.account = name[0] as string;
    this.work = work;
    this.bytes = bytes;
    this.holder = holder;
    const admission = fleet.threads[thread] as Admission;
    let hold: Hold | null = null;
    if (admission.admits(model, holder)) {
      this.onAdmitted(model);
    } else {
      try {
        hold = admission.hold(model, this);
      } catch (error) {
        this.onRefused(error as HeadraceError);
      }
    }
    this.hold = hold;
  }

  get retryAfterS(): number {
    const { headers = [] } = this.error ?? {};
    return Number(headers[headers.indexOf('retry-after') + 1]);
  }

  leave(): boolean {
    const left = this.hold?.leave('gone') === true;
    if (left) this.ends++;
    return left;
  }

  onAdmitted(model: Model): void {
    const fleet = this.#fleet;
    this.ends++;
    this.model = model;
    this.admittedMs = fleet.clock.now();
    fleet.log.push(`admitted ${this.name}`);
    const own = model.members.find(({ hash }) => hash === this.holder);
    const least = own ?? model.members.toSorted((a, b) => fleet.waitMs(a.member) - fleet.waitMs(b.member))[0];
    if (least !== undefined) fleet.load(least.member, this.work);
  }

  onRefused(error: HeadraceError): void {
    this.ends++;
    this.error = error;
    this.#fleet.log.push(`refused ${this.name} ${error.code}`);
  }
}
