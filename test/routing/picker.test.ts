// Who is tried, in which order, and how evenly. Chance is seeded; shares are checked with wide margins.
import t from 'tap';
import { createSeededRandom } from '../../src/actor/testkit.ts';
import { Board, createBoardMemory, STANDING, type Standing } from '../../src/routing/board.ts';
import { Candidates, type PickerSettings, type Wishes } from '../../src/routing/picker.ts';
import { hashText, type Member, type Model } from '../../src/routing/model-table.ts';

const SETTINGS: PickerSettings = { affinity: true, boundedLoad: 1.25, slowStartMs: 10_000 };
const NONE: Wishes = { favourite: undefined, key: 0 };

/** Everything came up so long ago that it is warm. */
const NOW_MS = 1_000_000;

const urlOf = (at: number): string => `http://10.0.0.${at}:8000`;

class World {
  readonly board: Board;
  readonly model: Model;
  readonly random: () => number = createSeededRandom(7);
  settings: PickerSettings = SETTINGS;
  nowMs: number = NOW_MS;

  constructor(count: number, standing: Standing = STANDING.up, urls: readonly string[] = []) {
    this.board = new Board(createBoardMemory(count, count, 1), 0);
    const members = Array.from({ length: count }, (_, at): Member => {
      const url = urls[at] ?? urlOf(at);
      this.board.setStanding(at, standing, 0);
      return { url, server: at, member: at, hash: hashText(url), apiKey: undefined };
    });
    this.model = { id: 'm', members };
  }

  candidates(wishes: Partial<Wishes> = {}): Candidates {
    const { model, board, settings, nowMs, random } = this;
    return new Candidates(model, board, settings, { ...NONE, ...wishes }, nowMs, random);
  }

  /** The first choice, which stays in flight. */
  pick(wishes: Partial<Wishes> = {}): Member {
    return this.candidates(wishes).next() as Member;
  }

  /** The first choice of a request that is over at once. */
  glance(wishes: Partial<Wishes> = {}): Member {
    const member = this.pick(wishes);
    this.board.leave(member.server);
    return member;
  }

  loads(): number[] {
    return this.model.members.map(({ server }) => this.board.inFlight(server));
  }

  load(server: number, requests: number): void {
    for (let i = 0; i < requests; i++) this.board.enter(server);
  }
}

const key = (at: number): number => hashText(`conversation ${at}`);

/** Who serves each of `count` conversations. */
const owners = (deps: World, count: number): string[] =>
  Array.from({ length: count }, (_, at) => deps.glance({ key: key(at) }).url);

t.test('the favourite of the cookie comes first, and its place on the board is taken', async (t) => {
  const deps = new World(5);
  for (let at = 0; at < 5; at++) {
    const candidates = deps.candidates({ favourite: urlOf(at), key: key(1) });
    const member = candidates.next() as Member;
    t.same([member.url, candidates.affinity, deps.board.inFlight(at)], [urlOf(at), 'cookie', 1]);
    deps.board.leave(at);
  }
  t.not(deps.glance({ favourite: 'http://elsewhere' }).url, 'http://elsewhere');
});

t.test('a favourite that is loaded beyond the bound, or down, is passed over', async (t) => {
  const deps = new World(4);
  deps.load(0, 2);
  const loaded = deps.candidates({ favourite: urlOf(0) });
  t.not(loaded.next()?.url, urlOf(0));
  t.not(loaded.affinity, 'cookie');
  const other = new World(4);
  other.board.setStanding(0, STANDING.down, 0);
  t.not(other.glance({ favourite: urlOf(0) }).url, urlOf(0));
});

t.test('a conversation stays where it is, on every gateway, in whatever order it lists its CRNs', async (t) => {
  const urls = Array.from({ length: 7 }, (_, at) => urlOf(at));
  const [one, two] = [new World(7, STANDING.up, urls), new World(7, STANDING.up, urls.toReversed())];
  t.same(owners(one, 500), owners(two, 500));
  t.same(owners(one, 500), owners(one, 500));
  const candidates = one.candidates({ key: key(1) });
  candidates.next();
  t.equal(candidates.affinity, 'hash');
});

t.test('conversations spread evenly', async (t) => {
  const counts = new Map<string, number>();
  for (const url of owners(new World(10), 20_000)) counts.set(url, (counts.get(url) ?? 0) + 1);
  // 2000 each; a standard deviation is 42.
  for (const [url, count] of counts) t.ok(count > 1750 && count < 2250, `${url}: ${count}`);
  t.equal(counts.size, 10);
});

t.test('a CRN more or less moves its own share of conversations and no other', async (t) => {
  const before = owners(new World(10), 10_000);
  const after = owners(new World(11), 10_000);
  const moved = after.filter((url, at) => url !== before[at]);
  t.ok(
    moved.every((url) => url === urlOf(10)),
    'nothing moves between those that stay',
  );
  t.ok(moved.length > 10_000 / 11 - 150 && moved.length < 10_000 / 11 + 150, `${moved.length} of 10000`);
  const down = new World(11);
  down.board.setStanding(10, STANDING.down, 0);
  t.same(owners(down, 10_000), before, 'and it moves back');
});

t.test('no CRN carries more than the bound, however few conversations there are', async (t) => {
  for (const boundedLoad of [1, 1.25, 2]) {
    const deps = new World(10);
    deps.settings = { ...SETTINGS, boundedLoad };
    const random = createSeededRandom(3);
    for (let total = 1; total <= 3000; total++) {
      const conversation = Math.floor(random() * 3);
      const favourite = random() < 0.3 ? urlOf(conversation) : undefined;
      const { server } = deps.pick({ key: key(conversation), favourite });
      const bound = Math.ceil((total / 10) * boundedLoad);
      const load = deps.board.inFlight(server);
      if (load > bound) t.fail(`${load} in flight, ${bound} allowed`);
      if (random() < 0.2) {
        const busy = deps.loads().findIndex((count) => count > 0);
        deps.board.leave(busy);
        total--;
      }
    }
    t.equal(Math.max(...deps.loads()) <= Math.ceil(300 * boundedLoad) + 1, true);
  }
});

t.test('a conversation that has to yield says so and goes to its own second choice', async (t) => {
  const deps = new World(4);
  const first = deps.glance({ key: key(5) });
  deps.load(first.server, 10);
  const candidates = deps.candidates({ key: key(5) });
  const second = candidates.next() as Member;
  t.equal(candidates.affinity, 'moved');
  t.not(second.url, first.url);
  deps.board.leave(second.server);
  t.equal(deps.glance({ key: key(5) }).url, second.url);
});

t.test('without affinity neither cookie nor conversation counts', async (t) => {
  const deps = new World(4);
  deps.settings = { ...SETTINGS, affinity: false };
  const seen = new Set(Array.from({ length: 50 }, () => deps.glance({ favourite: urlOf(0), key: key(1) }).url));
  t.equal(seen.size, 4);
});

t.test('of two at random the less loaded, quicker one is taken', async (t) => {
  const busy = new World(2);
  busy.load(0, 1);
  for (let i = 0; i < 50; i++) t.equal(busy.glance().server, 1);
  const slow = new World(2);
  slow.board.noteFirstByte(0, 200, NOW_MS);
  slow.board.noteFirstByte(1, 50, NOW_MS);
  for (let i = 0; i < 50; i++) t.equal(slow.glance().server, 1);
  slow.load(1, 4);
  for (let i = 0; i < 50; i++) t.equal(slow.glance().server, 0);
});

t.test('requests without wishes fill CRNs evenly', async (t) => {
  const deps = new World(10);
  for (let i = 0; i < 2000; i++) deps.pick();
  const loads = deps.loads();
  t.ok(Math.max(...loads) - Math.min(...loads) <= 10, `${loads}`);
});

t.test('a CRN that was slow once is tried again after a while', async (t) => {
  const deps = new World(2);
  deps.board.noteFirstByte(0, 60_000, NOW_MS);
  deps.board.noteFirstByte(1, 20, NOW_MS);
  t.equal(deps.glance().server, 1);
  deps.nowMs = NOW_MS + 200_000;
  deps.board.noteFirstByte(1, 20, deps.nowMs);
  t.equal(deps.glance().server, 0);
});

t.test('a CRN that came back gets its share by and by', async (t) => {
  const shares = [0, 5000, 10_000].map((upMs) => {
    const deps = new World(4);
    deps.board.setStanding(0, STANDING.down, 0);
    deps.board.setStanding(0, STANDING.up, NOW_MS - upMs);
    for (let i = 0; i < 400; i++) deps.pick();
    return deps.board.inFlight(0);
  }) as [number, number, number];
  t.ok(shares[0] < 40 && shares[0] < shares[1] && shares[1] < shares[2], `${shares}`);
  t.ok(shares[2] >= 90 && shares[2] <= 110, `${shares}`);
  const deps = new World(2);
  deps.board.setStanding(0, STANDING.down, 0);
  deps.board.setStanding(0, STANDING.up, NOW_MS);
  deps.load(0, 1);
  deps.load(1, 1);
  t.equal(deps.glance({ favourite: urlOf(0) }).server, 1, 'a favourite that warms up carries less');
});

t.test('CRNs that would have to load the model come after those that have it', async (t) => {
  const deps = new World(6, STANDING.capable);
  for (const member of [2, 4]) deps.board.setStanding(member, STANDING.up, 0);
  const candidates = deps.candidates({ favourite: urlOf(0), key: key(1) });
  const order = Array.from({ length: 6 }, () => candidates.next()?.server as number);
  t.same(new Set(order.slice(0, 2)), new Set([2, 4]));
  t.same(new Set(order.slice(2)), new Set([0, 1, 3, 5]));
  t.equal(candidates.next(), undefined);
  t.same([candidates.admitted, candidates.lastResort], [true, true]);
});

t.test('the trial of a CRN that may come back goes to one request, the first one', async (t) => {
  const deps = new World(3);
  deps.board.setStanding(1, STANDING.probing, 0);
  t.equal(deps.glance({ favourite: urlOf(0), key: key(1) }).server, 1);
  for (let i = 0; i < 20; i++) t.not(deps.glance({ favourite: urlOf(0) }).server, 1);
  deps.board.offerTrial(1);
  t.equal(deps.glance().server, 1);
});

t.test('when nobody is fit everyone is tried once all the same', async (t) => {
  const deps = new World(4, STANDING.down);
  const candidates = deps.candidates({ key: key(1) });
  const seen = Array.from({ length: 5 }, () => candidates.next()?.server);
  t.same(new Set(seen), new Set([0, 1, 2, 3, undefined]));
  t.same([candidates.admitted, candidates.lastResort], [false, true]);
  t.same(deps.loads(), [1, 1, 1, 1]);
});

t.test('a model without CRNs has no candidates', async (t) => {
  t.equal(new World(0).candidates().next(), undefined);
});

t.test('two thousand CRNs that all fail are gone through in no time', async (t) => {
  const deps = new World(2000);
  const candidates = deps.candidates({ key: key(1) });
  const seen = new Set<string>();
  for (let next = candidates.next(); next !== undefined; next = candidates.next()) seen.add(next.url);
  t.equal(seen.size, 2000);
});

t.test('a drained CRN gets nothing: no cookie, no hash and no last resort leads to it', (t) => {
  const deps = new World(3);
  deps.board.setStanding(1, STANDING.drained, NOW_MS);
  const chosen = new Set(Array.from({ length: 60 }, (_, at) => deps.glance({ key: key(at) }).url));
  t.same([...chosen].toSorted(), [urlOf(0), urlOf(2)]);
  t.not(deps.glance({ favourite: urlOf(1) }).url, urlOf(1), 'the cookie yields');
  for (const at of [0, 2]) deps.board.setStanding(at, STANDING.down, NOW_MS);
  const candidates = deps.candidates({ favourite: urlOf(1) });
  const last = [candidates.next()?.url ?? '', candidates.next()?.url ?? ''];
  t.same(last.toSorted(), [urlOf(0), urlOf(2)]);
  t.equal(candidates.next(), undefined);
  t.end();
});
