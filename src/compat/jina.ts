// Jina's Reader: a URL behind a path, options in headers, and the page as text or as JSON.

import { HeadraceError } from '../errors.ts';
import type { PageAnswer } from '../fetch/index.ts';
import { Fields, formFields, jsonFields, mistake, present, withScheme } from './fields.ts';
import type { ForeignPages } from './foreign.ts';

/** How a page is answered. `content` has a head with its title and address; the others are the bare text. */
type JinaFormat = 'content' | 'markdown' | 'html' | 'text';

const FORMATS: ReadonlyMap<string, JinaFormat> = new Map(
  (['content', 'markdown', 'html', 'text'] as const).map((format) => [format, format]),
);

/** Options that change what is answered, and that the gateway does not have. */
const UNSUPPORTED: Readonly<Record<string, string>> = {
  'target-selector': 'the gateway finds the main content itself',
  'remove-selector': 'the gateway finds the main content itself',
  'set-cookie': 'pages are fetched without cookies',
  'proxy-url': 'pages are fetched by the gateway itself',
  'max-tokens': 'use POST /search/fetch with max_chars',
  'json-schema': 'the gateway extracts no data',
  instruction: 'the gateway extracts no data',
  'with-iframe': 'frames are not read',
  html: 'only pages that have an address are read',
  pdf: 'only pages that have an address are read',
  file: 'only pages that have an address are read',
};

/** Those of a body that no header has. */
const CONTENTS: ReadonlySet<string> = new Set(['html', 'pdf', 'file']);

/** Members of a body that have another name than the header. */
const MEMBERS: Readonly<Record<string, string>> = { 'set-cookie': 'setCookies' };

/** The gateway counts no tokens of pages: an estimate stands in the answers. */
const CHARS_PER_TOKEN = 4;

/** A page that is asked for. */
export interface JinaPage extends ForeignPages {
  readonly format: JinaFormat;
  readonly isJson: boolean;
  readonly withLinks: boolean;
  /** JSON has a list of pairs of text and URL, in place of an object that has one URL for each text. */
  readonly withAllLinks: boolean;
  readonly withImages: boolean;
}

/** What a request says of the page that it wants. */
export interface JinaRequest {
  /** What follows `/jina`, as sent. */
  readonly target: string;
  /** Without the question mark. */
  readonly query: string;
  readonly body: Buffer;
  readonly contentType: string | undefined;
  header(name: string): string | undefined;
}

/** Reads `/jina/{url}`, or the body of a POST without a URL in its path. Throws 422. */
export function readJina(request: JinaRequest): JinaPage {
  const body = bodyOf(request);
  const given = targetOf(request.target, request.query) ?? body.text('url')?.trim();
  if (given === undefined || given === '') throw mistake('url', 'Field required', 'missing');
  const option = (name: string): unknown => request.header(`x-${name}`) ?? body.get(camelCase(name));
  for (const [name, reason] of Object.entries(UNSUPPORTED)) {
    const value = body.get(MEMBERS[name] ?? camelCase(name)) ?? request.header(`x-${name}`);
    if (value !== undefined && value !== false && value !== 'false') {
      throw mistake(CONTENTS.has(name) ? name : `x-${name}`, `not supported: ${reason}`);
    }
  }
  const options = new Fields({
    'x-return-format': option('respond-with') ?? option('return-format'),
    'x-cache-tolerance': option('cache-tolerance'),
    'x-no-cache': option('no-cache'),
    'x-with-links-summary': option('with-links-summary'),
    'x-with-images-summary': option('with-images-summary'),
  });
  const format = options.word('x-return-format', FORMATS) ?? 'content';
  const withLinks = options.flag('x-with-links-summary');
  const withAllLinks = options.get('x-with-links-summary') === 'all';
  const withImages = options.flag('x-with-images-summary');
  const fetch = present({
    url: given,
    format: format === 'html' || format === 'text' ? format : 'markdown',
    max_age: options.flag('x-no-cache') ? 0 : options.integer('x-cache-tolerance', 0, 31_536_000),
    links: withLinks || undefined,
    images: withImages || undefined,
    include: ['metadata'],
  });
  const isJson = wantsJson(request.header('accept'));
  return { fetches: [fetch], format, isJson, withLinks, withAllLinks, withImages };
}

/** Clients that take text too get text, as from the Reader: some name JSON and all other types in every request. */
function wantsJson(accept = ''): boolean {
  if (/text\/plain|\*\/\*|text\/\*/i.test(accept)) return false;
  if (/(?:application|text)\/json/i.test(accept)) return true;
  if (/text\/event-stream/i.test(accept)) {
    throw mistake('accept', 'not supported: pages are answered whole, as application/json or text/plain');
  }
  return false;
}

function bodyOf({ body, contentType = 'application/json' }: JinaRequest): Fields {
  if (body.byteLength === 0) return new Fields({});
  return /urlencoded/i.test(contentType) ? formFields(body.toString('utf8')) : jsonFields(body);
}

function camelCase(name: string): string {
  return name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/**
 * The URL behind a path: as it stands, where its query is that of the request; or percent-encoded as a whole. One without a scheme is
 * one of https. Proxies that merge slashes leave one after the scheme. Undefined: there is none.
 */
function targetOf(target: string, query: string): string | undefined {
  const path = target.replace(/^\/+/, '');
  if (path === '') return undefined;
  const isEncoded = /^https?%3a/i.test(path);
  const text = isEncoded ? decoded(path) : path;
  const whole = withScheme('https', text.replace(/^(https?:)\/+/i, '$1//'));
  return query === '' ? whole : `${whole}?${query}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new HeadraceError('HR_REQUEST_INVALID', {
      validation: [{ loc: ['path', 'url'], msg: 'The URL is not percent-encoded UTF-8', type: 'url_parsing' }],
    });
  }
}

/** The page as JSON. */
export function printJinaJson({ format, withAllLinks, withImages, withLinks }: JinaPage, page: PageAnswer): object {
  const { links = [], metadata = {} } = page;
  const pairs = links.map(({ text, url }) => [text, url] as const);
  const usage = { tokens: Math.ceil(page.content.length / CHARS_PER_TOKEN) };
  const body = { [format === 'markdown' ? 'content' : format]: page.content };
  return {
    code: 200,
    status: 20000,
    data: present({
      title: page.title,
      description: metadata.description ?? '',
      url: page.url,
      ...body,
      publishedTime: metadata.published,
      metadata: present({ lang: metadata.language, description: metadata.description, 'og:image': metadata.image }),
      external: {},
      ...(withLinks && { links: withAllLinks ? pairs : Object.fromEntries(pairs) }),
      ...(withImages && { images: Object.fromEntries(imagesOf(page)) }),
      usage,
    }),
    meta: { usage },
  };
}

/** The page as text: with a head, or the bare text where a format was asked for. */
export function printJinaText({ format, withImages, withLinks }: JinaPage, page: PageAnswer): string {
  if (format !== 'content') return page.content;
  const { published } = page.metadata ?? {};
  const parts = [`Title: ${page.title}`, `URL Source: ${page.url}`];
  if (published !== undefined) parts.push(`Published Time: ${published}`);
  parts.push(`Markdown Content:\n${page.content}`);
  if (withImages)
    parts.push(
      `Images:\n${imagesOf(page)
        .map(([alt, url]) => `- ![${alt}](${url})`)
        .join('\n')}`,
    );
  if (withLinks) {
    parts.push(`Links/Buttons:\n${(page.links ?? []).map(({ text, url }) => `- [${text}](${url})`).join('\n')}`);
  }
  return `${parts.join('\n\n')}\n`;
}

/** Pictures by their number and text, as the Reader names them. */
function imagesOf({ images = [] }: PageAnswer): [string, string][] {
  return images.map(({ alt, url }, index) => [alt === '' ? `Image ${index + 1}` : `Image ${index + 1}: ${alt}`, url]);
}
