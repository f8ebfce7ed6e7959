// Absolute URLs, and the links of the content. Only http and https URLs are returned.

import { imageOf } from './content-image.ts';
import { onLine, type PageImage, type PageLink } from './page.ts';
import { BLOCK, TAG, traits } from './tags.ts';
import { type Dropped, SPACE_BEFORE, type Tree } from './tree.ts';

/** Links of a result. */
const MAX_LINKS = 1000;
/** Images of a result. */
const MAX_IMAGES = 200;
/** Longer URLs carry data. */
const MAX_URL_CHARACTERS = 4096;
const MAX_TEXT_CHARACTERS = 500;

/** Resolves references against the base of a page. */
export class UrlResolver {
  readonly #base: string | undefined;

  /** `base` from the page, `url` where the page was found; either may be empty. */
  constructor(url: string, base: string) {
    this.#base = URL.parse(base, url === '' ? undefined : url)?.href ?? URL.parse(url)?.href;
  }

  /** Null unless the reference resolves to an http or https URL. */
  absolute(reference: string | undefined): string | null {
    if (reference === undefined || reference.length > MAX_URL_CHARACTERS) return null;
    const parsed = URL.parse(reference.trim(), this.#base);
    if (parsed === null || (parsed.protocol !== 'http:' && parsed.protocol !== 'https:')) return null;
    return parsed.href.toWellFormed();
  }
}

/** Links of the content in order, each URL once. */
export function linksOf(tree: Tree, dropped: Dropped, urls: UrlResolver): PageLink[] {
  const links = new Map<string, PageLink>();
  for (let node = 0; node < tree.count && links.size < MAX_LINKS; node++) {
    if (dropped[node] === 1) {
      node = (tree.end[node] as number) - 1;
    } else if (tree.tag[node] === TAG.a) {
      const url = urls.absolute(tree.attribute(node, 'href'));
      const text = url === null ? '' : lineOf(tree, node, MAX_TEXT_CHARACTERS);
      if (url !== null && text !== '' && !links.has(url)) links.set(url, { text, url });
    }
  }
  return [...links.values()];
}

/** Images of the content in order, each URL once, also those without a description. Formulas that are drawn as images are none. */
export function imagesOf(tree: Tree, dropped: Dropped, urls: UrlResolver): PageImage[] {
  const images = new Map<string, PageImage>();
  for (let node = 0; node < tree.count && images.size < MAX_IMAGES; node++) {
    if (dropped[node] === 1) {
      node = (tree.end[node] as number) - 1;
    } else if (tree.tag[node] === TAG.img) {
      const image = imageOf({ tree, dropped, urls }, node, true);
      if (image?.kind !== 'image' || images.has(image.url)) continue;
      images.set(image.url, {
        url: image.url,
        alt: onLine(image.alt).trim().slice(0, MAX_TEXT_CHARACTERS).toWellFormed(),
      });
    }
  }
  return [...images.values()];
}

/** Whether a link leads to the heading that it stands in: nothing but a sign, and a place in the page. */
export function isPermalink(tree: Tree, link: number): boolean {
  const end = tree.end[link] as number;
  if (end - link > 4) return false;
  for (let inner = link + 1; inner < end; inner++)
    if (tree.tag[inner] === TAG['#text'] && !/^[#¶§🔗\s\u200b]*$/u.test(tree.textOf(inner, 10))) return false;
  return tree.attribute(link, 'href')?.startsWith('#') === true;
}

/** The text of a subtree on one line, at most `maxCharacters` long, without the elements that `isLeft` names. */
export function lineOf(
  tree: Tree,
  node: number,
  maxCharacters: number,
  isLeft: (element: number) => boolean = () => false,
): string {
  let line = '';
  const end = tree.end[node] as number;
  for (let inner = node; inner < end && line.length < maxCharacters; inner++) {
    const tag = tree.tag[inner] as number;
    const isApart = ((tree.flags[inner] as number) & SPACE_BEFORE) !== 0 || (traits(tag) & BLOCK) !== 0;
    if (isApart) line += ' ';
    if (tag === TAG['#text']) line += onLine(tree.textOf(inner));
    else if (isLeft(inner)) inner = (tree.end[inner] as number) - 1;
  }
  return onLine(line).trim().slice(0, maxCharacters).trimEnd().toWellFormed();
}
