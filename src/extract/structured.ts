// Reads schema.org linked data (JSON-LD) from scripts: fields for titles and metadata, and the items that can be shown as
// content. Tolerates the errors that pages make; a script that cannot be read is ignored.

import { decodeHTML } from 'entities';
import { jsonOf } from './state/literal.ts';

const MAX_JSON_CHARACTERS = 5_000_000;
const MAX_VALUES = 20_000;

/** Size of all items that stand in for references, in characters and values: pages that refer to a few items often need 100,000. */
const MAX_REFERENCED = 1_000_000;

const ARTICLE = /article|blogposting|report|review|recipe|webpage$/i;
const POST = /^(?:DiscussionForumPosting|SocialMediaPosting|Comment|Question|Answer)$/;
const PRODUCT = /^Product(?:Group)?$/;

/** An item with its properties; references to other items of the page are resolved by `LinkedData.items`. */
export type LinkedItem = Readonly<Record<string, unknown>>;

export interface LinkedData {
  readonly headline?: string;
  readonly body?: string;
  readonly description?: string;
  /** Description of the product. */
  readonly product?: string;
  /** Texts of posts, questions and answers. */
  readonly posts?: string;
  readonly author?: string;
  readonly siteName?: string;
  readonly published?: string;
  readonly modified?: string;
  readonly image?: string;
  /** Names of the persons or organizations that wrote it. */
  readonly authors: readonly string[];
  /** All items with a type, outer ones first. */
  readonly items: readonly LinkedItem[];
}

/** Comment and CDATA marks around a script; CDATA as the parser rewrites it. */
const OPENING = /^(?:<!--|(?:\/\/|\/\*)?[ \t]*<!-CDATA\[(?:[ \t]*\*\/)?)/;
const CLOSING = /(?:-->|(?:\/\/|\/\*)?[ \t]{0,9}\]\]>(?:[ \t]{0,9}\*\/)?|;)$/;

/**
 * Linked data of the main item: the first article with a body, else the first with a headline, job or event. Character references in lines
 * are decoded; those in texts, which may be HTML, are not.
 */
export function readLinkedData(scripts: readonly string[]): LinkedData {
  const items = withReferences(scripts.flatMap((script) => itemsIn(script)));
  const articles = items.filter((item) => ARTICLE.test(typeOf(item)));
  const main =
    articles.find((item) => stringOf(item['articleBody']) !== '') ??
    articles.find((item) => stringOf(item['headline']) !== '') ??
    items.find((item) => /^(?:JobPosting|Recipe|HowTo)$/.test(typeOf(item))) ??
    {};
  const product = items.find((item) => PRODUCT.test(typeOf(item))) ?? {};
  const site = items.find((item) => /^website$/i.test(typeOf(item))) ?? {};
  const fields = {
    headline: decodeHTML(stringOf(main['headline'])),
    body: stringOf(main['articleBody']),
    description: stringOf(main['description']) || stringOf(product['description']),
    product: stringOf(product['description']),
    posts: [
      ...new Set(
        items
          .filter((item) => POST.test(typeOf(item)))
          .map((item) => stringOf(item['articleBody']) || stringOf(item['text'])),
      ),
    ]
      .join('\n\n')
      .trim(),
    author: decodeHTML(nameOf(main['author']) || nameOf(main['hiringOrganization'])),
    siteName: decodeHTML(nameOf(main['publisher']) || stringOf(site['name'])),
    published: stringOf(main['datePublished']) || stringOf(main['datePosted']),
    modified: stringOf(main['dateModified']),
    image: decodeHTML(imageOf(main['image'])),
  };
  return { ...withoutEmpty(fields), authors: namesOf(main['author']).map((name) => decodeHTML(name)), items };
}

function itemsIn(script: string): LinkedItem[] {
  const items: LinkedItem[] = [];
  visit(parsed(script), (value) => {
    if (typeof value === 'object' && value !== null && '@type' in value) items.push(value as LinkedItem);
  });
  return items;
}

/**
 * The items, with `{"@id": …}` replaced by the item of that id, in properties and their lists. Only one level, so that no cycles
 * arise. References beyond `MAX_REFERENCED` stay as they are.
 */
function withReferences(items: readonly LinkedItem[]): readonly LinkedItem[] {
  const byId = new Map<string, LinkedItem>();
  for (const item of items) {
    const id = stringOf(item['@id']);
    if (id !== '' && !byId.has(id)) byId.set(id, item);
  }
  if (byId.size === 0) return items;
  const sizes = new Map<LinkedItem, number>();
  let left = MAX_REFERENCED;
  const resolved = (value: unknown): unknown => {
    const isReference = isItem(value) && !('@type' in value) && typeof value['@id'] === 'string';
    const target = isReference ? byId.get(value['@id'] as string) : undefined;
    if (target === undefined) return value;
    const size = sizes.get(target) ?? sizeOf(target);
    sizes.set(target, size);
    if (size > left) return value;
    left -= size;
    return target;
  };
  return items.map((item) =>
    Object.fromEntries(
      Object.entries(item).map(([name, value]) => [name, Array.isArray(value) ? value.map(resolved) : resolved(value)]),
    ),
  );
}

/** Values of an item and the characters in them; infinite for items with too many values. */
function sizeOf(item: LinkedItem): number {
  let size = 0;
  let values = 0;
  visit(item, (value) => {
    values++;
    size += typeof value === 'string' ? value.length : 1;
  });
  return values < MAX_VALUES ? size : Number.POSITIVE_INFINITY;
}

/** Tolerates comment marks around the document, line ends in strings, trailing commas, comments and escaped quotes. */
function parsed(script: string): unknown {
  if (script.length > MAX_JSON_CHARACTERS) return null;
  const text = script.trim().replace(OPENING, '').replace(CLOSING, '').trim();
  const value = jsonOf(text);
  return value === null && text.includes('&quot;') ? jsonOf(decodeHTML(text)) : value;
}

/** Calls `see` for a value and all values inside it, outer ones first. */
function visit(root: unknown, see: (value: unknown) => void): void {
  const waiting: unknown[] = [root];
  for (let seen = 0; waiting.length > 0 && seen < MAX_VALUES; seen++) {
    const value = waiting.pop();
    see(value);
    if (typeof value !== 'object' || value === null) continue;
    for (const inner of Object.values(value).toReversed()) waiting.push(inner);
  }
}

export function isItem(value: unknown): value is LinkedItem {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Types of an item, without the address of their vocabulary, separated by spaces. */
export function typeOf(item: LinkedItem): string {
  const type = item['@type'];
  const types = Array.isArray(type) ? type.filter((each) => typeof each === 'string') : [stringOf(type)];
  return types.map((each) => each.slice(each.lastIndexOf('/') + 1)).join(' ');
}

export function stringOf(value: unknown): string {
  return typeof value === 'string' ? value.trim() : '';
}

/** The name of a person or organization, or the names of several. */
export function nameOf(value: unknown): string {
  if (Array.isArray(value))
    return value
      .slice(0, 20)
      .map((each) => (Array.isArray(each) ? '' : nameOf(each)))
      .filter((name) => name !== '')
      .join(', ');
  return isItem(value) ? stringOf(value['name']) : stringOf(value);
}

function namesOf(value: unknown): string[] {
  const names = (Array.isArray(value) ? value : [value])
    .slice(0, 20)
    .map((each) => (Array.isArray(each) ? '' : nameOf(each)));
  return names.filter((name) => name !== '');
}

function imageOf(value: unknown): string {
  const first: unknown = Array.isArray(value) ? value[0] : value;
  return isItem(first) ? stringOf(first['url']) : stringOf(first);
}

function withoutEmpty(fields: Readonly<Record<string, string>>): Omit<LinkedData, 'authors' | 'items'> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''));
}
