// Runs an agent as a process of its own, with a home of its own.

import { spawn } from 'node:child_process';
import { delimiter, dirname, join } from 'node:path';

/** One session takes a few seconds; retries after a broken stream wait for some more. */
export const SESSION_TIMEOUT_MS = 90_000;
/** Between the polite signal and the other one. */
const KILL_AFTER_MS = 3000;

/** Runs an agent to its end, at most SESSION_TIMEOUT_MS. */
export function runAgent(program, args, { home, project, env }) {
  return new Promise((resolved) => {
    const child = spawn(program, args, {
      cwd: project,
      env: {
        PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}`,
        HOME: home,
        XDG_CONFIG_HOME: join(home, '.config'),
        XDG_DATA_HOME: join(home, '.local/share'),
        XDG_CACHE_HOME: join(home, '.cache'),
        TERM: 'dumb',
        LANG: 'C.UTF-8',
        NO_PROXY: '127.0.0.1',
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    let output = '';
    let timedOut = false;
    // A group of its own: agents start processes.
    const signal = (name) => {
      try {
        process.kill(-(child.pid ?? Number.NaN), name);
      } catch {
        // The group has ended.
      }
    };
    const timers = [
      setTimeout(() => {
        timedOut = true;
        signal('SIGTERM');
      }, SESSION_TIMEOUT_MS),
      setTimeout(() => signal('SIGKILL'), SESSION_TIMEOUT_MS + KILL_AFTER_MS),
    ];
    const end = () => signal('SIGKILL');
    process.once('exit', end);
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => void (output += text));
    child.on('error', (error) => void (output += error.message));
    child.on('close', (code) => {
      for (const timer of timers) clearTimeout(timer);
      signal('SIGKILL');
      process.off('exit', end);
      resolved({ code, output, timedOut });
    });
  });
}
