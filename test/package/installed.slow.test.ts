// The packed package in an empty folder: its declarations are checked without `skipLibCheck`, a program that embeds it runs on
// the lowest supported Node.js, unsupported versions get one sentence, and what is installed stays small.

import { execFile } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { install, LOWEST_NODE, nodeBinaries, ROOT } from './installed.ts';

const run = promisify(execFile);

/** What npm counts: bytes of files. */
const INSTALLED_BYTES = 50e6;

const TYPESCRIPT_7 = join(ROOT, 'node_modules/typescript/bin/tsc');

const REFUSED = ['20.20.0', '22.12.0'];

/** Each compiler and each way to resolve modules once: both compilers resolve alike. */
const CONSUMERS = [
  ['TypeScript 5.9', 'node_modules/typescript/bin/tsc', 'bundler', 'preserve'],
  ['TypeScript 7', TYPESCRIPT_7, 'nodenext', 'nodenext'],
] as const;

const { folder, remove } = await install(['typescript@5.9.3']);
t.teardown(remove);
const nodes = await nodeBinaries([LOWEST_NODE, ...REFUSED], folder);
const env = { PATH: process.env['PATH'] };
cpSync(join(ROOT, 'test/package/fixtures/embed.ts.txt'), join(folder, 'embed.ts'));

for (const [compiler, file, moduleResolution, module] of CONSUMERS) {
  t.test(`${compiler} checks a consumer with moduleResolution ${moduleResolution}`, async (t) => {
    const options = {
      module,
      moduleResolution,
      target: 'es2023',
      strict: true,
      skipLibCheck: false,
      types: ['node'],
    };
    const config = `tsconfig.${moduleResolution}.json`;
    writeFileSync(join(folder, config), JSON.stringify({ compilerOptions: options, files: ['embed.ts'] }));
    const done = run(process.execPath, [file, '-p', config], { cwd: folder, env });
    t.equal(
      await done.then(
        () => '',
        ({ stdout }: { stdout: string }) => stdout,
      ),
      '',
    );
  });
}

t.test('strictness of the consumer changes nothing', async (t) => {
  const strict = {
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noPropertyAccessFromIndexSignature: true,
  };
  const options = {
    module: 'nodenext',
    target: 'es2023',
    strict: true,
    noEmit: true,
    types: ['node'],
    declaration: true,
    ...strict,
  };
  writeFileSync(
    join(folder, 'tsconfig.strict.json'),
    JSON.stringify({ compilerOptions: options, files: ['embed.ts'] }),
  );
  const done = run(process.execPath, [TYPESCRIPT_7, '-p', 'tsconfig.strict.json'], { cwd: folder, env });
  t.equal(
    await done.then(
      () => '',
      ({ stdout }: { stdout: string }) => stdout,
    ),
    '',
  );
});

t.test('the program runs on this and on the lowest supported Node.js', async (t) => {
  for (const node of [process.execPath, nodes.get(LOWEST_NODE) ?? '']) {
    const { stderr, stdout } = await run(node, ['embed.js'], { cwd: folder, env });
    t.strictSame(JSON.parse(stdout), { status: 200, health: 200, mistakes: 1, kept: 4, title: 'T' });
    t.equal(stderr, '');
    const required = await run(node, ['-p', "typeof require('headrace').createGateway"], { cwd: folder, env });
    t.match(required, { stdout: 'function\n', stderr: '' });
    const command = await run(node, ['node_modules/headrace/bin/headrace.js', '--version'], { cwd: folder, env });
    t.match(command.stdout, /^headrace \d/);
  }
});

for (const version of REFUSED) {
  t.test(`Node.js ${version} is refused with one sentence by every entry and by the command`, async (t) => {
    const node = nodes.get(version) ?? '';
    const sentence = `headrace needs Node.js 22.19 or newer, except 23; this is ${version}.`;
    for (const entry of ['headrace', 'headrace/actor', 'headrace/clean', 'headrace/testkit']) {
      const code = `import('${entry}').catch((error) => console.log(error.message))`;
      t.equal((await run(node, ['-e', code], { cwd: folder, env })).stdout, `${sentence}\n`, entry);
    }
    const command = run(node, ['node_modules/headrace/bin/headrace.js', 'demo'], { cwd: folder, env });
    await t.rejects(command, { code: 1, stdout: '', stderr: `${sentence}\n` });
  });
}

t.test('the installation is below 50 MB and holds no source maps of ours', async (t) => {
  const files = readdirSync(join(folder, 'node_modules'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !file.includes('/node_modules/typescript/'));
  const bytes = files.reduce((sum, file) => sum + statSync(file).size, 0);
  t.comment(`${files.length} files, ${(bytes / 1e6).toFixed(1)} MB`);
  t.ok(bytes < INSTALLED_BYTES, `${bytes} bytes`);
  t.notOk(files.some((file) => file.includes('/uWebSockets.js/')));
  const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { engines: { node: string } };
  t.equal(engines.node, '^22.19.0 || >=24.0.0', 'as src/node-version.ts checks');
});
