import t from 'tap';
import { createPlacementMemory, PlacementRing, type PlacementSink } from '../../src/routing/placement-ring.ts';

const MEMBERS = 4;
const never = (): boolean => false;

/** The ring of a thread, and what the control thread reads of it. */
function create(): { thread: PlacementRing; read: () => unknown[]; control: PlacementRing } {
  const memory = createPlacementMemory(2, MEMBERS);
  const control = new PlacementRing(memory, 1);
  const read = (): unknown[] => {
    const told: unknown[] = [];
    const sink: PlacementSink = {
      entered: (member, advance, first, hashes, count) =>
        void told.push(['entered', member, advance, first, [...hashes.subarray(0, 2 * count)]]),
      withdrawn: (member, hashes, count) => void told.push(['withdrawn', member, [...hashes.subarray(0, 2 * count)]]),
      response: (tag, holder) => void told.push(['response', tag, holder]),
    };
    t.equal(control.read(sink, never), told.length);
    t.ok(control.isEmpty);
    return told;
  };
  return { thread: new PlacementRing(memory, 1), control, read };
}

const HASHES = Int32Array.from([10, 11, 20, 21, 30, 31]);
const ANCHORS = Int32Array.from([0, 1, 2]);

t.test('blocks are read in the order in which they were noted', async (t) => {
  const { read, thread } = create();
  thread.entered(2, 5, HASHES, ANCHORS, 3, Int32Array.from([1, -1, 1]));
  thread.withdrawn(2, HASHES, ANCHORS, 1, 2, Int32Array.from([1, 1, 1]));
  thread.response(7, 8);
  t.same(read(), [
    ['entered', 2, 5, 0, [10, 11]],
    ['entered', 2, 0, 2, [30, 31]],
    ['withdrawn', 2, [20, 21]],
    ['response', 7, 8],
  ]);
  t.same(read(), []);
});

t.test('prompts without a block to tell are one sum for each member', async (t) => {
  const { control, read, thread } = create();
  const fresh = Int32Array.from([-1, -1, -1]);
  for (let prompt = 0; prompt < 100_000; prompt++) thread.entered(prompt % 2, 3, HASHES, ANCHORS, 3, fresh);
  thread.rewound(1, 10);
  thread.rewound(3, 10);
  t.notOk(control.isEmpty);
  t.equal(control.choices, 100_000);
  t.equal(control.dropped, 0);
  t.same(read(), [
    ['entered', 0, 150_000, 0, []],
    ['entered', 1, 149_990, 0, []],
    ['entered', 3, -10, 0, []],
  ]);
  t.same(read(), []);
});

t.test('clocks advance by what was counted also for prompts whose blocks did not fit', async (t) => {
  const { control, read, thread } = create();
  for (let at = 0; control.dropped === 0; at++) thread.response(at, at);
  const { dropped } = control;
  for (let prompt = 0; prompt < 1000; prompt++) {
    thread.entered(1, 5, HASHES, ANCHORS, 3, Int32Array.from([1, -1, 1]));
    thread.withdrawn(1, HASHES, ANCHORS, 0, 3, Int32Array.from([1, -1, 1]));
    // Of every second one nothing was computed.
    if (prompt % 2 === 0) thread.rewound(1, 5);
  }
  t.equal(control.dropped, dropped + 4000);
  t.same(read().at(-1), ['entered', 1, 2500, 0, []]);
});

t.test('what is skipped is not read', async (t) => {
  const { control, read, thread } = create();
  thread.entered(0, 3, HASHES, ANCHORS, 3, Int32Array.from([1, 1, 1]));
  thread.entered(0, 3, HASHES, ANCHORS, 0, HASHES);
  control.skip();
  t.ok(control.isEmpty);
  t.same(read(), []);
});
