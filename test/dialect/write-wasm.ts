// `npm run wasm`: compiles src/dialect/prompt-stream.wat into the TypeScript file that carries it.

import { writeFileSync } from 'node:fs';
import { compiledStream, WASM_FILE } from './compiled-stream.ts';

writeFileSync(WASM_FILE, compiledStream());
