// The door of the routing room.
export { AFFINITY_COOKIE, AFFINITY_MAX_AGE_S, readAffinity, writeAffinity } from './affinity.ts';
export { Board, type BoardMemory, createBoardMemory, type Standing, STANDING } from './board.ts';
export { type Failure, failsOver, namesContextLength, type Outcome, type Verdict, verdictOf } from './classify.ts';
export type { CrnEvent, CrnOrder, HealthSettings, Obeyed } from './crn.ts';
export {
  type CrnRegistryCommand,
  crnRegistry,
  type CrnRegistrySettings,
  type CrnRegistryDeps,
  type ModelSpec,
} from './crn-registry.ts';
export { type Affinity, Candidates, type PickerSettings, type Wishes } from './picker.ts';
export { Reporter } from './reporter.ts';
export { hashText, type Member, type Model, ModelTable, type ModelTableData } from './model-table.ts';
export { type ServersByModel } from './model-table.ts';
