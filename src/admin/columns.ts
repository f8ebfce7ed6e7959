// Which fields of a statement are columns of a table or of CSV, and in which order. Called by the command line and, for
// usage, by the admin listener.

import type { Column } from './table-format.ts';
import type { AccountView, AuditView, GrantView, KeyView, MovementView, UsageView } from './views.ts';

type Cell = string | number | boolean | null;

/** Fields of a row by name; a name that begins with `#` is a number, one that ends with `+` is for CSV only. */
function fields<Row extends object>(names: string): Column<Row>[] {
  return names.split(' ').map((spec) => {
    const head = spec.replace(/^#|\+$/g, '');
    const cell = (row: Row): Cell => (row as Readonly<Record<string, Cell | undefined>>)[head] ?? null;
    return { head, cell, isNumber: spec.startsWith('#'), csvOnly: spec.endsWith('+') };
  });
}

export const ACCOUNT_COLUMNS: readonly Column<AccountView>[] = fields(
  'id label #balance_usd #balance_credits #held_usd created_at+',
);

export const KEY_COLUMNS: readonly Column<KeyView>[] = fields(
  'id prefix account label state #rpm #tpm #monthly_usd created_at+ expires_at disabled_at+',
);

export const GRANT_COLUMNS: readonly Column<GrantView>[] = fields(
  'id account #amount_usd #amount_credits repeated #balance_usd #balance_credits',
);

export const AUDIT_COLUMNS: readonly Column<AuditView>[] = fields('sound #sum_usd #movements #accounts #open_holds');

const ALL_USED: readonly Column<NonNullable<MovementView['usage']>>[] = fields(
  'key+ model requests+ input_tokens+ cached_tokens+ output_tokens+ measured+',
);

export const MOVEMENT_COLUMNS: readonly Column<MovementView>[] = [
  ...fields<MovementView>('#seq date kind id account+ #amount_usd #amount_credits memo'),
  ...ALL_USED.map(({ cell, ...column }) => ({
    ...column,
    cell: ({ usage }: MovementView) => (usage === null ? null : cell(usage)),
  })),
];

const USAGE_SUMS = '#requests #estimated #input_tokens #cached_tokens #output_tokens #amount_usd #amount_credits';

/** @param by names of the dimensions, separated by commas, as the question had them */
export function usageColumns(by = 'account,key,model,day'): readonly Column<UsageView>[] {
  return fields([...by.split(',').filter((name) => name !== ''), USAGE_SUMS].join(' '));
}
