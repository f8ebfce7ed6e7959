// uWebSockets.js in tests. It has binaries up to Node.js 22: on later versions the tests that name it are left out, and
// `test/system/uws.slow.test.ts` runs them on the lowest supported Node.js.

/** Whether uWebSockets.js has a binary for this Node.js. Loading it would fix the limits that it reads from the environment. */
export const HAS_UWS: boolean = Number.parseInt(process.versions.node, 10) < 24;

/** Options of a test that needs uWebSockets.js. */
export const WITH_UWS: { readonly skip: string | false } = { skip: HAS_UWS ? false : 'it has no binary' };

/** These servers, without uWebSockets.js where it has no binary. */
export function loadable<Name extends string>(servers: readonly Name[]): readonly Name[] {
  return HAS_UWS ? servers : servers.filter((name) => name !== 'uws');
}
