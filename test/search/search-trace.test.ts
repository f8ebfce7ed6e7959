// What is told of a search: the same as its answer, whatever engines gave; and each hit has a fate.
import fc from 'fast-check';
import t from 'tap';
import { createTestSystem } from '../../src/actor/testkit.ts';
import { createPlaceMemory } from '../../src/routing/place-counts.ts';
import { createEngineMemory } from '../../src/search/engine-board.ts';
import { type EngineList, merge } from '../../src/search/merge.ts';
import type { SearchAnswer } from '../../src/search/query.ts';
import { SearchService } from '../../src/search/search-service.ts';
import { type SearchExplanation, SearchTrace } from '../../src/search/search-trace.ts';
import { type Answer, fakeTransport, hitOf, hostOf, queryOf, specOf } from '../support/search.ts';

interface Run {
  readonly answer: SearchAnswer;
  readonly explanation: SearchExplanation;
}

/** The same search twice: as a client, and with a trace. */
async function run(
  answer: Answer,
  engines: readonly string[],
  maxResults = 10,
): Promise<Run & { plain: SearchAnswer }> {
  const { clock, settle } = createTestSystem();
  const service = new SearchService({
    ...{ clock, memory: createEngineMemory(8), placeMemory: createPlaceMemory(1), thread: 0 },
    ...{
      random: () => 0,
      epochMs: () => clock.now(),
      onOutcome: () => undefined,
      onThrown: () => undefined,
      transport: fakeTransport(answer),
    },
  });
  service.configure({
    ...{ timeoutMs: 10_000, softTimeoutMs: 10_000, perAccount: 8, cacheTtlMs: null, cacheBytes: 0 },
    engines: ['a', 'b', 'c'].map((id, cell) => specOf(id, { cell, weight: cell + 1 })),
  });
  const trace = new SearchTrace();
  const answers: SearchAnswer[] = [];
  for (const caller of [
    { account: null, caller: 'me' },
    { account: null, caller: 'me', trace },
  ]) {
    service.search(queryOf(engines, { maxResults }), caller, (found) => {
      if ('answer' in found) answers.push(found.answer);
    });
    await settle();
  }
  service.close();
  const [plain, explained] = answers;
  if (plain === undefined || explained === undefined) throw new Error('the search has not ended');
  return { plain, answer: explained, explanation: trace.explanation() };
}

const url = fc
  .tuple(
    fc.constantFrom('http://', 'https://', 'https://www.', 'https://m.'),
    fc.constantFrom('x.org', 'y.org'),
    fc.constantFrom('/', '/1', '/1/', '/1?utm_source=q', '/2', '/10.1000/3'),
  )
  .map((parts) => parts.join(''));
const urls = fc.array(url, { maxLength: 12 });

t.test('tells the pages of the answer, in its order, whatever engines give', async () => {
  await fc.assert(
    fc.asyncProperty(urls, urls, urls, async (a, b, c) => {
      const given: Record<string, readonly string[]> = { a, b, c };
      const { answer, explanation, plain } = await run(
        (request) => ({ urls: given[hostOf(request)] ?? [] }),
        ['a', 'b', 'c'],
      );
      t.match(plain.results, answer.results, 'a trace changes nothing');
      const { engines, pages, rankOffset } = explanation;
      if (pages.length !== answer.results.length) throw new Error('another number of pages');
      for (const [index, { found_in, rank, url: shown }] of answer.results.entries()) {
        const { key, score, terms, tie } = pages[index] as SearchExplanation['pages'][number];
        const before = pages[index - 1];
        const sum = terms.reduce((total, term) => total + term.weight / (rankOffset + term.rank), 0);
        const isSame =
          terms.map(({ engine }) => engine).join() === found_in.join() &&
          Math.min(...terms.map((term) => term.rank)) === rank &&
          terms.some((term) => term.url === shown) &&
          Math.abs(sum - score) < 1e-9 &&
          key !== '';
        if (!isSame) throw new Error(`page ${index + 1} is told otherwise`);
        if (before !== undefined && (before.score < score || (tie === null) === (before.score === score)))
          throw new Error('the order is not that of the scores');
      }
      for (const { engine, hits } of engines) {
        if (hits.map(({ hit }) => hit.url).join() !== (given[engine] ?? []).slice(0, 10).join())
          throw new Error('hits of an engine are missing');
        for (const { fate, hit, place, rank } of hits) {
          const page = place === null ? undefined : pages[place - 1];
          const isIn = page?.terms.some((term) => term.engine === engine && term.rank === rank && term.url === hit.url);
          if ((fate === 'repeated') !== (place === null) || isIn === false) throw new Error('a hit is lost');
        }
      }
    }),
    { numRuns: 60 },
  );
});

t.test('tells why an engine gave nothing, and how long it took', async (t) => {
  const { explanation } = await run(
    (request) => (hostOf(request) === 'a' ? { failure: 'rate limited' } : { urls: ['https://x.org/1'] }),
    ['a', 'b', 'nobody'],
  );
  t.match(explanation.engines, [
    { engine: 'a', reason: 'suspended', hits: [] },
    { engine: 'b', reason: null, calls: 1, elapsedMs: 0, weight: 2, hits: [{ rank: 1, fate: 'first', place: 1 }] },
    { engine: 'nobody', reason: 'not configured', calls: 0 },
  ]);
});

t.test('names the rules by which addresses are one page, and what becomes of each hit', async (t) => {
  const lists: EngineList[] = [
    { engine: 'a', hits: ['https://x.org/1', 'http://www.x.org/1/?gclid=2'].map(hitOf) },
    { engine: 'b', hits: ['http://x.org/1/', 'https://y.org/'].map(hitOf) },
  ];
  const trace = new SearchTrace();
  for (const { engine, hits } of lists) trace.answered({ engine, hits, calls: 1 }, 1);
  merge(lists, { searchType: 'web', trace });
  const { engines, pages } = trace.explanation();
  t.match(pages[0], {
    key: 'x.org/1',
    terms: [
      { engine: 'a', rank: 1, rules: [] },
      { engine: 'b', rank: 1, rules: ['scheme', 'closing slash'] },
    ],
  });
  t.strictSame(
    engines.map(({ hits }) => hits.map(({ fate, place }) => `${fate} ${place}`)),
    [
      ['first 1', 'repeated null'],
      ['joined 1', 'first 2'],
    ],
  );
});
