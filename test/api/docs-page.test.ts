// The documentation page: self-contained, allowed by its own policy, and free of any way to parse foreign markup.
import { createHash } from 'node:crypto';
import { Script } from 'node:vm';
import t from 'tap';
import { docsPage, docsPolicy } from '../../src/api/docs-page.ts';

const page = docsPage('/openapi.json');

function inside(tag: string): string {
  const found = [...page.matchAll(new RegExp(`<${tag}>([^]*?)</${tag}>`, 'g'))].map(([, text]) => text as string);
  t.equal(found.length, 1, `one inline ${tag}`);
  return found[0] ?? '';
}

t.test('the policy names exactly the inline script and style', (t) => {
  for (const tag of ['script', 'style']) {
    const hash = createHash('sha256').update(inside(tag)).digest('base64');
    t.ok(docsPolicy.includes(`${tag}-src 'sha256-${hash}'`), tag);
  }
  t.notMatch(docsPolicy, /unsafe|\*|https?:/);
  t.match(docsPolicy, /default-src 'none'.*frame-ancestors 'none'/);
  t.end();
});

t.test('nothing is loaded from elsewhere and no attribute carries code or style', (t) => {
  t.notMatch(page, /(src|href)="(https?:)?\/\//);
  t.notMatch(inside('style'), /@import|url\(/);
  t.notMatch(page, /<[^>]+ (on[a-z]+|style)=/);
  t.end();
});

t.test('the script parses and has no way to turn text into markup', (t) => {
  const script = inside('script');
  t.doesNotThrow(() => new Script(script));
  t.notMatch(
    script,
    /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|localStorage|DOMParser/,
  );
  t.end();
});

t.test('the path of the document cannot break out of its attribute', (t) => {
  const hostile = docsPage('/a"><script>alert(1)</script>&');
  t.match(hostile, 'data-openapi="/a&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;"');
  t.equal(hostile.split('<script>').length, 2);
  t.end();
});

t.test('every input has a label and the page a language, a title and a main part', (t) => {
  for (const [, id] of page.matchAll(/<input id="([^"]+)"/g)) t.match(page, `for="${id}"`);
  t.match(page, /<html lang="en">[^]*<title>[^<]+<[^]*<nav [^]*aria-label[^]*<main/);
  t.match(page, 'class="skip" href="#endpoints"');
  t.end();
});
