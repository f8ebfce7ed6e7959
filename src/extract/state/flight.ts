// Parses the rows in which React Server Components are streamed (`self.__next_f`), and renders their tree as HTML. Components
// of the client are not known: their children are rendered, and of their other properties elements and prose.

import { parseJson } from '../../config/json-text.ts';
import { escapeAttribute, escapeText } from 'entities';
import { isProse } from './prose.ts';

const MAX_ROWS = 50_000;
const MAX_DEPTH = 400;
const MAX_NODES = 300_000;
const MAX_HTML_CHARACTERS = 5_000_000;

/** Model rows by their id. Text rows are strings. */
export type FlightRows = ReadonlyMap<string, unknown>;

const COLON = 58;
const NEWLINE = 10;
const MAX_SIZE_DIGITS = 8;
const decoder = new TextDecoder();

/** Rows with a length in bytes: text, and binary data, which is skipped. */
const SIZED: ReadonlySet<string> = new Set('TAOobUSsLlGgMmV');

/**
 * Rows of a stream: `ID:JSON\n`, `ID:TAG…\n`, or `ID:TAG LENGTH,` with that many bytes of UTF-8. The last row may be cut off.
 * Imports, hints, errors and debug rows are left out.
 */
export function parseFlight(stream: string): FlightRows {
  const bytes = Buffer.from(stream);
  const rows = new Map<string, unknown>();
  let at = 0;
  // Positions are searched again only when they have been passed, so that every byte is read a fixed number of times.
  let colon = -1;
  let end = -1;
  const next = (byte: number): number => {
    const found = bytes.indexOf(byte, at);
    return found === -1 ? bytes.length : found;
  };
  while (at < bytes.length && rows.size < MAX_ROWS) {
    if (colon < at) colon = next(COLON);
    if (end < at) end = next(NEWLINE);
    if (colon === bytes.length) break;
    if (end < colon) {
      at = end + 1;
      continue;
    }
    const id = bytes.toString('latin1', at, Math.min(colon, at + 20));
    const tag = String.fromCharCode(bytes[colon + 1] ?? 0);
    const start = bytes.toString('latin1', colon + 2, colon + 2 + MAX_SIZE_DIGITS + 1);
    const size = SIZED.has(tag) ? (/^([\da-f]+),/.exec(start)?.[1] ?? '') : '';
    if (size !== '') {
      const from = colon + 2 + size.length + 1;
      at = Math.min(from + Number.parseInt(size, 16), bytes.length);
      if (tag === 'T') rows.set(id, decoder.decode(bytes.subarray(from, at)));
      continue;
    }
    at = end + 1;
    const isModel = !/[A-Z#]/.test(tag) && /^[\da-f]*$/.test(id);
    if (isModel) setJson(rows, id, bytes.toString('utf8', colon + 1, end));
  }
  return rows;
}

function setJson(rows: Map<string, unknown>, id: string, json: string): void {
  try {
    rows.set(id, parseJson(json));
  } catch {
    // A row that was cut off or damaged: the others stay readable.
  }
}

/**
 * The tree of row 0 as HTML, then rows with elements that it does not refer to. With `prose`, also prose in the properties of
 * components of the client, which they may show or not.
 */
export function renderFlight(rows: FlightRows, prose: boolean): string {
  const renderer = new FlightRenderer(rows, prose);
  renderer.row('0');
  for (const [id, value] of rows) if (isElement(value)) renderer.row(id);
  return renderer.html();
}

/** Attributes that the cleaner reads, by their property. */
const ATTRIBUTES: Readonly<Record<string, string>> = {
  alt: 'alt',
  'aria-hidden': 'aria-hidden',
  className: 'class',
  colSpan: 'colspan',
  hidden: 'hidden',
  href: 'href',
  id: 'id',
  role: 'role',
  rowSpan: 'rowspan',
  src: 'src',
};

const HOST = /^[a-z][a-z0-9]{0,30}(?:-[a-z0-9-]{1,30})?$/;
const VOID = /^(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)$/;
/** Elements without text of the page. */
const UNSEEN = /^(?:head|iframe|link|meta|noscript|script|style|svg|template|title)$/;
/** Elements that hold no blocks, so that a component inside stands in a line. */
const LINE = /^(?:a|b|button|code|em|h[1-6]|i|label|p|small|span|strong|td|th)$/;
/** More than the path to a value at the greatest depth has. */
const MAX_REFERENCE_CHARACTERS = 10_000;
/** Indexes of the parts of an element. */
const PARTS: Readonly<Record<string, number>> = { type: 1, key: 2, props: 3 };

type Element = readonly ['$', unknown, unknown, unknown, ...unknown[]];
type Properties = Readonly<Record<string, unknown>>;

function isElement(value: unknown): value is Element {
  return Array.isArray(value) && value[0] === '$' && value.length >= 4 && typeof value[1] === 'string';
}

/** Where a value stands: among data, where strings are no text; between blocks; in a line of text. */
type Place = 'block' | 'data' | 'line';

class FlightRenderer {
  readonly #rows: FlightRows;
  readonly #withProse: boolean;
  readonly #parts: string[] = [];
  /** References, what they refer to, and prose that were rendered: each is once, which also ends cycles. */
  readonly #seen = new Set<unknown>();
  #nodes = 0;
  #characters = 0;

  constructor(rows: FlightRows, withProse: boolean) {
    this.#rows = rows;
    this.#withProse = withProse;
  }

  html(): string {
    return this.#parts.join('');
  }

  row(id: string): void {
    if (this.#seen.has(id)) return;
    this.#seen.add(id);
    this.#render(this.#rows.get(id), 'data', 0);
  }

  /** Renders text, an element, a list or a reference. Other objects are searched for elements. */
  #render(value: unknown, place: Place, depth: number): void {
    if (depth > MAX_DEPTH || ++this.#nodes > MAX_NODES || this.#characters > MAX_HTML_CHARACTERS) return;
    if (typeof value === 'string') this.#text(value, place, depth);
    else if (typeof value === 'number') this.#write(place === 'data' ? '' : String(value));
    else if (isElement(value)) this.#element(value, place, depth);
    else if (Array.isArray(value)) this.#list(value, place, depth);
    else if (typeof value === 'object' && value !== null) this.#properties(value as Properties, 'data', depth);
  }

  #list(values: readonly unknown[], place: Place, depth: number): void {
    const isLine = place === 'block' && values.some((value) => typeof value === 'string' && !isReference(value));
    for (const value of values) this.#render(value, isLine ? 'line' : place, depth + 1);
  }

  #text(value: string, place: Place, depth: number): void {
    if (isReference(value)) this.#refer(value.replace(/^\$[L@]?/, ''), place, depth);
    else if (place === 'data') this.#prose(value);
    else if (!value.startsWith('$')) this.#write(escapeText(value));
    else if (value.startsWith('$$')) this.#write(escapeText(value.slice(1)));
  }

  /** Renders the row or the part of a row that `reference` names: `1f` or `1f:props:children:0`. */
  #refer(reference: string, place: Place, depth: number): void {
    if (this.#seen.has(reference)) return;
    this.#seen.add(reference);
    const target = this.#valueOf(reference);
    // The parts of an element have several names.
    if (typeof target === 'object') {
      if (this.#seen.has(target)) return;
      this.#seen.add(target);
    }
    // Text of a row is not a reference, whatever it begins with.
    if (typeof target !== 'string' || reference.includes(':')) this.#render(target, place, depth + 1);
    else if (place === 'data') this.#prose(target);
    else this.#write(escapeText(target));
  }

  #valueOf(reference: string): unknown {
    if (reference.length > MAX_REFERENCE_CHARACTERS) return null;
    const [id = '', ...path] = reference.split(':');
    let value = this.#rows.get(id);
    for (const key of path) {
      // A path names the parts of an element as React holds them.
      const at = isElement(value) ? (PARTS[key] ?? key) : key;
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, at)) return null;
      value = (value as Readonly<Record<string, unknown>>)[at];
    }
    return value;
  }

  #element([, type, , given]: Element, place: Place, depth: number): void {
    const name = String(type);
    const properties = this.#propertiesOf(given);
    if (UNSEEN.test(name)) return;
    if (name === 'html' || name === 'body') this.#children(properties, 'block', depth);
    else if (HOST.test(name)) this.#host(name, properties, place, depth);
    else this.#component(name, properties, place, depth);
  }

  #propertiesOf(given: unknown): Properties {
    const value = typeof given === 'string' && isReference(given) ? this.#valueOf(given.slice(1)) : given;
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Properties) : {};
  }

  #host(name: string, properties: Properties, place: Place, depth: number): void {
    this.#open(name, properties);
    if (VOID.test(name)) return;
    this.#children(properties, place === 'line' || LINE.test(name) ? 'line' : 'block', depth);
    this.#write(`</${name}>`);
  }

  /** A component of the client: a link or an image where its properties say so, else a box around what it holds. */
  #component(name: string, properties: Properties, place: Place, depth: number): void {
    const { href, src, alt } = properties;
    if (typeof href === 'string') {
      this.#host('a', properties, place, depth);
      return;
    }
    if (typeof src === 'string' && typeof alt === 'string') {
      this.#open('img', properties);
      return;
    }
    const isFragment = name.startsWith('$S') || typeof this.#rows.get(name.slice(1)) === 'string';
    const box = isFragment ? '' : place === 'line' ? 'span' : 'div';
    if (box !== '') this.#open(box, properties);
    this.#properties(properties, place, depth);
    if (box !== '') this.#write(`</${box}>`);
  }

  #open(name: string, properties: Properties): void {
    let tag = `<${name}`;
    for (const [property, attribute] of Object.entries(ATTRIBUTES)) {
      const value = Object.hasOwn(properties, property) ? properties[property] : undefined;
      if (typeof value === 'string' || typeof value === 'number')
        tag += ` ${attribute}="${escapeAttribute(String(value))}"`;
      else if (value === true) tag += ` ${attribute}="true"`;
    }
    if (isHiddenStyle(properties['style'])) tag += ' hidden';
    this.#write(`${tag}>`);
  }

  #children(properties: Properties, place: Place, depth: number): void {
    const raw = properties['dangerouslySetInnerHTML'];
    const html = typeof raw === 'object' && raw !== null ? (raw as Properties)['__html'] : undefined;
    if (typeof html === 'string') this.#markup(html);
    else this.#render(properties['children'], place, depth + 1);
  }

  #markup(html: string): void {
    const text = isReference(html) ? this.#valueOf(html.slice(1)) : html.startsWith('$$') ? html.slice(1) : html;
    if (typeof text === 'string') this.#write(text);
  }

  /** Children, and elements and prose in other properties. */
  #properties(properties: Properties, place: Place, depth: number): void {
    for (const [name, value] of Object.entries(properties)) {
      if (name === 'children') this.#render(value, place, depth + 1);
      else if (name === 'dangerouslySetInnerHTML') this.#children({ [name]: value }, place, depth);
      else this.#render(value, 'data', depth + 1);
    }
  }

  #prose(text: string): void {
    if (!this.#withProse || !isProse(text) || this.#seen.has(text)) return;
    this.#seen.add(text);
    this.#write(/<\/?[a-z]/i.test(text) ? `<div>${text}</div>` : `<p>${escapeText(text)}</p>`);
  }

  #write(html: string): void {
    this.#parts.push(html);
    this.#characters += html.length;
  }
}

/** References to rows are `$1f`, lazy `$L1f`, promised `$@1f`, and paths into rows. */
function isReference(value: unknown): boolean {
  return typeof value === 'string' && /^\$[L@]?[\da-f]{1,16}(?::|$)/.test(value);
}

function isHiddenStyle(style: unknown): boolean {
  const { display, visibility } = (typeof style === 'object' && style !== null ? style : {}) as Properties;
  return display === 'none' || visibility === 'hidden';
}
