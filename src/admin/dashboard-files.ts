// The files of the dashboard, which `npm run build` bundles from `dashboard/`: read once, served with an ETag (RFC 9110, section
// 8.8.3), compressed where the client takes gzip. The content security policy allows nothing but these files and requests to
// the gateway itself.
//
// GET / and /dashboard (index.html)   GET /app.js, /app.css, /icon.svg, /licenses.txt   GET /chunk-HASH.js, for good

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { refusesMethod, respondJson, takesGzip } from './admin-exchange.ts';

const FOLDER = new URL('./dashboard/', import.meta.url);

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  txt: 'text/plain; charset=utf-8',
};

const FILES: Readonly<Record<string, string>> = {
  '/': 'index.html',
  '/dashboard': 'index.html',
  '/app.js': 'app.js',
  '/app.css': 'app.css',
  '/icon.svg': 'icon.svg',
  '/licenses.txt': 'licenses.txt',
};

/** Parts of the application; the name changes with the content. */
const CHUNK = /^\/(chunk-[A-Z0-9]{8}\.js)$/;

/** The policy of the page. Scripts set styles by the object model alone, which `style-src 'self'` allows. */
export const DASHBOARD_POLICY: string = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data: blob:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ');

interface FileToServe {
  readonly headers: OutgoingHttpHeaders;
  readonly etag: string;
  readonly plain: Buffer;
  readonly gzipped: Buffer;
}

export class DashboardFiles {
  readonly #read = new Map<string, FileToServe>();

  /** Answers a request to one of its paths on the admin listener; false when the path is none of them. */
  answer(req: IncomingMessage, res: ServerResponse, path: string): boolean {
    const name = Object.hasOwn(FILES, path) ? FILES[path] : CHUNK.exec(path)?.[1];
    if (name === undefined) return false;
    if (refusesMethod(req, res, 'GET', 'HEAD')) return true;
    const file = this.#file(name);
    if (file === null && !Object.hasOwn(FILES, path)) return false;
    if (file === null) {
      respondJson(res, 503, { detail: 'the dashboard is not built: run npm run build' });
      return true;
    }
    const { etag, gzipped, headers, plain } = file;
    if (isKnown(req.headers['if-none-match'], etag)) {
      res.writeHead(304, headers).end();
      return true;
    }
    const isGzip = takesGzip(req);
    const body = isGzip ? gzipped : plain;
    res.writeHead(200, {
      ...headers,
      'content-length': body.length,
      ...(isGzip && { 'content-encoding': 'gzip' }),
    });
    res.end(req.method === 'HEAD' ? undefined : body);
    return true;
  }

  /** Null where the bundle is missing. */
  #file(name: string): FileToServe | null {
    const known = this.#read.get(name);
    if (known !== undefined) return known;
    let plain: Buffer;
    try {
      plain = readFileSync(new URL(name, FOLDER));
    } catch {
      return null;
    }
    // Weak: the same for both encodings.
    const etag = `W/"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`;
    const headers = {
      'content-type': TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream',
      etag,
      vary: 'accept-encoding',
      'cache-control': name.startsWith('chunk-') ? 'max-age=31536000, immutable' : 'no-cache',
      'content-security-policy': DASHBOARD_POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    };
    const file = { headers, etag, plain, gzipped: gzipSync(plain) };
    this.#read.set(name, file);
    return file;
  }
}

/** Whether a value of `If-None-Match` names the tag, by weak comparison. */
function isKnown(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  const tags = header.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags.includes('*') || tags.includes(etag.replace(/^W\//, ''));
}
