// What siblings have waiting at members and in flight at CRNs: one row for each sibling, and their sum in the memory that pickers read.

import type { Board } from '../routing/index.ts';

/** What one sibling has said last, by cell. */
class Row {
  readonly bytes: Int32Array;
  readonly streams: Int32Array;
  readonly requests: Int32Array;

  constructor(members: number, servers: number) {
    this.bytes = new Int32Array(members);
    this.streams = new Int32Array(members);
    this.requests = new Int32Array(servers);
  }
}

export class SiblingLoads {
  readonly #board: Board;
  readonly #members: number;
  readonly #servers: number;
  readonly #rows = new Map<number, Row>();
  /** All rows together. Bytes of 63 siblings may be more than a word holds. */
  readonly #bytes: Float64Array;
  readonly #streams: Int32Array;
  readonly #requests: Int32Array;

  constructor(board: Board, members: number, servers: number) {
    this.#board = board;
    this.#members = members;
    this.#servers = servers;
    this.#bytes = new Float64Array(members);
    this.#streams = new Int32Array(members);
    this.#requests = new Int32Array(servers);
  }

  /** A sibling has so much waiting at a member, and so many requests in flight at its CRN. */
  set(
    sibling: number,
    member: number,
    server: number,
    bytes: number,
    streams: number,
    requests: number,
    nowMs: number,
  ): void {
    const row = this.#rowOf(sibling);
    this.#setMember(row, member, bytes, streams, nowMs);
    this.#setServer(row, server, requests);
  }

  /** A sibling has nothing waiting at members that are not among these, nor in flight at other servers. */
  setOthers(sibling: number, members: ReadonlySet<number>, servers: ReadonlySet<number>, nowMs: number): void {
    const row = this.#rows.get(sibling);
    if (row === undefined) return;
    for (let member = 0; member < this.#members; member++) {
      if (row.bytes[member] === 0 && row.streams[member] === 0) continue;
      if (!members.has(member)) this.#setMember(row, member, 0, 0, nowMs);
    }
    for (let server = 0; server < this.#servers; server++) {
      if (row.requests[server] !== 0 && !servers.has(server)) this.#setServer(row, server, 0);
    }
  }

  /** A sibling is gone. */
  remove(sibling: number, nowMs: number): void {
    this.setOthers(sibling, new Set(), new Set(), nowMs);
    this.#rows.delete(sibling);
  }

  /** A cell is that of another member from now on. */
  clearMember(member: number, nowMs: number): void {
    for (const row of this.#rows.values()) this.#setMember(row, member, 0, 0, nowMs);
  }

  /** A cell is that of another CRN from now on. */
  clearServer(server: number): void {
    for (const row of this.#rows.values()) this.#setServer(row, server, 0);
  }

  #rowOf(sibling: number): Row {
    let row = this.#rows.get(sibling);
    if (row === undefined) {
      row = new Row(this.#members, this.#servers);
      this.#rows.set(sibling, row);
    }
    return row;
  }

  #setMember(row: Row, member: number, bytes: number, streams: number, nowMs: number): void {
    const before = row.bytes[member] as number;
    if (before === bytes && row.streams[member] === streams) return;
    const sum = (this.#bytes[member] as number) + bytes - before;
    const streamSum = (this.#streams[member] as number) + streams - (row.streams[member] as number);
    this.#bytes[member] = sum;
    this.#streams[member] = streamSum;
    row.bytes[member] = bytes;
    row.streams[member] = streams;
    this.#board.loads.setSiblings(member, sum, streamSum, bytes < before, nowMs);
  }

  #setServer(row: Row, server: number, requests: number): void {
    const before = row.requests[server] as number;
    if (before === requests) return;
    row.requests[server] = requests;
    this.#requests[server]! += requests - before;
    this.#board.setSiblings(server, this.#requests[server] as number);
  }
}
