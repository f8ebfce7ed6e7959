/**
 * Gateways of one name, through Redis or Valkey. Above `routing`, `billing`, `search` and `fetch`, which know nothing of it: what they
 * want to tell or to be told they declare as small interfaces, and files here or in `gateway/` connect these with the link.
 *
 * - `ClusterLink` (link.ts) is what everything here builds on. There is always one, also alone: `enabled` is false then, `publish`
 *   returns false, commands reject at once and `siblings()` is this gateway only. So handlers are registered once, at start, and stay
 *   over reloads that turn `cluster` on and off.
 * - Messages: `link.publish('placements', body)` to all, `link.publish('snapshot', body, instance)` to one; at most 1 MiB each.
 *   `link.on('placements', (body, from) => …)` with the sender as a `Sibling`; `from.index` (1 to 63) is its row in local tables, to be
 *   cleared at the event `left`. The handler throws when a body is malformed: that is counted and goes no further. A new topic is a word
 *   in `TOPICS` with a code in envelope.ts; a body that older versions would misread is a new topic, not a new form.
 * - Commands: `link.command(['GET', link.key('page', hash)], 20)`, `link.script(defineScript(lua), keys, args, 50)`. Both reject with
 *   `ClusterError`, whose `reason` says why; the caller goes on alone. Bulk strings arrive as `Buffer`.
 * - Events: `link.onChange((event) => …)`: `enabled`, `connected` (with `awayMs`: ask for a snapshot when it was long), `lost`,
 *   `joined`, `left`, `disabled`.
 * - Every key begins with `link.key()`, has a TTL, and has a row in the table of docs/cluster.md.
 * - Tests: test/support/cluster-link.ts has links of one process with lag, loss and cuts on a manual clock, and
 *   test/support/redis.ts a real engine.
 */

export { ClusterLog } from './cluster-log.ts';
export { EngineStandings, engineTrials } from './engine-standings.ts';
export { PlaceShares } from './place-shares.ts';
export { sharedCache } from './shared-cache.ts';
export { ClusterService, type ClusterObserver, type ClusterServiceDeps, defineScript } from './cluster-service.ts';
export { type ActResult, OperatorActs } from './operator-acts.ts';
export type { SelfReport } from './roll-call.ts';
export { shareLimits } from './limit-slices.ts';
export { shareCancellations } from './cancellations.ts';
export { type RevocableKeys, shareRevocations } from './revoked-keys.ts';
export {
  ClusterError,
  type ClusterEvent,
  type ClusterLink,
  type CommandArgument,
  MAX_BODY_BYTES,
  MAX_GATEWAYS,
  type MessageHandler,
  type Script,
  type Sibling,
  type Topic,
} from './link.ts';
export { PlacementExchange, type PlacementExchangeDeps } from './placement-exchange.ts';
export { BatchDecoder, BatchEncoder, type BatchSink, memberId } from './placement-batch.ts';
export { Placements, type PlacementsDeps } from './placements.ts';
export { applySnapshot, SnapshotReader } from './placement-snapshot.ts';
