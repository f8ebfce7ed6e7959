// The test door: what we test with, for people who test services built on Headrace. Re-exports only.
export * from './actor/testkit.ts';
export { createHost, type Host, type HostSettings } from './host/index.ts';
