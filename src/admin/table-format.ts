// Rows of statements as text: CSV by RFC 4180, and tables that are aligned for people. A sheet says which fields are shown
// under which heads. Called by the command line and by the admin listener.

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => string | number | boolean | null;
  /** Aligned at the point in a table. */
  readonly isNumber: boolean;
  /** Left out of tables, where room is short. */
  readonly csvOnly: boolean;
}

/** CSV with a line of heads. Lines end with CR LF; null is an empty field. */
export function printCsv<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const line = (cells: readonly string[]): string => `${cells.map(quoted).join(',')}\r\n`;
  return [
    line(columns.map(({ head }) => head)),
    ...rows.map((row) => line(columns.map(({ cell }) => String(cell(row) ?? '')))),
  ].join('');
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
      const width = Math.max(...[head, ...levelled].map(widthOf));
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
  const longest = Math.max(0, ...tails);
  return cells.map((cell, at) => cell + ' '.repeat(longest - (tails[at] ?? 0)));
}

function visible(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
}

function widthOf(text: string): number {
  return Array.from(text).length;
}
