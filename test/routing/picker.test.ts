// Candidates: order of CRNs, the terms of the cost, and even shares (seeded random, wide margins).
import fc from 'fast-check';
import t from 'tap';
import { DIALECT_BITS } from '../../src/config/dialect-bits.ts';
import { createSeededRandom } from '../../src/actor/testkit.ts';
import { Board, type BoardMemory, createBoardMemory, STANDING, type Standing } from '../../src/routing/board.ts';
import type { CacheFeedback } from '../../src/routing/cache-feedback.ts';
import { hashText, type Member, type Model, ModelTable } from '../../src/routing/model-table.ts';
import {
  type AffinityHint,
  Candidates,
  type PickerDeps,
  type PickerSettings,
  type PromptHashes,
} from '../../src/routing/picker.ts';
import { NO_HINT, PICKER, pickerDeps } from '../support/picker.ts';

/** All members came up long before: slow start is over. */
const NOW_MS = 1_000_000;

const urlOf = (at: number): string => `http://10.0.0.${at}:8000`;

class Fixture {
  readonly memory: BoardMemory;
  readonly board: Board;
  readonly deps: PickerDeps;
  readonly model: Model;
  settings: PickerSettings = PICKER;
  nowMs: number = NOW_MS;

  constructor(
    count: number,
    standing: Standing = STANDING.up,
    urls: readonly string[] = [],
    weights: readonly number[] = [],
  ) {
    this.memory = createBoardMemory(count, count, 2);
    this.board = new Board(this.memory, 0);
    this.deps = pickerDeps(this.board, this.memory, () => this.nowMs, createSeededRandom(7));
    const members = Array.from({ length: count }, (_, at): Member => {
      const url = urls[at] ?? urlOf(at);
      this.board.setStanding(at, standing, 0);
      const weight = weights[at] ?? 1;
      return { url, server: at, member: at, hash: hashText(url), apiKey: undefined, weight, dialects: 0 };
    });
    this.model = { id: 'm', members, budget: 0 };
  }

  candidates(hint: Partial<AffinityHint> = {}): Candidates {
    return new Candidates(this.model, this.deps, this.settings, { ...NO_HINT, ...hint });
  }

  /** The first choice, which stays in flight and begins to answer at once. */
  pick(hint: Partial<AffinityHint> = {}): Member {
    const candidates = this.candidates(hint);
    const member = candidates.next() as Member;
    candidates.prefilled(candidates, null);
    return member;
  }

  /** The first choice of a request that ends at once. */
  pickOnce(hint: Partial<AffinityHint> = {}): Member {
    const member = this.pick(hint);
    this.board.leave(member.server);
    return member;
  }

  loads(): number[] {
    return this.model.members.map(({ server }) => this.board.inFlight(server));
  }

  load(server: number, requests: number): void {
    for (let i = 0; i < requests; i++) this.board.enter(server);
  }

  /** What a CRN needs for a KiB of prompt, as measured. */
  measure(member: number, msPerKib: number): void {
    for (let i = 0; i < 100; i++) this.board.loads.noteFirst(member, 100 * 1024, 100 * msPerKib, this.nowMs);
  }
}

/** A prompt of `bytes` whose blocks are those of `parts`: each a name, and how many blocks of 512 bytes it has. */
function prompt(
  ...parts: readonly (readonly [name: string, blocks: number])[]
): Pick<AffinityHint, 'blocks' | 'bytes'> {
  const words: number[] = [];
  let chain = 0;
  for (const [name, blocks] of parts) {
    for (let at = 0; at < blocks; at++) {
      chain = hashText(`${chain} ${name} ${at}`);
      words.push(chain | 0, hashText(`${chain}`) | 0);
    }
  }
  const count = words.length / 2;
  const value: PromptHashes = { hashes: Int32Array.from(words), count, bytes: count * 512 + 100 };
  return { blocks: () => value, bytes: value.bytes };
}

/** The first prompt of a conversation of 4 KiB. */
const conversation = (at: number): Pick<AffinityHint, 'blocks' | 'bytes'> => prompt([`conversation ${at}`, 8]);

/** The CRN of each of `count` new conversations. */
const owners = (fixture: Fixture, count: number): string[] =>
  Array.from({ length: count }, (_, at) => fixture.pickOnce(conversation(at)).url);

t.test('the CRN with the response that is continued comes first, whatever its load', async (t) => {
  const fixture = new Fixture(5);
  const holder = fixture.model.members[3] as Member;
  fixture.load(3, 100);
  const candidates = fixture.candidates({ url: urlOf(1), holder: holder.hash });
  t.equal(candidates.next(), holder);
  t.equal(candidates.affinity, 'response');
  t.not(candidates.next(), holder, 'failover goes on to the others');
  fixture.board.setStanding(3, STANDING.down, 0);
  const others = fixture.candidates({ url: urlOf(1), holder: holder.hash });
  t.equal(others.next()?.url, urlOf(1));
  t.equal(others.affinity, 'cookie');
  t.equal(fixture.pick({ url: urlOf(1), holder: hashText('http://gone') }).url, urlOf(1));
  t.equal(new Fixture(1).pick({ holder: holder.hash }).url, urlOf(0));
});

t.test('the CRN of the cookie comes first and is counted on the board', async (t) => {
  const fixture = new Fixture(5);
  for (let at = 0; at < 5; at++) {
    const candidates = fixture.candidates({ url: urlOf(at), ...conversation(1) });
    const member = candidates.next() as Member;
    t.same([member.url, candidates.affinity, fixture.board.inFlight(at)], [urlOf(at), 'cookie', 1]);
    candidates.giveBack();
    t.equal(fixture.board.inFlight(at), 0);
  }
  t.not(fixture.pickOnce({ url: 'http://elsewhere' }).url, 'http://elsewhere');
});

t.test('an idle CRN of the cookie is kept, wherever the prompt is and however fast others are', async (t) => {
  const fixture = new Fixture(3);
  const long = prompt(['document', 128]);
  t.equal(fixture.pickOnce({ url: urlOf(1), ...long }).url, urlOf(1));
  fixture.measure(0, 1);
  fixture.measure(1, 1);
  fixture.measure(2, 1000);
  const candidates = fixture.candidates({ url: urlOf(2), ...long });
  t.equal(candidates.next()?.url, urlOf(2));
  t.equal(candidates.affinity, 'cookie');
});

t.test(
  'the CRN of the cookie is left when its cost is `stickiness` times the least, or when it is unfit',
  async (t) => {
    for (const stickiness of [1, 4, 10]) {
      const fixture = new Fixture(4);
      fixture.settings = { ...PICKER, stickiness };
      // A request in flight costs as much as this one: n + 1 times the least with n of them.
      fixture.load(0, stickiness - 1);
      t.equal(fixture.pickOnce({ url: urlOf(0) }).url, urlOf(0));
      fixture.load(0, 1);
      const candidates = fixture.candidates({ url: urlOf(0) });
      t.not(candidates.next()?.url, urlOf(0));
      t.equal(candidates.affinity, 'moved');
      for (const at of [1, 2, 3]) fixture.load(at, stickiness);
      t.equal(fixture.pickOnce({ url: urlOf(0) }).url, urlOf(0), 'the others are as busy');
    }
    const down = new Fixture(3);
    down.board.setStanding(0, STANDING.down, 0);
    const candidates = down.candidates({ url: urlOf(0) });
    t.not(candidates.next()?.url, urlOf(0));
    t.equal(candidates.affinity, 'none', 'a CRN that is down was not left for its load');
  },
);

t.test('a CRN that refuses most requests loses its cookies for a while, but the cookie stays', async (t) => {
  const fixture = new Fixture(3);
  for (let i = 0; i < 5; i++) fixture.board.noteFailure(0, NOW_MS);
  t.equal(fixture.pickOnce({ url: urlOf(0) }).url, urlOf(0), 'less than half');
  fixture.board.noteFailure(0, NOW_MS);
  const candidates = fixture.candidates({ url: urlOf(0) });
  t.not(candidates.next()?.url, urlOf(0));
  t.same([candidates.affinity, candidates.preferredFit], ['moved', true]);
  fixture.nowMs += 1000;
  t.equal(fixture.pickOnce({ url: urlOf(0) }).url, urlOf(0), 'it is tried again soon');
});

t.test('the affinity of a request is that of its first choice', async (t) => {
  const fixture = new Fixture(3);
  const candidates = fixture.candidates({ url: urlOf(0), ...conversation(3) });
  while (candidates.next() !== undefined) t.equal(candidates.affinity, 'cookie');
});

t.test('the CRN of the cookie is fit while it is up and has the model, however busy it is', async (t) => {
  const fixture = new Fixture(2);
  const { board } = fixture;
  const fit = (url: string | undefined): boolean => fixture.candidates({ url }).preferredFit;
  fixture.load(0, 100);
  t.same([fit(urlOf(0)), fit(urlOf(9)), fit(undefined)], [true, false, false]);
  for (const standing of [STANDING.down, STANDING.probing, STANDING.drained, STANDING.capable]) {
    board.setStanding(0, standing, 0);
    t.equal(fit(urlOf(0)), false);
  }
  board.setStanding(0, STANDING.up, 0);
  const candidates = fixture.candidates({ url: urlOf(0) });
  t.equal(candidates.preferredFit, true);
  board.noteModelUnknown(0);
  t.equal(candidates.preferredFit, false, 'as of now, not of the first choice');
});

t.test('a conversation goes to the CRN that holds its beginning, from its second request on', async (t) => {
  const fixture = new Fixture(8);
  for (let at = 0; at < 50; at++) {
    const first = fixture.candidates(prompt([`chat ${at}`, 10]));
    const member = first.next();
    t.equal(first.affinity, 'prior');
    first.prefilled(first, null);
    const second = fixture.candidates(prompt([`chat ${at}`, 10], ['more', 4]));
    t.equal(second.next(), member);
    t.same([second.affinity, second.matched, second.charged], ['cache', 10, 4 * 512 + 100]);
    second.giveBack();
    fixture.board.leave((member as Member).server);
  }
});

t.test('two conversations with one long document go to one CRN, also from different accounts of cookies', async (t) => {
  const fixture = new Fixture(8);
  const document = ['document', 400] as const;
  const home = fixture.pickOnce(prompt(document, ['a question', 1]));
  for (let at = 0; at < 20; at++) t.equal(fixture.pickOnce(prompt(document, [`question ${at}`, 2])), home);
});

t.test('conversations with one short system prompt spread over all CRNs', async (t) => {
  const fixture = new Fixture(8);
  const counts = new Map<string, number>();
  for (let at = 0; at < 10_000; at++) {
    const { url } = fixture.pickOnce(prompt(['system', 6], [`conversation ${at}`, 2]));
    counts.set(url, (counts.get(url) ?? 0) + 1);
  }
  t.equal(counts.size, 8);
  // 1250 each; a standard deviation is 33.
  for (const [url, count] of counts) t.ok(count > 1000 && count < 1500, `${url}: ${count}`);
});

t.test('what waits at a CRN counts against what it holds', async (t) => {
  const fixture = new Fixture(2);
  const chat = prompt(['chat', 64]);
  const home = fixture.pickOnce(chat);
  const { loads } = fixture.board;
  loads.charge(home.member, 60 * 1024, NOW_MS);
  t.equal(fixture.pickOnce(chat), home, 'waiting costs less than prefilling it twice, weighted');
  loads.charge(home.member, 10 * 1024, NOW_MS);
  const spilled = fixture.candidates(prompt(['chat', 64], ['more', 2]));
  t.not(spilled.next(), home);
  t.equal(spilled.affinity, 'spilled');
  t.equal(spilled.matched, 0);
});

t.test('a choice is charged until its answer begins, or its attempt ends', async (t) => {
  const fixture = new Fixture(1);
  const { index } = fixture.deps;
  const { loads } = fixture.board;
  const chat = prompt(['chat', 10]);
  const { count, hashes } = chat.blocks();
  const backlog = (): number => loads.backlog(0, NOW_MS);
  const begun = fixture.candidates(chat);
  begun.next();
  t.same([begun.matched, begun.charged, begun.work, backlog()], [0, 5220, 5220 + 4096, 5220]);
  begun.prefilled(begun, null);
  t.equal(backlog(), 0);
  const longer = prompt(['chat', 10], ['more', 5]);
  const failed = fixture.candidates(longer);
  failed.next();
  t.same([failed.matched, failed.charged, backlog()], [10, 2660, 2660]);
  t.equal(index.matched(0, longer.blocks().hashes, 15), 15, 'blocks are entered at the choice');
  failed.abandoned(failed, false);
  t.equal(backlog(), 0);
  t.equal(index.matched(0, longer.blocks().hashes, 15), 10, 'and forgotten when the answer does not begin');
  t.equal(index.matched(0, hashes, count), 10);
  failed.again(failed);
  t.same([failed.matched, failed.charged, backlog(), fixture.board.inFlight(0)], [10, 2660, 2660, 3]);
});

t.test('an answer that is no stream is charged until it has come, or is given up', async (t) => {
  const fixture = new Fixture(1);
  const { loads } = fixture.board;
  loads.noteFirst(0, 40_000, 1000, NOW_MS);
  const whole = { ...prompt(['chat', 10]), stream: false };
  const gone = fixture.candidates(whole);
  gone.next();
  t.equal(Math.round(loads.backlog(0, NOW_MS)), 5220);
  gone.abandoned(gone, false);
  t.equal(loads.backlog(0, NOW_MS), 0);
  const answered = fixture.candidates(whole);
  answered.next();
  answered.prefilled(answered, null);
  t.equal(loads.backlog(0, NOW_MS), 0);
});

t.test('prompts that are refused push nothing out of a cache', async (t) => {
  const fixture = new Fixture(1);
  const chat = prompt(['chat', 40]);
  fixture.pickOnce(chat);
  const { count, hashes } = chat.blocks();
  const held = (): number => fixture.deps.index.matched(0, hashes, count);
  for (let at = 0; at < 100; at++) {
    const refused = fixture.candidates(prompt([`long ${at}`, 600]));
    refused.next();
    refused.abandoned(refused, true);
  }
  t.equal(held(), 40);
  for (let at = 0; at < 100; at++) {
    const gone = fixture.candidates(prompt([`long ${at}`, 600]));
    gone.next();
    gone.abandoned(gone, false);
  }
  t.equal(held(), 0, 'what may have been computed takes room');
});

t.test('an attempt that ends without an answer takes nothing away that others have sent since', async (t) => {
  const fixture = new Fixture(1);
  const { index } = fixture.deps;
  const held = ({ blocks }: Pick<AffinityHint, 'blocks'>): number => {
    const { count, hashes } = blocks();
    return index.matched(0, hashes, count);
  };
  const [one, other] = [prompt(['system', 6], ['one', 4]), prompt(['system', 6], ['other', 4])];
  const gone = fixture.candidates(one);
  gone.next();
  const same = fixture.candidates(one);
  const after = fixture.candidates(other);
  after.next();
  gone.abandoned(gone, false);
  t.same([held(one), held(other)], [6, 10], 'the system prompt stays');
  const again = fixture.candidates(one);
  again.next();
  same.next();
  again.abandoned(again, false);
  t.equal(held(one), 10, 'and the same prompt, whose blocks were all there by then');
});

t.test('failover goes on in the order of costs', async (t) => {
  const fixture = new Fixture(4);
  fixture.settings = { ...PICKER, prior: 0 };
  const chat = prompt(['chat', 64]);
  for (const at of [2, 0]) {
    fixture.deps.index.enter(at, chat.blocks().hashes, at === 2 ? 64 : 32);
  }
  fixture.load(1, 1);
  const candidates = fixture.candidates(chat);
  const order = Array.from({ length: 4 }, () => candidates.next()?.server);
  t.same(order, [2, 0, 3, 1]);
  t.equal(candidates.affinity, 'cache');
});

t.test('a session is a discount: it places a conversation, and yields to what is known', async (t) => {
  const session = hashText('session 1') || 1;
  const fixture = new Fixture(8);
  const home = fixture.pickOnce({ session, ...prompt(['one', 8]) });
  for (let at = 0; at < 20; at++) t.equal(fixture.pickOnce({ session, ...prompt([`other ${at}`, 8]) }), home);
  t.equal(fixture.pickOnce({ session, bytes: 4000 }), home, 'without a prompt that can be read');
  const elsewhere = fixture.model.members.find((member) => member !== home) as Member;
  const known = prompt(['known', 100]);
  fixture.deps.index.enter(elsewhere.member, known.blocks().hashes, 100);
  t.equal(fixture.pickOnce({ session, ...known }), elsewhere);
});

t.test('a CRN that does not know the model is passed over while another one is left', async (t) => {
  const fixture = new Fixture(5);
  for (const member of [0, 1]) fixture.board.noteModelUnknown(member);
  fixture.board.setStanding(2, STANDING.down, 0);
  fixture.board.setStanding(3, STANDING.capable, 0);
  const candidates = fixture.candidates({ url: urlOf(0), ...conversation(1) });
  const order = Array.from({ length: 6 }, () => candidates.next()?.server);
  t.same([order[0], order[1], new Set(order.slice(2, 4)), order[4], order[5]], [4, 3, new Set([0, 1]), 2, undefined]);
  const all = new Fixture(2);
  for (const member of [0, 1]) all.board.noteModelUnknown(member);
  const asked = all.candidates();
  t.same(new Set([asked.next()?.server, asked.next()?.server]), new Set([0, 1]), 'when no other is left, it is asked');
  t.same([asked.admitted, asked.lastResort], [true, false], 'it is not down');
});

t.test('a choice says the epoch of its member and whether it is a trial', async (t) => {
  const fixture = new Fixture(2);
  fixture.board.raiseEpoch(0);
  fixture.board.setStanding(0, STANDING.probing, 0);
  fixture.board.offerTrial(0);
  const candidates = fixture.candidates();
  t.equal(candidates.next()?.server, 0);
  t.same([candidates.epoch, candidates.trial], [1, true]);
  candidates.again({ ...candidates, member: candidates.member, epoch: 1, trial: true });
  t.same([candidates.member.server, candidates.epoch, candidates.trial], [0, 1, false], 'a repetition is no trial');
  t.equal(candidates.next()?.server, 1);
  t.same([candidates.epoch, candidates.trial], [0, false]);
});

t.test('failures double the cost', async (t) => {
  const fixture = new Fixture(2);
  fixture.load(1, 3);
  fixture.board.noteFailure(0, NOW_MS);
  // A share of 1/8 is 2^(10/8) = 2.4 times the cost: less than three more requests.
  for (let i = 0; i < 50; i++) t.equal(fixture.pickOnce().server, 0);
  fixture.board.noteFailure(0, NOW_MS);
  for (let i = 0; i < 50; i++) t.equal(fixture.pickOnce().server, 1);
  fixture.settings = { ...PICKER, failurePenalty: 0 };
  t.equal(fixture.pickOnce().server, 0);
});

t.test(
  'a CRN that takes longer per byte gets fewer requests; one that is not measured is like the others',
  async (t) => {
    const fixture = new Fixture(3);
    fixture.measure(0, 1);
    fixture.measure(1, 64);
    for (let i = 0; i < 600; i++) fixture.pick();
    const [fast, slow, unknown] = fixture.loads() as [number, number, number];
    t.ok(slow < unknown && unknown < fast, `${fixture.loads()}`);
    t.ok(fast / slow > 8, `${fast / slow}`);
    const alike = new Fixture(3);
    alike.measure(0, 1);
    alike.measure(1, 1.8);
    for (let i = 0; i < 900; i++) alike.pick();
    const loads = alike.loads();
    t.ok(Math.max(...loads) - Math.min(...loads) <= 10, `measurements that differ by less than twice: ${loads}`);
    fixture.settings = { ...PICKER, speedWeight: 0 };
    fixture.load(0, 1000);
    t.equal(fixture.pickOnce().server, 1, 'a weight of 0 turns this off');
  },
);

t.test('a CRN that was slow once is tried again later', async (t) => {
  const fixture = new Fixture(2);
  fixture.measure(0, 1000);
  fixture.measure(1, 1);
  for (let i = 0; i < 50; i++) t.equal(fixture.pickOnce().server, 1);
  fixture.nowMs += 100_000;
  fixture.measure(1, 1);
  t.same(new Set(Array.from({ length: 50 }, () => fixture.pickOnce().server)), new Set([0, 1]));
});

t.test('a new conversation has the same CRN on every gateway, in whatever order CRNs are listed', async (t) => {
  const urls = Array.from({ length: 7 }, (_, at) => urlOf(at));
  const [one, two] = [new Fixture(7, STANDING.up, urls), new Fixture(7, STANDING.up, urls.toReversed())];
  const first = owners(one, 500);
  t.same(owners(two, 500), first);
  t.same(owners(one, 500), first);
});

t.test('the CRN with the highest score is expected to hold a part: gateways agree under load', async (t) => {
  const [one, two] = [new Fixture(8), new Fixture(8)];
  const random = createSeededRandom(5);
  const agreed = (): number => {
    let count = 0;
    for (let at = 0; at < 500; at++) {
      for (const fixture of [one, two]) {
        const counts = fixture.loads();
        counts.forEach((load, server) => load > 0 && fixture.board.leave(server));
        for (let i = 0; i < 6; i++) fixture.load(Math.floor(random() * 8), 1);
      }
      const hint = prompt([`${random()}`, 64]);
      if (one.pickOnce(hint).url === two.pickOnce(hint).url) count++;
    }
    return count / 500;
  };
  t.ok(agreed() < 0.9);
  // What each finds in caches that it cannot explain tells of the other one.
  const answer = { promptBytes: 32_768, predictedBytes: 0, promptTokens: 8192, cachedTokens: 4096 };
  for (const { deps, model } of [one, two]) {
    for (let at = 0; at < 100; at++) (deps.feedback as CacheFeedback).answered(model.budget, 0, answer);
  }
  t.ok(agreed() > 0.95);
  one.settings = two.settings = { ...PICKER, prior: 0 };
  t.ok(agreed() < 0.6);
});

t.test('conversations spread evenly', async (t) => {
  const counts = new Map<string, number>();
  for (const url of owners(new Fixture(10), 20_000)) counts.set(url, (counts.get(url) ?? 0) + 1);
  // 2000 each; a standard deviation is 42.
  for (const [url, count] of counts) t.ok(count > 1750 && count < 2250, `${url}: ${count}`);
  t.equal(counts.size, 10);
});

t.test('adding or removing a CRN moves its share of new conversations and no other', async (t) => {
  const before = owners(new Fixture(10), 10_000);
  const after = owners(new Fixture(11), 10_000);
  const moved = after.filter((url, at) => url !== before[at]);
  t.ok(
    moved.every((url) => url === urlOf(10)),
    'no conversation moves between the other CRNs',
  );
  t.ok(moved.length > 10_000 / 11 - 150 && moved.length < 10_000 / 11 + 150, `${moved.length} of 10000`);
  const down = new Fixture(11);
  down.board.setStanding(10, STANDING.down, 0);
  t.same(owners(down, 10_000), before, 'they move back');
});

t.test('without the setting affinity neither cookie nor prompt nor session counts', async (t) => {
  const fixture = new Fixture(4);
  fixture.settings = { ...PICKER, affinity: false };
  const hint = { url: urlOf(0), session: 5, holder: hashText(urlOf(0)), ...conversation(1) };
  const seen = new Set(Array.from({ length: 50 }, () => fixture.pickOnce(hint).url));
  t.equal(seen.size, 4);
  t.equal(fixture.candidates(hint).affinity, 'none');
  t.equal(fixture.deps.index.matched(0, hint.blocks().hashes, 8), 0, 'nothing is entered');
});

t.test('requests of which nothing is known fill CRNs evenly', async (t) => {
  const fixture = new Fixture(10);
  for (let i = 0; i < 2000; i++) fixture.pick();
  const loads = fixture.loads();
  t.ok(Math.max(...loads) - Math.min(...loads) <= 10, `${loads}`);
  const idle = new Fixture(4);
  t.equal(new Set(Array.from({ length: 50 }, () => idle.pickOnce().server)).size, 4, 'random among equals');
});

t.test('a CRN that came back gets its share gradually', async (t) => {
  const shares = [0, 5000, 10_000].map((upMs) => {
    const fixture = new Fixture(4);
    fixture.board.setStanding(0, STANDING.down, 0);
    fixture.board.setStanding(0, STANDING.up, NOW_MS - upMs);
    for (let i = 0; i < 400; i++) fixture.pick();
    return fixture.board.inFlight(0);
  }) as [number, number, number];
  t.ok(shares[0] < 40 && shares[0] < shares[1] && shares[1] < shares[2], `${shares}`);
  t.ok(shares[2] >= 90 && shares[2] <= 110, `${shares}`);
  const fixture = new Fixture(2);
  fixture.board.setStanding(0, STANDING.down, 0);
  fixture.board.setStanding(0, STANDING.up, NOW_MS);
  fixture.load(0, 5);
  fixture.load(1, 5);
  t.equal(fixture.pickOnce({ url: urlOf(0) }).server, 1, 'a CRN in slow start costs more');
  const all = new Fixture(3);
  for (const at of [0, 1, 2]) {
    all.board.setStanding(at, STANDING.down, 0);
    all.board.setStanding(at, STANDING.up, NOW_MS);
  }
  const home = all.pickOnce(prompt(['chat', 10]));
  t.equal(all.pickOnce(prompt(['chat', 10], ['more', 1])), home, 'when all have just started, affinity holds');
});

t.test('CRNs that must load the model come after those that have it', async (t) => {
  const fixture = new Fixture(6, STANDING.capable);
  for (const member of [2, 4]) fixture.board.setStanding(member, STANDING.up, 0);
  const candidates = fixture.candidates({ url: urlOf(0), ...conversation(1) });
  const order = Array.from({ length: 6 }, () => candidates.next()?.server as number);
  t.same(new Set(order.slice(0, 2)), new Set([2, 4]));
  t.same(new Set(order.slice(2)), new Set([0, 1, 3, 5]));
  t.equal(candidates.next(), undefined);
  t.same([candidates.admitted, candidates.lastResort], [true, true]);
});

t.test('the trial of a CRN goes to one request, the first one', async (t) => {
  const fixture = new Fixture(3);
  fixture.board.setStanding(1, STANDING.probing, 0);
  fixture.board.offerTrial(1);
  t.equal(fixture.pickOnce({ url: urlOf(0), ...conversation(1) }).server, 1);
  for (let i = 0; i < 20; i++) t.not(fixture.pickOnce({ url: urlOf(0) }).server, 1);
  fixture.board.offerTrial(1);
  t.equal(fixture.pickOnce().server, 1);
});

t.test('a request that only one CRN can serve is no trial of another one', async (t) => {
  const fixture = new Fixture(3);
  fixture.board.setStanding(1, STANDING.probing, 0);
  fixture.board.offerTrial(1);
  const holder = (at: number): number => hashText(urlOf(at));
  t.equal(fixture.pickOnce({ holder: holder(2) }).server, 2);
  t.equal(fixture.pickOnce({ holder: holder(1) }).server, 1, 'of its own CRN it is');
  fixture.board.offerTrial(1);
  const candidates = fixture.candidates({ holder: holder(2) });
  t.same([candidates.next()?.server, candidates.next()?.server], [2, 1], 'nor is it bound to the CRN that failed');
});

t.test('CRNs that are down are each tried once when no other is left', async (t) => {
  const fixture = new Fixture(4, STANDING.down);
  const candidates = fixture.candidates(conversation(1));
  const seen = Array.from({ length: 5 }, () => candidates.next()?.server);
  t.same(new Set(seen), new Set([0, 1, 2, 3, undefined]));
  t.same([candidates.admitted, candidates.lastResort], [false, true]);
  t.same(fixture.loads(), [1, 1, 1, 1]);
});

t.test('a CRN that comes up while another one is a last resort is none', async (t) => {
  const fixture = new Fixture(2, STANDING.down);
  const candidates = fixture.candidates();
  const first = candidates.next() as Member;
  t.equal(candidates.lastResort, true);
  const other = 1 - first.member;
  fixture.board.setStanding(other, STANDING.up, NOW_MS);
  t.equal(candidates.next()?.member, other);
  t.same([candidates.admitted, candidates.lastResort], [true, false]);
});

t.test('a model without CRNs has no candidates', async (t) => {
  t.equal(new Fixture(0).candidates().next(), undefined);
});

t.test('two thousand CRNs are each returned once', async (t) => {
  const fixture = new Fixture(2000);
  const candidates = fixture.candidates(conversation(1));
  const seen = new Set<string>();
  for (let next = candidates.next(); next !== undefined; next = candidates.next()) seen.add(next.url);
  t.equal(seen.size, 2000);
});

t.test('a drained CRN gets nothing by cookie, by prompt or as a last resort', (t) => {
  const fixture = new Fixture(3);
  fixture.board.setStanding(1, STANDING.drained, NOW_MS);
  const chosen = new Set(Array.from({ length: 60 }, (_, at) => fixture.pickOnce(conversation(at)).url));
  t.same([...chosen].toSorted(), [urlOf(0), urlOf(2)]);
  t.not(fixture.pickOnce({ url: urlOf(1) }).url, urlOf(1), 'the cookie does not count');
  for (const at of [0, 2]) fixture.board.setStanding(at, STANDING.down, NOW_MS);
  const candidates = fixture.candidates({ url: urlOf(1) });
  const last = [candidates.next()?.url ?? '', candidates.next()?.url ?? ''];
  t.same(last.toSorted(), [urlOf(0), urlOf(2)]);
  t.equal(candidates.next(), undefined);
  t.end();
});

t.test('threads see the loads of each other, and what a dead one had', async (t) => {
  const fixture = new Fixture(2);
  const other = new Board(fixture.memory, 1);
  other.loads.charge(0, 100_000, NOW_MS);
  for (let i = 0; i < 20; i++) t.equal(fixture.pickOnce().server, 1);
  other.clearThread(1);
  t.equal(fixture.board.loads.backlog(0, NOW_MS), 0);
  t.same(new Set(Array.from({ length: 20 }, () => fixture.pickOnce().server)), new Set([0, 1]));
});

/** The choices of each CRN as a share of all. */
function sharesOf(fixture: Fixture, chosen: readonly Member[]): number[] {
  return fixture.model.members.map((member) => chosen.filter((each) => each === member).length / chosen.length);
}

t.test('with equal prompts, requests are distributed by weight, idle or busy, whichever end first', async () => {
  const weights = fc.array(fc.integer({ min: 1, max: 8 }), { minLength: 2, maxLength: 6 });
  await fc.assert(
    fc.property(weights, fc.integer({ min: 0, max: 2 ** 31 - 1 }), fc.boolean(), (given, seed, isIdle) => {
      const fixture = new Fixture(given.length, STANDING.up, [], given);
      const random = createSeededRandom(seed);
      const total = given.reduce((sum, weight) => sum + weight, 0);
      const running: Member[] = [];
      const chosen: Member[] = [];
      const hint = prompt(['the same', 8]);
      while (chosen.length < 3000) {
        const member = fixture.pick(hint);
        chosen.push(member);
        running.push(member);
        while (running.length > (isIdle ? 0 : 8 * total)) {
          const [ended] = running.splice(Math.floor(random() * running.length), 1);
          fixture.board.leave((ended as Member).server);
        }
      }
      for (const [at, share] of sharesOf(fixture, chosen).entries()) {
        const due = (given[at] as number) / total;
        if (Math.abs(share - due) > 0.04) throw new Error(`${given.join(':')}: ${at} has ${share} of ${due}`);
      }
    }),
    { numRuns: 25 },
  );
});

t.test('new conversations are distributed by weight, and stay where their beginning is cached', async (t) => {
  const fixture = new Fixture(3, STANDING.up, [], [1, 2, 5]);
  const chosen = Array.from({ length: 2000 }, (_, at) => fixture.pickOnce(conversation(at)));
  for (const [at, share] of sharesOf(fixture, chosen).entries()) {
    t.ok(Math.abs(share - [0.125, 0.25, 0.625][at]!) < 0.04, `${at}: ${share}`);
  }
  const again = Array.from({ length: 2000 }, (_, at) => fixture.pickOnce(conversation(at)));
  t.equal(again.filter((member, at) => member === chosen[at]).length, 2000);
});

t.test('a weight divides what waits at a CRN, not what the request itself needs', async (t) => {
  const fixture = new Fixture(2, STANDING.up, [], [1, 4]);
  fixture.load(0, 1);
  fixture.load(1, 3);
  fixture.board.loads.charge(0, 8000, NOW_MS);
  fixture.board.loads.charge(1, 16_000, NOW_MS);
  const { crns } = fixture.candidates({ bytes: 1000 }).explain();
  t.match(crns, [
    { weight: 1, backlog: 8000, inFlight: 4096 * 2, miss: 2000, cost: 8000 + 4096 * 2 + 2000 },
    { weight: 4, backlog: 4000, inFlight: 4096 * 1.75, miss: 2000, cost: 4000 + 4096 * 1.75 + 2000 },
  ]);
});

t.test('a table finds a model by its id and its aliases in any case; ids come first', async (t) => {
  const models = [
    { id: 'Atlas', aliases: ['gpt-5', 'Finch'], members: [], budget: 0 },
    { id: 'finch', aliases: ['GPT-5', 'small'], members: [], budget: 1 },
  ];
  const named = new ModelTable({ version: 1, models });
  const names = ['atlas', 'GPT-5', 'FINCH', 'Small', 'none'];
  t.same(
    names.map((name) => named.find(name)?.id),
    ['Atlas', 'Atlas', 'finch', 'finch', undefined],
  );
});

/** A request of the messages dialect that can be translated to chat completions. */
const MESSAGES = { dialectBit: DIALECT_BITS.messages, translatedBit: DIALECT_BITS.chat };

/** Members with these dialects, and a name for each. */
function declared(...dialects: readonly number[]): Fixture {
  const fixture = new Fixture(dialects.length);
  const members = fixture.model.members.map((member, at) => ({ ...member, dialects: dialects[at] as number }));
  return Object.assign(fixture, { model: { ...fixture.model, members } });
}

/** Servers in the order of failover. */
function order(candidates: Candidates): number[] {
  const servers: number[] = [];
  for (let member = candidates.next(); member !== undefined; member = candidates.next()) servers.push(member.server);
  return servers;
}

t.test('members that can be asked in no form are no candidates', async (t) => {
  const { chat, completions, messages } = DIALECT_BITS;
  const fixture = declared(completions, chat, messages, chat | messages);
  t.same(new Set(order(fixture.candidates(MESSAGES))), new Set([1, 2, 3]));
  t.same(
    fixture.model.members.map((member) => fixture.candidates(MESSAGES).formOf(member, NOW_MS)),
    ['none', 'translated', 'own', 'own'],
  );
  t.same(new Set(order(fixture.candidates({ ...MESSAGES, isUntranslatable: true }))), new Set([2, 3]));
  t.same(order(fixture.candidates({ dialectBit: DIALECT_BITS.llama })), []);
  t.equal(fixture.candidates({ dialectBit: DIALECT_BITS.llama }).isUnspoken, true);
  t.equal(fixture.candidates(MESSAGES).isUnspoken, false);
  t.same(new Set(order(fixture.candidates())), new Set([0, 1, 2, 3]), 'a request without a dialect goes to all');
  t.equal(new Fixture(0).candidates(MESSAGES).isUnspoken, false, 'a model without CRNs lacks no dialect');
});

t.test(
  'members that are known to lack a dialect that is not translated come last, and before those that are down',
  async (t) => {
    const fixture = new Fixture(4);
    const bit = DIALECT_BITS.completions;
    fixture.board.noteLack(1, bit, NOW_MS, NOW_MS);
    fixture.board.noteLack(2, bit, NOW_MS, NOW_MS);
    fixture.board.setStanding(2, STANDING.drained, NOW_MS);
    fixture.board.setStanding(3, STANDING.down, NOW_MS);
    t.same(order(fixture.candidates({ dialectBit: bit })), [0, 1, 3]);
    t.same(order(fixture.candidates({ dialectBit: bit, isUntranslatable: true })), [0, 3]);
    t.equal(fixture.candidates({ dialectBit: bit }).formOf(fixture.model.members[1] as Member, NOW_MS), 'refused');
  },
);

t.test('a hedge, a trial and the cookie are none of a member that cannot be asked', async (t) => {
  const { completions, messages } = DIALECT_BITS;
  const fixture = declared(messages, completions);
  const candidates = fixture.candidates(MESSAGES);
  t.equal(candidates.next()?.server, 0);
  t.equal(candidates.nextFit(), undefined);
  fixture.board.setStanding(1, STANDING.probing, NOW_MS);
  fixture.board.offerTrial(1);
  t.equal(fixture.candidates(MESSAGES).next()?.server, 0);
  t.equal(fixture.board.isTrialOffered(1), true);
  t.equal(fixture.candidates(MESSAGES).explain().chosen, urlOf(0));
  fixture.board.setStanding(1, STANDING.up, NOW_MS);
  t.equal(fixture.candidates({ ...MESSAGES, url: urlOf(1) }).preferredFit, false);
  t.equal(fixture.candidates({ url: urlOf(1) }).preferredFit, true);
});

t.test('a member that turns out not to be askable is taken back whole', async (t) => {
  const fixture = declared(DIALECT_BITS.chat, DIALECT_BITS.messages);
  fixture.load(1, 5);
  let isUntranslatable = false;
  const hint: AffinityHint = {
    ...{ ...NO_HINT, ...MESSAGES },
    get isUntranslatable() {
      return isUntranslatable;
    },
  };
  const candidates = new Candidates(fixture.model, fixture.deps, fixture.settings, hint);
  t.equal(candidates.next()?.server, 0);
  isUntranslatable = true;
  candidates.withdraw();
  t.same(fixture.loads(), [0, 5]);
  t.equal(candidates.next()?.server, 1);
  t.equal(candidates.next(), undefined);
});

t.test('a trial that is taken back is offered to the next request', async (t) => {
  const fixture = declared(DIALECT_BITS.chat, DIALECT_BITS.messages);
  fixture.board.setStanding(0, STANDING.probing, NOW_MS);
  fixture.board.offerTrial(0);
  let isUntranslatable = false;
  const hint: AffinityHint = {
    ...{ ...NO_HINT, ...MESSAGES },
    get isUntranslatable() {
      return isUntranslatable;
    },
  };
  const candidates = new Candidates(fixture.model, fixture.deps, fixture.settings, hint);
  t.equal(candidates.next()?.server, 0);
  t.same([candidates.trial, fixture.board.isTrialOffered(0)], [true, false]);
  isUntranslatable = true;
  candidates.withdraw();
  t.equal(fixture.board.isTrialOffered(0), true);
  t.equal(candidates.next()?.server, 1);
  t.equal(candidates.next(), undefined);
  t.equal(fixture.board.isTrialOffered(0), true);
});
