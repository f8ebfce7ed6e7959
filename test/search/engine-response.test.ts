import t from 'tap';
import {
  asArray,
  asCount,
  asText,
  isChallenge,
  jsonBody,
  refuse,
  retryAfter,
} from '../../src/search/engine-response.ts';
import { EngineError, type EngineResponse } from '../../src/search/engine.ts';
import { membersOf } from '../../src/net/json-object.ts';

function answer(status: number, body = '', headers: Readonly<Record<string, string>> = {}): EngineResponse {
  return { status, headers, body: Buffer.from(body) };
}

function refusal(response: EngineResponse): { reason: string; retryAfterMs: number | undefined } | undefined {
  try {
    refuse(response);
    return undefined;
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    return { reason: error.reason, retryAfterMs: error.retryAfterMs };
  }
}

t.test('null and other types count as absent', async (t) => {
  for (const value of [null, undefined, 'x', 1, true]) t.same([membersOf(value), asArray(value)], [{}, []]);
  t.same(membersOf([1]), {});
  t.same(asArray({ length: 1 }), []);
  t.same([asText(' a '), asText(1), asText(null)], ['a', '', '']);
  t.same([asCount(7), asCount('7'), asCount(0), asCount(' 12 ')], [7, 7, 0, 12]);
  for (const value of [null, '', 'x', '1.5', 1.5, -1, NaN, Infinity, 2 ** 60, '1e3', {}])
    t.equal(asCount(value), undefined);
});

t.test('reads a JSON object; anything else is an invalid response', async (t) => {
  t.same(jsonBody(answer(200, '\ufeff {"a":1}')), { a: 1 });
  for (const body of ['', '[]', 'null', '1', '"x"', '{', '<html>', '{"a":1}x']) {
    t.throws(() => jsonBody(answer(200, body)), { failure: 'invalid', message: 'invalid response' });
  }
});

t.test('each status has its failure', async (t) => {
  const reasons = new Map([
    [401, 'access denied'],
    [403, 'access denied'],
    [402, 'quota exceeded'],
    [429, 'rate limited'],
    [400, 'query rejected'],
    [413, 'query rejected'],
    [414, 'query rejected'],
    [431, 'query rejected'],
    [422, 'query rejected'],
    [404, 'engine returned HTTP 404'],
    [302, 'engine returned HTTP 302'],
    [500, 'engine returned HTTP 500'],
    [503, 'engine returned HTTP 503'],
  ]);
  for (const [status, reason] of reasons) t.equal(refusal(answer(status, 'secret'))?.reason, reason);
  for (const status of [200, 202, 204]) t.equal(refusal(answer(status)), undefined);
});

t.test('reads the time to wait of a refusal', async (t) => {
  const date = 'Sat, 21 Nov 2026 10:00:00 GMT';
  const wait = (headers: Readonly<Record<string, string>>) => refusal(answer(429, '', headers))?.retryAfterMs;
  t.equal(wait({ 'retry-after': '7' }), 7000);
  t.equal(wait({ 'retry-after': '0.5' }), 500);
  t.equal(wait({ 'retry-after': 'Sat, 21 Nov 2026 10:01:30 GMT', date }), 90_000);
  t.equal(wait({ 'retry-after': 'Sat, 21 Nov 2026 09:00:00 GMT', date }), 0);
  t.equal(wait({ 'retry-after': 'Sat, 21 Nov 2026 10:01:30 GMT' }), undefined);
  t.equal(wait({ 'retry-after': 'soon', 'x-ratelimit-reset': '3' }), 3000);
  t.equal(wait({ 'x-ratelimit-reset': '1, 1419704', 'x-ratelimit-remaining': '0, 900' }), 1000);
  t.equal(wait({ 'x-ratelimit-reset': '1, 1419704', 'x-ratelimit-remaining': '1, 0' }), 1_419_704_000);
  t.equal(wait({ 'x-ratelimit-reset': '5, 2' }), 2000);
  t.equal(wait({ 'ratelimit-reset': '4' }), 4000);
  t.equal(wait({ 'x-ratelimit-reset': '1795255260', date }), 60_000);
  t.equal(wait({ 'x-ratelimit-reset': 'later,' }), undefined);
  t.equal(wait({}), undefined);
  t.equal(retryAfter(answer(503, '', { 'retry-after': '2' })), 2000);
  t.equal(refusal(answer(503, '', { 'retry-after': '2' }))?.retryAfterMs, 2000);
  const state = { 'x-ratelimit-remaining': '9990', 'x-ratelimit-reset': '43200' };
  for (const status of [404, 429, 500, 503])
    t.equal(refusal(answer(status, '', state))?.retryAfterMs, undefined, 'the state of a limit is no time to wait');
});

const CHALLENGES = [
  '<!DOCTYPE html><html><head><title>Just a moment...</title></head><body></body></html>',
  '<html><title>Attention Required! | Cloudflare</title></html>',
  '<html><script>window._cf_chl_opt={}</script></html>',
  '<html><div class="g-recaptcha" data-sitekey="x"></div></html>',
  '<html><div class="h-captcha"></div></html>',
  '<html><script src="https://www.google.com/recaptcha/api.js"></script></html>',
  '<html><div class="anomaly-modal__title">Bots use us too</div></html>',
  '<html>Our systems have detected unusual traffic from your computer network.</html>',
];

t.test('recognises challenge pages of any status', async (t) => {
  for (const page of CHALLENGES) {
    for (const status of [200, 202, 403, 429, 503]) {
      t.equal(refusal(answer(status, page, { 'content-type': 'text/html' }))?.reason, 'challenge page', page);
    }
    t.ok(isChallenge(answer(200, page)), 'without a content type');
  }
  t.ok(isChallenge(answer(403, '', { 'cf-mitigated': 'challenge' })));
});

t.test('does not take hits about challenges for challenge pages', async (t) => {
  const words = 'unusual traffic class=\\"g-recaptcha\\" _cf_chl_opt';
  t.notOk(isChallenge(answer(200, `{"results":[{"title":"${words}"}]}`, { 'content-type': 'application/json' })));
  t.notOk(isChallenge(answer(200, `{"results":[{"title":"${words}"}]}`, { 'content-type': 'text/html' })));
  t.notOk(isChallenge(answer(200, `<?xml version="1.0"?><feed>${words}</feed>`)));
  const long = `<html><a href="/x">about unusual traffic</a>${'<p>hit</p>'.repeat(3000)}</html>`;
  t.notOk(isChallenge(answer(200, long, { 'content-type': 'text/html' })));
  t.notOk(isChallenge(answer(200, '<html><p>plain page</p></html>')));
  t.notOk(isChallenge(answer(200)));
});
