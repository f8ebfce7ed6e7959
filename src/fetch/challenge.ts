// Detects bot challenges: responses that ask for proof of a human reader in place of the page. Signs are headers that only
// challenges carry, or markup of a bot wall or captcha in a page with little visible text. Articles about captchas, and
// pages with a captcha below a form, have more text and are not challenges.

/** Largest page that is examined. Challenges are small. */
export const CHALLENGE_BYTES = 65_536;

/** Visible characters of a challenge, at most. */
const MAX_TEXT_LENGTH = 1200;

/** Visible characters of a page that is nothing but a captcha, at most. */
const MAX_CAPTCHA_TEXT_LENGTH = 400;

/** Headers, and the values that mark a challenge. */
const HEADERS: readonly (readonly [string, RegExp])[] = [
  ['cf-mitigated', /challenge/],
  ['x-amzn-waf-action', /challenge|captcha/],
  ['x-vercel-mitigated', /challenge/],
];

/** Markup of challenges only. Cloudflare's `challenge-platform` scripts also occur in ordinary pages. */
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

/** Whether status and headers mark a challenge. */
export function isChallengeHead(status: number, headers: Readonly<Record<string, string>>): boolean {
  for (const [name, value] of HEADERS) if (value.test(headers[name]?.toLowerCase() ?? '')) return true;
  return (status === 403 || status === 429) && headers['x-datadome'] !== undefined;
}

/** Whether a page is a challenge. Pages larger than `CHALLENGE_BYTES` are not. Linear in the size of the page. */
export function isChallengePage(bytes: Uint8Array): boolean {
  if (bytes.byteLength > CHALLENGE_BYTES) return false;
  const page = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1').toLowerCase();
  // Most pages have more text in their first kilobytes: their markup is not searched.
  const textLength = visibleLength(page, MAX_TEXT_LENGTH);
  if (textLength > MAX_TEXT_LENGTH) return false;
  if (includesAny(page, WALLS) || TITLE.test(page)) return true;
  return textLength <= MAX_CAPTCHA_TEXT_LENGTH && includesAny(page, CAPTCHAS);
}

function includesAny(page: string, markers: readonly string[]): boolean {
  for (const marker of markers) if (page.includes(marker)) return true;
  return false;
}

/**
 * Characters of a page in lower case that are outside of tags, scripts and styles, runs of white space counted once. What is behind more than
 * `most` is not counted.
 */
export function visibleLength(page: string, most = Infinity): number {
  let length = 0;
  for (let at = page.indexOf('<body'); at < page.length && length <= most;) {
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
