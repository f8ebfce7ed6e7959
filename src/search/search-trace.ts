// What happened in one search, for operators: what each engine gave, which hits were one page and why, and how the order came
// about. Collected while the search runs, from the parts that do the work; a search without a trace collects nothing.

import { keySteps } from './canonical-rules.ts';
import type { EngineReport } from './engine-client.ts';
import type { EngineHit, SearchType } from './engine.ts';

/** What became of a hit. `repeated`: the engine has the page at a better rank already. */
export type HitFate = 'first' | 'joined' | 'repeated' | 'dropped';

/** A hit of an engine, in its order. */
export interface ExplainedHit {
  /** Place in the engine's list, from 1; 0 for a hit that a filter took out before. */
  readonly rank: number;
  /** As the engine gave it. */
  readonly hit: EngineHit;
  readonly fate: HitFate;
  /** Why it was dropped; null for the others. */
  readonly reason: string | null;
  /** Place in the merged list, from 1; null where it is in none. */
  readonly place: number | null;
}

/** One engine of the search. */
export interface ExplainedEngine {
  readonly engine: string;
  readonly weight: number;
  /** Why it gave nothing; null when it answered. */
  readonly reason: string | null;
  /** What its answer lacked. */
  readonly note: string | null;
  /** From the begin of the search to its report; null: it had not reported when the search was answered. */
  readonly elapsedMs: number | null;
  /** Requests that were answered for the hits. */
  readonly calls: number;
  readonly hits: readonly ExplainedHit[];
}

/** What one engine adds to the score of a page: `weight / (offset + rank)`. */
export interface ScoreTerm {
  readonly engine: string;
  readonly rank: number;
  readonly weight: number;
  readonly share: number;
  /** The URL of its hit, and by which rules that became the key of the page; none where it is the key already. */
  readonly url: string;
  readonly rules: readonly string[];
}

/** One page of the merged list. */
export interface ExplainedPage {
  /** What the hits have in common: the canonical URL without its scheme, or the id of a scholarly work. */
  readonly key: string;
  readonly score: number;
  /** In the order of the request. */
  readonly terms: readonly ScoreTerm[];
  /** How it stands to the page before, which has the same score; null where scores differ. */
  readonly tie: 'rank' | 'engine' | null;
}

export interface SearchExplanation {
  /** In the order of the request. */
  readonly engines: readonly ExplainedEngine[];
  /** All merged pages, best first. */
  readonly pages: readonly ExplainedPage[];
  /** Added to a rank in the score. */
  readonly rankOffset: number;
}

/** A hit as merging ranks it. */
export interface TracedHit {
  readonly list: { readonly engine: string; readonly weight?: number };
  readonly order: number;
  readonly rank: number;
  readonly hit: EngineHit;
  readonly next: TracedHit | null;
}

/** A merged page: its hits are linked in the order of the request. */
export interface TracedPage {
  readonly first: TracedHit;
  readonly best: TracedHit;
  readonly score: number;
}

export class SearchTrace {
  /** From the begin of the search to the report of an engine. */
  readonly #elapsedMs = new Map<string, number>();
  /** What the search is answered with, in the order of the request. */
  readonly #answers = new Map<string, { readonly report: EngineReport; readonly weight: number }>();
  #pages: ExplainedPage[] = [];
  #places = new Map<EngineHit, { place: number; fate: HitFate }>();
  #rankOffset = 0;

  /** An engine has reported. */
  reported(report: EngineReport, elapsedMs: number): void {
    this.#elapsedMs.set(report.engine, elapsedMs);
  }

  /** The search is answered with this report of an engine. */
  answered(report: EngineReport, weight: number): void {
    this.#answers.set(report.engine, { report, weight });
  }

  /** The merged pages, best first. */
  merged(pages: readonly TracedPage[], rankOffset: number, searchType: SearchType): void {
    this.#rankOffset = rankOffset;
    this.#places = new Map();
    this.#pages = pages.map((page, index) => {
      for (let each: TracedHit | null = page.first; each !== null; each = each.next)
        this.#places.set(each.hit, { place: index + 1, fate: each === page.first ? 'first' : 'joined' });
      return explainPage(page, pages[index - 1], rankOffset, searchType);
    });
  }

  explanation(): SearchExplanation {
    const engines = Array.from(this.#answers, ([engine, { report, weight }]): ExplainedEngine => {
      const about = { engine, weight, elapsedMs: this.#elapsedMs.get(engine) ?? null };
      if ('reason' in report) return { ...about, reason: report.reason, note: null, calls: 0, hits: [] };
      const hits = report.hits.map((hit, index): ExplainedHit => {
        const { fate, place } = this.#places.get(hit) ?? { fate: 'repeated' as const, place: null };
        return { rank: index + 1, hit, fate, reason: null, place };
      });
      for (const [hit, reason] of report.dropped ?? [])
        hits.push({ rank: 0, hit, fate: 'dropped', reason, place: null });
      return { ...about, reason: null, note: report.note ?? null, calls: report.calls, hits };
    });
    return { engines, pages: this.#pages, rankOffset: this.#rankOffset };
  }
}

function explainPage(
  page: TracedPage,
  before: TracedPage | undefined,
  rankOffset: number,
  searchType: SearchType,
): ExplainedPage {
  const terms: ScoreTerm[] = [];
  let pageKey = '';
  for (let each: TracedHit | null = page.first; each !== null; each = each.next) {
    const { hit, list, rank } = each;
    const weight = list.weight ?? 1;
    const { key, rules } = keySteps(searchType === 'images' ? (hit.imageUrl ?? hit.url) : hit.url, searchType);
    pageKey ||= key;
    terms.push({ engine: list.engine, rank, weight, share: weight / (rankOffset + rank), url: hit.url, rules });
  }
  const isTied = before !== undefined && before.score === page.score;
  const tie = !isTied ? null : before.best.rank === page.best.rank ? 'engine' : 'rank';
  return { key: pageKey, score: page.score, terms, tie };
}
