// EventSplitter with the input cut anywhere, its limit on held bytes, and parseEvents.
import fc from 'fast-check';
import t from 'tap';
import { EventSplitter, parseEvents, splitEvents } from '../../src/net/sse.ts';

/** Where `text` ends with a complete event: all its lines are ended and the last one is empty. */
function endsAtBoundary(text: string): boolean {
  const lines = text.split(/\r\n|\n|\r/);
  return lines.at(-1) === '' && (lines.length === 2 || lines.at(-2) === '');
}

function chunked(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [...places, bytes.length].map((end, at) => bytes.subarray(at === 0 ? 0 : places[at - 1], end));
}

const lineEnd = fc.constantFrom('\n', '\r\n', '\r');
const line = fc.constantFrom('data: {"a":1}', 'data:', 'event: ping', ': comment', 'data: é😀');
const uniform = fc
  .tuple(fc.array(fc.array(line, { minLength: 1, maxLength: 3 }), { maxLength: 6 }), lineEnd)
  .map(([events, end]) => events.map((lines) => [...lines, ''].map((each) => each + end).join('')).join(''));
const mixed = fc
  .array(fc.tuple(fc.oneof(line, fc.constant('')), lineEnd), { maxLength: 15 })
  .map((lines) => lines.flat().join(''));
const cuts = fc.array(fc.nat(), { maxLength: 12 });

t.test('returns every byte in order and always ends on an event boundary', (t) => {
  fc.assert(
    fc.property(
      fc.oneof(uniform, mixed),
      fc.constantFrom('', 'data: unfini', 'data: x\n', 'event: e\r\n'),
      cuts,
      (events, rest, places) => {
        const input = Buffer.from(events + rest);
        const splitter = new EventSplitter();
        let passed = Buffer.alloc(0);
        let pushedBytes = 0;
        for (const chunk of chunked(input, places)) {
          const scratch = Buffer.from(chunk);
          const whole = splitter.push(scratch);
          pushedBytes += chunk.length;
          if (whole !== undefined) {
            passed = Buffer.concat([passed, whole]);
            if (whole.length === 0 || !endsAtBoundary(passed.toString('latin1'))) return false;
          }
          scratch.fill(0x21); // callers may reuse their read buffer
          if (splitter.held !== pushedBytes - passed.length || splitter.midEvent) return false;
        }
        const held = splitter.held;
        const taken = splitter.take();
        return taken.length === held && splitter.held === 0 && Buffer.concat([passed, taken]).equals(input);
      },
    ),
    { numRuns: 5000 },
  );
  t.end();
});

t.test('returns whole events at once', (t) => {
  fc.assert(
    fc.property(uniform, cuts, (events, places) => {
      const splitter = new EventSplitter();
      for (const chunk of chunked(Buffer.from(events), places)) splitter.push(chunk);
      // Only the CR of an LF CR pair waits for what follows, and uniform streams have none at their end.
      return splitter.held === 0;
    }),
    { numRuns: 2000 },
  );
  t.end();
});

t.test('returns a chunk of whole events without copying it', (t) => {
  const splitter = new EventSplitter();
  for (const text of ['data: 1\n\n', 'data: 2\r\n\r\n', 'data: 3\r\r', ': hi\n\ndata: 4\n\n']) {
    const chunk = Buffer.from(text);
    t.equal(splitter.push(chunk), chunk);
  }
  t.equal(splitter.push(Buffer.alloc(0)), undefined);
  t.equal(splitter.held, 0);
  t.end();
});

t.test('holds an unfinished event until its blank line, whatever the split', (t) => {
  const rows: [string[], (string | undefined)[], number][] = [
    [['data: 1\n', '\n'], [undefined, 'data: 1\n\n'], 0],
    [['data: 1\r\n\r', '\n'], [undefined, 'data: 1\r\n\r\n'], 0],
    [['data: 1\r', '\r'], [undefined, 'data: 1\r\r'], 0],
    [['data: 1\r', '\n', '\r', '\n'], [undefined, undefined, undefined, 'data: 1\r\n\r\n'], 0],
    [['data: 1\n\ndata: 2'], ['data: 1\n\n'], 7],
    [['data: 1\n\nda', 'ta: 2\n\nd'], ['data: 1\n\n', 'data: 2\n\n'], 1],
    [['data: 1\n\r', 'data: 2'], [undefined, 'data: 1\n\r'], 7],
    [['data: 1\n\r', '\ndata: 2'], [undefined, 'data: 1\n\r\n'], 7],
    [['data: 1\r\r\ndata'], ['data: 1\r\r\n'], 4],
    [['data: 1\r\n'], [undefined], 9],
  ];
  for (const [chunks, expected, held] of rows) {
    const splitter = new EventSplitter();
    const passed = chunks.map((chunk) => splitter.push(Buffer.from(chunk))?.toString());
    t.strictSame(passed, expected, JSON.stringify(chunks));
    t.equal(splitter.held, held);
  }
  t.end();
});

t.test('returns an event above the limit in parts and says that it is inside one', (t) => {
  const splitter = new EventSplitter({ maxHeldBytes: 10 });
  t.equal(splitter.push(Buffer.from('data: 1234')), undefined, 'ten bytes are held');
  t.equal(splitter.midEvent, false);
  t.equal(splitter.push(Buffer.from('5'))?.toString(), 'data: 12345');
  t.equal(splitter.midEvent, true);
  t.equal(splitter.held, 0);
  t.equal(splitter.push(Buffer.from('6\n'))?.toString(), '6\n', 'the rest of it is not held');
  t.equal(splitter.midEvent, true);
  t.equal(splitter.push(Buffer.from('\ndata'))?.toString(), '\n');
  t.equal(splitter.midEvent, false, 'its blank line ends the state');
  t.equal(splitter.held, 4);
  t.equal(splitter.take().toString(), 'data');
  t.end();
});

t.test('midEvent ends behind an LF CR that is no CRLF', (t) => {
  const splitter = new EventSplitter({ maxHeldBytes: 4 });
  t.equal(splitter.push(Buffer.from('data: 1\n\r'))?.toString(), 'data: 1\n\r');
  t.equal(splitter.midEvent, true);
  t.equal(splitter.push(Buffer.from('id:')), undefined);
  t.equal(splitter.midEvent, false);
  t.equal(splitter.take().toString(), 'id:');
  t.end();
});

t.test('loses nothing of random bytes under a small limit', (t) => {
  const bytes = fc.uint8Array({ max: 20, maxLength: 400 });
  fc.assert(
    fc.property(bytes, cuts, fc.integer({ min: 0, max: 40 }), (input, places, maxHeldBytes) => {
      const splitter = new EventSplitter({ maxHeldBytes });
      const passed: Buffer[] = [];
      for (const chunk of chunked(Buffer.from(input), places)) {
        const whole = splitter.push(chunk);
        if (whole !== undefined) passed.push(whole);
        if (splitter.held > maxHeldBytes || (splitter.midEvent && splitter.held > 0)) return false;
      }
      return Buffer.concat([...passed, splitter.take()]).equals(Buffer.from(input));
    }),
    { numRuns: 3000 },
  );
  t.end();
});

t.test('decodes events', (t) => {
  const rows: [string, object[]][] = [
    ['data: 1\n\n', [{ data: '1' }]],
    ['data:1\ndata: 2\n\n', [{ data: '1\n2' }]],
    ['event: e\r\ndata: 1\r\n\r\ndata: 2\r\r', [{ event: 'e', data: '1' }, { data: '2' }]],
    [': comment\n\nevent: ping\n\ndata\n\n', [{ data: '' }]],
    ['\uFEFFdata: 1\n\ndata: unfinished\n', [{ data: '1' }]],
    ['id: 1\nretry: 5\ndata: a:b\n\n', [{ data: 'a:b' }]],
    ['', []],
  ];
  for (const [text, events] of rows) t.strictSame(parseEvents(text), events, JSON.stringify(text));
  t.end();
});

t.test('whole events are split at their blank lines, with any line ends', async (t) => {
  for (const end of ['\n', '\r\n', '\r']) {
    const events = [
      `: comment${end}${end}`,
      `${end}event: a${end}data: 1${end}data: 2${end}${end}`,
      `data: 3${end}${end}`,
    ];
    t.same(splitEvents(Buffer.from(events.join(''))).map(String), events, JSON.stringify(end));
  }
  t.same(splitEvents(Buffer.from('data: 1\n\r\ndata: 2\r\n\rdata: 3')).map(String), [
    'data: 1\n\r\n',
    'data: 2\r\n\r',
    'data: 3',
  ]);
  t.same(splitEvents(Buffer.alloc(0)), []);
});
