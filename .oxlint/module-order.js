// Lint rule `headrace/module-order`: a module imports only from modules below it, enters them through their `index.ts` (or
// `main-thread.ts`, which has what ingress threads do not load), and leaves packages that are heavy or dangerous to the one file
// that owns them. The tables below are the whole rule set.

import { existsSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Top to bottom. Modules of one layer do not import each other. */
const LAYERS = [
  ['cli', 'index.ts', 'testkit.ts'],
  ['gateway'],
  ['admin', 'host', 'picker', 'search-worker'],
  ['api'],
  ['responses', 'mcp', 'compat'],
  ['ingress'],
  ['cluster'],
  ['upstream', 'search', 'web-search', 'fetch', 'billing', 'catalog', 'load', 'discovery'],
  ['dialect', 'routing', 'extract'],
  ['telemetry'],
  ['net'],
  ['actor', 'config', 'errors.ts'],
  ['node-version.ts'],
];

/** Packages with one owner each. */
const OWNERS = {
  '@redis/client': ['src/cluster/connection.ts'],
  '@modelcontextprotocol/server': ['src/mcp/server.ts'],
  'uWebSockets.js': ['src/ingress/uws.ts'],
  undici: ['src/net/client.ts', 'src/fetch/guarded-client.ts'],
  piscina: ['src/fetch/cleaning-pool.ts'],
  '@grpc/grpc-js': ['src/picker/picker-server.ts', 'src/picker/protocol.ts'],
  '@grpc/proto-loader': ['src/picker/picker-server.ts'],
};

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const LEVELS = new Map(LAYERS.flatMap((modules, level) => modules.map((name) => [name, level])));

/** What is wrong with an import of `specifier` in `file` (relative to the root); undefined when nothing is. */
function complaint(file, specifier) {
  const owners = OWNERS[specifier];
  if (owners !== undefined && !owners.includes(file)) return `only ${owners.join(' and ')} may import ${specifier}`;
  if (!specifier.startsWith('.')) return undefined;
  const target = relative(ROOT, resolve(ROOT, dirname(file), specifier))
    .split(sep)
    .join('/');
  const from = moduleOf(file);
  const to = moduleOf(target);
  if (from === undefined || to === undefined || from === to) return undefined;
  if (LEVELS.get(to) <= LEVELS.get(from))
    return `${from} may not import ${to}: it is not below it (.oxlint/module-order.js)`;
  const index = `src/${to}/index.ts`;
  // `headrace/testkit` publishes test aids that no module index exports.
  if (from === 'testkit.ts') return undefined;
  if (target === `src/${to}/main-thread.ts`) return undefined;
  if (target !== index && existsSync(join(ROOT, index))) return `${to} is entered through its index.ts`;
  return undefined;
}

/** `routing` of `src/routing/board.ts`, `errors.ts` of `src/errors.ts`. Thread entries belong to what they start. */
function moduleOf(file) {
  if (file === 'workers/ingress.ts') return 'gateway';
  return /^src\/([^/]+)/.exec(file)?.[1];
}

const rule = {
  create(context) {
    const file = relative(ROOT, context.physicalFilename ?? context.filename)
      .split(sep)
      .join('/');
    const check = (node) => {
      const specifier = node.source?.value;
      const message = typeof specifier === 'string' ? complaint(file, specifier) : undefined;
      if (message !== undefined) context.report({ node, message });
    };
    return {
      ImportDeclaration: check,
      ImportExpression: check,
      ExportNamedDeclaration: check,
      ExportAllDeclaration: check,
    };
  },
};

export default { meta: { name: 'headrace' }, rules: { 'module-order': rule } };
