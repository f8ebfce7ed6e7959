// Actor that owns the CRN actors, one per base URL: makes the routing table from a list of models, assigns cells of the board,
// starts and stops CRN actors, forwards outcomes to them, and holds the panic threshold and the set of drained CRNs.

import type { Behavior, Context, Ref } from '../actor/index.ts';
import { declaredDialects } from '../config/dialect-bits.ts';
import { type BreakerSettings, FailureRates } from './breaker.ts';
import type { BlockIndex } from './block-index.ts';
import type { BoardMemory } from './board.ts';
import type { CacheFeedback } from './cache-feedback.ts';
import type { CrnReport } from './crn-report.ts';
import type { Outcome } from './outcome.ts';
import {
  crn,
  type CrnCommand,
  type CrnEvent,
  type CrnOverride,
  type CrnDeps,
  type HealthSettings,
  type OverrideResult,
} from './crn.ts';
import { hashText, type Member, type Model, type ModelTableData, type ServerDetails } from './model-table.ts';

/** A model as it is configured or discovered. */
export interface ModelSpec {
  readonly id: string;
  readonly aliases?: readonly string[];
  /** A string is a base URL. */
  readonly servers: readonly (string | ServerDetails)[];
}

/** A model whose servers have cells on the board; each URL is there once. */
interface FittingModel extends ModelSpec {
  readonly servers: readonly ServerDetails[];
}

export interface CrnRegistrySettings {
  readonly health: HealthSettings;
  readonly ejection: BreakerSettings;
  /** Largest share of a model's CRNs that may be ejected at once. */
  readonly maxShare: number;
}

export type CrnRegistryCommand =
  | { readonly type: 'Configure'; readonly models: readonly ModelSpec[]; readonly settings: CrnRegistrySettings }
  | { readonly type: 'Outcome'; readonly outcome: Outcome }
  /** An operator's override of one CRN; the reply comes once the board shows it. */
  | {
      readonly type: 'Override';
      readonly url: string;
      readonly override: CrnOverride;
      readonly replyTo: Ref<OverrideResult>;
    }
  | { readonly type: 'Event'; readonly event: CrnEvent };

export interface CrnRegistryDeps extends Pick<CrnDeps, 'board' | 'onProbeResult' | 'probe'> {
  readonly memory: BoardMemory;
  readonly blockIndex: BlockIndex;
  readonly feedback: CacheFeedback;
  /** Asks a CRN what it says about itself, with the gateway's credential for it. */
  readonly report: (url: string, apiKey: string | undefined, timeoutMs: number) => Promise<CrnReport>;
  readonly onTable: (table: ModelTableData) => void;
  readonly onEvent: (event: CrnEvent) => void;
  /** Every CRN of the table has completed its first probes. */
  readonly onProbed: () => void;
}

interface Server {
  readonly url: string;
  readonly cell: number;
  /** Models and settings of the running actor; a change restarts it. */
  fingerprint: string;
  members: Map<string, number>;
  ref: Ref<CrnCommand>;
  ejected: boolean;
  probed: boolean;
}

/** Free cells of one kind; the one that was free longest is taken first. */
class Cells {
  readonly #free: number[];

  constructor(count: number) {
    this.#free = Array.from({ length: count }, (_, index) => count - 1 - index);
  }

  take(what: string): number {
    const cell = this.#free.pop();
    if (cell === undefined) throw new Error(`the board is full: no cell left for ${what}`);
    return cell;
  }

  give(cell: number): void {
    this.#free.unshift(cell);
  }
}

/** Behavior of the CRN registry. */
export function crnRegistry(deps: CrnRegistryDeps): Behavior<CrnRegistryCommand> {
  return (context) => {
    const registry = new CrnRegistry(deps, context);
    return (command) => {
      switch (command.type) {
        case 'Configure':
          registry.configure(command.models, command.settings);
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
  #models: readonly Model[] = [];
  #maxShare = 0;
  #version = 0;

  constructor(deps: CrnRegistryDeps, context: Context<CrnRegistryCommand>) {
    this.#deps = deps;
    this.#context = context;
    this.#serverCells = new Cells(deps.memory.servers);
    this.#memberCells = new Cells(deps.memory.members);
    this.#freeModelCells = new Cells(deps.memory.members);
  }

  configure(given: readonly ModelSpec[], settings: CrnRegistrySettings): void {
    this.#maxShare = settings.maxShare;
    const specs = this.#fit(given);
    const wanted = modelsByUrl(specs);
    const ids = new Set(specs.flatMap(({ id, servers }) => (servers.length > 0 ? [id] : [])));
    for (const [id, cell] of this.#modelCells) if (!ids.has(id)) this.#freeModel(id, cell);
    for (const url of [...this.#servers.keys()]) if (!wanted.has(url)) this.#retire(url);
    for (const [url, models] of wanted) this.#ensure(url, models, settings);
    this.#models = specs.map(({ aliases = [], id, servers }) => ({
      id,
      aliases,
      members: servers.map((server) => this.#member(server, id)),
      budget: this.#cellOf(id, servers.length),
    }));
    this.#deps.onTable({ version: ++this.#version, models: this.#models });
    this.#checkProbed();
  }

  /** The models without the CRNs that the board has no cells for; each of those is reported. */
  #fit(given: readonly ModelSpec[]): readonly FittingModel[] {
    const urls = new Set<string>();
    let members = 0;
    return given.map((spec) => {
      const details = spec.servers.map((server) => (typeof server === 'string' ? { url: server } : server));
      const servers = [...new Map(details.map((server) => [server.url, server])).values()].filter(({ url }) => {
        const fits = members < this.#deps.memory.members && (urls.has(url) || urls.size < this.#deps.memory.servers);
        if (fits) {
          urls.add(url);
          members++;
        } else {
          this.#deps.onEvent({ type: 'left out', url, model: spec.id });
        }
        return fits;
      });
      return { ...spec, servers };
    });
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

  #member({ apiKey, dialects = 'auto', url, weight = 1 }: ServerDetails, model: string): Member {
    const server = this.#servers.get(url) as Server;
    const member = server.members.get(model) as number;
    const hash = hashText(url);
    return { url, server: server.cell, member, hash, apiKey, weight, dialects: declaredDialects(dialects) };
  }

  /** Each model with a CRN has a cell: there are as many as members. The others share the last one, since they never try anything. */
  #cellOf(id: string, servers: number): number {
    let cell = this.#modelCells.get(id);
    if (cell === undefined && servers === 0) return this.#deps.memory.members;
    if (cell === undefined) {
      cell = this.#freeModelCells.take(id);
      this.#modelCells.set(id, cell);
    }
    return cell;
  }

  /** Clears the cell: its next model begins with a full retry budget, and without what was learned. */
  #freeModel(id: string, cell: number): void {
    this.#modelCells.delete(id);
    Atomics.store(new Int32Array(this.#deps.memory.retries), cell, 0);
    this.#deps.feedback.resetModel(cell);
    this.#freeModelCells.give(cell);
  }

  #ensure(url: string, models: readonly string[], settings: CrnRegistrySettings): void {
    const fingerprint = JSON.stringify([models, settings]);
    const known = this.#servers.get(url);
    if (known?.fingerprint === fingerprint) return;
    const cell = known?.cell ?? this.#serverCells.take(url);
    const members = this.#cellsFor(url, models, known);
    if (known !== undefined) this.#context.stop(known.ref);
    const ref = this.#spawn(url, cell, members, settings);
    const server: Server = { url, cell, fingerprint, members, ref, ejected: false, probed: known?.probed ?? false };
    this.#servers.set(url, server);
    for (const member of members.values()) this.#byMember.set(member, server);
  }

  /** Models that stay keep their cells, and with them their standing and times. */
  #cellsFor(url: string, models: readonly string[], known: Server | undefined): Map<string, number> {
    const members = new Map<string, number>();
    for (const [model, cell] of known?.members ?? []) {
      if (models.includes(model)) members.set(model, cell);
      else this.#free(cell);
    }
    for (const model of models) {
      if (members.has(model)) continue;
      const cell = this.#memberCells.take(`${model} on ${url}`);
      // Requests that were routed by an older table may have changed it since it was freed.
      this.#reset(cell);
      members.set(model, cell);
    }
    return members;
  }

  #spawn(
    url: string,
    server: number,
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
          probe,
          onProbeResult,
          report: (asked, timeoutMs) => report(asked, this.#apiKeyOf(asked), timeoutMs),
          rates: this.#rates,
          peers: (model) => this.#peers(model, url),
          mayEject: (wanted) => this.#mayEject(wanted),
          isDrained: (asked) => this.#drained.has(asked),
          onEvent: (event) => this.#context.self.tell({ type: 'Event', event }),
        },
      ),
    );
  }

  #retire(url: string): void {
    const server = this.#servers.get(url) as Server;
    this.#servers.delete(url);
    this.#context.stop(server.ref);
    for (const member of server.members.values()) this.#free(member);
    this.#deps.board.resetServer(server.cell);
    this.#serverCells.give(server.cell);
  }

  #free(member: number): void {
    this.#byMember.delete(member);
    this.#rates.forget(member);
    this.#reset(member);
    this.#memberCells.give(member);
  }

  #reset(member: number): void {
    this.#deps.board.resetMember(member);
    this.#deps.blockIndex.reset(member);
    this.#deps.feedback.resetMember(member);
  }

  #apiKeyOf(url: string): string | undefined {
    for (const { members } of this.#models) {
      const apiKey = members.find((member) => member.url === url)?.apiKey;
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

  #isOut(url: string): boolean {
    return this.#drained.has(url) || this.#servers.get(url)?.ejected === true;
  }
}

function modelsByUrl(specs: readonly FittingModel[]): Map<string, string[]> {
  const byUrl = new Map<string, string[]>();
  for (const spec of specs) {
    for (const { url } of spec.servers) {
      const models = byUrl.get(url) ?? [];
      models.push(spec.id);
      byUrl.set(url, models);
    }
  }
  return byUrl;
}
