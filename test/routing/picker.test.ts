// Candidates: order of CRNs, load bound, even shares (seeded random, wide margins), and the affinity cookie.
import fc from 'fast-check';
import t from 'tap';
import { createSeededRandom } from '../../src/actor/testkit.ts';
import { Board, createBoardMemory, STANDING, type Standing } from '../../src/routing/board.ts';
import { hashText, type Member, type Model, ModelTable } from '../../src/routing/model-table.ts';
import {
  type AffinityHint,
  Candidates,
  type PickerSettings,
  readAffinity,
  writeAffinity,
} from '../../src/routing/picker.ts';

const SETTINGS: PickerSettings = { affinity: true, boundedLoad: 1.25, slowStartMs: 10_000 };
const NONE: AffinityHint = { url: undefined, key: 0, holder: 0 };

/** All members came up long before: slow start is over. */
const NOW_MS = 1_000_000;

const urlOf = (at: number): string => `http://10.0.0.${at}:8000`;

class Fixture {
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
    this.model = { id: 'm', members, budget: 0 };
  }

  candidates(hint: Partial<AffinityHint> = {}): Candidates {
    const { model, board, settings, nowMs, random } = this;
    return new Candidates(model, board, settings, { ...NONE, ...hint }, nowMs, random);
  }

  /** The first choice, which stays in flight. */
  pick(hint: Partial<AffinityHint> = {}): Member {
    return this.candidates(hint).next() as Member;
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
}

const key = (at: number): number => hashText(`conversation ${at}`);

/** The CRN of each of `count` conversations. */
const owners = (fixture: Fixture, count: number): string[] =>
  Array.from({ length: count }, (_, at) => fixture.pickOnce({ key: key(at) }).url);

t.test('the CRN with the response that is continued comes first, whatever its load', async (t) => {
  const fixture = new Fixture(5);
  const holder = fixture.model.members[3] as Member;
  fixture.load(3, 100);
  const candidates = fixture.candidates({ url: urlOf(1), key: key(1), holder: holder.hash });
  t.equal(candidates.next(), holder);
  t.equal(candidates.affinity, 'response');
  t.not(candidates.next(), holder, 'failover goes on to the others');
  fixture.board.setStanding(3, STANDING.down, 0);
  const others = fixture.candidates({ url: urlOf(1), key: key(1), holder: holder.hash });
  t.equal(others.next()?.url, urlOf(1));
  t.equal(others.affinity, 'cookie');
  t.equal(fixture.pick({ url: urlOf(1), holder: hashText('http://gone') }).url, urlOf(1));
  t.equal(new Fixture(1).pick({ holder: holder.hash }).url, urlOf(0));
});

t.test('the CRN of the cookie comes first and is counted on the board', async (t) => {
  const fixture = new Fixture(5);
  for (let at = 0; at < 5; at++) {
    const candidates = fixture.candidates({ url: urlOf(at), key: key(1) });
    const member = candidates.next() as Member;
    t.same([member.url, candidates.affinity, fixture.board.inFlight(at)], [urlOf(at), 'cookie', 1]);
    fixture.board.leave(at);
  }
  t.not(fixture.pickOnce({ url: 'http://elsewhere' }).url, 'http://elsewhere');
});

t.test('a CRN of the cookie that is above the load bound or down is not chosen', async (t) => {
  const fixture = new Fixture(4);
  fixture.load(0, 8);
  const loaded = fixture.candidates({ url: urlOf(0) });
  t.not(loaded.next()?.url, urlOf(0));
  t.not(loaded.affinity, 'cookie');
  const other = new Fixture(4);
  other.board.setStanding(0, STANDING.down, 0);
  t.not(other.pickOnce({ url: urlOf(0) }).url, urlOf(0));
});

t.test('at low load affinity stays: a CRN may always have 4 requests', async (t) => {
  for (const count of [2, 3, 10]) {
    const fixture = new Fixture(count);
    const home = fixture.pickOnce({ key: key(1) });
    for (let running = 0; running < 4; running++) {
      const byCookie = fixture.candidates({ url: home.url });
      const byHash = fixture.candidates({ key: key(1) });
      t.equal(byCookie.next(), home);
      fixture.board.leave(home.server);
      t.equal(byHash.next(), home);
      t.same([byCookie.affinity, byHash.affinity], ['cookie', 'hash'], `${running} of ${count} CRNs' requests`);
    }
    const fifth = fixture.candidates({ key: key(1) });
    t.not(fifth.next(), home);
    t.equal(fifth.affinity, 'moved');
  }
});

t.test('a request that leaves the CRN of its cookie or hash for its load has moved', async (t) => {
  for (const hint of [{ url: urlOf(0) }, { url: urlOf(0), key: key(3) }]) {
    const fixture = new Fixture(3);
    fixture.load(0, 20);
    const candidates = fixture.candidates(hint);
    t.not(candidates.next()?.url, urlOf(0));
    t.equal(candidates.affinity, 'moved');
  }
  const down = new Fixture(3);
  down.board.setStanding(0, STANDING.down, 0);
  const byHash = down.candidates({ url: urlOf(0), key: key(3) });
  byHash.next();
  const byLoad = down.candidates({ url: urlOf(0) });
  byLoad.next();
  t.same([byHash.affinity, byLoad.affinity], ['hash', 'none'], 'a CRN that is down was not left for its load');
});

t.test('affinity passes over a CRN that refuses most requests, but leaves the cookie alone', async (t) => {
  const fixture = new Fixture(3);
  for (let i = 0; i < 5; i++) fixture.board.noteFailure(0, NOW_MS);
  t.equal(fixture.pickOnce({ url: urlOf(0) }).url, urlOf(0), 'less than half');
  fixture.board.noteFailure(0, NOW_MS);
  const candidates = fixture.candidates({ url: urlOf(0), key: key(3) });
  t.not(candidates.next()?.url, urlOf(0));
  t.same([candidates.affinity, candidates.preferredFit], ['moved', true]);
  fixture.nowMs += 1000;
  t.equal(fixture.pickOnce({ url: urlOf(0) }).url, urlOf(0), 'it is tried again soon');
});

t.test('the affinity of a request is that of its first choice', async (t) => {
  const fixture = new Fixture(3);
  const candidates = fixture.candidates({ url: urlOf(0), key: key(3) });
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

t.test('a CRN that does not know the model is passed over while another one is left', async (t) => {
  const fixture = new Fixture(5);
  for (const member of [0, 1]) fixture.board.noteModelUnknown(member);
  fixture.board.setStanding(2, STANDING.down, 0);
  fixture.board.setStanding(3, STANDING.capable, 0);
  const candidates = fixture.candidates({ url: urlOf(0), key: key(1) });
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
  t.equal(candidates.next()?.server, 1);
  t.same([candidates.epoch, candidates.trial], [0, false]);
});

t.test('a CRN that fails fast gets fewer requests than one that is slow', async (t) => {
  const fixture = new Fixture(2);
  fixture.board.noteFirstByte(1, 500, NOW_MS);
  fixture.board.noteFailure(0, NOW_MS);
  for (let i = 0; i < 50; i++) t.equal(fixture.pickOnce().server, 1);
});

t.test('a CRN without a measurement is not preferred to its peers', async (t) => {
  const fixture = new Fixture(3);
  for (const member of [0, 1]) fixture.board.noteFirstByte(member, 300, NOW_MS);
  for (let i = 0; i < 900; i++) fixture.pick();
  const loads = fixture.loads();
  t.ok(Math.max(...loads) - Math.min(...loads) <= 10, `${loads}`);
});

t.test('a conversation has the same CRN on every gateway, in whatever order CRNs are listed', async (t) => {
  const urls = Array.from({ length: 7 }, (_, at) => urlOf(at));
  const [one, two] = [new Fixture(7, STANDING.up, urls), new Fixture(7, STANDING.up, urls.toReversed())];
  t.same(owners(one, 500), owners(two, 500));
  t.same(owners(one, 500), owners(one, 500));
  const candidates = one.candidates({ key: key(1) });
  candidates.next();
  t.equal(candidates.affinity, 'hash');
});

t.test('conversations spread evenly', async (t) => {
  const counts = new Map<string, number>();
  for (const url of owners(new Fixture(10), 20_000)) counts.set(url, (counts.get(url) ?? 0) + 1);
  // 2000 each; a standard deviation is 42.
  for (const [url, count] of counts) t.ok(count > 1750 && count < 2250, `${url}: ${count}`);
  t.equal(counts.size, 10);
});

t.test('adding or removing a CRN moves its share of conversations and no other', async (t) => {
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

t.test('no CRN gets more than the load bound, even with few conversations', async (t) => {
  for (const boundedLoad of [1, 1.25, 2]) {
    const fixture = new Fixture(10);
    fixture.settings = { ...SETTINGS, boundedLoad };
    const random = createSeededRandom(3);
    for (let total = 1; total <= 3000; total++) {
      const conversation = Math.floor(random() * 3);
      const url = random() < 0.3 ? urlOf(conversation) : undefined;
      const { server } = fixture.pick({ key: key(conversation), url });
      const bound = Math.max(4, Math.ceil((total / 10) * boundedLoad));
      const load = fixture.board.inFlight(server);
      if (load > bound) t.fail(`${load} in flight, ${bound} allowed`);
      if (random() < 0.2) {
        const busy = fixture.loads().findIndex((count) => count > 0);
        fixture.board.leave(busy);
        total--;
      }
    }
    t.equal(Math.max(...fixture.loads()) <= Math.ceil(300 * boundedLoad) + 1, true);
  }
});

t.test('a conversation above the bound goes to its own second choice and reports moved', async (t) => {
  const fixture = new Fixture(4);
  const first = fixture.pickOnce({ key: key(5) });
  fixture.load(first.server, 10);
  const candidates = fixture.candidates({ key: key(5) });
  const second = candidates.next() as Member;
  t.equal(candidates.affinity, 'moved');
  t.not(second.url, first.url);
  fixture.board.leave(second.server);
  t.equal(fixture.pickOnce({ key: key(5) }).url, second.url);
});

t.test('without the setting affinity neither cookie nor key counts', async (t) => {
  const fixture = new Fixture(4);
  fixture.settings = { ...SETTINGS, affinity: false };
  const seen = new Set(Array.from({ length: 50 }, () => fixture.pickOnce({ url: urlOf(0), key: key(1) }).url));
  t.equal(seen.size, 4);
});

t.test('of two random CRNs the one with less load and latency is chosen', async (t) => {
  const busy = new Fixture(2);
  busy.load(0, 1);
  for (let i = 0; i < 50; i++) t.equal(busy.pickOnce().server, 1);
  const slow = new Fixture(2);
  slow.board.noteFirstByte(0, 200, NOW_MS);
  slow.board.noteFirstByte(1, 50, NOW_MS);
  for (let i = 0; i < 50; i++) t.equal(slow.pickOnce().server, 1);
  slow.load(1, 4);
  for (let i = 0; i < 50; i++) t.equal(slow.pickOnce().server, 0);
});

t.test('requests without a hint fill CRNs evenly', async (t) => {
  const fixture = new Fixture(10);
  for (let i = 0; i < 2000; i++) fixture.pick();
  const loads = fixture.loads();
  t.ok(Math.max(...loads) - Math.min(...loads) <= 10, `${loads}`);
});

t.test('a CRN that was slow once is tried again later', async (t) => {
  const fixture = new Fixture(2);
  fixture.board.noteFirstByte(0, 60_000, NOW_MS);
  fixture.board.noteFirstByte(1, 20, NOW_MS);
  for (let i = 0; i < 50; i++) t.equal(fixture.pickOnce().server, 1);
  fixture.nowMs = NOW_MS + 100_000;
  fixture.board.noteFirstByte(1, 20, fixture.nowMs);
  const seen = Array.from({ length: 50 }, () => fixture.pickOnce().server);
  t.same(new Set(seen), new Set([0, 1]));
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
  t.equal(fixture.pickOnce({ url: urlOf(0) }).server, 1, 'the bound of a CRN in slow start is lower');
});

t.test('CRNs that must load the model come after those that have it', async (t) => {
  const fixture = new Fixture(6, STANDING.capable);
  for (const member of [2, 4]) fixture.board.setStanding(member, STANDING.up, 0);
  const candidates = fixture.candidates({ url: urlOf(0), key: key(1) });
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
  t.equal(fixture.pickOnce({ url: urlOf(0), key: key(1) }).server, 1);
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
  const candidates = fixture.candidates({ key: key(1) });
  const seen = Array.from({ length: 5 }, () => candidates.next()?.server);
  t.same(new Set(seen), new Set([0, 1, 2, 3, undefined]));
  t.same([candidates.admitted, candidates.lastResort], [false, true]);
  t.same(fixture.loads(), [1, 1, 1, 1]);
});

t.test('a model without CRNs has no candidates', async (t) => {
  t.equal(new Fixture(0).candidates().next(), undefined);
});

t.test('two thousand CRNs are each returned once', async (t) => {
  const fixture = new Fixture(2000);
  const candidates = fixture.candidates({ key: key(1) });
  const seen = new Set<string>();
  for (let next = candidates.next(); next !== undefined; next = candidates.next()) seen.add(next.url);
  t.equal(seen.size, 2000);
});

t.test('a drained CRN gets nothing by cookie, by hash or as a last resort', (t) => {
  const fixture = new Fixture(3);
  fixture.board.setStanding(1, STANDING.drained, NOW_MS);
  const chosen = new Set(Array.from({ length: 60 }, (_, at) => fixture.pickOnce({ key: key(at) }).url));
  t.same([...chosen].toSorted(), [urlOf(0), urlOf(2)]);
  t.not(fixture.pickOnce({ url: urlOf(1) }).url, urlOf(1), 'the cookie does not count');
  for (const at of [0, 2]) fixture.board.setStanding(at, STANDING.down, NOW_MS);
  const candidates = fixture.candidates({ url: urlOf(1) });
  const last = [candidates.next()?.url ?? '', candidates.next()?.url ?? ''];
  t.same(last.toSorted(), [urlOf(0), urlOf(2)]);
  t.equal(candidates.next(), undefined);
  t.end();
});

const memberAt = (url: string): Member => ({ url, server: 0, member: 0, hash: 0, apiKey: undefined });

const table = (models: Record<string, readonly string[]>): ModelTable =>
  new ModelTable({
    version: 1,
    models: Object.entries(models).map(([id, urls]) => ({ id, members: urls.map(memberAt), budget: 0 })),
  });

const POOL = { 'Big/Model': ['http://a:1', 'http://b:1/x%20y'], other: ['http://c:1'], 'modèle;ü😀': ['http://d:1'] };

/** Characters that every server adapter passes in a cookie value: ASCII without controls and `;`. */
const SAFE = /^[\x20-\x3a\x3c-\x7e]*$/;

t.test('readAffinity reads raw and percent-encoded values', async (t) => {
  const text = '{"Big/Model":"http://b:1/x%20y"}';
  for (const value of [text, encodeURIComponent(text)]) {
    t.same([...readAffinity(value)], [['big/model', 'http://b:1/x%20y']]);
  }
});

t.test('writeAffinity adds the CRN, keeps valid entries, and returns undefined when nothing changes', async (t) => {
  const known = readAffinity('{"other":"http://c:1","gone":"http://c:1","big/model":"http://evil"}');
  t.equal(
    writeAffinity(known, table(POOL), 'Big/Model', 'http://a:1'),
    '{"other":"http://c:1","Big/Model":"http://a:1"}',
  );
  t.equal(writeAffinity(readAffinity('{"BIG/model":"http://a:1"}'), table(POOL), 'Big/Model', 'http://a:1'), undefined);
});

t.test('readAffinity never throws and skips what is no string', async (t) => {
  const hostile = [
    '',
    '%',
    '%zz',
    '{',
    '[]',
    '"a"',
    'null',
    '1',
    '{"a":1}',
    '{"a":{"b":"c"}}',
    `{"a":"${'x'.repeat(5000)}"}`,
  ];
  for (const value of [undefined, ...hostile]) t.equal(readAffinity(value).size, 0, String(value).slice(0, 20));
  t.same(
    [...readAffinity('{"__proto__":"http://a:1","a":1,"b":"c"}')],
    [
      ['__proto__', 'http://a:1'],
      ['b', 'c'],
    ],
  );
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.json()), (value) => readAffinity(value) instanceof Map),
    { numRuns: 2000 },
  );
});

const models = Object.keys(POOL);
const choice = fc
  .constantFrom(...models)
  .chain((id) => fc.constantFrom(...(POOL[id as keyof typeof POOL] as string[])).map((url) => [id, url] as const));
const cookie = fc
  .dictionary(
    fc.oneof(fc.constantFrom(...models, '__proto__'), fc.string()),
    fc.oneof(fc.string(), fc.constantFrom(...Object.values(POOL).flat())),
  )
  .map((entries) => JSON.stringify(entries));

t.test('a written cookie reads back, is safe in a header, and names CRNs of the pool only', async () => {
  fc.assert(
    fc.property(cookie, choice, fc.boolean(), (value, [id, url], encoded) => {
      const known = readAffinity(encoded ? encodeURIComponent(value) : value);
      const written = writeAffinity(known, table(POOL), id, url);
      if (written === undefined) return known.get(id.toLowerCase()) === url;
      const read = readAffinity(written);
      const inPool = [...read].every(([model, preferred]) =>
        table(POOL)
          .find(model)
          ?.members.some((one) => one.url === preferred),
      );
      const kept = [...known].every(([model, preferred]) => {
        const found = table(POOL).find(model);
        if (found === undefined || found.id === id) return true;
        return !found.members.some((one) => one.url === preferred) || read.get(found.id.toLowerCase()) !== undefined;
      });
      return SAFE.test(written) && read.get(id.toLowerCase()) === url && inPool && kept;
    }),
    { numRuns: 3000 },
  );
});

t.test('a cookie above 4096 characters keeps the last entry only', async (t) => {
  const pool = Object.fromEntries(
    Array.from({ length: 60 }, (_, at) => [`model-${at}`, [`http://${'h'.repeat(60)}:${at}`]]),
  );
  let value: string | undefined;
  for (const [id, [url]] of Object.entries(pool)) {
    value = writeAffinity(readAffinity(value), table(pool), id, url as string) ?? value;
    t.ok((value as string).length <= 4096);
    t.equal(readAffinity(value).get(id), url);
  }
});

t.test('a model may be called __proto__', async (t) => {
  const odd = table(Object.fromEntries([['__proto__', ['http://a:1']]]));
  const written = writeAffinity(new Map(), odd, '__proto__', 'http://a:1');
  t.equal(readAffinity(written).get('__proto__'), 'http://a:1');
});
