// The benchmarks are plain JavaScript beside the repository's sources and are not built: tests load them from there.

/** A module of `bench/`; `Module` is what the test expects of it. */
export async function benchModule<Module>(path: string): Promise<Module> {
  // From dist/test/bench, where tests run.
  const url = new URL(`../../../bench/${path}`, import.meta.url);
  return (await import(url.href)) as Module;
}
