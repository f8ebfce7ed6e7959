// WebAssembly modules that a file carries in base64. `npm run wasm` compiles the files `*.wat` beside it.

/** The part of the WebAssembly API that is used here; it is in no library of types for Node.js. */
interface WebAssemblyApi {
  readonly Module: new (code: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
}

const { Instance, Module } = (globalThis as unknown as { WebAssembly: WebAssemblyApi }).WebAssembly;

/** WebAssembly is little-endian on every processor; views of its memory are not. */
export const IS_LITTLE_ENDIAN: boolean = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1;

/** The exports of a new instance of the module, which imports nothing. */
export function instantiate<Exports>(base64: string): Exports {
  return new Instance(new Module(Buffer.from(base64, 'base64'))).exports as Exports;
}
