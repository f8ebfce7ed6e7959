import fc from 'fast-check';
import t from 'tap';
import { plainText, strippedAscii } from '../../src/search/text.ts';

t.test('removes tags, and separates words where a block ends', async (t) => {
  t.equal(plainText('The <strong>Danube</strong>delta <em class="a>b">is</em> wide'), 'The Danubedelta is wide');
  t.equal(plainText('<p>one</p><p>two<br>three<li>four</p>'), 'one two three four');
  t.equal(plainText('<jats:title>Abstract</jats:title><jats:p>Cells</jats:p>'), 'Abstract Cells');
  t.equal(plainText('a<!-- hidden -->b<script>alert(1)</script><style>p{}</style>c'), 'abc');
  t.equal(plainText('<![CDATA[x < y]]>'), 'x < y');
});

t.test('entities are decoded once', async (t) => {
  t.equal(plainText('Fish &amp; Chips &#8211; caf&eacute; &#x1F600;'), 'Fish & Chips – café 😀');
  t.equal(plainText('&amp;lt;b&amp;gt; &lt;b&gt;'), '&lt;b&gt; <b>');
  t.equal(plainText('AT&T; R&D &bogus; 100% &'), 'AT&T; R&D &bogus; 100% &');
});

t.test('keeps what only looks like a tag', async (t) => {
  for (const text of [
    'List<String> in Java',
    'a < b and c > d',
    'if x<y',
    'x <y and z',
    'I <3 you',
    'Map<K,V>',
    '</T> ends it',
  ])
    t.equal(plainText(text), text);
  t.equal(plainText('how to write <script> in a page'), 'how to write in a page');
  for (const tag of ['script', 'style', 'iframe', 'textarea', 'title', 'xmp', 'plaintext', 'noembed', 'noframes'])
    t.equal(plainText(`the <${tag}> <${tag} x="1"> tag in <b>HTML</b> &amp; CSS`), 'the tag in HTML & CSS', tag);
  t.equal(plainText('cut off <a href="http://a'), 'cut off');
});

t.test('folds whitespace and removes invisible characters', async (t) => {
  t.equal(plainText('  a\n\t b\u00a0\u3000c\r\n'), 'a b c');
  t.equal(plainText('a\u0000b\u0007c\u200b\u202edef\u00adg \u0001 h'), 'abcdefg h');
  t.equal(plainText('\ud800a'), '\ufffda');
});

t.test('anything but a string is empty', async (t) => {
  for (const value of [undefined, null, 7, true, {}, ['a']]) t.equal(plainText(value), '');
});

t.test('the length is bounded and cuts no character in half', async (t) => {
  t.equal(plainText('abcdef', 3), 'abc');
  t.equal(plainText('ab😀', 3), 'ab');
  t.equal(plainText('ab cd', 3), 'ab');
  t.equal(plainText('x'.repeat(9000)).length, 2000);
});

t.test('no input makes it throw, grow or keep an invisible character', async () => {
  const markup = fc.array(
    fc.oneof(
      fc.constantFrom(
        '<',
        '>',
        '</',
        '<b',
        '<p>',
        '<script>',
        '</script>',
        '<!--',
        '-->',
        '&',
        '&amp',
        ';',
        '"',
        '<![CDATA[',
      ),
      fc.string(),
    ),
    { maxLength: 40 },
  );
  fc.assert(
    fc.property(
      fc.oneof(
        markup.map((parts) => parts.join('')),
        fc.string({ unit: 'binary' }),
      ),
      (text) => {
        const plain = plainText(text, 100);
        return plain.length <= 100 && plain.isWellFormed() && plain === plain.trim() && !/\p{Cc}| {2}/u.test(plain);
      },
    ),
    { numRuns: 3000 },
  );
});

t.test('a text does not affect the next one', async (t) => {
  const next = 'a &amp; <b>b</b>';
  for (const before of ['<script>x', '<textarea>', '<!-- open', '<p class="', '&am', '<![CDATA[', '<svg><style>', '</'])
    t.equal((plainText(before), plainText(next)), 'a & b', before);
});

// Quadratic time would exceed the timeout of the test by far.
t.test('deep and endless markup takes linear time', async (t) => {
  const length = 1_000_000;
  for (const piece of ['<div>', '<svg>', '<', '&', '<!--', '<script>', '<a href="', '</x>', '<String ', '<![CDATA['])
    t.ok(plainText(piece.repeat(length), length).length <= length, piece);
});

t.test('simple markup', async (t) => {
  // A comment keeps a text from being simple, and is removed.
  const pieces = [
    ...[
      'a',
      ' ',
      'é',
      '日本',
      '\u{1f600}',
      '<b>',
      '</b>',
      '<strong>',
      '</em>',
      '<br>',
      '<p>',
      '</p>',
      '<B>',
      '<b class="x">',
    ],
    ...[
      '&amp;',
      '&lt;',
      '&gt;',
      '&quot;',
      '&#39;',
      '&#x27;',
      '&nbsp;',
      '&amp',
      '&',
      '<',
      '>',
      '&ouml;',
      '<List>',
      '&#128;',
    ],
  ];
  const texts = fc.array(fc.constantFrom(...pieces), { maxLength: 12 }).map((parts) => `x${parts.join('')}`);
  t.test('is read as the tokenizer does', async (t) => {
    fc.assert(
      fc.property(texts, (text) => plainText(text) === plainText(`<!---->${text}`)),
      { numRuns: 20_000 },
    );
    t.equal(plainText('<b>A</b> &amp; é'), 'A & é');
  });

  t.test('may be stripped from bytes of ASCII before', async (t) => {
    const stripped = (text: string): string | undefined => strippedAscii(Buffer.from(`"${text}"`), 1, 1 + text.length);
    fc.assert(
      fc.property(texts, (text) => {
        if (/[^\x20-\x7e]/.test(text)) return true;
        return plainText(stripped(text) ?? text) === plainText(text);
      }),
      { numRuns: 20_000 },
    );
    t.equal(stripped('<b>A</b> is <br>&gt; B'), 'A is  > B');
    for (const text of ['A', '<b>A</b> &amp; B', '<i', '&lt;b&gt;', '<b class="x">A</b>', `<b>${'A'.repeat(5000)}`])
      t.equal(stripped(text), undefined, text.slice(0, 20));
  });
});
