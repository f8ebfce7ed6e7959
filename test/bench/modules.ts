// Loads modules of `bench/` for tests. The benchmarks are plain JavaScript and are not built.

/** A module of `bench/`; `Module` is what the test expects of it. */
export async function benchModule<Module>(path: string): Promise<Module> {
  // From dist/test/bench, where tests run.
  const url = new URL(`../../../bench/${path}`, import.meta.url);
  return (await import(url.href)) as Module;
}
