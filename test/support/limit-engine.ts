// The script of shared limits in plain TypeScript: what each gateway may have counted of keys and budgets. The real one is compared
// with it, and everything that asks for slices is tested against it.

import type { SliceClaim, SliceGrant } from '../../src/billing/index.ts';
import { SLICE_LEASE_MS } from '../../src/billing/main-thread.ts';

const WINDOW_MS = 62_000;
const GRACE_MS = 15_000;
const LEDGER_MS = 900_000;
const UNLIMITED: number = 2 ** 53;

interface Part {
  readonly leavesMs: number;
  readonly requests: number;
  readonly tokens: number;
}

/** What the engine keeps of one gateway for one key or budget. */
interface Field {
  readonly sequence: number;
  readonly leaseEndsMs: number;
  /** Running requests, requests, tokens; or money. */
  readonly quota: readonly number[];
  /** Of running requests; or money. */
  readonly used: number;
  readonly ledger: number;
  readonly parts: readonly Part[];
}

/** What one gateway has of a limit, for its siblings. */
interface Share {
  readonly counted: readonly number[];
  readonly spare: readonly number[];
  readonly parts: readonly Part[];
}

export class LimitEngine {
  /** By name of the key, then by gateway. */
  readonly #fields = new Map<string, Map<string, Field>>();
  /** Gateways whose connections the engine has seen end. */
  readonly gone = new Set<string>();

  /** Everything is lost. */
  clear(): void {
    this.#fields.clear();
  }

  exchange(holder: string, claims: readonly SliceClaim[], nowMs: number): (SliceGrant | null)[] {
    return claims.map((claim) => this.#answer(holder, claim, nowMs));
  }

  #answer(holder: string, claim: SliceClaim, nowMs: number): SliceGrant | null {
    const { id, isQuiet, kind, parts, resources, sequence } = claim;
    const fields = this.#fields.get(id) ?? new Map<string, Field>();
    this.#fields.set(id, fields);
    const own = fields.get(holder);
    if (own !== undefined && own.sequence >= sequence) return null;
    for (const [name, field] of fields)
      if (name !== holder && !counts(field, kind, nowMs, this.gone.has(name))) fields.delete(name);
    const named = [...fields].filter(([name]) => name !== holder);
    const siblings = named.map(([, field]) => field);
    const shares = named.map(([name, field]) =>
      kind === 'key' ? keyShare(field, nowMs, this.gone.has(name)) : budgetShare(field, nowMs),
    );
    const others = resources.map((_, at) => sum(shares.map(({ counted }) => counted[at] ?? 0)));
    const spare = resources.map((_, at) => sum(shares.map((share) => share.spare[at] ?? 0)));
    const known = siblings.filter(({ leaseEndsMs }) => nowMs < leaseEndsMs + GRACE_MS).map(({ ledger }) => ledger);
    const ledger = Math.max(claim.ledger, ...known);
    const isLeased = own !== undefined && nowMs < own.leaseEndsMs;
    const quota = resources.map(({ keep, limit, need, used, want }, at) => {
      if (limit < 0) return UNLIMITED;
      const base = isLeased ? Math.max(keep, used) : used;
      const free = Math.max(limit - base - (others[at] as number) - (kind === 'budget' ? ledger : 0), 0);
      const given = Math.min(free, need);
      return base + given + Math.min(want, Math.floor((free - given) / 4));
    });
    const ownParts = parts.map((part) => ({ ...part, leavesMs: nowMs + part.leavesMs }));
    const isGone = isQuiet && kind === 'key' && parts.length === 0;
    if (isGone) fields.delete(holder);
    else {
      fields.set(holder, {
        sequence,
        leaseEndsMs: isQuiet ? nowMs : nowMs + SLICE_LEASE_MS,
        quota: quota.map((amount, at) => ((resources[at]?.limit ?? 0) < 0 ? (resources[at]?.used ?? 0) : amount)),
        used: resources[0]?.used ?? 0,
        ledger: claim.ledger,
        parts: ownParts,
      });
    }
    if (kind === 'budget' && claim.ledger >= (fields.get('ledger')?.ledger ?? 0)) {
      const leaseEndsMs = nowMs + LEDGER_MS - GRACE_MS;
      fields.set('ledger', { sequence: 0, leaseEndsMs, quota: [0], used: 0, ledger: claim.ledger, parts: [] });
    }
    const missing = resources.map(({ first, limit, used }, at) =>
      limit < 0 ? 0 : used + first + (others[at] as number) - limit,
    );
    const all = kind === 'key' ? [...shares.flatMap((share) => share.parts), ...ownParts] : [];
    return { quota, others, spare, ...waits(all, missing[1] ?? 0, missing[2] ?? 0, nowMs) };
  }
}

/** Whether anything of a field still counts. */
function counts(field: Field, kind: SliceClaim['kind'], nowMs: number, isGone: boolean): boolean {
  if (kind === 'budget') return nowMs < field.leaseEndsMs + GRACE_MS;
  return (
    nowMs < field.leaseEndsMs ||
    field.parts.some(({ leavesMs }) => leavesMs > nowMs) ||
    keyShare(field, nowMs, isGone).parts.length > 0
  );
}

/** While its lease holds, the quota counts; afterwards what is in the window, and the slice as if it had been used last, unless the gateway is gone. */
function keyShare({ leaseEndsMs, parts, quota, used }: Field, nowMs: number, isGone: boolean): Share {
  const [running = 0, requests = 0, tokens = 0] = quota;
  const slack = [
    Math.max(requests - sum(parts.map((part) => part.requests)), 0),
    Math.max(tokens - sum(parts.map((part) => part.tokens)), 0),
  ] as const;
  const counted = parts.filter(({ leavesMs }) => leavesMs > nowMs);
  if (nowMs < leaseEndsMs) {
    return { counted: quota, spare: [Math.max(running - used, 0), ...slack], parts: counted };
  }
  const last = { leavesMs: leaseEndsMs + WINDOW_MS, requests: slack[0], tokens: slack[1] };
  const isKept = !isGone && last.leavesMs > nowMs && slack.some((amount) => amount > 0);
  const window = isKept ? [...counted, last] : counted;
  return {
    counted: [0, sum(window.map((part) => part.requests)), sum(window.map((part) => part.tokens))],
    spare: [0, 0, 0],
    parts: window,
  };
}

function budgetShare({ leaseEndsMs, quota: [amount = 0], used }: Field, nowMs: number): Share {
  if (nowMs >= leaseEndsMs + GRACE_MS) return { counted: [0], spare: [0], parts: [] };
  return { counted: [amount], spare: [nowMs < leaseEndsMs ? Math.max(amount - used, 0) : 0], parts: [] };
}

function waits(
  parts: readonly Part[],
  requests: number,
  tokens: number,
  nowMs: number,
): { retryMs: number; resetMs: number } {
  let missingRequests = requests;
  let missingTokens = tokens;
  let retryMs = 0;
  let resetMs = 0;
  if (missingRequests <= 0 && missingTokens <= 0) return { retryMs, resetMs };
  for (const part of parts.toSorted((a, b) => a.leavesMs - b.leavesMs)) {
    if (part.requests === 0 && part.tokens === 0) continue;
    if (missingRequests > 0 || missingTokens > 0) retryMs = part.leavesMs - nowMs;
    missingRequests -= part.requests;
    missingTokens -= part.tokens;
    resetMs = part.leavesMs - nowMs;
  }
  return { retryMs, resetMs };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
