// The model host: an HTTP server in front of an engine, with faults on demand. Order of a request: refusal by header, key,
// body, journal, faults before the answer, answer. Every request ends in exactly one way: finished, aborted by its client, or
// cut.
import { randomUUID } from 'node:crypto';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Clock, type TimerHandle, systemClock } from '../actor/index.ts';
import { TimerSet } from '../net/timer-set.ts';
import { hasMoreValues } from '../config/json-syntax.ts';
import type { Credential } from '../billing/index.ts';
import type { BlockObserver } from './engine/block-cache.ts';
import type { ProfileName } from './engine/profiles.ts';
import { type SimulatedSettings, createSimulatedEngine } from './engine/simulated-engine.ts';
import { type Fault, type FaultPlan, FaultSchedule, parseFault, parsePlan } from './faults.ts';
import { ListenError } from '../ingress/server.ts';
import type { Json } from './formats/format.ts';
import { readJsonBody } from './json-body.ts';
import { type HostRequest, Journal, JournalEntry } from './journal.ts';
import { KvEventPublisher, type KvEventSettings } from './kv-event-publisher.ts';
import type { ModelEngine } from './model-engine.ts';
import {
  type HostDialect,
  type RouteDeps,
  answerGet,
  answerPost,
  headerOf,
  problemOf,
  refuse,
  refuseMethod,
} from './model-routes.ts';
import { NO_FAULT, Reply } from './reply.ts';
import type { Script } from './script.ts';
import { checkHostSettings } from './settings-check.ts';
import { type SystemPromptScope, SystemPrompts } from './system-prompts.ts';
import { parseJson } from '../config/json-text.ts';

/** Keys that come from elsewhere than the settings; `HostTrust` is one. */
export interface KeyGuard {
  /** Until it is true the host is loading. */
  readonly ready: boolean;
  check(key: string | undefined): Credential;
  /** Largest body of the endpoint. */
  readonly maxBodyBytes: number;
  /** The endpoint that takes keys. */
  answer(
    method: string,
    body: Uint8Array,
  ): { readonly status: number; readonly headers: Readonly<Record<string, string>>; readonly body: object };
  /** The member `keys` of the host's health answer. */
  health(): object;
}

/** Settings of a host; only `models` is required. */
export interface HostSettings {
  /** Ids of the models that are loaded. */
  readonly models: readonly string[];
  /**
   * What answers. `paced`: words at a fixed pace, cheap, for tests of what stands before hosts. `steps`, the name of a
   * machine or settings: the simulated engine. Or any other engine, whose models must hold those of the host.
   * Default `paced`.
   */
  readonly engine?: 'paced' | 'steps' | ProfileName | SimulatedSettings | ModelEngine;
  /** Ids of models that could be loaded but are not: `/health/{model}` says 202. Default none. */
  readonly loadable?: readonly string[];
  /** `HOST:PORT`, port 0 for any; default `127.0.0.1:0`. */
  readonly listen?: string;
  /** Travels in the header `x-host` of every answer; default `host`. */
  readonly name?: string;
  /** Of paced answers, as the next two; default 30. */
  readonly timeToFirstTokenMs?: number;
  /** Default 10; 0 sends as fast as the socket takes it. */
  readonly interTokenMs?: number;
  /** Words or tokens of an answer when the request names no maximum; default 16, with an engine no bound. */
  readonly maxTokens?: number;
  /** Words after which the model stops by itself when the request allows more; default 256. `ignore_eos` lifts it. */
  readonly naturalTokens?: number;
  /** Seed of all texts; default 1. Hosts with the same seed answer alike. */
  readonly seed?: number;
  /**
   * When given, a POST, and a GET that reveals requests, needs one of these as `Authorization: Bearer` or `x-api-key`. A key
   * without an account is an account of its own.
   */
  readonly keys?: readonly (string | { readonly key: string; readonly account: string })[];
  /**
   * Whose prompts the option `system_prompt` changes: those of the account that sends it, those of every caller (`all`, and
   * wherever no key is needed), or nobody's, because it is refused (`off`). Default `account`.
   */
  readonly systemPrompt?: SystemPromptScope;
  /** Takes the place of `keys`. */
  readonly guard?: KeyGuard;
  /** Path of the guard's endpoint; default `/svc/keys`. */
  readonly guardPath?: string;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** After `listen`, probes and requests are answered 503 for this long; default 0. */
  readonly loadingMs?: number;
  /** Dialects that are served; the paths of others are unknown (404). Default all. */
  readonly dialects?: readonly HostDialect[] | undefined;
  /** What the model says to conversations; for a simulated engine that is not `paced`. Default: what the engine generates. */
  readonly script?: Script | undefined;
  /** Serves `POST /sim/faults`; default false. */
  readonly control?: boolean;
  /** A larger body is answered 413; default 128 MiB. */
  readonly maxBodyBytes?: number;
  /** Draws seeds of engine requests that name none; default: the system's. */
  readonly random?: () => number;
  /** Requests the journal keeps; default 1000. */
  readonly journalEntries?: number;
  /**
   * Where the simulated engine publishes its KV events, as vLLM does: `tcp://HOST:PORT` to bind, or that with a replay and a
   * topic. Needs one model and a profile with KV blocks. Default: nowhere.
   */
  readonly kvEvents?: string | KvEventSettings;
}

/** Room for the largest body a gateway lets through. */
const MAX_BODY_BYTES = 128 * 1024 * 1024;

/** As `limits.jsonValues` of a gateway: each value takes up to 60 bytes and 400 ns. */
const MAX_VALUES = 2_000_000;

/** As `timeouts.body` of a gateway: an upload that stalls keeps a host from ending. */
const BODY_IDLE_MS = 30_000;

/** Longer than clients keep idle connections, so that a kept connection is not closed under a new request. */
const KEEP_ALIVE_MS = 75_000;

/** Connections that may wait to be accepted: clients of a load test come all at once. */
const BACKLOG = 4096;

/** Open without a key: what balancers, scrapers and clients read before they have one. */
const OPEN_GETS = /^\/(health(\/.*)?|metrics|models|v1\/health|v1\/models(\/.*)?)$/;

/** How a gateway with a credential of its own says which account asks: a text that says nothing else of it. */
const ACCOUNT_HEADER = 'x-headrace-account';

/** Who sends a request; `account` is null where no key is needed. */
interface Caller {
  readonly account: string | null;
  /** Why it is refused. */
  readonly denial: string | undefined;
}

const ANYONE: Caller = { account: null, denial: undefined };

function accountOf(credential: Credential): string | undefined {
  return credential.kind === 'good' ? credential.account : undefined;
}

/** Creates a host; it serves once `listen` is called. Throws a `RangeError` that says what is wrong with the settings. */
export function createHost(settings: HostSettings): Host {
  return new Host(settings);
}

/** The engine of the settings. */
function engineOf(settings: HostSettings, observer: BlockObserver | undefined): ModelEngine {
  const { engine = 'paced', models, name = 'host', seed, clock, random } = settings;
  if (typeof engine === 'object' && 'complete' in engine) {
    if (observer !== undefined)
      throw new RangeError('KV events are those of a simulated engine; a real one publishes its own');
    return engine;
  }
  const own = engine === 'steps' ? {} : typeof engine === 'string' ? { profile: engine } : engine;
  return createSimulatedEngine({ ...own, models, name, seed, clock, random, observer, pace: settings });
}

/** A running host. */
export class Host {
  readonly #settings: HostSettings;
  readonly #clock: Clock;
  readonly #timers: TimerSet;
  readonly #journal: Journal;
  readonly #deps: RouteDeps;
  readonly #server: Server;
  readonly #hostname: string;
  readonly #live = new Set<Reply>();
  /** Accounts by their keys. */
  readonly #accounts: ReadonlyMap<string, string>;
  readonly #kvEvents: KvEventPublisher | undefined;
  #port: number;
  #faults = new FaultSchedule(null);
  #requests = 0;
  #started = false;
  #loadedAtMs = 0;
  #flapping: TimerHandle | undefined;
  /** Identifies the run of this host: its caches are empty when it begins. */
  #instance: string = randomUUID();

  /** @internal */
  constructor(settings: HostSettings) {
    checkHostSettings(settings);
    const listen = settings.listen ?? '127.0.0.1:0';
    const colon = listen.lastIndexOf(':');
    this.#settings = settings;
    this.#hostname = listen.slice(0, colon);
    this.#port = Number(listen.slice(colon + 1));
    this.#clock = settings.clock ?? systemClock;
    this.#timers = new TimerSet(this.#clock);
    this.#journal = new Journal(settings.journalEntries ?? 1000);
    this.#accounts = new Map(
      (settings.keys ?? []).map((each) => (typeof each === 'string' ? [each, each] : [each.key, each.account])),
    );
    const { kvEvents } = settings;
    if (kvEvents !== undefined) {
      this.#kvEvents = new KvEventPublisher(typeof kvEvents === 'string' ? { endpoint: kvEvents } : kvEvents);
    }
    const engine = engineOf(settings, this.#kvEvents);
    if (settings.script !== undefined && (engine.kind !== 'simulated' || engine.isPaced === true)) {
      throw new RangeError('a script needs the simulated engine, without a fixed pace');
    }
    this.#deps = {
      name: settings.name ?? 'host',
      models: settings.models,
      loadable: settings.loadable ?? [],
      engine,
      script: settings.script,
      dialects: settings.dialects,
      maxTokens: engine.isPaced === true ? -1 : (settings.maxTokens ?? -1),
      systemPrompts: new SystemPrompts(settings.systemPrompt ?? 'account'),
      loading: () => this.#loading,
      answerId: (request) => `${this.#run}-${request}`,
      healthDetails: () => this.#healthDetails(),
      live: () => this.#live.size,
    };
    this.#server = createServer((request, response) => this.#serve(request, response));
    this.#server.keepAliveTimeout = KEEP_ALIVE_MS;
    this.#server.requestTimeout = 0;
  }

  /** Base URL without trailing slash; port 0 before `listen`. */
  get url(): string {
    const anywhere = this.#hostname === '0.0.0.0' || this.#hostname === '';
    return `http://${anywhere ? '127.0.0.1' : this.#hostname}:${this.#port}`;
  }

  get port(): number {
    return this.#port;
  }

  /** Where KV events are published; null before `listen`, and without them. */
  get kvEvents(): { readonly endpoint: string; readonly replay: string | null } | null {
    const { endpoint = null, replayEndpoint: replay = null } = this.#kvEvents ?? {};
    return endpoint === null ? null : { endpoint, replay };
  }

  /** The last requests, oldest first. */
  get requests(): readonly HostRequest[] {
    return this.#journal.entries;
  }

  /** Hosts with the same name and seed answer byte for byte alike. */
  get #run(): string {
    const { name } = this.#deps;
    return this.#settings.seed === undefined ? `${name}-${this.#instance.slice(-12)}` : name;
  }

  get #loading(): boolean {
    const isEngineReady = this.#deps.engine.health() === 'ready';
    return !isEngineReady || this.#settings.guard?.ready === false || this.#clock.now() < this.#loadedAtMs;
  }

  /** Faults apply to simulated answers only: a header must not break a real engine. */
  get #isSimulated(): boolean {
    return this.#deps.engine.kind === 'simulated';
  }

  #healthDetails(): Json {
    const { guard } = this.#settings;
    const { engine } = this.#deps;
    return {
      // The caches of an attached engine outlive the host.
      ...(engine.metrics === undefined && { instance: this.#instance }),
      ...(engine.isPaced !== true && { engine: engine.kind }),
      ...(guard !== undefined && { keys: guard.health() }),
    };
  }

  /** Requests in progress. */
  get live(): number {
    return this.#live.size;
  }

  /**
   * The earliest complete request that no earlier call returned and that `where` accepts (default: any POST); waits
   * for one if there is none.
   */
  nextRequest(where: (request: HostRequest) => boolean = (request) => request.method === 'POST'): Promise<HostRequest> {
    return this.#journal.next(where);
  }

  /** Starts listening, on the same port as before when it listened before; resolves with the URL. */
  async listen(): Promise<string> {
    this.#started = true;
    this.#instance = randomUUID();
    this.#loadedAtMs = this.#clock.now() + (this.#settings.loadingMs ?? 0);
    this.#deps.engine.open?.();
    await this.#kvEvents?.open();
    try {
      await this.#bind();
    } catch (error) {
      await this.#kvEvents?.close();
      throw error;
    }
    this.#flap(true);
    if (this.#faults.refusesConnections) this.#server.close();
    return this.url;
  }

  /**
   * Replaces the fault plan; null for none. A plan whose first rule refuses without condition closes the listening
   * socket until the next plan; the promise resolves once the socket is as the plan wants it.
   */
  async setFault(plan: FaultPlan | null): Promise<void> {
    this.#faults = new FaultSchedule(plan);
    if (this.#flapping !== undefined) this.#timers.cancel(this.#flapping);
    if (!this.#started) return;
    this.#flap(true);
    if (this.#faults.refusesConnections) this.#server.close();
    else if (!this.#server.listening) await this.#bind();
  }

  /** Comes and goes while the plan says so. */
  #flap(isUp: boolean): void {
    const { flapMs } = this.#faults;
    if (flapMs === undefined) return;
    this.#flapping = this.#timers.after(flapMs, () => {
      if (!this.#started) return;
      if (!isUp) {
        // A port that another program took meanwhile is tried again at the next turn.
        return void this.#bind().then(
          () => this.#flap(true),
          () => this.#flap(false),
        );
      }
      this.#server.close();
      for (const reply of this.#live) reply.drop();
      this.#server.closeAllConnections();
      this.#flap(false);
    });
  }

  /** Stops listening and waits for the requests in progress; requests held by a fault are cut. */
  async close(): Promise<void> {
    this.#started = false;
    this.#server.close();
    for (const reply of this.#live) reply.dropHeld();
    while (this.#live.size > 0) await Promise.all([...this.#live].map((reply) => reply.entry.whenClosed()));
    await this.#stop();
  }

  /** Closes every socket at once. */
  async kill(): Promise<void> {
    this.#started = false;
    this.#server.close();
    for (const reply of this.#live) reply.drop();
    await this.#stop();
  }

  async #stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#timers.cancelAll();
    await this.#deps.engine.close();
    await this.#kvEvents?.close();
    const replies = [...this.#live];
    await Promise.all(replies.map((reply) => reply.entry.whenClosed()));
  }

  #bind(): Promise<void> {
    return new Promise((resolve, reject) => {
      const host = this.#hostname.replace(/^\[|\]$/g, '');
      const refuse = (error: Error): void => {
        this.#server.off('listening', settle);
        reject(new ListenError({ host, port: this.#port }, error));
      };
      const settle = (): void => {
        this.#server.off('error', refuse);
        this.#port = (this.#server.address() as AddressInfo).port;
        resolve();
      };
      this.#server.once('error', refuse).once('listening', settle);
      this.#server.listen({ port: this.#port, host, backlog: BACKLOG });
    });
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const entry = new JournalEntry(++this.#requests, request.method ?? 'GET', request.url ?? '/', request.headers);
    this.#journal.add(entry);
    const { fault, mistake } = this.#isSimulated ? readFaultHeader(request) : {};
    const id = this.#idOf(entry);
    const reply = new Reply(response, entry, id, this.#headers(id), this.#timers);
    this.#live.add(reply);
    if (!this.#started) reply.dropHeld();
    response.on('close', () => this.#live.delete(reply));
    if (fault?.refuse === true) {
      this.#journal.arrive(entry);
      return reply.reset();
    }
    const caller = this.#needsKey(entry) ? this.#callerOf(reply) : ANYONE;
    if (caller.denial !== undefined) {
      return reply.json(401, { detail: caller.denial }, { 'www-authenticate': 'Bearer' });
    }
    if (mistake !== undefined) return refuse(reply, 400, mistake, 'invalid_fault');
    const maxBodyBytes = this.#guardOf(entry)?.maxBodyBytes ?? this.#settings.maxBodyBytes ?? MAX_BODY_BYTES;
    this.#awaitBody(request, reply);
    readBody(request, maxBodyBytes, (body) => {
      if (body === undefined) return refuse(reply, 413, `the body exceeds ${maxBodyBytes} bytes`, 'too_large');
      this.#arrive(reply, caller.account, body, fault);
    });
  }

  /** Refuses a request whose body stops to come. */
  #awaitBody(request: IncomingMessage, reply: Reply): void {
    if (request.headers['content-length'] === undefined && request.headers['transfer-encoding'] === undefined) return;
    let lastMs = this.#clock.now();
    const check = (): void => {
      const leftMs = lastMs + BODY_IDLE_MS - this.#clock.now();
      if (leftMs <= 0) {
        const message = `nothing of the body came for ${BODY_IDLE_MS / 1000} s`;
        reply.json(408, problemOf(reply.entry.path, 408, message, 'body_timeout'), { connection: 'close' });
        return;
      }
      timer = this.#timers.after(leftMs, check);
    };
    let timer = this.#timers.after(BODY_IDLE_MS, check);
    const stop = (): void => void this.#timers.cancel(timer);
    request.on('data', () => (lastMs = this.#clock.now()));
    request.on('end', stop);
    request.on('close', stop);
  }

  /** Headers of every answer; while the host closes, connections are not kept. */
  #headers(id: string): Record<string, string> {
    const headers = { 'x-host': this.#deps.name, 'x-request-id': id, 'request-id': id };
    return this.#started ? headers : { ...headers, connection: 'close' };
  }

  #idOf(entry: JournalEntry): string {
    const given = entry.headers['x-request-id'];
    return typeof given === 'string' ? given : `req-${this.#deps.name}-${entry.id}`;
  }

  #needsKey({ method, path }: JournalEntry): boolean {
    if (this.#guardOf({ path }) !== undefined) return false;
    return method === 'POST' || (this.#deps.engine.isPaced !== true && method === 'GET' && !OPEN_GETS.test(path));
  }

  /** The guard where a request is for its endpoint, which is open to everybody. */
  #guardOf({ path }: Pick<JournalEntry, 'path'>): KeyGuard | undefined {
    const { guard, guardPath = '/svc/keys' } = this.#settings;
    return path === guardPath ? guard : undefined;
  }

  #callerOf(reply: Reply): Caller {
    const { keys, guard } = this.#settings;
    if (keys === undefined && guard === undefined) return ANYONE;
    const bearer = /^bearer +(.+)$/i.exec(headerOf(reply, 'authorization') ?? '')?.[1]?.trim();
    const key = bearer ?? headerOf(reply, 'x-api-key');
    if (key === undefined) return { ...ANYONE, denial: 'Not authenticated' };
    const account = guard === undefined ? this.#accounts.get(key) : accountOf(guard.check(key));
    if (account === undefined) return { ...ANYONE, denial: 'Invalid API key' };
    // A gateway with a credential of its own tells its accounts apart.
    const behind = headerOf(reply, ACCOUNT_HEADER);
    return { account: behind === undefined ? account : JSON.stringify([account, behind]), denial: undefined };
  }

  #arrive(reply: Reply, account: string | null, bytes: Buffer, headerFault: Fault | undefined): void {
    const { entry } = reply;
    const guard = this.#guardOf(entry);
    const isJson = entry.method === 'POST' && guard === undefined;
    if (isJson && hasMoreValues(bytes, MAX_VALUES)) {
      return refuse(reply, 413, `the body has more than ${MAX_VALUES} values`, 'too_large');
    }
    const read = isJson ? readJsonBody(bytes) : undefined;
    const body = read !== undefined && 'value' in read ? read.value : undefined;
    if (typeof body?.['model'] === 'string') entry.model = body['model'];
    entry.setBody(bytes);
    this.#journal.arrive(entry);
    if (guard !== undefined) {
      const { status, headers, body: answer } = guard.answer(entry.method, bytes);
      return reply.json(status, answer, headers);
    }
    if (entry.path === '/sim/faults' && entry.method === 'POST' && this.#settings.control === true) {
      return this.#control(reply, bytes);
    }
    reply.fault = headerFault ?? this.#faults.pick(entry.method, entry.path, entry.model) ?? NO_FAULT;
    const { refuse: refused, reset, hang, slowHeadersMs, loadingMs } = reply.fault;
    if (loadingMs !== undefined) this.#loadedAtMs = this.#clock.now() + loadingMs;
    if (refused === true || reset === true) return reply.reset();
    if (hang === true) return reply.hold();
    if (slowHeadersMs === undefined) return this.#answer(reply, account, body, bytes);
    this.#timers.after(slowHeadersMs, () => this.#answer(reply, account, body, bytes));
  }

  #answer(reply: Reply, account: string | null, body: Json | undefined, bytes: Buffer): void {
    const { entry, fault } = reply;
    if (reply.done) return;
    if (fault.status !== undefined) {
      const standard = JSON.stringify(problemOf(entry.path, fault.status, `simulated ${fault.status}`, 'simulated'));
      return reply.body(fault.status, 'application/json', Buffer.from(fault.body ?? standard), fault.headers);
    }
    if (entry.method === 'GET') return answerGet(this.#deps, reply, account);
    if (entry.method !== 'POST') return refuseMethod(reply);
    answerPost(this.#deps, reply, account, body, bytes);
  }

  #control(reply: Reply, plan: Buffer): void {
    try {
      const settled = this.setFault(parsePlan(parseJson(plan.toString())));
      settled.then(
        () => reply.json(200, { status: 'ok' }),
        (error: Error) => refuse(reply, 500, error.message, 'listen_failed'),
      );
    } catch (error) {
      refuse(reply, 400, (error as Error).message, 'invalid_plan');
    }
  }
}

function readFaultHeader(request: IncomingMessage): { fault?: Fault; mistake?: string } {
  const spec = request.headers['x-headrace-fault'];
  if (spec === undefined) return {};
  try {
    return { fault: parseFault(String(spec)) };
  } catch (error) {
    return { mistake: (error as Error).message };
  }
}

/** Calls back once with the whole body, or with undefined as soon as it is too large; never when the client leaves. */
function readBody(request: IncomingMessage, maxBytes: number, callback: (body: Buffer | undefined) => void): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    const fitted = bytes <= maxBytes;
    bytes += chunk.length;
    if (bytes <= maxBytes) return void chunks.push(chunk);
    chunks.length = 0;
    if (fitted) callback(undefined);
  });
  request.on('end', () => {
    if (bytes <= maxBytes) callback(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
  });
}
