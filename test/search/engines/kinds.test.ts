import t from 'tap';
import { createEngine, ENGINE_KINDS } from '../../../src/search/engines/kinds.ts';

/** The least each kind needs. */
const LEAST: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  worker: { url: 'http://127.0.0.1:9101' },
  searxng: { url: 'http://127.0.0.1:8888' },
  local: { path: 'test' },
  module: { path: 'docs/examples/search-engine/catalogue.js' },
  ...Object.fromEntries(
    ['brave', 'serper', 'tavily', 'exa', 'mojeek', 'marginalia'].map((kind) => [kind, { apiKey: 'k' }]),
  ),
};

t.test('there are seventeen kinds, each makes an engine of its own name', async (t) => {
  t.equal(Object.keys(ENGINE_KINDS).length, 17);
  for (const kind of Object.keys(ENGINE_KINDS)) {
    const options = kind === 'module' ? { options: { url: 'http://127.0.0.1:9300' } } : {};
    const engine = createEngine(kind, { ...LEAST[kind], ...options });
    t.equal(engine.kind, kind === 'module' ? 'catalogue' : kind);
    t.ok(engine.types.length > 0);
  }
});

t.test('every kind refuses to be made without what it needs', async (t) => {
  for (const [kind, least] of Object.entries(LEAST)) {
    for (const name of Object.keys(least)) {
      t.throws(() => createEngine(kind), { message: `${kind} needs ${name}` });
      t.throws(() => createEngine(kind, { ...least, [name]: '' }), { message: new RegExp(`^${name} must `) });
    }
  }
  t.throws(() => createEngine('local', { path: '.', baseUrl: 'docs' }), { message: /^baseUrl must be a URL/ });
  t.throws(() => createEngine('local', { path: '.', baseUrl: 'file:///docs' }), { message: /^baseUrl must be a URL/ });
});

t.test('settings reach the factory as the program uses them', async (t) => {
  const query = { query: 'x', type: 'web', maxResults: 1 } as const;
  const requestOf = (kind: string, settings: Record<string, unknown>): string => {
    const engine = createEngine(kind, settings);
    return 'request' in engine ? JSON.stringify(engine.request(query, undefined)) : '';
  };
  t.match(requestOf('wikipedia', { language: 'de', url: 'http://proxy.example/' }), '"http://proxy.example/w/api.php?');
  t.match(requestOf('brave', { apiKey: 'my-key' }), 'my-key');
  t.match(requestOf('searxng', { url: 'http://s.example', engines: ['bing', 'qwant'] }), 'bing%2Cqwant');
  t.same(createEngine('worker', { url: 'http://w.example', types: ['web', 'news'] }).types, ['web', 'news']);
  t.doesNotThrow(() => createEngine('local', { path: 'test', maxBytes: '1MB', rescan: '5s', maxFiles: 10 }));
});

t.test('a base URL may end with a slash, and has no query', async (t) => {
  for (const [kind, { settings }] of Object.entries(ENGINE_KINDS)) {
    if (!('url' in settings)) continue;
    const urlOf = (url: string): string => {
      const engine = createEngine(kind, { ...LEAST[kind], url });
      const [type = 'web'] = engine.types;
      return 'request' in engine ? engine.request({ query: 'x', type, maxResults: 1 }, undefined).url : '';
    };
    t.equal(urlOf('https://proxy.example/api/'), urlOf('https://proxy.example/api'), kind);
    t.throws(() => urlOf('https://proxy.example/?key=1'), { message: 'url must be a base URL without a query (?)' });
  }
});

t.test('every setting has a sentence and every key is a secret', async (t) => {
  for (const { settings } of Object.values(ENGINE_KINDS)) {
    for (const [name, setting] of Object.entries(settings)) {
      t.match(setting.sentence, /^[A-Z].*\.$/);
      t.equal(setting.secret === true, ['apiKey', 'secret', 'options'].includes(name), name);
      t.ok(['required', 'optional'].includes(setting.presence), name);
    }
  }
});

t.test('mistakes are named, their values are not', async (t) => {
  const message = (kind: string, settings: Record<string, unknown>): string => {
    try {
      createEngine(kind, settings);
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  };
  t.match(message('bing', {}), /^is of an unknown kind; the kinds are worker, local, .*pubmed$/);
  t.match(message('toString', {}), /unknown kind/);
  t.match(message('__proto__', {}), /unknown kind/);
  t.equal(message('brave', { apikey: 'hunter2' }), 'apikey is no setting of brave; did you mean apiKey?');
  t.equal(message('arxiv', { token: 'hunter2' }), 'token is no setting of arxiv; it takes url');
  t.equal(message('brave', { apiKey: 'hunter 2' }), 'apiKey must be visible ASCII characters without spaces');
  t.equal(message('worker', { url: 'hunter2' }), 'url must be a URL that begins with http:// or https://');
  t.equal(message('wikipedia', { language: 'evil.example/' }), 'language must be a language code, such as en');
  t.equal(message('local', { path: 'x', maxFiles: 0 }), 'maxFiles must be at least 1');
  t.equal(message('searxng', { url: 'http://s.example', engines: 'bing' }), 'engines must be a list');
  t.equal(
    message('worker', { url: 'http://w.example', types: ['web', 'video'] }),
    'types[1] must be one of web, news, images, academic',
  );
  t.match(message('crossref', { contact: 'a\r\nb' }), /^contact must be/);
});
