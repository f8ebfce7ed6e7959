// Decoding: the order of byte order mark, header, declaration and detection, and arbitrary bytes. Legacy bytes are encoded
// with inverted tables of the platform's decoders.
import fc from 'fast-check';
import t from 'tap';
import { decode, encodingOf } from '../../src/extract/charset.ts';

const RUSSIAN = 'Над рекой стоит мельница, вода вертит колесо, а колесо вертит жернова. Так было всегда.';
const JAPANESE = '川のほとりに水車があります。水が水車を回し、水車が石臼を回します。むかしからそうでした。';
const SIMPLIFIED = '河边有一个磨坊，水推动轮子，轮子推动石磨。这里的人们从来都是这样生活的，他们在这个地方工作。';
const TRADITIONAL = '河邊有一個磨坊，水推動輪子，輪子推動石磨。這裡的人們從來都是這樣生活的，他們在這個地方工作。';
const KOREAN = '강가에 물레방아가 있습니다. 물이 바퀴를 돌리고 바퀴가 맷돌을 돌립니다. 옛날부터 그랬습니다.';
const FRENCH = 'Près de la rivière, une roue à aubes mène la meule ; c’est déjà très âgé, où qu’on soit.';

const tables = new Map<string, ReadonlyMap<string, number[]>>();

function encode(text: string, encoding: string): Uint8Array {
  const known = tables.get(encoding) ?? tableOf(encoding);
  tables.set(encoding, known);
  return new Uint8Array(Array.from(text).flatMap((character) => known.get(character) ?? [0x3f]));
}

function tableOf(encoding: string): ReadonlyMap<string, number[]> {
  const decoder = new TextDecoder(encoding, { fatal: true });
  const known = new Map<string, number[]>();
  const learn = (...bytes: number[]): void => {
    try {
      const character = decoder.decode(new Uint8Array(bytes));
      if ([...character].length === 1 && !known.has(character)) known.set(character, bytes);
    } catch {
      // No character of this encoding.
    }
  };
  for (let first = 0; first < 256; first++) learn(first);
  for (let first = 0x81; first < 0xff; first++) for (let second = 0x40; second < 0xff; second++) learn(first, second);
  return known;
}

const bytesOf = (text: string): Uint8Array => Buffer.from(text);
const latin = (text: string): Uint8Array => Buffer.from(text, 'latin1');

t.test('a byte order mark has precedence, and is not part of the text', (t) => {
  t.equal(decode(latin('\xef\xbb\xbf<meta charset=koi8-r>\xc3\xa9'), 'windows-1251'), '<meta charset=koi8-r>é');
  t.equal(decode(latin('\xff\xfea\0\xe9\0'), 'utf-8'), 'aé');
  t.equal(decode(latin('\xfe\xff\0a\0\xe9'), null), 'aé');
  t.end();
});

t.test('the header is next, with any label of the standard', (t) => {
  t.equal(encodingOf(latin('<meta charset=koi8-r>\xe9'), 'ISO-8859-1'), 'windows-1252');
  t.equal(encodingOf(latin('\xe9'), ' cp1251 '), 'windows-1251');
  t.equal(encodingOf(latin('\xe9'), 'gb2312'), 'gbk');
  t.equal(decode(latin('\x80\x93\x94\xe9'), 'latin1'), '€“”é');
  t.equal(encodingOf(latin('<meta charset=koi8-r>\xe9'), 'no-such-label'), 'koi8-r');
  t.equal(encodingOf(latin('\xe9'), 'iso-2022-kr'), 'windows-1252', 'an encoding that is unsafe to read');
  t.end();
});

t.test('valid UTF-8 is UTF-8 whatever the markup declares', (t) => {
  t.equal(decode(bytesOf('<meta charset="windows-1252">é'), null), '<meta charset="windows-1252">é');
  t.end();
});

t.test('uses the encoding that the markup declares', (t) => {
  for (const [markup, encoding] of [
    ['<meta charset="koi8-r">', 'koi8-r'],
    ['<META CHARSET=koi8-r>', 'koi8-r'],
    ['<meta name=a content=b charset=koi8-r />', 'koi8-r'],
    ["<meta content='text/html; charset=koi8-r' http-equiv='Content-Type'>", 'koi8-r'],
    ['<meta http-equiv="content-type" content="text/html; charset = &quot;koi8-r">', 'windows-1252'],
    ['<meta content="text/html; charset=koi8-r">', 'windows-1252'],
    ['<meta http-equiv="refresh" content="charset=koi8-r">', 'windows-1252'],
    ['<!-- <meta charset="koi8-r"> -->', 'windows-1252'],
    ['<!--><meta charset="koi8-r">', 'koi8-r'],
    ['<p title="<meta charset=koi8-r>">', 'windows-1252'],
    ['</meta charset="koi8-r">', 'windows-1252'],
    ['<metadata charset="koi8-r">', 'windows-1252'],
    ['<meta charset="nonsense"><meta charset="koi8-r">', 'koi8-r'],
    ['<?xml version="1.0" encoding="koi8-r"?>', 'koi8-r'],
    ['<meta charset="x-user-defined">', 'windows-1252'],
    ['<meta charset="', 'windows-1252'],
    [`<title>${'x'.repeat(5000)}</title><meta charset="koi8-r">`, 'koi8-r'],
  ] as const)
    t.equal(encodingOf(latin(`${markup}caf\xe9 \xe9t\xe9`), null), encoding, markup.slice(0, 70));
  t.end();
});

t.test('a declaration of UTF-16 that is readable as ASCII means UTF-8', (t) => {
  t.equal(encodingOf(latin(`<meta charset="utf-16le">${'\xc3\xa9'.repeat(9)}\xe9`), null), 'utf-8');
  t.end();
});

t.test('UTF-16 without a mark or a declaration is detected by its zeros', (t) => {
  const html = '<!doctype html><p>Прivet</p>';
  t.equal(decode(Buffer.from(html, 'utf16le'), null), html);
  t.equal(decode(Buffer.from(html, 'utf16le').swap16(), null), html);
  t.end();
});

t.test('ISO-2022-JP is detected although it is ASCII', (t) => {
  t.equal(decode(latin('<meta charset=iso-2022-jp>\x1b$B$3$s\x1b(B'), null), '<meta charset=iso-2022-jp>こん');
  t.end();
});

t.test('a page declared as UTF-8 is read as UTF-8 with some invalid bytes', (t) => {
  const bytes = Buffer.concat([bytesOf(`<meta charset=utf-8>${RUSSIAN}`), latin('\xe9')]);
  for (const header of ['utf-8', null]) {
    const text = decode(bytes, header);
    t.ok(text.includes(RUSSIAN));
    t.ok(text.endsWith('\ufffd'));
  }
  t.end();
});

t.test('a page declared as UTF-8 that is mostly in another encoding is read in that', (t) => {
  t.equal(decode(encode(RUSSIAN, 'windows-1251'), 'utf-8'), RUSSIAN);
  t.equal(decode(encode(`<meta charset=utf-8>${FRENCH}`, 'windows-1252'), null), `<meta charset=utf-8>${FRENCH}`);
  t.equal(encodingOf(latin('<meta charset=iso-8859-2>\xe9 \xe9'), 'utf-8'), 'iso-8859-2');
  t.end();
});

t.test('detects undeclared encodings, after any length of ASCII markup', (t) => {
  for (const [text, encoding] of [
    [FRENCH, 'windows-1252'],
    [RUSSIAN, 'windows-1251'],
    [RUSSIAN, 'koi8-r'],
    [JAPANESE, 'shift_jis'],
    [JAPANESE, 'euc-jp'],
    [SIMPLIFIED, 'gbk'],
    [TRADITIONAL, 'big5'],
    [KOREAN, 'euc-kr'],
  ] as const) {
    const markup = `<html>${'<p class="x">'.repeat(10_000)}${text}`;
    t.equal(decode(encode(markup, encoding), null).slice(-text.length), text, encoding);
  }
  t.end();
});

t.test('any bytes under any label give well-formed text', (t) => {
  const label = fc.constantFrom(
    null,
    'utf-8',
    'utf-16le',
    'utf-16be',
    'gb18030',
    'big5',
    'iso-2022-jp',
    'shift_jis',
    '',
  );
  const markup = fc.constantFrom(
    '<meta ',
    'charset=',
    '"',
    "'",
    '<!--',
    '-->',
    '<?xml ',
    'encoding=',
    'utf-16',
    'gbk',
    '=',
    '/',
    '>',
    '<',
  );
  const piece = fc.oneof(markup.map(latin), fc.uint8Array({ maxLength: 40 }));
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), label, (pieces, header) =>
      decode(Buffer.concat(pieces), header).isWellFormed(),
    ),
    { numRuns: 3000 },
  );
  t.end();
});

t.test('a hostile head takes linear time', (t) => {
  for (const unit of [
    '<meta a="',
    "<meta charset='",
    '<!--',
    '<meta charset',
    '<a =',
    '<meta / ',
    '<?xml encoding ',
    '<',
  ])
    t.equal(encodingOf(latin(`${unit.repeat(1_000_000)}\xe9`), null), 'windows-1252');
  t.end();
});

const SAMPLES = { RUSSIAN, JAPANESE, SIMPLIFIED, TRADITIONAL, KOREAN, FRENCH };

t.test('EUC-KR has all Hangul syllables, as Windows writes it', (t) => {
  const bytes = Buffer.from('8c63b9e6b0a2c7cf20bc84bdc3c4ddb6f320b6c789e7', 'hex');
  for (const label of ['euc-kr', 'ks_c_5601-1987', 'windows-949'])
    t.equal(decode(bytes, label), '똠방각하 펲시콜라 또됬', label);
  const ends = Buffer.from('8141a0fea141c652a2e680b0a1c653', 'hex');
  t.equal(decode(ends, 'euc-kr'), '갂좤좥힣€\ufffd가\ufffdS');
  // What is no character leaves an ASCII byte behind it as it is.
  t.equal(decode(Buffer.from('b03c623eff61c9a1b0', 'hex'), 'euc-kr'), '\ufffd<b>\ufffda\ufffd\ufffd');
  t.equal(decode(new Uint8Array(20_000).fill(0x61), 'euc-kr').length, 20_000);
  t.end();
});

t.test('UTF-8 under the name of another encoding is UTF-8', (t) => {
  for (const header of [
    'iso-8859-1',
    'windows-1252',
    'us-ascii',
    'iso-8859-2',
    'windows-1251',
    'gbk',
    'big5',
    'shift_jis',
  ]) {
    for (const [name, text] of Object.entries(SAMPLES))
      t.equal(decode(bytesOf(`<p>${text}`), header), `<p>${text}`, `${name} as ${header}`);
  }
  t.equal(decode(bytesOf('<p>café'), 'iso-8859-1'), '<p>café', 'one character is enough');
  t.equal(decode(bytesOf('<meta charset=utf-8><p>café'), 'gbk'), '<meta charset=utf-8><p>café');
  t.equal(decode(bytesOf(FRENCH), 'utf-16'), FRENCH);
  t.end();
});

t.test('what its header says is read so, also where it could nearly be UTF-8', (t) => {
  const texts: [string, string][] = [
    ['windows-1252', FRENCH],
    ['windows-1251', RUSSIAN],
    ['koi8-r', RUSSIAN],
    ['gbk', SIMPLIFIED],
    ['big5', TRADITIONAL],
    ['shift_jis', JAPANESE],
    ['euc-jp', JAPANESE],
    ['euc-kr', KOREAN],
    // Their bytes are valid UTF-8 by chance.
    ['gbk', '联通'],
    ['euc-kr', '찾'],
  ];
  for (const [encoding, text] of texts) {
    t.equal(decode(encode(text, encoding), encoding), text, encoding);
    const page = `<meta charset="${encoding}"><p>${text}`;
    t.equal(decode(encode(page, encoding), null), page, `${encoding}, declared in the page`);
  }
  t.end();
});

t.test('UTF-16 without a byte order mark, whatever is declared', (t) => {
  for (const text of Object.values(SAMPLES)) {
    const page = `<!doctype html><html><head><meta charset=utf-8><title>x</title></head><body><p>${text}</p>`;
    for (const header of [null, 'utf-16', 'utf-16be', 'utf-8', 'iso-8859-1']) {
      t.equal(decode(Buffer.from(page, 'utf16le'), header), page);
      t.equal(decode(Buffer.from(page, 'utf16le').swap16(), header), page);
    }
  }
  t.equal(decode(Buffer.from(SIMPLIFIED, 'utf16le'), 'utf-16le'), SIMPLIFIED, 'without any zero');
  const short = `<p>${SIMPLIFIED.repeat(20)}`;
  t.equal(decode(Buffer.from(short, 'utf16le'), null), short, 'behind one tag');
  t.equal(decode(Buffer.from(short, 'utf16le').swap16(), null), short);
  t.end();
});

t.test('text survives every encoding that has its letters, with the right header or the usual wrong one', (t) => {
  const letters = (...ranges: [number, number][]): fc.Arbitrary<string> =>
    fc
      .array(fc.oneof(...ranges.map(([min, max]) => fc.integer({ min, max }))), { minLength: 12, maxLength: 60 })
      .map((codes) => String.fromCodePoint(...codes).replace(/(.{7})/gu, '$1 '));
  const western = letters([0x61, 0x7a], [0xc0, 0xd6], [0xd8, 0xf6], [0xf8, 0xff]);
  const cyrillic = letters([0x410, 0x44f]);
  const kana = letters([0x3042, 0x3093], [0x30a2, 0x30f3]);
  const hangul = letters([0xac00, 0xac01], [0xb098, 0xb099], [0xd558, 0xd558]);
  const cases: [fc.Arbitrary<string>, string[]][] = [
    [western, ['windows-1252']],
    [cyrillic, ['windows-1251', 'koi8-r']],
    [kana, ['shift_jis', 'euc-jp', 'gbk']],
    [hangul, ['euc-kr']],
  ];
  for (const [text, encodings] of cases) {
    fc.assert(
      fc.property(text, (words) => {
        const page = `<p>${words}</p>`;
        for (const encoding of encodings) if (decode(encode(page, encoding), encoding) !== page) return false;
        return ['iso-8859-1', ...encodings].every((header) => decode(bytesOf(page), header) === page);
      }),
      { numRuns: 40 },
    );
  }
  t.end();
});
