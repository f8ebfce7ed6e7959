// The title of a page: one of the texts that state it (headings, `title`, Open Graph, linked data) or a part of one, without
// the name of the site. Candidates are ranked by a weighted sum of features.

import { oneLine } from './page.ts';

/** Texts that may be the title of a page, with white space as in the source. */
export interface TitleSources {
  /** Empty when it is not known. */
  readonly url: string;
  /** The `h1` elements in order. */
  readonly headings: readonly string[];
  /** The element `title`. */
  readonly title: string;
  /** `og:title`. */
  readonly shared: string;
  /** Titles stated elsewhere, such as `twitter:title` and the headline of linked data. */
  readonly others: readonly string[];
  readonly siteName: string;
}

/**
 * Weights, by regression over pages whose titles people had noted, validated on sites that were left out.
 * Overlaps and shares are between 0 and 1, the others are 1 when they hold.
 */
const WEIGHTS = {
  firstHeading: 1.3,
  onlyHeading: 0.5,
  otherHeading: 0.4,
  /** A part of a heading before or after a separator. */
  partOfHeading: 1.1,
  /** What precedes a separator in a title. */
  beginning: 1.26,
  /** What precedes or follows a colon, and no source states by itself. */
  besideColon: -1.2,
  /** For each source that states exactly this. */
  source: 0.48,
  /** Share of its words that are in `title`, and in `og:title`. */
  inTitle: 0.27,
  inShared: 1.47,
  /** Share of its words that are in the last part of the path; share of those words that it has. */
  inPath: 0.75,
  ofPath: 1.14,
  /** For each separator in it, up to 3. */
  separator: -1.4,
  endsWithSiteName: -1.05,
  endsWithHost: -0.8,
  oneWord: -1.1,
  /** For each four words of `title` that it lacks, other than the name of the site; up to 2. */
  missingWords: -0.76,
  /** The whole `title` at the root of a site. */
  titleOfSite: 1.1,
};

/** Separators between the title of a page and the name of its site. */
const SEPARATOR = /\s+(?:[|\-–—\\/>»«·•~]|::)\s+|\s*[|»｜]\s*/gu;
const COLON = /:\s+/gu;
const EDGE = /^[\s|\-–—·•»«:~｜]+|[\s|\-–—·•»«:~｜]+$/gu;
/** What links to a heading leave of themselves in the text of it. A `#` without white space before it is part of a word, as in C#. */
const PERMALINK = /(?:[\s¶\u{e000}-\u{f8ff}]|(?<=\s)#)+$/u;

const MAX_CHARACTERS = 300;
const MAX_HEADINGS = 6;
const MAX_CUTS = 8;

/** How a candidate was found. */
interface Candidate {
  readonly text: string;
  isHeading: boolean;
  isFirstHeading: boolean;
  isPartOfHeading: boolean;
  isTitle: boolean;
  isBeginning: boolean;
  isBesideColon: boolean;
  sources: number;
}

/** The best title; empty when no source has one. */
export function titleOf(sources: TitleSources): string {
  const candidates = candidatesOf(sources);
  const rank = rankOf(sources);
  let best = '';
  let highest = -Infinity;
  for (const candidate of candidates) {
    const score = rank(candidate);
    if (score > highest) {
      best = candidate.text;
      highest = score;
    }
  }
  return best;
}

function candidatesOf({ headings, title, shared, others }: TitleSources): Candidate[] {
  const found = new Map<string, Candidate>();
  const add = (text: string): Candidate | null => {
    if (text === '' || text.length > MAX_CHARACTERS) return null;
    const known = found.get(text) ?? {
      text,
      isHeading: false,
      isFirstHeading: false,
      isPartOfHeading: false,
      isTitle: false,
      isBeginning: false,
      isBesideColon: false,
      sources: 0,
    };
    found.set(text, known);
    return known;
  };
  headings.slice(0, MAX_HEADINGS).forEach((heading, at) => {
    const text = lineOf(heading);
    const candidate = add(text);
    if (candidate === null) return;
    if (!candidate.isHeading) candidate.sources++;
    candidate.isHeading = true;
    candidate.isFirstHeading ||= at === 0;
    for (const [before, after] of cutsOf(text, SEPARATOR)) {
      for (const part of [add(before), add(after)]) if (part !== null) part.isPartOfHeading = true;
    }
  });
  for (const stated of [title, shared, ...others]) {
    const text = lineOf(stated);
    const candidate = add(text);
    if (candidate === null) continue;
    candidate.sources++;
    candidate.isTitle ||= stated === title;
    for (const [before, after] of cutsOf(text, SEPARATOR)) {
      const part = add(before);
      if (part !== null) part.isBeginning = true;
      add(after);
    }
    for (const [before, after] of cutsOf(text, COLON)) {
      const part = add(before);
      if (part !== null) part.isBeginning = true;
      for (const side of [part, add(after)]) if (side !== null) side.isBesideColon = true;
    }
  }
  return [...found.values()];
}

/** The parts before and after each separator. */
function cutsOf(text: string, separator: RegExp): (readonly [string, string])[] {
  const cuts: (readonly [string, string])[] = [];
  for (const match of text.matchAll(separator)) {
    if (cuts.length === MAX_CUTS) break;
    const before = text.slice(0, match.index).replaceAll(EDGE, '');
    const after = text.slice(match.index + match[0].length).replaceAll(EDGE, '');
    cuts.push([before, after]);
  }
  return cuts;
}

function rankOf(sources: TitleSources): (candidate: Candidate) => number {
  const titleWords = wordsOf(lineOf(sources.title));
  const sharedWords = sources.shared === '' ? titleWords : wordsOf(lineOf(sources.shared));
  const site = joined(sources.siteName);
  const siteWords = wordsOf(sources.siteName);
  const { host, path, isRoot } = addressOf(sources.url);
  return (candidate) => {
    const { text } = candidate;
    const words = wordsOf(text);
    const parts = text.split(SEPARATOR).filter((part) => part !== '');
    const last = joined(parts.at(-1) ?? '');
    const hasSuffix = parts.length > 1 && last !== '';
    const missing = [...titleWords].filter((word) => !words.has(word) && !siteWords.has(word) && !host.includes(word));
    const features: Record<keyof typeof WEIGHTS, number> = {
      firstHeading: Number(candidate.isFirstHeading),
      onlyHeading: Number(candidate.isFirstHeading && sources.headings.length === 1),
      otherHeading: Number(candidate.isHeading && !candidate.isFirstHeading),
      partOfHeading: Number(candidate.isPartOfHeading),
      beginning: Number(candidate.isBeginning),
      besideColon: Number(candidate.isBesideColon && candidate.sources === 0),
      source: candidate.sources,
      inTitle: shareOf(words, titleWords),
      inShared: shareOf(words, sharedWords),
      inPath: shareOf(words, path),
      ofPath: path.size === 0 ? 0.5 : shareOf(path, words),
      separator: Math.min(3, Math.max(0, parts.length - 1)),
      endsWithSiteName: Number(hasSuffix && last === site),
      endsWithHost: Number(hasSuffix && host !== '' && (host.includes(last) || last.includes(host))),
      oneWord: Number(!/\s/.test(text)),
      missingWords: Math.min(8, missing.length) / 4,
      titleOfSite: Number(isRoot && candidate.isTitle),
    };
    let score = 0;
    for (const name of Object.keys(WEIGHTS) as (keyof typeof WEIGHTS)[]) score += WEIGHTS[name] * features[name];
    return score;
  };
}

/** The host name without `www` and top-level domain, and the words of the path that name the page. */
function addressOf(url: string): { host: string; path: ReadonlySet<string>; isRoot: boolean } {
  const { hostname = '', pathname = '' } = URL.parse(url) ?? {};
  const labels = hostname.replace(/^www\./, '').split('.');
  const host = joined((labels.length > 1 ? labels.slice(0, -1) : labels).join('.'));
  const segments = decoded(pathname)
    .split('/')
    .filter((segment) => segment !== '');
  const [before = '', last = ''] = segments.length > 1 ? segments.slice(-2) : ['', ...segments];
  const name = last.replace(/\.\w+$/, '');
  const path = /[a-z]{3}/i.test(name) || before === '' ? name : before;
  return { host, path: wordsOf(path.replaceAll(/[-_+]/g, ' ')), isRoot: hostname !== '' && segments.length === 0 };
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

function lineOf(text: string): string {
  return oneLine(text.slice(0, 4 * MAX_CHARACTERS))
    .replace(PERMALINK, '')
    .toWellFormed();
}

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu));
}

/** The share of `words` that are in `others`. */
function shareOf(words: ReadonlySet<string>, others: ReadonlySet<string>): number {
  if (words.size === 0) return 0;
  let shared = 0;
  for (const word of words) if (others.has(word)) shared++;
  return shared / words.size;
}

function joined(text: string): string {
  return text.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, '');
}
