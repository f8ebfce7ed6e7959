// Engine kind `duckduckgo`: web results from the page for browsers without scripts. It is no API, and challenge pages are
// frequent. The next page is requested with the hidden fields of the page's form, which are bound to query and user agent.

import { decodeHTMLAttribute } from 'entities';
import { Parser } from 'htmlparser2';
import { refuse, wantsMore } from '../engine-response.ts';
import {
  EngineError,
  type EngineFilters,
  type EnginePage,
  type EngineQuery,
  type EngineRequest,
  type HttpEngine,
} from '../engine.ts';
import { appliedFilters } from '../filter-plan.ts';
import type { DateRange, SearchFilters } from '../filters.ts';
import { hits } from '../hit.ts';
import { withSites } from './site-operators.ts';

export interface DuckduckgoSettings {
  /** Region such as `us-en`. Default `wt-wt`, all of them. */
  readonly region?: string;
  /** Default names this program. */
  readonly userAgent?: string;
  /** Base URL. Default `https://html.duckduckgo.com`. */
  readonly url?: string;
}

/** Longer queries are refused. */
const MAX_QUERY_LENGTH = 499;
/** The limit of browsers. The parser's cost grows with the square of the depth. */
const MAX_DEPTH = 512;
/** Of one element. A million of them take seconds. */
const MAX_ATTRIBUTES = 1000;

/** Regions of the service by country: the first language is that of a search without one. Its codes of three are its own. */
const REGIONS: Readonly<Record<string, readonly string[]>> = {
  AR: ['ar-es'],
  AT: ['at-de'],
  AU: ['au-en'],
  BE: ['be-nl', 'be-fr'],
  BG: ['bg-bg'],
  BR: ['br-pt'],
  CA: ['ca-en', 'ca-fr'],
  CH: ['ch-de', 'ch-fr', 'ch-it'],
  CL: ['cl-es'],
  CN: ['cn-zh'],
  CO: ['co-es'],
  CZ: ['cz-cs'],
  DE: ['de-de'],
  DK: ['dk-da'],
  EE: ['ee-et'],
  ES: ['es-es', 'ct-ca'],
  FI: ['fi-fi'],
  FR: ['fr-fr'],
  GB: ['uk-en'],
  GR: ['gr-el'],
  HK: ['hk-tzh'],
  HR: ['hr-hr'],
  HU: ['hu-hu'],
  ID: ['id-id', 'id-en'],
  IE: ['ie-en'],
  IL: ['il-he'],
  IN: ['in-en'],
  IT: ['it-it'],
  JP: ['jp-jp'],
  KR: ['kr-kr'],
  LT: ['lt-lt'],
  LV: ['lv-lv'],
  MX: ['mx-es'],
  MY: ['my-ms', 'my-en'],
  NL: ['nl-nl'],
  NO: ['no-no'],
  NZ: ['nz-en'],
  PE: ['pe-es'],
  PH: ['ph-en', 'ph-tl'],
  PL: ['pl-pl'],
  PT: ['pt-pt'],
  RO: ['ro-ro'],
  RU: ['ru-ru'],
  SE: ['se-sv'],
  SG: ['sg-en'],
  SI: ['sl-sl'],
  SK: ['sk-sk'],
  TH: ['th-th'],
  TR: ['tr-tr'],
  TW: ['tw-tzh'],
  UA: ['ua-uk'],
  US: ['us-en', 'ue-es'],
  VE: ['ve-es'],
  VN: ['vn-vi'],
  ZA: ['za-en'],
};

/** Languages whose code in a region is not that of ISO 639-1. */
const OWN_LANGUAGES: Readonly<Record<string, string>> = { jp: 'ja', kr: 'ko', tzh: 'zh' };

function languageOf(region: string): string {
  const own = region.slice(region.indexOf('-') + 1);
  return OWN_LANGUAGES[own] ?? own;
}

const FILTERS: EngineFilters = {
  timeRange: {},
  includeDomains: { most: 1 },
  excludeDomains: { most: 5 },
  language: {
    needs: 'country',
    values: Object.entries(REGIONS).flatMap(([country, regions]) =>
      regions.map((region) => `${languageOf(region)}-${country}`),
    ),
  },
  country: { values: Object.keys(REGIONS) },
  safeSearch: {},
};

const ALL_REGIONS = 'wt-wt';

const RECENT = { day: 'd', week: 'w', month: 'm', year: 'y' } as const;
const SAFE = { off: '-2', moderate: '-1', strict: '1' } as const;

/** Days where a range is open. */
const FIRST_DAY = '1970-01-01';
const LAST_DAY = '2100-12-31';

function period(timeRange: NonNullable<SearchFilters['timeRange']>, { from, to }: DateRange = {}): string {
  return typeof timeRange === 'string' ? RECENT[timeRange] : `${from ?? FIRST_DAY}..${to ?? LAST_DAY}`;
}

function regionOf({ country, language }: SearchFilters): string | undefined {
  const regions = country === undefined ? [] : (REGIONS[country] ?? []);
  return regions.find((region) => languageOf(region) === language) ?? regions[0];
}

/** The fields of the first form. */
function formOf(query: EngineQuery, region: string): Readonly<Record<string, string>> {
  const filters = appliedFilters(FILTERS, query);
  return {
    q: plainQuery(query.query, filters),
    b: '',
    kl: regionOf(filters) ?? (query.filters?.country === undefined ? region : ALL_REGIONS),
    ...(filters.timeRange !== undefined && { df: period(filters.timeRange, query.dates) }),
    ...(filters.safeSearch !== undefined && { kp: SAFE[filters.safeSearch] }),
  };
}

/** One request at a time: several at once are challenged. */
export function duckduckgo(settings: DuckduckgoSettings = {}): HttpEngine {
  const { region = ALL_REGIONS, userAgent = 'Mozilla/5.0 (compatible; headrace)' } = settings;
  const url = settings.url ?? 'https://html.duckduckgo.com';
  return {
    kind: 'duckduckgo',
    documentation: 'https://duckduckgo.com/duckduckgo-help-pages/features/non-javascript',
    types: ['web'],
    concurrency: 1,
    filters: FILTERS,
    request(query, state): EngineRequest {
      return {
        method: 'POST',
        url: `${url}/html/`,
        headers: {
          accept: 'text/html',
          'content-type': 'application/x-www-form-urlencoded',
          referer: `${url}/`,
          'user-agent': userAgent,
        },
        body: new URLSearchParams(isFields(state) ? state : formOf(query, region)).toString(),
      };
    },
    parse(response, context): EnginePage {
      refuse(response);
      const page = new ResultPage();
      // Entities stay encoded: `hit` decodes them.
      new Parser(page, { decodeEntities: false }).end(response.body.toString('utf8'));
      if (page.isChallenge || (response.status !== 200 && page.results.length === 0))
        throw new EngineError('challenge');
      if (!page.isResultPage) throw new EngineError('invalid');
      const found = hits(page.results, (result) => ({ ...result, url: target(String(result['url']), url) }));
      return { hits: found, next: found.length > 0 && wantsMore(context, found) ? page.next : undefined };
    },
  };
}

/** Bangs and a leading backslash would send the request to another site. */
function plainQuery(query: string, filters: SearchFilters): string {
  const plain = query.replace(/(^|\s)!+(?=\S)/g, '$1').replace(/^\s*\\+/, '');
  const whole = withSites(plain, filters);
  // Domains are applied to the hits, too.
  return whole.length <= MAX_QUERY_LENGTH ? whole : plain.slice(0, MAX_QUERY_LENGTH);
}

function isFields(state: unknown): state is Record<string, string> {
  return typeof state === 'object' && state !== null;
}

/** The target of the service's redirect; '' for advertisements and links within the page. */
function target(href: string, base: string): string {
  const url = /^(?:https?:)?\/\//i.test(href) ? URL.parse(href, base) : null;
  if (url === null || url.pathname === '/y.js') return '';
  return url.pathname === '/l/' ? (url.searchParams.get('uddg') ?? '') : url.href;
}

interface Result {
  title: string;
  url: string;
  snippet: string;
  isAd: boolean;
}

/** Collects results and the form of the next page while the page is parsed. */
class ResultPage {
  isChallenge = false;
  isResultPage = false;
  /** Fields of the form behind "Next". */
  next: Record<string, string> | undefined;
  readonly #results: Result[] = [];
  /** Of the block being read; undefined until its link was. */
  #current: Result | undefined;
  /** The text being read and the depth of the element it belongs to. */
  #reading: { readonly field: 'title' | 'snippet'; readonly depth: number } | undefined;
  #isAd = false;
  #fields: Record<string, string> = {};
  #isNextForm = false;
  #depth = 0;
  /** Attributes of the element being read. */
  #attributes = 0;

  get results(): readonly Readonly<Record<string, unknown>>[] {
    return this.#results.filter((result) => !result.isAd).map((result) => ({ ...result }));
  }

  onopentagname(): void {
    this.#attributes = 0;
  }

  onattribute(): void {
    if (++this.#attributes > MAX_ATTRIBUTES) throw new EngineError('invalid');
  }

  onopentag(name: string, attributes: Readonly<Record<string, string>>): void {
    this.#depth++;
    if (this.#depth > MAX_DEPTH) throw new EngineError('invalid');
    const classes = new Set((attributes['class'] ?? '').split(/\s+/));
    const id = attributes['id'];
    if (id === 'challenge-form' || (attributes['class'] ?? '').includes('anomaly-modal')) this.isChallenge = true;
    if (id === 'links' || classes.has('results') || classes.has('no-results')) this.isResultPage = true;
    if (classes.has('result')) {
      this.#isAd = classes.has('result--ad');
      this.#current = undefined;
    }
    if (classes.has('result__a')) this.#startResult(decodeHTMLAttribute(attributes['href'] ?? ''));
    else if (classes.has('result__snippet')) this.#reading = { field: 'snippet', depth: this.#depth };
    else if (name === 'form') this.#startForm();
    else if (name === 'input') this.#readInput(attributes);
    else if (this.#reading !== undefined) this.#append(`<${name}>`);
  }

  onclosetag(name: string): void {
    if (this.#reading?.depth === this.#depth) this.#reading = undefined;
    else if (this.#reading !== undefined) this.#append(`</${name}>`);
    this.#depth--;
    if (name === 'form' && this.#isNextForm && 'vqd' in this.#fields) this.next = this.#fields;
  }

  ontext(data: string): void {
    this.#append(data);
  }

  #startResult(url: string): void {
    this.isResultPage = true;
    this.#current = { title: '', url, snippet: '', isAd: this.#isAd };
    this.#results.push(this.#current);
    this.#reading = { field: 'title', depth: this.#depth };
  }

  #startForm(): void {
    this.#fields = {};
    this.#isNextForm = false;
  }

  #readInput(attributes: Readonly<Record<string, string>>): void {
    const value = decodeHTMLAttribute(attributes['value'] ?? '');
    if (attributes['type'] === 'submit' && value === 'Next') this.#isNextForm = true;
    if (attributes['type'] === 'hidden' && attributes['name']) this.#fields[attributes['name']] = value;
  }

  #append(markup: string): void {
    if (this.#reading !== undefined && this.#current !== undefined) this.#current[this.#reading.field] += markup;
  }
}
