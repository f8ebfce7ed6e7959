// The door of the model host: `createHost`, its settings, its engines, and faults as data. Re-exports only.
export { attachEngine, describeEngine } from './attached/index.ts';
export type { Fault, FaultMatch, FaultPlan, FaultRule } from './faults.ts';
export type { Planned } from './fleet.ts';
export { FleetError, planFleet, startFleet } from './fleet.ts';
export { parseFault, parsePlan } from './faults.ts';
export type { ProfileName } from './engine/profile.ts';
export { PROFILE_NAMES } from './engine/simulated.ts';
export type { SimulatedSettings } from './engine/simulated.ts';
export { createSimulatedEngine } from './engine/simulated.ts';
export { describeGguf, loadGguf } from './gguf/index.ts';
export type { Host, HostSettings, KeyGuard } from './host.ts';
export { createHost } from './host.ts';
export type { HostRequest } from './journal.ts';
export type { Engine } from './llama/engine.ts';
export { Registration } from './registration.ts';
export { snapshotFile } from './snapshot-file.ts';
export { HostTrust, type TrustDeps } from './trust.ts';
