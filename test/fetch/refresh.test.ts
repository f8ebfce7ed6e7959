// Refreshes that a page or its head declares: which lead elsewhere, and which belong to a page with text.

import t from 'tap';
import { REFRESH_BYTES, refreshOf } from '../../src/fetch/refresh.ts';

const PROSE = '<p>A weir holds the river back in a dry month.</p>'.repeat(12);

function target(markup: string, field?: string): string | null {
  return refreshOf(field, Buffer.from(markup, 'latin1'))?.url ?? null;
}

const meta = (content: string): string => `<meta http-equiv="refresh" content="${content}">`;

t.test('reads a refresh as browsers do', async (t) => {
  for (const [content, url] of [
    ['0; url=/there', '/there'],
    ['0;URL=/there', '/there'],
    ["0; url='/there'", '/there'],
    ['0;url=&quot;/there&quot; rest', '/there'],
    ['0, /there', '/there'],
    ['0 /there', '/there'],
    ['; url=/there', '/there'],
    ['0.9;url=/there', '/there'],
    ['  0  ;  url  =  /a b  ', '/a b'],
    ['0; url=/there?a=1&amp;b=2', '/there?a=1&b=2'],
    ['5; url=/there', '/there'],
    ['10; url=/there', '/there'],
    ['11; url=/there', null],
    ['0', null],
    ['0;', null],
    ['0; url=', null],
    ['0; url=javascript:alert(1)', null],
    ['0; url=data:text/html,x', null],
    ['0; url=intent://page#Intent;scheme=app;end', null],
    ['0; url=HTTPS://other.test/', 'HTTPS://other.test/'],
    ['0; url=/a:b', '/a:b'],
    ['x; url=/there', null],
    ['-1; url=/there', null],
  ] as const)
    t.equal(target(`<html><head>${meta(content)}</head><body>Redirecting</body></html>`), url, content);
  for (const markup of [
    "<META HTTP-EQUIV='Refresh' CONTENT='0; URL=/there'>",
    '<meta content="0; url=/there" http-equiv=refresh>',
    '<meta http-equiv = refresh content=0;url=/there />',
    `<title>Moved</title><body>${meta('0; url=/there')}`,
    `<!-- moved -->${meta('0; url=/there')}`,
  ])
    t.equal(target(markup), '/there', markup);
  t.equal(target('<p>Moved', '0; url=/there'), '/there', 'the field of the head');
  t.equal(target(`<base href="/base/">${meta('0; url=there')}`), 'there');
  t.equal(refreshOf(undefined, Buffer.from(`<base href="/base/">${meta('0; url=there')}`))?.base, '/base/');
});

t.test('what is no markup declares nothing', async (t) => {
  const declared = meta('0; url=/there');
  for (const markup of [
    `<!-- ${declared} -->`,
    `<!--[if IE]>${declared}<![endif]-->`,
    `<script>document.write('${declared}')</script>`,
    `<style>${declared}</style>`,
    `<title>${declared}</title>`,
    `<textarea>${declared}</textarea>`,
    `<p title='${declared}'>`,
    '<meta name="refresh" content="0; url=/there">',
    '<p>http-equiv=refresh',
  ])
    t.equal(target(markup), null, markup);
});

t.test('a page with text is content, unless nobody could read it', async (t) => {
  t.equal(target(`${meta('5; url=/next')}<body>${PROSE}`), null, 'a slide show');
  t.equal(target(`${meta('0; url=/next')}<body>${PROSE}`), '/next');
  t.equal(target(`<body>${PROSE}`, '5; url=/next'), null);
  const scriptless = `<noscript>${meta('0; url=/plain')}</noscript>`;
  t.equal(target(`${scriptless}<body><script>start()</script>`), '/plain', 'for browsers without scripts');
  t.equal(target(`${scriptless}<body>${PROSE}`), null, 'a page that does without');
  const large = `${meta('0; url=/next')}${' '.repeat(REFRESH_BYTES)}`;
  t.equal(target(large), null, 'large pages are content');
  t.equal(target(large, '0; url=/next'), '/next');
});

t.test('time is linear in the size, whatever the markup', async (t) => {
  const fill = (piece: string): string => `http-equiv${piece.repeat(REFRESH_BYTES / piece.length - 2)}`;
  const start = process.cpuUsage();
  for (const piece of [
    '<meta ',
    '<',
    '<!--',
    '<script>',
    '<meta http-equiv=refresh content="1',
    '<a b="',
    '<x a',
    '<noscript>',
  ])
    refreshOf(undefined, Buffer.from(fill(piece)));
  for (const content of ['1', ' ', '1.', '.', ';', ' ;', 'url=', '"'])
    refreshOf(undefined, Buffer.from(meta(content.repeat(60_000 / content.length))));
  const { user } = process.cpuUsage(start);
  t.ok(user < 2_000_000, `${user} us of CPU time`);
});
