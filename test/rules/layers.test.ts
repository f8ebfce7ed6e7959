// Structure of the source tree: which modules may import which (by running the linter on probe files), which dependencies have a
// single importing file, and a coding rule of the request path that the linter cannot express.

import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { temporaryFolder } from '../support/temporary-folder.ts';

type Tap = Pick<typeof t, 'teardown'>;

const root = new URL('../../../', import.meta.url);

function sources(folder: string): string[] {
  return readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => `${folder}${file}`);
}

function importersOf(pattern: RegExp): string[] {
  return [...sources('src/'), ...sources('workers/')].filter((file) =>
    pattern.test(readFileSync(new URL(file, root), 'utf8')),
  );
}

t.test('native, heavy and environment access are confined to named files', async (t) => {
  t.same(importersOf(/from 'uWebSockets\.js'|import\('uWebSockets\.js'\)/), ['src/ingress/uws.ts']);
  t.same(importersOf(/from 'undici'/), ['src/fetch/guarded-client.ts']);
  t.same(importersOf(/from '@redis\/client'|import\('@redis\/client'\)/), ['src/cluster/connection.ts']);
  t.same(importersOf(/from 'piscina'/), ['src/fetch/cleaning-pool.ts']);
  t.same(importersOf(/\bprocess\.env\b(?!`)/), ['src/config/env.ts']);
});

/** Runs the linter on a file at `file` that imports `specifier`; returns its output. */
function lint(t: Tap, file: string, specifier: string): string {
  const folder = temporaryFolder(t);
  cpSync(new URL('.oxlint/', root), `${folder}/.oxlint/`, { recursive: true });
  copyFileSync(new URL('.oxlintrc.json', root), `${folder}/.oxlintrc.json`);
  for (const index of ['routing', 'dialect']) {
    mkdirSync(`${folder}/src/${index}`, { recursive: true });
    writeFileSync(`${folder}/src/${index}/index.ts`, '');
  }
  mkdirSync(`${folder}/${dirname(file)}`, { recursive: true });
  writeFileSync(`${folder}/${file}`, `import { a } from '${specifier}';\nexport const b = a;\n`);
  const oxlint = fileURLToPath(new URL('node_modules/.bin/oxlint', root));
  // A clean environment: the test runner's loader does not work in the linter.
  const command = ['-i', `PATH=${process.env['PATH']}`, oxlint, 'src'];
  const { stdout, stderr } = spawnSync('env', command, { cwd: folder, encoding: 'utf8' });
  return `${stdout}${stderr}`;
}

const FORBIDDEN: readonly (readonly [file: string, specifier: string, complaint: string])[] = [
  ['src/actor/probe.ts', '../routing/index.ts', 'actor may not import routing'],
  ['src/routing/probe.ts', '../dialect/index.ts', 'routing may not import dialect'],
  ['src/upstream/probe.ts', '../routing/board.ts', 'routing is entered through its index.ts'],
  ['src/upstream/probe.ts', '../ingress/uws.ts', 'upstream may not import ingress'],
  ['src/ingress/probe.ts', '../api/routes.ts', 'ingress may not import api'],
  ['src/ingress/probe.ts', 'uWebSockets.js', 'only src/ingress/uws.ts may import uWebSockets.js'],
  ['src/api/probe.ts', '../gateway/gateway.ts', 'api may not import gateway'],
  ['src/web-search/probe.ts', '../search/index.ts', 'web-search may not import search'],
  ['src/routing/probe.ts', '../cluster/index.ts', 'routing may not import cluster'],
  ['src/cluster/probe.ts', '@redis/client', 'only src/cluster/connection.ts may import @redis/client'],
  ['src/admin/probe.ts', '../gateway/gateway.ts', 'admin may not import gateway'],
  ['src/gateway/probe.ts', '../cli/serve.ts', 'gateway may not import cli'],
];

for (const [file, specifier, complaint] of FORBIDDEN) {
  t.test(`lint refuses ${specifier} in ${file}`, async (t) => {
    t.match(lint(t, file, specifier), complaint);
  });
}

t.test('lint allows imports of lower layers through their index', async (t) => {
  t.notMatch(lint(t, 'src/upstream/probe.ts', '../routing/index.ts'), 'module-order');
  t.notMatch(lint(t, 'src/upstream/probe.ts', '../net/client.ts'), 'module-order');
});

// V8 allocates a function literal that is assigned to a property in the old generation, where it keeps everything it refers to
// until the next full collection. Code that runs for every request gives the function a name first and assigns that.
t.test('request-path modules assign no function literal to a property', async (t) => {
  const literal = /[\w\])]\s*(\?\?)?= *(async )?(\([^()]*\)(: [^=]+)? =>|\w+ =>|function\b)/;
  const assigned = /^\s*[\w.#?!()[\]]+(\.#?\w+|\]) (\?\?)?= /;
  const modules = [
    'api',
    'dialect',
    'fetch',
    'gateway',
    'ingress',
    'net',
    'routing',
    'search',
    'telemetry',
    'upstream',
    'admin',
    'billing',
  ];
  const found = modules
    .flatMap((module) => sources(`src/${module}/`))
    .filter((file) => !file.endsWith('-script.ts'))
    .flatMap((file) => {
      const lines = readFileSync(new URL(file, root), 'utf8').split('\n');
      return lines.filter((line) => assigned.test(line) && literal.test(line)).map((line) => `${file}: ${line.trim()}`);
    });
  t.same(found, []);
  t.ok(assigned.test('    this.#a.onAbort = () => 1;') && literal.test('    this.#a.onAbort = () => 1;'));
});
