// Text, Markdown, JSON and XML as pages.
import t from 'tap';
import { readJson, readText, readXml } from '../../src/extract/plain-text.ts';

const URL_1 = 'http://site.test/notes/water%20mill.txt?x=1';

t.test('text keeps its lines, without control characters and repeated blank lines', (t) => {
  const page = readText('\ufeff\r\n  A title\r\n\r\n\r\n\r\none\x00\x07 two  \rthree\f\tfour\n\n', URL_1);
  t.same(page, { title: 'A title', content: '  A title\n\none two\nthree\n\tfour', wordCount: 6 });
  t.end();
});

t.test('the title of Markdown is its first heading', (t) => {
  t.equal(readText('Some words first\n\n## On *mills*\n\n# Later', URL_1).title, 'On *mills*');
  t.equal(readText('The mill\n========\n\nWords.\n\n## Usage', URL_1).title, 'The mill');
  t.equal(readText('Words.\n\n```sh\n# comment\n``\n```\n\n# Usage', URL_1).title, 'Usage');
  t.equal(readText('---\ndate: 2026\ntitle: "The mill"\n---\n\n## Usage', URL_1).title, 'The mill');
  t.equal(readText('---\ndate: 2026\n---\n\n## Usage', URL_1).title, 'Usage');
  t.end();
});

t.test('the title of text without a short first line is from its URL', (t) => {
  t.equal(readText('word '.repeat(100), URL_1).title, 'water mill.txt');
  t.equal(readText('', 'http://site.test/').title, 'site.test');
  t.equal(readText('', 'http://site.test/%ff').title, '%ff');
  t.equal(readText('', '').title, '');
  t.end();
});

t.test('compact JSON is indented, and its values are unchanged', (t) => {
  const json = String.raw`{"a":[1.0,12345678901234567890,"x\"{,}\\"],"b":{},"c":[],"d":{"e":null}}`;
  const { content, title } = readJson(json, URL_1);
  t.equal(
    content,
    String.raw`{
  "a": [
    1.0,
    12345678901234567890,
    "x\"{,}\\"
  ],
  "b": {},
  "c": [],
  "d": {
    "e": null
  }
}`,
  );
  t.same(JSON.parse(content), JSON.parse(json));
  t.equal(title, 'water mill.txt');
  t.end();
});

t.test('JSON on several lines is unchanged, and invalid JSON is text', (t) => {
  t.equal(readJson('{"a":1}\n{"a":2}\n', URL_1).content, '{"a":1}\n{"a":2}');
  t.equal(readJson('{"a', URL_1).content, '{\n  "a');
  t.equal(readJson(']] no JSON', URL_1).content, ']] no JSON');
  t.end();
});

t.test('a feed is read entry by entry, markup in its descriptions too', (t) => {
  const feed = `<?xml version="1.0"?><!-- made --><rss version="2.0"><channel><title>Mill &amp; wheel</title>
    <item><title>First</title><link>http://site.test/1</link><description>&lt;p&gt;One &lt;b&gt;bold&lt;/b&gt;&amp;nbsp;word&lt;/p&gt;</description></item>
    <item><title><![CDATA[Second <i>one</i>]]></title><pubDate>2026</pubDate></item></channel></rss>`;
  t.same(readXml(feed, URL_1), {
    title: 'Mill & wheel',
    content: 'Mill & wheel\nFirst\nhttp://site.test/1\nOne bold word\n\nSecond one\n2026',
    wordCount: 12,
  });
  t.end();
});

t.test('markup in a feed is read once, and its inline elements do not divide words or lines', (t) => {
  const contentOf = (entry: string): string => readXml(`<feed><entry>${entry}</entry></feed>`, URL_1).content;
  t.equal(
    contentOf('<c><![CDATA[<p>A &lt;div&gt; and 1 &lt; 2, <a href="x">there</a>.</p><p>B</p>]]></c>'),
    'A <div> and 1 < 2, there. B',
  );
  t.equal(contentOf('<c>&lt;p&gt;A &amp;lt;div&amp;gt;&lt;/p&gt;</c>'), 'A <div>');
  t.equal(contentOf('<title><![CDATA[Tom &#038; Jerry]]></title>'), 'Tom & Jerry');
  t.equal(contentOf('<title type="html">Tom &amp;amp; Jerry</title><id>1</id>'), 'Tom & Jerry\n1');
  t.equal(
    contentOf('<c type="xhtml"><p>H<sub>2</sub>O <b>is</b> <![CDATA[wa]]>ter<br/>A</p><p><i>B</i></p></c>'),
    'H2O is water\nA\nB',
  );
  t.equal(contentOf('<a>1</a><b>2</b><c>word<d>3</d></c>'), '1\n2\nword\n3');
  t.end();
});

t.test('declarations of a document type are no text, and entities are not expanded', (t) => {
  const feed = '<!DOCTYPE rss [ <!ENTITY a "word"> <!ENTITY b "&a;&a;"> ]><rss><title>Mill &b;</title></rss>';
  t.match(readXml(feed, URL_1), { title: 'Mill &b;', content: 'Mill &b;' });
  t.equal(readXml('<!doctype rss><rss>Mill</rss>', URL_1).content, 'Mill');
  t.equal(readXml('<!doctype rss [ <rss>Mill</rss>', URL_1).content, '');
  t.end();
});

t.test('hostile text takes linear time', (t) => {
  const size = 2_000_000;
  for (const unit of ['[', '{"a":', '"', '\\"', '"\\\\"', ',', ' ']) readJson(unit.repeat(size / unit.length), URL_1);
  for (const unit of [
    '<a>',
    '<',
    '<![CDATA[',
    '<!--',
    '<?',
    '<!doctype >',
    '<!doctype [',
    '&lt;',
    '&',
    '</a></a>',
    '<![CDATA[<a]]>',
  ])
    readXml(unit.repeat(size / unit.length), URL_1);
  for (const unit of [' ', '\n', '# ', '\r', ' \n']) readText(unit.repeat(size / unit.length), URL_1);
  t.end();
});
