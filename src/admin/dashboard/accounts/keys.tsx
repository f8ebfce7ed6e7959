// Tables of keys: their state, limits, what is left of the month, and their actions.

import type { VNode } from 'preact';
import type { KeyView, UsageView } from '../../views.ts';
import { Standing } from '../components/standing.tsx';
import type { Column } from '../components/table.tsx';
import { countText } from '../format.ts';
import { disableKey, editKey, rotateKey, setBudget } from './actions.ts';
import { orDash, picoOf, usdOf, whenText } from './ledger.ts';
import { AccountLink, actionColumn, LimitShare } from './parts.tsx';

/** Spending of this month by the first key of a chain: a rotated key and its successors share a limit. */
export function spendingByKey(keys: readonly KeyView[], usage: readonly UsageView[]): ReadonlyMap<string, bigint> {
  const lineages = new Map(keys.map(({ id, lineage }) => [id, lineage]));
  const sums = new Map<string, bigint>();
  for (const { amount_usd: usd, key = '' } of usage) {
    const lineage = lineages.get(key) ?? key;
    sums.set(lineage, (sums.get(lineage) ?? 0n) + picoOf(usd));
  }
  return sums;
}

function limitsText({ rpm, running, tpm }: KeyView): string {
  const limits: readonly (readonly [limit: number | null, unit: string])[] = [
    [running, 'at once'],
    [rpm, 'requests/min'],
    [tpm, 'tokens/min'],
  ];
  const set = limits.filter(([limit]) => limit !== null);
  return set.length === 0 ? 'none' : set.map(([limit, unit]) => `${countText(limit)} ${unit}`).join(', ');
}

function Month({ limit, spent }: { readonly spent: bigint; readonly limit: string | null }): VNode {
  if (limit === null) return <>{usdOf(spent)}, no limit</>;
  return <LimitShare spentUsd={usdOf(spent)} limitUsd={limit} />;
}

const isActive = ({ state }: KeyView): boolean => state === 'active';

/** `lastUsed`: the last day by key, where it is shown; `owners`: with the accounts. */
export function keyColumns(
  spending: ReadonlyMap<string, bigint>,
  { lastUsed, owners = false }: { readonly owners?: boolean; readonly lastUsed?: ReadonlyMap<string, string> } = {},
): readonly Column<KeyView>[] {
  const owner: Column<KeyView> = {
    name: 'Account',
    class: 'name',
    cell: ({ account }) => <AccountLink id={account} />,
    sort: ({ account }) => account,
  };
  const used: Column<KeyView> = {
    name: 'Last used',
    title: 'Day in UTC, among the last 30',
    cell: ({ id }) => lastUsed?.get(id) ?? 'not in 30 days',
    sort: ({ id }) => lastUsed?.get(id) ?? null,
  };
  return [
    { name: 'Key', class: 'name', cell: ({ id }) => id, sort: ({ id }) => id },
    ...(owners ? [owner] : []),
    { name: 'Begins with', cell: ({ prefix }) => <code>{prefix}</code>, sort: ({ prefix }) => prefix },
    { name: 'Label', cell: ({ label }) => orDash(label), sort: ({ label }) => label },
    { name: 'State', cell: ({ state }) => <Standing word={state} />, sort: ({ state }) => state },
    { name: 'Limits', cell: limitsText },
    {
      name: 'USD this month',
      cell: ({ lineage, monthly_usd: limit }) => <Month spent={spending.get(lineage) ?? 0n} limit={limit} />,
      sort: ({ lineage }) => Number(spending.get(lineage) ?? 0n),
    },
    ...(lastUsed === undefined ? [] : [used]),
    { name: 'Expires', cell: (key) => whenText(key.expires_at), sort: (key) => key.expires_at },
    actionColumn(
      ({ id }) => id,
      [
        { name: 'Edit', role: 'operator', action: editKey, applies: ({ state }) => state !== 'disabled' },
        { name: 'Budget', role: 'operator', action: ({ account, id }) => setBudget(account, id) },
        { name: 'Rotate', role: 'operator', action: rotateKey, applies: isActive },
        { name: 'Disable', role: 'operator', action: disableKey, applies: isActive },
      ],
    ),
  ];
}
