// Engine kind `arxiv`: preprints from the arXiv API, which answers with Atom feeds. An error is a feed of one entry, with
// status 200.

import { Parser } from 'htmlparser2';
import { asCount, asText, nextOffset, refuse, span } from '../engine-response.ts';
import { isoDate } from '../dates.ts';
import { EngineError, type EnginePage, type EngineQuery, type EngineRequest, type HttpEngine } from '../engine.ts';
import { appliedFilters, WORK_FILTERS } from '../filter-plan.ts';
import { hits } from '../hit.ts';

export interface ArxivSettings {
  /** Base URL. Default `https://export.arxiv.org`. */
  readonly url?: string;
}

const MAX_COUNT = 100;
/** No Atom feed is deeper. The parser's cost grows with the square of the depth. */
const MAX_DEPTH = 64;
/** Of one element. A million of them take seconds. */
const MAX_ATTRIBUTES = 100;

/** Days that the API needs where a range is open. */
const FIRST_DAY = '1990-01-01';
const LAST_DAY = '2100-12-31';

/** The query of the API, with the days of the first version where they are asked for. */
function searchQuery(query: EngineQuery): string {
  const text = `all:${terms(query.query)}`;
  if (appliedFilters(WORK_FILTERS, query).timeRange === undefined) return text;
  const { from = FIRST_DAY, to = LAST_DAY } = query.dates ?? {};
  const [first, last] = [from, to].map((day) => day.replaceAll('-', ''));
  return `(${text}) AND submittedDate:[${first}0000 TO ${last}2359]`;
}

/** One request at a time and one in three seconds, by arXiv's terms of use. */
export function arxiv({ url = 'https://export.arxiv.org' }: ArxivSettings = {}): HttpEngine {
  return {
    kind: 'arxiv',
    documentation: 'https://info.arxiv.org/help/api/user-manual.html',
    types: ['academic'],
    concurrency: 1,
    rates: [{ requests: 1, perMs: 3000 }],
    filters: WORK_FILTERS,
    request(query, state): EngineRequest {
      const { offset, count } = span(query, state, MAX_COUNT);
      const parameters = new URLSearchParams({
        search_query: searchQuery(query),
        start: String(offset),
        max_results: String(count),
        sortBy: 'relevance',
        sortOrder: 'descending',
      });
      return {
        method: 'GET',
        url: `${url}/api/query?${parameters.toString()}`,
        headers: { accept: 'application/atom+xml' },
      };
    },
    parse(response, context): EnginePage {
      refuse(response);
      const body = response.body.toString('utf8');
      if (/^\s*Rate exceeded/i.test(body)) throw new EngineError('rate limited');
      const { entries, total } = readFeed(body);
      const found = hits(entries, (entry) => ({
        title: entry['title'],
        url: entry['url'],
        snippet: entry['snippet'],
        publishedAt: isoDate(entry['publishedAt'], context.nowMs),
        source: 'arXiv',
        doi: entry['doi'],
        authors: asText(entry['authors']).split('\n'),
        venue: entry['venue'] ?? 'arXiv',
        // Every paper can be read free of charge.
        openAccessUrl: pdfUrl(asText(entry['url'])),
      }));
      const received = { results: entries.length, hits: found, reachable: total };
      return { hits: found, next: nextOffset(context, MAX_COUNT, received) };
    },
  };
}

function pdfUrl(url: string): string {
  return url.includes('/abs/') ? url.replace('/abs/', '/pdf/') : '';
}

/** The query's words without the operators, fields and quotes of the API's query language. */
function terms(query: string): string {
  return query
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}.'-]+/gu, ' ')
    .replace(/(^|\s)[-.']+/g, '$1')
    .trim();
}

type Entry = Readonly<Record<string, string>>;

/** Elements of an entry and the fields of a hit that they become. */
const FIELDS: Readonly<Record<string, string>> = {
  id: 'url',
  title: 'title',
  summary: 'snippet',
  published: 'publishedAt',
  'arxiv:doi': 'doi',
  'arxiv:journal_ref': 'venue',
};

/** Far more than a hit takes. */
const MAX_AUTHORS_LENGTH = 20_000;

/** Throws `EngineError`: `invalid` for anything but a feed, `rejected` for the feed of an error. */
function readFeed(xml: string): { readonly entries: readonly Entry[]; readonly total: number | undefined } {
  const feed = new Feed();
  // Entities stay encoded: `hit` decodes them.
  new Parser(feed, { xmlMode: true, decodeEntities: false }).end(xml);
  if (!feed.isFeed) throw new EngineError('invalid');
  if (feed.entries.some((entry) => entry['url']?.includes('/api/errors'))) throw new EngineError('rejected');
  return { entries: feed.entries, total: asCount(feed.total) };
}

class Feed {
  isFeed = false;
  total = '';
  readonly entries: Record<string, string>[] = [];
  readonly #path: string[] = [];
  #isNewName = false;
  /** Attributes of the element being read. */
  #attributes = 0;

  onopentagname(): void {
    this.#attributes = 0;
  }

  onattribute(): void {
    if (++this.#attributes > MAX_ATTRIBUTES) throw new EngineError('invalid');
  }

  onopentag(name: string): void {
    this.#path.push(name);
    if (this.#path.length > MAX_DEPTH) throw new EngineError('invalid');
    if (this.#path.join('/') === 'feed') this.isFeed = true;
    if (this.#path.join('/') === 'feed/entry') this.entries.push({});
    if (this.#path.join('/') === 'feed/entry/author') this.#isNewName = true;
  }

  onclosetag(): void {
    this.#path.pop();
  }

  ontext(data: string): void {
    const [root, parent, child, ...deeper] = this.#path;
    if (root === 'feed' && parent === 'entry' && child === 'author' && deeper.join('/') === 'name') this.#addName(data);
    if (root !== 'feed' || deeper.length > 0) return;
    if (parent === 'opensearch:totalResults') this.total += data;
    const field = parent === 'entry' && child !== undefined ? FIELDS[child] : undefined;
    const entry = this.entries.at(-1);
    if (field !== undefined && entry !== undefined) entry[field] = (entry[field] ?? '') + data;
  }

  /** Adds text to the names of the authors, which have a line each. */
  #addName(data: string): void {
    const entry = this.entries.at(-1);
    const names = entry?.['authors'];
    if (entry === undefined || (names?.length ?? 0) > MAX_AUTHORS_LENGTH) return;
    const text = data.replaceAll('\n', ' ');
    entry['authors'] = names === undefined ? text : this.#isNewName ? `${names}\n${text}` : names + text;
    this.#isNewName = false;
  }
}
