import t from 'tap';
import { isSparse, mayNeedBrowser } from '../../../src/fetch/renderer/needs-browser.ts';
import { fetchSettings } from '../../support/site.ts';

const { renderer } = fetchSettings();

function page(text: string, mediaType = 'text/html'): { bytes: Uint8Array; mediaType: string } {
  return { bytes: new TextEncoder().encode(text), mediaType };
}

t.test('a page may need a browser when it is HTML with a script that runs', async (t) => {
  const auto = { ...renderer, url: 'http://127.0.0.1:9222' };
  for (const text of [
    '<script>x</script>',
    '<SCRIPT src=a>',
    '<script type=module>',
    '<script type="text/javascript" src=a>',
  ])
    t.ok(mayNeedBrowser(auto, page(text)), text);
  for (const text of [
    '<p>x',
    '<script type="application/ld+json">{}</script>',
    '<script type=text/template>',
    '<scripts>',
  ])
    t.notOk(mayNeedBrowser(auto, page(text)), text);
  t.ok(mayNeedBrowser(auto, page('<script type=application/json>{}</script><script>go()</script>')));
  t.ok(mayNeedBrowser(auto, page('<script>', 'application/xhtml+xml')));
  t.notOk(mayNeedBrowser(auto, page('<script>x</script>', 'application/json')));
  t.notOk(mayNeedBrowser({ ...auto, when: 'never' }, page('<script>')));
  t.notOk(mayNeedBrowser({ ...auto, url: null }, page('<script>')));
  t.ok(mayNeedBrowser({ ...auto, when: 'always' }, page('<p>text')));
  t.notOk(mayNeedBrowser({ ...auto, when: 'always' }, page('%PDF', 'application/pdf')));
});

t.test('fewer than 200 characters of text are few, whatever the format', async (t) => {
  t.ok(isSparse({ content: 'x'.repeat(199) }));
  t.notOk(isSparse({ content: 'x'.repeat(200) }));
  t.ok(isSparse({ content: `<p class="${'x'.repeat(300)}">short</p>` }));
  t.ok(isSparse({ content: `[short](https://a.example/${'x'.repeat(300)})` }));
  t.notOk(isSparse({ content: 'word '.repeat(41) }));
});

t.test('hostile markup takes no time', async (t) => {
  const auto = { ...renderer, url: 'http://127.0.0.1:9222' };
  t.notOk(mayNeedBrowser(auto, page('<script type=x '.repeat(80_000))));
  t.notOk(isSparse({ content: '<'.repeat(1_000_000) }));
});
