import fc from 'fast-check';
import t from 'tap';
import { isoDate } from '../../src/search/dates.ts';

/** 21 November 2026, 10:30:15.250 UTC. */
const NOW = Date.UTC(2026, 10, 21, 10, 30, 15, 250);

function expectAll(
  t: Pick<typeof import('tap').t, 'equal'>,
  cases: readonly (readonly [unknown, string | undefined])[],
): void {
  for (const [value, expected] of cases) t.equal(isoDate(value, NOW), expected, JSON.stringify(value));
}

t.test('ISO dates pass, normalised to UTC', async (t) => {
  expectAll(t, [
    ['2026-11-21', '2026-11-21'],
    ['2026-11', '2026-11'],
    ['2026/1/5', '2026-01-05'],
    ['2026-11-21T10:00:00Z', '2026-11-21T10:00:00Z'],
    ['2026-11-21T10:00:00', '2026-11-21T10:00:00Z'],
    ['2026-11-21T10:00:00.123456Z', '2026-11-21T10:00:00Z'],
    ['2026-11-21 10:00', '2026-11-21T10:00:00Z'],
    ['2026-11-21T01:30:00+02:00', '2026-11-20T23:30:00Z'],
    ['2026-11-21T23:30:00-0130', '2026-11-22T01:00:00Z'],
    ['2026-11-21T10:00:00+02', '2026-11-21T08:00:00Z'],
    [' 2026-11-21 ', '2026-11-21'],
  ]);
});

t.test('RFC 822 dates are read with their zone', async (t) => {
  expectAll(t, [
    ['Sat, 21 Nov 2026 10:00:00 GMT', '2026-11-21T10:00:00Z'],
    ['Sat, 21 Nov 2026 10:00:00 +0100', '2026-11-21T09:00:00Z'],
    ['21 Nov 26 10:00 EST', '2026-11-21T15:00:00Z'],
    ['1 January 1999 00:00:00 PDT', '1999-01-01T07:00:00Z'],
    ['21 Nov 98', '1998-11-21'],
    ['21-Nov-2026', '2026-11-21'],
    ['Sat, 21 Nov 2026 12:00 CEST', '2026-11-21T10:00:00Z'],
    ['Sat, 21 Nov 2026 12:00 XYZ', '2026-11-21'],
  ]);
});

t.test('written dates are read', async (t) => {
  expectAll(t, [
    ['Nov 21, 2026', '2026-11-21'],
    ['November 3rd, 2026', '2026-11-03'],
    ['Sept. 3 2026', '2026-09-03'],
    ['Nov 21, 2026, 1:05 PM', '2026-11-21T13:05:00Z'],
    ['Nov 21, 2026 at 12:05 am UTC', '2026-11-21T00:05:00Z'],
    ['November 2026', '2026-11'],
    ['2026', '2026'],
    [2019, '2019'],
  ]);
});

t.test('relative dates count from now, days and longer without a time', async (t) => {
  expectAll(t, [
    ['just now', '2026-11-21T10:30:15Z'],
    ['2 hours ago', '2026-11-21T08:30:15Z'],
    ['an hour ago', '2026-11-21T09:30:15Z'],
    ['5 mins ago', '2026-11-21T10:25:15Z'],
    ['about 30 seconds ago', '2026-11-21T10:29:45Z'],
    ['3h', '2026-11-21T07:30:15Z'],
    ['today', '2026-11-21'],
    ['Yesterday', '2026-11-20'],
    ['3 days ago', '2026-11-18'],
    ['1 day ago', '2026-11-20'],
    ['2 weeks ago', '2026-11-07'],
    ['last week', '2026-11-14'],
    ['1 month ago', '2026-10-21'],
    ['11 months ago', '2025-12-21'],
    ['2 years ago', '2024-11-21'],
  ]);
  t.equal(isoDate('1 month ago', Date.UTC(2026, 2, 31)), '2026-02-28');
  t.equal(isoDate('1 year ago', Date.UTC(2028, 1, 29)), '2027-02-28');
});

t.test('numbers are seconds, milliseconds, compact dates or years', async (t) => {
  expectAll(t, [
    [1_795_255_200, '2026-11-21T10:00:00Z'],
    ['1795255200', '2026-11-21T10:00:00Z'],
    [1_795_255_200_500, '2026-11-21T10:00:00Z'],
    [1_795_255_200.75, '2026-11-21T10:00:00Z'],
    [20_261_121, '2026-11-21'],
    ['20261121', '2026-11-21'],
    [0, undefined],
    [-1, undefined],
    [12_345, undefined],
    [NaN, undefined],
    [Infinity, undefined],
    [1e300, undefined],
  ]);
});

t.test('parts of a date are as precise as they are', async (t) => {
  expectAll(t, [
    [[2026, 11, 21], '2026-11-21'],
    [[[2026, 11, 21]], '2026-11-21'],
    [[2026, 11], '2026-11'],
    [[2020], '2020'],
    [[[2020]], '2020'],
    [['2020', '5', '7'], '2020-05-07'],
    [[2020, null], '2020'],
    [[null], undefined],
    [[[null]], undefined],
    [[], undefined],
    [[2020, 13], undefined],
    [new Date(NOW), '2026-11-21T10:30:15Z'],
    [new Date(NaN), undefined],
  ]);
});

t.test('anything but a date gives undefined', async (t) => {
  const none = [
    undefined,
    null,
    true,
    {},
    '',
    'soon',
    'Nov',
    '11/21/2026',
    '2026-02-30',
    '2026-13-01',
    '2026-11-21T25:00',
  ];
  expectAll(
    t,
    [...none, '0001-01-01T00:00:00Z', '5 bananas ago', `Nov 21, 2026${' '.repeat(90)}`].map((value) => [
      value,
      undefined,
    ]),
  );
});

t.test('parts that are neither numbers nor strings count as absent', async (t) => {
  const unreadable: unknown = JSON.parse('{"toString": {}}');
  expectAll(t, [
    [[unreadable], undefined],
    [[[unreadable]], undefined],
    [[2020, unreadable], '2020'],
    [[2020, 5, Symbol('day')], '2020-05'],
  ]);
});

t.test('never throws, and returns ISO 8601 or undefined', async () => {
  const words = fc.array(
    fc.constantFrom('2026', '21', 'Nov', '-', ' ', ',', ':', 'T', 'Z', '+', 'ago', 'hours', 'last', '99999', 'pm', '.'),
    { maxLength: 8 },
  );
  const values = fc.oneof(
    fc.anything(),
    fc.double(),
    fc.string(),
    words.map((parts) => parts.join('')),
  );
  fc.assert(
    fc.property(values, (value) =>
      /^(?:undefined|\d{4}(?:-\d\d(?:-\d\d(?:T\d\d:\d\d:\d\dZ)?)?)?)$/.test(String(isoDate(value, NOW))),
    ),
    { numRuns: 5000 },
  );
});
