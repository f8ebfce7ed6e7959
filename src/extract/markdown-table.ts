// Tables as Markdown. Used by the Markdown writer. Tables that only lay a page out are not written as tables.

import type { Dropped } from './select.ts';
import { TAG } from './tags.ts';
import type { Tree } from './tree.ts';
import { type Visitor, walk } from './walk.ts';

const MAX_COLUMNS = 50;

/** Blocks that no cell of Markdown can hold. */
const TOO_MUCH: ReadonlySet<number> = new Set([
  TAG.table,
  TAG.ul,
  TAG.ol,
  TAG.pre,
  TAG.blockquote,
  TAG.h1,
  TAG.h2,
  TAG.h3,
  TAG.article,
  TAG.section,
]);

/** Whether a table has rows and columns of short content. */
export function isDataTable(tree: Tree, dropped: Dropped, table: number): boolean {
  let rows = 0;
  let cells = 0;
  const end = tree.end[table] as number;
  for (let node = table + 1; node < end; node++) {
    const tag = tree.tag[node] as number;
    if (dropped[node] === 1) node = (tree.end[node] as number) - 1;
    else if (TOO_MUCH.has(tag)) return false;
    else if (tag === TAG.tr) rows++;
    else if (tag === TAG.td || tag === TAG.th) cells++;
  }
  return rows > 1 && cells >= 2 * rows;
}

/** Lines of the table, with its caption as a paragraph before it. The first row heads it. */
export function writeTable(
  tree: Tree,
  dropped: Dropped,
  table: number,
  writer: () => Visitor & { result(): string },
): string[] {
  const lines: string[] = [];
  let row: string[] = [];
  let columns = 0;
  const inCell = (node: number): string => {
    const cell = writer();
    for (let child = node + 1; child < (tree.end[node] as number); child = tree.end[child] as number)
      walk(tree, dropped, child, cell);
    return cell.result().replaceAll(/\s+/g, ' ').replaceAll('|', '\\|').trim();
  };
  const endRow = (): void => {
    if (row.some((cell) => cell !== '')) {
      const isFirst = columns === 0;
      columns = isFirst ? Math.max(row.length, 2) : columns;
      lines.push(
        `| ${row
          .slice(0, columns)
          .concat(Array.from({ length: Math.max(0, columns - row.length) }, () => ''))
          .join(' | ')} |`,
      );
      if (isFirst) lines.push(`|${' --- |'.repeat(columns)}`);
    }
    row = [];
  };
  const end = tree.end[table] as number;
  for (let node = table + 1; node < end; node++) {
    const tag = tree.tag[node] as number;
    if (dropped[node] === 1) {
      node = (tree.end[node] as number) - 1;
    } else if (tag === TAG.caption) {
      lines.push(inCell(node), '');
      node = (tree.end[node] as number) - 1;
    } else if (tag === TAG.tr) {
      endRow();
    } else if (tag === TAG.td || tag === TAG.th) {
      if (row.length < MAX_COLUMNS) row.push(inCell(node));
      node = (tree.end[node] as number) - 1;
    }
  }
  endRow();
  return lines;
}
