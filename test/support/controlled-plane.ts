// A data plane on a manual clock, in front of real servers whose streams begin when the test says so. How fast a CRN seems to be is what
// the test lets pass between a request and its first event.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Test } from 'tap';
import { createProbe, createTestSystem, type ManualClock } from '../../src/actor/testkit.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { Settings, SettingsInput } from '../../src/config/settings.ts';
import type { IndexesCommand } from '../../src/search/index.ts';
import type { PagesCommand } from '../../src/fetch/index.ts';
import { DataPlane } from '../../src/gateway/data-plane.ts';
import type { Snapshot } from '../../src/gateway/snapshot.ts';
import { createBodyMemory } from '../../src/ingress/body.ts';
import { inject, type InjectResponse } from '../../src/ingress/inject.ts';
import { Board, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import { hashText, type Member } from '../../src/routing/model-table.ts';
import { createPlaceMemory } from '../../src/routing/place-counts.ts';
import { EngineCells } from '../../src/search/index.ts';
import { serving } from './serving.ts';
import { valuesOf } from './metric-values.ts';

const MODEL = 'm';

const EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n';
const END = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
const WHOLE = JSON.stringify({ choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop' }] });

/** A CRN. Every request waits until the test lets it begin. */
interface Asked {
  readonly name: string;
  readonly res: ServerResponse;
  readonly stream: boolean;
}

class Crn {
  url = '';
  /** Names of the requests that have arrived, in order. */
  readonly arrived: string[] = [];
  readonly #open: Asked[] = [];
  readonly #waiting: { readonly count: number; readonly resolve: () => void }[] = [];

  async serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of req) pieces.push(piece as Buffer);
    const { name, stream } = JSON.parse(Buffer.concat(pieces).toString()) as { name: string; stream: boolean };
    this.arrived.push(name);
    this.#open.push({ name, res, stream });
    for (const { count, resolve } of this.#waiting) if (this.arrived.length >= count) resolve();
  }

  /** Resolves when `count` requests have arrived, of all that ever did. */
  async has(count: number): Promise<void> {
    if (this.arrived.length < count) await new Promise<void>((resolve) => this.#waiting.push({ count, resolve }));
  }

  /** Requests that wait here for their answer. */
  get open(): number {
    return this.#open.length;
  }

  /** Answers the oldest request that waits here. */
  answer(status = 200): string {
    const { name, res, stream } = this.#open.shift() as Asked;
    if (status === 200) res.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' });
    else res.writeHead(status);
    res.end(status !== 200 ? '' : stream ? EVENT + END : WHOLE);
    return name;
  }
}

export interface Send {
  readonly address?: string;
  /** Bytes of the prompt. */
  readonly bytes?: number;
  readonly stream?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly path?: string;
  readonly body?: object;
}

export class ControlledPlane {
  readonly clock: ManualClock;
  readonly crns: readonly Crn[];
  readonly board: Board;
  readonly plane: DataPlane;
  readonly members: readonly Member[];
  readonly #settings: SettingsInput;

  constructor(t: Test, crns: readonly Crn[], settings: SettingsInput) {
    const { clock, system } = createTestSystem();
    clock.advance(1_000_000);
    const memory = createBoardMemory(8, 8, 1);
    this.clock = clock;
    this.crns = crns;
    this.#settings = { keys: { required: false }, models: {}, ...settings };
    this.board = new Board(memory, 0);
    this.members = crns.map(({ url }, at) => {
      this.board.setStanding(at, STANDING.up, 0);
      return { url, server: at, member: at, hash: hashText(url), apiKey: undefined, weight: 1, dialects: 0 };
    });
    this.plane = new DataPlane({
      ...{ system, memory, clock, thread: 0, random: () => 0.5, accounts: null, responses: null, caches: null },
      engineMemory: new EngineCells().memory,
      searchMemory: createPlaceMemory(1),
      bodyMemory: createBodyMemory(1),
      tellOutcome: () => undefined,
      tellCancelled: () => undefined,
      onEngineThrew: () => undefined,
      pages: createProbe<PagesCommand>(system).ref,
      indexes: createProbe<IndexesCommand>(system).ref,
      snapshot: this.snapshot(),
    });
    t.teardown(() => this.plane.close());
  }

  /** A snapshot with other settings, or without the model. */
  snapshot(routing: SettingsInput['routing'] = {}, hasModel = true): Snapshot {
    const resolved = resolveSettings({
      ...this.#settings,
      routing: { hold: '50ms', prior: 0, ...this.#settings.routing, ...routing },
    });
    if ('mistakes' in resolved) throw new Error(JSON.stringify(resolved.mistakes));
    const settings: Settings = resolved.settings;
    const models = hasModel ? [{ id: MODEL, members: this.members, budget: 0 }] : [];
    return {
      probeReasons: new Map(),
      cluster: { enabled: false, connected: false, gateways: 1 },
      ...{ settings, table: { version: 1, models }, catalog: [], keys: [], stage: 'ready', engineCells: {} },
      ...{ createdS: 0, via: 'headrace-0' },
    };
  }

  /** Requests that wait, and how waits have ended, as metrics say it. */
  get held(): Readonly<Record<string, number>> {
    const found: Record<string, number> = {};
    const { metrics } = this.plane.report();
    const [waiting] = valuesOf(metrics, 'headrace_held_requests');
    if (waiting !== undefined) found['waiting'] = waiting.value;
    for (const { labels, value } of valuesOf(metrics, 'headrace_held_requests_total')) {
      found[String(labels['outcome'])] = value;
    }
    return found;
  }

  /** A chat whose prompt no other one has. */
  send(
    name: string,
    { address = '10.0.0.1', bytes = 20_000, stream = true, ...more }: Send = {},
  ): Promise<InjectResponse> {
    const { plane } = this;
    const options = { handler: plane.handler, clock: this.clock, limits: plane.limits, budget: plane.budget };
    return inject(options, {
      path: more.path ?? '/v1/chat/completions',
      remoteAddress: address,
      headers: more.headers ?? {},
      body: {
        model: MODEL,
        name,
        stream,
        messages: [{ role: 'user', content: name.padEnd(bytes, name) }],
        ...more.body,
      },
      ...(more.signal !== undefined && { signal: more.signal }),
    });
  }

  /** Teaches the plane that every CRN takes `ms` for a prompt of 20,000 bytes. */
  async warm(ms = 1000): Promise<void> {
    for (const crn of this.crns) {
      const cookie = `preferred_instances=${JSON.stringify({ [MODEL]: crn.url })}`;
      const answer = this.send('warm', { headers: { cookie } });
      await crn.has(1);
      this.clock.advance(ms);
      crn.answer();
      await answer;
    }
  }
}

/** Starts CRNs and a plane in front of them. */
export async function openPlane(t: Test, count: number, settings: SettingsInput = {}): Promise<ControlledPlane> {
  const crns = Array.from({ length: count }, () => new Crn());
  for (const crn of crns) {
    crn.url = await serving(t, (req, res) => void crn.serve(req, res));
  }
  return new ControlledPlane(t, crns, settings);
}
