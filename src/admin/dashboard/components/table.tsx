// A table of live data: sorts by columns, filters by text, keeps the rows and the focus where they are when figures change. Below
// 46 rem each row is a card. Arrow keys move between the rows. Long tables show a part of their rows until more are asked for.

import type { ComponentChildren, TargetedKeyboardEvent, VNode } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { countText, plural } from '../format.ts';

export interface Column<Row> {
  readonly name: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** The value that rows are sorted by; null comes last. Without it the column does not sort. */
  readonly sort?: (row: Row) => number | string | null;
  /** Figures: aligned to the right. */
  readonly numeric?: boolean;
  /** Explains the column, where its name is short. */
  readonly title?: string;
  /** Class of the cells. */
  readonly class?: string;
}

/** A column of figures that sorts by them. */
export function figure<Row, Value extends number | null>(
  name: string,
  of: (row: Row) => Value,
  print: (value: Value) => string,
  title?: string,
): Column<Row> {
  return { name, numeric: true, cell: (row) => print(of(row)), sort: of, ...(title !== undefined && { title }) };
}

export interface TableProps<Row> {
  /** Says what the rows are; read out by screen readers, shown when `showCaption` is set. */
  readonly caption: string;
  readonly showCaption?: boolean;
  readonly id?: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** The text that the filter looks in; without it there is no filter. */
  readonly filterText?: (row: Row) => string;
  /** Controls beside the filter. */
  readonly controls?: ComponentChildren;
  /** Name of the column that sorts at first, with `-` before it from high to low; else the order of `rows`. */
  readonly sortedBy?: string;
  /** What stands there without rows. */
  readonly empty?: string;
  /** Reads further rows; undefined when there are none. */
  readonly onMore?: (() => void) | undefined;
  readonly rowClass?: (row: Row) => string;
}

/** Rows at first, and how many more come with each click. */
const STEP = 100;

interface Order {
  readonly name: string;
  readonly down: boolean;
}

function orderOf(text: string | undefined): Order | null {
  if (text === undefined) return null;
  return { name: text.replace(/^-/, ''), down: text.startsWith('-') };
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

function sorted<Row>(rows: readonly Row[], columns: readonly Column<Row>[], order: Order | null): readonly Row[] {
  const valueOf = columns.find(({ name }) => name === order?.name)?.sort;
  if (order === null || valueOf === undefined) return rows;
  const sign = order.down ? -1 : 1;
  return rows
    .map((row) => ({ row, value: valueOf(row) }))
    .sort(({ value: a }, { value: b }) => {
      if (a === null || b === null) return (a === null ? 1 : 0) - (b === null ? 1 : 0);
      return sign * (typeof a === 'number' && typeof b === 'number' ? a - b : collator.compare(String(a), String(b)));
    })
    .map(({ row }) => row);
}

/** Moves the focus to the same control of the next or the last row. */
function moveByArrow(event: TargetedKeyboardEvent<HTMLElement>): void {
  const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
  const from = event.target instanceof HTMLElement ? event.target : null;
  if (step === 0 || from === null || from.matches('input, select, textarea') || event.altKey || event.metaKey) return;
  const own = from.closest('tr');
  const next = step > 0 ? own?.nextElementSibling : own?.previousElementSibling;
  if (own === null || !(next instanceof HTMLElement)) return;
  const controls = (row: HTMLElement): HTMLElement[] => [...row.querySelectorAll<HTMLElement>('a, button, summary')];
  const target = controls(next)[controls(own).indexOf(from)] ?? controls(next)[0];
  if (target === undefined) return;
  event.preventDefault();
  target.focus();
}

export function Table<Row>(props: TableProps<Row>): VNode {
  const { caption, columns, controls, empty = 'None.', filterText, id, keyOf, onMore, rowClass, rows } = props;
  const [order, setOrder] = useState(() => orderOf(props.sortedBy));
  const [words, setWords] = useState('');
  const [limit, setLimit] = useState(STEP);
  const filterId = useId();
  const sortId = useId();
  const needle = words.trim().toLowerCase();
  const found = needle === '' ? rows : rows.filter((row) => (filterText?.(row) ?? '').toLowerCase().includes(needle));
  const ordered = sorted(found, columns, order);
  const shown = ordered.slice(0, limit);
  const sortable = columns.filter(({ sort }) => sort !== undefined);
  const sortBy = (name: string): void => setOrder({ name, down: order?.name === name ? !order.down : false });
  return (
    <div class="sheet">
      {(filterText !== undefined || controls !== undefined || sortable.length > 0) && (
        <div class={filterText === undefined && controls === undefined ? 'table-tools only-narrow' : 'table-tools'}>
          {filterText !== undefined && (
            <>
              <label class="hidden-label" for={filterId}>
                Filter: {caption}
              </label>
              <input
                id={filterId}
                class="filter"
                type="search"
                placeholder="Filter"
                autocomplete="off"
                spellcheck={false}
                value={words}
                onInput={(event) => setWords(event.currentTarget.value)}
              />
              <span class="found" role="status">
                {needle === '' ? plural(rows.length, 'row') : `${countText(found.length)} of ${countText(rows.length)}`}
              </span>
            </>
          )}
          {controls}
          {sortable.length > 0 && (
            <span class="only-narrow">
              <label class="hidden-label" for={sortId}>
                Sort: {caption}
              </label>
              <select
                id={sortId}
                value={order === null ? '' : `${order.down ? '-' : ''}${order.name}`}
                onChange={(event) => setOrder(orderOf(event.currentTarget.value || undefined))}
              >
                <option value="">Unsorted</option>
                {sortable.flatMap(({ name }) => [
                  <option key={name} value={name}>{`${name} ↑`}</option>,
                  <option key={`-${name}`} value={`-${name}`}>{`${name} ↓`}</option>,
                ])}
              </select>
            </span>
          )}
        </div>
      )}
      {shown.length === 0 ? (
        <p class="state">{needle === '' ? empty : 'No row matches the filter.'}</p>
      ) : (
        <ScrollBox label={caption}>
          <table id={id} role="table">
            <caption class={props.showCaption === true ? undefined : 'hidden-label'}>{caption}</caption>
            <thead role="rowgroup">
              <tr role="row">
                {columns.map((column) => (
                  <th
                    key={column.name}
                    role="columnheader"
                    scope="col"
                    class={column.numeric === true ? 'numeric' : undefined}
                    title={column.title}
                    aria-sort={order?.name === column.name ? (order.down ? 'descending' : 'ascending') : undefined}
                  >
                    {column.sort === undefined ? (
                      column.name
                    ) : (
                      <button type="button" class="sort" onClick={() => sortBy(column.name)}>
                        {column.name}
                        <span class="arrow" aria-hidden="true">
                          {order?.name === column.name ? (order.down ? '↓' : '↑') : ''}
                        </span>
                      </button>
                    )}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody role="rowgroup" onKeyDown={moveByArrow}>
              {shown.map((row) => (
                <tr role="row" key={keyOf(row)} class={rowClass?.(row)}>
                  {columns.map((column, index) => {
                    const names =
                      [column.class, column.numeric === true && 'numeric'].filter(Boolean).join(' ') || undefined;
                    return index === 0 ? (
                      <th key={column.name} role="rowheader" scope="row" class={names}>
                        {column.cell(row)}
                      </th>
                    ) : (
                      <td key={column.name} role="cell" data-label={column.name} class={names}>
                        <div>{column.cell(row)}</div>
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollBox>
      )}
      {(ordered.length > limit || onMore !== undefined) && (
        <p class="more-rows">
          {ordered.length > limit && (
            <>
              <button type="button" onClick={() => setLimit(limit + STEP)}>
                {`Show ${Math.min(STEP, ordered.length - limit)} more`}
              </button>{' '}
              <span>{`${countText(limit)} of ${countText(ordered.length)} shown`}</span>
            </>
          )}
          {ordered.length <= limit && onMore !== undefined && (
            <button type="button" onClick={onMore}>
              More
            </button>
          )}
        </p>
      )}
    </div>
  );
}

/** A box that scrolls sideways where its content is wider; reachable by keyboard only then. */
function ScrollBox({ children, label }: { readonly children: ComponentChildren; readonly label: string }): VNode {
  const box = useRef<HTMLDivElement>(null);
  const [scrolls, setScrolls] = useState(false);
  useEffect(() => {
    const node = box.current;
    if (node === null) return undefined;
    const observer = new ResizeObserver(() => setScrolls(node.scrollWidth > node.clientWidth));
    observer.observe(node);
    if (node.firstElementChild !== null) observer.observe(node.firstElementChild);
    return () => observer.disconnect();
  }, []);
  return (
    <div class="scroll-box" ref={box} {...(scrolls && { tabIndex: 0, role: 'region', 'aria-label': label })}>
      {children}
    </div>
  );
}
