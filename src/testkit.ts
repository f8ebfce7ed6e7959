// Public API of `headrace/testkit`, for tests of services built on Headrace: test actor systems with a manual clock, and model
// hosts with faults. Re-exports only.
import './node-version.ts';
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
