#!/usr/bin/env node
// Looks at the Node version before anything that an older Node could not even parse is loaded.
const major = Number(process.versions.node.split('.')[0]);
if (major < 22) {
  process.stderr.write(`headrace needs Node.js 22 or newer; this is ${process.versions.node}.\n`);
  process.exit(1);
}
const { main } = await import('../dist/src/cli.js');
await main(process.argv.slice(2));
