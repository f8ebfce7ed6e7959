import t from 'tap';
import { JsonMembers } from '../../src/search/json-members.ts';

const NAMES = ['results', 'title', 'url', 'width'];
const members = new JsonMembers(NAMES);

function read(text: string): unknown {
  return members.read(Buffer.from(text));
}

/** What `JSON.parse` makes of the text, without members of other names; undefined where it throws. */
function expected(text: string): unknown {
  try {
    return pruned(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function pruned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(pruned);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([name]) => NAMES.includes(name));
  return Object.fromEntries(kept.map(([name, each]) => [name, pruned(each)]));
}

t.test('reads the members of the names, at any depth, and no other', async (t) => {
  const text = `{"more": [{"title": "no"}], "results": [{"title": "A", "url": "https://a.example/", "rank": {"width": 1}},
    {"width": 640, "snippet": "no", "title": ["a", {"url": null, "x": 1}]}], "titles": 1, "titl": 2}`;
  t.same(read(text), {
    results: [
      { title: 'A', url: 'https://a.example/' },
      { width: 640, title: ['a', { url: null }] },
    ],
  });
});

t.test('reads values as JSON.parse does', async (t) => {
  for (const value of [
    ...[
      '1',
      '-0',
      '0.5e-3',
      '1E400',
      '123456789012345678901234567890',
      'true',
      'false',
      'null',
      '[]',
      '{}',
      '""',
      '[[], {}]',
    ],
    ...[
      '"grün"',
      '"日本語 🚀"',
      '"a\\n\\u00e9\\ud83d\\ude80\\\\\\"b"',
      '"\\ud800"',
      '"é\\t"',
      '"\\/"',
      '"\u007f\u2028"',
    ],
  ]) {
    const text = ` \t\r\n{ "title" :\n${value} , "other":${value},"url":"x"}\n`;
    t.same(read(text), expected(text));
    t.same(read(value), expected(value));
  }
  t.same(read('{"title": 1, "title": 2}'), { title: 2 }, 'the last of equal names counts');
  t.same(read('{"__proto__": {"title": 1}}'), {});
  t.same(read('\ufeff{"title": 1}'), { title: 1 }, 'behind a byte order mark');
});

t.test('texts come without simple markup, where plain text is the same of both', async (t) => {
  const texts = new JsonMembers(['title', 'url'], ['title']);
  for (const [title, text] of [
    ['<b>A</b> &gt; B', 'A > B'],
    ['<b>A</b> &amp; B', '<b>A</b> &amp; B'],
    ['<b>Ä</b>', '<b>Ä</b>'],
    ['A', 'A'],
  ])
    t.same(texts.read(Buffer.from(JSON.stringify({ title, url: '<b>A</b>' }))), { title: text, url: '<b>A</b>' });
});

t.test('bytes that are no UTF-8 become replacement characters, as in the text', async (t) => {
  for (const bytes of [[0xc3], [0xff, 0x41], [0xe2, 0x82], [0xf0, 0x9f, 0x98], [0xed, 0xa0, 0x80]]) {
    const body = Buffer.concat([Buffer.from('{"title":"a'), Buffer.from(bytes), Buffer.from('","url":"b"}')]);
    t.same(members.read(body), JSON.parse(body.toString('utf8')));
  }
});

t.test('malformed text gives undefined, also in members that are not read', async (t) => {
  for (const value of [
    ...['', '01', '1.', '+1', '.5', '1e', 'nul', 'True', 'NaN', 'undefined', '-', '[1,]', '[,1]', '[1 2]', '[1', '1]'],
    ...[
      '{"a"}',
      '{"a":}',
      '{"a":1,}',
      '{a:1}',
      "{'a':1}",
      '{"a":1',
      '{"a" 1}',
      '{1:1}',
      '"a',
      '"a\\"',
      '"\\x"',
      '"\\u12"',
    ],
    ...['"a\nb"', '"\t"', '"\u0000"', '1 1', '\u00a01', ' \ufeff1', '//', '[1]]', '{}}', '"a" "b"'],
  ]) {
    t.equal(expected(`{"title":${value}}`), undefined, value);
    t.equal(read(value), expected(value), value);
    t.equal(read(`{"title":${value}}`), undefined, value);
    t.equal(read(`{"other":${value}}`), undefined, value);
    t.equal(read(`{"other":[{"x":${value}}]}`), undefined, value);
  }
});

t.test('leaves names with escapes and text of many levels to JSON.parse', async (t) => {
  t.equal(read('{"\\u0074itle": 1}'), undefined);
  t.equal(read(`${'['.repeat(100_000)}${']'.repeat(100_000)}`), undefined);
  t.same(read(`${'['.repeat(32)}1${']'.repeat(32)}`), expected(`${'['.repeat(32)}1${']'.repeat(32)}`));
  t.same(read('[[], {}, [[]]]'), [[], {}, [[]]], 'the depth is that of the value, not the number of lists');
  const many = `[${Array.from({ length: 100 }, () => '{"title":[]}').join()}]`;
  t.same(read(many), expected(many));
});

t.test('any damage to a text gives what JSON.parse gives, or undefined', async (t) => {
  const text = '{"results":[{"title":"A \\"b\\" é","url":null,"x":{"y":[1.5e3,true,""]}},{"width":12}],"n":-1}';
  const wrong: string[] = [];
  for (let at = 0; at < text.length; at++) {
    for (const piece of ['', '"', '\\', '{', '}', '[', ']', ',', ':', '0', '-', 'e', ' ', '\n', 'é', '.']) {
      for (const damaged of [
        text.slice(0, at) + piece + text.slice(at),
        text.slice(0, at) + piece + text.slice(at + 1),
      ]) {
        const value = read(damaged);
        const wanted = expected(damaged);
        const isLeft = value === undefined && /\\[^"]*":/.test(damaged);
        if (!isLeft && JSON.stringify(value) !== JSON.stringify(wanted)) wrong.push(damaged);
      }
    }
  }
  t.same(wrong, []);
});
