// Parts of the views of accounts: links, buttons by role, what is left of a limit, and lists with their states.

import type { ComponentChildren, VNode } from 'preact';
import { identity, may, type Role } from '../api.ts';
import { type Action, openAction } from '../components/dialog.tsx';
import { Loading, Problem } from '../components/states.tsx';
import { type Column, Table, type TableProps } from '../components/table.tsx';
import { href } from '../router.ts';
import { useStore } from '../store.ts';
import { accountPath, type PagedList, picoOf, readAgain, usdOf } from './ledger.ts';

export function AccountLink({ id }: { readonly id: string | null }): VNode {
  return id === null || id === '' ? <>–</> : <a href={href(accountPath(id))}>{id}</a>;
}

export interface RowAction<Row> {
  readonly name: string;
  readonly role: Role;
  readonly action: (row: Row) => Action;
  readonly applies?: (row: Row) => boolean;
}

interface ActionsProps<Row> {
  readonly row: Row;
  /** Names the row for screen readers; '' where the page has one. */
  readonly name: string;
  readonly of: readonly RowAction<Row>[];
}

/** Buttons of the actions that the role of the token and the row allow; the gateway refuses others anyway. */
export function Actions<Row>({ name, of, row }: ActionsProps<Row>): VNode {
  const holder = useStore(identity);
  const allowed = of.filter(({ applies, role }) => may(role, holder) && (applies?.(row) ?? true));
  return (
    <span class="actions">
      {allowed.map((each) => (
        <button
          key={each.name}
          type="button"
          aria-label={name === '' ? undefined : `${each.name} ${name}`}
          onClick={() => openAction(each.action(row))}
        >
          {each.name}
        </button>
      ))}
    </span>
  );
}

/** A column of actions. */
export function actionColumn<Row>(nameOf: (row: Row) => string, of: readonly RowAction<Row>[]): Column<Row> {
  return { name: 'Actions', cell: (row) => <Actions row={row} name={nameOf(row)} of={of} /> };
}

export function RefreshButton(): VNode {
  return (
    <button type="button" onClick={readAgain}>
      Refresh
    </button>
  );
}

interface ShareProps {
  readonly spentUsd: string;
  readonly limitUsd: string;
  /** Null: none. */
  readonly alertUsd?: string | null;
}

/** What is left of a limit, with a bar and a mark where the alert is due. */
export function LimitShare({ alertUsd = null, limitUsd, spentUsd }: ShareProps): VNode {
  const [spent, limit] = [picoOf(spentUsd), picoOf(limitUsd)];
  const alert = alertUsd === null ? null : picoOf(alertUsd);
  const place = (sum: bigint): number =>
    limit === 0n ? 100 : Math.min(Math.max(Number((sum * 1000n) / limit) / 10, 0), 100);
  const isOver = spent >= limit;
  const standing = isOver ? ', used up' : alert !== null && spent >= alert ? ', alert reached' : '';
  const mark = alert === null ? '' : `, alert at ${usdOf(alert)}`;
  return (
    <span class="limit-share">
      {`${usdOf(isOver ? 0n : limit - spent)} left: ${usdOf(spent)} of ${usdOf(limit)}${mark}${standing}`}
      <svg
        class={isOver ? 'share bad' : 'share line-1'}
        viewBox="0 0 100 8"
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        <rect width="100" height="8" />
        <rect class="part" width={place(spent)} height="8" />
        {alert !== null && <line x1={place(alert)} x2={place(alert)} y1="0" y2="8" />}
      </svg>
    </span>
  );
}

interface ListProps<Row> extends Omit<TableProps<Row>, 'rows' | 'onMore'> {
  readonly list: PagedList<Row>;
  readonly what: string;
  readonly children?: ComponentChildren;
}

/** The table of a long list, or why there is none. */
export function ListTable<Row>({ list, what, ...table }: ListProps<Row>): VNode {
  const { data, onMore, problem } = list;
  return (
    <>
      {problem !== null && <Problem text={problem} retry={readAgain} />}
      {data === null ? problem === null && <Loading what={what} /> : <Table {...table} rows={data} onMore={onMore} />}
    </>
  );
}
