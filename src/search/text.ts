// Plain text of what services send as HTML, with entities or loose whitespace. Takes time linear in its input, on hostile
// markup too: it reads tokens and never builds a tree.

import { Tokenizer, type TokenizerCallbacks } from 'htmlparser2';

/** Elements within words. */
const INLINE = new Set(
  `a abbr b bdi bdo big cite code del dfn em font i ins kbd label mark math noscript q s samp script small span strike
  strong style sub sup time tt u var`.split(/\s+/),
);

/** Elements that separate words. */
const BLOCK = new Set(
  `address article aside audio blockquote body br button caption center dd details div dl dt figcaption figure footer form
  h1 h2 h3 h4 h5 h6 head header hr html iframe img input li link main meta nav object ol option p picture pre section
  select source summary svg table tbody td textarea tfoot th thead title tr ul video wbr`.split(/\s+/),
);

/** Elements whose text is not shown. */
const SILENT = new Set(['script', 'style']);

/** Tags whose content the tokenizer takes for text, markup and all: it has an end only in whole pages. */
const RAW_TAGS = /<\/?(?:iframe|noembed|noframes|plaintext|textarea|title|xmp)(?=[\s/>])[^<>]*>?/gi;
const SILENT_TAGS = /<\/?(?:script|style)(?=[\s/>])[^<>]*>?/gi;

/** Characters read for each one wanted: the rest of a long field is ignored. */
const MARKUP_FACTOR = 16;

/** Characters that are invisible or change the direction of the text after them. */
const INVISIBLE = /[\p{Cc}\u00ad\u200b\u202a-\u202e\u2060\u2066-\u2069]/gu;

/** Whitespace to fold, invisible characters, lone surrogates: most texts have none. */
const LOOSE = /[^\S ]| {2}|[\p{Cc}\p{Cs}\u00ad\u200b\u202a-\u202e\u2060\u2066-\u2069]/u;

/**
 * Plain text of a field: tags out, entities decoded once, whitespace folded to single spaces, control characters out.
 * What only looks like a tag stays: `List<String>`, `a < b`. Anything but a string gives ''.
 * At most `maxLength` UTF-16 units, well formed.
 */
export function plainText(value: unknown, maxLength = 2000): string {
  if (typeof value !== 'string') return '';
  const input = value.length > maxLength * MARKUP_FACTOR ? value.slice(0, maxLength * MARKUP_FACTOR) : value;
  const hasMarkup = input.includes('<') || input.includes('&');
  const folded = fold(hasMarkup ? (stripSimple(input) ?? strip(input)) : input);
  if (folded.length <= maxLength) return folded;
  // The cut may have halved a surrogate pair.
  return folded
    .slice(0, maxLength)
    .replace(/[\ud800-\udbff]$/, '')
    .trimEnd();
}

function fold(text: string): string {
  if (!LOOSE.test(text)) return text.trim();
  return text.replace(/\s+/g, ' ').replace(INVISIBLE, '').replace(/ {2,}/g, ' ').toWellFormed().trim();
}

const SPACE = 0x20;

/** What replaces a tag in the text: nothing, a space, or itself where no element has its name. */
function trace(name: string, tag: string): string {
  if (INLINE.has(name)) return '';
  return BLOCK.has(name) || /[:-]/.test(name) ? ' ' : tag;
}

class Stripper implements TokenizerCallbacks {
  #input = '';
  #text = '';
  /** Where the tag being read begins, and its name. */
  #tag = 0;
  #name = '';
  /** Where the text of a silent element begins; -1 outside. */
  #silentFrom = -1;
  /** End of the last complete token. */
  #seen = 0;
  #unread = '';

  begin(input: string): void {
    this.#input = input;
    this.#text = '';
    this.#name = '';
    this.#silentFrom = -1;
    this.#seen = 0;
    this.#unread = '';
  }

  /** What follows a script without an end: text that mentions the tag. */
  get unread(): string {
    return this.#unread;
  }

  get text(): string {
    return this.#text;
  }

  ontext(start: number, end: number): void {
    if (this.#silentFrom < 0) this.#text += this.#input.slice(start, end);
    this.#seen = end;
  }

  ontextentity(codepoint: number, end: number): void {
    if (this.#silentFrom < 0) this.#text += String.fromCodePoint(codepoint);
    this.#seen = end;
  }

  onopentagname(start: number, end: number): void {
    this.#tag = start - 1;
    this.#name = this.#input.slice(start, end).toLowerCase();
  }

  onopentagend(end: number): void {
    this.#seen = end + 1;
    this.#text += trace(this.#name, this.#input.slice(this.#tag, this.#seen));
    if (SILENT.has(this.#name)) this.#silentFrom = this.#seen;
  }

  onselfclosingtag(end: number): void {
    this.onopentagend(end);
    this.#silentFrom = -1;
  }

  onclosetag(start: number, end: number): void {
    const name = this.#input.slice(start, end);
    this.#silentFrom = -1;
    this.#seen = end;
    this.#text += trace(name.toLowerCase(), `</${name}>`);
  }

  oncdata(start: number, end: number, endOffset: number): void {
    this.#text += this.#input.slice(start, end - endOffset);
    this.#seen = end;
  }

  oncomment(_start: number, end: number): void {
    this.#seen = end;
  }

  onend(): void {
    if (this.#silentFrom >= 0) {
      this.#unread = this.#input.slice(this.#silentFrom);
      return;
    }
    // A tag without an end is text if no element has its name.
    const rest = this.#input.slice(this.#seen);
    const [, before = '', name = ''] = /^([^<]*)<\/?([a-z][^\s/>]*)/i.exec(rest) ?? [];
    if (name !== '') this.#text += trace(name.toLowerCase(), rest.slice(before.length));
  }

  onattribname(): void {}
  onattribdata(): void {}
  onattribentity(): void {}
  onattribend(): void {}
  ondeclaration(): void {}
  onprocessinginstruction(): void {}
}

const stripper = new Stripper();
/** One for all texts: a text is read synchronously, and a new tokenizer costs more than most texts. */
const tokenizer = new Tokenizer({ decodeEntities: true }, stripper);

function strip(input: string): string {
  const whole = input.replace(RAW_TAGS, ' ');
  stripper.begin(whole);
  tokenizer.reset();
  tokenizer.write(whole);
  tokenizer.end();
  const { text, unread } = stripper;
  return unread === '' ? text : text + strip(unread.replace(SILENT_TAGS, ' '));
}

/** What text at one place is replaced with: nothing for -1. */
interface Replacement {
  readonly text: string;
  readonly unit: number;
}

/** Elements by which services mark the words of the query, without attributes. */
const SIMPLE_TAGS: readonly Replacement[] = 'b strong em i mark span u code br p'.split(' ').flatMap((name) => {
  const unit = trace(name, '') === '' ? -1 : SPACE;
  return [`<${name}>`, `</${name}>`].map((text) => ({ text, unit }));
});

const SIMPLE_ENTITIES: readonly Replacement[] = [
  { text: '&amp;', unit: 0x26 },
  { text: '&lt;', unit: 0x3c },
  { text: '&gt;', unit: 0x3e },
  { text: '&quot;', unit: 0x22 },
  { text: '&apos;', unit: 0x27 },
  { text: '&#39;', unit: 0x27 },
  { text: '&#x27;', unit: 0x27 },
  { text: '&#34;', unit: 0x22 },
  { text: '&nbsp;', unit: 0xa0 },
];

const AMPERSAND = 0x26;
const LESS_THAN = 0x3c;

/** The text under work, of twice the usual length at most: one for all texts. */
const units = new Uint16Array(4096);
const utf16 = Buffer.from(units.buffer);
const latin1 = Buffer.alloc(units.length);

/**
 * The same as `strip` for text with nothing but simple tags and entities, as most snippets are, which allocates the result
 * only. Undefined for all other text.
 */
function stripSimple(input: string): string | undefined {
  if (input.length > units.length) return undefined;
  for (let at = 0; at < input.length; at++) units[at] = input.charCodeAt(at);
  const length = stripUnits(input.length);
  return length < 0 ? undefined : textOfUnits(length);
}

/**
 * Text of some bytes of ASCII without their simple tags and entities, where it has some and no others, and no markup is left.
 * `plainText` makes the same of it as of the bytes. Undefined for all other bytes.
 */
export function strippedAscii(bytes: Buffer, from: number, to: number): string | undefined {
  if (to - from > units.length) return undefined;
  let hasMarkup = false;
  for (let at = from; at < to; at++) {
    const byte = bytes[at] as number;
    units[at - from] = byte;
    hasMarkup ||= byte === LESS_THAN || byte === AMPERSAND;
  }
  if (!hasMarkup) return undefined;
  const length = stripUnits(to - from);
  for (let at = 0; at < length; at++) if (units[at] === LESS_THAN || units[at] === AMPERSAND) return undefined;
  return length < 0 ? undefined : textOfUnits(length);
}

/** Replaces the tags and entities in the first units. Gives the new length; -1: there are others. */
function stripUnits(end: number): number {
  let length = 0;
  for (let at = 0; at < end;) {
    let unit = units[at] as number;
    if (unit === LESS_THAN || unit === AMPERSAND) {
      const found = replacementAt(at, end, unit === LESS_THAN ? SIMPLE_TAGS : SIMPLE_ENTITIES);
      if (found === undefined) return -1;
      at += found.text.length;
      ({ unit } = found);
      if (unit < 0) continue;
    } else {
      at++;
    }
    units[length++] = unit;
  }
  return length;
}

function replacementAt(at: number, end: number, list: readonly Replacement[]): Replacement | undefined {
  for (let index = 0; index < list.length; index++) {
    const replacement = list[index] as Replacement;
    if (isAt(replacement.text, at, end)) return replacement;
  }
  return undefined;
}

function isAt(text: string, from: number, end: number): boolean {
  if (from + text.length > end) return false;
  for (let at = 0; at < text.length; at++) if (units[from + at] !== text.charCodeAt(at)) return false;
  return true;
}

function textOfUnits(length: number): string {
  for (let at = 0; at < length; at++) {
    const unit = units[at] as number;
    if (unit > 0xff) return utf16.toString('utf16le', 0, 2 * length);
    latin1[at] = unit;
  }
  return latin1.toString('latin1', 0, length);
}
