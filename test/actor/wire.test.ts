// Frames decode to what was encoded, packed or cloned.

import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { Packr, unpack } from 'msgpackr';
import t from 'tap';
import { actorRef } from '../../src/actor/ref.ts';
import { createProbe, createTestSystem } from '../../src/actor/testkit.ts';
import { decodeFrame, encodeFrame, TELL, WATCH } from '../../src/actor/wire.ts';
import type { Entry, RefCodec } from '../../src/actor/wire.ts';

const { system } = createTestSystem();
const known = actorRef(createProbe<string>(system, 'known').ref);
const codec: RefCodec = { encodeRef: (ref) => [false, 1, ref.path], decodeRef: () => known };

/** What the other thread sees. */
function cross(entries: Entry[]): Entry[] {
  return decodeFrame(structuredClone(encodeFrame(entries, codec)), codec);
}

function messageOf(entries: Entry[]): unknown {
  return entries[0]?.[2];
}

t.test('any value is the same after decoding, alone and in a batch', (t) => {
  // Not kept by the codec: the name of the prototype as a key, the sign of zero, and invalid dates.
  const key = fc.string().filter((name) => name !== '__proto__');
  const number = fc.double().map((value) => value + 0);
  const leaves = [
    number,
    fc.string(),
    fc.boolean(),
    fc.constant(null),
    fc.constant(undefined),
    fc.date({ noInvalidDate: true }),
  ];
  const values = fc.anything({ key, values: leaves, withMap: true, withSet: true, withBigInt: true });
  fc.assert(
    fc.property(values, (value) => {
      const alone = cross([[TELL, 'a', value]]);
      const together = cross([
        [TELL, 'a', value],
        [WATCH, 'a', 1],
      ]);
      return isDeepStrictEqual(messageOf(alone), value) && isDeepStrictEqual(messageOf(together), value);
    }),
    { numRuns: 500 },
  );
  t.end();
});

t.test('refs are translated at the top of a plain message and anywhere in a packed one', (t) => {
  const top: Entry = [TELL, 'a', { text: 'x', replyTo: known }];
  const single = encodeFrame([top], codec);
  t.notOk(single instanceof Uint8Array);
  t.equal((messageOf(decodeFrame(structuredClone(single), codec)) as { replyTo: unknown }).replyTo, known);
  t.equal((top[2] as { replyTo: unknown }).replyTo, known, 'the message told is left alone');
  const deep: Entry = [TELL, 'a', { inner: [{ ref: known }] }];
  t.ok(encodeFrame([deep], codec) instanceof Uint8Array);
  t.equal((messageOf(cross([deep])) as { inner: { ref: unknown }[] }).inner[0]?.ref, known);
  t.end();
});

t.test('functions and symbols are refused', (t) => {
  for (const value of [() => {}, { nested: { call: () => {} } }, [Symbol('s')]]) {
    t.throws(() => encodeFrame([[TELL, 'a', value]], codec));
  }
  t.end();
});

t.test('a packed frame carries its own bytes only', (t) => {
  const frame = encodeFrame([[TELL, 'a', new Uint8Array(10)]], codec) as Uint8Array;
  t.equal(frame.buffer.byteLength, frame.byteLength);
  t.end();
});

t.test('a large frame keeps no memory, and leaves what other packers hold as it is', (t) => {
  const other = new Packr();
  const text = 'é'.repeat(100_000);
  const before = other.pack('before');
  t.same(messageOf(cross([[TELL, 'a', { text }]])), { text });
  const between = other.pack('between');
  t.ok(between.buffer.byteLength < 64 * 1024, `${between.buffer.byteLength} bytes`);
  t.same(messageOf(cross([[TELL, 'a', { text }]])), { text });
  t.same([unpack(before), unpack(between)], ['before', 'between']);
  t.end();
});
