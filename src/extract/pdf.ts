// Extracts the text of a PDF in paragraphs. The PDF library runs in the calling thread: the cost of a hostile file is bounded
// by pages and characters here, and by the limits of the thread.

import { performance } from 'node:perf_hooks';
import { getDocumentProxy } from 'unpdf';
import { HeadraceError } from '../errors.ts';
import { type CleanPage, oneLine, type PageExtra, type PageMetadata, pageOf, tidy } from './page.ts';

/** Longer documents are cut, so that they end within the time limit. */
const MAX_PAGES = 500;
const MAX_CHARACTERS = 4_000_000;

/** On some damaged files the library waits for ever: for so long it does nothing. A step that works is bounded by the thread's time limit. */
const STALL_MS = 4000;

/** Share of that time in which a thread that does nothing still does something: timers, messages. */
const IDLE_SHARE = 0.05;

/** Text needs no fonts, images or forms; the library logs nothing. */
const OPTIONS = { disableFontFace: true, useSystemFonts: false, enableXfa: false, maxImageSize: 0, verbosity: 0 };

/** Word processors often store a file name as title. */
const FILE_NAME = /^(?:untitled.*|[^ ]*\.(?:docx?|dvi|indd|odt|pdf|pptx?|qxd|rtf|tex|xlsx?))$/i;

type PdfDocument = Awaited<ReturnType<typeof getDocumentProxy>>;
type TextItem = Extract<
  Awaited<ReturnType<Awaited<ReturnType<PdfDocument['getPage']>>['getTextContent']>>['items'][number],
  { str: string }
>;

/** A line of a page; lengths in points, y from the lower edge. */
interface Line {
  readonly text: string;
  readonly x: number;
  readonly y: number;
  readonly height: number;
}

/** Fails with `HR_FETCH_UNREADABLE` for files without text: scanned, encrypted or damaged. */
export async function readPdf(bytes: Uint8Array, url: string, include: readonly PageExtra[]): Promise<CleanPage> {
  const document = await open(bytes);
  try {
    const content = await textOf(document);
    if (content === '') throw unreadable('no text in the PDF');
    const { info } = await unlessStalled(document.getMetadata()).catch(() => ({ info: {} }));
    const entries = info as Readonly<Record<string, unknown>>;
    const firstLine = content.split('\n', 1)[0] ?? '';
    const metadata = include.includes('metadata') ? metadataOf(entries) : undefined;
    return pageOf(content, [titleOf(entries), firstLine], url, metadata);
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
    throw unreadable(isEncrypted ? 'no text in the PDF' : 'the PDF is damaged', error);
  }
}

async function textOf(document: PdfDocument): Promise<string> {
  const pages: string[] = [];
  let characters = 0;
  for (let number = 1; number <= Math.min(document.numPages, MAX_PAGES); number++) {
    // A damaged page leaves the others readable.
    const text = await unlessStalled(pageText(document, number)).catch(() => '');
    characters += text.length;
    if (text !== '') pages.push(text);
    if (characters > MAX_CHARACTERS) break;
  }
  return tidy(pages.join('\n\n'));
}

async function pageText(document: PdfDocument, number: number): Promise<string> {
  const page = await document.getPage(number);
  const { items } = await page.getTextContent();
  page.cleanup();
  const lines = linesOf(items.filter((item): item is TextItem => 'str' in item));
  return paragraphsOf(lines).join('\n\n');
}

function linesOf(items: readonly TextItem[]): Line[] {
  const lines: Line[] = [];
  let first: TextItem | null = null;
  let text = '';
  const end = (): void => {
    if (first !== null && text.trim() !== '') {
      const [, , , , x, y] = first.transform as number[];
      lines.push({ text: oneLine(text), x: x ?? 0, y: y ?? 0, height: first.height });
    }
    first = null;
    text = '';
  };
  for (const item of items) {
    if (item.str.trim() !== '') first ??= item;
    text += item.str;
    if (item.hasEOL) end();
  }
  end();
  return lines;
}

function paragraphsOf(lines: readonly Line[]): string[] {
  const usualGap = median(gapsOf(lines));
  const paragraphs: string[] = [];
  let previous: Line | undefined;
  for (const line of lines) {
    const paragraph = paragraphs.at(-1);
    if (previous === undefined || paragraph === undefined || isBreak(previous, line, usualGap))
      paragraphs.push(line.text);
    else paragraphs[paragraphs.length - 1] = joined(paragraph, line.text);
    previous = line;
  }
  return paragraphs;
}

/** Whether a paragraph ends between two lines: by the gap, the font size, or an indent after the end of a sentence. */
function isBreak(above: Line, below: Line, usualGap: number): boolean {
  const gap = above.y - below.y;
  const size = Math.max(above.height, below.height);
  const ended = /[.!?:;。！？؟।…"'”’)\]]$/.test(above.text);
  // Upwards: the next column.
  if (gap < -size / 2) return ended;
  if (gap > 1.3 * Math.max(usualGap, size)) return true;
  if (Math.abs(above.height - below.height) > 0.15 * size) return true;
  return ended && below.x - above.x > 0.8 * size;
}

/** Joins lines: hyphenated words without the hyphen, scripts without spaces without one. */
function joined(above: string, below: string): string {
  if (/\p{Ll}[-\u00ad\u2010]$/u.test(above) && /^\p{Ll}/u.test(below)) return above.slice(0, -1) + below;
  const isDense = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}。、，]$/u.test(above);
  return isDense && /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u.test(below)
    ? above + below
    : `${above} ${below}`;
}

function gapsOf(lines: readonly Line[]): number[] {
  return lines.slice(1).flatMap((line, index) => {
    const gap = (lines[index]?.y ?? 0) - line.y;
    return gap > 1 ? [gap] : [];
  });
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[values.length >> 1] ?? 0;
}

function titleOf({ Title: title }: Readonly<Record<string, unknown>>): string {
  if (typeof title !== 'string') return '';
  const name = title.replace(/^Microsoft (?:Word|PowerPoint) - /, '').trim();
  return FILE_NAME.test(name) ? '' : name;
}

function metadataOf(entries: Readonly<Record<string, unknown>>): PageMetadata {
  const named = (key: string): string => (typeof entries[key] === 'string' ? oneLine(entries[key]).toWellFormed() : '');
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
  return `${year}-${month}-${day}${time}`;
}

function unreadable(subject: string, cause?: unknown): HeadraceError {
  return new HeadraceError('HR_FETCH_UNREADABLE', { subject, cause });
}
