// Compiles src/dialect/prompt-stream.wat with wabt, the WebAssembly Binary Toolkit, into the TypeScript file that carries it.

import { execFileSync } from 'node:child_process';
import { ROOT } from '../docs/markdown.ts';

const SOURCE = `${ROOT}src/dialect/prompt-stream.wat`;
const COMPILER = `${ROOT}node_modules/wabt/bin/wat2wasm`;
export const WASM_FILE: string = `${ROOT}src/dialect/prompt-stream-wasm.ts`;
const LINE_CHARS = 112;

/** The text of the file. */
export function compiledStream(): string {
  const binary = execFileSync(process.execPath, [COMPILER, SOURCE, '--output=-']);
  const lines = binary.toString('base64').match(new RegExp(`.{1,${LINE_CHARS}}`, 'g')) ?? [];
  return [
    '// prompt-stream.wat as a WebAssembly module in base64, written by `npm run wasm`.',
    '',
    'export const PROMPT_STREAM_WASM: string = [',
    ...lines.map((line) => `  '${line}',`),
    "].join('');",
    '',
  ].join('\n');
}
