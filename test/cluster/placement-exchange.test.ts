import t from 'tap';
import { createManualClock, createSeededRandom } from '../../src/actor/index.ts';
import { BatchDecoder, BatchEncoder, type BatchSink, memberId } from '../../src/cluster/index.ts';
import { DeadlineQueue } from '../../src/net/deadline.ts';
import { Admission } from '../../src/routing/admission.ts';
import type { Member } from '../../src/routing/model-table.ts';
import { PlacementGateway, promptOf } from '../support/placement-gateway.ts';

const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, at) => from + at);

/** Gateways whose messages arrive at once. */
class Fleet {
  nowMs = 1000;
  readonly gateways: PlacementGateway[];

  constructor(count: number, options: Partial<ConstructorParameters<typeof PlacementGateway>[0]> = {}) {
    this.gateways = range(0, count).map(
      (at) =>
        new PlacementGateway({
          ...{ crns: 4, now: () => this.nowMs },
          // Each has cells of its own.
          cells: range(0, 4).map((crn) => crn + 3 * at),
          ...options,
        }),
    );
  }

  exchange(): number {
    let bytes = 0;
    this.gateways.forEach((from, at) => {
      const body = from.take();
      if (body === null) return;
      bytes += body.length;
      this.gateways.forEach((to, other) => {
        if (to !== from)
          to.exchange.apply(body, 1 + ((at - other + this.gateways.length) % this.gateways.length), this.nowMs);
      });
    });
    return bytes;
  }
}

t.test('siblings know where a prompt was sent', async (t) => {
  const fleet = new Fleet(3);
  const [one, two, three] = fleet.gateways as [PlacementGateway, PlacementGateway, PlacementGateway];
  const prompt = promptOf(range(0, 200));
  const chosen = one.crnOf(one.choose(prompt));
  fleet.exchange();
  // Up to the last anchor.
  t.equal(two.matched(chosen, prompt), 192);
  t.equal(three.matched(chosen, prompt), 192);
  const next = promptOf(range(0, 220));
  for (const each of [two, three]) t.equal(each.crnOf(each.choose(next)), chosen);
});

t.test('what was told lately is not told again, by whomever', async (t) => {
  const fleet = new Fleet(2);
  const [one, two] = fleet.gateways as [PlacementGateway, PlacementGateway];
  const prompt = promptOf(range(0, 200));
  const chosen = one.choose(prompt);
  const first = fleet.exchange();
  // Of 200 blocks, 35 anchors are told.
  t.ok(first > 35 * 6);
  t.ok(first < 35 * 6 + 80, `${first}`);
  for (const each of [one, two])
    each.index.enter((each.model.members[one.crnOf(chosen)] as Member).member, prompt.hashes, prompt.count);
  fleet.nowMs += 20;
  t.equal(fleet.exchange(), 0);
});

t.test('a prompt that was not sent after all is not taken to be there', async (t) => {
  const fleet = new Fleet(2);
  const [one, two] = fleet.gateways as [PlacementGateway, PlacementGateway];
  const prompt = promptOf(range(0, 40));
  const choice = one.choose(prompt);
  const chosen = one.crnOf(choice);
  fleet.exchange();
  t.equal(two.matched(chosen, prompt), 39);
  choice.giveBack();
  fleet.nowMs += 20;
  fleet.exchange();
  t.equal(two.matched(chosen, prompt), 0);
  // In one message, the last of several counts.
  const again = one.choose(prompt);
  again.abandoned(again, false);
  again.again(again);
  fleet.nowMs += 20;
  fleet.exchange();
  t.equal(two.matched(one.crnOf(again), prompt), 39);
});

t.test('backlogs and requests in flight of siblings count, once, until they end or the sibling is gone', async (t) => {
  const fleet = new Fleet(3);
  const [one, two, three] = fleet.gateways as [PlacementGateway, PlacementGateway, PlacementGateway];
  const choice = one.choose(promptOf(range(0, 100)));
  const other = three.choose(promptOf(range(0, 50)));
  t.equal(one.crnOf(choice), three.crnOf(other));
  const { member, server } = two.model.members[one.crnOf(choice)] as Member;
  const seen = (): number[] => [two.board.loads.backlog(member, fleet.nowMs), two.board.inFlight(server)];
  for (let round = 0; round < 100; round++) {
    fleet.exchange();
    fleet.nowMs += 20;
    t.strictSame(seen(), [150 * 512, 2]);
  }
  t.strictSame(
    [one.board.loads.backlog(choice.member.member, fleet.nowMs), one.board.inFlight(choice.member.server)],
    [150 * 512, 2],
  );
  choice.prefilled(choice, 100);
  fleet.exchange();
  t.equal(two.board.inFlight(server), 2);
  t.equal(two.board.loads.backlog(member, fleet.nowMs), 50 * 512);
  one.board.leave(choice.member.server);
  fleet.nowMs += 100;
  fleet.exchange();
  t.equal(two.board.inFlight(server), 1);
  two.exchange.remove(2, fleet.nowMs);
  two.exchange.remove(1, fleet.nowMs);
  t.strictSame(seen(), [0, 0]);
});

t.test('a gateway explains what siblings have at a CRN, and lets it pass', async (t) => {
  const fleet = new Fleet(2);
  const [one, two] = fleet.gateways as [PlacementGateway, PlacementGateway];
  const choice = one.choose(promptOf(range(0, 100)));
  fleet.exchange();
  const candidates = two.candidates(promptOf(range(1000, 10)));
  const { chosen, crns } = candidates.explain();
  const busy = crns[one.crnOf(choice)]!;
  t.equal(busy.siblings, 100 * 512 + 4096);
  t.equal(busy.backlog, 100 * 512);
  t.equal(busy.inFlight, 2 * 4096, 'with the one that would be sent');
  t.ok(crns.every((each) => each === busy || each.siblings === 0));
  t.not(chosen, busy.crn);
});

t.test('what other caches hold raises no prior while gateways tell each other', async (t) => {
  const [one] = new Fleet(1).gateways as [PlacementGateway];
  const missOf = (): number => {
    const found = one
      .candidates(promptOf(range(0, 100)))
      .explain()
      .crns.find(({ favourite }) => favourite);
    return found?.miss ?? NaN;
  };
  const shared = missOf();
  for (let answer = 0; answer < 500; answer++) {
    one.feedback.answered(0, 0, { promptBytes: 50_000, predictedBytes: 0, promptTokens: 12_500, cachedTokens: 12_500 });
  }
  t.equal(missOf(), shared);
  one.ring.on = false;
  t.ok(missOf() < shared * 0.7, 'alone again, it counts');
});

t.test('gateways that choose at the same time spread requests nearly as one does', async (t) => {
  const spread = (gateways: number): number => {
    let nowMs = 1000;
    const random = createSeededRandom(7);
    const fleet = range(0, gateways).map(() => new PlacementGateway({ crns: 16, now: () => nowMs, random }));
    const sent = new Array<number>(16).fill(0);
    const running: { readonly endMs: number; readonly end: () => void }[] = [];
    let most = 0;
    // 400 requests a second, of which each is prefilled for 50 ms and then decodes for 150.
    for (let request = 0; request < 4000; request++) {
      const gateway = fleet[Math.floor(random() * gateways)] as PlacementGateway;
      const choice = gateway.choose(promptOf(range(request * 1000, 20)));
      const crn = gateway.crnOf(choice);
      const { server } = choice.member;
      sent[crn]!++;
      running.push({ endMs: nowMs + 50, end: () => gateway.prefilledBy(choice) });
      running.push({ endMs: nowMs + 200, end: () => (gateway.board.leave(server), void sent[crn]!--) });
      nowMs += 2.5;
      for (let at = running.length - 1; at >= 0; at--) {
        if ((running[at]?.endMs ?? Infinity) <= nowMs) running.splice(at, 1)[0]?.end();
      }
      if (request % 8 === 7) {
        for (const from of fleet) {
          const body = from.take();
          for (const to of fleet)
            if (to !== from && body !== null) to.exchange.apply(body, 1 + fleet.indexOf(from), nowMs);
        }
      }
      if (request > 500) most += Math.max(...sent);
    }
    return most / 3500;
  };
  const one = spread(1);
  const eight = spread(8);
  // 80 are in flight at 16 CRNs.
  t.ok(one < 5.5, `${one}`);
  t.ok(eight < one + 2.2, `${eight}, ${one} with one gateway`);
});

t.test('a lost message is made good within a second', async (t) => {
  const fleet = new Fleet(2);
  const [one, two] = fleet.gateways as [PlacementGateway, PlacementGateway];
  const choice = one.choose(promptOf(range(0, 100)));
  const { server } = two.model.members[one.crnOf(choice)] as Member;
  fleet.exchange();
  t.equal(two.board.inFlight(server), 1);
  choice.prefilled(choice, 100);
  one.board.leave(choice.member.server);
  fleet.nowMs += 200;
  t.not(one.take(), null, 'this one is lost');
  t.equal(two.board.inFlight(server), 1);
  fleet.nowMs += 1000;
  fleet.exchange();
  t.equal(two.board.inFlight(server), 0);
});

t.test('members that come and go take their loads with them', async (t) => {
  const fleet = new Fleet(2);
  const [one, two] = fleet.gateways as [PlacementGateway, PlacementGateway];
  const choice = one.choose(promptOf(range(0, 100)));
  fleet.exchange();
  const chosen = one.crnOf(choice);
  const { member, server } = two.model.members[chosen] as Member;
  t.equal(two.board.inFlight(server), 1);
  const url = 'http://10.0.1.9:8000';
  const members = two.model.members.map((each, at) => (at === chosen ? { ...each, url } : each));
  two.exchange.configure({ version: 2, models: [{ ...two.model, members }] }, fleet.nowMs);
  t.equal(two.board.inFlight(server), 0);
  t.equal(two.board.loads.backlog(member, fleet.nowMs), 0);
  fleet.nowMs += 1000;
  fleet.exchange();
  t.equal(two.board.inFlight(server), 0, 'its sibling knows no such CRN');
});

t.test('the CRN of a response is known to all', async (t) => {
  const fleet = new Fleet(3);
  const [one, two, three] = fleet.gateways as [PlacementGateway, PlacementGateway, PlacementGateway];
  const crn = one.model.members[2] as Member;
  one.holders.note('resp_1', crn);
  fleet.exchange();
  for (const { holders } of [two, three]) t.equal(holders.find('resp_1'), crn.hash);
});

t.test('a member of which siblings tell first is noticed, however many have gone before it', async (t) => {
  const fleet = new Fleet(1);
  const [{ exchange, model }] = fleet.gateways as [PlacementGateway];
  const comes = { ...(model.members[0] as Member), url: 'http://comes', member: 1, server: 1 };
  const tell = (id: number): void => {
    const encoder = new BatchEncoder();
    encoder.entered(id, 1, 0, Int32Array.of(1, 2), 1);
    exchange.apply(encoder.take(), 1, fleet.nowMs);
  };
  for (let gone = 0; gone < 5000; gone++) tell(memberId(model.id, `http://gone-${gone}`));
  tell(memberId(model.id, comes.url));
  const table = { version: 2, models: [{ ...model, members: [...model.members, comes] }] };
  t.equal(exchange.configure(table, fleet.nowMs), true);
  t.equal(exchange.configure(table, fleet.nowMs), false, 'once');
});

t.test('a message that is not of the expected form changes nothing', async (t) => {
  const random = createSeededRandom(1);
  const fleet = new Fleet(2);
  const [one, two] = fleet.gateways as [PlacementGateway, PlacementGateway];
  const prompt = promptOf(range(0, 60));
  const chosen = one.crnOf(one.choose(prompt));
  one.holders.note('resp_1', one.model.members[0] as Member);
  const body = one.take() as Buffer;
  for (let length = 0; length < body.length; length++) {
    t.throws(() => two.exchange.apply(body.subarray(0, length), 1, fleet.nowMs));
  }
  t.throws(() => two.exchange.apply(Buffer.concat([body, Buffer.of(0)]), 1, fleet.nowMs));
  t.equal(two.matched(chosen, prompt), 0);
  t.equal(two.holders.find('resp_1'), 0);
  // Of random changes some are readable; none does more than throw.
  for (let round = 0; round < 5000; round++) {
    const wrong = Buffer.from(body);
    for (let change = 0; change < 3; change++) wrong[Math.floor(random() * wrong.length)] = Math.floor(random() * 256);
    try {
      two.exchange.apply(wrong, 1, fleet.nowMs);
    } catch (error) {
      t.ok(error instanceof Error);
    }
  }
  one.exchange.skip();
  two.exchange.remove(1, fleet.nowMs);
  for (const { server, member } of two.model.members) {
    t.equal(two.board.inFlight(server), 0);
    t.equal(two.board.loads.backlog(member, fleet.nowMs), 0);
  }
});

t.test('what is encoded is decoded', async (t) => {
  const random = createSeededRandom(2);
  const any = (most: number): number => Math.floor(random() * (most + 1));
  const word = (): number => any(2 ** 32 - 1) | 0;
  for (let round = 0; round < 50; round++) {
    const encoder = new BatchEncoder();
    const expected: unknown[] = [];
    const member = memberId('m', `http://10.0.0.${round}:8000`);
    for (let run = 0; run < 20; run++) {
      const count = 1 + any(30);
      const hashes = Int32Array.from({ length: 2 * count }, word);
      const shown = Array.from(hashes, (each, at) => each & (at % 2 === 0 ? 0xfffffff : 0xfffff));
      if (random() < 0.2) {
        encoder.withdrawn(member, hashes, count);
        expected.push(['withdrawn', member, shown]);
      } else {
        const [advance, first] = [any(2 ** 20) - 2 ** 19, any(40)];
        encoder.entered(member, advance, first, hashes, count);
        expected.push(['entered', member, advance, first, shown]);
      }
    }
    encoder.load(member, 2 ** 30, 7, 2 ** 20);
    expected.push(['load', member, 2 ** 30, 7, 2 ** 20]);
    const [tag, holder] = [word() >>> 0, word() >>> 0];
    encoder.response(tag, holder);
    expected.push(['response', tag, holder], ['end', round % 2 === 0]);
    if (round % 2 === 0) encoder.whole();
    const got: unknown[] = [];
    const sink: BatchSink = {
      entered: (id, advance, first, hashes, count) =>
        void got.push(['entered', id, advance, first, [...hashes.subarray(0, 2 * count)]]),
      withdrawn: (id, hashes, count) => void got.push(['withdrawn', id, [...hashes.subarray(0, 2 * count)]]),
      load: (...values) => void got.push(['load', ...values]),
      response: (...values) => void got.push(['response', ...values]),
      end: (isWhole) => void got.push(['end', isWhole]),
    };
    new BatchDecoder().read(Buffer.from(encoder.take()), sink);
    t.strictSame(got, expected);
    t.ok(encoder.isEmpty);
  }
});

t.test('indexes that hear the same in any order are the same', async (t) => {
  const random = createSeededRandom(11);
  const now = (): number => 1000;
  const senders = range(0, 4).map(() => new PlacementGateway({ crns: 4, now, random }));
  const prompts = range(0, 60).map((at) => promptOf([...range(1000 * (at % 12), 20), ...range(50_000 + 100 * at, 40)]));
  const queues = senders.map((sender): Buffer[] => {
    const bodies: Buffer[] = [];
    for (let count = 0; count < 40; count++) {
      const choice = sender.choose(prompts[Math.floor(random() * prompts.length)]!);
      sender.prefilledBy(choice);
      sender.board.leave(choice.member.server);
      if (count % 5 === 4) bodies.push(sender.take()!);
    }
    return bodies;
  });
  // Each sender's messages in their order, those of several in any.
  const observers = range(0, 5).map(() => {
    const observer = new PlacementGateway({ crns: 4, now, random });
    const left = queues.map((bodies, from) => ({ from, bodies: [...bodies] }));
    for (;;) {
      const some = left.filter(({ bodies }) => bodies.length > 0);
      if (some.length === 0) return observer;
      const { bodies, from } = some[Math.floor(random() * some.length)]!;
      observer.exchange.apply(bodies.shift()!, from + 1, now());
    }
  });
  const knownTo = (observer: PlacementGateway): number[] =>
    prompts.flatMap((prompt) => range(0, 4).map((crn) => observer.matched(crn, prompt)));
  const [first, ...others] = observers.map(knownTo);
  t.ok(first!.filter((matched) => matched > 0).length >= 40);
  for (const other of others) t.same(other, first);
});

t.test('a CRN that was restarted is empty for all, and what it gets then is told anew', async (t) => {
  const { matched, one, prompt, two } = (() => {
    const [a, b] = [0, 1].map(() => new PlacementGateway({ crns: 1, now: () => 1000 })) as [
      PlacementGateway,
      PlacementGateway,
    ];
    const text = promptOf(range(0, 64));
    return { one: a, two: b, prompt: text, matched: (gateway: PlacementGateway) => gateway.matched(0, text) };
  })();
  const tell = (): void => {
    const body = one.take();
    if (body !== null) two.exchange.apply(body, 1, 1000);
  };
  one.choose(prompt);
  tell();
  t.ok(matched(two) > 50);
  // Each gateway notices it by itself, the one that sends the requests last.
  two.control.clear(two.model.members[0]!.member);
  t.equal(matched(two), 0);
  one.control.clear(one.model.members[0]!.member);
  one.choose(prompt);
  tell();
  t.ok(matched(two) > 50);
  t.equal(matched(one), 64);
});

t.test('requests are held for what siblings have waiting at all CRNs', async (t) => {
  const clock = createManualClock(1000);
  const [one, two] = [0, 1].map(() => new PlacementGateway({ crns: 2, now: () => clock.now() })) as [
    PlacementGateway,
    PlacementGateway,
  ];
  for (const { board, model } of [one, two])
    for (const { member } of model.members) board.loads.noteFirst(member, 10_000, 100, clock.now());
  const admission = new Admission(
    {
      ...{ board: two.board, memory: two.memory, thread: 0, expected: two.board.loads, clock },
      ...{ deadlines: new DeadlineQueue(clock, 1), onWaiting: () => undefined, onOutcome: () => undefined },
    },
    { holdMs: 200, timeoutMs: 60_000, requests: 1000, bytes: 2 ** 30 },
  );
  const tell = (): void => two.exchange.apply(one.take()!, 1, clock.now());
  t.equal(admission.admits(two.model, 0), true);
  // 51 KB each, at 100 bytes in a millisecond.
  const choices = range(0, 2).map((at) => one.choose(promptOf(range(1000 * at, 100))));
  t.equal(new Set(choices.map((choice) => one.crnOf(choice))).size, 2);
  tell();
  t.equal(admission.admits(two.model, 0), false);
  one.prefilledBy(choices[0]!);
  tell();
  t.equal(admission.admits(two.model, 0), true);
});
