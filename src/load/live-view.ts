// Progress of a load run: two lines that are redrawn on a terminal, or one plain line per update elsewhere.
import type { LoadRun } from './load-run.ts';
import type { Recorder } from './recorder.ts';
import { grouped, shownMs, shownRate } from './text-report.ts';

export interface LiveSettings {
  /** Whether lines can be renewed: a terminal. */
  readonly isTerminal: boolean;
  readonly warmUpMs: number;
  /** Cells of a line of the terminal. */
  readonly columns: number;
  readonly write: (text: string) => void;
}

const CLEAR_BELOW = '\r\u001b[J';
const UP = '\u001b[1A';

export class LiveView {
  readonly #settings: LiveSettings;
  readonly #run: LoadRun;
  readonly #recorder: Recorder;
  #drawn = 0;
  #beforeMs = NaN;
  #beforeOk = 0;

  constructor(settings: LiveSettings, run: LoadRun, recorder: Recorder) {
    this.#settings = settings;
    this.#run = run;
    this.#recorder = recorder;
  }

  /** Shows how things are at this time of the clock. */
  show(nowMs: number): void {
    const lines = this.#lines(nowMs);
    const { isTerminal, columns, write } = this.#settings;
    if (!isTerminal) {
      write(`${lines.join('; ')}\n`);
      return;
    }
    // A line that wraps would count as two and leave its remains.
    write(`${this.#erasing()}${lines.map((line) => line.slice(0, columns - 1)).join('\n')}`);
    this.#drawn = lines.length;
  }

  /** Takes the lines off a terminal. */
  clear(): void {
    if (this.#drawn > 0) this.#settings.write(this.#erasing());
    this.#drawn = 0;
  }

  #erasing(): string {
    return this.#drawn === 0 ? '' : `${UP.repeat(this.#drawn - 1)}${CLEAR_BELOW}`;
  }

  #lines(nowMs: number): string[] {
    const { startMs, inFlight, dropped, late, sent } = this.#run;
    const { ok, errors, outcomes, measures } = this.#recorder;
    const elapsedMs = nowMs - startMs;
    const sinceMs = nowMs - (Number.isNaN(this.#beforeMs) ? startMs : this.#beforeMs);
    const rate = sinceMs > 0 ? ((ok - this.#beforeOk) * 1000) / sinceMs : 0;
    this.#beforeMs = nowMs;
    this.#beforeOk = ok;
    const stage = elapsedMs < this.#settings.warmUpMs ? ', warming up' : '';
    const lost = `${dropped > 0 ? `, ${grouped(dropped)} dropped` : ''}${late > 0 ? `, ${grouped(late)} late` : ''}`;
    const worst = errors === 0 ? '' : ` (${[...outcomes.keys()].slice(0, 3).join(', ')})`;
    const { e2e, ttft, itl } = measures;
    const texts =
      ttft.count === 0 ? '' : `, first text p50 ${shownMs(ttft.percentile(50))} p99 ${shownMs(ttft.percentile(99))}`;
    const gaps = itl.count === 0 ? '' : `, gap p99 ${shownMs(itl.percentile(99))}`;
    return [
      `${(elapsedMs / 1000).toFixed(0)} s${stage}: ${grouped(sent)} sent, ${grouped(inFlight)} under way, ` +
        `${grouped(ok)} ok, ${grouped(errors)} failed${worst}${lost}, ${shownRate(rate)} a second`,
      `ms: response p50 ${shownMs(e2e.percentile(50))} p99 ${shownMs(e2e.percentile(99))}${texts}${gaps}`,
    ];
  }
}
