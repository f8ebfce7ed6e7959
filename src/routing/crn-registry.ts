// Actor that owns the CRN actors, one per base URL: makes the routing table from a list of models, assigns cells of the board,
// starts and stops CRN actors, forwards outcomes to them, and holds the panic threshold and the set of drained CRNs.

import type { Behavior, Context, Ref } from '../actor/index.ts';
import { declaredDialects } from '../config/dialect-bits.ts';
import { type BreakerSettings, FailureRates } from './breaker.ts';
import type { BlockIndex } from './block-index.ts';
import { type BoardMemory, STANDING } from './board.ts';
import type { CacheFeedback } from './cache-feedback.ts';
import type { CrnReport } from './crn-report.ts';
import type { Outcome } from './outcome.ts';
import {
  crn,
  type CrnCommand,
  type CrnEvent,
  CrnMemory,
  type CrnOverride,
  type CrnDeps,
  type HealthSettings,
  type OverrideResult,
  type ProbeResult,
} from './crn.ts';
import {
  hashText,
  hostnamesOf,
  type Member,
  type Model,
  type ModelTableData,
  type ServerDetails,
} from './model-table.ts';

/** A model as it is configured or discovered. */
export interface ModelSpec {
  readonly id: string;
  readonly aliases?: readonly string[];
  /** The last one of a URL holds. */
  readonly servers: readonly ServerDetails[];
}

export interface CrnRegistrySettings {
  readonly health: HealthSettings;
  readonly ejection: BreakerSettings;
  /** Largest share of a model's CRNs that may be ejected at once. */
  readonly maxShare: number;
}

export type CrnRegistryCommand =
  | {
      readonly type: 'Configure';
      readonly models: readonly ModelSpec[];
      readonly settings: CrnRegistrySettings;
      /** As `ModelTableData.isPartial`. */
      readonly isPartial?: boolean;
    }
  | { readonly type: 'Outcome'; readonly outcome: Outcome }
  /** An operator's override of one CRN; the reply comes once the board shows it. */
  | {
      readonly type: 'Override';
      readonly url: string;
      readonly override: CrnOverride;
      readonly replyTo: Ref<OverrideResult>;
    }
  | { readonly type: 'Event'; readonly event: CrnEvent };

export interface CrnRegistryDeps extends Pick<CrnDeps, 'board' | 'probe'> {
  readonly memory: BoardMemory;
  readonly blockIndex: BlockIndex;
  readonly feedback: CacheFeedback;
  /** Asks a CRN what it says about itself, with the gateway's credential for it. */
  readonly report: (url: string, apiKey: string | undefined, timeoutMs: number) => Promise<CrnReport>;
  /** A round of probes of a CRN is over. */
  readonly onProbeResult: (url: string, result: ProbeResult) => void;
  readonly onTable: (table: ModelTableData) => void;
  readonly onEvent: (event: CrnEvent) => void;
  /** Every CRN of the table has completed its first probes. */
  readonly onProbed: () => void;
}

interface Server {
  readonly url: string;
  /** Identity of its process; '' while no source has said it. */
  instance: string;
  readonly cell: number;
  readonly memory: CrnMemory;
  /** Models and settings of the running actor; a change restarts it. */
  fingerprint: string;
  members: Map<string, number>;
  ref: Ref<CrnCommand>;
  ejected: boolean;
  probed: boolean;
}

/** A cell, and whether it holds what was learned when it was last given by the same name. */
interface TakenCell {
  readonly cell: number;
  readonly isKnown: boolean;
}

/** What a free cell was for. */
interface Memory {
  readonly name: string;
  readonly untilMs: number;
}

/** Free cells of one kind. A name gets the cell that it had if that is still as it was; else the one that was free longest is taken. */
class Cells {
  readonly #free: Set<number>;
  readonly #memories = new Map<number, Memory>();
  readonly #byName = new Map<string, number>();

  constructor(count: number) {
    this.#free = new Set(Array.from({ length: count }, (_, index) => index));
  }

  take(name: string, nowMs: number): TakenCell {
    const [longest] = this.#free;
    const remembered = this.#byName.get(name);
    const cell = remembered ?? longest;
    if (cell === undefined) throw new Error(`the board is full: no cell left for ${name}`);
    const isKnown = remembered !== undefined && nowMs < (this.#memories.get(cell) as Memory).untilMs;
    this.#forget(cell);
    this.#free.delete(cell);
    return { cell, isKnown };
  }

  /** The cell is free. Its content is remembered under its name until `untilMs`, unless it is taken for another one. */
  give(cell: number, name: string, untilMs: number): void {
    this.#free.add(cell);
    this.#memories.set(cell, { name, untilMs });
    this.#byName.set(name, cell);
  }

  #forget(cell: number): void {
    const memory = this.#memories.get(cell);
    if (memory === undefined) return;
    this.#memories.delete(cell);
    if (this.#byName.get(memory.name) === cell) this.#byName.delete(memory.name);
  }
}

/**
 * Time for which it is remembered what was learned of a CRN that is in no list any more, in milliseconds: a source of servers that
 * loses one and finds it again is seldom slower, and a later one at this URL is seldom the same.
 */
const MEMORY_MS = 5 * 60_000;

/** Behavior of the CRN registry. */
export function crnRegistry(deps: CrnRegistryDeps): Behavior<CrnRegistryCommand> {
  return (context) => {
    const registry = new CrnRegistry(deps, context);
    return (command) => {
      switch (command.type) {
        case 'Configure':
          registry.configure(command.models, command.settings, command.isPartial);
          break;
        case 'Outcome':
          registry.outcome(command.outcome);
          break;
        case 'Override':
          registry.override(command.url, command.override, command.replyTo);
          break;
        case 'Event':
          registry.event(command.event);
          break;
      }
    };
  };
}

/**
 * Behavior of an actor in front of the registry that takes outcomes: a burst of them, as of many servers that fail at once, fills the mailbox of
 * this actor, so that what configures the registry and what operators tell it are not lost.
 */
export function outcomeQueue(registry: Ref<CrnRegistryCommand>): Behavior<CrnRegistryCommand> {
  return () => (command) => {
    registry.tell(command);
  };
}

class CrnRegistry {
  readonly #deps: CrnRegistryDeps;
  readonly #context: Context<CrnRegistryCommand>;
  readonly #serverCells: Cells;
  readonly #memberCells: Cells;
  readonly #servers = new Map<string, Server>();
  readonly #rates = new FailureRates();
  readonly #byMember = new Map<number, Server>();
  readonly #modelCells = new Map<string, number>();
  readonly #freeModelCells: Cells;
  /** Base URLs. A CRN stays drained through changes of the configuration, until it is returned. */
  readonly #drained = new Set<string>();
  /** The same of ejections by operators that have a length: their ends. */
  readonly #ejectedUntilMs = new Map<string, number>();
  /** What is remembered of CRNs that are in no list any more. */
  readonly #retired = new Map<string, { readonly memory: CrnMemory; readonly untilMs: number }>();
  #models: readonly Model[] = [];
  #hostnames: ReadonlyMap<string, string> = new Map();
  #maxShare = 0;
  #version = 0;

  constructor(deps: CrnRegistryDeps, context: Context<CrnRegistryCommand>) {
    this.#deps = deps;
    this.#context = context;
    this.#serverCells = new Cells(deps.memory.servers);
    this.#memberCells = new Cells(deps.memory.members);
    this.#freeModelCells = new Cells(deps.memory.members);
  }

  configure(given: readonly ModelSpec[], settings: CrnRegistrySettings, isPartial = false): void {
    this.#maxShare = settings.maxShare;
    const specs = this.#fit(given);
    const wanted = serversByUrl(specs);
    const ids = new Set(specs.flatMap(({ id, servers }) => (servers.length > 0 ? [id] : [])));
    for (const [id, cell] of this.#modelCells) if (!ids.has(id)) this.#freeModel(id, cell);
    for (const { instance, url } of [...this.#servers.values()]) {
      const next = wanted.get(url);
      if (next === undefined || isOther(instance, next.instance)) this.#retire(url);
    }
    // Before any cell is taken: a board that stays full has no other free ones.
    for (const [url, { models }] of wanted) this.#freeOthers(url, models);
    for (const [url, server] of wanted) this.#ensure(url, server, settings);
    this.#forgetRetired();
    for (const url of this.#ejectedUntilMs.keys()) if (this.#ejectedForMs(url) === 0) this.#ejectedUntilMs.delete(url);
    this.#models = specs.map(({ aliases = [], id, servers }) => ({
      id,
      aliases,
      members: servers.map((server) => this.#member(server, id)),
      budget: this.#cellOf(id, servers.length),
    }));
    this.#hostnames = hostnamesOf({ models: this.#models });
    this.#deps.onTable({ version: ++this.#version, models: this.#models, isPartial });
    this.#checkProbed();
  }

  /** The models with each URL once, and without the CRNs that the board has no cells for; those are reported at once. */
  #fit(given: readonly ModelSpec[]): readonly ModelSpec[] {
    const urls = new Set<string>();
    const leftOut: { readonly url: string; readonly model: string }[] = [];
    let members = 0;
    const fitting = given.map((spec) => {
      const servers = [...new Map(spec.servers.map((server) => [server.url, server])).values()].filter(({ url }) => {
        const fits = members < this.#deps.memory.members && (urls.has(url) || urls.size < this.#deps.memory.servers);
        if (fits) {
          urls.add(url);
          members++;
        } else {
          leftOut.push({ url, model: spec.id });
        }
        return fits;
      });
      return { ...spec, servers };
    });
    const [first] = leftOut;
    if (first !== undefined) this.#deps.onEvent({ type: 'left out', ...first, count: leftOut.length });
    return fitting;
  }

  outcome(outcome: Outcome): void {
    this.#byMember.get(outcome.member)?.ref.tell({ type: 'Outcome', outcome });
  }

  override(url: string, override: CrnOverride, replyTo: Ref<OverrideResult>): void {
    const server = this.#servers.get(url);
    if (server === undefined) {
      replyTo.tell('no such CRN');
      return;
    }
    if (override.action === 'drain') this.#drained.add(url);
    if (override.action === 'return') this.#drained.delete(url);
    if (override.action === 'eject') server.ejected = true;
    if (override.action !== 'drain') this.#ejectedUntilMs.delete(url);
    if (override.action === 'eject' && override.forMs !== null)
      this.#ejectedUntilMs.set(url, this.#context.clock.now() + override.forMs);
    server.ref.tell({ type: 'Override', override, replyTo });
  }

  event(event: CrnEvent): void {
    const server = this.#servers.get(event.url);
    if (server !== undefined) {
      if (event.type === 'returned') server.ejected = false;
      // A restarted CRN actor is not ejected any more.
      if (event.type === 'probed') server.ejected = event.ejected;
      if (event.type === 'probed' && !server.probed) {
        server.probed = true;
        this.#checkProbed();
      }
    }
    this.#deps.onEvent(event);
  }

  #checkProbed(): void {
    for (const server of this.#servers.values()) if (!server.probed) return;
    this.#deps.onProbed();
  }

  #member({ apiKey, dialects = 'auto', host, url, weight = 1 }: ServerDetails, model: string): Member {
    const server = this.#servers.get(url) as Server;
    const member = server.members.get(model) as number;
    const hash = hashText(url);
    return {
      ...{ url, server: server.cell, member, hash, apiKey, weight, dialects: declaredDialects(dialects) },
      ...(host !== undefined && { host }),
    };
  }

  /** Each model with a CRN has a cell: there are as many as members. The others share the last one, since they never try anything. */
  #cellOf(id: string, servers: number): number {
    let cell = this.#modelCells.get(id);
    if (cell === undefined && servers === 0) return this.#deps.memory.members;
    if (cell === undefined) {
      const taken = this.#freeModelCells.take(id, this.#context.clock.now());
      cell = taken.cell;
      if (!taken.isKnown) this.#deps.feedback.resetModel(cell);
      this.#modelCells.set(id, cell);
    }
    return cell;
  }

  /** A model that takes the cell begins with a full retry budget. */
  #freeModel(id: string, cell: number): void {
    this.#modelCells.delete(id);
    Atomics.store(new Int32Array(this.#deps.memory.retries), cell, 0);
    this.#freeModelCells.give(cell, id, this.#context.clock.now() + MEMORY_MS);
  }

  #ensure(url: string, { instance, models }: WantedServer, settings: CrnRegistrySettings): void {
    const fingerprint = JSON.stringify([models.toSorted(), settings]);
    const known = this.#servers.get(url);
    if (known !== undefined) known.instance ||= instance;
    if (known?.fingerprint === fingerprint) return;
    const { cell, memory } = known ?? this.#enter(url, instance);
    const identity = known?.instance ?? instance;
    const members = this.#cellsFor(url, identity, models, known);
    if (known !== undefined) this.#context.stop(known.ref);
    const ref = this.#spawn(url, cell, memory, members, settings);
    const probed = known?.probed ?? false;
    const server: Server = {
      ...{ url, instance: identity, cell, memory, fingerprint, members, ref },
      ...{ ejected: this.#ejectedForMs(url) > 0, probed },
    };
    this.#servers.set(url, server);
    for (const member of members.values()) this.#byMember.set(member, server);
  }

  /** A cell for a server, with what is remembered of it. */
  #enter(url: string, instance: string): Pick<Server, 'cell' | 'memory'> {
    const name = nameOf(url, instance);
    const { cell, isKnown } = this.#serverCells.take(name, this.#context.clock.now());
    const retired = this.#retired.get(name);
    this.#retired.delete(name);
    if (isKnown && retired !== undefined) return { cell, memory: retired.memory };
    this.#deps.board.resetServer(cell);
    return { cell, memory: new CrnMemory() };
  }

  /** Frees the cells of the models that a server has no more. */
  #freeOthers(url: string, models: readonly string[]): void {
    const server = this.#servers.get(url);
    for (const [model, cell] of server?.members ?? []) {
      if (models.includes(model)) continue;
      server?.members.delete(model);
      this.#free(cell, memberName(model, url, server?.instance ?? ''));
    }
  }

  /** Models that stay keep their cells, and with them their standing and times. */
  #cellsFor(url: string, instance: string, models: readonly string[], known: Server | undefined): Map<string, number> {
    const members = new Map(known?.members);
    for (const model of models) {
      if (members.has(model)) continue;
      const { cell, isKnown } = this.#memberCells.take(memberName(model, url, instance), this.#context.clock.now());
      // Requests that were routed by an older table may have changed it since it was freed.
      if (!isKnown) this.#reset(cell);
      members.set(model, cell);
    }
    return members;
  }

  #spawn(
    url: string,
    server: number,
    memory: CrnMemory,
    members: ReadonlyMap<string, number>,
    settings: CrnRegistrySettings,
  ): Ref<CrnCommand> {
    const { board, feedback, onProbeResult, probe, report } = this.#deps;
    return this.#context.spawn(
      crn(
        {
          url,
          server,
          members: [...members].map(([model, member]) => ({ model, modelCell: this.#cellOf(model, 1), member })),
          health: settings.health,
          ejection: settings.ejection,
        },
        {
          board,
          feedback,
          memory,
          probe,
          onProbeResult: (result) => onProbeResult(url, result),
          report: (timeoutMs) => report(url, this.#apiKeyOf(url), timeoutMs),
          rates: this.#rates,
          peers: (model) => this.#peers(model, url),
          mayEject: () => this.#mayEject(url),
          isDrained: () => this.#drained.has(url),
          ejectedForMs: () => this.#ejectedForMs(url),
          onEvent: (event) => this.#context.self.tell({ type: 'Event', event }),
        },
      ),
    );
  }

  /** What was learned stays in its cells for a while, and in their use by requests that it still answers. */
  #retire(url: string): void {
    const server = this.#servers.get(url) as Server;
    const { cell, instance, members, memory, ref } = server;
    const { board } = this.#deps;
    const name = nameOf(url, instance);
    const untilMs = this.#context.clock.now() + MEMORY_MS;
    this.#servers.delete(url);
    this.#context.stop(ref);
    for (const [model, member] of members) this.#free(member, memberName(model, url, instance));
    board.endTrial(cell);
    board.setUnreachable(cell, null);
    this.#serverCells.give(cell, name, untilMs);
    memory.noteAway();
    this.#retired.set(name, { memory, untilMs });
  }

  #forgetRetired(): void {
    const nowMs = this.#context.clock.now();
    for (const [name, { untilMs }] of this.#retired) {
      // In the order of their ends.
      if (untilMs > nowMs && this.#retired.size <= this.#deps.memory.servers) return;
      this.#retired.delete(name);
    }
  }

  /** Requests that were routed by an older table take it for a last resort. */
  #free(member: number, name: string): void {
    const { board } = this.#deps;
    this.#byMember.delete(member);
    this.#rates.forget(member);
    board.raiseEpoch(member);
    board.setStanding(member, STANDING.down, 0);
    board.clearModelUnknown(member);
    this.#memberCells.give(member, name, this.#context.clock.now() + MEMORY_MS);
  }

  #reset(member: number): void {
    this.#deps.board.resetMember(member);
    this.#deps.blockIndex.reset(member);
    this.#deps.feedback.resetMember(member);
  }

  /** Of those for the name by which the gateway itself asks. */
  #apiKeyOf(url: string): string | undefined {
    const host = this.#hostnames.get(new URL(url).origin);
    for (const { members } of this.#models) {
      const apiKey = members.find((member) => member.url === url && member.host === host)?.apiKey;
      if (apiKey !== undefined) return apiKey;
    }
    return undefined;
  }

  #peers(model: string, url: string): readonly number[] {
    const members = this.#models.find(({ id }) => id === model)?.members ?? [];
    return members.filter((member) => member.url !== url).map(({ member }) => member);
  }

  /** A grant counts at once, since several CRNs may ask before the event of an ejection arrives. Drained CRNs count as ejected. */
  #mayEject(url: string): boolean {
    const server = this.#servers.get(url);
    if (server === undefined) return false;
    for (const model of this.#models) {
      if (!model.members.some((member) => member.url === url)) continue;
      let ejected = 1;
      for (const member of model.members) {
        if (member.url !== url && this.#isOut(member.url)) ejected++;
      }
      if (ejected > model.members.length * this.#maxShare) return false;
    }
    server.ejected = true;
    return true;
  }

  /** By an operator. */
  #ejectedForMs(url: string): number {
    return Math.max((this.#ejectedUntilMs.get(url) ?? 0) - this.#context.clock.now(), 0);
  }

  #isOut(url: string): boolean {
    return this.#drained.has(url) || this.#servers.get(url)?.ejected === true;
  }
}

interface WantedServer {
  readonly models: readonly string[];
  readonly instance: string;
}

function serversByUrl(specs: readonly ModelSpec[]): Map<string, WantedServer> {
  const byUrl = new Map<string, { models: string[]; instance: string }>();
  for (const spec of specs) {
    for (const { instance, url } of spec.servers) {
      const wanted = byUrl.get(url) ?? { models: [], instance: '' };
      wanted.models.push(spec.id);
      wanted.instance ||= instance ?? '';
      byUrl.set(url, wanted);
    }
  }
  return byUrl;
}

/** Whether two identities are of different processes: of several sources that know a server, some say none. */
function isOther(one: string, other: string): boolean {
  return one !== '' && other !== '' && one !== other;
}

function nameOf(url: string, instance: string): string {
  return instance === '' ? url : `${url} ${instance}`;
}

function memberName(model: string, url: string, instance: string): string {
  return `${model} on ${nameOf(url, instance)}`;
}
