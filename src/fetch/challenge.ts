// Pages that ask for proof of a human reader in place of what was asked for. They are known by headers that only they
// carry, or by the machinery of a bot wall in a page with hardly a word in it: an article about captchas has words, and so
// has a form with a captcha below it.

/** What is looked through, in bytes; such pages are small, and their machinery stands at the top. */
export const CHALLENGE_BYTES = 65_536;

/** More visible characters than a challenge has. */
const MAX_WORDS_LENGTH = 1200;

/** A captcha of a form stands among text; one that is the page does not. */
const MAX_CAPTCHA_WORDS_LENGTH = 400;

/** Header, and what its value holds when the answer is a challenge. */
const HEADERS: readonly (readonly [string, RegExp])[] = [
  ['cf-mitigated', /challenge/],
  ['x-amzn-waf-action', /challenge|captcha/],
  ['x-vercel-mitigated', /challenge/],
];

/** Machinery that stands in nothing but challenges. Cloudflare's `challenge-platform` scripts stand in ordinary pages. */
const WALLS: readonly string[] = [
  '_cf_chl_opt',
  '/cdn-cgi/challenge-platform/h/',
  'cf-browser-verification',
  'captcha-delivery.com',
  'id="px-captcha"',
  "id='px-captcha'",
  'window._pxappid',
  'sec-if-cpt-container',
  '/_sec/cp_challenge/',
  'window.gokuprops',
  'awswafcookiedomainlist',
  '_incapsula_resource',
  'sucuri_cloudproxy_js',
  '/.well-known/ddos-guard/',
  'id="anubis_challenge"',
];

const CAPTCHAS: readonly string[] = [
  'class="h-captcha',
  'class="g-recaptcha',
  'class="cf-turnstile',
  'hcaptcha.com/1/api.js',
  'recaptcha/api.js',
  'challenges.cloudflare.com/turnstile',
];

const TITLE =
  /<title[^>]{0,100}>\s{0,100}(?:just a moment\.\.\.|attention required! \| cloudflare|ddos-guard)\s{0,100}</;

/** Whether the headers of an answer say so. */
export function isChallengeHead(status: number, headers: Readonly<Record<string, string>>): boolean {
  if (HEADERS.some(([name, value]) => value.test(headers[name]?.toLowerCase() ?? ''))) return true;
  return (status === 403 || status === 429) && headers['x-datadome'] !== undefined;
}

/** Whether a page is one. Linear in its size; larger pages than `CHALLENGE_BYTES` are not. */
export function isChallengePage(bytes: Uint8Array): boolean {
  if (bytes.byteLength > CHALLENGE_BYTES) return false;
  const page = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1').toLowerCase();
  const holds = (marker: string): boolean => page.includes(marker);
  if (WALLS.some(holds) || TITLE.test(page)) return wordsLength(page) <= MAX_WORDS_LENGTH;
  return CAPTCHAS.some(holds) && wordsLength(page) <= MAX_CAPTCHA_WORDS_LENGTH;
}

/** Characters outside of tags, scripts and styles, runs of white space counted once. */
function wordsLength(page: string): number {
  let length = 0;
  for (let at = page.indexOf('<body'); at < page.length;) {
    const open = page.indexOf('<', at);
    const end = open === -1 ? page.length : open;
    length += page.slice(Math.max(at, 0), end).replace(/\s+/g, ' ').trim().length;
    at = open === -1 ? page.length : afterTag(page, open);
  }
  return length;
}

function afterTag(page: string, open: number): number {
  const [name = ''] = /^<(?:script|style|noscript|svg)\b/.exec(page.slice(open, open + 16)) ?? [];
  const last = name === '' ? open : page.indexOf(`</${name.slice(1)}`, open);
  const close = last === -1 ? -1 : page.indexOf('>', last);
  return close === -1 ? page.length : close + 1;
}
