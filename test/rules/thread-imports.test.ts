// What an ingress thread loads when it starts. Each thread loads its modules anew, so what only the main thread needs costs every
// thread start-up time and memory.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

/** From dist/test/rules, where tests run. */
const BUILT = fileURLToPath(new URL('../../', import.meta.url));

const STATIC_IMPORT = /^(?:import|export)\s(?:[^'";]*?\sfrom\s)?\s*'([^']+)'/gm;

/** The built files that `entry` imports, directly or not, but by `import()`, and the packages that these import. */
function loadedBy(entry: string): Set<string> {
  const loaded = new Set([entry]);
  for (const file of loaded) {
    if (!/^(?:src|workers)\//.test(file)) continue;
    for (const [, specifier = ''] of readFileSync(join(BUILT, file), 'utf8').matchAll(STATIC_IMPORT)) {
      loaded.add(specifier.startsWith('.') ? join(dirname(file), specifier) : specifier);
    }
  }
  return loaded;
}

t.test(
  'an ingress thread loads neither the ledger, nor payments, downloads and health of CRNs, nor their packages',
  async (t) => {
    const loaded = loadedBy('workers/ingress.js');
    t.ok(loaded.has('src/gateway/data-plane.js'));
    t.ok(loaded.has('msgpackr'));
    const packages = ['undici', 'piscina', 'pg', '@redis/client', '@noble/curves/secp256k1.js', 'unpdf', 'yaml'];
    const files = [
      'src/billing/main-thread.js',
      'src/billing/ledger/open-ledger.js',
      'src/billing/payments/payment-processor.js',
      'src/fetch/main-thread.js',
      'src/fetch/pages.js',
      'src/responses/main-thread.js',
      'src/routing/main-thread.js',
      'src/routing/crn-registry.js',
    ];
    t.same(
      [...packages, ...files].filter((each) => loaded.has(each)),
      [],
    );
    const ofMainThread = loadedBy('src/gateway/gateway.js');
    t.same(
      files.filter((each) => !ofMainThread.has(each)),
      [],
      'files that were moved must be named anew',
    );
  },
);
