// The choice between the plain page and that of the browser, and what of it may be kept.

import t from 'tap';
import { HeadraceError } from '../../../src/errors.ts';
import { type Rendering, Renderings, type RenderingTools } from '../../../src/fetch/renderer/rendering.ts';
import type { RenderedPage, RenderJob } from '../../../src/fetch/renderer/renderer.ts';
import { fetchSettings } from '../../support/site.ts';

const clean = (words: number): Rendering['page'] => ({
  ...{ title: 'App', content: 'w '.repeat(words), wordCount: words, version: 'v' },
});

const PLAIN: Rendering = { page: clean(3), url: 'https://example.com/', isRendered: false, isFinal: true };

/** What is read of a page whose rendering has so many words, or fails. */
async function read(words: number, shown: () => RenderedPage, when: 'auto' | 'always' = 'auto'): Promise<Rendering> {
  const jobs: RenderJob[] = [];
  const tools = {
    downloader: { visit: () => Promise.reject(new Error('not asked')) },
    pool: { read: () => Promise.resolve(clean(words)) },
    renderer: {
      render: (job: RenderJob) => {
        jobs.push(job);
        return Promise.resolve().then(shown);
      },
    },
  } as unknown as RenderingTools;
  const settings = { ...fetchSettings().renderer, when };
  const fetch = { signal: new AbortController().signal, dueMs: 15_000 };
  const reading = await new Renderings(tools, settings).read(PLAIN, { format: 'text', include: [] }, 'a', fetch);
  t.match(jobs, [{ url: PLAIN.url, account: 'a', dueMs: 14_000 }], 'a second is left for what follows');
  return reading;
}

const page = (isSettled: boolean) => (): RenderedPage => ({
  url: 'https://example.com/app',
  bytes: new Uint8Array(1),
  isSettled,
});

const fails = (): never => {
  throw new HeadraceError('HR_FETCH_RENDERER', { subject: 'away' });
};

t.test('the reading with more words is taken, and kept where the browser had finished', async (t) => {
  t.match(await read(9, page(true)), { isRendered: true, isFinal: true, url: 'https://example.com/app' });
  t.match(await read(9, page(false)), { isRendered: true, isFinal: false });
  t.match(await read(1, page(true)), PLAIN);
  t.match(await read(1, page(false)), { ...PLAIN, isFinal: false });
});

t.test('a failure of the browser leaves the plain page, unless every page is to be rendered', async (t) => {
  t.match(await read(9, fails), { ...PLAIN, isFinal: false });
  await t.rejects(read(9, fails, 'always'), { code: 'HR_FETCH_RENDERER' });
});
