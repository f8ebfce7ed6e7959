// What this gateway tells its siblings about placements and backlogs, and what it makes of theirs: between the shared memory of the threads
// and the bodies of messages. Knows no engine, no threads and no timers. Cells differ from gateway to gateway; ids of members do not.

import type { BlockIndex, Board, Member, ModelTableData, PlacementRing, ResponseHolders } from '../routing/index.ts';
import { BatchDecoder, BatchEncoder, type BatchSink, memberId } from './placement-batch.ts';
import { SiblingLoads } from './sibling-loads.ts';

/** A body is taken when it is about so long, though there may be more to tell: the rest follows in the next one. */
const FULL_BYTES = 512 * 1024;

/** Answers that have ended may be told so much later, in milliseconds, when nothing else is to be told: they make CRNs no busier. */
const ENDED_MS = 100;

/** Everything that waits is told so often, in milliseconds: a message may be lost. */
const WHOLE_MS = 1000;

/** That nothing waits any more is told so many times. */
const LAST_WHOLES = 2;

/** A backlog that differs by less is the same: this part of it, and so many bytes. */
const SAME_PART = 1 / 8;
const SAME_BYTES = 4096;

/** A member of the table, with what was told of it last. */
class Told {
  readonly id: number;
  readonly member: Member;
  bytes = 0;
  streams = 0;
  requests = 0;

  constructor(id: number, member: Member) {
    this.id = id;
    this.member = member;
  }
}

/** A message of a sibling counts so much in what is taken to be under way; what it chose is known after this at last, in milliseconds. */
const UNHEARD_WEIGHT = 1 / 8;
const UNHEARD_MS = 100;

/** Members that siblings told of and that are not in the table here are remembered, so many of them, the last ones. */
const MAX_MISSED = 4096;

/** Choices of a sibling that are not known here yet. */
interface Unheard {
  atMs: number;
  /** Mean over the time between its messages. */
  choices: number;
}

export interface PlacementExchangeDeps {
  /** Cells of the board. */
  readonly members: number;
  readonly servers: number;
  readonly board: Board;
  /** Without a ring: what siblings say is not told again. */
  readonly index: BlockIndex;
  readonly holders: ResponseHolders;
  /** Of all threads that serve requests. */
  readonly rings: readonly PlacementRing[];
}

export class PlacementExchange {
  readonly #deps: PlacementExchangeDeps;
  readonly #encoder = new BatchEncoder();
  readonly #decoder = new BatchDecoder();
  readonly #loads: SiblingLoads;
  /** Members by cell, and by id; without those whose ids are alike. */
  #byCell = new Map<number, Told>();
  #byId = new Map<number, Told>();
  /** Ids of members that siblings told of before the table had them. */
  readonly #missed = new Set<number>();
  #wholeMs = -Infinity;
  #takenMs = -Infinity;
  /** How often in a row it was told that nothing waits. */
  #emptyWholes = 0;
  /** CRNs of the present table, and whether a model has several. */
  #crns = 0;
  #hasChoice = false;
  /** By sibling; and the choices in the body that is being read. */
  readonly #unheard = new Map<number, Unheard>();
  #heard = 0;
  /** The sender and the time of the body that is being read, and what it says of loads. */
  #sibling = 0;
  #nowMs = 0;
  readonly #toldMembers = new Set<number>();
  readonly #toldServers = new Set<number>();

  constructor(deps: PlacementExchangeDeps) {
    this.#deps = deps;
    this.#loads = new SiblingLoads(deps.board, deps.members, deps.servers);
  }

  /** The cell of a member that a sibling tells of; undefined, and remembered, when the table does not have it. */
  cellOf(id: number): number | undefined {
    const told = this.#byId.get(id);
    if (told !== undefined) return told.member.member;
    this.#missed.add(id);
    const [oldest] = this.#missed;
    // Siblings tell for a while of CRNs that are gone here already.
    if (this.#missed.size > MAX_MISSED && oldest !== undefined) this.#missed.delete(oldest);
    return undefined;
  }

  idOf(cell: number): number | undefined {
    return this.#byCell.get(cell)?.id;
  }

  /**
   * Choices that may share a message when there are so many siblings, so that gateways do not choose alike: what all of them have not told is then half
   * a choice for each CRN, or an eighth of what runs. Where no model has two CRNs there is nothing to choose.
   */
  choicesTogether(siblings: number): number {
    if (!this.#hasChoice) return Infinity;
    let inFlight = 0;
    for (const { member } of this.#byCell.values()) inFlight += this.#deps.board.inFlight(member.server);
    return Math.max(this.#crns, inFlight / 4) / Math.max(siblings, 1);
  }

  /** Choices that threads have noted, from the start on, modulo 2^32. */
  get choices(): number {
    let sum = 0;
    for (const { choices } of this.#deps.rings) sum += choices;
    return sum >>> 0;
  }

  /** Whether there will be nothing to tell until threads note something. */
  get isQuiet(): boolean {
    const { rings } = this.#deps;
    return this.#emptyWholes >= LAST_WHOLES && this.#encoder.isEmpty && rings.every(({ isEmpty }) => isEmpty);
  }

  /** Whether threads have noted something that was not read yet. */
  get isNoted(): boolean {
    return this.#deps.rings.some(({ isEmpty }) => !isEmpty);
  }

  /** Messages may have been lost: everything that waits is told next. */
  renew(): void {
    this.#wholeMs = -Infinity;
    this.#emptyWholes = 0;
  }

  /** Takes over a new table. Whether siblings have told of a member of it before it was there: what they hold of it is not known here. */
  configure({ models }: ModelTableData, nowMs: number): boolean {
    const byCell = new Map<number, Told>();
    const byId = new Map<number, Told>();
    const servers = new Map<number, string>();
    const alike = new Set<number>();
    for (const { id: model, members } of models) {
      for (const member of members) {
        const id = memberId(model, member.url);
        const before = this.#byCell.get(member.member);
        const told = before !== undefined && before.id === id && before.member.server === member.server ? before : null;
        const entry = told === null ? new Told(id, member) : told;
        if (byId.has(id)) alike.add(id);
        byCell.set(member.member, entry);
        byId.set(id, entry);
        servers.set(member.server, member.url);
      }
    }
    for (const id of alike) byId.delete(id);
    for (const [cell, { member }] of this.#byCell) {
      if (byCell.get(cell)?.member.url !== member.url) this.#loads.clearMember(cell, nowMs);
      if (servers.get(member.server) !== member.url) this.#loads.clearServer(member.server);
    }
    for (const [cell, { id }] of byCell) if (!byId.has(id)) byCell.delete(cell);
    this.#byCell = byCell;
    this.#byId = byId;
    this.#crns = servers.size;
    this.#hasChoice = models.some(({ members }) => members.length > 1);
    this.#encoder.keep(new Set(byId.keys()));
    let hasMissed = false;
    for (const id of byId.keys()) if (this.#missed.delete(id)) hasMissed = true;
    return hasMissed;
  }

  /** Forgets what was noted and not told: there was nobody to tell. */
  skip(): void {
    for (const ring of this.#deps.rings) ring.skip();
    if (!this.#encoder.isEmpty) this.#encoder.take();
    this.renew();
  }

  /**
   * What is to be told now, valid until the next call; null when nothing is. To be called again after a body, soon after threads have noted
   * something, and every 100 ms until `isQuiet`.
   */
  take(nowMs: number): Buffer | null {
    const encoder = this.#encoder;
    let records = 0;
    for (const ring of this.#deps.rings) records += ring.read(this.#noted, this.#isFull);
    if (records > 0) this.#emptyWholes = 0;
    const isWhole = nowMs - this.#wholeMs >= WHOLE_MS && this.#emptyWholes < LAST_WHOLES;
    const isDue = this.#noteLoads(isWhole, encoder.isEmpty, nowMs);
    if (isWhole) {
      this.#wholeMs = nowMs;
      encoder.whole();
    }
    if (encoder.isEmpty || !isDue) return null;
    this.#takenMs = nowMs;
    return encoder.take();
  }

  /** Takes over what a sibling, given by its index, says. Throws when it cannot be read; then nothing of it has changed anything. */
  apply(body: Buffer, sibling: number, nowMs: number): void {
    this.#sibling = sibling;
    this.#nowMs = nowMs;
    this.#toldMembers.clear();
    this.#toldServers.clear();
    this.#heard = 0;
    this.#decoder.read(body, this.#told);
    this.#noteUnheard();
  }

  /** From the choices that came now follows how many are on their way at a time. */
  #noteUnheard(): void {
    const nowMs = this.#nowMs;
    const before = this.#unheard.get(this.#sibling) ?? { atMs: nowMs - UNHEARD_MS, choices: 0 };
    const elapsedMs = Math.max(nowMs - before.atMs, 1);
    const mean = (this.#heard * Math.min(elapsedMs, UNHEARD_MS)) / (2 * elapsedMs);
    this.#unheard.set(this.#sibling, {
      atMs: nowMs,
      choices: before.choices + UNHEARD_WEIGHT * (mean - before.choices),
    });
    this.#tellUnheard();
  }

  #tellUnheard(): void {
    let sum = 0;
    for (const { choices } of this.#unheard.values()) sum += choices;
    const [ring] = this.#deps.rings;
    if (ring !== undefined) ring.unheard = sum / Math.max(this.#crns, 1);
  }

  /** A sibling is gone: what it had waiting is not counted any more. What it has placed stays. */
  remove(sibling: number, nowMs: number): void {
    this.#loads.remove(sibling, nowMs);
    this.#unheard.delete(sibling);
    this.#tellUnheard();
  }

  readonly #isFull = (): boolean => this.#encoder.size >= FULL_BYTES;

  /** Adds the loads that have changed, or all. Whether anything has to be told now. */
  #noteLoads(isWhole: boolean, isEmpty: boolean, nowMs: number): boolean {
    const { board } = this.#deps;
    let isDue = isWhole || !isEmpty || nowMs - this.#takenMs >= ENDED_MS;
    const changed: Told[] = [];
    for (const told of this.#byCell.values()) {
      const { member, server } = told.member;
      const bytes = board.loads.ownBytes(member, nowMs);
      const streams = board.loads.ownStreams(member);
      const requests = board.ownInFlight(server);
      if (isWhole) {
        if (bytes > 0 || streams > 0 || requests > 0) changed.push(told);
        else told.bytes = told.streams = told.requests = 0;
        continue;
      }
      const differs = Math.abs(bytes - told.bytes);
      const isSame = differs <= Math.max(SAME_BYTES, told.bytes * SAME_PART) && (bytes > 0 || told.bytes === 0);
      if (isSame && streams === told.streams && requests === told.requests) continue;
      changed.push(told);
      isDue ||= !isSame || streams > told.streams || requests > told.requests;
    }
    if (!isDue) return false;
    if (isWhole) this.#emptyWholes = changed.length === 0 ? this.#emptyWholes + 1 : 0;
    for (const told of changed) {
      const { member, server } = told.member;
      told.bytes = Math.round(Math.max(board.loads.ownBytes(member, nowMs), 0));
      told.streams = board.loads.ownStreams(member);
      told.requests = board.ownInFlight(server);
      this.#encoder.load(told.id, told.bytes, told.streams, told.requests);
    }
    return true;
  }

  /** From the rings, in cells. */
  readonly #noted = {
    entered: (member: number, advance: number, first: number, hashes: Int32Array, count: number): void => {
      const id = this.idOf(member);
      if (id !== undefined) this.#encoder.entered(id, advance, first, hashes, count);
    },
    withdrawn: (member: number, hashes: Int32Array, count: number): void => {
      const id = this.idOf(member);
      if (id !== undefined) this.#encoder.withdrawn(id, hashes, count);
    },
    response: (tag: number, holder: number): void => this.#encoder.response(tag, holder),
  };

  /** From a sibling, in ids. Members that only the sibling has are passed over. */
  readonly #told: BatchSink = {
    entered: (member, advance, first, hashes, count) => {
      const cell = this.cellOf(member);
      if (advance > 0) this.#heard++;
      if (cell !== undefined) this.#deps.index.learn(cell, advance, first, hashes, count);
    },
    withdrawn: (member, hashes, count) => {
      const cell = this.cellOf(member);
      if (cell !== undefined) this.#deps.index.unlearn(cell, hashes, count);
    },
    load: (id, bytes, streams, requests) => {
      const told = this.#byId.get(id);
      if (told === undefined) return;
      const { member, server } = told.member;
      this.#toldMembers.add(member);
      this.#toldServers.add(server);
      this.#loads.set(this.#sibling, member, server, bytes, streams, requests, this.#nowMs);
    },
    response: (tag, holder) => this.#deps.holders.learn(tag, holder),
    end: (isWhole) => {
      if (isWhole) this.#loads.setOthers(this.#sibling, this.#toldMembers, this.#toldServers, this.#nowMs);
    },
  };
}
