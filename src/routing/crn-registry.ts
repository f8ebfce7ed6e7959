// The keeper of CRN actors: one child per base URL. Turns a list of models into a routing table, gives cells of the
// board to CRNs and members and takes them back, starts and retires CRN actors, passes outcomes on to them, and holds
// the panic threshold and the list of drained CRNs. Lives in the control plane; the composition posts its tables to the ingress threads.

import type { Behavior, Context, Ref } from '../actor/index.ts';
import type { BreakerSettings } from './breaker.ts';
import type { BoardMemory } from './board.ts';
import type { Outcome } from './classify.ts';
import {
  crn,
  type CrnCommand,
  type CrnEvent,
  type CrnOrder,
  type CrnDeps,
  type HealthSettings,
  type Obeyed,
} from './crn.ts';
import { hashText, type Member, type Model, type ModelTableData } from './model-table.ts';

/** A model as it is configured or discovered. */
export interface ModelSpec {
  readonly id: string;
  readonly servers: readonly string[];
  readonly apiKey?: string | undefined;
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
  /** An operator's order to one CRN; the answer comes once the board shows it. */
  | { readonly type: 'Order'; readonly url: string; readonly order: CrnOrder; readonly replyTo: Ref<Obeyed> }
  | { readonly type: 'Event'; readonly event: CrnEvent };

/** What the keeper needs from outside. */
export interface CrnRegistryDeps extends Pick<CrnDeps, 'board' | 'probe'> {
  readonly memory: BoardMemory;
  readonly onTable: (table: ModelTableData) => void;
  readonly onEvent: (event: CrnEvent) => void;
  /** Every CRN of the table has been judged at least once. */
  readonly onJudged: () => void;
}

interface Server {
  readonly url: string;
  readonly cell: number;
  /** Model and settings the running actor was started with; a change restarts it. */
  fingerprint: string;
  members: Map<string, number>;
  ref: Ref<CrnCommand>;
  ejected: boolean;
  judged: boolean;
}

/** Cells of one kind on the board. */
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

/** Makes the behaviour of the keeper. */
export function crnRegistry(deps: CrnRegistryDeps): Behavior<CrnRegistryCommand> {
  return (context) => {
    const keeper = new Keeper(deps, context);
    return (command) => {
      switch (command.type) {
        case 'Configure':
          keeper.configure(command.models, command.settings);
          break;
        case 'Outcome':
          keeper.outcome(command.outcome);
          break;
        case 'Order':
          keeper.order(command.url, command.order, command.replyTo);
          break;
        case 'Event':
          keeper.event(command.event);
          break;
      }
    };
  };
}

class Keeper {
  readonly #deps: CrnRegistryDeps;
  readonly #context: Context<CrnRegistryCommand>;
  readonly #serverCells: Cells;
  readonly #memberCells: Cells;
  readonly #servers = new Map<string, Server>();
  readonly #byMember = new Map<number, Server>();
  /** Base URLs; they stay drained whatever becomes of the configuration, until they are returned. */
  readonly #drained = new Set<string>();
  #models: readonly Model[] = [];
  #maxShare = 0;
  #version = 0;

  constructor(deps: CrnRegistryDeps, context: Context<CrnRegistryCommand>) {
    this.#deps = deps;
    this.#context = context;
    this.#serverCells = new Cells(deps.memory.servers);
    this.#memberCells = new Cells(deps.memory.members);
  }

  configure(given: readonly ModelSpec[], settings: CrnRegistrySettings): void {
    this.#maxShare = settings.maxShare;
    const specs = this.#fit(given);
    const wanted = modelsByUrl(specs);
    for (const url of [...this.#servers.keys()]) if (!wanted.has(url)) this.#retire(url);
    for (const [url, models] of wanted) this.#ensure(url, models, settings);
    this.#models = specs.map((spec) => ({
      id: spec.id,
      members: spec.servers.map((url) => this.#member(url, spec)),
    }));
    this.#deps.onTable({ version: ++this.#version, models: this.#models });
    this.#checkJudged();
  }

  /** Leaves out what the board has no cells for, and says so: some CRNs unused are better than none served. */
  #fit(given: readonly ModelSpec[]): readonly ModelSpec[] {
    const urls = new Set<string>();
    let members = 0;
    return given.map((spec) => {
      const servers = [...new Set(spec.servers)].filter((url) => {
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

  order(url: string, order: CrnOrder, replyTo: Ref<Obeyed>): void {
    const server = this.#servers.get(url);
    if (server === undefined) {
      replyTo.tell('no such CRN');
      return;
    }
    if (order.action === 'drain') this.#drained.add(url);
    if (order.action === 'return') this.#drained.delete(url);
    if (order.action === 'eject') server.ejected = true;
    server.ref.tell({ type: 'Obey', order, replyTo });
  }

  event(event: CrnEvent): void {
    const server = this.#servers.get(event.url);
    if (server !== undefined) {
      if (event.type === 'returned') server.ejected = false;
      // A CRN actor that was restarted has forgotten its ejection.
      if (event.type === 'judged') server.ejected = event.ejected;
      if (event.type === 'judged' && !server.judged) {
        server.judged = true;
        this.#checkJudged();
      }
    }
    this.#deps.onEvent(event);
  }

  #checkJudged(): void {
    for (const server of this.#servers.values()) if (!server.judged) return;
    this.#deps.onJudged();
  }

  #member(url: string, spec: ModelSpec): Member {
    const server = this.#servers.get(url) as Server;
    const member = server.members.get(spec.id) as number;
    return { url, server: server.cell, member, hash: hashText(url), apiKey: spec.apiKey };
  }

  #ensure(url: string, models: readonly string[], settings: CrnRegistrySettings): void {
    const fingerprint = JSON.stringify([models, settings]);
    const known = this.#servers.get(url);
    if (known?.fingerprint === fingerprint) return;
    const cell = known?.cell ?? this.#serverCells.take(url);
    const members = this.#cellsFor(url, models, known);
    if (known !== undefined) this.#context.stop(known.ref);
    const ref = this.#spawn(url, members, settings);
    const server: Server = { url, cell, fingerprint, members, ref, ejected: false, judged: known?.judged ?? false };
    this.#servers.set(url, server);
    for (const member of members.values()) this.#byMember.set(member, server);
  }

  /** Keeps the cells of models that stay, so that their standing and times stay too. */
  #cellsFor(url: string, models: readonly string[], known: Server | undefined): Map<string, number> {
    const members = new Map<string, number>();
    for (const [model, cell] of known?.members ?? []) {
      if (models.includes(model)) members.set(model, cell);
      else this.#free(cell);
    }
    for (const model of models) {
      if (!members.has(model)) members.set(model, this.#memberCells.take(`${model} on ${url}`));
    }
    return members;
  }

  #spawn(url: string, members: ReadonlyMap<string, number>, settings: CrnRegistrySettings): Ref<CrnCommand> {
    const { board, probe } = this.#deps;
    return this.#context.spawn(
      crn(
        {
          url,
          members: [...members].map(([model, member]) => ({ model, member })),
          health: settings.health,
          ejection: settings.ejection,
        },
        {
          board,
          probe,
          mayEject: (wanted) => this.#mayEject(wanted),
          isDrained: (asked) => this.#drained.has(asked),
          onJudged: (event) => this.#context.self.tell({ type: 'Event', event }),
        },
      ),
    );
  }

  #retire(url: string): void {
    const server = this.#servers.get(url) as Server;
    this.#servers.delete(url);
    this.#context.stop(server.ref);
    for (const member of server.members.values()) this.#free(member);
    this.#serverCells.give(server.cell);
  }

  #free(member: number): void {
    this.#byMember.delete(member);
    this.#deps.board.resetMember(member);
    this.#memberCells.give(member);
  }

  /** Counts at once: several CRNs may ask before any news of an ejection has arrived. Drained ones are missing too. */
  #mayEject(url: string): boolean {
    const server = this.#servers.get(url);
    if (server === undefined) return false;
    for (const model of this.#models) {
      if (!model.members.some((member) => member.url === url)) continue;
      let ejected = 1;
      for (const member of model.members) {
        if (member.url !== url && this.#isMissing(member.url)) ejected++;
      }
      if (ejected > model.members.length * this.#maxShare) return false;
    }
    server.ejected = true;
    return true;
  }

  #isMissing(url: string): boolean {
    return this.#drained.has(url) || this.#servers.get(url)?.ejected === true;
  }
}

function modelsByUrl(specs: readonly ModelSpec[]): Map<string, string[]> {
  const byUrl = new Map<string, string[]>();
  for (const spec of specs) {
    for (const url of spec.servers) {
      const models = byUrl.get(url) ?? [];
      models.push(spec.id);
      byUrl.set(url, models);
    }
  }
  return byUrl;
}
