import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { Robots, type RobotsResponse } from '../../src/fetch/robots.ts';
import { HeadraceError } from '../../src/errors.ts';
import { downloader, get, outcome, page, redirect, said, site } from '../support/site.ts';

const STAY = new AbortController().signal;
const AGENT = 'Headrace/0.1 (page reader)';

function answerOf(text: string, status = 200): RobotsResponse {
  return { status, bytes: Buffer.from(text) };
}

async function verdict(robots: Robots, path: string, answer: () => Promise<RobotsResponse>): Promise<string> {
  const url = new URL(path, 'http://site.test');
  return await robots.admit(url, { userAgent: AGENT, account: '', signal: STAY }, answer).then(() => 'ok', said);
}

async function by(text: string, path: string, status?: number): Promise<string> {
  return await verdict(new Robots(createManualClock()), path, async () => answerOf(text, status));
}

const REFUSED = 'HR_FETCH_ROBOTS site.test';

t.test('follows the rules of its user agent, else those for all', async (t) => {
  const rules = 'User-agent: headrace\nDisallow: /a\nAllow: /a/b\n\nUser-agent: *\nDisallow: /\n';
  t.equal(await by(rules, '/a'), REFUSED);
  t.equal(await by(rules, '/a/b'), 'ok', 'the longer rule wins');
  t.equal(await by(rules, '/c'), 'ok');
  t.equal(await by('User-agent: other\nDisallow: /\n', '/'), 'ok');
  t.equal(await by('User-agent: *\nDisallow: /*.pdf$\n', '/x.pdf'), REFUSED);
});

t.test('a missing file allows everything, a server error nothing', async (t) => {
  for (const status of [401, 403, 404, 410]) t.equal(await by('', '/', status), 'ok', String(status));
  for (const status of [500, 503]) t.equal(await by('', '/', status), REFUSED, String(status));
  const failing = new Robots(createManualClock());
  const fail = async (): Promise<RobotsResponse> => {
    throw new HeadraceError('HR_FETCH_FAILED', { subject: 'no connection' });
  };
  t.equal(await verdict(failing, '/', fail), REFUSED);
});

t.test('errors of the gateway itself are passed on and not cached', async (t) => {
  const robots = new Robots(createManualClock());
  const block = async (): Promise<RobotsResponse> => {
    throw new HeadraceError('HR_FETCH_BLOCKED', { subject: 'private address' });
  };
  t.equal(await verdict(robots, '/', block), 'HR_FETCH_BLOCKED private address');
  t.equal(await verdict(robots, '/', async () => answerOf('', 404)), 'ok');
});

t.test('requests the file once for an origin, and again when its TTL has ended', async (t) => {
  const clock = createManualClock();
  const robots = new Robots(clock);
  let asked = 0;
  let status = 404;
  const ask = async (): Promise<RobotsResponse> => {
    asked++;
    return answerOf('', status);
  };
  await Promise.all(['/a', '/b', '/c'].map((path) => verdict(robots, path, ask)));
  t.equal(asked, 1);
  clock.advance(3_599_999);
  await verdict(robots, '/a', ask);
  t.equal(asked, 1);
  clock.advance(2);
  status = 500;
  t.equal(await verdict(robots, '/a', ask), REFUSED);
  t.equal(asked, 2);
  clock.advance(60_001);
  status = 404;
  t.equal(await verdict(robots, '/a', ask), 'ok', 'trouble is forgotten sooner');
});

t.test('judging a path is bounded, whatever the wildcards of the file', async (t) => {
  const behind = (rule: string, count: number): string => `User-agent: *\n${`${rule}\n`.repeat(count)}Disallow: /no\n`;
  const path = `/${'a'.repeat(8000)}`;
  const start = process.cpuUsage();
  for (const rule of [`Allow:*${'a'.repeat(255)}b${'a'.repeat(245)}`, `Disallow: /${'*a'.repeat(200)}b`]) {
    const file = behind(rule, Math.floor(511_000 / rule.length));
    t.equal(await by(file, path), 'ok');
    t.equal(await by(file, '/no'), REFUSED, 'plain rules all count');
  }
  t.ok(process.cpuUsage(start).user < 2_000_000);
  t.equal(await by(`${behind(`Disallow: /${'*a'.repeat(200)}b`, 1000)}Disallow: /x*y\n`, '/x1y'), REFUSED);
  t.equal(await by(behind(`Disallow: /${'*'.repeat(511)}x`, 1), '/x'), 'ok', 'longer rules are ignored');
});

t.test('rules of many large files take bounded memory', async (t) => {
  const robots = new Robots(createManualClock());
  const file = answerOf(`User-agent: *\nDisallow: /no\n${'Allow:/\n'.repeat(60_000)}`);
  let asked = 0;
  const ask = async (at: number): Promise<string> => {
    const asker = { userAgent: AGENT, account: '', signal: STAY };
    const get = async (): Promise<RobotsResponse> => {
      asked++;
      return file;
    };
    return await robots.admit(new URL(`http://s${at}.test/no`), asker, get).then(() => 'ok', said);
  };
  for (let at = 0; at < 12; at++) t.equal(await ask(at), `HR_FETCH_ROBOTS s${at}.test`);
  await ask(11);
  t.equal(asked, 12);
  await ask(0);
  t.equal(asked, 13, 'the oldest has left');
});

t.test('rules match as RFC 9309 says', async (t) => {
  const refused = async (rule: string, path: string): Promise<boolean> =>
    (await by(`User-agent: *\nDisallow: ${rule}\n`, path)) === REFUSED;
  for (const [rule, path] of [
    ['/a', '/abc?d'],
    ['/a*c', '/abbcd'],
    ['/a*c$', '/acbc'],
    ['*.php$', '/x/a.php'],
    ['/*?', '/a?b'],
    ['/a$', '/a'],
    ['/ä', '/%c3%a4b'],
    ['/%c3%A4', '/ä'],
    ['/foo/bar/baz', '/foo/bar/%62%61%7A'],
    ['/%70rivate', '/private/a'],
    ['/a%7eb*%3f', '/a~b/c%3F'],
    ['/a[1]', '/a[1]'],
    ['/*$', '/a'],
    ['/a*b*$', '/ab'],
  ] as const)
    t.ok(await refused(rule, path), `${rule} ${path}`);
  for (const [rule, path] of [
    ['/a', '/b'],
    ['/a*c$', '/acb'],
    ['/ab*b$', '/ab'],
    ['/a$', '/ab'],
    ['/a*b', '/acd'],
    ['/A', '/a'],
    ['/a%2fb', '/a/b'],
    ['/%2a', '/a'],
    ['', '/a'],
    ['# /a', '/a'],
  ] as const)
    t.notOk(await refused(rule, path), `${rule} ${path}`);
  t.equal(await by('User-agent: *\nDisallow: /a\nAllow: /a\n', '/a'), 'ok', 'what allows goes before');
  const groups =
    'User-agent: Headrace/2\nUser-agent: x\nDisallow: /a\nUser-agent: *\nDisallow: /b\nUser-agent: HEADRACE\nDisallow: /c';
  for (const [path, answer] of [
    ['/a', REFUSED],
    ['/b', 'ok'],
    ['/c', REFUSED],
  ] as const)
    t.equal(await by(groups, path), answer);
  t.equal(await by('User-agent: headrace\nDisallow:\nUser-agent: *\nDisallow: /', '/a'), 'ok', 'a group without rules');
  const delayed = 'User-agent: headrace\nCrawl-delay: 9\nUser-agent: x\nSitemap: /s\nDisallow: /a\n';
  t.equal(await by(delayed, '/a'), REFUSED, 'other lines do not end a group');
  t.equal(await by('User-agent: *\nDisallow: /', '/robots.txt'), 'ok', 'the file itself may always be fetched');
});

t.test('the downloader fetches robots.txt through the guard, for every hop', async (t) => {
  const rules = page('User-agent: *\nDisallow: /secret\n', { 'content-type': 'text/plain' });
  const web = await site(t, {
    '/robots.txt': redirect('/rules'),
    '/rules': rules,
    '/open': page('open'),
    '/door': redirect('/secret'),
    '/secret': page('secret'),
  });
  const from = downloader(t, { ports: [web.port], robots: true, userAgent: AGENT });
  t.equal(await outcome(get(from, `${web.origin}/open`)), 'open');
  t.equal(await outcome(get(from, `${web.origin}/secret`)), `HR_FETCH_ROBOTS 127.0.0.1:${web.port}`);
  t.equal(await outcome(get(from, `${web.origin}/door`)), `HR_FETCH_ROBOTS 127.0.0.1:${web.port}`);
  t.same(web.asked, ['/robots.txt', '/rules', '/open', '/door']);
  const inside = downloader(t, { ports: [web.port], robots: true, allow: [] }, { lookup: async () => ['127.0.0.1'] });
  t.equal(await outcome(get(inside, `http://inside.test:${web.port}/open`)), 'HR_FETCH_FAILED name not found');
});

t.test('a request ends when no page waits for it, and accounts do not wait for each other', async (t) => {
  const robots = new Robots(createManualClock());
  const signals: AbortSignal[] = [];
  const never = (_url: string, signal: AbortSignal): Promise<RobotsResponse> => {
    signals.push(signal);
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
  };
  const ask = (account: string): { left: AbortController; end: Promise<string> } => {
    const left = new AbortController();
    const asker = { userAgent: AGENT, account, signal: left.signal };
    return { left, end: robots.admit(new URL('http://site.test/'), asker, never).then(() => 'ok', said) };
  };
  const pages = [ask('a'), ask('a'), ask('b')];
  t.equal(signals.length, 2, 'one request for each account');
  pages[0]?.left.abort(new Error('left'));
  t.equal(await pages[0]?.end, 'Error: left');
  t.same(
    signals.map(({ aborted }) => aborted),
    [false, false],
    'another page of the account waits',
  );
  for (const { left } of pages.slice(1)) left.abort(new Error('left'));
  await Promise.all(pages.map(({ end }) => end));
  t.ok(signals.every(({ aborted }) => aborted));
  const later = ask('a');
  t.equal(signals.length, 3, 'nothing was cached');
  later.left.abort(new Error('left'));
  await later.end;
});

t.test('files with many names and rules are read in linear time', async (t) => {
  const lines = (count: number, of: (at: number) => string): string =>
    Array.from({ length: count }, (_, at) => `${of(at)}\n`).join('');
  const names = lines(12_000, (at) => `User-agent: a${at}`);
  const rules = lines(12_000, (at) => `Disallow: /${at}`);
  const start = process.cpuUsage();
  t.equal(await by(`User-agent: *\nDisallow: /x\n${names}${rules}`, '/x'), REFUSED);
  t.ok(process.cpuUsage(start).user < 1_000_000);
  t.equal(await by(`User-agent: a\nUser-agent: *\n${lines(20_000, (at) => `Disallow: /${at}-`)}`, '/19999-'), REFUSED);
});

t.test('rules that were read for another user agent do not count', async (t) => {
  const robots = new Robots(createManualClock());
  const file = async (): Promise<RobotsResponse> => answerOf('User-agent: other\nDisallow: /\n');
  t.equal(await verdict(robots, '/', file), 'ok');
  const asker = { userAgent: 'Other/1', account: '', signal: STAY };
  t.equal(await robots.admit(new URL('http://site.test/'), asker, file).then(() => 'ok', said), REFUSED);
});
