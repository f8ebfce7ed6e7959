// The media type of a page: the declared type, checked against the first bytes, or sniffed from them when none is declared.
// Sniffing follows the WHATWG MIME Sniffing Standard, section 7.1, without images, audio and fonts: these are refused.

import { HeadraceError } from '../errors.ts';

/** `Content-Type`, parsed. */
export interface DeclaredType {
  /** Lower case, without parameters; null when missing or too vague to use. */
  readonly mediaType: string | null;
  /** Lower case. */
  readonly charset: string | null;
}

/** Length of the standard's resource header. */
const SNIFFED_BYTES = 1445;

/** Bytes before the signature of a PDF that PDF readers accept. */
const PDF_LEAD_BYTES = 1024;

const VAGUE: ReadonlySet<string> = new Set([
  '*/*',
  'application/octet-stream',
  'application/unknown',
  'binary/octet-stream',
  'unknown/unknown',
]);

/** Two tokens (RFC 9110, section 8.3.1). */
const TYPE = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+$/;

const PDF: ReadonlySet<string> = new Set(['application/pdf', 'application/x-pdf']);
/** What `readPage` reads. */
const TEXT =
  /^(?:text\/.+|application\/(?:json|jsonl|x-ndjson|xml|(?:x-)?(?:javascript|markdown|yaml)|[\w.-]+\+(?:json|xml|yaml)))$/;
const REFUSED = /^(?:image|audio|video|font|multipart)(?=\/)/;
/** Binary formats whose first bytes need not contain a NUL. */
const SIGNATURES: readonly string[] = [
  '\x89PNG',
  'GIF87a',
  'GIF89a',
  '\xff\xd8\xff',
  'PK\x03\x04',
  'PK\x05\x06',
  '\x1f\x8b\x08',
  'Rar!\x1a\x07',
  "7z\xbc\xaf'\x1c",
  '\xfd7zXZ',
  '\x28\xb5\x2f\xfd',
  '\x7fELF',
  '%!PS-Adobe-',
];
const TAG =
  /^(?:<!doctype html|<html|<head|<script|<iframe|<h1|<div|<font|<table|<a|<style|<title|<b|<body|<br|<p|<meta|<main|<article|<section)[\s>]|^<!--/i;
/** Characters at least that tell UTF-16 from a short binary file. */
const MIN_PAIRS = 8;
const WIDE_BOM = /^(?:\xfe\xff|\xff\xfe)/;
/** Markup in UTF-16, whatever follows: of East Asian text few bytes are zero. */
// oxlint-disable-next-line no-control-regex -- bytes of UTF-16
const WIDE_MARKUP = /^(?:<\0[!?a-z]\0|\0<\0[!?a-z])/i;

/** Parses the header. The first of several types counts. */
export function declaredType(header: string | undefined): DeclaredType {
  const [essence = '', ...parameters] = (header ?? '').split(',', 1).join('').toLowerCase().split(';');
  // Servers forget the semicolon: `text/html charset=utf-8`.
  const [mediaType = ''] = essence.trim().split(/\s/, 1);
  const charset = parameters
    .map((parameter) => parameter.trim().split('='))
    .find(([name]) => name?.trim() === 'charset')?.[1];
  return {
    mediaType: TYPE.test(mediaType) && !VAGUE.has(mediaType) ? mediaType : null,
    charset: charset?.trim().replace(/^["']|["']$/g, '') || null,
  };
}

/** Throws `HR_FETCH_TYPE` for a declared type that cannot be text, before the body is read. */
export function refuseByHeader({ mediaType }: DeclaredType): void {
  if (mediaType === null || TEXT.test(mediaType) || PDF.has(mediaType)) return;
  throw notText(REFUSED.exec(mediaType)?.[0] ?? 'binary');
}

/** The media type of a page. Throws `HR_FETCH_TYPE` when its bytes are neither text nor PDF, whatever was declared. */
export function mediaTypeOf({ mediaType, charset }: DeclaredType, bytes: Uint8Array): string {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, SNIFFED_BYTES)).toString(
    'latin1',
  );
  const isMarkup = WIDE_MARKUP.test(head);
  const text = isMarkup || isWide(head) ? head.replaceAll('\0', '') : head;
  const isPdf =
    head.startsWith('%PDF-') || (PDF.has(mediaType ?? '') && head.slice(0, PDF_LEAD_BYTES).includes('%PDF-'));
  if (isPdf) return 'application/pdf';
  if (!isMarkup && isBinary(text, charset)) throw notText('binary');
  if (mediaType !== null && !PDF.has(mediaType)) return mediaType;
  return sniffed(text);
}

function notText(subject: string): HeadraceError {
  return new HeadraceError('HR_FETCH_TYPE', { subject });
}

function sniffed(head: string): string {
  const text = head.replace(/^\xef\xbb\xbf/, '').trimStart();
  if (TAG.test(text)) return 'text/html';
  if (text.startsWith('<?xml')) return /<html[\s>]/i.test(text) ? 'application/xhtml+xml' : 'application/xml';
  return 'text/plain';
}

/** UTF-16 without a byte order mark: nearly every character of markup has a zero in the same one of its two bytes. */
function isWide(head: string): boolean {
  const pairs = head.length >> 1;
  const zeros = [0, 0] as [even: number, odd: number];
  for (let index = 0; index < 2 * pairs; index++) if (head[index] === '\0') zeros[index & 1 ? 1 : 0]++;
  return pairs >= MIN_PAIRS && Math.max(...zeros) > pairs / 2 && Math.min(...zeros) < pairs / 20;
}

/**
 * Whether there is a binary signature, a NUL, or more than a few control characters. UTF-16 text is full of NULs, and browsers
 * drop those of HTML.
 */
function isBinary(head: string, charset: string | null): boolean {
  if (WIDE_BOM.test(head) || charset?.startsWith('utf-16') === true) return false;
  for (const signature of SIGNATURES) if (head.startsWith(signature)) return true;
  // oxlint-disable-next-line no-control-regex -- the standard's binary data bytes
  const controls: readonly string[] = head.match(/[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]/g) ?? [];
  const hasNul = controls.includes('\x00') && sniffed(head) !== 'text/html';
  return hasNul || controls.length > Math.max(2, head.length / 32);
}
