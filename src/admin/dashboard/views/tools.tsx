// Tools: what accounts searched and fetched by day, and what it cost, from the usage of the ledger: a search is charged as
// `search:ENGINE` for each engine that answered, a page as `fetch`.

import type { VNode } from 'preact';
import type { UsageView } from '../../views.ts';
import { lastDays, numberOf, pathOf, picoOf, readAgain, readAll, usdOf, useReading } from '../accounts/ledger.ts';
import { AccountLink, RefreshButton } from '../accounts/parts.tsx';
import { Choice, TextChoice } from '../components/choice.tsx';
import { Page, Section } from '../components/page.tsx';
import { Bar } from '../components/sparkline.tsx';
import { type BarSeries, StackedBars } from '../components/stacked-bars.tsx';
import { Loading, Problem } from '../components/states.tsx';
import { type Column, figure, Table } from '../components/table.tsx';
import { Pairs, Tile, Tiles } from '../components/tile.tsx';
import { compactText, countText, NONE, plural, shareText, usdText } from '../format.ts';
import { route } from '../router.ts';
import { useStore } from '../store.ts';

const RANGES = ['1', '7', '30'] as const;
const MEASURES = ['calls', 'USD'] as const;
type Measure = (typeof MEASURES)[number];

const SEARCH = 'search:';
const FETCH = 'fetch';
const PAGES = 'pages';

/** Name of what was charged: an engine, or pages; null for a model. */
function sourceOf(model: string | undefined): string | null {
  if (model === FETCH) return PAGES;
  return model?.startsWith(SEARCH) === true ? model.slice(SEARCH.length) : null;
}

/** Sums over all days of the range. */
interface Sums {
  readonly name: string;
  /** Engines that answered searches. */
  answers: number;
  pages: number;
  pico: bigint;
  /** Answers by engine. */
  readonly engines: Map<string, number>;
}

function sumsOf(rows: readonly UsageView[], nameOf: (row: UsageView) => string): Sums[] {
  const found = new Map<string, Sums>();
  for (const row of rows) {
    const source = sourceOf(row.model);
    if (source === null) continue;
    const name = nameOf(row);
    const sums = found.get(name) ?? { name, answers: 0, pages: 0, pico: 0n, engines: new Map<string, number>() };
    found.set(name, sums);
    sums.pico += picoOf(row.amount_usd);
    if (source === PAGES) {
      sums.pages += row.requests;
    } else {
      sums.answers += row.requests;
      sums.engines.set(source, (sums.engines.get(source) ?? 0) + row.requests);
    }
  }
  return [...found.values()].sort((one, other) => other.answers + other.pages - one.answers - one.pages);
}

export function ToolsView(): VNode {
  const { query } = useStore(route);
  const range = RANGES.find((each) => each === query.get('days')) ?? '7';
  const measure = MEASURES.find((each) => each === query.get('of')) ?? 'calls';
  const account = query.get('account') ?? '';
  const days = lastDays(Number(range));
  const from = days[0];
  const byDay = { account, by: 'day,model', from };
  const byAccount = { account, by: 'account,model', from };
  const { data, problem } = useReading(pathOf('/usage', { ...byDay, and: 'account' }), (signal) =>
    Promise.all([readAll<UsageView>('/usage', byDay, signal), readAll<UsageView>('/usage', byAccount, signal)]),
  );
  return (
    <Page
      title="Tools"
      lead="Searches and pages that accounts were charged for, free ones included. A search counts once for each engine that answered. Days in UTC; the last day is today."
      actions={<RefreshButton />}
    >
      <div class="choices-bar">
        <Choice
          label="Range"
          name="days"
          value={range}
          preset="7"
          options={RANGES.map((count) => [count, count === '1' ? 'Today' : `${count} days`])}
        />
        <Choice label="Of" name="of" value={measure} preset="calls" options={MEASURES.map((each) => [each, each])} />
        <TextChoice label="Account" name="account" value={account} placeholder="all" />
      </div>
      {problem !== null && <Problem text={problem} retry={readAgain} />}
      {data === null && problem === null && <Loading what="usage" />}
      {data !== null && <Shown byDay={data[0]} byAccount={data[1]} days={days} measure={measure} />}
    </Page>
  );
}

interface ShownProps {
  readonly byDay: readonly UsageView[];
  readonly byAccount: readonly UsageView[];
  readonly days: readonly string[];
  readonly measure: Measure;
}

function Shown({ byAccount, byDay, days, measure }: ShownProps): VNode {
  const [all] = sumsOf(byDay, () => '');
  const sources = sumsOf(byDay, (row) => sourceOf(row.model) ?? '');
  const accounts = sumsOf(byAccount, (row) => row.account ?? '');
  const engines = all?.engines.size ?? 0;
  const usd = all === undefined ? 0 : numberOf(all.pico);
  const empty = 'No account has searched or fetched in this range.';
  return (
    <>
      <Tiles label="Sums of the range">
        <Tile name="Engine answers" value={compactText(all?.answers ?? 0)}>
          <Pairs of={[['of', plural(engines, 'engine')]]} />
        </Tile>
        <Tile name="Pages" value={compactText(all?.pages ?? 0)} />
        <Tile name="Spend" value={usdText(usd)}>
          <Pairs of={[['a day', usdText(usd / days.length)]]} />
        </Tile>
        <Tile name="Accounts" value={countText(accounts.length)} />
      </Tiles>
      <StackedBars
        title={measure === 'USD' ? 'USD by day and engine' : 'Engine answers and pages by day'}
        days={days}
        series={seriesOf(byDay, days, sources, measure)}
        print={measure === 'USD' ? usdText : compactText}
        empty={empty}
      />
      <div class="columns">
        <Section title="By account">
          <Table
            id="tool-accounts"
            caption="Searches and pages by account"
            columns={ACCOUNT_COLUMNS}
            rows={accounts}
            keyOf={({ name }) => name}
            filterText={({ name }) => name}
            empty={empty}
          />
        </Section>
        <Section title="By engine">
          <Table
            id="tool-engines"
            caption="Answers by engine, and pages"
            columns={sourceColumns(all)}
            rows={sources}
            keyOf={({ name }) => name}
            empty={empty}
          />
        </Section>
      </div>
    </>
  );
}

const MOST_SERIES = 6;

/** The engines that answered most, and pages; the others together. */
function seriesOf(
  rows: readonly UsageView[],
  days: readonly string[],
  sources: readonly Sums[],
  measure: Measure,
): BarSeries[] {
  const values = new Map<string, number[]>();
  for (const row of rows) {
    const source = sourceOf(row.model);
    const day = days.indexOf(row.day ?? '');
    if (source === null || day < 0) continue;
    const rank = sources.findIndex(({ name }) => name === source);
    const name = rank < MOST_SERIES ? source : 'others';
    const own = values.get(name) ?? days.map(() => 0);
    values.set(name, own);
    own[day] = (own[day] ?? 0) + (measure === 'USD' ? numberOf(picoOf(row.amount_usd)) : row.requests);
  }
  const shown = sources.slice(0, MOST_SERIES).map(({ name }, index): BarSeries => {
    return { name, values: values.get(name) ?? [], color: (index + 1) as 1 | 2 | 3 | 4 | 5 | 6 };
  });
  const others = values.get('others');
  return others === undefined ? shown : [...shown, { name: 'others', values: others, color: 'quiet' }];
}

const USD: Column<Sums> = {
  name: 'USD',
  numeric: true,
  cell: ({ pico }) => usdOf(pico),
  sort: ({ pico }) => numberOf(pico),
};

const ACCOUNT_COLUMNS: readonly Column<Sums>[] = [
  { name: 'Account', class: 'name', cell: ({ name }) => <AccountLink id={name} />, sort: ({ name }) => name },
  figure('Engine answers', ({ answers }) => answers, countText),
  figure('Pages', ({ pages }) => pages, countText),
  {
    name: 'Engines',
    cell: ({ engines }) => {
      const sorted = [...engines].sort(([, one], [, other]) => other - one).map(([engine]) => engine);
      const more = sorted.length > 3 ? ` and ${sorted.length - 3} more` : '';
      return sorted.length === 0 ? NONE : sorted.slice(0, 3).join(', ') + more;
    },
  },
  USD,
];

function sourceColumns(all: Sums | undefined): readonly Column<Sums>[] {
  const total = (all?.answers ?? 0) + (all?.pages ?? 0);
  const callsOf = ({ answers, pages }: Sums): number => answers + pages;
  return [
    { name: 'Engine', class: 'name', cell: ({ name }) => name, sort: ({ name }) => name },
    figure('Calls', callsOf, countText),
    {
      name: 'Share',
      cell: (sums) => (
        <>
          {shareText(total === 0 ? 0 : callsOf(sums) / total)}
          <Bar share={total === 0 ? 0 : callsOf(sums) / total} />
        </>
      ),
      sort: callsOf,
    },
    USD,
  ];
}
