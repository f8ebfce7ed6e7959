// Reads a downloaded page with the reader for its media type: HTML, XML, JSON, plain text or PDF.

import { HeadraceError } from '../errors.ts';
import type { CleanPage, CleanJob } from './page.ts';
import { clean, render } from './clean.ts';
import { decode } from './charset.ts';
import { readSiteJson } from './sites/sites.ts';
import { readJson, readText, readXml } from './plain-text.ts';

const HTML = /^(?:text\/html|application\/xhtml\+xml)$/;
const PDF = /^application\/(?:x-)?pdf$/;
const JSON_TYPES = /^(?:(?:application|text)\/json|application\/(?:[\w.-]+\+json|jsonl|x-ndjson))$/;
const XML_TYPES = /^(?:(?:application|text)\/xml|application\/[\w.-]+\+xml)$/;
const TEXT = /^(?:text\/.+|application\/(?:x-)?(?:javascript|markdown|yaml))$/;

/** XHTML that is declared as XML. */
const HTML_ROOT = /<html[\s>]/i;
const ROOT_WITHIN = 2048;

/**
 * Clean text of a page. Fails with `HR_FETCH_TYPE` for a type that is not text, and `HR_FETCH_UNREADABLE` for a PDF
 * without text. Text, JSON and XML are the same in both formats.
 */
export async function readPage({ bytes, mediaType, charset, ...options }: CleanJob): Promise<CleanPage> {
  const { url = '' } = options;
  if (PDF.test(mediaType)) {
    // Loaded with the first PDF: the library costs time and memory.
    const { readPdf } = await import('./pdf.ts');
    return readPdf(bytes, options);
  }
  const isXml = XML_TYPES.test(mediaType);
  if (!isXml && !TEXT.test(mediaType) && !JSON_TYPES.test(mediaType))
    throw new HeadraceError('HR_FETCH_TYPE', { subject: mediaType });
  const text = decode(bytes, charset);
  if (HTML.test(mediaType) || (isXml && HTML_ROOT.test(text.slice(0, ROOT_WITHIN)))) return clean(text, options);
  if (isXml) return readXml(text, url);
  if (!JSON_TYPES.test(mediaType)) return readText(text, url);
  const site = readSiteJson(text, url);
  return site === null ? readJson(text, url) : render(site.html, site.title, options);
}
