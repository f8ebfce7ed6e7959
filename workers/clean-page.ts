// What a cleaning thread does: extracts the clean text of one page at a time. No state is kept between pages; a page ends in
// a result or in the end of the thread.

import { createHash } from 'node:crypto';
import { HeadraceError } from '../src/errors.ts';
import type { CleanJob } from '../src/extract/index.ts';
import type { CleanResult } from '../src/fetch/index.ts';
import { readPage as read } from '../src/extract/read-page.ts';

/** More rounds delay the start of a thread and make the first page no faster. */
const WARM_UP_ROUNDS = 20;

/** Common markup, so that the code for it is compiled before the first page. */
const SAMPLE = `<!doctype html><html lang="en"><head><title>Water &amp; wheels</title><meta charset="utf-8"></head><body>
<nav><a href="/">Home</a> <a href="/mills">Mills</a></nav><main><article><h1>Water</h1>${'<p>A race leads <b>water</b> to the <a href="/wheel">wheel</a> of a mill; the wheel turns, and the stones with it.</p><ul><li>One</li><li>Two, “quoted”</li></ul>'.repeat(20)}<table><tr><th>Mill</th><td>1,200</td></tr></table>
<pre><code>let x = 1;</code></pre></article></main><footer>All rights reserved</footer></body></html>`;

await warmUp();

/** Characters of base64url: 96 bits, which no two contents of one page share by chance. */
const VERSION_CHARACTERS = 16;

/** Reads a page. Errors become results, since errors lose their class between threads. */
export async function readPage(job: CleanJob): Promise<CleanResult> {
  try {
    const page = await read(job);
    // Here, since the hash of a long content takes time that the thread of the caller does not have.
    const version = createHash('sha256').update(page.content).digest('base64url').slice(0, VERSION_CHARACTERS);
    return { page: { ...page, version } };
  } catch (error) {
    if (error instanceof HeadraceError) return { code: error.code, subject: error.subject };
    const cause = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { code: 'HR_FETCH_UNREADABLE', subject: 'its reader failed', cause };
  }
}

/** Resolves once the thread has started. */
export function ready(): void {}

async function warmUp(): Promise<void> {
  for (let round = 0; round < WARM_UP_ROUNDS; round++) {
    const bytes = new Uint8Array(Buffer.from(SAMPLE));
    await readPage({ bytes, mediaType: 'text/html', charset: null, include: ['links', 'metadata'] });
  }
}
