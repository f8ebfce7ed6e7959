import { StopMatcher } from '../../src/host/stop-matcher.ts';

import fc from 'fast-check';
import t from 'tap';

/** What the definition says about a whole text: the stop string complete first, the longer of two that end together. */
function search(text: string, stops: readonly string[]): { text: string; stop: string | null } {
  for (let end = 1; end <= text.length; end++) {
    const ending = stops.filter((stop) => stop !== '' && text.slice(0, end).endsWith(stop));
    const stop = ending.sort((a, b) => b.length - a.length)[0];
    if (stop !== undefined) return { text: text.slice(0, end - stop.length), stop };
  }
  return { text, stop: null };
}

function stream(
  pieces: Iterable<string | Uint8Array>,
  stops: readonly string[],
): { text: string; stop: string | null } {
  const matcher = new StopMatcher(stops);
  let text = '';
  for (const piece of pieces) {
    const emission = matcher.push(piece);
    text += emission.text;
    if (emission.stop !== null) return { text, stop: emission.stop };
  }
  return { text: text + matcher.flush(), stop: null };
}

function cut(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length]!;
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'é', '水', '🌊'), maxLength: 40 });
const someStops = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'é', '🌊'), maxLength: 5 }), {
  maxLength: 4,
});
const sizes = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 6 });

t.test('a stream finds what a search of the whole text finds, however it is cut', async () => {
  fc.assert(
    fc.property(letters, someStops, sizes, (text, stops, sizes) => {
      const expected = search(text, stops);
      const found = stream(cut(new TextEncoder().encode(text), sizes), stops);
      return found.text === expected.text && found.stop === expected.stop;
    }),
    { numRuns: 5000 },
  );
});

t.test('text is emitted as soon as it can be no part of a stop string', async (t) => {
  const matcher = new StopMatcher(['\nUser:']);
  t.strictSame(matcher.push('Hello'), { text: 'Hello', stop: null });
  t.strictSame(matcher.push('\nUs'), { text: '', stop: null });
  t.strictSame(matcher.push('ual'), { text: '\nUsual', stop: null });
  t.strictSame(matcher.push(' text\nUser'), { text: ' text', stop: null });
  t.strictSame(matcher.push(': more'), { text: '', stop: '\nUser:' });
  t.strictSame(matcher.push('after'), { text: '', stop: null });
  t.equal(matcher.flush(), '');
});

t.test('what is held back for a stop string that never comes is flushed at the end', async (t) => {
  const matcher = new StopMatcher(['END']);
  t.equal(matcher.push('the EN').text, 'the ');
  t.equal(matcher.flush(), 'EN');
});

t.test('bytes of a character wait for the rest, and half a character at the end is one replacement', async (t) => {
  const matcher = new StopMatcher([]);
  t.equal(matcher.push(Uint8Array.of(0xf0, 0x9f)).text, '');
  t.equal(matcher.push(Uint8Array.of(0x8c, 0x8a)).text, '🌊');
  t.equal(matcher.push(Uint8Array.of(0xe6, 0xb0)).text, '');
  t.equal(matcher.flush(), '\ufffd');
});

t.test('what is held back is not searched again for each stop string', async (t) => {
  const stops = [`${'a'.repeat(40_000)}b`, ...Array.from({ length: 500 }, (_, at) => `aaab${at}`)];
  const matcher = new StopMatcher(stops);
  const started = process.cpuUsage();
  for (let token = 0; token < 1000; token++) matcher.push('aaaa');
  t.ok(process.cpuUsage(started).user < 1_000_000, 'less than a second');
  t.strictSame(matcher.push('b499'), { text: 'a'.repeat(3997), stop: 'aaab4' });
});

t.test('empty stop strings are ignored', async (t) => {
  t.strictSame(stream(['abc'], ['']), { text: 'abc', stop: null });
});
