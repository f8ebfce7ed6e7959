// Runs clients of Tavily, SearXNG and Firecrawl, unmodified, through the gateway, against an engine and a site that this starts. Prints
// a table, and exits with 1 if a case fails.
//   node bench/clients/search/run.mjs --tools DIR [--install] [--frameworks]
// `--install` puts the packages into DIR: node_modules, and a virtual environment `venv`.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCommand } from '../../lib/flags.mjs';
import { useOwnNode } from '../../lib/own-node.mjs';
import { printTable } from '../../lib/report.mjs';

const KEY = 'hr_clients';
const TIMEOUT_MS = 90_000;
const TITLES = ['search', 'page', 'errors'];
const FILES = ['package.json', 'requirements.txt', 'frameworks.txt', 'javascript.mjs', 'python.py', 'frameworks.py'];
const ARTICLE = `<!doctype html><html lang="en"><head><title>On weirs</title></head><body><article><h1>On weirs</h1>
${'<p>A weir holds the river back so that the <a href="/race">headrace</a> is full in a dry month.</p>'.repeat(8)}
</article></body></html>`;

const { values: flags } = readCommand(
  'node bench/clients/search/run.mjs --tools DIR [flags]',
  'Clients of search and fetch, unmodified, through the gateway.',
  {
    tools: { type: 'word', default: '', help: 'folder for the packages of the clients' },
    install: { type: 'boolean', default: false, help: 'install the packages there first' },
    frameworks: { type: 'boolean', default: false, help: 'LangChain and LlamaIndex too' },
  },
);
if (flags.tools === '') {
  process.stderr.write('--tools DIR is wanted: the folder for the packages of the clients\n');
  process.exit(2);
}
useOwnNode(fileURLToPath(new URL('../../..', import.meta.url)));

const tools = resolve(flags.tools);
const python = join(tools, 'venv/bin/python');
mkdirSync(tools, { recursive: true });
for (const file of FILES) copyFileSync(new URL(file, import.meta.url), join(tools, file));
if (flags.install) install();

const { createGateway } = await import('../../../dist/src/gateway/gateway.js');
const site = createServer(({ url }, response) => {
  if (url.startsWith('/article')) response.writeHead(200, { 'content-type': 'text/html' }).end(ARTICLE);
  else response.writeHead(404).end();
}).listen(0, '127.0.0.1');
await once(site, 'listening');
const { port } = site.address();
const origin = `http://127.0.0.1:${port}`;
const hits = Array.from({ length: 20 }, (_, index) => ({
  title: `Title ${index}`,
  url: `${origin}/article?n=${index}`,
  snippet: `text ${index}`,
  publishedAt: new Date().toISOString(),
}));
const engine = {
  kind: 'fixed',
  documentation: 'https://example.com/',
  types: ['web', 'news'],
  search: () => Promise.resolve(hits),
};
const gateway = createGateway({
  listen: '127.0.0.1:0',
  keys: { static: [{ key: KEY, account: 'clients' }] },
  search: { default: ['engine_a'], engines: { engine_a: engine } },
  fetch: { allow: ['127.0.0.1'], ports: [port] },
  log: { level: 'silent' },
});
const { url } = await gateway.listen();

const scripts = [
  [process.execPath, 'javascript.mjs'],
  [python, 'python.py'],
  ...(flags.frameworks ? [[python, 'frameworks.py']] : []),
];
const results = (await Promise.all(scripts.map(([command, file]) => casesOf(command, file)))).flat();
await gateway.close();
site.close();

const clients = [...new Set(results.map(({ client }) => client))];
const cell = (client, title) => {
  const found = results.find((result) => result.client === client && result.title === title);
  return found === undefined ? '-' : found.error === null ? 'ok' : 'failed';
};
printTable(
  'Clients of search and fetch',
  ['client', ...TITLES],
  clients.map((client) => [client, ...TITLES.map((title) => cell(client, title))]),
);
const failures = results.filter(({ error }) => error !== null);
for (const { client, error, title } of failures) process.stdout.write(`\n${client}, ${title}: ${error}\n`);
process.exit(failures.length === 0 ? 0 : 1);

function install() {
  if (!existsSync(python)) must('python3', ['-m', 'venv', join(tools, 'venv')]);
  const wanted = ['-r', 'requirements.txt', ...(flags.frameworks ? ['-r', 'frameworks.txt'] : [])];
  must(python, ['-m', 'pip', 'install', '-q', '--disable-pip-version-check', ...wanted]);
  must('npm', ['install', '--no-audit', '--no-fund']);
}

function must(command, args) {
  const { status } = spawnSync(command, args, { cwd: tools, stdio: 'inherit' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed`);
}

/** The results of one script; one failure where it could not be run to its end. */
async function casesOf(command, file) {
  const { output, problem } = await run(command, [file]);
  const found = output
    .split('\n')
    .filter((line) => line.startsWith('{"client"'))
    .map((line) => JSON.parse(line));
  if (problem === null && found.length > 0) return found;
  return [...found, { client: file, title: 'search', error: problem ?? 'no case was run' }];
}

function run(command, args) {
  return new Promise((resolved) => {
    const env = { ...process.env, BASE_URL: url, KEY, NO_PROXY: '127.0.0.1', SITE: origin };
    const child = spawn(command, args, { cwd: tools, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let errors = '';
    child.stdout.on('data', (data) => void (output += data));
    child.stderr.on('data', (data) => void (errors += data));
    const timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS);
    child.on('error', ({ message }) => resolved({ output, problem: message }));
    child.on('close', (code) => {
      clearTimeout(timer);
      resolved({ output, problem: code === 0 ? null : `exit code ${code}: ${errors.slice(-2000)}` });
    });
  });
}
