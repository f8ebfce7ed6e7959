// Search and fetch in the playground, as clients of the public API have them, or as an operator sees them: with what happened. Titles,
// snippets and pages are shown as text; links lead to http and https only.

import type { ComponentChildren, InputHTMLAttributes, VNode } from 'preact';
import type { ExplainedFetch } from '../../../api/fetch.ts';
import type { ExplainedSearch } from '../../../api/search.ts';
import type { PageAnswer } from '../../../fetch/index.ts';
import type { SearchAnswer } from '../../../search/index.ts';
import { CopyButton } from '../components/copy-button.tsx';
import { Page, Section } from '../components/page.tsx';
import { Empty, Problem } from '../components/states.tsx';
import { countText, latencyText, plural } from '../format.ts';
import { useOverview } from '../overview-poll.ts';
import { FetchExplained } from '../playground/explained-fetch.tsx';
import { SearchExplained } from '../playground/explained-search.tsx';
import { Tabs } from '../playground/shared.tsx';
import { Answered, AskedBy, SendButtons, useAsk, WebLink, wordsOf } from '../playground/tools.tsx';
import { route, useParameter } from '../router.ts';

const TYPES = ['web', 'news', 'images', 'academic'];
const RANGES = ['', 'day', 'week', 'month', 'year', 'days'];
const SAFETIES = ['', 'off', 'moderate', 'strict'];

type SearchResult = SearchAnswer['results'][number];

/** The body of the search that the address of the view describes; `engines`: all there are. */
function searchBody(engines: readonly string[]): object {
  const { query } = route.value;
  const text = (name: string): string => (query.get(name) ?? '').trim();
  const unwanted = new Set(wordsOf(text('without')));
  const chosen = engines.filter((engine) => !unwanted.has(engine));
  const given = (name: string, value: string | undefined): object =>
    value === undefined || value === '' ? {} : { [name]: value };
  const list = (name: string, values: readonly string[]): object => (values.length === 0 ? {} : { [name]: values });
  const range = text('time');
  const days = { ...given('from', text('from')), ...given('to', text('to')) };
  const contents = Number(text('contents'));
  return {
    query: query.get('q') ?? '',
    ...(engines.length > 0 && { engines: chosen }),
    max_results: Number(text('count') || '10'),
    search_type: text('kind') || 'web',
    ...(range === 'days' ? Object.keys(days).length > 0 && { time_range: days } : given('time_range', range)),
    ...list('include_domains', wordsOf(text('sites'))),
    ...list('exclude_domains', wordsOf(text('notsites'))),
    ...given('language', text('language')),
    ...given('country', text('country')),
    ...given('safe_search', text('safe')),
    ...(Number(text('page')) > 1 && { page: Number(text('page')) }),
    ...(contents > 0 && {
      content: {
        results: contents,
        ...(Number(text('chars')) > 0 && { max_chars: Number(text('chars')) }),
        format: text('format') || 'text',
      },
    }),
  };
}

interface FieldProps {
  readonly name: string;
  readonly label: string;
  readonly preset?: string;
  readonly type?: 'text' | 'search' | 'url' | 'number' | 'date';
  readonly placeholder?: string;
  readonly min?: number;
  readonly max?: number;
  readonly required?: boolean;
}

/** A field that is a parameter of the address. */
function Field({ label, name, preset = '', type = 'text', ...attributes }: FieldProps): VNode {
  const [value, set] = useParameter(name, preset);
  const given = { ...attributes, type } as InputHTMLAttributes<HTMLInputElement>;
  return (
    <label>
      {label}
      <input
        {...given}
        autocomplete="off"
        spellcheck={false}
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
}

interface SelectProps {
  readonly name: string;
  readonly label: string;
  readonly values: readonly string[];
  readonly preset?: string;
}

function Select({ label, name, preset = '', values }: SelectProps): VNode {
  const [value, set] = useParameter(name, preset);
  return (
    <label>
      {label}
      <select value={value} onChange={(event) => set(event.currentTarget.value)}>
        {values.map((each) => (
          <option key={each} value={each}>
            {each === '' ? 'any' : each}
          </option>
        ))}
      </select>
    </label>
  );
}

function Engines({ engines }: { readonly engines: readonly string[] }): VNode {
  const [text, set] = useParameter('without');
  const unwanted = new Set(wordsOf(text));
  const toggle = (engine: string): void => {
    if (!unwanted.delete(engine)) unwanted.add(engine);
    set([...unwanted].join(','));
  };
  return (
    <fieldset>
      <legend>Engines</legend>
      {engines.length === 0 && <p class="quiet">The engines of the setting search.default are asked.</p>}
      {engines.map((engine) => (
        <label class="check" key={engine}>
          <input type="checkbox" checked={!unwanted.has(engine)} onChange={() => toggle(engine)} />
          {engine}
        </label>
      ))}
    </fieldset>
  );
}

export function PlaygroundSearchView(): VNode {
  const { overview } = useOverview();
  const { isRunning, send, sent, stop } = useAsk<SearchAnswer, ExplainedSearch>('/search', '/playground/search');
  const [range] = useParameter('time');
  const engines = (overview?.engines ?? []).map(({ engine }) => engine);
  return (
    <Page title="Playground" actions={<Tabs at="/playground/search" />}>
      <div class="playground">
        <form
          class="request"
          aria-label="Search"
          onSubmit={(event) => {
            event.preventDefault();
            send(searchBody(engines));
          }}
        >
          <AskedBy />
          <Field name="q" label="Search for" type="search" required />
          <Engines engines={engines} />
          <div class="numbers">
            <Select name="kind" label="Kind" preset="web" values={TYPES} />
            <Field name="count" label="Most results" type="number" preset="10" min={1} max={100} />
            <Field name="page" label="Page" type="number" preset="1" min={1} max={10} />
          </div>
          <details>
            <summary>Filters</summary>
            <Select name="time" label="Published within" values={RANGES} />
            {range === 'days' && (
              <div class="numbers">
                <Field name="from" label="From" type="date" />
                <Field name="to" label="To" type="date" />
              </div>
            )}
            <Field name="sites" label="Only these sites" placeholder="example.com, example.org" />
            <Field name="notsites" label="Not these sites" />
            <div class="numbers">
              <Field name="language" label="Language" placeholder="en" />
              <Field name="country" label="Country" placeholder="DE" />
            </div>
            <Select name="safe" label="Safe search" values={SAFETIES} />
          </details>
          <details>
            <summary>Content of the best results</summary>
            <div class="numbers">
              <Field name="contents" label="Results" type="number" preset="0" min={0} max={10} />
              <Field name="chars" label="Most characters" type="number" min={1} />
            </div>
            <Select name="format" label="Format" preset="text" values={['text', 'markdown']} />
          </details>
          <SendButtons verb="Search" isRunning={isRunning} stop={stop} />
        </form>
        <Answered what="the results" sent={sent} isRunning={isRunning} path="/search">
          {sent?.value != null && <Results answer={sent.value} />}
          {sent?.explained != null && <SearchExplained explained={sent.explained} />}
        </Answered>
      </div>
    </Page>
  );
}

function Results({ answer: { meta, results } }: { readonly answer: SearchAnswer }): VNode {
  return (
    <Section title={`${plural(results.length, 'result')} in ${latencyText(meta.duration_ms)}`}>
      {meta.engine_errors.map(({ engine, reason }) => (
        <Problem key={engine} text={`${engine}: ${reason}`} />
      ))}
      {results.length === 0 && <Empty>No engine has found anything.</Empty>}
      <ol class="results">
        {results.map((result, index) => (
          <li key={index}>
            <Result result={result} />
          </li>
        ))}
      </ol>
    </Section>
  );
}

function Result({ result }: { readonly result: SearchResult }): VNode {
  const { content, engine, found_in: foundIn, published_at: published, rank, snippet, source, title, url } = result;
  return (
    <>
      <h3>
        <WebLink url={url}>{title === '' ? url : title}</WebLink>
      </h3>
      <p class="address">{url}</p>
      <p class="said">{snippet}</p>
      <p class="quiet">
        {`Place ${countText(rank)} of ${engine}; found in ${foundIn.join(', ')}`}
        {source !== undefined && `; ${source}`}
        {published !== undefined && `; ${published}`}
      </p>
      {content !== undefined && (
        <details>
          <summary>{plural(result.word_count ?? 0, 'word')}</summary>
          <p class="said">{content}</p>
        </details>
      )}
      {result.content_error !== undefined && <Problem text={`No text: ${result.content_error}`} />}
    </>
  );
}

/** The body of the fetch that the address of the view describes. */
function fetchBody(): object {
  const { query } = route.value;
  const number = (name: string): number | null => {
    const text = (query.get(name) ?? '').trim();
    return text === '' ? null : Number(text);
  };
  const [most, start, age] = [number('chars'), number('start'), number('age')];
  return {
    url: query.get('url') ?? '',
    format: query.get('format') ?? 'markdown',
    ...(query.get('metadata') === 'yes' && { include: ['metadata'] }),
    ...(most !== null && { max_chars: most }),
    ...(start !== null && { start }),
    ...(age !== null && { max_age: age }),
    ...(query.get('links') === 'yes' && { links: true }),
    ...(query.get('images') === 'yes' && { images: true }),
  };
}

function Check({ label, name }: { readonly name: string; readonly label: string }): VNode {
  const [value, set] = useParameter(name);
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={value === 'yes'}
        onChange={(event) => set(event.currentTarget.checked ? 'yes' : '')}
      />
      {label}
    </label>
  );
}

export function PlaygroundFetchView(): VNode {
  const asking = useAsk<PageAnswer, ExplainedFetch>('/search/fetch', '/playground/fetch');
  const { asOperator, isRunning, send, sent, stop } = asking;
  const page = sent?.value ?? sent?.explained?.answer ?? null;
  return (
    <Page title="Playground" actions={<Tabs at="/playground/fetch" />}>
      <div class={asOperator ? 'playground wide' : 'playground'}>
        <form
          class="request"
          aria-label="Fetch"
          onSubmit={(event) => {
            event.preventDefault();
            send(fetchBody());
          }}
        >
          <AskedBy />
          <Field name="url" label="Address of the page" type="url" required placeholder="https://…" />
          <Select name="format" label="Format" preset="markdown" values={['markdown', 'text', 'html']} />
          <fieldset>
            <legend>With</legend>
            <Check name="metadata" label="Metadata" />
            <Check name="links" label="Links" />
            <Check name="images" label="Images" />
          </fieldset>
          <details>
            <summary>Parts and freshness</summary>
            <div class="numbers">
              <Field name="chars" label="Most characters" type="number" min={1} />
              <Field name="start" label="From character" type="number" min={0} />
            </div>
            <Field name="age" label="At most this old, seconds" type="number" min={0} />
          </details>
          <SendButtons verb="Fetch" isRunning={isRunning} stop={stop} />
        </form>
        <Answered what="the page" sent={sent} isRunning={isRunning} path="/search/fetch">
          {sent?.value != null && <FetchedPage page={sent.value} />}
          {sent?.explained != null && <FetchExplained explained={sent.explained} />}
          {page !== null && <Extras page={page} />}
        </Answered>
      </div>
    </Page>
  );
}

function FetchedPage({ page }: { readonly page: PageAnswer }): VNode {
  const { content, title, url, word_count: words } = page;
  return (
    <Section
      title={title === '' ? 'A page without a title' : title}
      actions={<CopyButton text={content} what="text" />}
    >
      <p class="address">
        <WebLink url={url}>{url}</WebLink>, {plural(words, 'word')}
      </p>
      <pre class="page" tabIndex={0}>
        {content}
      </pre>
    </Section>
  );
}

/** Fields of an answer that have a place of their own. */
const OWN = new Set(['url', 'title', 'content', 'word_count', 'links', 'images', 'metadata']);

/** What a page says of itself, and the lists of an answer. */
function Extras({ page }: { readonly page: PageAnswer }): VNode {
  const { images, links, metadata, ...fields } = page as PageAnswer & { readonly images?: readonly unknown[] };
  const flat = Object.fromEntries(Object.entries(fields).filter(([name]) => !OWN.has(name)));
  const about = { ...flat, ...metadata };
  return (
    <>
      {Object.keys(about).length > 0 && <Folded title="Metadata">{JSON.stringify(about, null, 2)}</Folded>}
      {links !== undefined && <Folded title={plural(links.length, 'link')}>{JSON.stringify(links, null, 2)}</Folded>}
      {images !== undefined && (
        <Folded title={plural(images.length, 'image')}>{JSON.stringify(images, null, 2)}</Folded>
      )}
    </>
  );
}

function Folded({ children, title }: { readonly title: string; readonly children: ComponentChildren }): VNode {
  return (
    <details>
      <summary>{title}</summary>
      <pre tabIndex={0}>{children}</pre>
    </details>
  );
}
