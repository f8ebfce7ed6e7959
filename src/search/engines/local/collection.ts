// Full-text index of the documents of one folder: `refresh` brings it up to date, `find` searches it. The index changes
// during a refresh only.

import MiniSearch, { type SearchOptions, type SearchResult } from 'minisearch';
import type { EngineHit, EngineQuery, SearchType } from '../../engine.ts';
import { firstOf } from '../../engine-response.ts';
import { createDomainFilter } from '../../filter-plan.ts';
import { documents, type LocalDocument } from './documents.ts';
import { listFolder, readText, type FolderFile, type FolderLimits } from './folder.ts';
import { snippet } from './snippet.ts';
import { fold, words } from './words.ts';

export interface CollectionSettings extends FolderLimits {
  readonly path: string;
  /** Ends with a slash. */
  readonly baseUrl: string;
}

interface Indexed extends LocalDocument {
  readonly id: number;
}

interface KnownFile {
  readonly version: string;
  readonly ids: readonly number[];
}

/** Characters indexed before yielding to the event loop: about 10 ms. */
const SLICE_CHARACTERS = 50_000;
/** What a document, or a line without one, costs beside its text. */
const DOCUMENT_CHARACTERS = 100;

/** Each word of a query may be compared with all similar spellings in the index. */
const MAX_QUERY_WORDS = 32;

/** With more than two slips, a word of a query is compared with most words of the index: of 200,000, in 120 ms instead of 8. */
const TOLERANT = {
  boost: { title: 3 },
  prefix: (term: string): boolean => term.length >= 3,
  fuzzy: (term: string): number | false => (term.length >= 5 ? 0.2 : false),
  maxFuzzy: 2,
  combineWith: 'OR',
} satisfies SearchOptions;

const CARRIES: Readonly<Record<SearchType, (hit: EngineHit) => boolean>> = {
  web: () => true,
  academic: () => true,
  news: (hit) => hit.publishedAt !== undefined,
  images: (hit) => hit.imageUrl !== undefined,
};

export class Collection {
  readonly #settings: CollectionSettings;
  readonly #index: MiniSearch<Indexed> = new MiniSearch<Indexed>({
    fields: ['title', 'text'],
    extractField: (document, field) => {
      if (field === 'id') return document.id;
      return field === 'title' ? document.hit.title : document.text;
    },
    tokenize: words,
    processTerm: fold,
  });
  readonly #documents = new Map<number, Indexed>();
  readonly #files = new Map<string, KnownFile>();
  #nextId = 0;
  #unyielded = 0;
  #leftOut = 0;
  #isClosed = false;

  constructor(settings: CollectionSettings) {
    this.#settings = settings;
  }

  /** Files that the limits left out at the last refresh. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** Ends a refresh under way before the next document. */
  close(): void {
    this.#isClosed = true;
  }

  /** Reads new and changed files, removes deleted ones. Rejects, and changes nothing, when the folder cannot be read. */
  async refresh(): Promise<void> {
    const { files, leftOut } = await listFolder(this.#settings.path, this.#settings);
    this.#leftOut = leftOut;
    const listed = new Set(files.map((file) => file.path));
    for (const path of [...this.#files.keys()].filter((known) => !listed.has(known))) this.#forget(path);
    for (const file of files) {
      if (this.#isClosed) return;
      if (this.#files.get(file.path)?.version !== file.version) await this.#read(file);
    }
  }

  /** What was read of a file before is found until all of it has been read again. */
  async #read(file: FolderFile): Promise<void> {
    const content = await readText(file);
    const added: Indexed[] = [];
    if (content !== undefined) {
      for (const document of documents(file, content, this.#settings.baseUrl)) {
        if (document !== undefined) {
          const indexed = { ...document, id: this.#nextId++ };
          this.#index.add(indexed);
          added.push(indexed);
        }
        await this.#yield(DOCUMENT_CHARACTERS + (document?.text.length ?? 0));
        if (this.#isClosed) return;
      }
    }
    this.#forget(file.path);
    if (content === undefined) return;
    for (const indexed of added) this.#documents.set(indexed.id, indexed);
    this.#files.set(file.path, { version: file.version, ids: added.map(({ id }) => id) });
  }

  #forget(path: string): void {
    for (const id of this.#files.get(path)?.ids ?? []) {
      this.#index.discard(id);
      this.#documents.delete(id);
    }
    this.#files.delete(path);
  }

  async #yield(characters: number): Promise<void> {
    this.#unyielded += characters;
    if (this.#unyielded < SLICE_CHARACTERS) return;
    this.#unyielded = 0;
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** The best hits: those with every word of the query, then those with some. Never more than `maxResults`, and none of other domains. */
  find(query: EngineQuery): EngineHit[] {
    const written = new Map(words(query.query).map((word) => [fold(word), word]));
    written.delete(null);
    const asked = [...written.values()].slice(0, MAX_QUERY_WORDS);
    const carries = CARRIES[query.type];
    const isAllowed = createDomainFilter(query.filters);
    const first = firstOf(query);
    const filter = (result: SearchResult): boolean => {
      const document = this.#documents.get(result['id'] as number);
      return document !== undefined && carries(document.hit) && (isAllowed === null || isAllowed(document.hit.url));
    };
    const results = this.#index.search(asked.join(' '), { ...TOLERANT, filter });
    const hasAll = ({ queryTerms }: SearchResult): number => (queryTerms.length === asked.length ? 1 : 0);
    results.sort((a, b) => hasAll(b) - hasAll(a));
    return results.slice(first, first + query.maxResults).flatMap((result) => this.#toHit(result));
  }

  #toHit(result: SearchResult): EngineHit[] {
    const document = this.#documents.get(result['id'] as number);
    return document === undefined ? [] : [{ ...document.hit, snippet: snippet(document.text, new Set(result.terms)) }];
  }
}
