// What is taken of the pages that a client sends back: texts of the gateway, within bounds for one request.

import { deflateRawSync } from 'node:zlib';
import t from 'tap';
import { packedSources, Sources } from '../../src/web-search/sources.ts';

function packed(value: unknown): string {
  return deflateRawSync(JSON.stringify(value)).toString('base64url');
}

const page = (number: number): object => ({
  u: `https://a.example/${number}`,
  t: `Page ${number}`,
  a: null,
  x: 'text',
});

t.test('pages go out and come back', async (t) => {
  const sources = new Sources();
  const first = sources.add('https://a.example/1#top', 'One', '2026', 'It is  42 m\nhigh.');
  const second = sources.add('https://b.example/', 'Two', null, '');
  t.match(first, { number: 1, excerpt: 'It is 42 m high.', title: 'One', age: '2026' });
  const back = new Sources();
  t.match(back.addPacked(first.opaque), { number: 1, url: 'https://a.example/1#top', text: 'It is  42 m\nhigh.' });
  t.match(back.addAllPacked(packedSources([first, second])), [{ number: 2 }, { number: 3, title: 'Two' }]);
  t.equal(back.addPacked(second.opaque)?.opaque, second.opaque);
  t.ok(back.has('https://a.example/1'));
  for (const other of [undefined, 5, '', 'x'.repeat(900), packed([5, {}])]) t.equal(back.addPacked(other), undefined);
});

t.test('of one request so many texts, pages and bytes are unpacked', async (t) => {
  const texts = new Sources();
  const found = Array.from({ length: 1300 }, (_, number) => texts.addPacked(packed(page(number))));
  t.equal(found.filter((source) => source !== undefined).length, 1200);

  const pages = new Sources();
  const many = packed(Array.from({ length: 900 }, (_, number) => page(number)));
  t.same(
    [1, 2, 3].map(() => pages.addAllPacked(many).length),
    [900, 300, 0],
  );

  const bytes = new Sources();
  const large = packed({ ...page(1), x: 'x'.repeat(900_000) });
  const unpacked = Array.from({ length: 10 }, () => bytes.addPacked(large) !== undefined);
  t.same(unpacked, [true, true, true, true, ...Array<boolean>(6).fill(false)]);

  const foreign = new Sources();
  for (let text = 0; text < 99; text++) foreign.addPacked('x'.repeat(900));
  t.ok(foreign.addPacked(packed(page(1))), 'among those of other servers');
  foreign.addPacked(packed({ ...page(1), x: 'x'.repeat(2_000_000) }));
  t.equal(foreign.addPacked(packed(page(1))), undefined);
});

t.test('texts that break late count as what they unpack', async (t) => {
  const text = deflateRawSync(Buffer.alloc(1_000_000, 'a'));
  const broken = Buffer.concat([text.subarray(0, -3), Buffer.from([0xff, 0xff, 0xff])]).toString('base64url');
  const sources = new Sources();
  for (let at = 0; at < 4; at++) t.equal(sources.addPacked(broken), undefined);
  t.equal(sources.addPacked(packed(page(1))), undefined, 'four megabytes were unpacked');
});

t.test('texts are not cut through a character', (t) => {
  const { excerpt, text, title } = new Sources().add(
    'https://a.example/',
    `${'x'.repeat(299)}😀`,
    null,
    `${'y'.repeat(99_999)}😀`,
  );
  for (const each of [excerpt, text, title]) t.ok(each.isWellFormed());
  t.end();
});
