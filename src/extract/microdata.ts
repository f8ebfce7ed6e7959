// What schema.org microdata says of an element's part in a page. Asked by parse.ts.

import { BODY, COMMENTS, CONTENT, NAVIGATION } from './hints.ts';

const PROPERTIES: ReadonlyMap<string, number> = new Map([
  ['articlebody', BODY],
  ['text', CONTENT],
  ['description', CONTENT],
  ['maincontentofpage', CONTENT],
  ['breadcrumb', NAVIGATION],
  ['comment', COMMENTS],
]);

const TYPES: ReadonlyMap<string, number> = new Map([
  ['article', CONTENT],
  ['newsarticle', CONTENT],
  ['blogposting', CONTENT],
  ['techarticle', CONTENT],
  ['recipe', CONTENT],
  ['comment', COMMENTS],
  ['breadcrumblist', NAVIGATION],
  ['sitenavigationelement', NAVIGATION],
]);

export function hintsOfItemprop(names: string): number {
  let hints = 0;
  for (const name of names.toLowerCase().split(/\s+/, 8)) hints |= PROPERTIES.get(name) ?? 0;
  return hints;
}

export function hintsOfItemtype(types: string): number {
  let hints = 0;
  for (const type of types.toLowerCase().split(/\s+/, 8))
    hints |= TYPES.get(type.slice(type.lastIndexOf('/') + 1)) ?? 0;
  return hints;
}
