// The test door: what we test with, for people who test services built on Headrace. Re-exports only.
export * from './actor/testkit.ts';
export {
  createHost,
  type Fault,
  type FaultPlan,
  type Host,
  type HostRequest,
  type HostSettings,
  parseFault,
  parsePlan,
} from './host/index.ts';
