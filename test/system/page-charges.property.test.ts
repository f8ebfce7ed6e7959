// What pages cost, over random searches with content and batches, on real sockets: sites answer, fail in every way or hang, engines fail,
// clients stay or leave, credit runs out. The ledger has exactly the pages that clients got, and the engines that answered.

import { randomInt } from 'node:crypto';
import t from 'tap';
import { bearer, endow, startLedgerFixture, USD } from '../support/ledger-fixture.ts';
import { Random } from '../support/random.ts';
import { page, type Pages, redirect, site } from '../support/site.ts';
import { until } from '../support/system.ts';

const PAGE_PRICE = 1_000_000_000n;
const ENGINE_PRICE = 5_000_000_000n;

const TEXT = `<title>Weir</title><main>${'<p>A weir holds the river back in a dry month.</p>'.repeat(10)}</main>`;

/** Pages by their first path segment; the id in the query tells pages of one kind apart. */
const PAGES: Pages = {
  '/good': page(TEXT),
  '/slow': (_request, response) => void setTimeout(() => response.end(TEXT), 20),
  '/moved': redirect('/good'),
  '/gone': page('gone', {}, 410),
  '/image': page('PNG', { 'content-type': 'image/png' }),
  '/empty': page('<title>Nothing</title>'),
  '/large': page(TEXT.repeat(2000)),
  '/broken': (_request, response) => void response.destroy(),
  '/never': () => undefined,
};
const KINDS = Object.keys(PAGES).map((path) => path.slice(1));
const LIKELY = ['good', 'good', 'good', 'slow', 'moved'];

interface Delivered {
  pages: number;
  searches: number;
  /** Most pages that were asked for by clients that left or were refused. */
  open: number;
}

const ROUNDS = 6;
const REQUESTS = 14;

for (const threads of [0, 2])
  t.test(`${threads} threads: what is charged are the pages that were delivered`, async (t) => {
    const seed = randomInt(2 ** 32);
    t.comment(`seed ${seed}`);
    const random = new Random(seed);
    const { origin, port } = await site(t, {
      ...PAGES,
      // An engine that finds the pages of its query.
      '/search': ({ url }, response) => {
        const words = new URL(url ?? '', 'http://x').searchParams.get('q')?.split(' ') ?? [];
        if (words.includes('down')) response.writeHead(500).end();
        else
          response.end(JSON.stringify({ results: words.map((word) => ({ title: word, url: `${origin}/${word}` })) }));
      },
    });
    const fixture = await startLedgerFixture(t, {
      settings: {
        threads,
        search: {
          engines: { engine_a: { kind: 'searxng', url: origin } },
          default: ['engine_a'],
          pricing: { engine_a: '0.005' },
          timeout: '1200ms',
        },
        fetch: {
          ...{ price: '0.001', allow: ['127.0.0.1'], ports: [port], timeout: '1s', maxBytes: '200KB' },
          ...{ perHost: 64, perAccount: 4, cleaners: 1 },
        },
      },
    });
    const { ledger, url } = fixture;
    const accounts = Array.from({ length: ROUNDS }, (_, round) => {
      const credit = round % 3 === 2 ? BigInt(random.below(60)) * PAGE_PRICE : USD;
      return { id: `account-${round}`, credit, leaves: round % 3 === 1 };
    });
    await endow(ledger, USD, {}, 'warm-up');
    for (const { credit, id } of accounts) await endow(ledger, credit, {}, id);
    const last = bearer(`hr_${accounts.at(-1)?.id}`);
    await until('keys are known', async () => (await fetch(`${url}/svc/auth/check`, { headers: last })).status === 200);
    // The first cleaner takes longer to start on a busy machine than a page may take.
    const warm = { method: 'POST', headers: { ...bearer('hr_warm-up'), 'content-type': 'application/json' } };
    const page = JSON.stringify({ url: `${origin}/good?warm` });
    await until('a cleaner reads', async () => {
      const response = await fetch(`${url}/search/fetch`, { ...warm, body: page });
      return (await response.arrayBuffer()).byteLength > 0 && response.status === 200;
    });

    let id = 0;
    const wordOf = (): string => `${random.pick(random.chance(0.7) ? LIKELY : KINDS)}?${random.below(40)}`;
    const send = async (account: string, leaves: boolean, delivered: Delivered): Promise<void> => {
      const words = Array.from({ length: 1 + random.below(5) }, wordOf);
      if (random.chance(0.3)) words.push(words[0] as string);
      const isSearch = random.chance(0.5);
      if (isSearch && random.chance(0.1)) words.push('down');
      const results = 1 + random.below(5);
      const body = isSearch
        ? { query: `${words.join(' ')} good?q${++id}`, max_results: 10, content: { results } }
        : { urls: words.map((word) => `${origin}/${word}`) };
      const leaving = new AbortController();
      const timer = leaves ? setTimeout(() => leaving.abort(), random.below(400)) : undefined;
      try {
        const response = await fetch(`${url}${isSearch ? '/search' : '/search/fetch'}`, {
          method: 'POST',
          headers: { ...bearer(`hr_${account}`), 'content-type': 'application/json' },
          body: JSON.stringify(body),
          signal: leaving.signal,
        });
        const answer = (await response.json()) as { results?: { url: string; content?: string }[] };
        if (response.status !== 200) return;
        if (isSearch) delivered.searches++;
        const read = (answer.results ?? []).flatMap(({ content }, at) => (content === undefined ? [] : [at]));
        // By what was asked for: the pages of a redirect have one address.
        const asked = isSearch ? (answer.results ?? []).map((result) => result.url) : words;
        delivered.pages += new Set(read.map((at) => asked[at])).size;
      } catch {
        delivered.open += isSearch ? results : words.length;
      } finally {
        clearTimeout(timer);
      }
    };
    const counts = await Promise.all(
      accounts.map(async ({ id: account, leaves }) => {
        const delivered: Delivered = { pages: 0, searches: 0, open: 0 };
        let left = REQUESTS;
        const client = async (): Promise<void> => {
          while (left-- > 0) await send(account, leaves, delivered);
        };
        await Promise.all(Array.from({ length: random.pick([1, 3, 7]) }, client));
        return delivered;
      }),
    );
    await fixture.gateway.close();

    for (const [at, { credit, id: account, leaves }] of accounts.entries()) {
      const { open, pages, searches } = counts[at] as Delivered;
      const rows = new Map((await ledger.usage({ account, by: ['model'] })).map((row) => [row.model, row]));
      const charged = rows.get('fetch')?.amount ?? 0n;
      const engines = rows.get('search:engine_a')?.amount ?? 0n;
      const state = await ledger.account(account);
      t.ok((state?.balance ?? -1n) >= 0n, `${account}: ${state?.balance} of ${credit} is left`);
      t.equal(state?.balance, credit - charged - engines, `${account}: what was charged is what is missing`);
      t.equal(state?.held, 0n, `${account}: nothing is held any more`);
      if (leaves) {
        t.ok(charged >= BigInt(pages) * PAGE_PRICE, `${account}: ${pages} pages were delivered`);
        t.ok(charged <= BigInt(pages + open) * PAGE_PRICE, `${account}: at most ${pages + open} pages`);
      } else {
        t.equal(charged, BigInt(pages) * PAGE_PRICE, `${account}: ${pages} pages`);
        t.equal(engines, BigInt(searches) * ENGINE_PRICE, `${account}: ${searches} searches`);
      }
    }
    const total = counts.reduce((sum, { pages }) => sum + pages, 0);
    t.ok(total > 10, `${total} pages were delivered`);
    t.match(await ledger.audit(), { sound: true });
  });

t.test('what is held for a request is not lent between two of its charges', async (t) => {
  const gate = Promise.withResolvers<void>();
  const engine = (ready: Promise<void>): object => ({
    kind: 'mine',
    documentation: 'https://example.com/',
    types: ['web'],
    search: async () => {
      await ready;
      return [{ title: 'a', url: 'https://example.com/', snippet: '' }];
    },
  });
  const fixture = await startLedgerFixture(t, {
    settings: {
      threads: 0,
      search: {
        engines: { engine_a: engine(gate.promise), engine_b: engine(gate.promise) },
        default: ['engine_a', 'engine_b'],
        pricing: { engine_a: '0.005', engine_b: '0.005' },
      },
    },
  });
  await endow(fixture.ledger, 2n * ENGINE_PRICE, {}, 'short');
  const headers = { ...bearer('hr_short'), 'content-type': 'application/json' };
  const ask = async (body: object): Promise<number> =>
    (await fetch(`${fixture.url}/search`, { method: 'POST', headers, body: JSON.stringify(body) })).status;
  await until(
    'the key is known',
    async () => (await fetch(`${fixture.url}/svc/auth/check`, { headers })).status === 200,
  );
  const searches = [ask({ query: 'both' })];
  await until('it is under way', async () => (await fixture.ledger.account('short'))?.held !== 0n);
  searches.push(...['one', 'two', 'three'].map((query) => ask({ query, engines: ['engine_a'] })));
  setTimeout(gate.resolve, 50);
  const statuses = await Promise.all(searches);
  await fixture.gateway.close();
  t.same(
    statuses.toSorted((one, other) => one - other),
    [200, 402, 402, 402],
    'there is credit for the first',
  );
  t.equal((await fixture.ledger.account('short'))?.balance, 0n);
});
