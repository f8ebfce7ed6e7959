// Child processes of a benchmark: started on one core, watched through /proc, stopped by their process id. No process and no
// temporary folder outlives the benchmark, however it ends. Linux only.

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const TICK_US = 1e6 / Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
const PAGE_BYTES = Number(execFileSync('getconf', ['PAGESIZE'], { encoding: 'utf8' }));
const START_TIMEOUT_MS = 15_000;
const STOP_TIMEOUT_MS = 8_000;

/** Fields of /proc/PID/stat, counted from the one after the command name (proc(5) numbers them from 3). */
const PPID = 1;
const UTIME = 11;
const STIME = 12;
const RSS_PAGES = 21;
/** TCP_LISTEN in /proc/net/tcp. */
const LISTEN = '0A';

const running = new Set();
const folders = [];

/** Kills what still runs when the benchmark ends; an orderly end has stopped its children before. */
process.on('exit', () => {
  for (const child of running) for (const pid of tree(child.pid)) kill(pid, 'SIGKILL');
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
// SIGHUP: the terminal was closed. Gateway and nginx take it for a wish to reload, and would go on.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(130));

/** Makes a folder that is removed when the benchmark ends. */
export function temporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
  folders.push(folder);
  return folder;
}

/**
 * Starts `command` on `core`. With `ready`, a pattern for one line of its standard output, resolves with the match of
 * that line, or rejects when the process ends first or takes longer than `startTimeoutMs`, which ends it; without it, resolves
 * at once.
 */
export async function startChild({ name, command, args, core, env = {}, ready, startTimeoutMs = START_TIMEOUT_MS }) {
  const process_ = spawn('taskset', ['-c', String(core), command, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const child = { name, pid: process_.pid, process: process_, exited: false, errors: '', lines: [] };
  running.add(child);
  process_.stderr.on('data', (text) => {
    child.errors = (child.errors + text).slice(-4000);
  });
  const ended = new Promise((resolve) => {
    process_.on('error', (error) => resolve(String(error)));
    process_.on('close', (code, signal) => resolve(`ended with ${signal ?? code}`));
  });
  child.ended = ended.then((how) => {
    child.exited = true;
    running.delete(child);
    return how;
  });
  const line = waitForLine(child, ready, startTimeoutMs);
  if (ready === undefined) return { child, match: null };
  try {
    return { child, match: await line };
  } catch (error) {
    await stopChild(child);
    throw error;
  }
}

function waitForLine(child, ready, startTimeoutMs) {
  const lines = createInterface({ input: child.process.stdout });
  return new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(`${child.name}: ${why}\n${child.errors}`));
    const timer = setTimeout(() => ready && fail('not ready in time'), startTimeoutMs);
    timer.unref();
    lines.on('line', (line) => {
      child.lines.push(line);
      const match = ready?.exec(line);
      if (match) resolve(match);
    });
    child.ended.then((how) => (ready === undefined ? resolve(null) : fail(how)));
  });
}

/** Runs a child to its end and resolves with its last line of output as JSON. */
export async function runChild(options) {
  const { child } = await startChild(options);
  const how = await child.ended;
  if (how !== 'ended with 0') throw new Error(`${options.name}: ${how}\n${child.errors}`);
  return JSON.parse(child.lines.at(-1));
}

/** Asks a child to end, insists after a while. Processes that it leaves behind are killed. */
export async function stopChild(child) {
  if (child.exited) return;
  const [, ...others] = tree(child.pid);
  const killOthers = () => others.forEach((pid) => kill(pid, 'SIGKILL'));
  // They may hold its output open, which has to end, too.
  child.process.once('exit', killOthers);
  kill(child.pid, 'SIGTERM');
  const timer = setTimeout(() => {
    for (const pid of tree(child.pid)) kill(pid, 'SIGKILL');
    child.process.stdout.destroy();
    child.process.stderr.destroy();
  }, STOP_TIMEOUT_MS);
  await child.ended;
  clearTimeout(timer);
}

function kill(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended meanwhile.
  }
}

function stat(path) {
  try {
    const text = readFileSync(path, 'latin1');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null;
  }
}

/** `pid` and its descendants. */
function tree(pid) {
  const parents = new Map();
  for (const entry of readdirSync('/proc')) {
    if (entry.charCodeAt(0) > 57) continue;
    const fields = stat(`/proc/${entry}/stat`);
    if (fields !== null) parents.set(Number(entry), Number(fields[PPID]));
  }
  const pids = [pid];
  for (const parent of pids) for (const [id, of] of parents) if (of === parent) pids.push(id);
  return pids;
}

const cpuOf = (fields) => (Number(fields[UTIME]) + Number(fields[STIME])) * TICK_US;

/**
 * User and system time of a process and its descendants so far, every thread included, in microseconds. No process
 * (null: somebody else's, elsewhere) has used none.
 */
export function cpuTimesUs(pid) {
  const times = { user: 0, system: 0 };
  if (pid === null) return times;
  for (const id of tree(pid)) {
    const fields = stat(`/proc/${id}/stat`);
    if (fields === null) continue;
    times.user += Number(fields[UTIME]) * TICK_US;
    times.system += Number(fields[STIME]) * TICK_US;
  }
  return times;
}

/** Both together. */
export function cpuUs(pid) {
  const { user, system } = cpuTimesUs(pid);
  return user + system;
}

/** The same per thread of the process itself, by thread id; none of a process that has ended. The first thread is the main one. */
export function threadCpuUs(pid) {
  const threads = {};
  if (pid === null || !existsSync(`/proc/${pid}`)) return threads;
  for (const id of readdirSync(`/proc/${pid}/task`)) {
    const fields = stat(`/proc/${pid}/task/${id}/stat`);
    if (fields !== null) threads[id] = cpuOf(fields);
  }
  return threads;
}

/** Resident memory of a process and its descendants, in bytes; shared pages count once per process. */
export function rssBytes(pid) {
  if (pid === null) return 0;
  let total = 0;
  for (const id of tree(pid)) total += Number(stat(`/proc/${id}/stat`)?.[RSS_PAGES] ?? 0) * PAGE_BYTES;
  return total;
}

/** Memory of a process and its descendants, in bytes: pages that they share count once in all. */
export function pssBytes(pid) {
  let total = 0;
  for (const id of tree(pid)) total += pssOf(id);
  return total;
}

function pssOf(id) {
  try {
    return Number(/^Pss: +(\d+) kB/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, 'latin1'))?.[1] ?? 0) * 1024;
  } catch {
    // The process has ended.
    return 0;
  }
}

/** The process that listens on `port` of this machine, or null when it is not ours to see. */
export function listenerOf(port) {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  const inodes = new Set();
  for (const file of ['/proc/net/tcp', '/proc/net/tcp6']) {
    for (const line of readFileSync(file, 'latin1').split('\n').slice(1)) {
      const [, local, , state, , , , , , inode] = line.trim().split(/ +/);
      if (state === LISTEN && local.endsWith(`:${hex}`)) inodes.add(`socket:[${inode}]`);
    }
  }
  const owners = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry) && holdsAny(entry, inodes));
  // A socket that was handed to children belongs to the oldest of them; `cpuUs` counts the rest.
  return owners.length === 0 ? null : Math.min(...owners.map(Number));
}

function holdsAny(pid, inodes) {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => inodes.has(linkOf(`/proc/${pid}/fd/${fd}`)));
  } catch {
    return false;
  }
}

function linkOf(path) {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

/** Files that this process may have open, after raising the limit to `wanted` where that is allowed. */
export function openFiles(wanted) {
  const limit = () => Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))[1]);
  if (limit() < wanted) spawnSync('prlimit', ['--pid', String(process.pid), `--nofile=${wanted}:${wanted}`]);
  return limit();
}

/** Busy and stolen time of one core so far, in microseconds, whoever used it. */
export function coreUs(core) {
  const line = readFileSync('/proc/stat', 'latin1')
    .split('\n')
    .find((entry) => entry.startsWith(`cpu${core} `));
  const [user, nice, system, , , irq, softirq, steal] = line.split(/ +/).slice(1).map(Number);
  return { busy: (user + nice + system + irq + softirq) * TICK_US, stolen: steal * TICK_US };
}

/** Runs a short command to its end; throws what it said when it fails. */
export function runCommand(command, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', ...options });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? `${stdout}${stderr}`.trim()}`);
  return stdout;
}

/** Whether `command` is on this machine's path. */
export function isInstalled(command) {
  return spawnSync('sh', ['-c', `command -v ${command}`]).status === 0;
}
