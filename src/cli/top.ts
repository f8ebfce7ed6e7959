// `headrace top`: the house of a running gateway in the terminal, renewed every second. On a terminal it takes the
// alternate screen and gives everything back at the end; anywhere else it writes plain text.

import { systemClock } from '../actor/index.ts';
import { type Overview, ratesBetween } from '../admin/index.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import { takeFlags, UsageError } from './args.ts';
import { screenLines } from './top-screen.ts';

const DEFAULT_ADMIN = 'http://127.0.0.1:9090';
const EVERY_MS = 1000;
const TIMEOUT_MS = 5000;
const MAX_HOUSE_BYTES = 64 * 1024 * 1024;

/** In raw mode Ctrl-C and Ctrl-D are characters. */
const LAST_KEYS: ReadonlySet<string> = new Set(['q', 'Q', '\u0003', '\u0004']);

/** Alternate screen without a cursor, and back. */
const ENTER = '\u001b[?1049h\u001b[?25l';
const LEAVE = '\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_LINE = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

/** Runs until q, a signal or the end of the gateway; exit code 1 with a sentence when it does not answer. */
export async function top(flags: Readonly<Record<string, string>>): Promise<number> {
  const { own, rest } = takeFlags(flags, ['admin', 'once']);
  const unknown = Object.keys(rest)[0];
  if (unknown !== undefined) throw new UsageError(`headrace top has no flag --${unknown}`);
  const admin = URL.parse(own.admin ?? DEFAULT_ADMIN);
  if (admin === null || !/^https?:$/.test(admin.protocol)) throw new UsageError('--admin takes a URL');
  const client = new BufferedClient(1);
  const url = `${admin.href.replace(/\/+$/, '')}/overview`;
  const view = process.stdout.isTTY && own.once === undefined ? new TerminalView() : new PlainView();
  try {
    await watch(() => readOverview(client, url), view, own.once !== undefined);
    return 0;
  } catch (error) {
    view.close();
    process.stderr.write(`headrace: ${url} ${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  } finally {
    view.close();
    client.close();
  }
}

interface View {
  /** Resolves when the watching is over. */
  readonly ended: Promise<void>;
  show(lines: readonly string[]): void;
  /** Harmless when called twice. */
  close(): void;
}

async function watch(read: () => Promise<Overview>, view: View, once: boolean): Promise<void> {
  let running = true;
  void view.ended.then(() => (running = false));
  let before = await read();
  if (!once) view.show(screenLines(before, null));
  while (running) {
    await Promise.race([view.ended, pause()]);
    if (!running) return;
    const overview = await read();
    view.show(screenLines(overview, ratesBetween(before, overview)));
    if (once) return;
    before = overview;
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => systemClock.setTimeout(resolve, EVERY_MS));
}

async function readOverview(client: BufferedClient, url: string): Promise<Overview> {
  const { status, body } = await client
    .send({ method: 'GET', url, headers: {} }, AbortSignal.timeout(TIMEOUT_MS), MAX_HOUSE_BYTES)
    .catch((error: unknown) => {
      throw new Error(`does not answer (${error instanceof Error ? error.message : String(error)})`);
    });
  if (status !== 200) throw new Error(`answers ${status}: is it the admin listener of a gateway?`);
  try {
    return JSON.parse(body.toString()) as Overview;
  } catch {
    throw new Error('answers no JSON: is it the admin listener of a gateway?');
  }
}

class PlainView implements View {
  readonly ended: Promise<void> = new Promise((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
    // Whoever read has left: `headrace top | head`.
    process.stdout.once('error', () => resolve());
  });

  show(lines: readonly string[]): void {
    process.stdout.write(`${lines.join('\n')}\n\n`);
  }

  close(): void {
    // Nothing was taken.
  }
}

class TerminalView implements View {
  readonly #ended: PromiseWithResolvers<void> = Promise.withResolvers();
  readonly ended: Promise<void> = this.#ended.promise;
  #lines: readonly string[] = [];
  #open = true;

  constructor() {
    const end = (): void => this.#ended.resolve();
    process.once('SIGINT', end);
    process.once('SIGTERM', end);
    process.stdout.write(ENTER);
    process.stdout.on('resize', this.#draw);
    if (!process.stdin.isTTY) return;
    process.stdin.setRawMode(true);
    process.stdin.on('data', (keys) => {
      if (Array.from(keys.toString()).some((key) => LAST_KEYS.has(key))) end();
    });
  }

  show(lines: readonly string[]): void {
    this.#lines = lines;
    this.#draw();
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    process.stdout.off('resize', this.#draw);
    process.stdout.write(LEAVE);
    if (!process.stdin.isTTY) return;
    process.stdin.setRawMode(false);
    process.stdin.pause();
  }

  readonly #draw = (): void => {
    const { columns, rows } = process.stdout;
    const shown = this.#lines.slice(0, rows - 1).map((line) => Array.from(line).slice(0, columns).join(''));
    process.stdout.write(HOME + shown.map((line) => `${line}${CLEAR_LINE}\r\n`).join('') + CLEAR_BELOW);
  };
}
