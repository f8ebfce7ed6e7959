// Structured data in scripts: schema.org linked data, and the state of client-rendered pages. Source of titles and metadata,
// and of text where the page has too little. Invalid JSON is ignored.

const MAX_JSON_CHARACTERS = 5_000_000;
const MAX_VALUES = 20_000;
/** Shorter strings in the state are labels and settings. */
const MIN_PROSE_CHARACTERS = 80;

const ARTICLE = /article|blogposting|report|review|recipe|webpage$/i;

const POST = /^(?:DiscussionForumPosting|SocialMediaPosting|Comment|Question|Answer)$/;

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
}

/** Comment and CDATA marks around a script; CDATA as the parser rewrites it. */
const OPENING = /^(?:<!--|(?:\/\/|\/\*)?[ \t]*<!-CDATA\[(?:[ \t]*\*\/)?)/;
const CLOSING = /(?:-->|(?:\/\/|\/\*)?[ \t]{0,9}\]\]>(?:[ \t]{0,9}\*\/)?|;)$/;

type Json = Readonly<Record<string, unknown>>;

/** Linked data of the main item: the first article with a body, else the first with a headline. */
export function readLinkedData(scripts: readonly string[]): LinkedData {
  const items = scripts.flatMap((script) => itemsIn(script));
  const articles = items.filter((item) => ARTICLE.test(typeOf(item)));
  const main =
    articles.find((item) => stringOf(item['articleBody']) !== '') ??
    articles.find((item) => stringOf(item['headline']) !== '') ??
    {};
  const product = items.find((item) => /product/i.test(typeOf(item))) ?? {};
  const site = items.find((item) => /^website$/i.test(typeOf(item))) ?? {};
  return withoutEmpty({
    headline: stringOf(main['headline']),
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
    author: nameOf(main['author']),
    siteName: nameOf(main['publisher']) || stringOf(site['name']),
    published: stringOf(main['datePublished']),
    modified: stringOf(main['dateModified']),
    image: imageOf(main['image']),
  });
}

/** Texts in the state of a client-rendered page, in order, each once. */
export function readState(scripts: readonly string[]): string[] {
  const texts = new Set<string>();
  for (const script of scripts) {
    visit(parsed(script), (value) => {
      if (typeof value === 'string' && value.length >= MIN_PROSE_CHARACTERS && isProse(value)) texts.add(value);
    });
  }
  return [...texts];
}

function isProse(text: string): boolean {
  const start = text.slice(0, 400);
  const spaces = start.split(/\s/).length - 1;
  return (
    !/^(?:https?:|data:|[{[])/.test(start) &&
    (spaces * 12 >= start.length || /[\u3040-\u9fff\uac00-\ud7af]{8}/.test(start))
  );
}

function itemsIn(script: string): Json[] {
  const items: Json[] = [];
  visit(parsed(script), (value) => {
    if (typeof value === 'object' && value !== null && '@type' in value) items.push(value as Json);
  });
  return items;
}

/** Tolerates line ends in strings and comment marks around the document, which are common. */
function parsed(script: string): unknown {
  if (script.length > MAX_JSON_CHARACTERS) return null;
  const text = script.trim().replace(OPENING, '').replace(CLOSING, '');
  try {
    return JSON.parse(text);
  } catch {
    try {
      return JSON.parse(text.replaceAll(/\p{Cc}+/gu, ' '));
    } catch {
      return null;
    }
  }
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

function typeOf(item: Json): string {
  const type = item['@type'];
  return Array.isArray(type) ? type.filter((each) => typeof each === 'string').join(' ') : stringOf(type);
}

function stringOf(value: unknown): string {
  return typeof value === 'string' ? value.trim() : '';
}

function nameOf(value: unknown): string {
  if (Array.isArray(value))
    return value
      .slice(0, 20)
      .map(nameOf)
      .filter((name) => name !== '')
      .join(', ');
  return typeof value === 'object' && value !== null ? stringOf((value as Json)['name']) : stringOf(value);
}

function imageOf(value: unknown): string {
  const first: unknown = Array.isArray(value) ? value[0] : value;
  return typeof first === 'object' && first !== null ? stringOf((first as Json)['url']) : stringOf(first);
}

function withoutEmpty(fields: Readonly<Record<keyof LinkedData, string>>): LinkedData {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''));
}
