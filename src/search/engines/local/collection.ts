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

/** Each word of a query may be compared with all similar spellings in the index. */
const MAX_QUERY_WORDS = 32;

const TOLERANT: SearchOptions = {
  boost: { title: 3 },
  prefix: (term) => term.length >= 3,
  fuzzy: (term) => (term.length >= 5 ? 0.2 : false),
};

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

  constructor(settings: CollectionSettings) {
    this.#settings = settings;
  }

  /** Files that the limits left out at the last refresh. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** Reads new and changed files, removes deleted ones. Rejects, and changes nothing, when the folder cannot be read. */
  async refresh(): Promise<void> {
    const { files, leftOut } = await listFolder(this.#settings.path, this.#settings);
    this.#leftOut = leftOut;
    const listed = new Set(files.map((file) => file.path));
    for (const path of [...this.#files.keys()].filter((known) => !listed.has(known))) this.#forget(path);
    for (const file of files) {
      if (this.#files.get(file.path)?.version !== file.version) await this.#read(file);
    }
  }

  /** What was read of a file before is found until all of it has been read again. */
  async #read(file: FolderFile): Promise<void> {
    const content = await readText(file);
    const added: Indexed[] = [];
    if (content !== undefined) {
      for (const document of documents(file, content, this.#settings.baseUrl)) {
        const indexed = { ...document, id: this.#nextId++ };
        this.#index.add(indexed);
        added.push(indexed);
        await this.#yield(document.text.length);
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
    const text = [...new Set(words(query.query))].slice(0, MAX_QUERY_WORDS).join(' ');
    const carries = CARRIES[query.type];
    const isAllowed = createDomainFilter(query.filters);
    const first = firstOf(query);
    const last = first + query.maxResults;
    const filter = (result: SearchResult): boolean => {
      const document = this.#documents.get(result['id'] as number);
      return document !== undefined && carries(document.hit) && (isAllowed === null || isAllowed(document.hit.url));
    };
    const all = this.#index.search(text, { ...TOLERANT, combineWith: 'AND', filter });
    const some = all.length < last ? this.#index.search(text, { ...TOLERANT, combineWith: 'OR', filter }) : [];
    const results = new Map([...all, ...some].map((result) => [result['id'] as number, result]));
    return [...results.values()].slice(first, last).flatMap((result) => this.#toHit(result));
  }

  #toHit(result: SearchResult): EngineHit[] {
    const document = this.#documents.get(result['id'] as number);
    return document === undefined ? [] : [{ ...document.hit, snippet: snippet(document.text, new Set(result.terms)) }];
  }
}
