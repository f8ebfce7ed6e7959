// Tables of data as a grid. Tables that only lay out a page are told apart.

import type { Block, Inline, Source, Table, TableCell } from './content.ts';
import { lineOf } from './links.ts';
import { HEADING, TAG, traits } from './tags.ts';

/** In wider rows, the last cell holds the others; spans are cut to the grid. */
const MAX_COLUMNS = 50;
const MAX_ROWSPAN = 1000;

/** A longer cell without a header in its table lays out the page. */
const MAX_CELL_CHARACTERS = 1000;
const MAX_CAPTION_CHARACTERS = 500;

/** A cell that others may still be added to. */
interface OpenCell extends TableCell {
  readonly children: Block[];
}

/** Null unless the table has rows and columns of short content. `contentOf` reads a cell. */
export function tableOf(
  source: Source,
  table: number,
  contentOf: (source: Source, cell: number) => Block[],
): Table | null {
  if (!isDataTable(source, table)) return null;
  const { tree, dropped } = source;
  const rows: OpenCell[][] = [];
  let caption: readonly Inline[] = [];
  /** For each column, the row where the cell that spans it ends. */
  const taken: number[] = [];
  let row: OpenCell[] = [];
  let columns = 0;
  const end = tree.end[table] as number;
  for (let node = table + 1; node < end; node++) {
    const tag = tree.tag[node] as number;
    if (dropped[node] === 1 && tag !== TAG.caption) {
      node = (tree.end[node] as number) - 1;
    } else if (tag === TAG.tr) {
      row = [];
      rows.push(row);
    } else if (tag === TAG.caption) {
      caption = inlinesOf(contentOf(source, node));
      // A caption belongs to its table, also where selection took it for a label.
      const line = caption.length > 0 ? '' : lineOf(tree, node, MAX_CAPTION_CHARACTERS);
      if (line !== '') caption = [{ kind: 'text', text: line }];
      node = (tree.end[node] as number) - 1;
    } else if (tag === TAG.td || tag === TAG.th) {
      if (rows.length === 0) rows.push(row);
      const at = rows.length - 1;
      let column = 0;
      while ((taken[column] ?? 0) > at) column++;
      const attributes = tree.attributesOf(node);
      const columnSpan = Math.min(spanOf(attributes.get('colspan')), MAX_COLUMNS - column);
      const rowSpan = Math.min(spanOf(attributes.get('rowspan')), MAX_ROWSPAN);
      const children = contentOf(source, node);
      const last = row.at(-1);
      if (columnSpan > 0) {
        for (let over = column; over < column + columnSpan; over++) taken[over] = at + rowSpan;
        row.push({ column, columnSpan, rowSpan, isHeader: tag === TAG.th, children });
        columns = Math.max(columns, column + columnSpan);
      } else if (last !== undefined) {
        for (const child of children) last.children.push(child);
      } else if (children.length > 0) {
        row.push({ column: MAX_COLUMNS - 1, columnSpan: 1, rowSpan: 1, isHeader: tag === TAG.th, children });
      }
      node = (tree.end[node] as number) - 1;
    }
  }
  return { kind: 'table', caption, columns, rows: withoutEmptyRows(rows) };
}

/** Rows with content. A cell that spans over a row that goes, or over the last row, is shortened. */
function withoutEmptyRows(rows: readonly TableCell[][]): TableCell[][] {
  const isKept = rows.map((row) => row.some(({ children }) => children.length > 0));
  const before = [0];
  for (const kept of isKept) before.push((before.at(-1) as number) + Number(kept));
  return rows.flatMap((row, at) => {
    if (isKept[at] !== true) return [];
    return [
      row.map((cell) => {
        const last = Math.min(at + cell.rowSpan, rows.length);
        return { ...cell, rowSpan: (before[last] as number) - (before[at] as number) };
      }),
    ];
  });
}

function spanOf(value: string | undefined): number {
  const span = Number.parseInt(value ?? '', 10);
  return span >= 1 ? span : 1;
}

/** The text of blocks on one line. */
function inlinesOf(blocks: readonly Block[]): Inline[] {
  return blocks.flatMap((block, at): Inline[] => {
    if (block.kind !== 'paragraph') return [];
    return at === 0 ? [...block.children] : [{ kind: 'text', text: ' ' }, ...block.children];
  });
}

function isDataTable({ tree, dropped }: Source, table: number): boolean {
  if (/^(?:presentation|none)$/i.test(tree.attribute(table, 'role') ?? '')) return false;
  let rows = 0;
  let wideRows = 0;
  let cells = 0;
  let hasHeader = false;
  let longest = 0;
  const end = tree.end[table] as number;
  for (let node = table + 1; node < end; node++) {
    const tag = tree.tag[node] as number;
    if (dropped[node] === 1) {
      node = (tree.end[node] as number) - 1;
    } else if (tag === TAG.table || tag === TAG.article || tag === TAG.section) {
      return false;
    } else if ((traits(tag) & HEADING) !== 0 && tag <= TAG.h3) {
      return false;
    } else if (tag === TAG.tr) {
      rows++;
      cells = 0;
    } else if (tag === TAG.th || tag === TAG.caption) {
      hasHeader = true;
    }
    if (tag === TAG.td || tag === TAG.th) {
      if (++cells === 2) wideRows++;
      longest = Math.max(longest, (tree.to[(tree.end[node] as number) - 1] as number) - (tree.to[node] as number));
    }
  }
  return rows > 1 && 2 * wideRows >= rows && (hasHeader || longest <= 4 * MAX_CELL_CHARACTERS);
}
