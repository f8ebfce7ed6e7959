// Imports of the benchmarks from the built tree: each names a file and exports that exist. The benchmarks are not compiled, so
// nothing else notices when a module is moved or renamed.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { benchModule } from './modules.ts';

interface Suite {
  readonly CASES: readonly string[];
  readonly measureSuite: (builds: object, files: readonly string[], how: object) => Promise<unknown>;
}

/** From dist/test/bench, where tests run. */
const BENCH = new URL('../../../bench/', import.meta.url);
const DIST = new URL('../../../dist/', import.meta.url);

const files = readdirSync(BENCH, { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.mjs') && !file.includes('node_modules'),
);

/** Names and path below `dist/` of every import of a file, static or by `load` of a micro benchmark. */
function importsOf(file: string): { names: string[]; path: string }[] {
  const text = readFileSync(new URL(file, BENCH), 'utf8');
  const found = [
    ...text.matchAll(/import \{([^}]*)\} from '(?:\.\.\/)+dist\/([^']+)'/g),
    ...text.matchAll(/const \{([^}]*)\} = await load\('([^']+)'/g),
    ...text.matchAll(/const \{([^}]*)\} = await import\('(?:\.\.\/)+dist\/([^']+)'\)/g),
  ];
  return found.map(([, names = '', path = '']) => ({ names: names.split(',').map((name) => name.trim()), path }));
}

t.test('the benchmarks import files and names that exist', async (t) => {
  const imports = files.flatMap((file) => importsOf(file).map((it) => ({ file, ...it })));
  t.ok(imports.length > 20);
  for (const { file, names, path } of imports) {
    const url = new URL(path, DIST);
    if (!existsSync(url)) {
      t.fail(`${file}: there is no ${path}`);
      continue;
    }
    const exported = Object.keys((await import(url.href)) as object);
    // A name with a default is one of two spellings: that of this tree, and one of older builds.
    const optional = new Set(names.flatMap((name) => name.split('=').slice(1)).map((name) => name.trim()));
    const required = names.map((name) => (name.split('=')[0] ?? '').trim()).filter((name) => !optional.has(name));
    for (const name of required) t.ok(name === '' || exported.includes(name), `${file}: ${path} exports ${name}`);
  }
});

t.test('all case files of the micro benchmark run by default, and no others', async (t) => {
  const { CASES, measureSuite } = await benchModule<Suite>('micro/suite.mjs');
  const there = readdirSync(new URL('micro/cases', BENCH)).map((file) => file.replace(/\.mjs$/, ''));
  t.strictSame(CASES.toSorted(), there.toSorted());
  await t.rejects(measureSuite({}, ['nope'], { rounds: 1 }), {
    message: /^there are no cases "nope"; there are keys, /,
  });
});
