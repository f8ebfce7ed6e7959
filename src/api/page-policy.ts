// The content security policy of a page without external assets: its own script and style by hash, requests to its own origin,
// nothing else. Hashes instead of `'unsafe-inline'` or a nonce keep the page a constant, and injected markup cannot run.

import { createHash } from 'node:crypto';

/** Value of the header `content-security-policy` for a page that holds this script and this style, byte for byte. */
export function pagePolicy(script: string, style: string): string {
  return [
    "default-src 'none'",
    `script-src ${hashSource(script)}`,
    `style-src ${hashSource(style)}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join('; ');
}

function hashSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '"': '&quot;', '<': '&lt;', '>': '&gt;' };

/** A text as it stands in markup, also in an attribute within double quotes. */
export function escapeMarkup(text: string): string {
  return text.replace(/[&"<>]/g, (char) => ENTITIES[char] ?? char);
}
