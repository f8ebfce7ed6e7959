// Public API of the model host: `createHost`, its settings, engines and faults. Re-exports only.
export { attachEngine } from './attached/attached-engine.ts';
export { describeEngine } from './attached/detect.ts';
export type { Fault, FaultMatch, FaultPlan, FaultRule } from './faults.ts';
export type { Planned } from './fleet.ts';
export { FleetError, planFleet, startFleet } from './fleet.ts';
export { parseFault, parsePlan } from './faults.ts';
export type { ProfileName } from './engine/profile.ts';
export { PROFILE_NAMES } from './engine/simulated-engine.ts';
export type { SimulatedSettings } from './engine/simulated-engine.ts';
export { createSimulatedEngine } from './engine/simulated-engine.ts';
export { describeGguf, loadGguf } from './gguf/gguf-engine.ts';
export type { Host, HostSettings, KeyGuard } from './model-host.ts';
export { createHost } from './model-host.ts';
export type { HostRequest } from './journal.ts';
export type { ModelEngine } from './model-engine.ts';
export { Registration } from './registration.ts';
export { snapshotFile } from './host-trust.ts';
export { HostTrust, type TrustDeps } from './host-trust.ts';
