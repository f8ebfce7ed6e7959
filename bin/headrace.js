#!/usr/bin/env node
// Looks at the Node version before anything that an older Node could not even parse is loaded.
const major = Number(process.versions.node.split('.')[0]);
if (major < 22) {
  process.stderr.write(`headrace needs Node.js 22 or newer; this is ${process.versions.node}.\n`);
  process.exit(1);
}

// V8 collects garbage with four threads of its own. Where every core has an event loop to run they help nobody: while they
// mark, a loop gets a fifth of its core and requests wait for tens of milliseconds (bench/README.md). The flag counts only
// when a process starts, so what serves many starts once more in its place; below Node.js 22.15 it cannot and goes on. A Node that
// does not know the flag would not start at all: versions to come are left alone.
const COLLECT_ALONE = '--single-threaded-gc';
const LAST_MAJOR = 24;
const SERVERS = ['serve', 'host'];
const canStartAnew = process.execve !== undefined && process.platform !== 'win32' && major <= LAST_MAJOR;
const isFirst = process.send === undefined && !process.execArgv.includes(COLLECT_ALONE);
if (SERVERS.includes(process.argv[2]) && canStartAnew && isFirst) {
  const { execArgv, execPath, argv, env } = process;
  process.execve(execPath, [execPath, COLLECT_ALONE, ...execArgv, ...argv.slice(1)], env);
}

const { main } = await import('../dist/src/cli/main.js');
await main(process.argv.slice(2));
