// Progress bar over a whole run of benchmarks, on standard error. Where that is no terminal, it prints a line per part and one
// every 15 seconds between.

const WIDTH = 24;
const QUIET_MS = 15_000;

/** `[######------] 50 %  text  about 3 min left` */
export function barText(done, total, elapsedMs, text) {
  const share = Math.min(1, done / Math.max(1, total));
  const full = Math.round(share * WIDTH);
  const bar = `[${'#'.repeat(full)}${'-'.repeat(WIDTH - full)}] ${String(Math.floor(share * 100)).padStart(3)} %`;
  return `${bar}  ${text}${done < 3 ? '' : `  ${leftText((elapsedMs / done) * (total - done))}`}`;
}

function leftText(ms) {
  if (ms <= 0) return '';
  return ms < 90_000
    ? `about ${Math.max(1, Math.round(ms / 1000))} s left`
    : `about ${Math.round(ms / 60_000)} min left`;
}

/** A bar over `total` steps. `write` and `nowMs` are for tests. */
export class Progress {
  #total;
  #stream;
  #nowMs;
  #startMs;
  #lineMs = -Infinity;
  #part = '';
  done = 0;

  constructor(total, stream = process.stderr, nowMs = () => performance.now()) {
    this.#total = total;
    this.#stream = stream;
    this.#nowMs = nowMs;
    this.#startMs = nowMs();
  }

  /** Begins the next step; the step before is done. */
  step(part, text) {
    const nowMs = this.#nowMs();
    const line = barText(this.done, this.#total, nowMs - this.#startMs, `${part}: ${text}`);
    this.done++;
    if (this.#stream.isTTY) this.#stream.write(`\r\x1b[K${line}`);
    else if (part !== this.#part || nowMs - this.#lineMs > QUIET_MS) {
      this.#stream.write(`${line.trimEnd()}\n`);
      this.#lineMs = nowMs;
    }
    this.#part = part;
  }

  /** Clears the line for other output. `done` corrects the steps so far, for a part that took fewer than announced. */
  clear(done = this.done) {
    this.done = done;
    if (this.#stream.isTTY) this.#stream.write('\r\x1b[K');
  }
}
