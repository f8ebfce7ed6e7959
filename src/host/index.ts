// The door of the simulated model host: `createHost`, its settings, and faults as data. Re-exports only.
export type { Fault, FaultMatch, FaultPlan, FaultRule } from './faults.ts';
export { parseFault, parsePlan } from './faults.ts';
export type { Host, HostSettings } from './host.ts';
export { createHost } from './host.ts';
export type { HostRequest } from './journal.ts';
