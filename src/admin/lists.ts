// The lists of the admin interface: how their rows are printed, and the cursor behind a row, by which the next page is asked for.

import type { UsageDimension } from '../billing/index.ts';
import { type Fields, MOST_ROWS, paymentCursor, USAGE_DIMENSIONS, usageCursor } from './admin-requests.ts';
import {
  ACCOUNT_COLUMNS,
  ACT_COLUMNS,
  BUDGET_COLUMNS,
  type Column,
  DELIVERY_COLUMNS,
  KEY_COLUMNS,
  MOVEMENT_COLUMNS,
  OPEN_GRANT_COLUMNS,
  PAYMENT_COLUMNS,
  REQUEST_COLUMNS,
  usageColumns,
} from './table-format.ts';
import type { UsageView } from './views.ts';

export interface List<Row> {
  /** Rows of a page whose `limit` is not given. */
  readonly limit: number;
  /** `fields`: of the query. */
  readonly columns: (fields: Fields) => readonly Column<Row>[];
  /** What `cursor` takes to go on behind this row; null: the list has one page. */
  readonly cursor: (row: Row, fields: Fields) => string | null;
}

/** The default of the ledger. */
const MOVEMENTS = 50;

/** Those of a valid query. */
function dimensionsOf({ by }: Fields): readonly UsageDimension[] {
  if (typeof by !== 'string') return USAGE_DIMENSIONS;
  return by.split(',').filter((name): name is UsageDimension => name !== '');
}

function fixed<Row>(
  columns: readonly Column<Row>[],
  cursor: (row: Row) => string | null,
  limit: number = MOST_ROWS,
): List<Row> {
  return { columns: () => columns, cursor, limit };
}

export const LISTS = {
  accounts: fixed(ACCOUNT_COLUMNS, ({ id }) => id),
  keys: fixed(KEY_COLUMNS, ({ id }) => id),
  budgets: fixed(BUDGET_COLUMNS, ({ id }) => id),
  openGrants: fixed(OPEN_GRANT_COLUMNS, () => null),
  history: fixed(MOVEMENT_COLUMNS, ({ seq }) => seq, MOVEMENTS),
  requests: fixed(REQUEST_COLUMNS, ({ id }) => id),
  acts: fixed(ACT_COLUMNS, ({ seq }) => seq),
  payments: fixed(PAYMENT_COLUMNS, ({ changed_at, id }) => paymentCursor(changed_at, id)),
  deliveries: fixed(DELIVERY_COLUMNS, ({ endpoint, message }) => `${message} ${endpoint}`),
  usage: {
    limit: MOST_ROWS,
    columns: (fields: Fields) => usageColumns(dimensionsOf(fields)),
    // A row of totals is the only one.
    cursor: (row: UsageView, fields: Fields) =>
      fields['by'] === '' ? null : usageCursor(dimensionsOf(fields).map((name) => row[name] ?? '')),
  } satisfies List<UsageView>,
};

/** The cursor of the page behind these rows; null when they are the last ones. */
export function nextCursor<Row>(list: List<Row>, rows: readonly Row[], fields: Fields): string | null {
  const last = rows.at(-1);
  const limit = Number(fields['limit'] ?? list.limit);
  return last === undefined || rows.length < limit ? null : list.cursor(last, fields);
}
