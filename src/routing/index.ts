// Public names of the routing module. Re-exports only.
export { type AccountPlaceLimits, AccountPlaces } from './account-places.ts';
export {
  Admission,
  type AdmissionSettings,
  type ExpectedWait,
  type HeldRequest,
  type Hold,
  type HoldOutcome,
} from './admission.ts';
export { AFFINITY_COOKIE, AFFINITY_MAX_AGE_S, readAffinity, writeAffinity } from './affinity-cookie.ts';
export { blockBytes, BlockIndex, type BlockIndexUse, MAX_ANCHORS } from './block-index.ts';
export { BodyTurns, bodyTurns, TURN_BYTES } from './body-turns.ts';
export { Board, type BoardMemory, createBoardMemory, RANK, type Standing, STANDING, STANDING_WORDS } from './board.ts';
export { CacheFeedback } from './cache-feedback.ts';
export { CommonPrefixes } from './common-prefixes.ts';
export { attemptReason, errorReason, statusReason } from './failure-reason.ts';
export { type FairEntry, FairQueue, RememberedTime } from './fair-queue.ts';
export type { CrnEvent, CrnOverride, HealthSettings, OverrideResult, ProbeResult } from './crn.ts';
export type { CrnRegistryCommand, CrnRegistrySettings, CrnRegistryDeps, ModelSpec } from './crn-registry.ts';
export type { KvEventStatus } from './kv-events.ts';
export {
  type FoundModel,
  type FoundModels,
  fnv1a,
  hashText,
  hostnamesOf,
  isModelName,
  type KvEventSource,
  type Member,
  mix,
  type Model,
  ModelTable,
  type ModelTableData,
  readAliases,
  readServerDetails,
  type SaidOfServer,
  type ServerDetails,
} from './model-table.ts';
export {
  type Candidate,
  type Choice,
  classifyBody,
  classifyStatus,
  type Failure,
  failureOf,
  type Handling,
  mayBePath,
  type Outcome,
  pathUnknown,
  Reporter,
  type Verdict,
  verdictOf,
} from './outcome.ts';
export {
  type Affinity,
  type AffinityHint,
  Candidates,
  type ExplainedCrn,
  type Explanation,
  type FormName,
  type PickerDeps,
  type PickerSettings,
  type PromptHashes,
} from './picker.ts';
export { createPlaceMemory, PLACE_CELLS, PlaceCounts, PlaceTotals } from './place-counts.ts';
export { PlacementRing, type PlacementSink } from './placement-ring.ts';
export { ResponseHolders } from './response-holders.ts';
export { RetryBudget, type RetryBudgetSettings } from './retry-budget.ts';
export { type Place, type Turn, type TurnLimits, TurnQueue } from './turn-queue.ts';
