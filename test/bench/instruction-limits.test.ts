// The gate of instruction counts: what fails it, what does not, and what is said.
import t from 'tap';
import { benchModule } from './modules.ts';

interface Counted {
  readonly node: string;
  readonly arch: string;
  readonly counts: Readonly<Record<string, number>>;
}

interface Limits {
  readonly compareCounts: (baseline: Counted, counted: Counted) => { lines: string[]; isOver: boolean };
}

const { compareCounts } = await benchModule<Limits>('micro/instruction-limits.mjs');

const of = (counts: Counted['counts'], node = 'v22.23.3'): Counted => ({ node, arch: 'x64', counts });

t.test('five per cent more passes, and more than that fails', async (t) => {
  t.equal(compareCounts(of({ json: 1000 }), of({ json: 1050 })).isOver, false);
  const { lines, isOver } = compareCounts(of({ json: 1000, stream: 10 }), of({ json: 1051, stream: 9 }));
  t.equal(isOver, true);
  t.match(lines[0], 'json: 1051 instructions a request, +5.1 % to 1000: more than 5 %');
  t.match(lines[1], 'stream: 9 instructions a request, -10.0 % to 10');
  t.match(lines[2], '--update');
});

t.test('counts of another Node.js and of a new case are not compared', async (t) => {
  const other = compareCounts(of({ json: 1 }, 'v24.0.0'), of({ json: 1000 }));
  t.equal(other.isOver, false);
  t.strictSame(other.lines, [
    'json: 1000 instructions a request, not compared',
    'The baseline is of Node.js v24.0.0 on x64.',
  ]);
  t.strictSame(compareCounts(of({}), of({ json: 7 })), {
    lines: ['json: 7 instructions a request, not compared'],
    isOver: false,
  });
});
