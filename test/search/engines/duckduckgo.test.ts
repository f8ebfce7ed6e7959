import t from 'tap';
import { duckduckgo } from '../../../src/search/engines/duckduckgo.ts';
import { answer, contract, failure, fixture, parse, type Supply } from './contract.ts';

const engine = duckduckgo();

/** Ten results on the first page, fifteen on each further one, as the service has them. */
function page(supply: readonly Supply[], start: number): string {
  const end = start + (start === 0 ? 10 : 15);
  const results = supply.slice(start, end).map(({ title, url }) => {
    const href = url === 'nowhere' ? url : `//duckduckgo.com/l/?uddg=${encodeURIComponent(url)}&amp;rut=1`;
    return `<div class="result web-result"><h2><a class="result__a" href="${href}">${title}</a></h2></div>`;
  });
  const fields = `<input type="hidden" name="s" value="${end}"><input type="hidden" name="vqd" value="4-1">`;
  const next = `<form><input type="submit" value="Next">${fields}</form>`;
  return `<html><div id="links">${results.join('')}${end < supply.length ? next : ''}</div></html>`;
}

contract('duckduckgo', {
  engine,
  keyed: false,
  pages: [
    { fixture: 'duckduckgo/web.html', type: 'web', hits: 2 },
    { fixture: 'duckduckgo/page-two.html', type: 'web', hits: 1 },
    { fixture: 'duckduckgo/empty.html', type: 'web', hits: 0 },
    { fixture: 'duckduckgo/nulls.html', type: 'web', hits: 1 },
  ],
  failures: [
    { fixture: 'duckduckgo/challenge.html', status: 200, failure: 'challenge' },
    { fixture: 'duckduckgo/challenge.html', status: 202, failure: 'challenge' },
    { fixture: 'duckduckgo/accepted.html', status: 202, failure: 'challenge' },
  ],
  garbage: ['<html><body>Welcome</body></html>', '{}', '<div>'.repeat(100_000)],
  serve: (request, supply) => page(supply, Number(new URLSearchParams(String(request.body)).get('s') ?? 0)),
});

t.test('duckduckgo is sent the form of its page', async (t) => {
  const set = duckduckgo({ region: 'at-de', userAgent: 'Tester/1', url: 'http://proxy.example' });
  const request = set.request({ query: 'a & b', type: 'web', maxResults: 10 }, undefined);
  t.same(request, {
    method: 'POST',
    url: 'http://proxy.example/html/',
    headers: {
      accept: 'text/html',
      'content-type': 'application/x-www-form-urlencoded',
      referer: 'http://proxy.example/',
      'user-agent': 'Tester/1',
    },
    body: 'q=a+%26+b&b=&kl=at-de',
  });
});

t.test('bangs lead nowhere else and long queries are cut', async (t) => {
  const ask = (query: string): string | null =>
    new URLSearchParams(String(engine.request({ query, type: 'web', maxResults: 1 }, undefined).body)).get('q');
  t.equal(ask('!w danube !!g hey! 1 ! 2'), 'w danube g hey! 1 ! 2');
  t.equal(ask('\\danube a\\b'), 'danube a\\b');
  t.equal(ask('x'.repeat(600))?.length, 499);
});

t.test('results are unwrapped, without advertisements', async (t) => {
  t.same(parse(engine, 'web', answer(fixture('duckduckgo/web.html'))).hits, [
    {
      title: 'The Danube & its <b> tag',
      url: 'https://encyclopedia.example/Danube?a=1&b=2',
      snippet: 'A river in Europe, second to the Volga.',
    },
    { title: 'Direct', url: 'https://direct.example/', snippet: '' },
  ]);
});

t.test('a snippet belongs to the title of its own block', async (t) => {
  t.same(parse(engine, 'web', answer(fixture('duckduckgo/nulls.html'))).hits, [
    { title: 'https://kept.example/', url: 'https://kept.example/', snippet: '' },
  ]);
});

t.test('the next page is asked for with the fields of the form behind "Next"', async (t) => {
  const { next } = parse(engine, 'web', answer(fixture('duckduckgo/web.html')));
  const fields = {
    q: 'danube & more',
    s: '10',
    nextParams: '',
    v: 'l',
    o: 'json',
    dc: '11',
    api: 'd.js',
    vqd: '4-123456789',
    kl: 'wt-wt',
  };
  t.same(next, fields);
  const request = engine.request({ query: 'danube', type: 'web', maxResults: 10 }, next);
  t.same(Object.fromEntries(new URLSearchParams(String(request.body))), fields);
  t.equal(parse(engine, 'web', answer(fixture('duckduckgo/page-two.html'))).next, undefined, 'not behind "Previous"');
  t.equal(parse(engine, 'web', answer(fixture('duckduckgo/web.html')), 2).next, undefined, 'enough');
});

t.test('a page without the value that proves the first is the last', async (t) => {
  const body = page([{ title: 'x', url: 'https://a.example/' }], 0).replace(
    '</div></html>',
    '<form><input type="submit" value="Next"><input type="hidden" name="s" value="10"></form></div></html>',
  );
  t.equal(parse(engine, 'web', answer(body)).next, undefined);
});

t.test('a million nested elements cost nothing', async (t) => {
  const started = process.cpuUsage();
  t.equal(failure(engine, 'web', answer('<svg>'.repeat(1_000_000)))?.failure, 'invalid');
  t.ok(process.cpuUsage(started).user < 1_000_000, 'less than a second');
});

t.test('an element with a thousand attributes is read, one with more is not', async (t) => {
  const page = (attributes: number): string =>
    `<div id="links"><a class="result__a" href="http://a.example/" ${Array.from({ length: attributes - 2 }, (_, at) => `a${at}`).join(' ')}>T</a></div>`;
  t.equal(parse(engine, 'web', answer(page(1000))).hits.length, 1);
  t.equal(failure(engine, 'web', answer(page(1001)))?.failure, 'invalid');
});
