// What endpoints are given: the rooms of one data plane and the present snapshot of what the control plane knows.
// A reload replaces the snapshot; a request that has begun keeps the parts it has taken.

import type { Clock } from '../actor/index.ts';
import type { KeyTable, Payments } from '../billing/index.ts';
import type { CatalogModel } from '../catalog/index.ts';
import type { Settings } from '../config/settings.ts';
import type { PageClient } from '../fetch/index.ts';
import type {
  Affinity,
  Board,
  Failure,
  Member,
  PickerSettings,
  Reporter,
  ModelTable,
  Verdict,
} from '../routing/index.ts';
import type { SearchService } from '../search/index.ts';
import type { Billing } from './bill.ts';
import type { FailoverDeps, RetryBudget } from '../upstream/index.ts';

/** Where the gateway is in its life. */
export type Stage = 'starting' | 'ready' | 'draining';

/** Counters of the data plane; see `telemetry/metrics.ts`. */
export interface Counters {
  attempt(member: Member, verdict: Verdict, failure: Failure | null): void;
  pick(affinity: Affinity): void;
  firstByte(model: string, elapsedMs: number): void;
  /** A second or later try; `cause`: what the one before came to, on the CRN `from`. */
  failover(model: string, cause: string, from: string): void;
  /** The first piece of a stream has been handed to the client, so long after the head of its request. */
  streamBegun(endpoint: string, model: string, elapsedMs: number): void;
  /** Where times between pieces of a stream are noted, in seconds. */
  gaps(model: string): { observe(seconds: number): void };
}

export interface ApiDeps {
  readonly settings: Settings;
  readonly stage: Stage;
  readonly table: ModelTable;
  readonly keys: KeyTable;
  readonly catalog: readonly CatalogModel[];
  /** In tokens, by configured model id, where it is known. */
  readonly contextLengths: ReadonlyMap<string, number>;
  /** Unix time in seconds of the process start, shown as `created` of models without their own. */
  readonly createdS: number;
  readonly board: Board;
  readonly reporter: Reporter;
  readonly picker: PickerSettings;
  readonly failover: FailoverDeps;
  /** Null without a ledger: then nothing is counted or charged. */
  readonly billing: Billing | null;
  /** Who sells credits and requests without a key; null where payments are off. */
  readonly paymentProcessor: Payments | null;
  readonly search: SearchService;
  readonly pages: PageClient;
  readonly counters: Counters;
  readonly clock: Clock;
  readonly random: () => number;
  /** The retry budget of a model, by its configured id. */
  readonly budget: (model: string) => RetryBudget;
}
