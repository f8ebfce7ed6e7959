// Marks in events, compared with native searches.
import t from 'tap';
import { EventMark, found } from '../../src/dialect/event-marks.ts';
import { Random } from '../support/random.ts';

const PIECES = [
  ...[
    '"finish_reason":',
    '"stop_reason":',
    '"xfinish_reason":',
    '"reason":',
    '"usage":',
    '"a_usage":',
    'usage\\"',
    '"stop":',
  ],
  ...['null', '{}', ',', ' ', '"', 'x', 'a longer text without any quote in it, ', '\\"', '"content":"', '\u00e9'],
];

t.test('the last mark and names that end with usage are those that native searches find', (t) => {
  const random = new Random(5);
  for (const name of ['finish_reason"', 'stop"', 'reason"']) {
    const mark = new EventMark(Buffer.from(name));
    let marks = 0;
    for (let i = 0; i < 4000; i++) {
      const pieces = Array.from({ length: random.below(30) }, () => random.pick(PIECES));
      const event = Buffer.from(`data: ${pieces.join('')}\n\n`);
      const end = event.length - 2;
      if (!mark.search(event, end)) t.fail(event.toString());
      const at = event.subarray(0, end).lastIndexOf(name);
      // Only the last bytes are compared: what is found may be another name.
      const isWhole = found.at >= 0 && event.toString('latin1', found.at, found.at + name.length) === name;
      if (isWhole ? at !== found.at : found.at < 0 ? at >= 0 : found.at < at) t.equal(found.at, at, event.toString());
      if (found.hasUsage !== event.includes('usage"')) t.equal(found.hasUsage, !found.hasUsage, event.toString());
      if (isWhole) marks++;
    }
    t.ok(marks > 100, `${name} was found ${marks} times`);
  }
  t.end();
});

t.test('an event with a line end, or of more than 32 KiB, is not searched', (t) => {
  const mark = new EventMark(Buffer.from('finish_reason"'));
  for (let at = 0; at < 40; at++) {
    for (const lineEnd of ['\n', '\r']) {
      const event = Buffer.from(`${'x'.repeat(at)}${lineEnd}${'y'.repeat(40 - at)}`);
      t.equal(mark.search(event, event.length), false, `line end at ${at}`);
      t.equal(mark.search(event, at), true, `line end behind the end at ${at}`);
    }
  }
  const largest = Buffer.from(`"usage":${'x'.repeat(32 * 1024 - 23)}"finish_reason"`);
  t.equal(mark.search(largest, largest.length), true);
  t.strictSame(found, { at: largest.length - 14, hasUsage: true });
  t.equal(mark.search(Buffer.concat([largest, Buffer.from('x')]), largest.length + 1), false);
  t.end();
});

t.test('what is behind an event from a search before is not found', (t) => {
  const mark = new EventMark(Buffer.from('finish_reason"'));
  mark.search(Buffer.from('"usage":1,"finish_reason":null'), 30);
  t.strictSame(found, { at: 11, hasUsage: true });
  mark.search(Buffer.from('"us'), 3);
  t.strictSame(found, { at: -1, hasUsage: false });
  t.end();
});
