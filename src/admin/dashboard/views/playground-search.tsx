// Search and fetch in the playground, as clients of the public API have them. Titles, snippets and pages are shown as text; links
// lead to http and https only.

import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { PageAnswer } from '../../../fetch/index.ts';
import type { SearchAnswer } from '../../../search/index.ts';
import { CopyButton } from '../components/copy-button.tsx';
import { Page, Section } from '../components/page.tsx';
import { Empty, Loading, Problem } from '../components/states.tsx';
import { countText, latencyText, plural } from '../format.ts';
import { useOverview } from '../overview-poll.ts';
import { type Asked, ask, KeyField, OutcomeFacts, Tabs } from '../playground/shared.tsx';

const TYPES = ['web', 'news', 'images', 'academic'] as const;

type SearchResult = SearchAnswer['results'][number];

interface Sent<T> extends Asked<T> {
  readonly body: object;
}

/** Sends one request at a time; the one before is aborted. */
function useAsk<T>(path: string): {
  sent: Sent<T> | null;
  isRunning: boolean;
  send: (body: object) => void;
  stop: () => void;
} {
  const [sent, setSent] = useState<Sent<T> | null>(null);
  const [isRunning, setRunning] = useState(false);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const stop = (): void => {
    abort.current?.abort();
    abort.current = null;
    setRunning(false);
  };
  const send = (body: object): void => {
    abort.current?.abort();
    const own = new AbortController();
    abort.current = own;
    setRunning(true);
    ask<T>(path, body, own.signal).then(
      (asked) => {
        setSent({ ...asked, body });
        setRunning(false);
      },
      // A later request has taken its place.
      () => undefined,
    );
  };
  return { sent, isRunning, send, stop };
}

export function PlaygroundSearchView(): VNode {
  const { overview } = useOverview();
  const { isRunning, send, sent, stop } = useAsk<SearchAnswer>('/playground/search');
  const [query, setQuery] = useState('');
  const [unwanted, setUnwanted] = useState<ReadonlySet<string>>(new Set());
  const [count, setCount] = useState('10');
  const [type, setType] = useState<(typeof TYPES)[number]>('web');
  const engines = (overview?.engines ?? []).map(({ engine }) => engine);
  const chosen = engines.filter((engine) => !unwanted.has(engine));
  const toggle = (engine: string): void => {
    const next = new Set(unwanted);
    if (!next.delete(engine)) next.add(engine);
    setUnwanted(next);
  };
  return (
    <Page title="Playground" actions={<Tabs at="/playground/search" />}>
      <div class="playground">
        <form
          class="request"
          aria-label="Search"
          onSubmit={(event) => {
            event.preventDefault();
            send({
              query,
              ...(engines.length > 0 && { engines: chosen }),
              max_results: Number(count),
              search_type: type,
            });
          }}
        >
          <KeyField />
          <label>
            Search for
            <input type="search" required value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
          </label>
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
          <div class="numbers">
            <label>
              Kind
              <select value={type} onChange={(event) => setType(event.currentTarget.value as typeof type)}>
                {TYPES.map((each) => (
                  <option key={each}>{each}</option>
                ))}
              </select>
            </label>
            <label>
              Most results
              <input
                type="number"
                min={1}
                max={100}
                value={count}
                onInput={(event) => setCount(event.currentTarget.value)}
              />
            </label>
          </div>
          <SendButtons verb="Search" isRunning={isRunning} stop={stop} />
        </form>
        <Answered what="the results" sent={sent} isRunning={isRunning} path="/search">
          {sent?.value != null && <Results answer={sent.value} />}
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
  const { engine, found_in: foundIn, published_at: published, rank, snippet, source, title, url } = result;
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
    </>
  );
}

/** A link to a page on the web; text where the address is of another kind, such as a script. */
function WebLink({ children, url }: { readonly url: string; readonly children: ComponentChildren }): VNode {
  if (!/^https?:\/\//i.test(url)) return <>{children}</>;
  return (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

export function PlaygroundFetchView(): VNode {
  const { isRunning, send, sent, stop } = useAsk<PageAnswer>('/playground/fetch');
  const [url, setUrl] = useState('');
  const [format, setFormat] = useState('markdown');
  const [extras, setExtras] = useState(false);
  return (
    <Page title="Playground" actions={<Tabs at="/playground/fetch" />}>
      <div class="playground">
        <form
          class="request"
          aria-label="Fetch"
          onSubmit={(event) => {
            event.preventDefault();
            send({ url, format, include: extras ? ['links', 'metadata'] : [] });
          }}
        >
          <KeyField />
          <label>
            Address of the page
            <input
              type="url"
              required
              placeholder="https://…"
              value={url}
              onInput={(event) => setUrl(event.currentTarget.value)}
            />
          </label>
          <label>
            Format
            <select value={format} onChange={(event) => setFormat(event.currentTarget.value)}>
              <option>markdown</option>
              <option>text</option>
              <option>html</option>
            </select>
          </label>
          <label class="check">
            <input type="checkbox" checked={extras} onChange={(event) => setExtras(event.currentTarget.checked)} />
            Links and metadata
          </label>
          <SendButtons verb="Fetch" isRunning={isRunning} stop={stop} />
        </form>
        <Answered what="the page" sent={sent} isRunning={isRunning} path="/search/fetch">
          {sent?.value != null && <FetchedPage page={sent.value} />}
        </Answered>
      </div>
    </Page>
  );
}

function FetchedPage({ page }: { readonly page: PageAnswer }): VNode {
  const { content, links, metadata, title, url, word_count: words } = page;
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
      {metadata !== undefined && (
        <details>
          <summary>Metadata</summary>
          <pre tabIndex={0}>{JSON.stringify(metadata, null, 2)}</pre>
        </details>
      )}
      {links !== undefined && (
        <details>
          <summary>{plural(links.length, 'link')}</summary>
          <pre tabIndex={0}>{JSON.stringify(links, null, 2)}</pre>
        </details>
      )}
    </Section>
  );
}

function SendButtons({
  isRunning,
  stop,
  verb,
}: {
  readonly verb: string;
  readonly isRunning: boolean;
  readonly stop: () => void;
}): VNode {
  return (
    <div class="composer-actions">
      <button type="submit" class="main" disabled={isRunning}>
        {verb}
      </button>
      {isRunning && (
        <button type="button" onClick={stop}>
          Stop
        </button>
      )}
    </div>
  );
}

interface AnsweredProps<T> {
  readonly what: string;
  readonly sent: Sent<T> | null;
  readonly isRunning: boolean;
  readonly path: string;
  readonly children: ComponentChildren;
}

function Answered<T>({ children, isRunning, path, sent, what }: AnsweredProps<T>): VNode {
  return (
    <div class="conversation">
      {isRunning && <Loading what={what} />}
      {!isRunning && sent === null && <Empty>Nothing was asked yet.</Empty>}
      {!isRunning && sent !== null && (
        <>
          {sent.problem !== null && <Problem text={sent.problem} />}
          {children}
          {sent.outcome !== null && <OutcomeFacts outcome={sent.outcome} path={path} body={sent.body} />}
        </>
      )}
    </div>
  );
}
