// What endpoints are given: the services of one data plane, and the present snapshot of what the control plane knows.
// A reload replaces the whole object; a request that has begun keeps the one it was given.

import type { Clock, Ref } from '../actor/index.ts';
import type {
  AccountReaderCommand,
  KeyLimiter,
  KeyTable,
  LeaseCache,
  ModelPrice,
  Payments,
  SliceClient,
  Spending,
} from '../billing/index.ts';
import type { CatalogModel } from '../catalog/index.ts';
import type { Settings } from '../config/settings.ts';
import type { TokenSizes } from '../dialect/index.ts';
import type { PageClient } from '../fetch/index.ts';
import type { DetachedOptions } from '../ingress/detached-exchange.ts';
import type { Exchange, ExchangeSettlement } from '../ingress/exchange.ts';
import type { Cancellations } from '../mcp/index.ts';
import type {
  Admission,
  BlockIndex,
  Board,
  CacheFeedback,
  Model,
  ModelTable,
  PickerDeps,
  PickerSettings,
  Reporter,
  ResponseHolders,
  RetryBudget,
} from '../routing/index.ts';
import type { StoredResponses, UnreadResponses } from '../responses/index.ts';
import type { SearchService } from '../search/index.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Recent } from '../telemetry/recent.ts';
import type { FailoverDeps, RequestHeaderRules, TokenCounter } from '../upstream/index.ts';

/** The link to sibling gateways as `/health` shows it. */
export interface ClusterStatus {
  /** False when this gateway is alone by its settings. */
  readonly enabled: boolean;
  readonly connected: boolean;
  /** That are alive, this one included. */
  readonly gateways: number;
}

/** Answers one exchange. May throw a `HeadraceError` before it has answered. */
export type Endpoint = (exchange: Exchange, deps: ApiDeps) => void;

/** The gateway's state as `/health` shows it. */
export type Stage = 'starting' | 'ready' | 'draining';

/** What endpoints need to charge accounts. */
export interface Billing {
  readonly leases: LeaseCache;
  readonly limits: KeyLimiter;
  /** Waits for slices of limits that gateways share. */
  readonly slices: SliceClient;
  /** Prices by configured model id; a model that is not in here is free. */
  readonly modelPrices: ReadonlyMap<string, ModelPrice>;
  /** Pico-USD for a successful call, by engine id; default 0. */
  readonly enginePrices: ReadonlyMap<string, number>;
  /** Pico-USD for a page. */
  readonly pagePrice: number;
  /** Tokens of an answer without a limit. */
  readonly assumedTokens: number;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
}

/** Money held for one request. The exchange closes it when it is over; until then what was delivered is added. */
export interface Settlement extends ExchangeSettlement {
  readonly kind: 'account' | 'payment';
  /** What the request costs by what was delivered, in pico-USD; final when the answer is complete. */
  readonly dueCost: number;
  /** Adds what was delivered and what it costs. */
  add(spending: Spending): void;
  /** Ends the hold: charges what was delivered, releases it where nothing was. Further calls do nothing. */
  close(): void;
}

export interface ApiDeps {
  readonly settings: Settings;
  readonly stage: Stage;
  readonly table: ModelTable;
  readonly keys: KeyTable;
  readonly catalog: readonly CatalogModel[];
  /** What is known of the tokens of models, for answers that nobody counts. */
  readonly tokenSizes: TokenSizes;
  /** By configured model id; free models have none. */
  readonly modelPrices: ReadonlyMap<string, ModelPrice>;
  /** In tokens, by configured model id, where it is known. */
  readonly contextLengths: ReadonlyMap<string, number>;
  /** Unix time in seconds of the process start, shown as `created` of models without their own. */
  readonly createdS: number;
  readonly board: Board;
  /** Why the last probe of a CRN failed, in plain words, by base URL. */
  readonly probeReasons: ReadonlyMap<string, string>;
  /** Changes in place. */
  readonly cluster: ClusterStatus;
  readonly reporter: Reporter;
  readonly picker: PickerDeps;
  readonly pickerSettings: PickerSettings;
  /** Lets requests wait while all CRNs of their model have long backlogs; null: nothing is held. */
  readonly admission: Admission | null;
  readonly failover: FailoverDeps;
  readonly headerRules: RequestHeaderRules;
  readonly tokenCounter: TokenCounter;
  readonly responseHolders: ResponseHolders;
  /** Null where the setting `responses.store` is off. */
  readonly responses: StoredResponses | null;
  /** Counts what clients have asked for of stored responses and not read yet. */
  readonly unread: UnreadResponses;
  readonly blockIndex: BlockIndex;
  readonly feedback: CacheFeedback;
  /** Null without a ledger: nothing is limited or charged. */
  readonly billing: Billing | null;
  /** Reads accounts for their customers; null without a ledger. */
  readonly accountReader: Ref<AccountReaderCommand> | null;
  /** Takes x402 payments; null where payments are off. */
  readonly paymentProcessor: Payments | null;
  readonly search: SearchService;
  readonly pages: PageClient;
  readonly metrics: Metrics;
  readonly recent: Recent;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  readonly random: () => number;
  /** Calls of tools that their clients may cancel by another request. */
  readonly cancellations: Cancellations;
  /** For requests that a request makes: `startDetached`. */
  readonly detached: DetachedOptions;
  /** The retry budget of a model. */
  readonly budget: (model: Model) => RetryBudget;
}
