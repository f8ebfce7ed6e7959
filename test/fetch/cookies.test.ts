// Cookies of one fetch: which host, path and scheme gets which, in which order, and how many.

import fc from 'fast-check';
import t from 'tap';
import { Cookies } from '../../src/fetch/cookies.ts';

const NOW = Date.UTC(2030, 0, 1);

/** The `Cookie` field of a request for `to` after `from` has set these. */
function sent(from: string, fields: readonly string[], to: string): string {
  const cookies = new Cookies();
  cookies.take(fields, new URL(from), NOW);
  return cookies.header(new URL(to));
}

t.test('a cookie goes to its host, domain, path and scheme', (t) => {
  for (const [from, field, to, expected] of [
    ['http://a.test/', 'id=1', 'http://a.test/x', 'id=1'],
    ['http://a.test/', 'id=1', 'https://a.test/x', 'id=1'],
    ['http://a.test/', 'id=1', 'http://b.a.test/', ''],
    ['http://a.test/', 'id=1', 'http://other.test/', ''],
    ['http://a.test/', 'id=1', 'http://nota.test/', ''],
    ['http://a.test:8080/', 'id=1', 'http://a.test/', 'id=1'],
    ['http://www.site.example/', 'id=1; Domain=site.example', 'http://shop.site.example/', 'id=1'],
    ['http://www.site.example/', 'id=1; domain=.SITE.example', 'http://site.example/', 'id=1'],
    ['http://www.site.example/', 'id=1; Domain=site.example', 'http://notsite.example/', ''],
    ['http://site.example/', 'id=1; Domain=www.site.example', 'http://www.site.example/', ''],
    ['http://site.example/', 'id=1; Domain=other.example', 'http://other.example/', ''],
    ['http://evil.co.uk/', 'id=1; Domain=co.uk', 'http://bank.co.uk/', ''],
    ['http://evil.example/', 'id=1; Domain=example', 'http://bank.example/', ''],
    ['http://www.bbc.co.uk/', 'id=1; Domain=bbc.co.uk', 'http://news.bbc.co.uk/', 'id=1'],
    ['http://10.0.0.1/', 'id=1; Domain=0.0.1', 'http://20.0.0.1/', ''],
    ['http://a.test/in/page', 'id=1', 'http://a.test/in/other', 'id=1'],
    ['http://a.test/in/page', 'id=1', 'http://a.test/index', ''],
    ['http://a.test/in/page', 'id=1', 'http://a.test/in', 'id=1'],
    ['http://a.test/in/page', 'id=1; Path=/', 'http://a.test/', 'id=1'],
    ['http://a.test/', 'id=1; Path=/in', 'http://a.test/in/deep', 'id=1'],
    ['http://a.test/', 'id=1; Path=/in', 'http://a.test/inner', ''],
    ['http://a.test/', 'id=1; Path=in', 'http://a.test/', 'id=1'],
    ['https://a.test/', 'id=1; Secure', 'https://a.test/', 'id=1'],
    ['https://a.test/', 'id=1; Secure', 'http://a.test/', ''],
    ['http://a.test/', 'id=1; Secure', 'https://a.test/', ''],
    ['http://a.test/', 'id=1; Max-Age=0', 'http://a.test/', ''],
    ['http://a.test/', 'id=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT', 'http://a.test/', 'id=1'],
    ['http://a.test/', 'id=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT', 'http://a.test/', ''],
    ['http://a.test/', 'id=1; Expires=Fri, 01 Jan 2038 00:00:00 GMT; HttpOnly', 'http://a.test/', 'id=1'],
    ['http://a.test/', 'id=a=b==', 'http://a.test/', 'id=a=b=='],
    ['http://a.test/', 'id="a b"', 'http://a.test/', 'id="a b"'],
    ['http://a.test/', '=bare', 'http://a.test/', 'bare'],
    ['http://a.test/', 'nonsense', 'http://a.test/', ''],
    ['http://a.test/', '', 'http://a.test/', ''],
    ['http://a.test/', 'id=1\r\nx: y', 'http://a.test/', ''],
    ['https://a.test/', '__Host-id=1; Secure; Path=/', 'https://a.test/', '__Host-id=1'],
    ['https://a.test/', '__Host-id=1; Secure; Path=/x', 'https://a.test/x', ''],
    ['http://a.test/', '__Secure-id=1', 'http://a.test/', ''],
  ] as const)
    t.equal(sent(from, [field], to), expected, `${field} of ${from} to ${to}`);
  t.end();
});

t.test('a later cookie replaces one of its name, domain and path; longer paths come first', (t) => {
  t.equal(sent('http://a.test/', ['id=1', 'id=2', 'in=3; Path=/in'], 'http://a.test/in/'), 'in=3; id=2');
  t.equal(sent('http://a.test/', ['id=1', 'id=; Max-Age=-1'], 'http://a.test/'), '');
  const cookies = new Cookies();
  cookies.take(['id=safe; Secure'], new URL('https://a.test/'), NOW);
  cookies.take(['id=changed'], new URL('http://a.test/'), NOW);
  t.equal(cookies.header(new URL('https://a.test/')), 'id=safe', 'http does not change what https has set');
  t.end();
});

t.test('cookies are bounded in number and size, and never leave their site', (t) => {
  const long = Array.from({ length: 100 }, (_, at) => `name${at}=${'x'.repeat(400)}`);
  t.ok(sent('http://a.test/', long, 'http://a.test/').length <= 6144);
  t.equal(sent('http://a.test/', [`id=${'x'.repeat(5000)}`], 'http://a.test/'), '');
  const text = fc.string({ maxLength: 40 });
  fc.assert(
    fc.property(fc.array(text), text, text, (fields, domain, path) => {
      const all = [
        ...fields,
        `id=1; Domain=${domain}; Path=${path}`,
        'id=2; Domain=test',
        'id=3; Domain=.',
        'id=4; Domain=',
      ];
      return sent('http://www.a.test/x/', all, 'http://www.b.test/x/') === '';
    }),
  );
  fc.assert(
    fc.property(fc.array(text), (fields) => {
      const field = sent('http://a.test/', fields, 'http://a.test/');
      // oxlint-disable-next-line no-control-regex -- what a field may not hold
      return !/[\0\r\n]/.test(field);
    }),
  );
  t.end();
});
