// Whether a page needs a browser: it has scripts, and hardly any text without them.

import type { Settings } from '../../config/settings.ts';
import type { CleanPage } from '../../extract/index.ts';

/** Characters of a page that need no browser. */
const TEXT_CHARACTERS = 200;

/** Longer content has text, whatever of it is markup; so the search for markup is short. */
const MAX_MARKUP = 5000;

/** Bytes that are looked through for scripts: the head and more. */
const SEARCHED_BYTES = 1024 * 1024;

/** Attributes are bounded, so that the search is linear. */
const SCRIPT = /<script(?=[\s>/])([^>]{0,300})>/gi;
const TYPE = /\btype\s*=\s*["']?\s*([^\s"'>]*)/i;
const RUNS = /^(?:|module|(?:text|application)\/(?:x-)?(?:java|ecma)script)$/i;

/** Whether a downloaded page may be rendered at all. */
export function mayNeedBrowser(
  { url, when }: Settings['fetch']['renderer'],
  { bytes, mediaType }: { readonly bytes: Uint8Array; readonly mediaType: string },
): boolean {
  if (url === null || when === 'never' || !mediaType.includes('html')) return false;
  return when === 'always' || hasScripts(bytes);
}

/** Whether a page has a script that runs; data in scripts do not. */
function hasScripts(bytes: Uint8Array): boolean {
  const length = Math.min(bytes.byteLength, SEARCHED_BYTES);
  const page = Buffer.from(bytes.buffer, bytes.byteOffset, length).toString('latin1').replaceAll('\0', '');
  for (const [, attributes = ''] of page.matchAll(SCRIPT)) {
    const [, type = ''] = TYPE.exec(attributes) ?? [];
    if (RUNS.test(type)) return true;
  }
  return false;
}

/** Whether a clean page has so little text that its scripts may have more. */
export function isSparse({ content }: Pick<CleanPage, 'content'>): boolean {
  if (content.length > MAX_MARKUP) return false;
  // Tags and the addresses of links and pictures are no text.
  const text = content.replaceAll(/<[^<>]*>|\]\([^)\s]*\)/g, ' ').replaceAll(/\s+/g, ' ');
  return text.trim().length < TEXT_CHARACTERS;
}
