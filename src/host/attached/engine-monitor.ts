// Periodic health check of an attached engine. Its `/health` alone decides; what else it says, and when, has no consequence.
import type { Clock, TimerHandle } from '../../actor/index.ts';
import { type AttachedEngineKind, type DetectedEngine, modelsOf } from './detect.ts';
import type { EngineHttp } from './engine-http.ts';
export type Health = 'loading' | 'ready' | 'failed';

/** What answers 200 while an engine is well. */
const HEALTH_PATHS: Readonly<Record<AttachedEngineKind, string>> = {
  'llama-server': '/health',
  vllm: '/health',
  ollama: '/api/version',
  openai: '/v1/models',
};

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
  readonly #http: EngineHttp;
  readonly #engine: DetectedEngine;
  readonly #settings: MonitorSettings;
  #health: Health = 'ready';
  #hasOtherModels = false;
  /** Whether its models are to be compared before it counts as ready again. */
  #isUnknown = false;
  #timer: TimerHandle | null = null;
  #isClosed = false;

  constructor(http: EngineHttp, engine: DetectedEngine, settings: MonitorSettings) {
    this.#http = http;
    this.#engine = engine;
    this.#settings = settings;
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
    const path = HEALTH_PATHS[this.#engine.kind];
    try {
      const { status } = await this.#http.probe(path, questionMs);
      if (status !== 200) return this.#become(status === 503 ? 'loading' : 'failed');
      if (this.#isUnknown && (await this.#isOther(questionMs))) return this.#become('failed');
      this.#become('ready');
    } catch {
      this.#become('failed');
    }
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer !== null) this.#settings.clock.clearTimeout(this.#timer);
  }

  #become(health: Health): void {
    // A question that was under way fails with the connections.
    if (this.#isClosed) return;
    const { onNotice } = this.#settings;
    const { url } = this.#engine;
    const isNews = health !== this.#health;
    this.#health = health;
    this.#isUnknown ||= health !== 'ready';
    if (!isNews) return;
    if (health === 'ready') onNotice(`the engine at ${url} is back`);
    else onNotice(`the engine at ${url} is ${health === 'loading' ? 'loading' : 'away'}`);
  }

  /**
   * Whether the engine that came back lacks models of the one that went: others are not to answer in their name. An engine that
   * does not say is asked again with the next check.
   */
  async #isOther(questionMs: number): Promise<boolean> {
    const list = await this.#http.probe('/v1/models', questionMs).catch(() => null);
    if (list === null) return false;
    const models = modelsOf(list);
    const missing = this.#engine.models.filter(({ id }) => !models.some((model) => model.id === id));
    // A llama-server that lists no model was known by its properties.
    const isSame = models.length === 0 || missing.length === 0;
    if (!isSame && !this.#hasOtherModels) {
      const { onNotice } = this.#settings;
      onNotice(`the engine at ${this.#engine.url} came back without ${missing.map(({ id }) => id).join(', ')}`);
    }
    this.#hasOtherModels = !isSame;
    this.#isUnknown = !isSame;
    return !isSame;
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
