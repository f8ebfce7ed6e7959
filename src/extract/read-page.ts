// Reads a downloaded page with the reader for its media type: HTML, XML, JSON, plain text or PDF.

import { HeadraceError } from '../errors.ts';
import type { CleanJob, CleanOptions, CleanPage } from './page.ts';
import { cleanScored, clean, render } from './clean.ts';
import { CleanTrace } from './clean-trace.ts';
import { decode } from './charset.ts';
import { htmlOfCode, htmlOfParagraphs } from './html-writer.ts';
import { score } from './model.ts';
import { readSiteJson } from './sites/sites.ts';
import { readJson, readText, readXml } from './plain-text.ts';

const HTML = /^(?:text\/html|application\/xhtml\+xml)$/;
const PDF = /^application\/(?:x-)?pdf$/;
const JSON_TYPES = /^(?:(?:application|text)\/json|application\/(?:[\w.-]+\+json|jsonl|x-ndjson))$/;
const XML_TYPES = /^(?:(?:application|text)\/xml|application\/[\w.-]+\+xml)$/;
const TEXT = /^(?:text\/.+|application\/(?:(?:x-)?(?:javascript|markdown|yaml)|[\w.-]+\+yaml))$/;

/** XHTML that is declared as XML, by its first element: feeds have HTML in their entries. */
const HTML_ROOT = /^[^<]*(?:<[?!][^<]*)*<html[\s>]/i;
const COMMENT = /<!--[^]*?(?:-->|$)/g;
const ROOT_WITHIN = 2048;

/**
 * Clean text of a page. Fails with `HR_FETCH_TYPE` for a type that is not text, and `HR_FETCH_UNREADABLE` for a PDF
 * without text. Text, JSON and XML are the same as text and as Markdown; as HTML, they are paragraphs, JSON is code.
 */
export async function readPage({ alsoHtml = false, ...job }: CleanJob): Promise<CleanPage> {
  if (!alsoHtml || job.format === 'html') return await readIn(job);
  if (PDF.test(job.mediaType)) return await readIn({ ...job, alsoHtml });
  const { content: html } = await readIn({ ...job, format: 'html', explain: false });
  return { ...(await readIn(job)), html };
}

async function readIn(job: CleanJob): Promise<CleanPage> {
  const { page, kind } = await read(job);
  if (job.format !== 'html' || kind === 'html') return page;
  return { ...page, content: kind === 'json' ? htmlOfCode(page.content, 'json') : htmlOfParagraphs(page.content) };
}

function cleanExplained(html: string, options: CleanOptions): CleanPage {
  const trace = new CleanTrace();
  const page = cleanScored(html, options, score, trace);
  return { ...page, explanation: trace.explanation() };
}

/** A page, and what its content is written in: the format asked for (html), or plain text. */
interface Reading {
  readonly page: CleanPage;
  readonly kind: 'html' | 'json' | 'text';
}

async function read({ bytes, mediaType, charset, explain = false, ...options }: CleanJob): Promise<Reading> {
  const { url = '' } = options;
  if (PDF.test(mediaType)) {
    // Loaded with the first PDF: the library costs time and memory.
    const { readPdf } = await import('./pdf.ts');
    return { page: await readPdf(bytes, options), kind: 'html' };
  }
  const isXml = XML_TYPES.test(mediaType);
  if (!isXml && !TEXT.test(mediaType) && !JSON_TYPES.test(mediaType))
    throw new HeadraceError('HR_FETCH_TYPE', { subject: mediaType });
  const text = decode(bytes, charset);
  if (HTML.test(mediaType) || (isXml && HTML_ROOT.test(text.slice(0, ROOT_WITHIN).replaceAll(COMMENT, '')))) {
    const asWritten = { ...options, isXml: mediaType !== 'text/html' };
    return { page: explain ? cleanExplained(text, asWritten) : clean(text, asWritten), kind: 'html' };
  }
  if (isXml) return { page: readXml(text, url), kind: 'text' };
  if (!JSON_TYPES.test(mediaType)) return { page: readText(text, url), kind: 'text' };
  const site = readSiteJson(text, url);
  if (site === null) return { page: readJson(text, url), kind: 'json' };
  return { page: render(site.html, site.title, options), kind: 'html' };
}
