// JSON responses in pieces: the bytes are those of `JSON.stringify`, and the event loop turns between the pieces.
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { encoded, respondLargeJson, respondLargeText } from '../../src/ingress/large-json.ts';
import { StubExchange } from './stub-exchange.ts';

const LONG = 'Wehr und Mühle 😀 "q" \\ \u0000\n'.repeat(60_000);

function textOf(value: object): string {
  const pieces: Buffer[] = [];
  const all = encoded(value);
  for (let piece = all.next(); ; piece = all.next()) {
    pieces.push(piece.value);
    if (piece.done === true) return Buffer.concat(pieces).toString();
  }
}

t.test('documents have the bytes of JSON.stringify', async () => {
  fc.assert(
    fc.property(
      fc.object({ values: [fc.string({ unit: 'binary' }), fc.double(), fc.constant(undefined)] }),
      (value) => {
        return textOf(value) === JSON.stringify(value);
      },
    ),
    { numRuns: 200 },
  );
});

t.test('long texts are cut into pieces, never within a character', async (t) => {
  for (const shift of ['', 'x', 'xy']) {
    const emoji = shift + '😀'.repeat(300_000);
    const value = { content: emoji, links: [{ text: LONG }, 1, null, true], none: undefined };
    t.ok(textOf(value) === JSON.stringify(value), `shifted by ${shift.length}`);
  }
});

t.test('a small document is answered at once, a large one in turns', async (t) => {
  const small = new StubExchange('POST');
  respondLargeJson(small, 200, { a: 1 }, ['x-a', 'b']);
  t.equal(small.body, '{"a":1}');
  t.match(small.answered, { 'content-type': 'application/json', 'x-a': 'b' });
  const large = new StubExchange('POST');
  respondLargeJson(large, 200, { content: LONG });
  t.notOk(large.handedOver);
  let turns = 0;
  for (; !large.handedOver && turns < 100; turns++) await turn();
  t.ok(turns > 3, `${turns} turns`);
  t.ok(large.body === JSON.stringify({ content: LONG }));
});

t.test('a large text is encoded in turns too, never within a character', async (t) => {
  for (const text of ['', 'a', LONG, `x${'😀'.repeat(300_000)}`]) {
    const exchange = new StubExchange('POST');
    respondLargeText(exchange, 200, ['content-type', 'text/plain'], text);
    t.equal(exchange.handedOver, text.length < 2);
    for (let turns = 0; !exchange.handedOver && turns < 100; turns++) await turn();
    t.ok(exchange.body === text, `${text.length} characters`);
    t.equal(exchange.answered['content-type'], 'text/plain');
  }
});

t.test('nothing more is encoded for a client that has left', async (t) => {
  const exchange = new StubExchange('POST');
  respondLargeJson(exchange, 200, { content: LONG });
  exchange.leave();
  for (let turns = 0; turns < 20; turns++) await turn();
  t.equal(exchange.body, '');
});
