// `npm run wasm`: compiles the WebAssembly text files of src/dialect into the TypeScript files that carry them.

import { writeFileSync } from 'node:fs';
import { compiledModule, moduleFile, MODULES } from './compiled-modules.ts';

for (const name of MODULES) writeFileSync(moduleFile(name), compiledModule(name));
