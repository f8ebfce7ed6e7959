import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

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

t.test('what is dangerous or heavy has one importing file', async (t) => {
  t.same(importersOf(/from 'uWebSockets\.js'|import\('uWebSockets\.js'\)/), ['src/ingress/uws.ts']);
  t.same(importersOf(/from 'undici'/), ['src/net/client.ts', 'src/net/page-client.ts']);
  t.same(importersOf(/from 'piscina'/), ['src/fetch/pool.ts']);
  t.same(importersOf(/\bprocess\.env\b(?!`)/), ['src/config/env.ts']);
});

/** Lints one line of code as if it stood in `file`; the text of the complaint, empty when there is none. */
function lint(t: Tap, file: string, code: string): string {
  const house = mkdtempSync(join(tmpdir(), 'headrace-lint-'));
  t.teardown(() => rmSync(house, { recursive: true }));
  copyFileSync(new URL('.oxlintrc.json', root), `${house}/.oxlintrc.json`);
  mkdirSync(`${house}/${dirname(file)}`, { recursive: true });
  writeFileSync(`${house}/${file}`, code);
  const oxlint = fileURLToPath(new URL('node_modules/.bin/oxlint', root));
  // A clean environment: the test runner's loader does not work in the linter.
  const command = ['-i', `PATH=${process.env['PATH']}`, oxlint, 'src'];
  const { stdout, stderr } = spawnSync('env', command, { cwd: house, encoding: 'utf8' });
  return `${stdout}${stderr}`;
}

const FORBIDDEN: readonly (readonly [string, string, string])[] = [
  ['src/actor/probe.ts', '../routing/index.ts', 'the ground imports a room'],
  ['src/routing/probe.ts', '../dialect/index.ts', 'a room imports another'],
  ['src/upstream/probe.ts', '../routing/board.ts', 'a room is not entered through its index'],
  ['src/upstream/probe.ts', '../ingress/uws.ts', 'a room imports a carrier'],
  ['src/ingress/probe.ts', '../api/routes.ts', 'a carrier imports an endpoint'],
  ['src/ingress/probe.ts', 'uWebSockets.js', 'a second file imports uWebSockets.js'],
  ['src/api/probe.ts', '../gateway/admin.ts', 'an endpoint imports the composition'],
  ['src/gateway/probe.ts', '../cli/serve.ts', 'the composition imports the command line'],
];

for (const [file, specifier, what] of FORBIDDEN) {
  t.test(`lint refuses it when ${what}`, async (t) => {
    t.match(lint(t, file, `import { a } from '${specifier}';\nexport const b = a;\n`), 'no-restricted-imports');
  });
}

t.test('lint lets a room use the ground and upstream use routing', async (t) => {
  t.notMatch(
    lint(t, 'src/upstream/probe.ts', "import '../routing/index.ts';\nimport '../net/client.ts';\n"),
    'restricted',
  );
});

t.test('no source names the workplace it was written in', async (t) => {
  const foreign = /\/work\/|\.\.\/shared|bash_jobs/;
  t.same(importersOf(foreign), []);
});

// V8 puts a function literal that is assigned to a property straight into the old generation, and from there it keeps all it
// refers to until the next full collection. In code that runs for every request it is given a name first.
t.test('no function literal is assigned to a property where requests pass', async (t) => {
  const literal = /[\w\])]\s*(\?\?)?= *(async )?(\([^()]*\)(: [^=]+)? =>|\w+ =>|function\b)/;
  const assigned = /^\s*[\w.#?!()[\]]+(\.#?\w+|\]) (\?\?)?= /;
  const rooms = ['api', 'dialect', 'fetch', 'gateway', 'ingress', 'net', 'routing', 'search', 'telemetry', 'upstream'];
  const found = rooms
    .flatMap((room) => sources(`src/${room}/`))
    .filter((file) => !file.endsWith('-script.ts'))
    .flatMap((file) => {
      const lines = readFileSync(new URL(file, root), 'utf8').split('\n');
      return lines.filter((line) => assigned.test(line) && literal.test(line)).map((line) => `${file}: ${line.trim()}`);
    });
  t.same(found, []);
  t.ok(assigned.test('    this.#a.onAbort = () => 1;') && literal.test('    this.#a.onAbort = () => 1;'));
});
