// Adobe's predefined CMaps, which map the codes of East Asian fonts to characters. Decompressed when the first font asks for one.

import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { parseJson } from '../../config/json-text.ts';

// Beside the source, also for the compiled file: it is not copied.
const FILE = new URL('../../../../src/extract/cmaps/cmaps.br', import.meta.url);

const NEWLINE = 10;

let files: ReadonlyMap<string, Uint8Array> | null = null;

function unpack(): ReadonlyMap<string, Uint8Array> {
  const bytes = brotliDecompressSync(readFileSync(FILE));
  let at = bytes.indexOf(NEWLINE) + 1;
  const index = parseJson(bytes.toString('utf8', 0, at)) as readonly (readonly [string, number])[];
  return new Map(
    index.map(([name, length]) => {
      at += length;
      return [name, bytes.subarray(at - length, at)];
    }),
  );
}

/** Gives the PDF library its data files. It has no fonts: text does not need their shapes. */
export class CmapFactory {
  // eslint-disable-next-line typescript/require-await -- the library expects a promise.
  async fetch({ filename }: { readonly filename: string }): Promise<Uint8Array> {
    files ??= unpack();
    const file = files.get(filename);
    if (file === undefined) throw new Error(`${filename} is not among the data files`);
    // A copy: the library transfers what it gets.
    return file.slice();
  }
}
