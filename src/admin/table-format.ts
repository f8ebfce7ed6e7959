// Views as text: CSV by RFC 4180 and aligned tables, and which fields of a view are columns, in which order.

import type {
  AccountView,
  ActView,
  AuditView,
  BudgetView,
  DeliveryView,
  GrantView,
  KeyView,
  MovementView,
  OpenGrantView,
  PaymentView,
  RequestView,
  ResponsesView,
  UsageView,
} from './views.ts';

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => string | number | boolean | null;
  /** Aligned at the point in a table. */
  readonly isNumber: boolean;
  /** Left out of tables, where space is short. */
  readonly csvOnly: boolean;
}

/**
 * CSV with a line of heads, but for further pages. Lines end with CR LF; null is an empty field. Texts that a spreadsheet would take for
 * a formula begin with an apostrophe.
 */
export function printCsv<Row>(columns: readonly Column<Row>[], rows: readonly Row[], heads?: 'no heads'): string {
  const line = (cells: readonly string[]): string => `${cells.map(quoted).join(',')}\r\n`;
  const field = ({ cell, isNumber }: Column<Row>, row: Row): string => {
    const text = String(cell(row) ?? '');
    return isNumber && PLAIN_NUMBER.test(text) ? text : text.replace(FORMULA, "'$&");
  };
  return [
    heads === undefined ? line(columns.map(({ head }) => head)) : '',
    ...rows.map((row) => line(columns.map((column) => field(column, row)))),
  ].join('');
}

const PLAIN_NUMBER = /^-?\d+(?:\.\d+)?$/;

/** First characters of a cell that spreadsheets run as a formula (OWASP, CSV Injection), full-width forms included. */
const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;

/** One JSON value on each line. */
export function printJsonLines(rows: readonly object[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join('');
}

function quoted(field: string): string {
  return /[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}

/** A table with heads; null is a dash. What could move a cursor is shown as a question mark. */
export function printTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const laid = columns
    .filter(({ csvOnly }) => !csvOnly)
    .map(({ head, cell, isNumber }) => {
      const cells = rows.map((row) => visible(String(cell(row) ?? '-')));
      const levelled = isNumber ? levelPoints(cells) : cells;
      const width = largest([head, ...levelled].map(widthOf));
      return [head, ...levelled].map((text) => {
        const space = ' '.repeat(width - widthOf(text));
        return isNumber ? space + text : text + space;
      });
    });
  return Array.from({ length: rows.length + 1 }, (_, at) => laid.map((lines) => lines[at]).join('  '))
    .map((line) => `${line.trimEnd()}\n`)
    .join('');
}

/** Blanks after the digits, so that points stand under each other once the texts are aligned to the right. */
function levelPoints(cells: readonly string[]): string[] {
  const tails = cells.map((cell) => (cell.includes('.') ? cell.length - cell.indexOf('.') : 0));
  const longest = largest(tails);
  return cells.map((cell, at) => cell + ' '.repeat(longest - (tails[at] ?? 0)));
}

/** Without the characters that a terminal would obey. */
export function visible(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
}

/** Of any number of values; `Math.max` takes some 100,000. */
function largest(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), 0);
}

function widthOf(text: string): number {
  return Array.from(text).length;
}

type Cell = string | number | boolean | null;

/** A column that is no number and stands in tables, too. */
export function textColumn<Row>(head: string, cell: Column<Row>['cell']): Column<Row> {
  return { head, cell, isNumber: false, csvOnly: false };
}

/** Fields of a row by name; a name that begins with `#` is a number, one that ends with `+` is for CSV only. */
function fields<Row extends object>(names: string): Column<Row>[] {
  return names.split(' ').map((spec) => {
    const head = spec.replace(/^#|\+$/g, '');
    const cell = (row: Row): Cell => (row as Readonly<Record<string, Cell | undefined>>)[head] ?? null;
    return { head, cell, isNumber: spec.startsWith('#'), csvOnly: spec.endsWith('+') };
  });
}

export const ACCOUNT_COLUMNS: readonly Column<AccountView>[] = fields(
  'id label #balance_usd #balance_credits #held_usd #credit_limit_usd+ #expiring_usd+ organisation+ #low_balance_usd+ created_at+',
);

/** For people who look at what an account may do, more than at what it has. */
export const ACCOUNT_TERMS_COLUMNS: readonly Column<AccountView>[] = fields(
  'id label #balance_usd #held_usd #credit_limit_usd #expiring_usd #low_balance_usd organisation created_at+',
);

export const RESPONSES_COLUMNS: readonly Column<ResponsesView>[] = fields('account #responses #bytes #running');

export const OPEN_GRANT_COLUMNS: readonly Column<OpenGrantView>[] = fields(
  'id account #amount_usd #remaining_usd expires_at',
);

export const REQUEST_COLUMNS: readonly Column<RequestView>[] = fields(
  'id+ date request_id account key+ endpoint model #status code #input_tokens #cached_tokens #output_tokens measured+ #cost_usd #duration_ms #first_byte_ms+',
);

export const PAYMENT_COLUMNS: readonly Column<PaymentView>[] = fields(
  'id+ state kind account payer+ network+ asset+ nonce #amount_usd #amount_credits+ transaction+ credited+ reason sent_at valid_until changed_at+',
);

export const DELIVERY_COLUMNS: readonly Column<DeliveryView>[] = fields(
  'date type account endpoint state #attempts result due_at message',
);

/** What was asked for and the states of the subject are JSON texts. */
export const ACT_COLUMNS: readonly Column<ActView>[] = [
  ...fields<ActView>('#seq date actor role via+ action subject outcome'),
  ...(['request', 'before', 'after'] as const).map((name) => ({
    ...textColumn(name, (act: ActView) => (act[name] === null ? null : JSON.stringify(act[name]))),
    csvOnly: name !== 'request',
  })),
];

export const KEY_COLUMNS: readonly Column<KeyView>[] = fields(
  'id prefix account label state #running #rpm #tpm #monthly_usd created_at+ expires_at disabled_at+ lineage+',
);

export const BUDGET_COLUMNS: readonly Column<BudgetView>[] = fields(
  'id account key model period #limit_usd #alert_usd #spent_usd starts_at+ ends_at',
);

export const GRANT_COLUMNS: readonly Column<GrantView>[] = fields(
  'id account #amount_usd #amount_credits repeated #balance_usd #balance_credits',
);

export const AUDIT_COLUMNS: readonly Column<AuditView>[] = [
  ...fields<AuditView>('sound #sum_usd #movements #accounts #open_holds'),
  textColumn('problems', ({ problems }) => problems.join('; ')),
];

const ALL_USED: readonly Column<NonNullable<MovementView['usage']>>[] = fields(
  'key+ model requests+ input_tokens+ cached_tokens+ output_tokens+ measured+',
);

export const MOVEMENT_COLUMNS: readonly Column<MovementView>[] = [
  ...fields<MovementView>('seq date kind id account+ #amount_usd #amount_credits memo'),
  ...ALL_USED.map(({ cell, ...column }) => ({
    ...column,
    cell: ({ usage }: MovementView) => (usage === null ? null : cell(usage)),
  })),
];

const USAGE_SUMS = '#requests #estimated #input_tokens #cached_tokens #output_tokens #amount_usd #amount_credits';

/** The dimensions that were asked for, and the sums. */
export function usageColumns(dimensions: readonly string[]): readonly Column<UsageView>[] {
  return fields([...dimensions, USAGE_SUMS].join(' '));
}
