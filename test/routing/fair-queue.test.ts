import t from 'tap';
import { createSeededRandom } from '../../src/actor/testkit.ts';
import { type FairEntry, FairQueue, RememberedTime, type VirtualTime } from '../../src/routing/fair-queue.ts';

const ANY = (): boolean => true;

function createTime(): VirtualTime {
  const tags = new Map<string, number>();
  return { now: 0, finish: (flow) => tags.get(flow) ?? 0, setFinish: (flow, tag) => void tags.set(flow, tag) };
}

function open(): {
  queue: FairQueue<string>;
  add: (item: string, cost?: number) => FairEntry<string>;
  take: () => string;
} {
  const queue = new FairQueue<string>(createTime());
  return {
    queue,
    add: (item, cost = 1) => queue.add(item[0] as string, item, cost),
    take: () => {
      const next = queue.peek(ANY);
      return next === null ? '' : queue.take(next);
    },
  };
}

t.test('flows take turns, however many items wait of one', (t) => {
  const { add, queue, take } = open();
  for (const item of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']) add(item);
  t.equal(Array.from({ length: 8 }, take).join(' '), 'a1 b1 c1 a2 b2 a3 a4 ');
  t.equal(queue.size, 0);
  t.end();
});

t.test('a flow that had nothing waiting is next', (t) => {
  const { add, take } = open();
  for (const item of ['a1', 'a2', 'a3', 'b1', 'b2', 'b3']) add(item, 10);
  t.equal([take(), take(), take()].join(' '), 'a1 b1 a2');
  add('c1', 1000);
  t.equal([take(), take(), take()].join(' '), 'b2 c1 a3');
  t.end();
});

t.test('shares are of work, not of items', (t) => {
  const { add, take } = open();
  for (let at = 0; at < 4; at++) add(`a${at}`, 30);
  for (let at = 0; at < 12; at++) add(`b${at}`, 10);
  const order = Array.from({ length: 16 }, take).map((item) => item[0]);
  for (let served = 4; served <= 16; served += 4) {
    t.equal(order.slice(0, served).filter((flow) => flow === 'a').length, served / 4, order.join(''));
  }
  t.end();
});

t.test('an item that leaves is not charged', (t) => {
  const { add, queue, take } = open();
  const entries = ['a1', 'a2', 'a3', 'a4'].map((item) => add(item, 100));
  add('b1', 100);
  for (const entry of entries.slice(0, 3)) t.equal(queue.remove(entry), true);
  t.equal(queue.remove(entries[0] as FairEntry<string>), false, 'once');
  t.same([queue.size, queue.cost], [2, 200]);
  t.equal([take(), take(), take()].join(' '), 'a4 b1 ');
  t.end();
});

t.test('an item that does not fit keeps its place, and others pass it', (t) => {
  const { add, queue, take } = open();
  for (const item of ['a1', 'a2', 'b1', 'b2']) add(item);
  const next = queue.peek((item) => !item.startsWith('a'));
  t.equal(queue.take(next as FairEntry<string>), 'b1');
  t.equal(
    queue.peek(() => false),
    null,
  );
  t.equal([take(), take(), take()].join(' '), 'a1 a2 b2');
  t.end();
});

t.test('queues that share a virtual time share the turns of a flow', (t) => {
  const time = createTime();
  const queues = [new FairQueue<string>(time), new FairQueue<string>(time)] as const;
  for (let at = 0; at < 6; at++) for (const queue of queues) queue.add('flood', `flood${at}`, 1);
  queues[0].add('other', 'other0', 1);
  queues[0].add('other', 'other1', 1);
  const order: string[] = [];
  for (let at = 0; at < 4; at++) {
    const [best] = queues
      .map((queue) => ({ queue, entry: queue.peek(ANY) as FairEntry<string> }))
      .sort((one, two) => one.queue.tagOf(one.entry) - two.queue.tagOf(two.entry));
    if (best !== undefined) order.push(best.queue.take(best.entry));
  }
  t.same(order.filter((item) => item.startsWith('other')).length, 2, order.join(' '));
  t.end();
});

t.test('counts what waits of a flow, and the work ahead of its next item', (t) => {
  const queue = new FairQueue<string>(createTime());
  queue.add('a', 'a1', 50, 7);
  queue.add('a', 'a2', 50, 8);
  queue.add('b', 'b1', 30, 1);
  queue.add('c', 'c1', 500, 1);
  t.match(queue.of('a'), { count: 2, bytes: 15 });
  t.match(queue.of('none'), { count: 0, bytes: 0 });
  t.same([queue.bytes, queue.cost], [17, 630]);
  t.equal(queue.workAhead('a'), 100 + 30 + 100);
  t.equal(queue.workAhead('none'), 0);
  t.same(queue.list(), ['a1', 'a2', 'b1', 'c1']);
  t.end();
});

t.test('flows that were served long ago are forgotten, however many new ones come', (t) => {
  const time = new RememberedTime();
  const queue = new FairQueue<string>(time);
  const serve = (flow: string): void => void queue.take(queue.add(flow, flow, 1));
  const remembered = (): number => flows.filter((flow) => time.finish(flow) > 0).length;
  const flows = Array.from({ length: 20_000 }, (_, at) => `f${at}`);
  let most = 0;
  for (const [at, flow] of flows.entries()) {
    serve(flow);
    if (at % 1000 === 999) most = Math.max(most, remembered());
  }
  t.equal(time.now, 0, 'each item was the first one of its flow');
  t.ok(most <= 4096, `${most} are remembered`);
  t.equal(time.finish('f0'), 0);
  t.equal(time.finish('f19999'), 1, 'those that were served last are known');
  serve('f19000');
  for (let at = 0; at < 2000; at++) serve(`g${at}`);
  t.equal(time.finish('f19000'), 2, 'the last service of each counts');
  t.end();
});

/**
 * Random arrivals, costs and cancellations. In every stretch of time in which two flows both have something waiting, the work served of
 * each differs by at most their two largest items (Goyal, Vin and Cheng, theorem 1); what is never fitting aside, nobody starves.
 */
t.test('shares are fair in every stretch, whatever arrives and leaves', (t) => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = createSeededRandom(seed);
    const flows = 2 + Math.floor(random() * 5);
    const largest = Array.from({ length: flows }, () => 0);
    const queue = new FairQueue<number>(createTime());
    const waiting: FairEntry<number>[] = [];
    const log: { readonly served: number[]; readonly busy: boolean[] }[] = [];
    const served = Array.from({ length: flows }, () => 0);
    let added = 0;
    let left = 0;
    let taken = 0;
    for (let step = 0; step < 400; step++) {
      const dice = random();
      if (dice < 0.5) {
        const flow = Math.floor(random() ** 2 * flows);
        const cost = 1 + Math.floor(random() ** 3 * 1000);
        largest[flow] = Math.max(largest[flow] as number, cost);
        waiting.push(queue.add(String(flow), flow, cost));
        added++;
      } else if (dice < 0.6 && waiting.length > 0) {
        if (queue.remove(waiting.splice(Math.floor(random() * waiting.length), 1)[0] as FairEntry<number>)) left++;
      } else {
        const entry = queue.peek(ANY);
        if (entry !== null) {
          const flow = queue.take(entry);
          served[flow] = (served[flow] as number) + entry.cost;
          taken++;
        }
      }
      log.push({
        served: [...served],
        busy: Array.from({ length: flows }, (_, flow) => queue.of(String(flow)).count > 0),
      });
    }
    t.equal(queue.size, added - left - taken, `seed ${seed}: every item leaves once`);
    for (let one = 0; one < flows; one++) {
      for (let two = one + 1; two < flows; two++) {
        const worst = unfairest(log, one, two);
        const bound = (largest[one] as number) + (largest[two] as number);
        if (worst > bound) t.fail(`seed ${seed}: flows ${one} and ${two} differ by ${worst}, more than ${bound}`);
      }
    }
  }
  t.end();
});

/** The largest difference of the work served of two flows over all stretches in which both had items waiting: by brute force. */
function unfairest(
  log: readonly { readonly served: readonly number[]; readonly busy: readonly boolean[] }[],
  one: number,
  two: number,
): number {
  let worst = 0;
  let least = Infinity;
  let most = -Infinity;
  for (const { busy, served } of log) {
    const difference = (served[one] as number) - (served[two] as number);
    if (busy[one] !== true || busy[two] !== true) {
      least = Infinity;
      most = -Infinity;
      continue;
    }
    least = Math.min(least, difference);
    most = Math.max(most, difference);
    worst = Math.max(worst, difference - least, most - difference);
  }
  return worst;
}
