// A model of one request between a client and its CRNs, driven by a seed: CRNs that answer and fail in every way, a client that
// stalls and leaves, timers, approvals. Time and connections are simulated, and every step is one event. `run` returns what is wrong.

import { createManualClock, createSeededRandom, type ManualClock } from '../../src/actor/testkit.ts';
import { DIALECT_BITS } from '../../src/config/dialect-bits.ts';
import { dialectOf } from '../../src/dialect/index.ts';
import { type HeadraceError, messageOf } from '../../src/errors.ts';
import { DispatchError, type DispatchFault, type DispatchHandler, type DispatchOptions } from '../../src/net/client.ts';
import { DeadlineQueue } from '../../src/net/deadline.ts';
import { HeldExchange } from '../../src/api/held-exchange.ts';
import { Admission, type AdmissionSettings } from '../../src/routing/admission.ts';
import { Board, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import { type Member, ModelTable, type Model as RoutedModel } from '../../src/routing/model-table.ts';
import type { Candidate } from '../../src/routing/outcome.ts';
import { Candidates, type PickerDeps, type PromptHashes } from '../../src/routing/picker.ts';
import {
  type Approval,
  type Attempt,
  type ContinuationKind,
  type Downstream,
  type DownstreamListener,
  Failover,
  type FailoverDeps,
  Hedging,
  type RequestForm,
  RunningAttempts,
  translatedForm,
  type UpstreamRequest,
} from '../../src/upstream/index.ts';
import { fakeTranslation, type FakeTranslation, wrapped } from './fake-translation.ts';
import { NO_HINT, PICKER, pickerDeps } from './picker.ts';
import { type Answer, answerOf } from './upstream-answers.ts';

const CRNS = 4;
const BODY = Buffer.from('{"messages":[],"prompt":""}');
const UNTRANSLATABLE = Buffer.from('{"messages":[],"refused":""}');
const ENDLESS = ': endless\n\n';
const LINES = { common: '', dialect: '', credential: '', account: '' };
/** Longer than every deadline of a run together. */
const LONG_MS = 10_000_000;

const HOLD: AdmissionSettings = { holdMs: 50, timeoutMs: 400, requests: 4, bytes: 1000 };

type Random = () => number;

/** Counts what is taken more than given back, for each CRN. */
class CountedBoard extends Board {
  readonly places: number[] = Array.from({ length: CRNS }, () => 0);

  override enter(server: number): void {
    this.places[server]!++;
    super.enter(server);
  }

  override leave(server: number): void {
    this.places[server]!--;
    super.leave(server);
  }
}

/** What is shared by all runs: state that a run leaves behind shows in the next one too. */
export class Model {
  readonly clock: ManualClock = createManualClock(1_000_000);
  readonly #memory = createBoardMemory(CRNS, CRNS, 1);
  readonly board: CountedBoard = new CountedBoard(this.#memory, 0);
  readonly picker: PickerDeps = pickerDeps(this.board, this.#memory, () => this.clock.now());
  readonly deadlines: DeadlineQueue = new DeadlineQueue(this.clock, 1);
  readonly running: RunningAttempts = new RunningAttempts(this.board, this.clock);
  readonly members: readonly Member[] = Array.from({ length: CRNS }, (_, at) => ({
    ...{ url: `http://crn${at}`, server: at, member: at, hash: at },
    apiKey: at === CRNS - 1 ? 'own' : undefined,
    weight: 1,
    dialects: 0,
  }));

  readonly routed: RoutedModel = { id: 'm', members: this.members, budget: 0 };
  readonly admission: Admission;
  /** Backlog of every CRN. */
  backlogMs = 0;
  /** Hears how waits end. */
  onHeld: (outcome: string) => void = () => undefined;

  constructor() {
    for (const { member } of this.members) this.board.setStanding(member, STANDING.up, 0);
    const { board, clock, deadlines } = this;
    const memory = this.#memory;
    this.admission = new Admission(
      {
        ...{ board, clock, deadlines, memory, thread: 0 },
        expected: { waitMs: () => this.backlogMs, msPerByte: () => 1 },
        onWaiting: () => undefined,
        onOutcome: (_, outcome) => this.onHeld(outcome),
      },
      HOLD,
    );
  }

  /** Takes over a table with the model or without it. */
  reload(hasModel: boolean, settings: AdmissionSettings = HOLD): void {
    this.admission.configure(settings, new ModelTable({ version: 1, models: hasModel ? [this.routed] : [] }));
  }

  /** Runs one request to its end. Returns what is wrong with it, nothing when all is well. */
  async run(seed: number): Promise<Findings> {
    const run = new Run(this, createSeededRandom(seed));
    await run.play();
    return run.findings();
  }
}

export interface Findings {
  readonly wrong: readonly string[];
  /** What the run has seen, for the sum over all runs. */
  readonly seen: readonly string[];
  readonly log: readonly string[];
}

/** One connection under a request, with the answer that it will give. */
class ModelConnection {
  state: 'connecting' | 'open' | 'kept' | 'failed' | 'aborted' = 'connecting';
  paused = false;
  /** Bytes of the body that have left. */
  sent = 0;
  headSent = false;
  readonly isSent = true;
  sentMs = 0;
  comments = 0;
  readonly crn: number;
  readonly answer: Answer;
  /** It carries the request in another dialect. */
  readonly isTranslated: boolean;
  readonly #handler: DispatchHandler;
  readonly #random: Random;
  readonly #log: (text: string) => void;

  readonly #clock: ManualClock;

  constructor(
    crn: number,
    answer: Answer,
    handler: DispatchHandler,
    random: Random,
    clock: ManualClock,
    log: (text: string) => void,
    isTranslated: boolean,
  ) {
    this.isTranslated = isTranslated;
    this.crn = crn;
    this.#clock = clock;
    this.answer = answer;
    this.#handler = handler;
    this.#random = random;
    this.#log = log;
  }

  /** What the client may get of it, as a whole. */
  get texts(): readonly string[] {
    const { body, cut, headers, status } = this.answer;
    if (!this.isTranslated) return [body.toString('latin1')];
    if (status >= 300) {
      const unread = JSON.stringify({ error: { message: `The server answered with status ${status}` } });
      return [body.subarray(0, cut), Buffer.from(unread)].map((read) => wrapped(`error ${status}`, read).toString());
    }
    if (!headers.includes('text/event-stream')) return [wrapped('whole', body).toString()];
    // A cut of the body that is no text, such as HTML, has no events.
    const answer = fakeTranslation().request(Buffer.from('{}')).answer();
    return [answer.events(body).toString() + answer.end().toString()];
  }

  get over(): boolean {
    return this.state !== 'connecting' && this.state !== 'open';
  }

  /** Nothing will come any more unless the client reads on. */
  get silent(): boolean {
    if (this.state === 'connecting') return this.answer.connect === 'silence';
    if (!this.headSent) return this.answer.beforeHead === 'silence';
    return this.paused || (this.sent >= this.answer.cut && this.answer.ending === 'silence' && !this.answer.endless);
  }

  pause(handler: DispatchHandler): void {
    if (handler === this.#handler && !this.over) this.paused = true;
  }

  resume(handler: DispatchHandler): void {
    if (handler === this.#handler && !this.over) this.paused = false;
  }

  abort(handler: DispatchHandler): void {
    if (handler !== this.#handler || this.over) return;
    this.#log(`abort crn${this.crn}`);
    this.state = 'aborted';
  }

  open(): void {
    this.state = 'open';
    this.sentMs = this.#clock.now();
    this.#handler.onRequestSent(this as never);
  }

  /** The next event of this connection. */
  step(): void {
    const { answer } = this;
    if (this.state === 'connecting') {
      if (answer.connect === 'refused') this.#fail('connect');
      else this.open();
    } else if (!this.headSent) {
      if (answer.beforeHead === 'head') this.#head();
      else this.#fail(answer.beforeHead as DispatchFault);
    } else if (this.sent < answer.cut) {
      this.#data(Math.ceil(this.#random() ** 2 * (answer.cut - this.sent)));
    } else {
      this.#end();
    }
  }

  #head(): void {
    this.headSent = true;
    this.#log(`head crn${this.crn} ${this.answer.status} ${this.answer.name}`);
    this.#handler.onResponseStart(this.answer.status, this.answer.headers);
    // The first piece of the body often comes with the head, and the end with the last.
    while (!this.over && !this.paused && this.#random() < 0.3 && this.sent < this.answer.cut) this.step();
    if (this.sent >= this.answer.cut && !this.paused && !this.over && this.#random() < 0.5) this.#end();
  }

  #data(bytes: number): void {
    const piece = Buffer.from(this.answer.body.subarray(this.sent, this.sent + bytes));
    this.sent += piece.byteLength;
    this.#log(`data crn${this.crn} ${this.sent}/${this.answer.body.byteLength}`);
    this.#handler.onResponseData(piece, this.#clock.now());
    // The end of an answer with a length comes with its last byte.
    if (this.sent === this.answer.body.byteLength && this.answer.hasLength && !this.paused && !this.over) this.#end();
    // A connection uses the memory of its pieces again.
    piece.fill('~');
  }

  #end(): void {
    const { ending, endless } = this.answer;
    if (endless) {
      this.comments++;
      this.#handler.onResponseData(Buffer.from(ENDLESS), this.#clock.now());
    }
    if (ending === 'silence') return;
    this.#log(`end crn${this.crn} ${ending}`);
    if (ending === 'end') {
      this.state = 'kept';
      this.#handler.onResponseEnd();
    } else {
      this.#fail(ending);
    }
  }

  #fail(fault: DispatchFault): void {
    this.state = 'failed';
    this.#handler.onResponseError(new DispatchError(fault));
  }
}

/** The client. As in an exchange, nothing counts after it was handed over, and the listener hears the end once. */
class ModelClient implements Downstream {
  handedOver = false;
  committed = false;
  errorCode = '';
  bytesOut = 0;
  listener: DownstreamListener | null = null;
  status = 0;
  heldMs = 0;
  headers: readonly string[] = [];
  contentLength = -1;
  text = '';
  /** The last piece of an answer that ends as an error of the gateway. */
  errorText = '';
  ending: 'complete' | 'destroyed' | 'gone' | '' = '';
  ends = 0;
  full = false;
  waiting = false;
  readonly #random: Random;
  readonly #log: (text: string) => void;

  constructor(random: Random, log: (text: string) => void) {
    this.#random = random;
    this.#log = log;
  }

  start(status: number, headers: readonly string[], contentLength: number): void {
    if (this.committed || this.handedOver) return;
    this.status = status;
    this.headers = headers;
    this.contentLength = contentLength;
  }

  write(chunk: Uint8Array): boolean {
    if (this.handedOver) return true;
    this.committed = true;
    this.text += Buffer.from(chunk).toString('latin1');
    this.#log(`write ${chunk.byteLength}`);
    if (this.#random() < 0.01) this.leave();
    this.waiting = this.full;
    return !this.full;
  }

  end(chunk?: Uint8Array): void {
    if (this.handedOver) return;
    this.committed = true;
    const last = chunk === undefined ? '' : Buffer.from(chunk).toString('latin1');
    if (this.errorCode === '') this.text += last;
    else this.errorText = last;
    this.handedOver = true;
    this.ending = 'complete';
    this.#log('handed over');
    // Flushed at once, or later.
    if (this.#random() < 0.7) this.finish('delivered');
  }

  destroy(): void {
    if (this.handedOver) return;
    this.handedOver = true;
    this.ending = 'destroyed';
    this.finish('broken');
  }

  leave(): void {
    if (this.ends > 0) return;
    if (!this.handedOver) this.ending = 'gone';
    this.handedOver = true;
    this.finish('gone');
  }

  read(): void {
    this.full = false;
    if (!this.waiting || this.handedOver) return;
    this.waiting = false;
    this.listener?.onWritable();
  }

  finish(cause: 'delivered' | 'gone' | 'broken'): void {
    if (this.ends > 0) return;
    this.ends++;
    this.#log(`ended ${cause}`);
    this.listener?.onEnded(cause);
  }
}

class ModelApproval implements Approval {
  earned = false;
  asked = 0;
  settle: (() => void) | null = null;
  readonly #outcome: string;
  readonly #client: ModelClient;

  constructor(outcome: string, client: ModelClient) {
    this.#outcome = outcome;
    this.#client = client;
  }

  delivered(): void {
    this.earned = true;
  }

  approve(): Promise<readonly string[] | null> {
    this.asked++;
    return new Promise((resolve, reject) => {
      this.settle = () => {
        this.settle = null;
        if (this.#outcome === 'rejecting') {
          reject(new Error('refused'));
        } else if (this.#outcome === 'refused') {
          this.#client.start(402, [], 0);
          this.#client.end();
          resolve(null);
        } else {
          resolve(['receipt', '1']);
        }
      };
    });
  }
}

class Run {
  readonly #model: Model;
  readonly #random: Random;
  readonly #log: string[] = [];
  readonly #seen: string[] = [];
  readonly #wrong: string[] = [];
  readonly #connections: ModelConnection[] = [];
  readonly #client: ModelClient;
  readonly #approval: ModelApproval | null;
  readonly #request: UpstreamRequest;
  /** Prefill that is charged, as choices of each CRN. */
  readonly #charges: number[] = Array.from({ length: CRNS }, () => 0);
  /** CRNs whose answers have begun: they hold the prompt. */
  readonly #holders = new Set<number>();
  readonly #prompt: PromptHashes;
  readonly #attempts = new Map<Attempt, number>();
  readonly #path: string;
  readonly #keyChecked: boolean;
  readonly #stream: boolean;
  /** What can be translated; null where nothing is. */
  readonly #translation: FakeTranslation | null;
  /** Whether each CRN lacks the dialect of the request; all speak chat completions. */
  readonly #lacks: boolean[];
  readonly #members: readonly Member[];
  readonly #body: Buffer;
  #delivering: Attempt | null = null;
  #hedging: Hedging | null = null;
  readonly #continuation: ContinuationKind;
  /** A CRN has been asked to continue the answer of another one. */
  #continued = false;
  #errors: HeadraceError[] = [];
  #retries: number;
  #cut = false;

  constructor(model: Model, random: Random) {
    this.#model = model;
    this.#random = random;
    const log = (text: string): void => void this.#log.push(text);
    this.#client = new ModelClient(random, log);
    this.#client.full = random() < 0.2;
    const consent = random() < 0.3 ? this.#pick(['given', 'given', 'refused', 'rejecting']) : '';
    this.#approval = consent === '' ? null : new ModelApproval(consent, this.#client);
    this.#keyChecked = this.#approval !== null;
    this.#path = this.#pick([
      ...['/v1/chat/completions', '/v1/completions', '/v1/messages', '/v1/responses'],
      ...['/completion', '/v1/embeddings'],
    ]);
    this.#stream = random() < 0.7;
    const isMessages = this.#path === '/v1/messages';
    this.#translation =
      isMessages || this.#path === '/v1/responses'
        ? fakeTranslation(isMessages ? 'messages-chat' : 'responses-chat')
        : null;
    const mayLack = this.#translation !== null && random() < 0.7;
    this.#lacks = model.members.map(() => mayLack && random() < 0.6);
    this.#members = model.members.map((member, at) => ({ ...member, dialects: this.#declared(at) }));
    this.#body = random() < 0.1 ? UNTRANSLATABLE : BODY;
    this.#learn();
    this.#prompt = promptOf(random);
    this.#continuation = random() < 0.2 ? 'vllm' : 'off';
    this.#retries = random() < 0.1 ? 0 : 10;
    if (random() < 0.3) {
      this.#hedging = new Hedging(1, (outcome) => this.#seen.push(`hedge ${outcome}`));
      const delayMs = random() * 100;
      for (let at = 0; at < 20; at++) this.#hedging.note('m', BODY.byteLength, delayMs);
    }
    this.#request = this.#makeRequest();
  }

  /** Some CRNs are declared to speak what they do. */
  #declared(crn: number): number {
    if (this.#translation === null || this.#random() < 0.6) return 0;
    const own = dialectOf(this.#path)?.bit ?? 0;
    return this.#lacks[crn] === true ? DIALECT_BITS.chat : DIALECT_BITS.chat | own;
  }

  /** What is known of the CRNs at first; not all of it is still right. */
  #learn(): void {
    const { board, clock } = this.#model;
    const bit = dialectOf(this.#path)?.bit ?? 0;
    for (const [server, lacks] of this.#lacks.entries()) {
      board.clearLacks(server, clock.now() - 1);
      if (bit !== 0 && this.#random() < (lacks ? 0.5 : 0.1)) board.noteLack(server, bit, clock.now(), clock.now());
    }
  }

  /** Another process answers for a CRN. */
  #restart(crn: number): void {
    if (this.#translation === null || this.#members[crn]?.dialects !== 0) return;
    this.#lacks[crn] = this.#random() < 0.5;
    this.#model.board.clearLacks(crn, this.#model.clock.now());
    this.#log.push(`restart crn${crn}`);
  }

  async play(): Promise<void> {
    const { clock } = this.#model;
    this.#begin();
    for (let step = 0; step < 400 && !this.#done && !this.#comments; step++) {
      const live = this.#connections.filter((connection) => !connection.over && !connection.silent);
      const dice = this.#random();
      if (live.length > 0 && dice < 0.8) this.#step(this.#pick(live));
      else if (dice < 0.85) clock.advance(this.#random() * (this.#random() < 0.2 ? 700 : 30));
      else await this.#event();
    }
    await this.#finish();
  }

  /** Starts the request, or lets it wait for admission first. */
  #begin(): void {
    const model = this.#model;
    const start = (): void => {
      this.#check(this.#attempts.size === 0, 'admitted twice');
      new Failover(this.#deps(), this.#request, this.#client).start();
    };
    model.onHeld = (outcome) => this.#seen.push(`held ${outcome}`);
    model.backlogMs = this.#random() < 0.2 ? 1000 : 0;
    if (model.admission.admits(model.routed, 0)) {
      start();
      return;
    }
    const refuse = (thrown: unknown): void => this.#request.listener.onFailed(thrown as HeadraceError);
    const bytes = BODY.byteLength;
    const held = { account: 'a', bytes, holder: this.#random() < 0.1 ? 1 : 0, work: bytes };
    new HeldExchange(this.#client, held, { start, refuse }).wait(model.admission, model.routed);
  }

  findings(): Findings {
    return { wrong: this.#wrong, seen: this.#seen, log: this.#log };
  }

  /** A CRN sends nothing but comments. */
  get #comments(): boolean {
    return this.#connections.some(({ comments }) => comments > 20);
  }

  get #done(): boolean {
    return this.#client.ends > 0 && this.#connections.every(({ over }) => over);
  }

  #step(connection: ModelConnection): void {
    const { answer, sent } = connection;
    if (answer.endless && sent >= answer.cut) this.#model.clock.advance(50);
    if (!connection.over && !connection.silent) connection.step();
  }

  /** Something that is no event of a CRN and no deadline. */
  async #event(): Promise<void> {
    const client = this.#client;
    const kind = this.#random();
    if (this.#model.admission.waiting('m') > 0 && kind > 0.4) {
      if (kind > 0.6) this.#model.backlogMs = 0;
      else if (kind > 0.5) this.#model.reload(false);
      else if (kind > 0.45) this.#model.reload(true, { ...HOLD, holdMs: 0 });
      else this.#model.reload(true);
    } else if (this.#approval?.settle != null && kind < 0.5) {
      this.#approval.settle();
      await settled();
    } else if (kind < 0.3) {
      if (client.full) client.read();
      else client.full = true;
    } else if (kind < 0.35) {
      this.#log.push('leave');
      client.leave();
    } else if (kind < 0.38 && !this.#cut && !client.handedOver) {
      this.#cut = true;
      this.#log.push('cut');
      client.listener?.onCut();
    } else if (kind < 0.42) {
      this.#restart(Math.floor(this.#random() * CRNS));
    } else if (kind < 0.5) {
      const { crn } = this.#connections.at(-1) ?? { crn: 0 };
      this.#model.board.setUnreachable(crn, this.#random() < 0.7 ? this.#model.clock.now() : null);
      if (this.#random() < 0.5) this.#model.clock.advance(1000);
    } else if (client.handedOver && client.ends === 0 && kind < 0.8) {
      client.finish(this.#random() < 0.8 ? 'delivered' : 'gone');
    }
  }

  /** Lets everything come to its end, and looks at what is left. */
  async #finish(): Promise<void> {
    const { board, clock, members, running } = this.#model;
    const client = this.#client;
    for (let turn = 0; turn < 1000 && !this.#done; turn++) {
      this.#approval?.settle?.();
      await settled();
      if (client.full) client.read();
      // Comments keep an answer alive that has begun.
      if (turn === 150 && this.#comments && this.#delivering !== null) client.leave();
      const live = this.#connections.filter((connection) => !connection.over && !connection.silent);
      for (const connection of live) if (!connection.over) this.#step(connection);
      if (live.length === 0) clock.advance(1000);
      if (client.handedOver) client.finish('delivered');
    }
    this.#check(this.#done, 'the run never ends');
    this.#check(this.#model.admission.waiting('m') === 0, 'a request is left waiting');
    this.#model.reload(true);
    clock.advance(LONG_MS);
    for (const { server } of members) board.setUnreachable(server, null);
    this.#check(clock.nextDueMs === Infinity, 'a timer is left');
    this.#check(running.size === 0, 'an attempt is left in the set of running ones');
    for (const { server } of members) {
      const places = board.places[server] as number;
      board.places[server] = 0;
      this.#check(places === 0, `place of crn${server} returned ${1 - places} times`);
      this.#check(board.inFlight(server) === 0, `crn${server} has requests in flight`);
      const charges = this.#charges[server] as number;
      this.#check(charges === 0, `prefill of crn${server} discharged ${1 - charges} times`);
      this.#check(board.loads.backlog(server, clock.now()) === 0, `crn${server} has a backlog`);
      const { count, hashes } = this.#prompt;
      const held = this.#model.picker.index.matched(server, hashes, count);
      this.#check(held === (this.#holders.has(server) ? count : 0), `crn${server} holds ${held} of ${count} blocks`);
    }
    for (const [attempt, outcomes] of this.#attempts) {
      this.#check(outcomes === 1, `attempt ${attempt.number} has ${outcomes} outcomes`);
      this.#seen.push(`${attempt.verdict} ${attempt.failure}`);
    }
    for (const connection of this.#connections)
      this.#check(connection.over, `a connection to crn${connection.crn} is left`);
    this.#check(client.ends === 1, 'the client heard no end');
    this.#check((this.#approval?.asked ?? 0) <= 1, 'approval was asked for twice');
    this.#checkVerdicts();
    this.#checkClient();
  }

  #checkVerdicts(): void {
    for (const attempt of this.#attempts.keys()) {
      const connection = this.#connections[[...this.#attempts.keys()].indexOf(attempt)] as ModelConnection;
      const { answer } = connection;
      if (attempt.verdict === 'ok') this.#check(answer.good, `a bad answer is ok: ${answer.name}`);
      // A good answer fails only for its silence.
      const late = attempt.failure?.endsWith('timeout') === true || attempt.failure === 'unreachable';
      if (attempt.verdict === 'failed')
        this.#check(!answer.good || late, `a good answer is blamed: ${attempt.failure}`);
    }
  }

  #checkClient(): void {
    const client = this.#client;
    const text = client.text.replaceAll(': keep-alive\n\n', '').replaceAll(ENDLESS, '');
    this.#seen.push(`client ${client.ending} ${client.status} ${client.errorCode}`);
    this.#check(this.#errors.length <= 1, 'two errors');
    if (this.#approval !== null && this.#delivering === null) {
      this.#check(!this.#approval.earned, 'nothing was delivered, and yet it counts');
    }
    if (this.#errors.length === 1) {
      this.#check(text === '' || client.ending === 'gone', 'an error of the table behind bytes of a CRN');
      return;
    }
    if (client.status === 402) return;
    // It left while it waited.
    if (this.#connections.length === 0 && client.ending === 'gone' && client.status === 0) return;
    if (this.#continued) {
      this.#seen.push(`continued ${client.ending} ${client.errorCode}`);
      this.#check(this.#continuation !== 'off', 'another CRN behind the first byte');
      this.#check(
        client.ending !== 'complete' ||
          /\[DONE\]|finish_reason|event: end|event: error|HR_/.test(client.text + client.errorText),
        'a clean end of a cut text',
      );
      return;
    }
    const marks = new Set(text.match(/crn\d/g));
    this.#check(marks.size <= 1, 'bytes of two CRNs');
    const sources = this.#connections.filter(({ texts }) => texts.some((whole) => whole.startsWith(text)));
    this.#check(sources.length > 0, 'the client has something that no CRN said in its dialect');
    if (client.ending === 'gone') return;
    if (client.errorText !== '') {
      this.#check(/^(?:event: error\n)?data: \{/.test(client.errorText), 'an error event that is none');
      this.#check(text === '' || text.endsWith('\n\n'), 'an error event inside an event');
    } else if (client.ending === 'complete' && client.status > 0) {
      // Behind a comment of ours the CRN's own error is all that is left to say.
      const isError =
        client.text.includes(': keep-alive') && /^(?:event: error\n)?data: \{"(?:type":"error",")?error/.test(text);
      const isWhole =
        isError ||
        sources.some(({ answer, isTranslated, texts }) =>
          isTranslated ? texts.includes(text) : answer.isWhole(text.length),
        );
      const names = sources.map(({ answer: { name } }) => name).join();
      this.#check(isWhole, `a clean end of a cut answer: ${names} ${text.length}`);
      this.#check(client.contentLength < 0 || client.contentLength === text.length, 'a wrong length');
      const translated = sources.find(({ isTranslated }) => isTranslated);
      if (translated !== undefined) this.#seen.push(`translated ${translated.answer.name.replace(/ .*/, '')}`);
    } else {
      this.#check(client.errorCode !== '', 'broken without a code');
    }
  }

  #check(holds: boolean, what: string): void {
    if (!holds) this.#wrong.push(what);
  }

  #pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)] as T;
  }

  #deps(): FailoverDeps {
    const { clock, deadlines, board, running } = this.#model;
    return {
      ...{
        board,
        clock,
        deadlines,
        running,
        hedging: this.#hedging,
        continuation: this.#continuation,
        heldEventBytes: 4096,
      },
      timeouts: {
        ...{ connectMs: 300, headersMs: this.#pick([500, 5000]), firstByteMs: this.#pick([null, 200, 900, 6000]) },
        idleMs: this.#pick([400, 4000]),
      },
      relay: { keepAliveMs: this.#pick([null, null, 100]) },
      pool: ({ server }) => ({
        dispatch: ({ path }: DispatchOptions, handler: DispatchHandler, fresh = false) =>
          this.#dispatch(server, path, handler, fresh),
      }),
    };
  }

  #dispatch(crn: number, path: string, handler: DispatchHandler, fresh: boolean): ModelConnection | null {
    const isTranslated = path !== this.#path;
    const declared = this.#members[crn]?.dialects ?? 0;
    const isMeant = declared === 0 || (declared & (dialectOf(path)?.bit ?? 0)) !== 0;
    this.#check(isMeant, `crn${crn} is asked in a dialect that it is declared to lack`);
    const lacks = !isTranslated && this.#lacks[crn] === true;
    const answer = answerOf(this.#random, path, this.#stream, crn, fresh, lacks);
    const before = this.#connections.at(-1);
    if (before !== undefined && before.isTranslated !== isTranslated) {
      this.#seen.push(`${before.over ? 'failover' : 'hedge'} across forms`);
    }
    const connection = new ModelConnection(
      crn,
      answer,
      handler,
      this.#random,
      this.#model.clock,
      (text) => void this.#log.push(text),
      isTranslated,
    );
    this.#connections.push(connection);
    this.#log.push(`ask crn${crn} ${answer.name} ${answer.connect}`);
    if (answer.connect === 'no connection free' || answer.connect === 'unsendable') {
      connection.state = 'failed';
      handler.onResponseError(new DispatchError(answer.connect));
      return null;
    }
    if (answer.connect === 'kept') connection.open();
    return connection.over ? null : connection;
  }

  #makeRequest(): UpstreamRequest {
    const members = this.#members;
    const translation = this.#translation;
    const left = members.slice(0, 1 + Math.floor(this.#random() * CRNS));
    const random = this.#random;
    const charges = this.#charges;
    const holders = this.#holders;
    class InOrder extends Candidates {
      protected override choose(_: PromptHashes, nowMs: number): Member | undefined {
        const at = left.findIndex((member) => this.formOf(member, nowMs) !== 'none');
        const member = at < 0 ? undefined : left.splice(at, 1)[0];
        if (member === undefined) return undefined;
        this.trial = random() < 0.2;
        charges[member.server]!++;
        return member;
      }

      override again(choice: Candidate): void {
        charges[choice.member.server]!++;
        super.again(choice);
      }

      override prefilled(choice: Candidate, elapsedMs: number | null): void {
        charges[choice.member.server]!--;
        holders.add(choice.member.server);
        super.prefilled(choice, elapsedMs);
      }

      override abandoned(choice: Candidate, isRefused: boolean): void {
        charges[choice.member.server]!--;
        super.abandoned(choice, isRefused);
      }
    }
    const dialect = dialectOf(this.#path);
    const hint = {
      ...{ ...NO_HINT, stream: this.#stream, blocks: () => this.#prompt },
      ...{ dialectBit: dialect?.bit ?? 0, translatedBit: translation?.to.bit ?? 0 },
      get isUntranslatable() {
        return request.untranslatable !== null;
      },
    };
    let translated: RequestForm | null = null;
    const candidates = new InOrder({ id: 'm', members, budget: 0 }, this.#model.picker, PICKER, hint);
    candidates.lastResort = random() < 0.1;
    const request: UpstreamRequest & { untranslatable: HeadraceError | null } = {
      ...{ model: 'm', account: 'a', path: this.#path, lines: LINES, body: this.#body, dialect },
      ...{
        unknownPath: this.#pick(['taught', 'taught', 'believed', 'passed']),
        translator: null,
        untranslatable: null,
      },
      translated: () => {
        if (translation === null || request.untranslatable !== null) return null;
        try {
          translated ??= translatedForm(request, translation);
        } catch (error) {
          request.untranslatable = error as HeadraceError;
        }
        return translated;
      },
      ...{
        stream: this.#stream,
        choices: 1,
        usage: null,
        candidates,
        approval: this.#approval,
        keyChecked: this.#keyChecked,
      },
      budget: { deposit: () => undefined, withdraw: () => this.#retries-- > 0 },
      gaps: { observe: () => undefined },
      listener: {
        onAttempt: (attempt) => {
          this.#attempts.set(attempt, 0);
          if (this.#delivering !== null) this.#continued = true;
          return [];
        },
        onOutcome: (attempt) => {
          this.#log.push(`outcome ${attempt.number} ${attempt.verdict} ${attempt.failure}`);
          const isPaused = this.#connections[attempt.number - 1]?.paused === true;
          this.#check(!isPaused || attempt.failure !== 'unreachable', 'a CRN that was asked to wait counts as silent');
          this.#attempts.set(attempt, (this.#attempts.get(attempt) ?? 0) + 1);
        },
        onAnswer: (attempt) => {
          this.#check(this.#delivering === null, 'two answers');
          this.#delivering = attempt;
        },
        onFirstPiece: () => this.#check(this.#delivering?.judge.streams === true, 'a piece of no stream'),
        onFailed: (error) => {
          this.#errors.push(error);
          this.#check(error.code !== 'HR_INTERNAL' || messageOf(error.cause) === 'refused', messageOf(error.cause));
          this.#client.start(error.status, error.headers, 0);
          this.#client.end();
        },
      },
    };
    return request;
  }
}

/** A prompt that no other run has. */
function promptOf(random: Random): PromptHashes {
  const count = Math.floor(random() * 8);
  const hashes = Int32Array.from({ length: 2 * count }, () => Math.floor(random() * 2 ** 32));
  return { hashes, count, bytes: count * 512 + 100 };
}

/** Promises of an approval have run their callbacks. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await Promise.resolve();
}
