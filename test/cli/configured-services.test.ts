// `headrace check --probe` on real sockets: everything that a configuration can name and that can be wrong with it.

import { zoneServer } from '../support/dns.ts';
import { once } from 'node:events';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import type { Finding } from '../../src/cli/configured-services.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { CERTIFICATE, KEY } from '../support/certificate.ts';
import { runCli } from '../support/cli.ts';
import { serving } from '../support/serving.ts';
import { MODEL, startHosts } from '../support/system.ts';

async function listening(t: Test, server: ReturnType<typeof createServer>): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => undefined)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Checked {
  readonly code: number | null;
  readonly findings: readonly Finding[];
  readonly ok: boolean;
}

async function checked(
  t: Test,
  settings: SettingsInput,
  files: Readonly<Record<string, string>> = {},
): Promise<Checked> {
  const file = `${t.testdir({ ...files, 'headrace.json': JSON.stringify({ store: null, ...settings }) })}/headrace.json`;
  const cli = await runCli(t, ['check', '-c', file, '--probe', '--json'], { env: { HEADRACE_STORE: '' } });
  return { code: cli.exit.code, ...(JSON.parse(cli.stdout) as Omit<Checked, 'code'>) };
}

const json = (value: unknown): string => JSON.stringify(value);

t.test('a server that is as expected, and a store that a gateway will make', async (t) => {
  const [host] = await startHosts(t);
  const models = { [MODEL]: { servers: [host?.url ?? ''] } };
  const { code, findings, ok } = await checked(t, { models, store: 'sqlite:./own.db' });
  t.strictSame([code, ok], [0, true], json(findings));
  t.match(findings, [
    {
      what: 'server',
      models: [MODEL],
      result: 'ok',
      found: `healthy; lists ${MODEL}; dialects chat, completions, responses, messages, llama`,
      suggestions: [],
    },
    { what: 'store', name: /^sqlite:\/.*\/own\.db$/, result: 'ok', found: 'does not exist yet: a gateway makes it' },
  ]);
  t.type(findings[0]?.latencyMs, 'number');
});

t.test('servers that are wrong, each in its own way, with what to change', async (t) => {
  const [host] = await startHosts(t);
  const origin = host?.url ?? '';
  const secure = await listening(t, createSecureServer({ cert: CERTIFICATE, key: KEY }));
  const hole = await listening(t, createServer());
  const failing = await serving(t, (_, res) => res.writeHead(500).end());
  const locked = await serving(t, (req, res) => {
    res.writeHead(req.url === '/health' ? 200 : 401).end('{}');
  });
  const other = await serving(t, (req, res) => {
    const isList = req.url === '/v1/models';
    res.writeHead(isList ? 200 : 404).end(isList ? json({ data: [{ id: 'gpt-oss' }] }) : '');
  });
  const moved = await serving(t, (_, res) => res.writeHead(302, { location: `${origin}/` }).end());
  const expected: readonly [server: string, found: RegExp, suggestion: RegExp | null][] = [
    [
      `${origin}/v1`,
      /^404 at \/v1\/health; no model list: 404 at \/v1\/v1\/models/,
      /^remove \/v1: the server answers at /,
    ],
    [`${origin}/api/`, /^404 at \/api\/health/, /^remove \/api: /],
    ['http://127.0.0.1:1', /^connection refused$/, null],
    [`http://${hole}`, /^timeout after 2 s$/, null],
    ['http://nowhere.invalid', /^name not found$/, null],
    [`https://${secure}`, /^TLS certificate is self-signed$/, null],
    [`http://${secure}`, /^(?:connection closed without an answer|answer is not HTTP)$/, /^write https: /],
    [origin.replace('http:', 'https:'), /^no TLS at this port$/, /^write http: /],
    [failing, /^500 at \/health; no model list: 500 at \/v1\/models$/, null],
    [moved, /^302 at \/health; no model list: 302 at \/v1\/models$/, null],
    [locked, /^healthy; 401 at \/v1\/models: the server wants a key/, /^set apiKey/],
    [other, /^404 at \/health; lists gpt-oss; does not list m; knows the path of no dialect$/, /gpt-oss/],
  ];
  const { code, findings, ok } = await checked(t, { models: { m: { servers: expected.map(([server]) => server) } } });
  t.strictSame([code, ok], [1, false]);
  for (const [at, [server, found, suggestion]] of expected.entries()) {
    const finding = findings[at];
    t.match(finding, { what: 'server', result: 'wrong', found }, server);
    if (suggestion === null) t.same(finding?.suggestions, [], server);
    else
      t.ok(
        finding?.suggestions.some((text) => suggestion.test(text)),
        `${server}: ${finding?.suggestions.join()}`,
      );
  }
});

t.test('a server with several keys is asked with each of them', async (t) => {
  const url = await serving(t, (req, res) => {
    const isAllowed = req.url === '/health' || ['Bearer a', 'Bearer b'].includes(req.headers.authorization ?? '');
    res.writeHead(isAllowed ? 200 : 401).end(json({ data: [{ id: 'm1' }, { id: 'm2' }, { id: 'm3' }, { id: 'm4' }] }));
  });
  const models = {
    m1: { servers: [{ url, apiKey: 'a' }] },
    m2: { servers: [url], apiKey: 'wrong' },
    m3: { servers: [{ url, apiKey: 'b', dialects: ['chat' as const] }] },
    m4: { servers: [url], apiKey: 'a' },
  };
  const { code, findings } = await checked(t, { models });
  t.equal(code, 1);
  t.match(
    findings.map(({ models, name, result }) => [name, models, result]),
    [
      [url, ['m1', 'm4'], 'ok'],
      [url, ['m2'], 'wrong'],
      [url, ['m3'], 'ok'],
    ],
  );
  t.match(findings[1], { found: /^healthy; 401 at \/v1\/models: / });
  const text = await runCli(t, ['check', '-c', `${t.testdirName}/headrace.json`, '--probe']);
  t.match(text.stdout, /^server +http:\S+ for m1, m4 +ok /m, 'the lines of one URL say which models they are about');
  t.match(text.stdout, /^ {2}http:\S+ for m2: check its apiKey$/m);
});

t.test('search engines are searched where that costs nothing', async (t) => {
  let searches = 0;
  const searxng = await serving(t, (req, res) => {
    if (req.url?.startsWith('/search') === true) searches++;
    res.end(json({ results: [{ title: 'Water', url: 'https://a.example/', content: 'wet' }] }));
  });
  const worker = await serving(t, (req, res) => res.writeHead(req.url === '/health' ? 200 : 500).end());
  const broken = await serving(t, (_, res) => res.writeHead(503).end());
  const own = `export const createEngine = ({ url }) => ({ kind: 'own', types: ['web'],
    request() { if (url === 'none') throw new Error('secret'); return { method: 'GET', url: url + '/search', headers: {} }; },
    parse: ({ body }) => ({ hits: JSON.parse(body).results }) });`;
  const engines = {
    engine_a: { kind: 'worker', url: worker },
    engine_b: { kind: 'searxng', url: searxng },
    engine_c: { kind: 'searxng', url: broken },
    engine_d: { kind: 'worker', url: 'http://127.0.0.1:1' },
    engine_e: { kind: 'local', path: './nowhere' },
    own: { kind: 'module', path: './own.mjs', options: { url: searxng } },
    own_wrong: { kind: 'module', path: './own.mjs', options: { url: 'none' } },
  };
  const { code, findings } = await checked(t, { search: { engines } }, { 'own.mjs': own });
  t.equal(code, 1);
  t.equal(searches, 2);
  t.match(findings, [
    {
      what: 'search engine',
      name: 'engine_a (worker)',
      result: 'ok',
      found: 'healthy; a search may cost, so the secret was not tried',
    },
    { name: 'engine_b (searxng)', result: 'ok', found: 'a search had 1 hit' },
    { name: 'engine_c (searxng)', result: 'wrong', found: /503/ },
    { name: 'engine_d (worker)', result: 'wrong', found: 'connection refused' },
    { name: 'engine_e (local)', result: 'wrong', found: /^the folder \/.*\/nowhere cannot be read$/ },
    { name: 'own (own)', result: 'ok', found: 'a search had 1 hit' },
    { name: 'own_wrong (own)', result: 'wrong', found: 'invalid response' },
  ]);
});

t.test('discovery, a store that is none, and the facilitator with its headers', async (t) => {
  const map = await serving(t, (_, res) =>
    res.end(json({ m: { servers: ['http://10.0.0.1:1', 'http://10.0.0.2:1'] } })),
  );
  const facilitator = await serving(t, (req, res) => {
    const isAllowed = req.url === '/supported' && req.headers['x-api-key'] === 'secret';
    res.writeHead(isAllowed ? 200 : 401).end(json({ kinds: [{ scheme: 'exact', network: 'base' }] }));
  });
  const payments = { facilitator, payTo: `0x${'1'.repeat(40)}`, facilitatorHeaders: { 'X-Api-Key': 'secret' } };
  const { findings } = await checked(
    t,
    { discovery: `${map}/svc/models?token=secret`, payments, store: 'sqlite:./no.db' },
    { 'no.db': 'this is a text, and long enough to be read, but no database at all' },
  );
  t.match(findings, [
    { what: 'discovery', result: 'ok', found: '1 model on 2 servers' },
    { what: 'store', result: 'wrong' },
    { what: 'facilitator', result: 'ok', found: 'supports base' },
  ]);
  t.notMatch(json(findings), /secret/);
  const wrong = await checked(t, {
    discovery: `${facilitator}/x`,
    payments: { ...payments, network: 'base-sepolia' },
    store: 'sqlite::memory:',
  });
  t.match(wrong.findings, [
    { what: 'discovery', result: 'wrong', found: '401 at /x' },
    { what: 'store' },
    { what: 'facilitator', result: 'wrong', found: 'does not list base-sepolia' },
  ]);
});

t.test('what a server lists is cut, and nothing that a terminal would obey', async (t) => {
  const hostile = await serving(t, (_, res) =>
    res.end(json({ data: [{ id: `\u001b[31mred\nSuggestions` }, { id: 'x'.repeat(50_000) }] })),
  );
  const file = `${t.testdir({ 'headrace.json': json({ store: null, models: { m: { servers: [hostile] } } }) })}/headrace.json`;
  const { stdout } = await runCli(t, ['check', '-c', file, '--probe'], { env: { HEADRACE_STORE: '' } });
  t.notMatch(stdout, '\u001b');
  t.match(stdout, /name the model as the server does: \?\[31mred\?Suggestions, x{100}…\n/);
  const init = await runCli(t, ['init', '--yes', '--server', hostile, '--config', `${t.testdir({})}/headrace.yaml`]);
  t.notMatch(init.stdout.slice(0, init.stdout.indexOf('Wrote ')), '\u001b');
});

t.test('as a table for people, with suggestions below', async (t) => {
  const [host] = await startHosts(t);
  const file = `${t.testdir({ 'headrace.json': json({ store: null, models: { [MODEL]: { servers: [`${host?.url}/v1`] } } }) })}/headrace.json`;
  const { exit, stdout } = await runCli(t, ['check', '-c', file, '--probe'], { env: { HEADRACE_STORE: '' } });
  t.equal(exit.code, 1);
  t.match(stdout, /^ {2}store +none: no accounts, no credit$/m);
  t.match(stdout, /ends in \/v1, to which paths such as \/v1\/chat\/completions are added: leave \/v1 out/);
  t.match(stdout, /^server +http:\S+\/v1 +wrong +\d+ ms +404 at \/v1\/health;/m);
  t.match(stdout, /^Suggestions\n {2}http:\S+: remove \/v1: the server answers at http/m);
  t.match(stdout, /\n1 of 1 is wrong\.\n$/);
});

t.test('mistakes as JSON; nothing is asked then', async (t) => {
  const file = `${t.testdir({ 'headrace.json': json({ timeouts: { idle: 60 } }) })}/headrace.json`;
  const { exit, stdout } = await runCli(t, ['check', '-c', file, '--probe', '--json']);
  t.equal(exit.code, 1);
  t.match(JSON.parse(stdout), { ok: false, mistakes: [{ path: 'timeouts.idle' }], findings: [] });
});

t.test('sources of servers are asked once', async (t) => {
  const name = await zoneServer(t);
  name.zone.set('vllm.example', [
    { type: 'A', data: '10.0.0.1' },
    { type: 'A', data: '10.0.0.2' },
  ]);
  const dns = { kind: 'dns', name: 'vllm.example', port: 8000, model: 'm', nameServers: [name.address] } as const;
  const { findings } = await checked(t, {
    discovery: [dns, { ...dns, name: 'none.example' }, { kind: 'file', path: '/does/not/exist' }],
    store: null,
  });
  t.match(findings, [
    { what: 'discovery', name: 'dns vllm.example:8000', result: 'ok', found: '1 model on 2 servers' },
    { name: 'dns none.example:8000', result: 'wrong', found: '0 models on 0 servers; none.example has no records' },
    { name: 'file /does/not/exist', result: 'wrong', found: /ENOENT/, latencyMs: null },
  ]);
});
