// Decodes the bytes of a page. Determines the encoding in the order of the WHATWG Encoding and HTML standards (byte order
// mark, header, declaration, detection), but valid UTF-8 goes before header and declaration. Any bytes give well-formed text.

import { isAscii, isUtf8 } from 'node:buffer';
import { decodeKorean } from './korean.ts';

/**
 * Where a page may declare its encoding. The standard looks at 1,024 bytes before parsing and takes later declarations
 * as the parser meets them; within the head, that comes to the same.
 */
const DECLARATION_BYTES = 16_384;

/** Enough text to detect an encoding. */
const SAMPLE_BYTES = 65_536;

/**
 * Encodings in which pairs of letters are valid UTF-8 by chance. Only with this many sequences, or a page that declares UTF-8, is text
 * UTF-8 against what they are declared as: eight in a row by chance are about one in a billion.
 */
const AMBIGUOUS: ReadonlySet<string> = new Set([
  ...['big5', 'euc-jp', 'euc-kr', 'gb18030', 'gbk', 'iso-2022-jp', 'shift_jis', 'windows-874'],
]);
const SURE_SEQUENCES = 8;

/** An encoding that pages use without declaring it, and typical text in it. */
interface Candidate {
  readonly encoding: string;
  readonly usual: RegExp;
  /** Least share of the letters above U+007F that `usual` must cover. */
  readonly share: number;
}

const CYRILLIC = /[А-ЯЁ]?[а-яё]{2,}/gu;
const KANA = /[ぁ-んァ-ヶー]/gu;

/** The most frequent Chinese characters are a tenth of most texts, and rare in wrongly decoded text. */
const CANDIDATES: readonly Candidate[] = [
  { encoding: 'shift_jis', usual: KANA, share: 0.15 },
  { encoding: 'euc-jp', usual: KANA, share: 0.15 },
  { encoding: 'gbk', usual: /[的一是不了在有人这中大为上个国我以要他时来用们生到作地于出就]/gu, share: 0.04 },
  { encoding: 'big5', usual: /[的一是不了在有人這中大為上個國我以要他時來用們生到作地於出就]/gu, share: 0.04 },
  { encoding: 'euc-kr', usual: /[가-힣]/gu, share: 0.8 },
  { encoding: 'windows-1251', usual: CYRILLIC, share: 0.5 },
  { encoding: 'koi8-r', usual: CYRILLIC, share: 0.5 },
];

/**
 * The text of `bytes`, always well-formed; invalid bytes become U+FFFD. `headerCharset` is the parameter of
 * `Content-Type`, null without one. A page that claims UTF-8 in header or declaration and is mostly something else is
 * read as what else it declares or looks like; one that is UTF-8 under another name, as servers with a default charset send it, as UTF-8.
 */
export function decode(bytes: Uint8Array, headerCharset: string | null): string {
  const encoding = encodingOf(bytes, headerCharset);
  if (encoding === 'euc-kr') return decodeKorean(bytes);
  return new TextDecoder(encoding).decode(bytes).toWellFormed();
}

/** The encoding that `decode` reads `bytes` in, by its name in the Encoding Standard. */
export function encodingOf(bytes: Uint8Array, headerCharset: string | null): string {
  const marked = byMark(bytes);
  if (marked !== null) return marked;
  const declared = headerCharset === null ? null : byLabel(headerCharset);
  const wide = byZeros(bytes);
  if (wide !== null) return wide;
  const isValid = isUtf8(bytes);
  const isPlain = isAscii(bytes);
  if (declared !== null && declared !== 'utf-8' && !(isValid && isUtf8Instead(bytes, isPlain, declared)))
    return declared;
  if (declared === 'utf-8' && isValid) return 'utf-8';
  // ISO-2022-JP is ASCII with escape sequences.
  if (isPlain && !bytes.includes(0x1b)) return 'utf-8';
  const inPage = byDeclaration(bytes);
  if (!isPlain && isValid && (inPage === null || isUtf8Instead(bytes, isPlain, inPage))) return 'utf-8';
  if (inPage !== null && inPage !== 'utf-8' && declared !== 'utf-8') return inPage;
  const first = bytes.findIndex((byte) => byte > 0x7f);
  const sample = bytes.subarray(first, first + SAMPLE_BYTES);
  if (isMostlyUtf8(sample)) return 'utf-8';
  return inPage === null || inPage === 'utf-8' ? detected(sample) : inPage;
}

/** Whether bytes that are valid UTF-8 are meant so, although another encoding is declared. */
function isUtf8Instead(bytes: Uint8Array, isPlain: boolean, declared: string): boolean {
  // UTF-16 without a zero in 1,024 bytes is East Asian text, which is not valid UTF-8.
  if (declared.startsWith('utf-16') || declared === 'utf-8') return true;
  if (isPlain) return false;
  if (!AMBIGUOUS.has(declared)) return true;
  let sequences = 0;
  for (const byte of bytes) {
    if (byte >= 0xc2 && ++sequences === SURE_SEQUENCES) return true;
  }
  return byDeclaration(bytes) === 'utf-8';
}

function byMark(bytes: Uint8Array): string | null {
  const [first, second, third] = bytes;
  if (first === 0xef && second === 0xbb && third === 0xbf) return 'utf-8';
  if (first === 0xfe && second === 0xff) return 'utf-16be';
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  return null;
}

/** Null for an unknown label and for encodings that the standard replaces as unsafe. */
function byLabel(label: string): string | null {
  const name = label.trim().toLowerCase();
  if (name === 'x-user-defined') return 'windows-1252';
  try {
    return new TextDecoder(name).encoding;
  } catch {
    return null;
  }
}

/** UTF-16 without a mark: markup begins with a zero in every other byte, and most of its other bytes have one. */
function byZeros(bytes: Uint8Array): string | null {
  const [first = 0, second = 0, third = 0, fourth = 0] = bytes;
  if (first === 0x3c && second === 0 && isMarkup(third) && fourth === 0) return 'utf-16le';
  if (first === 0 && second === 0x3c && third === 0 && isMarkup(fourth)) return 'utf-16be';
  const pairs = Math.min(bytes.length, 1024) >> 1;
  let even = 0;
  let odd = 0;
  for (let index = 0; index < pairs; index++) {
    if (bytes[2 * index] === 0) even++;
    if (bytes[2 * index + 1] === 0) odd++;
  }
  if (odd > pairs / 2 && even < pairs / 20) return 'utf-16le';
  return even > pairs / 2 && odd < pairs / 20 ? 'utf-16be' : null;
}

/** What follows the first `<` of a page: a letter, `!` or `?`. */
function isMarkup(byte: number): boolean {
  return byte === 0x21 || byte === 0x3f || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a);
}

/** The encoding that the page declares in an XML declaration or a `meta` element; null without a usable one. */
function byDeclaration(bytes: Uint8Array): string | null {
  const head = new TextDecoder('windows-1252').decode(bytes.subarray(0, DECLARATION_BYTES));
  const xml = /^<\?xml\s[^>]*?encoding\s*=\s*["']([^"']+)["']/.exec(head)?.[1];
  const label = metaLabel(head) ?? xml;
  const encoding = label === undefined ? null : byLabel(label);
  // A declaration that is readable as ASCII is not in UTF-16.
  return encoding?.startsWith('utf-16') ? 'utf-8' : encoding;
}

/** The prescan of the HTML standard, section "prescan a byte stream to determine its encoding". */
function metaLabel(head: string): string | undefined {
  let at = head.indexOf('<');
  while (at !== -1) {
    if (head.startsWith('<!--', at)) {
      const end = head.indexOf('-->', at + 2);
      at = end === -1 ? -1 : head.indexOf('<', end + 3);
    } else if (/[a-z]/i.test(head[at + 1] ?? '')) {
      const isMeta = /^meta[\s/]/i.test(head.slice(at + 1, at + 6));
      const [attributes, end] = attributesAt(head, head.slice(at).search(/[\s/>]|$/) + at);
      const label = isMeta ? labelOfMeta(attributes) : undefined;
      if (label !== undefined && byLabel(label) !== null) return label;
      at = head.indexOf('<', end);
    } else {
      at = head.indexOf('<', at + 1);
    }
  }
  return undefined;
}

/** Attributes of a tag, the first of each name, and where the tag ends. */
function attributesAt(head: string, start: number): [Map<string, string>, number] {
  const attribute = /[\s/]*(?:([^\s/>][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"?|'([^']*)'?|([^\s>]*)))?)?/y;
  const found = new Map<string, string>();
  attribute.lastIndex = start;
  for (;;) {
    const [, name, double, single, bare] = attribute.exec(head) ?? [];
    if (name === undefined) return [found, Math.max(attribute.lastIndex, start)];
    const key = name.toLowerCase();
    if (!found.has(key)) found.set(key, double ?? single ?? bare ?? '');
  }
}

function labelOfMeta(attributes: ReadonlyMap<string, string>): string | undefined {
  const charset = attributes.get('charset');
  if (charset !== undefined) return charset;
  if (attributes.get('http-equiv')?.toLowerCase() !== 'content-type') return undefined;
  const [, double, single, bare] =
    /charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;"']+))/i.exec(attributes.get('content') ?? '') ?? [];
  return double ?? single ?? bare;
}

/** Whether more characters are valid UTF-8 than invalid. */
function isMostlyUtf8(sample: Uint8Array): boolean {
  const text = new TextDecoder().decode(sample);
  const broken = count(text, /\ufffd/g);
  return broken < count(text, /[^\0-\x7f]/gu) - broken;
}

/** The first candidate with typical text in the sample; Windows-1252 when there is none, as in browsers. */
function detected(sample: Uint8Array): string {
  for (const { encoding, usual, share } of CANDIDATES) {
    const text = new TextDecoder(encoding).decode(sample);
    const letters = count(text, /[^\P{L}a-zA-Z]/gu);
    const broken = count(text, /\ufffd/g);
    if (letters > 0 && broken <= letters / 20 && count(text, usual) >= letters * share) return encoding;
  }
  return 'windows-1252';
}

/** UTF-16 units that `pattern` covers in `text`. */
function count(text: string, pattern: RegExp): number {
  let units = 0;
  for (const [match] of text.matchAll(pattern)) units += match.length;
  return units;
}
