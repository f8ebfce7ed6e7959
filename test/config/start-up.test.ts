import { readFileSync } from 'node:fs';
import t from 'tap';

const root = new URL('../../../', import.meta.url);

/** The modules and packages that are loaded with a built module, without those that it imports later. */
function loadedWith(module: URL, loaded = new Set<string>()): Set<string> {
  if (loaded.has(module.href)) return loaded;
  loaded.add(module.href);
  for (const [, specifier = ''] of readFileSync(module, 'utf8').matchAll(/^(?:import|export) .*'([^']+)';$/gm)) {
    if (specifier.startsWith('.')) loadedWith(new URL(specifier, module), loaded);
    else loaded.add(specifier);
  }
  return loaded;
}

t.test('the command line loads the settings only for commands that need them', async (t) => {
  const loaded = loadedWith(new URL('dist/src/cli/main.js', root));
  t.ok(loaded.has(new URL('dist/src/config/env.js', root).href), 'the walk finds modules');
  t.notOk(loaded.has('zod/mini'));
  t.ok(loadedWith(new URL('dist/src/config/load.js', root)).has('zod/mini'), 'the walk finds packages');
});
