// Spend: what was used and charged by day, stacked by model, account or key, with the sums as a table and as CSV.

import type { VNode } from 'preact';
import type { UsageView } from '../../views.ts';
import { lastDays, numberOf, pathOf, picoOf, readAgain, readAll, usdOf, useReading } from '../accounts/ledger.ts';
import { AccountLink, RefreshButton } from '../accounts/parts.tsx';
import { type Dimension, type Measure, MEASURES, nameOf, stackedSeries } from '../accounts/usage.ts';
import { announce } from '../components/announcement.tsx';
import { Choice, TextChoice } from '../components/choice.tsx';
import { readText, problemText } from '../api.ts';
import { Page, Section } from '../components/page.tsx';
import { StackedBars } from '../components/stacked-bars.tsx';
import { Loading, Problem } from '../components/states.tsx';
import { Bar } from '../components/sparkline.tsx';
import { type Column, figure, Table } from '../components/table.tsx';
import { Pairs, Tile, Tiles } from '../components/tile.tsx';
import { compactText, countText, shareText, usdText } from '../format.ts';
import { route } from '../router.ts';
import { useStore } from '../store.ts';

const RANGES = ['7', '31', '90'] as const;
const DIMENSIONS: readonly Dimension[] = ['model', 'account', 'key'];

/** Sums over all days of the range. */
interface Sums {
  readonly name: string;
  readonly requests: number;
  readonly input: number;
  readonly cached: number;
  readonly output: number;
  readonly pico: bigint;
}

function sumsOf(rows: readonly UsageView[], by: Dimension | null): Sums[] {
  const found = new Map<string, Sums>();
  for (const row of rows) {
    const name = by === null ? '' : nameOf(row, by);
    const before = found.get(name) ?? { name, requests: 0, input: 0, cached: 0, output: 0, pico: 0n };
    found.set(name, {
      name,
      requests: before.requests + row.requests,
      input: before.input + row.input_tokens,
      cached: before.cached + row.cached_tokens,
      output: before.output + row.output_tokens,
      pico: before.pico + picoOf(row.amount_usd),
    });
  }
  return [...found.values()].sort((one, other) => (one.pico === other.pico ? 0 : one.pico < other.pico ? 1 : -1));
}

export function SpendView(): VNode {
  const { query } = useStore(route);
  const range = RANGES.find((each) => each === query.get('days')) ?? '31';
  const by = DIMENSIONS.find((each) => each === query.get('by')) ?? 'model';
  const measure = MEASURES.find((each) => each === query.get('of')) ?? 'USD';
  const account = query.get('account') ?? '';
  const days = lastDays(Number(range));
  const asked = { account, by: `day,${by}`, from: days[0] };
  const { data, problem } = useReading(pathOf('/usage', asked), (signal) =>
    readAll<UsageView>('/usage', asked, signal),
  );
  return (
    <Page
      title="Spend"
      lead="What accounts were charged, and the tokens behind it. Days in UTC; the last day is today."
      actions={
        <>
          <CsvButton
            path={pathOf('/usage', { ...asked, format: 'csv', limit: '1000' })}
            name={`usage-${by}-${range}-days.csv`}
          />
          <RefreshButton />
        </>
      }
    >
      <div class="choices-bar">
        <Choice
          label="Range"
          name="days"
          value={range}
          preset="31"
          options={RANGES.map((days) => [days, `${days} days`])}
        />
        <Choice
          label="Stacked by"
          name="by"
          value={by}
          preset="model"
          options={DIMENSIONS.map((each) => [each, each])}
        />
        <Choice label="Of" name="of" value={measure} preset="USD" options={MEASURES.map((each) => [each, each])} />
        <TextChoice label="Account" name="account" value={account} placeholder="all" />
      </div>
      {problem !== null && <Problem text={problem} retry={readAgain} />}
      {data === null && problem === null && <Loading what="usage" />}
      {data !== null && <Shown rows={data} by={by} measure={measure} days={days} />}
    </Page>
  );
}

interface ShownProps {
  readonly rows: readonly UsageView[];
  readonly by: Dimension;
  readonly measure: Measure;
  readonly days: readonly string[];
}

function Shown({ by, days, measure, rows }: ShownProps): VNode {
  const [all] = sumsOf(rows, null);
  const sums = sumsOf(rows, by);
  return (
    <>
      <Tiles label="Sums of the range">
        <Tile name="Spend" value={usdText(all === undefined ? 0 : numberOf(all.pico))}>
          <Pairs of={[['a day', usdText(all === undefined ? 0 : numberOf(all.pico) / days.length)]]} />
        </Tile>
        <Tile name="Requests" value={compactText(all?.requests ?? 0)} />
        <Tile name="Input tokens" value={compactText(all?.input ?? 0)}>
          <Pairs of={[['cached', all === undefined || all.input === 0 ? '–' : shareText(all.cached / all.input)]]} />
        </Tile>
        <Tile name="Output tokens" value={compactText(all?.output ?? 0)} />
      </Tiles>
      <StackedBars
        title={`${measure === 'USD' ? 'USD' : `${measure.charAt(0).toUpperCase()}${measure.slice(1)}`} by day and ${by}`}
        days={days}
        series={stackedSeries(rows, days, by, measure)}
        print={measure === 'USD' ? usdText : compactText}
        empty="Nothing was charged in this range."
      />
      <Section title={`By ${by}`}>
        <Table
          id="spend"
          caption={`Sums of the range by ${by}`}
          columns={sumColumns(by, all?.pico ?? 0n)}
          rows={sums}
          keyOf={({ name }) => name}
          filterText={({ name }) => name}
          empty="Nothing was charged in this range."
        />
      </Section>
    </>
  );
}

function sumColumns(by: Dimension, total: bigint): readonly Column<Sums>[] {
  const share = ({ pico }: Sums): number => (total === 0n ? 0 : Number((pico * 10_000n) / total) / 10_000);
  return [
    {
      name: by.charAt(0).toUpperCase() + by.slice(1),
      class: 'name',
      cell: ({ name }) => (by === 'account' ? <AccountLink id={name} /> : name),
      sort: ({ name }) => name,
    },
    figure('Requests', ({ requests }) => requests, countText),
    figure('Input', ({ input }) => input, countText),
    figure('Cached', ({ cached }) => cached, countText),
    figure('Output', ({ output }) => output, countText),
    { name: 'USD', numeric: true, cell: ({ pico }) => usdOf(pico), sort: ({ pico }) => numberOf(pico) },
    {
      name: 'Share',
      cell: (sums) => (
        <>
          {shareText(share(sums))}
          <Bar share={share(sums)} />
        </>
      ),
      sort: share,
    },
  ];
}

/** Saves the rows of the chart as the admin interface prints them. */
function CsvButton({ name, path }: { readonly path: string; readonly name: string }): VNode {
  const save = async (): Promise<void> => {
    try {
      const link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob([await readCsv(path)], { type: 'text/csv' }));
      link.download = name;
      link.click();
      URL.revokeObjectURL(link.href);
      announce(`Saved ${name}`);
    } catch (error) {
      announce(`The CSV could not be read: ${problemText(error)}`);
    }
  };
  return (
    <button type="button" onClick={() => void save()}>
      Download CSV
    </button>
  );
}

/** All pages; the first has the names of the columns. */
async function readCsv(path: string): Promise<string> {
  let csv = '';
  for (let cursor: string | null = ''; cursor !== null;) {
    const { headers, text } = await readText(cursor === '' ? path : `${path}&cursor=${cursor}`);
    csv += csv === '' ? text : text.slice(text.indexOf('\n') + 1);
    cursor = headers.get('x-next-cursor');
  }
  return csv;
}
