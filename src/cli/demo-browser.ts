// The browser of the demo: the first one that is installed, started for the demo alone, with the flags that the documentation asks for,
// and ended with it.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WEBRTC_FLAGS } from '../fetch/main-thread.ts';

const NAMES = [
  ...['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome'],
  ...['chromium-headless-shell', 'chrome-headless-shell'],
] as const;

/** What each flag is for is in docs/fetch.md. */
const FLAGS: readonly string[] = [
  '--headless',
  '--remote-debugging-port=0',
  ...WEBRTC_FLAGS,
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
  '--block-new-web-contents',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-default-apps',
  '--disable-dev-shm-usage',
  '--disable-extensions',
  '--disable-gpu',
  '--disable-sync',
  '--mute-audio',
  '--no-default-browser-check',
  '--no-first-run',
  '--no-pings',
];

/** Chromium refuses to run as root with its sandbox. */
const WITHOUT_SANDBOX = '--no-sandbox';

const START_MS = 15_000;
const END_MS = 3000;

export interface DemoBrowser {
  /** Its DevTools endpoint. */
  readonly url: string;
  /** Whether pages run in a sandbox of the operating system. */
  readonly isSandboxed: boolean;
  /** Its process, which has those of its pages below it. */
  readonly pid: number;
  close(): Promise<void>;
}

export interface DemoBrowserOptions {
  /** Default: the usual names, looked for in PATH. */
  readonly names?: readonly string[];
  /** Further flags. */
  readonly flags?: readonly string[];
  /** Gives up the start. */
  readonly signal?: AbortSignal;
}

/** Null where no browser is installed, or none starts. */
export async function startBrowser(options: DemoBrowserOptions = {}): Promise<DemoBrowser | null> {
  const { flags = [], names = NAMES, signal } = options;
  const isSandboxed = process.getuid?.() !== 0;
  const folder = await mkdtemp(join(tmpdir(), 'headrace-browser-'));
  const args = [
    ...FLAGS,
    ...flags,
    `--user-data-dir=${folder}`,
    ...(isSandboxed ? [] : [WITHOUT_SANDBOX]),
    'about:blank',
  ];
  for (const name of names) {
    // A process group of its own: packages install scripts that start the browser and stay in front of it.
    const child = spawn(name, args, { stdio: ['ignore', 'ignore', 'pipe'], detached: true });
    const close = async (): Promise<void> => {
      await end(child);
      // Its last writes may come while the folder is removed.
      await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    };
    const url = await endpointOf(child, signal);
    if (url !== null) return { url, isSandboxed, pid: child.pid ?? 0, close };
    await end(child);
    if (signal?.aborted === true) break;
  }
  await rm(folder, { recursive: true, force: true });
  return null;
}

/** What the browser says on standard error once it listens; null when it ends before, or takes too long. */
function endpointOf(child: ChildProcess, signal: AbortSignal | undefined): Promise<string | null> {
  return new Promise((resolve) => {
    let said = '';
    const settle = (url: string | null): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', giveUp);
      resolve(url);
    };
    const giveUp = (): void => settle(null);
    const timer = setTimeout(giveUp, START_MS);
    signal?.addEventListener('abort', giveUp, { once: true });
    if (signal?.aborted === true) giveUp();
    child.once('error', giveUp).once('exit', giveUp);
    child.stderr?.setEncoding('utf8').on('data', (piece: string) => {
      // Read to the end, so that the browser never waits; only the beginning is of interest.
      if (said.length > 65_536) return;
      said += piece;
      const [, url] = /^DevTools listening on (ws:\/\/\S+)$/m.exec(said) ?? [];
      if (url !== undefined) settle(`http://${new URL(url).host}`);
    });
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const { pid } = child;
  // Standard error is closed when the last process of the browser has ended.
  const ended = once(child, 'close');
  signalGroup(pid, 'SIGTERM');
  const timer = setTimeout(() => signalGroup(pid, 'SIGKILL'), END_MS);
  await ended;
  clearTimeout(timer);
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
