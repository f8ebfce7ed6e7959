// Tells kinds of pages apart that have the same parts in different roles. Asked by clean.ts: replies are the content of a
// discussion, but not of an article; what customers say of a product is not its description; links are the content of a
// listing alone.

import type { Head } from './parse.ts';

/** `other` is everything that does not say what it is: listings, services, documentation, and most of the web. */
export type PageKind = 'article' | 'discussion' | 'other' | 'product';

const SOFTWARE =
  /\b(?:discourse|phpbb|vbulletin|xenforo|mybb|flarum|invision|simple machines|vanilla|nodebb|lemmy|woltlab|fluxbb|punbb)\b/i;
const HOST = /^(?:forums?|community|communities|discuss|discussions?|boards?|answers|ask|talk)[.\d]/;
const PATH =
  /\/(?:forums?|threads?|topics?|t|discussions?|questions?|viewtopic\.php|showthread\.php|thread-\d+|comments|community|board|answers|r|s|post)(?:\/|$|\.|-)/;

const POSTS = /"(?:DiscussionForumPosting|QAPage|Question)"/;
const ARTICLES = /"(?:NewsArticle|Article|BlogPosting)"/;
const PRODUCTS = /"@type"\s*:\s*"Product(?:Group)?"/;

/** What the page at `url` is by its software, its address and what it says of itself. */
export function kindOf(head: Head, url: string): PageKind {
  if (isDiscussion(head, url)) return 'discussion';
  const type = head.meta.find(([name]) => name === 'og:type')?.[1] ?? '';
  const says = (types: RegExp): boolean => head.linkedData.some((text) => types.test(text));
  if (/^article/i.test(type) || says(ARTICLES)) return 'article';
  return /product/i.test(type) || says(PRODUCTS) ? 'product' : 'other';
}

function isDiscussion(head: Head, url: string): boolean {
  for (const [name, content] of head.meta) if (name === 'generator' && SOFTWARE.test(content)) return true;
  if (head.linkedData.some((text) => POSTS.test(text))) return true;
  const parsed = URL.parse(url);
  return parsed !== null && (HOST.test(parsed.hostname) || PATH.test(parsed.pathname));
}
