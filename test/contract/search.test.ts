// Search and fetch over every server adapter (docs/interface.md): fields of results by type, defaults, meta, late engines, clients
// that disconnect.

import t from 'tap';
import type { EngineHit, InProcessEngine, SearchType } from '../../src/index.ts';
import { SERVER_ADAPTERS, GOOD, onEach, SOCKETS } from '../support/server-adapter.ts';
import { encode } from '../support/server-adapter-wire.ts';

const HIT: EngineHit = {
  title: 'Weirs',
  url: 'https://millrace.example/weirs',
  snippet: 'A low wall',
  publishedAt: '2026-11-20',
  source: 'The Millrace',
  thumbnailUrl: 'https://millrace.example/t.png',
  imageUrl: 'https://millrace.example/i.png',
  width: 640,
  height: 480,
};

/** Searches that engines have begun and not ended. */
let under = 0;
let abandoned: (() => void) | null = null;

function engine(types: readonly SearchType[], search: InProcessEngine['search']): InProcessEngine {
  return { kind: 'test', documentation: 'https://example.com/', types, search };
}

const finds = (types: readonly SearchType[]): InProcessEngine => engine(types, () => Promise.resolve([HIT]));

const hangs: InProcessEngine = engine(['web'], (_, signal) => {
  under++;
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => {
      under--;
      abandoned?.();
      reject(signal.reason as Error);
    });
  });
});

/** The matrix of the default engines: a, b web news images; c, d web; e web academic. */
const ENGINES = {
  engine_a: finds(['web', 'news', 'images']),
  engine_b: finds(['web', 'news', 'images']),
  engine_c: finds(['web']),
  engine_e: finds(['web', 'academic']),
  slow: hangs,
};

const SETTINGS = { search: { timeout: '300ms', engines: ENGINES } };

interface Answered {
  readonly results: Record<string, unknown>[];
  readonly meta: Record<string, unknown>;
}

const request = (body: object): { path: string; headers: Record<string, string>; body: object } => ({
  path: '/search',
  headers: { ...GOOD },
  body,
});

const ALWAYS = ['engine', 'found_in', 'rank', 'search_type', 'snippet', 'title', 'url'];

onEach(
  t,
  SERVER_ADAPTERS,
  'results have the fields of their type and no others',
  async (t, { ask }) => {
    const fieldsOf = async (type: SearchType, engines: string[]): Promise<string[]> => {
      const answer = (await ask(request({ query: 'weir', search_type: type, engines }))).json<Answered>();
      t.equal(answer.results.length, 1, type);
      t.match(answer.results[0], { engine: engines[0], rank: 1, found_in: engines, search_type: type });
      return Object.keys(answer.results[0] ?? {}).sort();
    };
    t.same(await fieldsOf('web', ['engine_a', 'engine_b']), ALWAYS);
    t.same(await fieldsOf('news', ['engine_a', 'engine_b']), [...ALWAYS, 'published_at', 'source'].sort());
    t.same(
      await fieldsOf('images', ['engine_a', 'engine_b']),
      [...ALWAYS, 'height', 'image_url', 'thumbnail_url', 'width'].sort(),
    );
    t.same(await fieldsOf('academic', ['engine_e']), ALWAYS);
  },
  SETTINGS,
);

onEach(
  t,
  SERVER_ADAPTERS,
  'defaults are three engines, web and ten results; meta names who was used',
  async (t, { ask }) => {
    const answer = await ask(request({ query: 'weir' }));
    t.equal(answer.status, 200);
    const { meta, results } = answer.json<Answered>();
    t.match(results, [{ found_in: ['engine_a', 'engine_b', 'engine_c'], search_type: 'web' }]);
    t.ok(Number.isInteger(meta['duration_ms']));
    t.same(
      { ...meta, duration_ms: 0 },
      { duration_ms: 0, engines_used: ['engine_a', 'engine_b', 'engine_c'], engines_failed: [], engine_errors: [] },
    );
  },
  SETTINGS,
);

onEach(
  t,
  SERVER_ADAPTERS,
  'each engine that gives nothing is named with its reason, the others answer',
  async (t, { ask }) => {
    const engines = ['engine_c', 'engine_a', 'engine_d', 'slow'];
    const { meta, results } = (await ask(request({ query: 'weir', engines }))).json<Answered>();
    t.equal(results.length, 1);
    t.match(meta, {
      engines_used: ['engine_c', 'engine_a'],
      engines_failed: ['engine_d', 'slow'],
      engine_errors: [
        { engine: 'engine_d', reason: 'not configured' },
        { engine: 'slow', reason: 'timeout' },
      ],
    });
    const tookMs = Number(meta['duration_ms']);
    t.ok(tookMs >= 299 && tookMs < 2000, `at the deadline, as far as the machine lets it: ${tookMs}`);
    const academic = (
      await ask(request({ query: 'x', search_type: 'academic', engines: ['engine_a', 'engine_e'] }))
    ).json<Answered>();
    t.match(academic.meta, { engine_errors: [{ engine: 'engine_a', reason: "unsupported search_type 'academic'" }] });
  },
  SETTINGS,
);

onEach(
  t,
  SERVER_ADAPTERS,
  'all failed is 503 with a detail, a hint when to come again, and a code',
  async (t, { ask }) => {
    const answer = await ask(request({ query: 'weir', engines: ['engine_d'] }));
    t.equal(answer.status, 503);
    t.same(answer.json(), { detail: 'All search engines failed' });
    t.match(answer.headers, {
      'x-headrace-error': 'HR_SEARCH_ALL_FAILED',
      'retry-after': /^\d+$/,
      'x-request-id': /./,
    });
  },
  SETTINGS,
);

onEach(t, SERVER_ADAPTERS, 'search and fetch are POST', async (t, { ask }) => {
  for (const path of ['/search', '/search/fetch']) {
    const answer = await ask({ method: 'DELETE', path, headers: { ...GOOD } });
    t.match(answer, { status: 405, headers: { allow: /POST/ } });
  }
});

onEach(
  t,
  SOCKETS,
  'a client that leaves takes its calls along',
  async (t, { dial }) => {
    const gone = new Promise<void>((resolve) => (abandoned = resolve));
    const wire = dial();
    await wire.send(encode({ method: 'POST', ...request({ query: `left ${performance.now()}`, engines: ['slow'] }) }));
    while (under === 0) await new Promise((resolve) => setImmediate(resolve));
    wire.leave();
    await gone;
    t.equal(under, 0);
  },
  { search: { timeout: '30s', engines: ENGINES } },
);

onEach(t, SERVER_ADAPTERS, 'a fetch is refused with the documented messages', async (t, { ask }) => {
  const fetched = (body: object, headers: Record<string, string> = { ...GOOD }): ReturnType<typeof ask> =>
    ask({ path: '/search/fetch', headers, body });
  const invalid = await fetched({ url: 'ftp://example.com/' });
  t.equal(invalid.status, 422);
  t.same(invalid.json(), {
    detail: [{ loc: ['body', 'url'], msg: "URL scheme should be 'http' or 'https'", type: 'url_scheme' }],
  });
  const blocked = await fetched({ url: 'http://127.0.0.1/' });
  t.match(blocked, { status: 400, headers: { 'x-headrace-error': 'HR_FETCH_BLOCKED' } });
  t.same(Object.keys(blocked.json<object>()), ['detail']);
  t.equal((await fetched({ url: 'http://127.0.0.1/' }, {})).status, 401);
});
