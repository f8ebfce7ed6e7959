// The section `search.engines`: options that all engines have, engines of the embedder's own, mistakes by path.
import t from 'tap';
import { configureEngines, isPlugIn } from '../../src/search/configure.ts';
import { fakeEngine } from '../support/search.ts';

const configure = (entries: Readonly<Record<string, unknown>>): ReturnType<typeof configureEngines> =>
  configureEngines(entries, (id) => id.length);

const SEARXNG = { kind: 'searxng', url: 'http://127.0.0.1:8888' };

t.test('reads the options of every engine, with their defaults', async (t) => {
  const { engines, mistakes } = configure({
    plain: SEARXNG,
    tuned: {
      ...{ ...SEARXNG, weight: 0.5, concurrency: 3, hedge: '300ms' },
      rates: [{ requests: 5, per: '2s' }],
    },
  });
  t.same(mistakes, []);
  t.match(engines, [
    { id: 'plain', cell: 5, weight: 1, rates: [], hedgeMs: null },
    { id: 'tuned', cell: 5, weight: 0.5, concurrency: 3, hedgeMs: 300, rates: [{ requests: 5, perMs: 2000 }] },
  ]);
  t.not(engines[0]?.fingerprint, engines[1]?.fingerprint);
  t.equal(configure({ plain: { ...SEARXNG } }).engines[0]?.fingerprint, engines[0]?.fingerprint);
});

t.test('makes one engine for each of several addresses', async (t) => {
  const urls = ['http://127.0.0.1:1', 'http://127.0.0.1:2'];
  const { engines } = configure({ engine_a: { kind: 'worker', urls } });
  t.equal(engines[0]?.workers.length, 2);
  t.same(engines[0]?.workers[0]?.types, ['web', 'news', 'images'], 'the types of this id in the public interface');
  for (const wrong of [[], 'http://127.0.0.1:1', [7]])
    t.same(configure({ engine_a: { kind: 'worker', urls: wrong } }).mistakes, [
      { path: 'search.engines.engine_a', message: 'urls must be a list of base URLs' },
    ]);
});

t.test('takes an engine of the embedder in the place of settings', async (t) => {
  const engine = fakeEngine('own');
  const { engines, mistakes } = configure({ own: engine });
  t.same(mistakes, []);
  t.equal(engines[0]?.workers[0], engine);
  t.equal(isPlugIn(SEARXNG), false);
});

t.test('another engine of the embedder is another, whatever its kind and its id', async (t) => {
  const [one, two] = [fakeEngine('own'), fakeEngine('own')];
  const [first, second, again] = [one, two, one].map((own) => configure({ own }).engines[0]);
  t.not(first?.generation, second?.generation);
  t.equal(first?.generation, again?.generation);
  t.equal(first?.fingerprint, second?.fingerprint, 'which other gateways compare');
  const worker = { kind: 'worker', url: 'http://127.0.0.1:1' };
  t.strictSame(configure({ constructor: worker }).engines[0]?.workers[0]?.types, ['web']);
});

t.test('what an engine of the embedder says of itself must make sense', async (t) => {
  for (const [wrong, message] of [
    [{ types: undefined }, 'types are not a list of web, news, images and academic'],
    [{ types: ['video'] }, 'types are not a list of web, news, images and academic'],
    [{ concurrency: 0 }, 'concurrency is no whole number above 0'],
    [{ rates: [{ requests: 0, perMs: 1000 }] }, 'rates are not a list of at most 4 { requests, perMs }'],
    [{ rates: [{ requests: 0.2, perMs: 1000 }] }, 'rates are not a list of at most 4 { requests, perMs }'],
    [{ rates: [{ requests: Infinity, perMs: 1000 }] }, 'rates are not a list of at most 4 { requests, perMs }'],
    [{ rates: [{ requests: 1, perMs: 1e300 }] }, 'rates are not a list of at most 4 { requests, perMs }'],
    [{ filters: { language: null } }, 'filters are not a mapping of filter names to what it applies of them'],
  ] as const) {
    const { engines, mistakes } = configure({ own: { ...fakeEngine('own'), ...wrong } });
    t.same([engines, mistakes], [[], [{ path: 'search.engines.own', message }]]);
  }
});

t.test('names every mistake by path and leaves the engine out', async (t) => {
  const { engines, mistakes } = configure({
    good: SEARXNG,
    nothing: null,
    kindless: { url: 'http://127.0.0.1:1' },
    weightless: { ...SEARXNG, weight: 0 },
    endless: { ...SEARXNG, hedge: 'soon' },
    unlimited: { ...SEARXNG, rates: 5 },
    fraction: { ...SEARXNG, rates: [{ requests: 0.2, per: '1s' }] },
  });
  t.same(
    engines.map(({ id }) => id),
    ['good'],
  );
  t.strictSame(mistakes, [
    { path: 'search.engines.nothing', message: 'must be a mapping with a kind' },
    { path: 'search.engines.kindless', message: 'needs a kind' },
    { path: 'search.engines.weightless', message: 'weight must be above 0' },
    { path: 'search.engines.endless', message: 'hedge must be a duration, such as 250ms, 5s or 2m' },
    { path: 'search.engines.unlimited', message: 'rates must be a list of at most 4 limits' },
    { path: 'search.engines.fraction', message: 'rates.requests must be at least 1: write a longer per' },
  ]);
});

t.test('has places for 64 engines', async (t) => {
  const entries = Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`e${i}`, SEARXNG]));
  const { engines, mistakes } = configure(entries);
  t.equal(engines.length, 64);
  t.strictSame(mistakes, [{ path: 'search.engines.e64', message: 'exceeds the maximum of 64 engines' }]);
});
