// Runs client libraries of the responses and messages dialects, unmodified, through the gateway against a server that speaks only chat
// completions.
// Prints a table, and exits with 1 if a case fails.
//   node bench/clients/run.mjs --tools DIR [--install] [--clients NAME,…]
// `--install` puts the packages into DIR: node_modules, and a virtual environment `venv`.

import { spawn, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCommand } from '../lib/flags.mjs';
import { useOwnNode } from '../lib/own-node.mjs';
import { printTable } from '../lib/report.mjs';
import { startChatServer } from './chat-server.mjs';

const MODEL = 'atlas-27b';
const KEY = 'hr_clients';
/** All cases of one client take a few seconds. */
const TIMEOUT_MS = 90_000;
const RESPONSES = ['openai', 'ai', 'langchain', 'agents', 'openai.py', 'openai-agents.py', 'langchain-openai.py'];
const MESSAGES = ['anthropic', 'ai-anthropic', 'langchain-anthropic', 'anthropic.py'];
const ALL = [...RESPONSES, ...MESSAGES].join(',');

const { values: flags } = readCommand(
  'node bench/clients/run.mjs --tools DIR [flags]',
  'Client libraries, unmodified, through the gateway against a server that speaks chat completions alone.',
  {
    tools: { type: 'word', default: '', help: 'folder for the packages of the clients' },
    install: { type: 'boolean', default: false, help: 'install the packages there first' },
    clients: { type: 'word', default: ALL, help: 'clients' },
  },
);
if (flags.tools === '') {
  process.stderr.write('--tools DIR is wanted: the folder for the packages of the clients\n');
  process.exit(2);
}
useOwnNode(fileURLToPath(new URL('../..', import.meta.url)));
const { createGateway } = await import('../../dist/src/gateway/gateway.js');

const tools = resolve(flags.tools);
const python = join(tools, 'venv/bin/python');
mkdirSync(tools, { recursive: true });
for (const file of [
  'package.json',
  'requirements.txt',
  'javascript.mjs',
  'python.py',
  'javascript-messages.mjs',
  'python-messages.py',
]) {
  copyFileSync(new URL(file, import.meta.url), join(tools, file));
}
if (flags.install) install();

const server = await startChatServer();
const gateway = createGateway({
  listen: '127.0.0.1:0',
  store: `sqlite:${join(tools, 'gateway.db')}`,
  models: { [MODEL]: { servers: [server.url] } },
  keys: { static: [{ key: KEY, account: 'clients' }] },
  log: { level: 'silent' },
});
const { url } = await gateway.listen();
const results = [];
for (const name of flags.clients.split(',')) {
  for (const found of await casesOf(name)) results.push({ name, ...found });
}
await gateway.close();
server.close();

printResults('responses', (client) => !MESSAGES.includes(client));
printResults('messages', (client) => MESSAGES.includes(client));
const failures = results.filter(({ error }) => error !== null);
for (const { client, error, title } of failures) process.stdout.write(`\n${client}, ${title}: ${error}\n`);
process.exit(failures.length === 0 ? 0 : 1);

function printResults(dialect, isMeant) {
  const shown = results.filter(({ name }) => isMeant(name));
  if (shown.length === 0) return;
  const titles = [...new Set(shown.map(({ title }) => title))];
  const clients = [...new Set(shown.map(({ client, version }) => `${client} ${version}`))];
  const cell = (title, client) => {
    const found = shown.find((result) => result.title === title && `${result.client} ${result.version}` === client);
    return found === undefined ? '-' : found.error === null ? 'ok' : 'failed';
  };
  printTable(
    `Clients of the ${dialect} dialect against a server that speaks chat completions`,
    ['client', ...titles],
    clients.map((client) => [client, ...titles.map((title) => cell(title, client))]),
  );
}

function install() {
  if (!existsSync(python)) must('python3', ['-m', 'venv', join(tools, 'venv')]);
  must(python, ['-m', 'pip', 'install', '-q', '--disable-pip-version-check', '-r', 'requirements.txt']);
  must('npm', ['install', '--no-audit', '--no-fund']);
}

function must(command, args) {
  const { status } = spawnSync(command, args, { cwd: tools, stdio: 'inherit' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed`);
}

/** The results of one client; one failure where it could not be run. */
async function casesOf(client) {
  const isPython = client.endsWith('.py');
  const suffix = MESSAGES.includes(client) ? '-messages' : '';
  const [command, file] = isPython ? [python, `python${suffix}.py`] : [process.execPath, `javascript${suffix}.mjs`];
  const { output, problem } = await run(command, [file, isPython ? client.slice(0, -3) : client]);
  const found = output
    .split('\n')
    .filter((line) => line.startsWith('{"client"'))
    .map((line) => JSON.parse(line));
  if (problem === null && found.length > 0) return found;
  return [...found, { client, version: '', title: 'all cases run', error: problem ?? 'no case was run' }];
}

function run(command, args) {
  return new Promise((resolved) => {
    const env = { ...process.env, BASE_URL: `${url}/v1`, KEY, MODEL, NO_PROXY: '127.0.0.1', OPENAI_API_KEY: KEY };
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
