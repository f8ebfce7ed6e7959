// Sends a conversation through the gateway and puts the answer together while it comes. One request runs at a time; it goes on when
// another view is shown.

import { bearer, problemText, urlOf } from '../api.ts';
import { Store } from '../store.ts';
import type { PlaygroundAnswer, PlaygroundTarget } from '../../playground-routes.ts';
import { type Answer, NO_ANSWER, type Parameters, readExtra, readTools, type Turn } from './conversation.ts';
import { type AnswerReader, dialectOf, errorText, EventStream, type Json } from './dialects.ts';
import {
  apiKey,
  chatOf,
  type Entry,
  type Exchange,
  keepChats,
  newId,
  type PlaygroundSettings,
  setEntries,
  settings,
} from './session.ts';

/** The request that runs; null: none does. */
export const running: Store<{ readonly chat: number; readonly stop: () => void } | null> = new Store<{
  readonly chat: number;
  readonly stop: () => void;
} | null>(null);

/** Headers of a request to the public API. */
export function keyHeaders(): Record<string, string> {
  return apiKey.value === '' ? {} : bearer(apiKey.value);
}

function numberOf(text: string, name: string): number | null {
  if (text.trim() === '') return null;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`${name} is not a number`);
  return value;
}

function parametersOf(given: PlaygroundSettings): Parameters {
  return {
    system: given.system,
    stream: given.stream,
    maxTokens: numberOf(given.maxTokens, 'Most tokens'),
    temperature: numberOf(given.temperature, 'Temperature'),
    topP: numberOf(given.topP, 'Top p'),
    extra: readExtra(given.extra),
  };
}

/** The request for a conversation. Throws a sentence that says what is wrong with the form. */
function requestOf(
  turns: readonly Turn[],
  given: PlaygroundSettings,
): { readonly path: string; readonly body: object } {
  if (given.model === '') throw new Error('Choose a model');
  const dialect = dialectOf(given.dialect);
  // Turns that came to nothing would be refused.
  const said = turns.filter(
    (turn) => turn.role !== 'assistant' || turn.answer.text !== '' || turn.answer.calls.length > 0,
  );
  return { path: dialect.path, body: dialect.request(given.model, said, readTools(given.tools), parametersOf(given)) };
}

/** One word of a shell. */
function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A request as a command; the key is left to the environment. */
export function curlOf(base: string, { body, path }: Pick<Exchange, 'body' | 'path'>): string {
  const isStream = (JSON.parse(body) as { readonly stream?: unknown }).stream === true;
  return [
    `curl ${isStream ? '-N ' : ''}${shellWord(base + path)}`,
    '-H "authorization: Bearer $HEADRACE_API_KEY"',
    "-H 'content-type: application/json'",
    `-d ${shellWord(body)}`,
  ].join(' \\\n  ');
}

/** Reads what the playground stands for. */
export async function readTarget(): Promise<PlaygroundTarget> {
  const response = await fetch(urlOf('/playground/target'));
  return (await response.json()) as PlaygroundTarget;
}

/** Models of the gateway, in its order. Rejects with a sentence. */
export async function readModels(): Promise<string[]> {
  const response = await fetch(urlOf('/playground/v1/models'), { headers: keyHeaders() });
  const value = (await response.json()) as Json;
  if (!response.ok) throw new Error(`${response.status}: ${errorText(value)}`);
  return (value as unknown as { readonly data: readonly { readonly id: string }[] }).data.map(({ id }) => id);
}

/** Adds turns to a conversation and asks for an answer. Throws what is wrong with the form before anything is sent. */
export function send(chat: number, entries: readonly Entry[], turn: Turn | null): void {
  if (running.value !== null) return;
  const before = turn === null ? entries : [...entries, { id: newId(), turn, exchange: null }];
  const given = settings.value;
  const { body, path } = requestOf(
    before.map((entry) => entry.turn),
    given,
  );
  const exchange: Exchange = {
    ...{ path, dialect: given.dialect, model: given.model, body: JSON.stringify(body) },
    ...{ requestId: '', status: 0, code: '', headMs: null, firstTokenMs: null, totalMs: null, pieces: 0 },
    ...{ crn: '', attempts: null, translation: '', predictedHit: null, costUsd: null },
  };
  void new Run(chat, before, exchange).run();
}

/** Whether two answers differ in what the model said. */
function hasGrown(before: Answer, after: Answer): boolean {
  const size = ({ calls, reasoning, text }: Answer): number => {
    return (
      text.length + reasoning.length + calls.reduce((sum, call) => sum + call.name.length + call.arguments.length, 0)
    );
  };
  return size(after) > size(before);
}

class Run {
  readonly #chat: number;
  readonly #before: readonly Entry[];
  readonly #id = newId();
  readonly #abort = new AbortController();
  readonly #reader: AnswerReader;
  readonly #startMs = performance.now();
  #exchange: Exchange;
  #answer: Answer = NO_ANSWER;
  #frame = 0;
  #isStopped = false;

  constructor(chat: number, before: readonly Entry[], exchange: Exchange) {
    this.#chat = chat;
    this.#before = before;
    this.#exchange = exchange;
    this.#reader = dialectOf(exchange.dialect).reader();
    const stop = (): void => {
      this.#isStopped = true;
      this.#abort.abort();
    };
    running.set({ chat, stop });
    this.#show();
  }

  async run(): Promise<void> {
    try {
      await this.#ask();
    } catch (error) {
      // An event that cannot be read ends the request too, whose answer would be paid for.
      this.#abort.abort();
      this.#fail(this.#isStopped ? 'stopped' : brokenText(error, this.#exchange.status));
    }
    cancelAnimationFrame(this.#frame);
    this.#exchange = { ...this.#exchange, totalMs: this.#elapsed() };
    running.set(null);
    this.#show();
    keepChats();
    await this.#readOutcome();
  }

  async #ask(): Promise<void> {
    const { body, path } = this.#exchange;
    const response = await fetch(urlOf(`/playground${path}`), {
      method: 'POST',
      headers: { ...keyHeaders(), 'content-type': 'application/json' },
      body,
      signal: this.#abort.signal,
    });
    this.#readHead(response);
    if (!response.ok || !(response.headers.get('content-type') ?? '').startsWith('text/event-stream')) {
      this.#readWhole(response, await response.text());
      return;
    }
    const events = new EventStream((data) => this.#event(data));
    const stream = response.body?.getReader();
    for (let piece = await stream?.read(); piece?.done === false; piece = await stream?.read())
      events.push(piece.value);
    events.end();
    this.#answer = this.#reader.answer;
    const { complete, error } = this.#answer;
    if (!complete && error === null) this.#fail('the stream ended before the answer was complete');
  }

  #readHead({ headers, status }: Response): void {
    const text = (name: string): string => headers.get(name) ?? '';
    const number = (name: string): number | null => (headers.has(name) ? Number(headers.get(name)) : null);
    this.#exchange = {
      ...this.#exchange,
      ...{ status, headMs: this.#elapsed(), requestId: text('x-request-id'), code: text('x-headrace-error') },
      ...{ crn: text('x-headrace-crn'), attempts: number('x-headrace-attempts') },
      ...{ translation: text('x-headrace-translated'), predictedHit: number('x-headrace-predicted-hit') },
      costUsd: headers.get('x-headrace-cost'),
    };
    this.#show();
  }

  #readWhole({ ok, status }: Response, text: string): void {
    let value: Json;
    try {
      value = JSON.parse(text) as Json;
    } catch {
      this.#fail(`${status}: ${text.slice(0, 500) || 'an answer without a body'}`);
      return;
    }
    if (!ok) {
      this.#fail(`${status}: ${errorText(value)}`);
      return;
    }
    this.#reader.whole(value);
    this.#answer = this.#reader.answer;
  }

  #event(data: string): void {
    if (data === '[DONE]') return;
    this.#reader.event(JSON.parse(data) as Json);
    const answer = this.#reader.answer;
    if (hasGrown(this.#answer, answer)) {
      const { firstTokenMs, pieces } = this.#exchange;
      this.#exchange = { ...this.#exchange, pieces: pieces + 1, firstTokenMs: firstTokenMs ?? this.#elapsed() };
    }
    this.#answer = answer;
    // Many events come between two pictures of the screen.
    if (this.#frame === 0) this.#frame = requestAnimationFrame(this.#show);
  }

  #fail(reason: string): void {
    this.#answer = { ...this.#reader.answer, error: reason };
  }

  /** What is only known when the answer has ended. */
  async #readOutcome(): Promise<void> {
    const { requestId } = this.#exchange;
    if (requestId === '') return;
    try {
      const response = await fetch(urlOf(`/playground/answers/${encodeURIComponent(requestId)}`));
      if (response.ok) this.#takeOutcome((await response.json()) as PlaygroundAnswer);
    } catch {
      // The gateway has gone; the answer stands.
    }
  }

  #takeOutcome({ attempts, costUsd, crn, predictedHit, translation }: PlaygroundAnswer): void {
    const exchange = this.#exchange;
    this.#exchange = { ...exchange, crn, translation, attempts: crn === '' ? null : attempts };
    this.#exchange = {
      ...this.#exchange,
      predictedHit: predictedHit ?? exchange.predictedHit,
      costUsd: costUsd ?? exchange.costUsd,
    };
    const entries = chatOf(this.#chat)?.entries ?? [];
    // Without a picture of turns that were removed meanwhile.
    const changed = entries.map((entry) => (entry.id === this.#id ? { ...entry, exchange: this.#exchange } : entry));
    setEntries(this.#chat, changed);
    keepChats();
  }

  readonly #show = (): void => {
    this.#frame = 0;
    const entry: Entry = { id: this.#id, turn: { role: 'assistant', answer: this.#answer }, exchange: this.#exchange };
    setEntries(this.#chat, [...this.#before, entry]);
  };

  #elapsed(): number {
    return performance.now() - this.#startMs;
  }
}

function brokenText(error: unknown, status: number): string {
  if (status === 0) return problemText(error);
  const reason = error instanceof Error ? error.message : String(error);
  return `the connection broke in the middle of the answer (${reason})`;
}
