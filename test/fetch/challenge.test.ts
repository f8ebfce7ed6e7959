import t from 'tap';
import { isChallengeHead, isChallengePage } from '../../src/fetch/challenge.ts';
import { downloader, get, outcome, page, site } from '../support/site.ts';

const SOME_WORDS = '<p>Ten words that stand in the text of an article. '.repeat(40);

const CHALLENGES: Record<string, string> = {
  cloudflare: '<html><head><title>Just a moment...</title></head><body><noscript>Enable JavaScript</noscript></body>',
  'cloudflare by its options': '<script>window._cf_chl_opt={cvId:"3"}</script><p>Verifying you are human.',
  datadome: '<body><script>var dd={"rt":"c","host":"geo.captcha-delivery.com"}</script></body>',
  perimeterx: '<script>window._pxAppId="PX1";</script><div id="px-captcha"></div><p>Press & Hold',
  akamai: '<div id="sec-if-cpt-container"></div>',
  'aws waf': '<script>window.gokuProps = {"key":"a"};</script><div id="challenge-container"></div>',
  incapsula: '<iframe src="/_Incapsula_Resource?SWUDNSAI=31"></iframe>',
  hcaptcha: '<form><p>One more step</p><div class="h-captcha" data-sitekey="a"></div></form>',
  recaptcha: '<title>Robot check</title><form><div class="g-recaptcha" data-sitekey="a"></div></form>',
  anubis: '<script id="anubis_challenge" type="application/json">{}</script>',
};

const PAGES: Record<string, string> = {
  'an article about captchas': `<title>hCaptcha and reCAPTCHA</title><body>${SOME_WORDS}captcha, class="g-recaptcha"`,
  'an article that quotes a challenge': `<body><pre>window._cf_chl_opt = {}</pre>${SOME_WORDS}`,
  'a page with a form below it': `<body>${SOME_WORDS}<form><div class="g-recaptcha"></div></form>`,
  'a page with the scripts of Cloudflare':
    '<body><p>Hello.<script src="/cdn-cgi/challenge-platform/scripts/jsd/main.js"></script>',
  'a short page that speaks of captchas': '<body><p>A captcha wants proof of a human reader.',
  'a page with that title and its own words': `<title>Just a moment...</title><body>${SOME_WORDS}`,
};

t.test('detects bot challenges by their markup', async (t) => {
  for (const [name, html] of Object.entries(CHALLENGES)) t.equal(isChallengePage(Buffer.from(html)), true, name);
});

t.test('pages with enough text are no challenges', async (t) => {
  for (const [name, html] of Object.entries(PAGES)) t.equal(isChallengePage(Buffer.from(html)), false, name);
  t.equal(isChallengePage(Buffer.from(`${CHALLENGES['cloudflare']}${' '.repeat(70_000)}`)), false, 'large pages too');
});

t.test('detects challenges by headers that only they carry', async (t) => {
  t.equal(isChallengeHead(403, { 'cf-mitigated': 'challenge' }), true);
  t.equal(isChallengeHead(202, { 'x-amzn-waf-action': 'challenge' }), true);
  t.equal(isChallengeHead(405, { 'x-amzn-waf-action': 'captcha' }), true);
  t.equal(isChallengeHead(403, { 'x-datadome': 'protected' }), true);
  t.equal(isChallengeHead(200, { 'x-datadome': 'protected' }), false);
  t.equal(isChallengeHead(403, { server: 'cloudflare' }), false);
});

t.test('time is linear in the size of hostile markup', async (t) => {
  for (const piece of ['<script', '<', '<title>', '</script', '<svg><', 'g-recaptcha "class="g-recaptcha'])
    t.type(isChallengePage(Buffer.from(`class="g-recaptcha${piece.repeat(60_000 / piece.length)}`)), 'boolean');
});

t.test('a challenge is refused with a success status and with an error status', async (t) => {
  const wall = CHALLENGES['cloudflare'] ?? '';
  const web = await site(t, {
    '/200': page(wall),
    '/403': page(wall, {}, 403),
    '/503': page(wall, {}, 503),
    '/head': page('', { 'cf-mitigated': 'challenge' }, 403),
    '/text': page(wall, { 'content-type': 'text/plain' }),
  });
  const from = downloader(t, { ports: [web.port] });
  for (const path of ['/200', '/403', '/503', '/head'])
    t.equal(await outcome(get(from, web.origin + path)), 'HR_FETCH_CHALLENGE', path);
  t.equal(await outcome(get(from, `${web.origin}/text`)), wall, 'in plain text it is a quotation');
});
