// A gateway without sockets that shares placements: memory, the picker of one thread, and the exchange with its siblings.

import { PlacementExchange } from '../../src/cluster/index.ts';
import { BlockIndex } from '../../src/routing/block-index.ts';
import { Board, type BoardMemory, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import { CacheFeedback } from '../../src/routing/cache-feedback.ts';
import { hashText, type Member, type Model } from '../../src/routing/model-table.ts';
import { Candidates, type PickerDeps, type PromptHashes } from '../../src/routing/picker.ts';
import { PlacementRing } from '../../src/routing/placement-ring.ts';
import { ResponseHolders } from '../../src/routing/response-holders.ts';
import { NO_HINT, PICKER, pickerDeps } from './picker.ts';

export interface PlacementGatewayOptions {
  readonly crns: number;
  readonly now: () => number;
  readonly random?: () => number;
  /** Cells of the CRNs in the order of their numbers; default: 0, 1, 2 … */
  readonly cells?: readonly number[];
  readonly indexBytes?: number;
  /** Bytes that each CRN caches. */
  readonly capacity?: number;
}

export class PlacementGateway {
  readonly memory: BoardMemory;
  readonly board: Board;
  readonly model: Model;
  readonly ring: PlacementRing;
  /** With the ring, as threads have it. */
  readonly index: BlockIndex;
  /** Without, as the control thread has it. */
  readonly control: BlockIndex;
  readonly holders: ResponseHolders;
  readonly exchange: PlacementExchange;
  readonly deps: PickerDeps;
  readonly feedback: CacheFeedback;
  readonly #now: () => number;

  constructor({ capacity, cells, crns, indexBytes = 1 << 20, now, random = () => 0 }: PlacementGatewayOptions) {
    const count = Math.max(...(cells ?? [crns - 1])) + 1;
    this.#now = now;
    this.memory = createBoardMemory(count, count, 1, indexBytes);
    this.board = new Board(this.memory, 0);
    this.ring = new PlacementRing(this.memory.placements, 0);
    this.ring.on = true;
    this.index = new BlockIndex(this.memory.blocks, this.ring);
    this.control = new BlockIndex(this.memory.blocks);
    this.holders = new ResponseHolders(this.memory, this.ring);
    const members = Array.from({ length: crns }, (_, at): Member => {
      const url = `http://10.0.0.${at}:8000`;
      const cell = cells?.[at] ?? at;
      return { url, server: cell, member: cell, hash: hashText(url), apiKey: undefined, weight: 1, dialects: 0 };
    });
    for (const { member } of members) {
      this.board.setStanding(member, STANDING.up, -1e6);
      if (capacity !== undefined) this.index.setCapacity(member, capacity);
    }
    this.model = { id: 'm', members, budget: 0 };
    this.exchange = new PlacementExchange({
      ...{ members: count, servers: count, board: this.board, index: this.control },
      holders: new ResponseHolders(this.memory),
      rings: [this.ring],
    });
    this.exchange.configure({ version: 1, models: [this.model] }, now());
    this.feedback = new CacheFeedback(this.memory, this.index);
    this.deps = { ...pickerDeps(this.board, this.memory, now, random), index: this.index };
  }

  /** Of a request whose answer is a stream. */
  candidates(prompt: PromptHashes): Candidates {
    const hint = { ...NO_HINT, bytes: prompt.bytes, blocks: () => prompt };
    return new Candidates(this.model, this.deps, PICKER, hint);
  }

  /** Chooses a CRN for one. */
  choose(prompt: PromptHashes): Candidates {
    const candidates = this.candidates(prompt);
    candidates.next();
    return candidates;
  }

  /** The first event of a stream has come. */
  prefilledBy(candidates: Candidates): void {
    candidates.prefilled(candidates, 50);
  }

  /** Number of a CRN by its member. */
  crnOf(candidates: Candidates): number {
    return this.model.members.indexOf(candidates.member);
  }

  /** What there is to be told now; null when nothing is. */
  take(): Buffer | null {
    const body = this.exchange.take(this.#now());
    return body === null ? null : Buffer.from(body);
  }

  /** Leading blocks of a prompt that a CRN is taken to hold. */
  matched(crn: number, { count, hashes }: PromptHashes): number {
    return this.index.matched((this.model.members[crn] as Member).member, hashes, count);
  }
}

/** A prompt of blocks that are given by numbers; a number stands for everything before it, too. */
export function promptOf(ids: readonly number[]): PromptHashes {
  const hashes = new Int32Array(2 * ids.length);
  ids.forEach((id, at) => {
    hashes[2 * at] = mixed(id, 1);
    hashes[2 * at + 1] = mixed(id, 2);
  });
  return { hashes, count: ids.length, bytes: ids.length * 512 };
}

function mixed(value: number, seed: number): number {
  let hash = Math.imul(value + 1, 0x9e3779b1) ^ Math.imul(seed, 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}
