// Periodic health check of an attached engine. Keeps its health and its slots, so that the host can report them at once.
import type { Clock, TimerHandle } from '../../actor/index.ts';
import type { SlotState } from '../model-engine.ts';
import { type DetectedEngine, modelsOf } from './detect.ts';
import { type EngineHttp, numberOf, objectOf } from './engine-http.ts';
export type Health = 'loading' | 'ready' | 'failed';

export interface MonitorSettings {
  readonly clock: Clock;
  /** Between two questions. */
  readonly periodMs: number;
  /** For one question. */
  readonly questionMs: number;
  /** Called with a sentence when the engine becomes unavailable or available. */
  readonly onNotice: (sentence: string) => void;
}

export class EngineMonitor {
  slots: readonly SlotState[];
  readonly #http: EngineHttp;
  readonly #engine: DetectedEngine;
  readonly #settings: MonitorSettings;
  #health: Health = 'ready';
  #hasOtherModels = false;
  #timer: TimerHandle | null = null;
  #isClosed = false;

  constructor(http: EngineHttp, engine: DetectedEngine, settings: MonitorSettings) {
    this.#http = http;
    this.#engine = engine;
    this.#settings = settings;
    const n_ctx = engine.models[0]!.contextTokens ?? 0;
    this.slots = Array.from({ length: engine.slots }, (_, id) => ({ id, n_ctx, is_processing: false, n_tokens: 0 }));
    this.#later();
  }

  get health(): Health {
    return this.#health;
  }

  /** Marks the engine as failed until the next check succeeds. */
  doubt(): void {
    this.#become('failed');
  }

  /** Looks now; also called by the timer. */
  async look(): Promise<void> {
    const { questionMs } = this.#settings;
    const path = this.#engine.kind === 'openai' ? '/v1/models' : '/health';
    try {
      const { status } = await this.#http.ask(path, undefined, questionMs);
      if (status !== 200) return this.#become(status === 503 ? 'loading' : 'failed');
      if (this.#health !== 'ready' && !(await this.#isSame(questionMs))) return this.#become('failed');
      this.#become('ready');
      if (this.#engine.slots > 0) await this.#lookAtSlots(questionMs);
    } catch {
      this.#become('failed');
    }
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer !== null) this.#settings.clock.clearTimeout(this.#timer);
  }

  #become(health: Health): void {
    const { onNotice } = this.#settings;
    const { url } = this.#engine;
    const isNews = health !== this.#health;
    this.#health = health;
    if (!isNews) return;
    if (health === 'ready') onNotice(`the engine at ${url} is back`);
    else onNotice(`the engine at ${url} is ${health === 'loading' ? 'loading' : 'away'}`);
  }

  /** Whether the engine that came back has the models of the one that went: others are not to answer in their name. */
  async #isSame(questionMs: number): Promise<boolean> {
    const models = modelsOf(await this.#http.ask('/v1/models', undefined, questionMs));
    const missing = this.#engine.models.filter(({ id }) => !models.some((model) => model.id === id));
    // A llama-server that lists no model was known by its properties.
    const isSame = models.length === 0 || missing.length === 0;
    if (!isSame && !this.#hasOtherModels) {
      const { onNotice } = this.#settings;
      onNotice(`the engine at ${this.#engine.url} came back without ${missing.map(({ id }) => id).join(', ')}`);
    }
    this.#hasOtherModels = !isSame;
    return isSame;
  }

  /** The engine may have been told to keep its slots to itself: then they stay as they were. */
  async #lookAtSlots(questionMs: number): Promise<void> {
    const { status, json } = await this.#http.ask('/slots', undefined, questionMs);
    if (status !== 200 || !Array.isArray(json)) return;
    this.slots = json.map((entry: unknown, at) => {
      const { id, n_ctx, is_processing, next_token, n_tokens } = objectOf(entry);
      const made = numberOf(objectOf([next_token].flat()[0])['n_decoded']);
      return {
        id: numberOf(id) ?? at,
        n_ctx: numberOf(n_ctx) ?? 0,
        is_processing: is_processing === true,
        n_tokens: numberOf(n_tokens) ?? made ?? 0,
      };
    });
  }

  #later(): void {
    const { clock, periodMs } = this.#settings;
    this.#timer = clock.setTimeout(() => {
      void this.look().finally(() => {
        if (!this.#isClosed) this.#later();
      });
    }, periodMs);
  }
}
