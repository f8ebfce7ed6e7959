// Requests under way, and the request log with its filters, which are in the address so that a search can be shared.

import type { VNode } from 'preact';
import { useId } from 'preact/hooks';
import type { LoggedRequest } from '../../../telemetry/request-log.ts';
import type { LiveRequest } from '../../request-routes.ts';
import { printJsonLines } from '../../table-format.ts';
import { usePolled } from '../api.ts';
import { TextInput } from '../components/choice.tsx';
import { Page, Section } from '../components/page.tsx';
import { Empty, Loading, Problem } from '../components/states.tsx';
import { type Column, figure, Table } from '../components/table.tsx';
import { bytesText, countText, dateText, latencyText, momentText, NONE, plural, usdText } from '../format.ts';
import { useOverview } from '../overview-poll.ts';
import { filtersOf, useRequestLog } from '../request-log.ts';
import { CrnLink, csv, download, ModelLink, Outcome, PHASES, RequestId } from '../requests.tsx';
import { href, navigate, route, setQuery } from '../router.ts';
import { useStore } from '../store.ts';

const LIVE_EVERY_MS = 1000;

interface LiveDocument {
  readonly dateMs: number;
  readonly count: number;
  readonly missingThreads: number;
  readonly data: readonly LiveRequest[];
}

const LIVE_COLUMNS: readonly Column<LiveRequest>[] = [
  { name: 'Request', cell: ({ requestId }) => <RequestId id={requestId} short /> },
  figure('Age', ({ ageMs }) => ageMs, latencyText),
  {
    name: 'Phase',
    cell: ({ lastFailure, phase }) => (
      <>
        {PHASES[phase] ?? phase}
        {lastFailure !== null && <small>after {lastFailure}</small>}
      </>
    ),
    sort: ({ phase }) => phase,
  },
  {
    name: 'Endpoint',
    cell: ({ endpoint, method, path, tool }) => (
      <>
        {`${method} ${path ?? endpoint}`}
        {tool !== null && <small>by {tool}</small>}
      </>
    ),
    sort: ({ endpoint }) => endpoint,
  },
  {
    name: 'Model',
    class: 'one-line',
    cell: ({ alias, model }) => <ModelLink model={model} alias={alias} />,
    sort: ({ model }) => model,
  },
  { name: 'Account', class: 'one-line', cell: ({ account }) => account ?? NONE, sort: ({ account }) => account },
  { name: 'CRN', class: 'one-line', cell: ({ crn }) => <CrnLink crn={crn} short />, sort: ({ crn }) => crn },
  { name: 'Attempts', numeric: true, cell: ({ attempts }) => attempts, sort: ({ attempts }) => attempts },
  figure('In', ({ bytesIn }) => bytesIn, bytesText),
  figure('Out', ({ bytesOut }) => bytesOut, bytesText),
];

const LOG_COLUMNS: readonly Column<LoggedRequest>[] = [
  {
    name: 'Request',
    cell: ({ cursor, requestId }) => (
      <RequestId id={requestId} short to={href(`/requests/${encodeURIComponent(cursor)}`)} />
    ),
  },
  {
    name: 'Ended',
    cell: ({ dateMs }) => <time title={dateText(dateMs)}>{momentText(dateMs)}</time>,
  },
  { name: 'Status', class: 'outcome', cell: (request) => <Outcome request={request} /> },
  {
    name: 'Endpoint',
    cell: ({ endpoint, method, path, tool }) => (
      <>
        {method === 'POST' ? (path ?? endpoint) : `${method} ${path ?? endpoint}`}
        {tool !== null && <small>by {tool}</small>}
      </>
    ),
  },
  { name: 'Model', class: 'one-line', cell: ({ alias, model }) => <ModelLink model={model} alias={alias} /> },
  { name: 'Account', class: 'one-line', cell: ({ account }) => account ?? NONE },
  {
    name: 'CRN',
    class: 'one-line',
    cell: ({ attempts, crn, failures }) => (
      <>
        <CrnLink crn={crn} short />
        {attempts > 1 && (
          <small>
            {plural(attempts, 'attempt')}
            {failures[0] !== undefined && `, first ${failures[0].failure}`}
          </small>
        )}
      </>
    ),
  },
  { name: 'Duration', numeric: true, cell: ({ durationMs }) => latencyText(durationMs) },
  { name: 'First byte', numeric: true, cell: ({ firstByteMs }) => latencyText(firstByteMs) },
  {
    name: 'Tokens',
    title: 'Of the prompt, and of the answer',
    numeric: true,
    cell: ({ cachedTokens, inputTokens, outputTokens }) => (
      <>
        {inputTokens === null && outputTokens === null
          ? NONE
          : `${countText(inputTokens)} → ${countText(outputTokens)}`}
        {cachedTokens !== null && cachedTokens > 0 && <small>{countText(cachedTokens)} cached</small>}
      </>
    ),
  },
  {
    name: 'Tokens/s',
    numeric: true,
    cell: ({ tokensPerSecond }) => (tokensPerSecond === null ? NONE : countText(tokensPerSecond)),
  },
  { name: 'Cost', numeric: true, cell: ({ costUsd }) => (costUsd === null ? NONE : usdText(Number(costUsd))) },
];

export function RequestsView(): VNode {
  return (
    <Page
      title="Requests"
      lead="From the memory of this gateway. The records of the ledger, which are kept longer, are with their accounts."
    >
      <LiveRequests />
      <RequestLog />
    </Page>
  );
}

function LiveRequests(): VNode {
  const { data, error, refresh } = usePolled<LiveDocument>('/requests/live', LIVE_EVERY_MS);
  const isCut = data !== undefined && data.count > data.data.length;
  return (
    <Section title={data === undefined ? 'Under way' : `Under way: ${countText(data.count)}`} id="live">
      {error !== null && <Problem text={error} retry={refresh} />}
      {data !== undefined && data.missingThreads > 0 && <Missing threads={data.missingThreads} />}
      {data === undefined ? (
        error === null && <Loading what="the requests" />
      ) : (
        <Table
          id="live-requests"
          caption={isCut ? `The ${countText(data.data.length)} oldest requests under way` : 'Requests under way'}
          columns={LIVE_COLUMNS}
          rows={data.data}
          keyOf={({ requestId, sinceMs, thread }) => `${thread} ${sinceMs} ${requestId}`}
          sortedBy="-Age"
          filterText={(row) =>
            `${row.requestId} ${PHASES[row.phase] ?? ''} ${row.endpoint} ${row.model ?? ''} ${row.account ?? ''} ${row.crn ?? ''}`
          }
          empty="No request is under way."
        />
      )}
    </Section>
  );
}

function Missing({ threads }: { readonly threads: number }): VNode {
  return <p class="note">{plural(threads, 'thread')} did not answer in time; the requests of others are shown.</p>;
}

function RequestLog(): VNode {
  const { query } = useStore(route);
  const filters = filtersOf(query).toString();
  const { error, last, more, refresh, rows } = useRequestLog(filters);
  const isOff = last?.size === 0;
  return (
    <Section
      title="Request log"
      id="log"
      actions={
        rows !== undefined &&
        rows.length > 0 && (
          <span class="actions">
            <button type="button" onClick={() => download('requests.jsonl', 'application/jsonl', printJsonLines(rows))}>
              Save JSONL
            </button>
            <button type="button" onClick={() => download('requests.csv', 'text/csv', csv(rows))}>
              Save CSV
            </button>
          </span>
        )
      }
    >
      <Filters query={query} />
      {error !== null && <Problem text={error} retry={refresh} />}
      {last !== null && last.missingThreads > 0 && <Missing threads={last.missingThreads} />}
      {rows === undefined ? (
        error === null && <Loading what="the request log" />
      ) : isOff ? (
        <Empty>
          The request log is off: <code>requestLog.size</code> is 0.
        </Empty>
      ) : (
        <Table
          id="log-requests"
          caption={captionOf(rows.length, last?.completeSinceMs ?? null, last?.size ?? 0)}
          showCaption
          columns={LOG_COLUMNS}
          rows={rows}
          keyOf={({ cursor }) => cursor}
          empty={filters === '' ? 'No request has ended since the gateway started.' : 'No request matches the filters.'}
          onMore={more ?? undefined}
        />
      )}
    </Section>
  );
}

function captionOf(count: number, sinceMs: number | null, size: number): string {
  const kept =
    sinceMs === null
      ? 'since the gateway started'
      : `since ${dateText(sinceMs)}; each thread keeps its last ${countText(size)}`;
  return `${plural(count, 'finished request')}, newest first; the log is complete ${kept}.`;
}

const STATUSES: readonly (readonly [value: string, name: string])[] = [
  ['', 'any'],
  ['error', 'failed or aborted'],
  ['2xx', '2xx'],
  ['4xx', '4xx'],
  ['5xx', '5xx'],
  ['401', '401'],
  ['402', '402'],
  ['404', '404'],
  ['429', '429'],
  ['499', '499'],
  ['503', '503'],
];

/** By which searches and pages are asked, beside their own endpoints. */
const TOOLS: readonly string[] = ['mcp', 'web_search', 'tavily', 'searxng', 'jina', 'firecrawl'];

const SLOWER: readonly string[] = ['500ms', '1s', '2s', '5s', '10s', '30s', '1m', '5m'];

function Filters({ query }: { readonly query: URLSearchParams }): VNode {
  const { overview } = useOverview();
  const models = overview?.models.map(({ model }) => model) ?? [];
  const crns = overview?.crns.map(({ url }) => url) ?? [];
  return (
    <form
      class="filters"
      role="search"
      aria-label="Request log"
      onSubmit={(event) => {
        event.preventDefault();
        // Enter in a text field: what it holds counts as it would when the field is left.
        if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
      }}
    >
      <TextFilter name="q" label="Search" query={query} placeholder="Id, name, code, trace" />
      <ChoiceFilter name="status" label="Status" query={query} choices={STATUSES} />
      <ChoiceFilter name="model" label="Model" query={query} choices={anyOf(models)} />
      <ChoiceFilter name="crn" label="CRN" query={query} choices={anyOf(crns)} />
      <TextFilter name="account" label="Account" query={query} />
      <TextFilter name="endpoint" label="Endpoint" query={query} placeholder="/v1/chat/completions" />
      <ChoiceFilter name="tool" label="Tool" query={query} choices={anyOf(TOOLS)} />
      <TextFilter name="code" label="Code" query={query} placeholder="HR_…" />
      <ChoiceFilter name="slowerThan" label="Slower than" query={query} choices={anyOf(SLOWER)} />
      {filtersOf(query).size > 0 && (
        <button type="button" onClick={() => navigate('/requests')}>
          Clear
        </button>
      )}
    </form>
  );
}

function anyOf(values: readonly string[]): readonly (readonly [string, string])[] {
  return [['', 'any'], ...values.map((value) => [value, value] as const)];
}

interface FilterProps {
  readonly name: string;
  readonly label: string;
  readonly query: URLSearchParams;
}

function TextFilter({ label, name, placeholder = '', query }: FilterProps & { readonly placeholder?: string }): VNode {
  const id = useId();
  const value = query.get(name) ?? '';
  return (
    <span>
      <label for={id}>{label}</label>
      <TextInput id={id} name={name} value={value} placeholder={placeholder} />
    </span>
  );
}

interface ChoiceProps extends FilterProps {
  readonly choices: readonly (readonly [value: string, name: string])[];
}

function ChoiceFilter({ choices, label, name, query }: ChoiceProps): VNode {
  const id = useId();
  const value = query.get(name) ?? '';
  const isKnown = choices.some(([each]) => each === value);
  return (
    <span>
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => setQuery(name, event.currentTarget.value)}>
        {[...choices, ...(isKnown ? [] : [[value, value] as const])].map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </span>
  );
}
