// Compiles the WebAssembly text files of src/dialect with wabt, the WebAssembly Binary Toolkit, into the TypeScript files that carry them.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../docs/markdown.ts';

const COMPILER = `${ROOT}node_modules/wabt/bin/wat2wasm`;
const LINE_CHARS = 112;

/** Names of the modules, each in `NAME.wat`. */
export const MODULES = ['event-marks', 'json-scan', 'prompt-stream'] as const;
export type ModuleName = (typeof MODULES)[number];

/** The file that carries a module. */
export function moduleFile(name: ModuleName): string {
  return `${ROOT}src/dialect/${name}-wasm.ts`;
}

/** The text of that file. */
export function compiledModule(name: ModuleName): string {
  // Not by its standard output, which it writes as text.
  const folder = mkdtempSync(join(tmpdir(), 'headrace-wasm-'));
  const file = join(folder, `${name}.wasm`);
  execFileSync(process.execPath, [COMPILER, `${ROOT}src/dialect/${name}.wat`, `--output=${file}`]);
  const binary = readFileSync(file);
  rmSync(folder, { recursive: true });
  const lines = binary.toString('base64').match(new RegExp(`.{1,${LINE_CHARS}}`, 'g')) ?? [];
  return [
    `// ${name}.wat as a WebAssembly module in base64, written by \`npm run wasm\`.`,
    '',
    `export const ${name.toUpperCase().replace('-', '_')}_WASM: string = [`,
    ...lines.map((line) => `  '${line}',`),
    "].join('');",
    '',
  ].join('\n');
}
