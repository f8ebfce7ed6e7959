// The renderer with a real Chromium: what it shows, and that nothing of a page goes past the proxy. Skipped where no Chromium is found.

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/actor/clock.ts';
import { type DemoBrowser, startBrowser } from '../../../src/cli/demo-browser.ts';
import { connectDevTools } from '../../../src/fetch/renderer/devtools.ts';
import { createRenderer, type RenderedPage, type Renderer } from '../../../src/fetch/renderer/renderer.ts';
import { nameServer } from '../../support/dns.ts';
import { GOOD, open } from '../../support/server-adapter.ts';
import {
  type Answer,
  downloader,
  type FetchSettings,
  fetchSettings,
  page as html,
  type Pages,
  redirect,
  said,
  secureSite,
  site,
  type Site,
} from '../../support/site.ts';
import { until } from '../../support/system.ts';
import { membersOf } from '../../../src/net/json-object.ts';

const CHROMIUM = '/usr/bin/chromium';
const HEADLESS_SHELL = '/usr/bin/chromium-headless-shell';

/** The headless shell first: it takes half of the CPU time. */
const PROGRAM = process.env['HEADRACE_TEST_CHROMIUM'] ?? (existsSync(HEADLESS_SHELL) ? HEADLESS_SHELL : CHROMIUM);
const skip = existsSync(PROGRAM) ? false : `no browser: ${PROGRAM} does not exist`;

let running: Promise<DemoBrowser | null> | null = null;

/** The browser of this file. Names that end with `.test` resolve to loopback in it, if it resolves any. */
async function browser(): Promise<DemoBrowser> {
  running ??= startBrowser({ names: [PROGRAM], flags: ['--ignore-certificate-errors'] });
  const started = await running;
  if (started === null) throw new Error('the browser does not start');
  return started;
}
t.teardown(async () => (await running)?.close());

interface World {
  readonly renderer: Renderer;
  readonly pages: Site;
  readonly settings: FetchSettings;
  /** Shows a path of `http://site.test`, which may be fetched though it is on 127.0.0.1. */
  show(path: string, timeoutMs?: number): Promise<RenderedPage>;
  /** The document, or code and subject of the error. */
  shown(path: string, timeoutMs?: number): Promise<string>;
}

async function world(
  t: Test,
  content: Pages,
  fields: Partial<FetchSettings> = {},
  more: number[] = [],
): Promise<World> {
  const { url } = await browser();
  const pages = await site(t, content);
  // All names lead to loopback; only `site.test` may.
  const { lookup } = await nameServer(t, (name) => (name.endsWith('.test') ? ['127.0.0.1'] : []));
  const settings = fetchSettings({
    ...{ allow: ['site.test'], ports: [80, 443, pages.port, ...more] },
    renderer: { ...fetchSettings().renderer, url },
    ...fields,
  });
  const downloads = downloader(t, settings, { lookup });
  const renderer = createRenderer(settings, { clock: systemClock });
  // The guard of the pages is the downloader's, whose names are those of the test.
  t.teardown(() => renderer.close());
  const show = (path: string, timeoutMs = 8000): Promise<RenderedPage> => {
    const target = `http://site.test:${pages.port}${path}`;
    const visit = downloads.visit.bind(downloads, target, 'a');
    return renderer.render(
      { url: target, account: 'a', dueMs: systemClock.now() + timeoutMs, visit },
      AbortSignal.timeout(20_000),
    );
  };
  return {
    ...{ renderer, pages, settings, show },
    shown: async (path, timeoutMs) => {
      try {
        return Buffer.from((await show(path, timeoutMs)).bytes).toString();
      } catch (error) {
        return said(error);
      }
    },
  };
}

const TEXT =
  'A weir is a low wall across a river that raises the water and leads it to the headrace of the mill. '.repeat(4);

/** A page whose text its script writes. */
function scripted(script: string, head = ''): Answer {
  const body = `<!doctype html><title>App</title>${head}<div id=app></div><script>
    const write = (text) => { document.querySelector('#app').innerHTML += '<p>' + text + '</p>'; };
    ${script}</script>`;
  return html(body);
}

t.test('text that scripts ask for, in shadow roots too', { skip }, async (t) => {
  const w = await world(t, {
    '/': scripted(`fetch('/data').then((answer) => answer.text()).then(write);
      customElements.define('x-card', class extends HTMLElement {
        connectedCallback() { this.attachShadow({ mode: 'open' }).innerHTML = '<b>shadow &lt;</b><slot></slot>'; }
      });
      document.body.insertAdjacentHTML('beforeend', '<x-card><i>light</i></x-card>');`),
    '/data': html(TEXT, { 'content-type': 'text/plain' }),
    '/picture.png': html('x', { 'content-type': 'image/png' }),
    '/agent': (request, response) =>
      response.setHeader('content-type', 'text/html').end(`<p id=sent>${request.headers['user-agent']}</p><p id=app></p>
        <img src=/picture.png><script>document.querySelector('#app').textContent = navigator.userAgent</script>`),
  });
  const shown = await w.shown('/');
  t.match(shown, TEXT.trim());
  t.match(shown, '<x-card><b>shadow &lt;</b><slot><i>light</i></slot></x-card>');
  const agent = await w.shown('/agent');
  t.match(agent, `<p id="sent">${w.settings.userAgent}</p><p id="app">${w.settings.userAgent}</p>`);
  t.notOk(w.pages.asked.includes('/picture.png'), 'pictures are not loaded');
});

const skipChromium = PROGRAM === CHROMIUM || !existsSync(CHROMIUM) ? 'the other tests use it, or it is missing' : false;
t.test('the whole browser is used as the headless shell is', { skip: skipChromium }, async (t) => {
  const chromium = await startBrowser({ names: [CHROMIUM] });
  t.teardown(() => chromium?.close());
  const renderer = { ...fetchSettings().renderer, url: chromium?.url ?? '' };
  const w = await world(t, { '/': scripted(`write(${JSON.stringify(TEXT)})`) }, { renderer });
  t.match(await w.shown('/'), TEXT.trim());
});

t.test('what a page asks its reader is refused, and it goes on', { skip }, async (t) => {
  const w = await world(t, {
    '/dialogs': scripted(`alert('x'); const sure = confirm('y'); const name = prompt('z');
      write('confirmed ' + sure + ', named ' + name + ${JSON.stringify(TEXT)});`),
    '/permissions': scripted(`Promise.all(['geolocation', 'notifications', 'camera'].map((name) =>
      navigator.permissions.query({ name }).then(({ state }) => state))).then((states) => write(states.join(' ') + ${JSON.stringify(TEXT)}))`),
    '/popups':
      scripted(`const opened = window.open('/opened'); write('opened ' + (opened === null) + ${JSON.stringify(TEXT)});
      const link = document.createElement('a'); link.href = '/opened'; link.target = '_blank'; document.body.append(link); link.click();`),
    '/opened': html('opened'),
    '/download': scripted(`write(${JSON.stringify(TEXT)}); location.href = '/file';`),
    '/file': html('content', {
      'content-type': 'application/zip',
      'content-disposition': 'attachment; filename=a.zip',
    }),
  });
  t.match(await w.shown('/dialogs'), 'confirmed false, named null');
  t.match(await w.shown('/permissions'), 'denied denied denied');
  t.match(await w.shown('/popups'), 'A weir is a low wall');
  t.match(await w.shown('/download'), 'A weir is a low wall');
});

t.test('pages that never end are taken when their time is over, or are errors', { skip }, async (t) => {
  const w = await world(
    t,
    {
      '/slow': scripted(`write(${JSON.stringify(TEXT)}); setInterval(() => write('more'), 50);`),
      '/hanging': scripted(`write(${JSON.stringify(TEXT)}); fetch('/never');`, '<link rel=stylesheet href=/data>'),
      '/never': () => undefined,
      '/data': html('p {}', { 'content-type': 'text/css' }),
      '/loop': scripted('for (;;);'),
      '/big': scripted(`write('x'.repeat(3_000_000));`),
      '/memory': scripted(`const kept = []; setInterval(() => kept.push(new Array(4_000_000).fill(kept.length)), 20);`),
      '/challenge': scripted(`document.title = 'Just a moment...'; window._cf_chl_opt = {};`),
      '/missing': html('<script>x</script>', {}, 404),
      '/pdf': html('%PDF-1.4', { 'content-type': 'application/pdf' }),
    },
    { maxBytes: 2_000_000 },
  );
  t.match(await w.shown('/slow', 2500), 'more');
  t.match(await w.shown('/hanging', 4000), 'A weir');
  t.match(await w.shown('/never', 1000), 'HR_FETCH_TIMEOUT no document in the browser');
  t.match(await w.shown('/loop', 1000), /^HR_FETCH_TIMEOUT/);
  t.match(await w.shown('/big'), 'HR_FETCH_TOO_LARGE 2000000');
  t.match(await w.shown('/challenge'), 'HR_FETCH_CHALLENGE');
  t.match(await w.shown('/missing'), 'HR_FETCH_FAILED status 404 in a browser');
  t.match(await w.shown('/pdf'), /^HR_FETCH_TYPE/);
  t.match(await w.shown('/memory', 6000), /^HR_FETCH_TOO_LARGE/);
});

t.test('a page may lead only where pages may be fetched', { skip }, async (t) => {
  const traps = await openTraps(t);
  const leads: Record<string, string> = {
    '/file': `location.href = 'file:///etc/passwd'`,
    '/chrome': `location.href = 'chrome://version'`,
    '/source': `location.href = 'view-source:http://127.0.0.1:${traps.port}/'`,
    '/data': `location.href = 'data:text/html,<p>' + 'moved '.repeat(50)`,
    '/blob': `location.href = URL.createObjectURL(new Blob(['<p>${'moved '.repeat(50)}'], { type: 'text/html' }))`,
    '/blank': `location.href = 'about:blank'`,
    '/private': `location.href = 'http://127.0.0.1:${traps.port}/'`,
    '/mapped': `location.href = 'http://[::ffff:127.0.0.1]:${traps.port}/'`,
    '/six': `location.href = 'http://[::1]:${traps.port}/'`,
    '/name': `location.href = 'http://inside.test:${traps.port}/'`,
    '/https': `location.href = 'https://inside.test:${traps.port}/'`,
    '/form': `const form = document.createElement('form'); form.method = 'post'; form.action = 'http://127.0.0.1:${traps.port}/'; document.body.append(form); form.submit()`,
    '/refresh': `document.head.innerHTML = '<meta http-equiv=refresh content="0;url=http://127.0.0.1:${traps.port}/">'`,
  };
  const pages = Object.fromEntries(Object.entries(leads).map(([path, script]) => [path, scripted(script)]));
  const w = await world(
    t,
    {
      ...pages,
      '/robots': scripted(`location.href = '/secret'`),
      '/secret': html('secret'),
      '/robots.txt': html('User-agent: *\nDisallow: /secret', { 'content-type': 'text/plain' }),
      '/redirect': redirect(`http://127.0.0.1:${traps.port}/`),
      '/redirected': redirect(`http://169.254.169.254/latest/meta-data/`),
    },
    { robots: true },
    [traps.port],
  );
  const passwd = readFileSync('/etc/passwd', 'utf8').split('\n', 1).join('');
  for (const path of Object.keys(leads)) {
    const shown = await w.shown(path, 3000);
    t.notMatch(shown, new RegExp(`${passwd}|trapped|moved moved`), path);
  }
  t.match(await w.shown('/robots'), 'HR_FETCH_ROBOTS');
  t.notOk(w.pages.asked.includes('/secret'));
  t.equal(await w.shown('/redirect'), 'HR_FETCH_BLOCKED private address');
  t.equal(await w.shown('/redirected'), 'HR_FETCH_BLOCKED private address');
  t.same(traps.caught, []);
});

t.test('nothing that a page sends goes past the proxy', { skip }, async (t) => {
  const traps = await openTraps(t);
  const { port, udp } = traps;
  const leaks = `
    const quietly = (run) => { try { const got = run(); if (got && got.catch) got.catch(() => {}); } catch {} };
    for (const host of ['127.0.0.1', 'localhost', '[::1]', '[::ffff:127.0.0.1]', '169.254.169.254', 'inside.test', 'site.test.inside.test']) {
      const at = host + ':${port}/';
      quietly(() => fetch('http://' + at + 'fetch', { mode: 'no-cors' }));
      quietly(() => fetch('https://' + at + 'fetch', { mode: 'no-cors' }));
      quietly(() => new WebSocket('ws://' + at + 'socket'));
      quietly(() => new WebSocket('wss://' + at + 'socket'));
      quietly(() => navigator.sendBeacon('http://' + at + 'beacon', 'x'));
      quietly(() => new EventSource('http://' + at + 'events'));
      quietly(() => fetch('http://' + at + 'keepalive', { method: 'POST', keepalive: true, mode: 'no-cors' }));
      quietly(() => import('http://' + at + 'module'));
      quietly(() => { new Image().src = 'http://' + at + 'image'; });
      quietly(() => new Worker(URL.createObjectURL(new Blob(["importScripts('http://" + at + "worker'); new WebSocket('ws://" + at + "')"]))));
      quietly(() => new SharedWorker(URL.createObjectURL(new Blob(["fetch('http://" + at + "shared')"]))));
      quietly(() => navigator.serviceWorker.register('/service.js?' + host));
      quietly(() => new WebTransport('https://' + host + ':${udp}/transport').ready);
      quietly(() => new Audio('http://' + at + 'audio').play());
      quietly(() => document.fonts.add(new FontFace('x', 'url(http://' + at + 'font)').load()));
      for (const rel of ['preconnect', 'dns-prefetch', 'prefetch', 'preload', 'prerender', 'modulepreload', 'stylesheet', 'icon', 'manifest'])
        quietly(() => { const link = document.createElement('link'); Object.assign(link, { rel, href: 'http://' + at + rel }); if (rel === 'preload') link.as = 'script'; document.head.append(link); });
      for (const tag of ['iframe', 'frame', 'embed', 'object', 'script', 'video', 'track', 'input'])
        quietly(() => { const made = document.createElement(tag); made.src = made.data = 'http://' + at + tag; made.type = 'image'; document.body.append(made); });
      quietly(() => { const frame = document.createElement('iframe'); frame.srcdoc = '<img src="http://' + at + 'srcdoc"><script>fetch("http://' + at + 'srcdoc")<' + '/script>'; document.body.append(frame); });
      quietly(() => window.open('http://' + at + 'window'));
      quietly(() => { const link = document.createElement('a'); link.href = '/next'; link.ping = 'http://' + at + 'ping'; link.target = 'other'; document.body.append(link); link.click(); });
      quietly(() => document.head.insertAdjacentHTML('beforeend', '<meta http-equiv="Content-Security-Policy-Report-Only" content="default-src none; report-uri http://' + at + 'report">'));
      const rules = document.createElement('script'); rules.type = 'speculationrules';
      rules.textContent = JSON.stringify({ prefetch: [{ urls: ['http://' + at + 'speculated'] }], prerender: [{ urls: ['/next?' + host] }] });
      document.head.append(rules);
    }
    // From windows of frames, whose globals are their own, and from the page itself.
    const frame = document.createElement('iframe'); document.body.append(frame);
    for (const view of [window, frame.contentWindow]) quietly(() => {
      const Peer = view.RTCPeerConnection ?? view.webkitRTCPeerConnection;
      write('peer ' + typeof Peer);
      const peer = new Peer({ iceServers: [
        { urls: ['stun:127.0.0.1:${udp}', 'stun:[::1]:${udp}', 'stun:inside.test:${udp}'] },
        { urls: ['turn:127.0.0.1:${udp}?transport=udp', 'turn:127.0.0.1:${port}?transport=tcp', 'turns:127.0.0.1:${port}'], username: 'a', credential: 'b' },
      ] });
      peer.createDataChannel('x');
      return peer.createOffer().then((offer) => peer.setLocalDescription(offer));
    });
    for (const url of ['file:///etc/passwd', 'chrome://version', 'view-source:file:///etc/passwd'])
      { const made = document.createElement('iframe'); made.src = url; document.body.append(made); quietly(() => fetch(url).then((answer) => answer.text()).then(write)); }
    write(${JSON.stringify(TEXT)});`;
  const w = await world(
    t,
    {
      '/': scripted(leaks),
      '/service.js': html(`fetch('http://127.0.0.1:${port}/service')`, { 'content-type': 'text/javascript' }),
      '/next': html(`<script>fetch('http://127.0.0.1:${port}/next')</script>`),
    },
    {},
    [port],
  );
  const shown = await w.shown('/', 5000);
  t.match(shown, 'A weir');
  t.match(shown, 'peer undefined');
  t.notMatch(shown, /root:|peer function/);
  t.same(traps.caught, []);
  const { refused, requests } = w.renderer.stats();
  t.ok(refused > 20, `${refused} of ${requests} requests were refused`);
});

t.test('pages over TLS and web sockets go through tunnels', { skip }, async (t) => {
  const secure = await secureSite(t, { '/data': html(TEXT, { 'access-control-allow-origin': '*' }) });
  const w = await world(
    t,
    { '/': scripted(`fetch('https://site.test:${secure.port}/data').then((answer) => answer.text()).then(write)`) },
    {},
    [secure.port],
  );
  t.match(await w.shown('/'), TEXT.trim());
  t.same(secure.asked, ['/data']);
});

t.test('a crash of the tab is an error, and the next page is shown', { skip }, async (t) => {
  const w = await world(t, {
    '/': scripted('setInterval(() => write("more"), 20)'),
    '/next': scripted(`write(${JSON.stringify(TEXT)})`),
  });
  const page = w.shown('/', 8000);
  const { url } = await browser();
  const devtools = await connectDevTools({ url, clock: systemClock, timeoutMs: 5000, onClose: () => undefined });
  t.teardown(() => devtools.close('the end'));
  const isOpen = async (): Promise<boolean> => {
    const { targetInfos } = await devtools.send('Target.getTargets');
    return (targetInfos as unknown[]).some((target) => membersOf(target)['title'] === 'App');
  };
  await until('the page is open', isOpen, 8000);
  const { processInfo } = await devtools.send('SystemInfo.getProcessInfo');
  for (const each of (processInfo as unknown[]).map(membersOf)) {
    if (each['type'] === 'renderer') process.kill(Number(each['id']), 'SIGKILL');
  }
  t.equal(await page, 'HR_FETCH_RENDERER the page crashed');
  t.match(await w.shown('/next'), 'A weir');
});

t.test('POST /search/fetch answers the rendered page, and the plain one where that has more', { skip }, async (t) => {
  const { url } = await browser();
  const pages = await site(t, {
    '/': scripted(`write(${JSON.stringify(TEXT)})`),
    '/full': html(`<main>${`<p>${TEXT}`.repeat(3)}</main><script>document.body.textContent = 'less'</script>`),
  });
  const settings = { allow: ['127.0.0.1'], ports: [pages.port], renderer: { url } };
  const { ask } = await open(t, 'inject', { fetch: settings });
  const fetched = async (path: string): Promise<Record<string, unknown>> => {
    const headers = { ...GOOD };
    const answer = await ask({ path: '/search/fetch', headers, body: { url: `${pages.origin}${path}` } });
    return JSON.parse(String(answer.body)) as Record<string, unknown>;
  };
  t.match(await fetched('/'), { content: TEXT.trim(), rendered: true, title: 'App' });
  const plain = await fetched('/full');
  t.match(plain['content'], TEXT.trim());
  t.notOk('rendered' in plain);
});

t.test('after many pages nothing is left of them', { skip }, async (t) => {
  const count = Number(process.env['HEADRACE_TEST_RENDERER_PAGES'] ?? 8);
  const w = await world(t, {
    '/': scripted(`write(${JSON.stringify(TEXT)}); window.open('/'); new Worker('data:,1')`),
  });
  const pages = Array.from({ length: count }, () => w.shown('/', 60_000));
  for (const shown of await Promise.all(pages)) t.match(shown, 'A weir');
  while (w.renderer.stats().running > 0) await new Promise((resolve) => setTimeout(resolve, 10));
  const { url } = await browser();
  const devtools = await connectDevTools({ url, clock: systemClock, timeoutMs: 5000, onClose: () => undefined });
  t.teardown(() => devtools.close('the end'));
  t.match(await devtools.send('Target.getBrowserContexts'), { browserContextIds: [] });
  const { targetInfos } = await devtools.send('Target.getTargets');
  const left = (targetInfos as unknown[]).map((info) => String(membersOf(info)['url']));
  t.same(
    left.filter((address) => address.includes('site.test')),
    [],
  );
});

interface Traps {
  /** Of the listeners for TCP on 127.0.0.1 and ::1, and where UDP is received on both. */
  readonly port: number;
  readonly udp: number;
  /** What arrived. */
  readonly caught: string[];
}

/** Listeners that nothing of a page may reach. */
async function openTraps(t: Test): Promise<Traps> {
  const caught: string[] = [];
  const listen = async (host: string, port: number): Promise<Server> => {
    const server = createServer((socket) => {
      caught.push(`connection to ${host}`);
      socket
        .on('error', () => undefined)
        .on('data', (piece) => {
          caught.push(piece.toString('latin1').slice(0, 60));
          socket.end('HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\ntrapped');
        });
    });
    server.listen(port, host);
    await once(server, 'listening');
    t.teardown(() => server.close());
    return server;
  };
  const { port } = (await listen('127.0.0.1', 0)).address() as AddressInfo;
  // Machines without IPv6 have no ::1.
  await listen('::1', port).catch(() => undefined);
  let udp = 0;
  for (const [type, host] of [
    ['udp4', '127.0.0.1'],
    ['udp6', '::1'],
  ] as const) {
    const socket = createSocket(type);
    socket.on('message', (message) => void caught.push(`UDP to ${host}: ${message.length} bytes`));
    socket.on('error', () => undefined);
    socket.bind(udp, host);
    await once(socket, 'listening').catch(() => undefined);
    if (udp === 0) udp = socket.address().port;
    t.teardown(() => socket.close());
  }
  return { port, udp, caught };
}
