import { once } from 'node:events';
import { connect } from 'node:net';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { createManualClock, type ManualClock, systemClock } from '../../../src/actor/clock.ts';
import type { Clock } from '../../../src/actor/index.ts';
import type { Downloader } from '../../../src/fetch/download.ts';
import { WEBRTC_FLAGS } from '../../../src/fetch/renderer/browser.ts';
import { createRenderer, type RenderedPage, type Renderer } from '../../../src/fetch/renderer/renderer.ts';
import { type FakeBrowser, fakeBrowser, type Fault } from '../../support/fake-browser.ts';
import { downloader, type FetchSettings, fetchSettings, page as html, said, site } from '../../support/site.ts';

interface World {
  readonly renderer: Renderer;
  readonly downloads: Downloader;
  readonly settings: FetchSettings;
  readonly states: string[];
  readonly outcomes: string[];
  readonly url: string;
  render(options?: { account?: string; signal?: AbortSignal; url?: string; timeoutMs?: number }): Promise<RenderedPage>;
}

/** A renderer with a fake browser that loads pages of a site on 127.0.0.1. */
async function world(
  t: Test,
  browser: Pick<FakeBrowser, 'url'>,
  fields: Partial<FetchSettings['renderer']> = {},
  clock: Clock = systemClock,
): Promise<World> {
  const { origin, port } = await site(t, {
    '/': html('<script>'),
    '/robots.txt': html('User-agent: *\nDisallow: /no'),
  });
  const renderer = { ...fetchSettings().renderer, url: browser.url, ...fields };
  const settings = fetchSettings({ ports: [port], renderer });
  const downloads = downloader(t, settings);
  const states: string[] = [];
  const outcomes: string[] = [];
  const made = createRenderer(settings, {
    clock,
    onState: (state, reason) => void states.push(`${state} ${reason}`.trim()),
    onPage: (outcome) => void outcomes.push(outcome),
  });
  t.teardown(() => made.close());
  const url = `${origin}/`;
  return {
    ...{ renderer: made, downloads, settings, states, outcomes, url },
    render: ({ account = 'a', signal = new AbortController().signal, timeoutMs = 5000, url: other = url } = {}) =>
      made.render(
        {
          url: other,
          account,
          dueMs: clock.now() + timeoutMs,
          visit: downloads.visit.bind(downloads, other, account),
        },
        signal,
      ),
  };
}

async function failure(page: Promise<RenderedPage>): Promise<string> {
  try {
    return `shown at ${(await page).url}`;
  } catch (error) {
    return said(error);
  }
}

/** Nothing is left of any page. */
async function isClean(t: Test, { renderer }: World, browser: FakeBrowser): Promise<void> {
  for (let tries = 0; renderer.stats().running > 0 || browser.contexts.size > 0; tries++) {
    if (tries > 500) throw new Error(`left: ${JSON.stringify(renderer.stats())}, ${browser.contexts.size} contexts`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  t.match(renderer.stats(), { running: 0, queued: 0 });
}

t.test('a page is shown in a context of its own behind the proxy, which is disposed of', async (t) => {
  const browser = await fakeBrowser(t);
  const w = await world(t, browser);
  const { bytes, url } = await w.render();
  t.equal(url, w.url);
  t.equal(Buffer.from(bytes).toString(), '<!doctype html><html><body><main>made by a script</main></body></html>');
  await isClean(t, w, browser);
  const contexts = browser.asked.filter(({ method }) => method === 'Target.createBrowserContext');
  t.equal(contexts.length, 2, 'the probe, and the page');
  for (const { params } of contexts) {
    t.match(params, { disposeOnDetach: true, proxyBypassList: '<-loopback>' });
    t.match(params['proxyServer'], /^http:\/\/127\.0\.0\.1:\d+$/);
  }
  const sent = new Map(browser.asked.map(({ method, params }) => [method, params]));
  t.match(sent.get('Browser.setDownloadBehavior'), { behavior: 'deny' });
  t.match(sent.get('Browser.grantPermissions'), { permissions: [] });
  t.match(sent.get('Network.setBypassServiceWorker'), { bypass: true });
  t.match(sent.get('Emulation.setUserAgentOverride'), { userAgent: w.settings.userAgent });
  t.same(w.states, ['connected']);
  t.match(w.renderer.stats(), { isConnected: true, connects: 1, refused: 0 });
  t.same(w.outcomes, ['shown']);
});

t.test('connections are kept, and opened again when the browser has gone', async (t) => {
  const browser = await fakeBrowser(t);
  const w = await world(t, browser);
  await w.render();
  await w.render();
  t.equal(browser.connections(), 1);
  browser.cut();
  while (w.renderer.stats().isConnected) await new Promise((resolve) => setTimeout(resolve, 2));
  await w.render();
  t.equal(browser.connections(), 2);
  t.same(w.states, ['connected', 'away the connection was closed', 'connected']);
});

t.test('the DevTools endpoint is found by URL, with its query, and by a name', async (t) => {
  const browser = await fakeBrowser(t, { query: 'token=s3cret', refusesHost: (host) => !host.startsWith('localhost') });
  for (const url of [
    `http://127.0.0.1:${browser.port}/?token=s3cret`,
    `ws://127.0.0.1:${browser.port}/devtools/browser/1?token=s3cret`,
  ]) {
    const w = await world(t, { url });
    t.match(await failure(w.render()), /^shown at/, url);
  }
});

t.test(
  'a browser that cannot be used is an error that keeps its secrets, and is asked again after a pause',
  async (t) => {
    const clock = createManualClock();
    const browser = await fakeBrowser(t, { query: 'token=right' });
    const url = `http://127.0.0.1:${browser.port}/?token=s3cret`;
    const w = await world(t, { url }, {}, clock);
    t.equal(await failure(w.render()), 'HR_FETCH_RENDERER status 500');
    browser.options = {};
    t.equal(await failure(w.render()), 'HR_FETCH_RENDERER status 500', 'not asked again at once');
    t.equal(browser.connections(), 0);
    clock.advance(250);
    await advancing(clock, w.render());
    t.same(w.states, ['away status 500', 'connected']);
    t.notMatch(JSON.stringify([w.states, w.outcomes]), /s3cret/);
    const nowhere = await world(t, { url: 'ws://127.0.0.1:1/?token=s3cret' });
    t.equal(await failure(nowhere.render()), 'HR_FETCH_RENDERER no connection (ECONNREFUSED)');
  },
);

t.test('a browser that does not send everything through the proxy is not used', async (t) => {
  const direct = await fakeBrowser(t, { isDirect: true });
  const w = await world(t, direct);
  t.equal(await failure(w.render()), 'HR_FETCH_RENDERER it does not send all requests through the proxy');
  const leaky = await fakeBrowser(t, { webRtc: 'offered' });
  const other = await world(t, leaky);
  t.equal(
    await failure(other.render()),
    `HR_FETCH_RENDERER it sends UDP past the proxy; start it with ${WEBRTC_FLAGS.join(' ')}`,
  );
  await isClean(t, other, leaky);
});

t.test('pages at once are bounded, accounts take turns, and the queue is bounded', async (t) => {
  const held: (() => void)[] = [];
  const browser = await fakeBrowser(t, {
    fault: (method) => (method === 'Page.navigate' && held.length > 0 ? 'hang' : null),
  });
  const w = await world(t, browser, { pages: 2, queue: 4 });
  await w.render();
  await isClean(t, w, browser);
  held.push(() => undefined);
  const leaving = new AbortController();
  const first = failure(w.render({ signal: leaving.signal }));
  const waiting = failure(w.render({ signal: leaving.signal }));
  t.equal(await failure(w.render()), 'HR_FETCH_RENDERER too many pages wait for it');
  t.match(w.renderer.stats(), { running: 1, queued: 1 });
  const other = failure(w.render({ account: 'b', signal: leaving.signal }));
  t.match(w.renderer.stats(), { running: 2, queued: 1 }, 'the last place is for others');
  leaving.abort(new Error('left'));
  t.same(await Promise.all([first, waiting, other]), ['Error: left', 'Error: left', 'Error: left']);
  await isClean(t, w, browser);
});

t.test('the time of a page in the browser begins when it has a place there', async (t) => {
  const clock = createManualClock();
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const browser = await fakeBrowser(t);
  const w = await world(t, browser, { pages: 1, timeoutMs: 4000 }, clock);
  await w.render();
  await isClean(t, w, browser);
  const pages = gates.map(() => w.render({ timeoutMs: 30_000 }));
  t.match(w.renderer.stats(), { running: 1, queued: 1 });
  for (const [at, gate] of gates.entries()) {
    browser.options = { gate: gate.promise };
    gates[at - 1]?.resolve();
    const asked = (): number => browser.commands.filter((method) => method === 'Page.navigate').length;
    while (asked() < at + 2) await new Promise((resolve) => setTimeout(resolve, 2));
    await clock.advance(3900);
  }
  gates[1]?.resolve();
  for (const page of pages) t.match(await page, { isSettled: true });
});

t.test('a client that leaves closes the tab', async (t) => {
  const browser = await fakeBrowser(t, { fault: (method) => (method === 'Runtime.getHeapUsage' ? 'hang' : null) });
  const w = await world(t, browser);
  const leaving = new AbortController();
  const page = failure(w.render({ signal: leaving.signal }));
  while (!browser.commands.includes('Runtime.getHeapUsage')) await new Promise((resolve) => setTimeout(resolve, 2));
  leaving.abort(new Error('left'));
  t.equal(await page, 'Error: left');
  await isClean(t, w, browser);
  t.same(w.outcomes, ['left']);
});

t.test('a page that asks for what it may not have, or shows nothing, is an error', async (t) => {
  const browser = await fakeBrowser(t, { html: null });
  const w = await world(t, browser);
  t.match(await failure(w.render()), /^HR_FETCH_TOO_LARGE/);
  browser.options = {
    html: '<html><title>Just a moment...</title><body><script>window._cf_chl_opt={}</script></body></html>',
  };
  t.equal(await failure(w.render()), 'HR_FETCH_CHALLENGE');
  t.equal(await failure(w.render({ url: 'http://10.0.0.1/' })), 'HR_FETCH_BLOCKED port');
  browser.options = { fault: (method) => (method === 'Runtime.getHeapUsage' ? 'crash' : null) };
  t.equal(await failure(w.render()), 'HR_FETCH_RENDERER the page crashed');
  await isClean(t, w, browser);
});

t.test('a page that leads to a file goes on', async (t) => {
  const browser = await fakeBrowser(t);
  const w = await world(t, browser);
  const leadToFile = (): void => {
    const attached = browser.asked.findLast(({ method }) => method === 'Target.attachToTarget');
    browser.emit('Fetch.requestPaused', {
      ...{ requestId: 'file', resourceType: 'Document', frameId: attached?.params['targetId'] },
      ...{ responseStatusCode: 200, responseHeaders: [{ name: 'Content-Type', value: 'application/zip' }] },
    });
  };
  browser.options = {
    fault: (method) => {
      if (method === 'Page.createIsolatedWorld') leadToFile();
      return null;
    },
  };
  t.equal(await failure(w.render()), `shown at ${w.url}`);
  const refused = browser.asked.find(({ method }) => method === 'Fetch.failRequest');
  t.same(refused?.params, { requestId: 'file', errorReason: 'Aborted' });
});

/** Holds loads of pages until the gate opens; resolves when the next one begins. */
function holdNext(browser: FakeBrowser, gate: Promise<void>): Promise<void> {
  return new Promise((begun) => {
    browser.options = {
      gate,
      fault(method) {
        if (method === 'Page.navigate') begun();
        return null;
      },
    };
  });
}

t.test('a reload leaves pages in the browser they began in', async (t) => {
  const old = await fakeBrowser(t);
  const next = await fakeBrowser(t);
  const w = await world(t, old);
  await w.render();
  const held = Promise.withResolvers<void>();
  const loading = holdNext(old, held.promise);
  const page = failure(w.render());
  await loading;
  w.renderer.configure({ ...w.settings, renderer: { ...w.settings.renderer, url: next.url } });
  held.resolve();
  t.match(await page, /^shown/);
  await w.render();
  t.equal(next.connections(), 1);
  await isClean(t, w, old);
  t.equal(next.commands.filter((method) => method === 'Page.navigate').length, 2);
});

t.test('a reload moves the proxy for pages that start later, also while there are pages', async (t) => {
  const browser = await fakeBrowser(t);
  const w = await world(t, browser);
  await w.render();
  const held = Promise.withResolvers<void>();
  const firstLoads = holdNext(browser, held.promise);
  const pages = [failure(w.render())];
  await firstLoads;
  const proxyListen = { host: '127.0.0.2', port: 0 };
  w.renderer.configure({ ...w.settings, renderer: { ...w.settings.renderer, proxyListen } });
  browser.options = {};
  t.match(await failure(w.render()), /^shown/);
  const secondLoads = holdNext(browser, held.promise);
  pages.push(failure(w.render()));
  await secondLoads;
  const made = browser.asked.findLast(({ method }) => method === 'Target.createBrowserContext');
  const { hostname, port } = new URL(String(made?.params['proxyServer']));
  t.equal(hostname, proxyListen.host);
  const socket = connect(Number(port), hostname);
  await t.resolves(once(socket, 'connect'), 'something listens there');
  socket.destroy();
  held.resolve();
  for (const page of pages) t.match(await page, /^shown/);
  await isClean(t, w, browser);
});

/** Advances the clock until a promise has settled. */
async function advancing<T>(clock: ManualClock, promise: Promise<T>): Promise<T> {
  let settled = false;
  const mark = (): void => void (settled = true);
  promise.then(mark, mark);
  for (let turns = 0; !settled; turns++) {
    if (turns > 50_000) throw new Error('a page does not end');
    await new Promise((resolve) => setImmediate(resolve));
    // Sockets get turns between the steps.
    if (turns % 20 === 19) clock.advance(100);
  }
  return promise;
}

t.test('whatever the browser does at any command, every page ends and nothing of it stays', async (t) => {
  const faults: Fault[] = ['hang', 'garbage', 'binary', 'disconnect', 'error', 'empty', 'crash'];
  const browser = await fakeBrowser(t);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.integer({ min: 1, max: 60 }), fc.constantFrom(...faults)), { minLength: 1, maxLength: 3 }),
      fc.integer({ min: 1, max: 3 }),
      async (planned, count) => {
        const clock = createManualClock();
        const w = await world(t, browser, { pages: 2, queue: 8 }, clock);
        const from = browser.commands.length;
        browser.options = { fault: (_, at) => planned.find(([index]) => index === at - from)?.[1] ?? null };
        const pages = Array.from({ length: count }, () => failure(w.render({ timeoutMs: 3000 })));
        const outcomes = await advancing(clock, Promise.all(pages));
        for (const outcome of outcomes) t.match(outcome, /^(?:shown at|HR_)/);
        const closed = (): boolean => w.renderer.stats().running === 0;
        for (let turns = 0; !closed(); turns++) {
          if (turns > 20_000) throw new Error(`a place is lost after ${JSON.stringify(planned)}`);
          await new Promise((resolve) => setImmediate(resolve));
          if (turns % 20 === 19) clock.advance(100);
        }
        browser.options = {};
        // The pause after a failure is over.
        clock.advance(60_000);
        t.match(await advancing(clock, failure(w.render({ timeoutMs: 3000 }))), /^shown at/);
        w.renderer.close();
      },
    ),
    { numRuns: Number(process.env['HEADRACE_TEST_RENDERER_RUNS'] ?? 40), seed: 20 },
  );
  for (let tries = 0; browser.contexts.size > 0 && tries < 500; tries++)
    await new Promise((resolve) => setTimeout(resolve, 2));
  t.equal(browser.contexts.size, 0);
});
