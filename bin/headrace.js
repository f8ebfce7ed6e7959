#!/usr/bin/env node
import { mkdirSync } from 'node:fs';
import module from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';

// Threads of libuv's pool, half of which may look up names at once: with the default of 4, two names whose servers are silent
// stop all others. Must be set before the pool is used.
process.env.UV_THREADPOOL_SIZE ??= '32';

// Checks the Node.js version before it loads anything that an older Node.js could not parse.
try {
  await import('../dist/src/node-version.js');
} catch (error) {
  const isUnbuilt = error.code === 'ERR_MODULE_NOT_FOUND';
  process.stderr.write(isUnbuilt ? 'headrace is not built: run "npm run build" first.\n' : `${error.message}\n`);
  process.exit(1);
}

// Compiled code is kept for the next start, which then takes a third less CPU time, in a folder of the user alone: who may write
// there decides what runs. Threads and the process that replaces this one read the variable.
process.env.NODE_COMPILE_CACHE ??= cacheFolder();
if (process.env.NODE_COMPILE_CACHE !== '') module.enableCompileCache();

// Garbage collection without V8's four helper threads. They help nobody where every core runs an event loop: while they
// mark, a loop gets a fifth of its core and requests wait for tens of milliseconds (bench/README.md). The flag only counts
// when a process starts, so servers replace themselves once by the same process with the flag, which Windows cannot do. A Node.js
// that does not know the flag would not start, so later versions are left alone.
const SINGLE_THREADED_GC = '--single-threaded-gc';
const LAST_MAJOR = 26;
const SERVERS = ['serve', 'host'];
/** Options may stand before the command. */
const isOneOf = (commands) => process.argv.slice(2).some((word) => commands.includes(word));
const canReplace = process.platform !== 'win32' && Number(process.versions.node.split('.')[0]) <= LAST_MAJOR;
const isFirst = process.send === undefined && !process.execArgv.includes(SINGLE_THREADED_GC);
if (isOneOf(SERVERS) && canReplace && isFirst) {
  const { execArgv, execPath, argv, env } = process;
  process.execve(execPath, [execPath, SINGLE_THREADED_GC, ...execArgv, ...argv.slice(1)], env);
}

// A SIGHUP that comes before the configuration is read has nothing to reload; without a listener it would end the process.
if (isOneOf(['serve', 'picker'])) process.on('SIGHUP', () => undefined);

// The heap of a thread may double before it is collected whole. V8 allows as little as a third to one that was idle before: of 30 MB less than
// one upload of 10 MB takes, which counts with the heap.
setFlagsFromString('--heap-growing-percent=100');

let exitCode = 0;

// Nobody reads the output any more, as behind `| head`, or the disk is full. Commands that serve listen for it themselves.
process.stdout.on('error', ({ code }) => {
  if (process.stdout.listenerCount('error') > 1) return;
  if (code !== 'EPIPE')
    process.stderr.write(`headrace: standard output is incomplete: it cannot be written (${code})\n`);
  process.exit(code === 'EPIPE' ? exitCode : 1);
});

const { main } = await import('../dist/src/cli/main.js');
const { processIo } = await import('../dist/src/cli/io.js');
const io = processIo();
exitCode = await main(process.argv.slice(2), io);
if (io.abandonsOutput === true) process.exit(exitCode);
// Whatever was printed, or could not be, must be out before the process ends; sockets that are kept alive must not hold it.
process.stdout.write('', () => setImmediate(() => process.exit(exitCode)));

/** Made if it is missing. Empty, and nothing is kept, where the user has no folder for it or it cannot be written. */
function cacheFolder() {
  try {
    const caches = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
    const folder = join(caches, 'headrace');
    for (const each of [caches, folder]) makeFolder(each);
    return folder;
  } catch {
    return '';
  }
}

function makeFolder(folder) {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
  }
}
