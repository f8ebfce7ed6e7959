// Compares the ledger of a cluster with what its hosts have counted and what its clients have received, after all gateways have ended.

import { CUSTOMERS, type Cluster, GRANT, type GatewayService, type HostCounts } from './cluster.ts';
import type { ClusterLoad } from './cluster-load.ts';

/** A gateway that was killed: what it had not yet written is lost. */
export interface Killed {
  readonly gateway: GatewayService;
  /** `performance.now()` of the kill. */
  readonly atMs: number;
}

/**
 * Charges may be written this long after an answer has ended, in milliseconds: `credit.flush` (250 ms) and a commit, on a machine that
 * runs all parts at once.
 */
const UNWRITTEN_MS = 4000;

export interface Comparison {
  /** One sentence for each thing that does not add up. */
  readonly problems: readonly string[];
  readonly requests: number;
  readonly tokens: number;
  /** Complete answers that were not charged, all of them of gateways that were killed. */
  readonly uncharged: number;
  /** What an account spent beyond its limit, in pico-USD. */
  readonly overspent: bigint;
}

export interface Circumstances {
  /** What hosts had counted before the load. */
  readonly before: HostCounts;
  readonly killed: readonly Killed[];
  /** False when a host was killed: what it had counted is lost, and the counts in the answers alone are compared. */
  readonly hostsCounted: boolean;
  /** Leases of killed gateways have not lapsed yet. */
  readonly leavesLeases: boolean;
}

export async function compareLedger(
  cluster: Cluster,
  load: ClusterLoad,
  { before, killed, hostsCounted, leavesLeases }: Circumstances,
): Promise<Comparison> {
  const problems: string[] = [];
  const sums = { requests: 0, input: 0, output: 0, uncharged: 0 };
  let overspent = 0n;
  for (const { account, limits } of CUSTOMERS) {
    const [row] = await cluster.ledger.usage({ account, by: [] });
    const state = await cluster.ledger.account(account);
    const work = load.work.get(account)!;
    const charged = {
      requests: Number(row?.requests ?? 0n),
      input: Number(row?.inputTokens ?? 0n),
      output: Number(row?.outputTokens ?? 0n),
      amount: row?.amount ?? 0n,
    };
    sums.requests += charged.requests;
    sums.input += charged.input;
    sums.output += charged.output;
    const said = `${charged.requests} requests, ${charged.input}+${charged.output} tokens`;
    const seen = `${work.requests} requests, ${work.promptTokens}+${work.completionTokens} tokens`;
    const isEqual =
      charged.requests === work.requests &&
      charged.input === work.promptTokens &&
      charged.output === work.completionTokens &&
      charged.amount === work.amount;
    const lost = load.lost.get(account) ?? 0;
    const unwritten = killed.reduce(
      (count, { gateway, atMs }) => count + (load.endedBetween(gateway, atMs - UNWRITTEN_MS, atMs).get(account) ?? 0),
      0,
    );
    sums.uncharged += Math.max(0, work.requests - charged.requests);
    if (lost + unwritten === 0 && !isEqual) problems.push(`${account}: charged ${said}; received ${seen}`);
    else if (charged.requests > work.requests + lost || charged.requests < work.requests - unwritten)
      problems.push(
        `${account}: charged ${said}; received ${seen}, ${lost} lost in flight, at most ${unwritten} not yet written`,
      );
    // What a client has received of a stream that broke off is estimated.
    if (Number(row?.estimated ?? 0n) > lost)
      problems.push(`${account}: ${row!.estimated} estimated, ${lost} broke off`);
    if (state?.held !== 0n && !leavesLeases) problems.push(`${account}: ${state?.held} pico-USD are still held`);
    if ((state?.balance ?? 0n) + (state?.held ?? 0n) + charged.amount !== GRANT)
      problems.push(
        `${account}: balance ${state?.balance}, ${state?.held} held and charges ${charged.amount} are not the grant ${GRANT}`,
      );
    if (limits.monthlySpend !== undefined && charged.amount > BigInt(limits.monthlySpend))
      overspent = charged.amount - BigInt(limits.monthlySpend);
  }
  if (hostsCounted) {
    const after = await cluster.truth();
    const [input, output] = [after.promptTokens - before.promptTokens, after.generatedTokens - before.generatedTokens];
    const isExact = killed.length === 0;
    if (isExact ? input !== sums.input || output !== sums.output : output < sums.output)
      problems.push(`hosts counted ${input}+${output} tokens, the ledger has ${sums.input}+${sums.output}`);
  }
  const audit = await cluster.ledger.audit();
  if (!audit.sound) problems.push(`audit: ${audit.problems.join('; ')}`);
  const { requests, input, output, uncharged } = sums;
  return { problems, requests, tokens: input + output, uncharged, overspent };
}
