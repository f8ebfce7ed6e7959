// Extracts the text of a PDF with its paragraphs, headings, lists and tables. The PDF library runs in the calling thread: the cost of a hostile file is bounded
// by pages and characters here, and by the limits of the thread.

import { performance } from 'node:perf_hooks';
import { constants, inflateSync } from 'node:zlib';
import { getDocumentProxy } from 'unpdf';
import { HeadraceError } from '../errors.ts';
import { render } from './clean.ts';
import { CmapFactory } from './cmaps/cmaps.ts';
import { clip, hasDay, MAX_AUTHORS } from './metadata.ts';
import { type CleanJob, type CleanOptions, type CleanPage, oneLine, type PageMetadata } from './page.ts';
import { type Fragment, htmlOfPages, type PageText } from './pdf-layout.ts';

/** Longer documents are cut, so that they end within the time limit. */
const MAX_PAGES = 500;
const MAX_CHARACTERS = 4_000_000;

/** On some damaged files the library waits for ever: for so long it does nothing. A step that works is bounded by the thread's time limit. */
const STALL_MS = 4000;

/** Share of that time in which a thread that does nothing still does something: timers, messages. */
const IDLE_SHARE = 0.05;

/** About the most pieces of text on a page; the rest is left out. */
const MAX_ITEMS = 100_000;

/** Share of the time limit after which no more is read; the rest is for what has been read. */
const READING_SHARE = 0.6;

/** Text needs no fonts, images or forms; the library logs nothing. */
const OPTIONS = {
  disableFontFace: true,
  useSystemFonts: false,
  enableXfa: false,
  maxImageSize: 0,
  verbosity: 0,
  cMapUrl: 'cmaps/',
  cMapPacked: true,
  BinaryDataFactory: CmapFactory,
};

/** Larger streams are decompressed by the library as it reads, which takes more time and, up to the limit of the thread, any memory. */
const MAX_INFLATED_BYTES = 32 * 1024 * 1024;
/** Pieces into which a stream is decompressed: as large as it is likely to be, within bounds. */
const MIN_PIECE_BYTES = 4096;
const MAX_PIECE_BYTES = 4 * 1024 * 1024;
const INFLATED_FACTOR = 8;

/**
 * By which the library decompresses a whole stream. That of the platform does so to any size, in pieces of 16 KiB, which an allocator that
 * all threads use does not give back when a thread that has too many is ended. What is cut off is decompressed as far as it goes. Only threads of
 * cleaners load this file.
 */
class InflateStream extends TransformStream<Uint8Array, Uint8Array> {
  constructor(format: string) {
    if (format !== 'deflate') throw new TypeError(`not supported: ${format}`);
    super({
      transform(bytes, controller) {
        const likely = Math.max(MIN_PIECE_BYTES, INFLATED_FACTOR * bytes.byteLength);
        const chunkSize = Math.min(likely, MAX_PIECE_BYTES);
        const finishFlush = constants.Z_SYNC_FLUSH;
        controller.enqueue(inflateSync(bytes, { chunkSize, finishFlush, maxOutputLength: MAX_INFLATED_BYTES }));
      },
    });
  }
}
Reflect.set(globalThis, 'DecompressionStream', InflateStream);

/** Word processors often store a file name as title. */
const FILE_NAME = /^(?:untitled.*|[^ ]*\.(?:docx?|dvi|indd|odt|pdf|pptx?|qxd|rtf|tex|xlsx?))$/i;

/** What ReportLab writes for what a program does not say. */
const UNSAID = /^\(?(?:anonymous|unspecified)\)?$/;

type PdfDocument = Awaited<ReturnType<typeof getDocumentProxy>>;
type TextContent = Awaited<ReturnType<Awaited<ReturnType<PdfDocument['getPage']>>['getTextContent']>>;
type TextItem = Extract<TextContent['items'][number], { str: string }>;

/** How a PDF is read: its text is written once or twice, and cut where it takes too long. */
type PdfReading = CleanOptions & Pick<CleanJob, 'alsoHtml' | 'timeoutMs'>;

/**
 * Reads a PDF. The result is `truncated` where it has not the whole text. Fails with `HR_FETCH_UNREADABLE` for files without text:
 * scanned, encrypted or damaged.
 */
export async function readPdf(bytes: Uint8Array, options: PdfReading = {}): Promise<CleanPage> {
  const { alsoHtml = false, include = [], timeoutMs = Infinity } = options;
  const dueMs = performance.now() + READING_SHARE * timeoutMs;
  const document = await open(bytes);
  try {
    const { pages, truncated } = await pagesOf(document, dueMs);
    const html = htmlOfPages(pages);
    const page = render(html, '', options);
    if (page.content === '') throw unreadable('the PDF has no text; it may be a scan');
    const { info } = await unlessStalled(document.getMetadata()).catch(() => ({ info: {} }));
    const entries = info as Readonly<Record<string, unknown>>;
    const title = titleOf(entries);
    return {
      ...page,
      ...(alsoHtml && { html: render(html, '', { ...options, format: 'html' }).content }),
      ...(title === '' ? {} : { title }),
      ...(truncated ? { truncated } : {}),
      ...(include.includes('metadata') ? saidOf(entries) : {}),
    };
  } finally {
    await unlessStalled(document.loadingTask.destroy()).catch(() => undefined);
  }
}

// On damaged files the library leaves rejected promises without a handler, some after its result. They would end the thread
// with its next page. Other unhandled rejections are defects and are thrown.
process.on('unhandledRejection', (reason: unknown) => {
  if (!isOfLibrary(reason)) throw reason;
});

function isOfLibrary(reason: unknown): boolean {
  const { name, stack } = (reason ?? {}) as { readonly name?: unknown; readonly stack?: unknown };
  if (typeof stack === 'string' && stack.includes('unpdf')) return true;
  return typeof name === 'string' && /^(?:[A-Z]\w*Exception|FormatError)$/.test(name);
}

/** Rejects when the step is not over and the event loop of the thread has been idle for `stallMs`, however busy the machine is. */
export async function unlessStalled<T>(step: Promise<T>, stallMs = STALL_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const stall = new Promise<never>((_, reject) => {
    const watch = (): void => {
      const before = performance.eventLoopUtilization();
      timer = setTimeout(() => {
        if (performance.eventLoopUtilization(before).active > stallMs * IDLE_SHARE) watch();
        else reject(new Error('stalled'));
      }, stallMs);
    };
    watch();
  });
  try {
    return await Promise.race([step, stall]);
  } finally {
    clearTimeout(timer);
  }
}

async function open(bytes: Uint8Array): Promise<PdfDocument> {
  try {
    return await unlessStalled(getDocumentProxy(bytes, OPTIONS));
  } catch (error) {
    const isEncrypted = error instanceof Error && error.name === 'PasswordException';
    throw unreadable(isEncrypted ? 'the PDF is encrypted' : 'the PDF is damaged', error);
  }
}

/** The pages that are read until `dueMs`, of the first one something in any case. */
async function pagesOf(document: PdfDocument, dueMs: number): Promise<{ pages: PageText[]; truncated: boolean }> {
  const pages: PageText[] = [];
  let characters = 0;
  let isWhole = document.numPages <= MAX_PAGES;
  const count = Math.min(document.numPages, MAX_PAGES);
  for (let number = 1; number <= count && characters <= MAX_CHARACTERS; number++) {
    if (pages.length > 0 && performance.now() >= dueMs) return { pages, truncated: true };
    // A damaged page leaves the others readable.
    const page = await unlessStalled(pageText(document, number, dueMs)).catch(() => null);
    isWhole &&= page?.isWhole === true;
    if (page === null) continue;
    for (const { text } of page.fragments) characters += text.length;
    for (const text of page.others) characters += text.length;
    pages.push(page);
  }
  return { pages, truncated: !isWhole || characters > MAX_CHARACTERS };
}

async function pageText(
  document: PdfDocument,
  number: number,
  dueMs: number,
): Promise<PageText & { readonly isWhole: boolean }> {
  const page = await document.getPage(number);
  const texts: TextItem[] = [];
  const reader = (page.streamTextContent() as ReadableStream<TextContent>).getReader();
  let next = await reader.read();
  for (let isFull = false; !next.done && !isFull; next = await reader.read()) {
    for (const item of next.value.items) if ('str' in item) texts.push(item);
    isFull = texts.length >= MAX_ITEMS || (texts.length > 0 && performance.now() >= dueMs);
  }
  const isWhole = next.done;
  // Not waited for: the library does not answer where it has sent all. It fails without a reason.
  if (!isWhole) reader.cancel(new Error('cut')).catch(() => undefined);
  page.cleanup();
  const { view } = page;
  const turned = turnOf(texts);
  const fragments: Fragment[] = [];
  const others: TextItem[] = [];
  for (const item of texts) {
    if (item.dir === 'ttb' || quarterOf(item) !== turned) others.push(item);
    else fragments.push(fragmentOf(item, turned, view));
  }
  return { fragments, others: textsOf(others), height: heightOf(view, turned), isWhole };
}

/** The turn of most text of a page, in quarters. */
function turnOf(items: readonly TextItem[]): number {
  const characters = [0, 0, 0, 0];
  for (const item of items) characters[quarterOf(item)]! += item.str.length;
  return characters.indexOf(Math.max(...characters));
}

/** The turn of a text: 0 is upright, 1 runs upwards. */
function quarterOf({ transform }: TextItem): number {
  const [a = 1, b = 0] = transform as number[];
  if (Math.abs(a) >= Math.abs(b)) return a >= 0 ? 0 : 2;
  return b > 0 ? 1 : 3;
}

/** The height of a page as its text is read. `view`: its left, lower, right and upper edge. */
function heightOf([left = 0, bottom = 0, right = 0, top = 0]: readonly number[], turn: number): number {
  return turn % 2 === 0 ? top - bottom : right - left;
}

function fragmentOf({ str, dir, transform, width, height }: TextItem, turn: number, view: readonly number[]): Fragment {
  const [, , , , e = 0, f = 0] = transform as number[];
  const [left = 0, bottom = 0, right = 0, top = 0] = view;
  const [x, y] = [
    [e, f - bottom],
    [f, right - e],
    [-e, top - f],
    [-f, e - left],
  ][turn] as [number, number];
  return { text: str, x, y, width, size: height || 1, isRightToLeft: dir === 'rtl' };
}

/** Texts in the order of the file, divided where the file ends a line that ends a sentence. */
function textsOf(items: readonly TextItem[]): string[] {
  const texts: string[] = [];
  let text = '';
  for (const { str, hasEOL, dir } of items) {
    text += str;
    if (!hasEOL || (dir === 'ttb' && !/[.。！？]$/.test(text))) continue;
    texts.push(oneLine(text));
    text = '';
  }
  return [...texts, oneLine(text)].filter((each) => each !== '');
}

function titleOf(entries: Readonly<Record<string, unknown>>): string {
  const name = namedIn(entries, 'Title').replace(/^Microsoft (?:Word|PowerPoint) - /, '');
  return FILE_NAME.test(name) ? '' : name;
}

/** A text that the file says of itself; empty without one. */
function namedIn(entries: Readonly<Record<string, unknown>>, key: string): string {
  const said = typeof entries[key] === 'string' ? clip(entries[key]) : '';
  return UNSAID.test(said) ? '' : said;
}

function saidOf(entries: Readonly<Record<string, unknown>>): Pick<CleanPage, 'authors' | 'metadata'> {
  const metadata = metadataOf(entries);
  // ISO 32000 has one text for all authors; programs part names by semicolons, and by commas only where names have none.
  const authors = (metadata.author ?? '')
    .split(';')
    .map((name) => name.trim())
    .filter((name) => name !== '')
    .slice(0, MAX_AUTHORS);
  return { metadata, ...(authors.length > 0 && { authors }) };
}

function metadataOf(entries: Readonly<Record<string, unknown>>): PageMetadata {
  const named = (key: string): string => namedIn(entries, key);
  const fields = {
    description: named('Subject'),
    author: named('Author'),
    published: isoOf(named('CreationDate')),
    modified: isoOf(named('ModDate')),
    language: named('Language'),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''));
}

/** An ISO 8601 date from ISO 32000, section 7.9.4: `D:YYYYMMDDHHmmSSOHH'mm'`. */
function isoOf(date: string): string {
  const found = /^D:(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)(?:Z|([+-]\d\d)'?(\d\d)?))?/.exec(date);
  if (found === null) return /^D:(\d{4})/.exec(date)?.[1] ?? '';
  const [, year, month, day, hour, minute, second, zone, zoneMinute = '00'] = found;
  const time =
    hour === undefined ? '' : `T${hour}:${minute}:${second}${zone === undefined ? 'Z' : `${zone}:${zoneMinute}`}`;
  const written = `${year}-${month}-${day}${time}`;
  return hasDay(written) ? written : '';
}

function unreadable(subject: string, cause?: unknown): HeadraceError {
  return new HeadraceError('HR_FETCH_UNREADABLE', { subject, cause });
}
