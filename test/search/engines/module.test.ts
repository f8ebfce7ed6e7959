// Engines of kind `module`: what is a mistake when a module is checked, and that whatever it does later is a failure of the engine.
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { createGateway } from '../../../src/index.ts';
import { BufferedClient } from '../../../src/net/buffered-client.ts';
import { type Engine, EngineError, type HttpEngine, type InProcessEngine } from '../../../src/search/engine.ts';
import { checkModule, moduleEngine, moduleOf } from '../../../src/search/engines/module.ts';
import { readOptions } from '../../../src/search/engines/module-options.ts';
import { site } from '../../support/site.ts';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const TEMPLATE = `${ROOT}docs/examples/search-engine/catalogue.js`;
const QUERY = { query: 'weir', type: 'web', maxResults: 10 } as const;
const CONTEXT = { query: QUERY, state: undefined, collected: 0, nowMs: 0 };

function file(t: Test, text: string, name = 'engine.mjs'): string {
  return `${t.testdir({ [name]: text })}/${name}`;
}

/** A module whose engine has these members beside those that every engine has. */
function engineText(members: string): string {
  return `export const createEngine = () => ({ kind: 'own', documentation: '', types: ['web'], ${members} });`;
}

async function loaded<Kind extends Engine>(t: Test, members: string): Promise<Kind> {
  const engine = moduleEngine({ path: file(t, engineText(members)) });
  await engine.ready;
  return engine as Kind;
}

function mistakeOf(path: string, options?: Record<string, unknown>, timeoutMs?: number): string {
  try {
    checkModule({ path, ...(options === undefined ? {} : { options }) }, timeoutMs);
    return '';
  } catch (error) {
    return (error as Error).message.replace(path, 'FILE');
  }
}

t.test('names the file and what is wrong with it', async (t) => {
  const mistake = (text: string): string => mistakeOf(file(t, text));
  t.equal(mistakeOf('/does/not/exist.js'), 'path FILE does not exist');
  t.match(mistake('\nexport const a = ;'), /^path FILE cannot be loaded: Unexpected token ';' \(line 2\)$/);
  t.equal(mistake("throw new Error('no licence');"), 'path FILE cannot be loaded: no licence');
  t.match(mistake("import './gone.js';"), /^path FILE cannot be loaded: Cannot find module/);
  t.equal(mistake('export const a = 1;'), 'path FILE exports no function createEngine');
  t.equal(
    mistake("export const createEngine = () => { throw new Error('needs a key'); };"),
    'path FILE refuses its options: needs a key',
  );
  t.match(mistake('export const createEngine = () => null;'), /^path FILE makes no engine:/);
  t.match(mistake(engineText('')), /makes no engine:/);
  t.match(mistake(engineText("search() {}, types: ['video']")), /whose types are not a list of web, news/);
  t.match(mistake(engineText('search() {}, concurrency: 0.5')), /whose concurrency is no whole number/);
  t.match(mistake(engineText('search() {}, rates: [{ requests: 1 }]')), /whose rates are not a list/);
  t.match(mistake('process.exit(3);'), /^path FILE ended its thread; a module must do nothing while it is loaded$/);
  t.match(mistake('await new Promise(() => {});'), /^path FILE ended its thread/);
  t.match(mistakeOf(file(t, 'for (;;);'), {}, 300), /^path FILE was not loaded within 0.3 s/);
});

t.test('a check leaves no listener at the output of the process', async (t) => {
  const counts = (): number[] => [process.stdout, process.stderr].map((stream) => stream.listenerCount('error'));
  const before = counts();
  checkModule({ path: file(t, engineText('search() {}')) });
  t.same(counts(), before);
});

t.test('takes CommonJS and TypeScript modules', async (t) => {
  const common = file(
    t,
    "exports.createEngine = () => ({ kind: 'c', types: ['web'], search: async () => [] });",
    'e.cjs',
  );
  t.match(checkModule({ path: common }), { kind: 'c', documentation: '', isHttp: false });
  const typed = file(
    t,
    "export const createEngine = (_: unknown) => ({ kind: 't', types: ['web'] as const, search: async () => [] });",
    'e.ts',
  );
  t.match(checkModule({ path: typed }), { kind: 't' });
});

t.test('checks options by their declaration', async (t) => {
  const declared = {
    url: { type: 'url', required: true },
    mode: { type: 'string', oneOf: ['fast', 'deep'] },
    pages: { type: 'integer', min: 1, max: 5 },
    wait: { type: 'duration' },
    names: { type: 'strings' },
    strict: { type: 'boolean' },
  } as const;
  const url = 'http://a.example/';
  t.same(readOptions(declared, { url, mode: 'deep', pages: 2, wait: '500ms', names: ['a'], strict: true }), {
    ...{ url: 'http://a.example', mode: 'deep', pages: 2, wait: 500, names: ['a'], strict: true },
  });
  const mistake = (options: unknown): string => {
    try {
      readOptions(declared, options);
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  };
  for (const [written, given] of [
    ['http://a.example/api/', 'http://a.example/api'],
    ['http://a.example/api/?key=/', 'http://a.example/api/?key=/'],
  ] as const)
    t.equal(readOptions(declared, { url: written })['url'], given);
  t.equal(mistake({}), 'needs option url');
  t.equal(mistake({ url, mod: 'fast' }), 'has no option mod; did you mean mode?');
  t.equal(mistake({ url, mode: 'slow' }), 'option mode must be one of fast, deep');
  t.match(mistake({ url, pages: 9 }), /^option pages must be at most 5/);
  t.equal(mistake({ url, names: ['a', ''] }), 'option names[1] must not be empty');
  t.equal(mistake([]), 'options must be a mapping of names to values');
  t.same(readOptions(undefined, { anything: 1 }), { anything: 1 });
  t.match(mistakeOf(TEMPLATE, { url: 'x' }), /^path FILE option url must be a URL/);
});

t.test('what a module throws is a failure of the engine, without its words', async (t) => {
  const http = await loaded<HttpEngine>(
    t,
    `request() { throw new Error('secret'); }, parse({ status }) {
      if (status === 200) return null;
      if (status === 201) return { hits: [new Proxy({}, { get() { throw new Error('secret'); } })] };
      throw Object.assign(new Error('secret'), { name: 'EngineError', failure: 'rate limited', retryAfterMs: 7 });
    }`,
  );
  const parse = (status: number) => (): unknown => http.parse({ status, headers: {}, body: Buffer.alloc(0) }, CONTEXT);
  const invalid = { failure: 'invalid', message: 'invalid response' } as const;
  t.throws(() => http.request(QUERY, undefined), invalid);
  t.throws(parse(200), invalid);
  t.throws(parse(201), invalid);
  t.throws(parse(429), { retryAfterMs: 7, message: 'rate limited' });
  const own = await loaded<InProcessEngine>(t, `async search() { return 'garbage'; }`);
  await t.rejects(own.search(QUERY, new AbortController().signal), invalid);
  const tools = file(
    t,
    'export const createEngine = (_, { EngineError }) => ({ kind: "o", types: ["web"], async search() { throw new EngineError("quota"); } });',
  );
  const engine = moduleEngine({ path: tools }) as InProcessEngine;
  await t.rejects(engine.search(QUERY, new AbortController().signal), { message: 'quota exceeded' });
  await t.rejects(engine.search(QUERY, new AbortController().signal), EngineError);
});

t.test('is asked whether it has a page, and told whose search it is', async (t) => {
  const engine = await loaded<HttpEngine>(
    t,
    `reaches: ({ page }) => page < 3,
     request: (_, state, account) => ({ method: 'GET', url: 'http://a/' + account, headers: {} }), parse() {}`,
  );
  t.same([engine.reaches?.({ ...QUERY, page: 2 }), engine.reaches?.({ ...QUERY, page: 3 })], [true, false]);
  t.equal(engine.request(QUERY, undefined, 'me').url, 'http://a/me');
  const other = await loaded<HttpEngine>(t, 'request() {}, parse() {}');
  t.equal(other.reaches?.({ ...QUERY, page: 9 }), true, 'one that does not say has all pages');
});

t.test('hits become plain data with clean text', async (t) => {
  const engine = await loaded<InProcessEngine>(
    t,
    `async search() { return [
      { title: '<b>A</b>', url: 'https://a.example/', snippet: 7, publishedAt: '2 May 2026', toJSON() { throw new Error(); } },
      { title: 'no address', url: 'javascript:alert(1)' }, null, 'x',
      ...Array.from({ length: 1000 }, (_, at) => ({ title: 'n', url: 'https://a.example/' + at, snippet: '' })),
    ]; }`,
  );
  const hits = await engine.search(QUERY, new AbortController().signal);
  t.same(hits[0], { title: 'A', url: 'https://a.example/', snippet: '', publishedAt: '2026-05-02' });
  t.ok(hits.length <= 10);
});

t.test('names the module behind an error of its own', async (t) => {
  const engine = await loaded<InProcessEngine>(t, 'async search() { throw new Error(); }');
  await t.rejects(engine.search(QUERY, new AbortController().signal));
  const error = new Error('x');
  error.stack = 'Error: x\n    at f (file:///etc/own.js?headrace-engine=1:2:3)\n    at g (node:timers:1:1)';
  t.equal(moduleOf(error), 'file:///etc/own.js');
  error.stack = 'Error: x\n    at g (file:///etc/other.js:1:1)\n    at f (file:///etc/own.js?headrace-engine=1:2:3)';
  t.equal(moduleOf(error), undefined);
  error.stack =
    'SyntaxError: x\n    at JSON.parse (<anonymous>)\n    at node:internal/a:1:1\n    at f (file:///etc/own.js?headrace-engine=1:2:3)\n    at g (file:///etc/other.js:1:1)';
  t.equal(moduleOf(error), 'file:///etc/own.js', 'below functions of the language');
  t.equal(moduleOf(Object.assign(new Error('x'), { stack: 5 })), undefined);
  t.equal(moduleOf('x'), undefined);
});

t.test('the template passes its own test and its types are right', async (t) => {
  const run = promisify(execFile);
  const folder = `${ROOT}docs/examples/search-engine`;
  await run(process.execPath, ['--test', `${folder}/catalogue.test.js`], { cwd: folder, env: {} });
  const config = {
    compilerOptions: {
      ...{ module: 'nodenext', target: 'es2024', lib: ['es2024'], strict: true, noEmit: true, skipLibCheck: true },
      ...{ allowJs: true, checkJs: true, types: ['node'], typeRoots: [`${ROOT}node_modules/@types`] },
      paths: { headrace: [`${ROOT}dist/src/index.d.ts`] },
    },
    files: [TEMPLATE, 'example.ts'],
  };
  // The example in TypeScript of the documentation, as it stands there.
  const page = readFileSync(`${ROOT}docs/search-engines.md`, 'utf8');
  const example = /```ts\n(import type \{ Engine,[^]*?)```/.exec(page)?.[1] ?? '';
  t.match(example, /export function createEngine/);
  const project = t.testdir({ 'tsconfig.json': JSON.stringify(config), 'example.ts': example });
  // Not by its command, whose name has no extension: with the hooks of the test runner Node.js 26 cannot load that.
  const check = async (): Promise<unknown> =>
    run(process.execPath, [`${ROOT}node_modules/typescript/lib/tsc.js`, '-p', project], { env: {} });
  await check();
  const wrong = example.replace("types: ['web']", "types: ['video']");
  writeFileSync(`${project}/example.ts`, wrong);
  const refusal = await check().catch(({ stdout }: { stdout: string }) => stdout);
  t.match(refusal, /video/);
});

t.test('runs in a gateway, takes over a changed file at a reload, and refuses a broken one', async (t) => {
  const { origin } = await site(t, {
    '/find': (_, response) =>
      response
        .writeHead(200)
        .end(JSON.stringify({ items: [{ name: 'Weirs', link: 'https://millrace.example/w', about: 'A wall.' }] })),
  });
  const own = (title: string): string =>
    engineText(`async search() { return [{ title: '${title}', url: 'https://own.example/', snippet: '' }]; }`);
  const folder = t.testdir({
    'own.mjs': own('one'),
    'hanging.mjs': engineText('search: () => new Promise(() => {})'),
  });
  const path = `${folder}/own.mjs`;
  const settings = {
    search: {
      timeout: '2s',
      engines: {
        catalogue: { kind: 'module', path: TEMPLATE, options: { url: origin } },
        own: { kind: 'module', path },
        hanging: { kind: 'module', path: `${folder}/hanging.mjs` },
      },
    },
  };
  const gateway = createGateway(settings);
  t.teardown(() => gateway.close());
  const titles = async (): Promise<string[]> =>
    (await gateway.search({ query: 'weir', engines: ['catalogue', 'own'] })).results.map(({ title }) => title);
  t.strictSame(await titles(), ['Weirs', 'one']);
  writeFileSync(path, own('two'));
  t.strictSame(await titles(), ['Weirs', 'one'], 'until a reload');
  t.strictSame(gateway.reload(settings).applied, ['search.engines.own']);
  t.strictSame(await titles(), ['Weirs', 'two']);
  writeFileSync(path, 'export const a = ;');
  t.throws(() => gateway.reload(settings), /search\.engines\.own.*cannot be loaded/s);
  t.strictSame(await titles(), ['Weirs', 'two'], 'the running one stays');
  const { meta, results } = await gateway.search({ query: 'weir', engines: ['hanging', 'own'] });
  t.match(meta, { engines_used: ['own'], engine_errors: [{ engine: 'hanging', reason: 'timeout' }] });
  t.equal(results.length, 1);
  const failed = gateway.search({ query: 'mill', engines: ['hanging'] });
  await t.rejects(failed, { code: 'HR_SEARCH_ALL_FAILED', cause: { message: 'hanging: timeout' } });
});

t.test('what a module throws on its own costs a thread nothing', async (t) => {
  const folder = t.testdir({
    'own.mjs': engineText(`async search({ query }) {
      if (query === 'throw') setImmediate(() => { throw new Error('on its own'); });
      if (query === 'reject') void Promise.reject(new Error('on its own'));
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      return [{ title: query, url: 'https://own.example/', snippet: '' }];
    }`),
  });
  const gateway = createGateway({
    threads: 1,
    listen: '127.0.0.1:0',
    log: { level: 'silent' },
    keys: { static: [{ key: 'hr_test', account: 'a' }] },
    search: { engines: { own: { kind: 'module', path: `${folder}/own.mjs` } } },
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  const client = new BufferedClient(1);
  t.teardown(() => client.close());
  const headers = { authorization: 'Bearer hr_test', 'content-type': 'application/json' };
  for (const query of ['throw', 'reject', 'calm']) {
    const body = JSON.stringify({ query, engines: ['own'] });
    const request = { method: 'POST', url: `${url}/search`, headers, body } as const;
    const answer = await client.send(request, AbortSignal.timeout(20_000), 1e6);
    t.equal(answer.status, 200, query);
    t.match(JSON.parse(answer.body.toString()), { results: [{ title: query, engine: 'own' }] });
  }
});

t.test('a module declares its filters as data, and nothing else', async (t) => {
  const declared = "{ timeRange: { values: ['day'] }, page: {}, language: { needs: 'country', prefers: true } }";
  const engine = await loaded<InProcessEngine>(t, `search: async () => [], filters: ${declared}`);
  t.strictSame(engine.filters, {
    ...{ timeRange: { values: ['day'] }, page: {}, language: { needs: 'country', prefers: true } },
  });
  for (const wrong of [
    '5',
    '[]',
    '{ pages: {} }',
    '{ page: true }',
    "{ language: { values: 'de' } }",
    '{ page: { most: -1 } }',
  ])
    t.match(mistakeOf(file(t, engineText(`search() {}, filters: ${wrong}`))), /whose filters are not a mapping/, wrong);
  const http = await loaded<HttpEngine>(
    t,
    "request: () => ({}), parse: () => ({ hits: [], notApplied: ['language'] })",
  );
  const page = http.parse({ status: 200, headers: {}, body: Buffer.alloc(0) }, CONTEXT);
  t.strictSame([page.hits, page.notApplied], [[], ['language']]);
});

t.test('a note of a page is kept where it is a short text', async (t) => {
  const noteOf = async (note: string): Promise<unknown> => {
    const http = await loaded<HttpEngine>(t, `request: () => ({}), parse: () => ({ hits: [], note: ${note} })`);
    return http.parse({ status: 200, headers: {}, body: Buffer.alloc(0) }, CONTEXT).note;
  };
  t.equal(await noteOf("'one shard did not answer'"), 'one shard did not answer');
  for (const other of ["''", '5', '{}', "'a'.repeat(201)"]) t.equal(await noteOf(other), undefined, other);
});
