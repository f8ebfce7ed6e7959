// Runs each client of docs/clients.md, unmodified, through a gateway with default settings, six times: a whole answer, a stream, a tool, a
// wrong key, an unknown model and a stream that breaks. Prints what its user sees and how many requests came, and with `--docs` writes the
// table of the page. Installs nothing: README.md of bench/ says what DIR holds.
//   node bench/clients/table.mjs --tools DIR [--clients NAME,…] [--docs]

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AGENTS, TASK } from '../agents/agents.mjs';
import { startRecorder } from '../agents/recorder.mjs';
import { readCommand } from '../lib/flags.mjs';
import { useOwnNode } from '../lib/own-node.mjs';
import { temporaryFolder } from '../lib/process.mjs';
import { progress, tableText } from '../lib/report.mjs';
import { freePort } from '../peers/free-port.mjs';

const TIMEOUT_MS = 120_000;
const MODEL = 'atlas-27b';
const KEY = 'hr_clients';
const MODEL_PATHS = /\/(?:chat\/completions|responses|messages)(?:\?|$)/;
const ANSWER = 'Down the canal, past the mill and on to the wheel of the mill.';
const RESULT = '21 degrees';
const FROM_TOOL = `The tool says ${RESULT}.`;
const PROMPTS = {
  plain: 'Where does the water go?',
  tools: 'How is the weather in Rome?',
  cut: 'Sever: where does it go?',
};
const CASES = ['plain', 'stream', 'tools', 'wrong key', 'unknown model', 'cut stream'];
const BEGIN = '<!-- measured: written by node bench/clients/table.mjs --docs -->';
const END = '<!-- /measured -->';

const { values: flags } = readCommand(
  'node bench/clients/table.mjs --tools DIR [flags]',
  'Clients, unmodified, through the gateway: what their users see.',
  {
    tools: { type: 'word', default: '', help: 'folder with the packages of the clients' },
    clients: { type: 'word', default: '', help: 'clients; all by default' },
    docs: { type: 'boolean', default: false, help: 'write the table of docs/clients.md' },
    verbose: { type: 'boolean', default: false, help: 'print the output of each call' },
  },
);
if (flags.tools === '') {
  process.stderr.write('--tools DIR is wanted: the folder with the packages of the clients\n');
  process.exit(2);
}
useOwnNode(fileURLToPath(new URL('../..', import.meta.url)));
const { createGateway } = await import('../../dist/src/gateway/gateway.js');
const { createHost, parseFault, parseScript } = await import('../../dist/src/host/index.js');
const tools = resolve(flags.tools);
const page = new URL('../../docs/clients.md', import.meta.url);
const here = (file) => fileURLToPath(new URL(file, import.meta.url));

/** What a client asks its tool. */
const WEATHER = { name: 'get_weather', arguments: { city: 'Rome' } };
const shell = (name, member) => ({ name, arguments: { [member]: `echo ${RESULT}`, description: 'Say the weather' } });

/** A library, called by probe.mjs or probe.py. `venv`: where its Python is. */
const javascript = (title, name, from, more = {}) => ({
  ...{ title, tool: WEATHER, program: process.execPath, needs: `js/node_modules/${from}/package.json`, ...more },
  prepare: ({ kind }) => ({ args: [copied('probe.mjs'), name, kind], env: {} }),
});
const python = (title, name, venv, from, more = {}) => ({
  ...{ title, tool: WEATHER, program: join(tools, venv, 'bin/python'), needs: `${venv}/bin/python`, ...more },
  version: () =>
    spawned(join(tools, venv, 'bin/python'), [
      '-c',
      `from importlib.metadata import version as v; print(v("${from}"))`,
    ]),
  prepare: ({ kind }) => ({ args: [here('probe.py'), name, kind], env: {} }),
});

/** A program. It streams whatever it is asked. */
const agent = (title, name, more) => ({
  ...{ title, program: AGENTS[name].program(join(tools, 'agents')), onlyStreams: true, tool: null, ...more },
  version: () => spawned(AGENTS[name].program(join(tools, 'agents')), ['--version']),
  prepare(given) {
    const { args, env } = AGENTS[name].prepare({ ...AGENTS[name], ...given });
    return { args: args.map((arg) => (arg === TASK ? given.prompt : arg)), env };
  },
});

const CLIENTS = {
  curl: {
    ...{ title: 'curl', program: 'curl', tool: null, version: () => spawned('curl', ['--version']) },
    prepare({ key, kind, model, prompt, url }) {
      const body = { model, stream: kind === 'stream', messages: [{ role: 'user', content: prompt }] };
      const auth = ['-H', `Authorization: Bearer ${key}`];
      return { args: ['-sSN', '--json', JSON.stringify(body), ...auth, `${url}/v1/chat/completions`], env: {} };
    },
  },
  'openai-py': python('openai (Python)', 'openai-py', 'sdk', 'openai'),
  'openai-js': javascript('openai (JavaScript)', 'openai-js', 'openai'),
  'openai-js-6': javascript('openai (JavaScript), version 6', 'openai-js-6', 'openai6'),
  'azure-py': python('AzureOpenAI (Python)', 'azure-py', 'sdk', 'openai'),
  'azure-js': javascript('AzureOpenAI (JavaScript)', 'azure-js', 'openai'),
  'anthropic-py': python('anthropic (Python)', 'anthropic-py', 'sdk', 'anthropic'),
  'anthropic-js': javascript('@anthropic-ai/sdk', 'anthropic-js', '@anthropic-ai/sdk'),
  'langchain-py': python('LangChain (Python)', 'langchain-py', 'sdk', 'langchain-openai'),
  'langchain-js': javascript('LangChain (JavaScript)', 'langchain-js', '@langchain/openai'),
  'llama-index': python('LlamaIndex', 'llama-index', 'litellm', 'llama-index-core'),
  litellm: python('LiteLLM (as a client)', 'litellm', 'litellm', 'litellm'),
  'ai-compatible': javascript('Vercel AI SDK, openai-compatible', 'ai-compatible', 'ai'),
  'ai-openai': javascript('Vercel AI SDK, openai', 'ai-openai', 'ai'),
  'ai-anthropic': javascript('Vercel AI SDK, anthropic', 'ai-anthropic', 'ai'),
  instructor: python('instructor', 'instructor', 'litellm', 'instructor', { gives: 'Rome' }),
  'pydantic-ai': python('Pydantic AI', 'pydantic-ai', 'pydantic-ai', 'pydantic-ai-slim'),
  'agents-py': python('OpenAI Agents (Python)', 'agents-py', 'sdk', 'openai-agents'),
  'agents-js': javascript('OpenAI Agents (JavaScript)', 'agents-js', '@openai/agents'),
  llm: {
    ...{ title: 'llm', program: join(tools, 'llm/bin/llm'), tool: WEATHER },
    version: () => spawned(join(tools, 'llm/bin/llm'), ['--version']),
    prepare({ key, kind, home, model, prompt, url }) {
      const folder = join(home, 'llm');
      mkdirSync(folder);
      const lines = [`- model_id: ${model}`, `  model_name: ${model}`, `  api_base: ${url}/v1`];
      const more = ['  api_key_name: headrace', '  supports_tools: true', ''];
      writeFileSync(join(folder, 'extra-openai-models.yaml'), [...lines, ...more].join('\n'));
      const tool = `def get_weather(city: str) -> str:\n    "The weather of a city"\n    return "${RESULT}"\n`;
      const args = kind === 'stream' || kind === 'cut' ? [] : ['--no-stream'];
      if (kind === 'tools') args.push('--functions', tool);
      return { args: ['-m', model, '--key', key, ...args, prompt], env: { LLM_USER_PATH: folder } };
    },
  },
  claude: agent('Claude Code', 'claude', { tool: shell('Bash', 'command') }),
  codex: agent('Codex', 'codex', { tool: { name: 'exec_command', arguments: { cmd: `echo ${RESULT}` } } }),
  opencode: agent('opencode', 'opencode', { tool: shell('bash', 'command') }),
  aider: {
    ...agent('aider', 'aider', {}),
    needsGit: true,
    prepare: ({ key, model, prompt, url }) => ({
      args: [
        ...['--model', `openai/${model}`, '--chat-mode', 'ask', '--message', prompt, '--yes-always', '--no-git'],
        ...[
          '--no-check-update',
          '--no-show-release-notes',
          '--analytics-disable',
          '--no-show-model-warnings',
          '--no-pretty',
        ],
      ],
      env: { OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: key, LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
    }),
  },
  'open-webui': {
    ...{ title: 'Open WebUI', program: join(tools, 'open-webui/bin/open-webui'), tool: null, isServer: true },
    version: () =>
      spawned(join(tools, 'open-webui/bin/python'), [
        '-c',
        'from importlib.metadata import version as v; print(v("open-webui"))',
      ]),
  },
};

const rows = [];
const names = flags.clients === '' ? Object.keys(CLIENTS) : flags.clients.split(',');
for (const name of names) {
  const client = CLIENTS[name];
  if (client === undefined) throw new Error(`${name} is none of ${Object.keys(CLIENTS).join(', ')}`);
  rows.push(await rowOf(name, client));
  progress('');
  process.stdout.write(`${rows.at(-1).join(' | ')}\n`);
}
const COLUMNS = ['client', 'version', ...CASES];
process.stdout.write(`\n${tableText(COLUMNS, rows)}\n`);
if (flags.docs) writePage();
process.exit(rows.some((row) => row.some((cell) => cell.startsWith('**'))) ? 1 : 0);

/** Writes the rows into the table of the page; clients that did not run keep theirs. */
function writePage() {
  const before = readFileSync(page, 'utf8');
  const begin = before.indexOf(BEGIN);
  const end = before.indexOf(END, begin);
  if (begin < 0 || end < 0) throw new Error('docs/clients.md has no measured part');
  const kept = before
    .slice(begin, end)
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    );
  const all = Object.values(CLIENTS).flatMap(({ title }) => {
    const row = [...rows, ...kept].find(([client]) => client === title);
    return row === undefined ? [] : [row];
  });
  writeFileSync(page, `${before.slice(0, begin)}${BEGIN}\n\n${tableText(COLUMNS, all)}\n\n${before.slice(end)}`);
}

async function rowOf(name, client) {
  const file = client.needs === undefined ? client.program : join(tools, client.needs);
  if (file.includes('/') && !existsSync(file))
    return [client.title, 'not installed here', ...CASES.map(() => 'not run')];
  const version = /\d+\.\d+(?:\.\d+)?/.exec(
    client.version?.() ?? readFileSync(file, 'utf8').match(/"version":.*/)[0],
  )?.[0];
  const cells = [];
  for (const each of CASES) {
    progress(`${name}: ${each}`);
    cells.push(await cellOf(client, each));
  }
  return [client.title, version ?? 'unknown', ...cells];
}

async function cellOf(client, each) {
  if (each === 'tools' && client.tool === null) return 'has none';
  if (each === 'plain' && client.onlyStreams === true) return 'always streams';
  const kind = { tools: 'tools', plain: 'plain', 'wrong key': 'plain', 'unknown model': 'plain' }[each] ?? 'stream';
  // A client of structured answers is always asked for the arguments of a tool.
  const prompt =
    each === 'tools' || (client.gives !== undefined && ['plain', 'stream'].includes(each))
      ? PROMPTS.tools
      : each === 'cut stream'
        ? PROMPTS.cut
        : PROMPTS.plain;
  const asked = {
    ...{ kind: each === 'cut stream' && client.title === 'llm' ? 'cut' : kind, prompt },
    key: each === 'wrong key' ? 'hr_wrong' : KEY,
    model: each === 'unknown model' ? 'nobody' : MODEL,
  };
  const { output, requests, run } = await played(client, asked, each === 'cut stream');
  if (flags.verbose) process.stdout.write(`\n--- ${client.title}, ${each}: ${output}\n`);
  const tries = requests.filter(({ method, path }) => method !== 'GET' && MODEL_PATHS.test(path)).length;
  const count = `${tries} ${tries === 1 ? 'request' : 'requests'}`;

  if (run.timedOut) return `**no end in ${TIMEOUT_MS / 1000} s**, ${count}`;
  if (each === 'wrong key') return saidOf(output, /Invalid API key/, /authenticat|api key|401/i, count);
  if (each === 'unknown model') return saidOf(output, /Model 'nobody' not found/, /404|not (?:found|exist)/i, count);
  if (each === 'cut stream') {
    if (isWhole(output)) return tries > 1 ? `repeated, ${count}` : '**looks complete**';
    return run.code !== 0 || /error|broke off|terminated/i.test(output) ? `error, ${count}` : `**silent**, ${count}`;
  }
  if (run.code !== 0) return '**failed**';
  const wanted = client.gives ?? (each === 'tools' ? RESULT : ANSWER);
  return unescaped(output).includes(wanted) || (client.gives === undefined && isWhole(output)) ? 'ok' : '**failed**';
}

/** Whether the user sees the sentence of the gateway, or learns the reason in words of the client. */
function saidOf(output, sentence, reason, count) {
  const text = unescaped(output);
  return sentence.test(text) ? `clear, ${count}` : reason.test(text) ? `own words, ${count}` : `**unclear**, ${count}`;
}

function unescaped(output) {
  return output.replaceAll('\\u0027', "'").replaceAll('\\"', '"');
}

/** Whether the whole answer is there, also in the events of a stream. */
function isWhole(output) {
  const pieces = [...output.matchAll(/"content":"((?:[^"\\]|\\.)*)"/g)].map(([, piece]) => piece).join('');
  return output.includes(ANSWER) || output.replaceAll(/\s+/g, ' ').includes(ANSWER) || pieces.includes(ANSWER);
}

/** Plays one call against a gateway of its own. */
async function played(client, asked, cuts) {
  const steps = [
    { when: { result: RESULT }, text: FROM_TOOL },
    ...(client.tool === null ? [] : [{ when: { results: 0, user: 'weather' }, calls: [client.tool] }]),
    { when: { user: 'Sever' }, text: ANSWER },
    { when: { turns: 0 }, text: ANSWER },
  ];
  const host = createHost({
    models: [MODEL],
    engine: { profile: '8b-h100', speed: 'virtual', contextTokens: 200_000 },
    script: parseScript({ steps, otherwise: ANSWER }),
  });
  await host.listen();
  const gateway = createGateway({
    ...{ listen: '127.0.0.1:0', log: { level: 'silent' }, models: { [MODEL]: { servers: [host.url] } } },
    keys: { static: [{ key: KEY, account: 'clients' }] },
  });
  const { url } = await gateway.listen();
  await gateway.ready();
  let isLeft = cuts;
  const recorder = await startRecorder(url, async ({ body }) => {
    if (!isLeft || body?.stream !== true || !JSON.stringify(body).includes('Sever')) return;
    isLeft = false;
    await host.setFault([{ times: 1, fault: parseFault('reset-after=4') }]);
  });
  try {
    const home = temporaryFolder();
    const given = { ...asked, url: recorder.url, home };
    const run = client.isServer === true ? await askWebui(client, given) : await runProgram(client, given);
    return { output: run.output, requests: recorder.requests, run };
  } finally {
    recorder.close();
    await gateway.close();
    await host.kill();
  }
}

/** Modules are found from where a file is. */
function copied(file) {
  const path = join(tools, 'js', file);
  writeFileSync(path, readFileSync(here(file)));
  return path;
}

function spawned(program, args) {
  const { stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', timeout: 60_000 });
  return `${stdout}${stderr}`;
}

function environment(home, { key, model, prompt, url }) {
  return {
    ...{
      PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}`,
      HOME: home,
      TERM: 'dumb',
      LANG: 'C.UTF-8',
    },
    ...{ XDG_CONFIG_HOME: join(home, '.config'), XDG_DATA_HOME: join(home, '.local/share') },
    ...{ XDG_CACHE_HOME: join(home, '.cache'), NO_PROXY: '127.0.0.1', OPENAI_API_KEY: key },
    ...{ BASE_URL: url, KEY: key, MODEL: model, PROMPT: prompt },
  };
}

function runProgram(client, given) {
  const project = join(given.home, 'project');
  mkdirSync(project);
  const { args, env } = client.prepare(given);
  return ended(client.program, args, { cwd: project, env: { ...environment(given.home, given), ...env } });
}

/** Runs a program to its end, at most TIMEOUT_MS. */
function ended(program, args, { cwd, env }) {
  return new Promise((resolved) => {
    const startMs = performance.now();
    const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    let output = '';
    let timedOut = false;
    const signal = () => killed(child);
    const timer = setTimeout(() => {
      timedOut = true;
      signal();
    }, TIMEOUT_MS);
    process.once('exit', signal);
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => void (output += data));
    child.on('error', (error) => void (output += error.message));
    child.on('close', (code) => {
      clearTimeout(timer);
      signal();
      process.off('exit', signal);
      resolved({ code, output, timedOut, seconds: (performance.now() - startMs) / 1000 });
    });
  });
}

/** A group of its own: clients start processes. */
function killed({ pid }) {
  try {
    process.kill(-(pid ?? Number.NaN), 'SIGKILL');
  } catch {
    // The group has ended.
  }
}

/** Starts Open WebUI before the gateway and sends what its page sends. */
async function askWebui({ program }, { home, key, kind, model, prompt, url }) {
  const port = await freePort();
  const env = {
    ...environment(home, { key, model, prompt, url }),
    ...{ DATA_DIR: home, WEBUI_AUTH: 'False', OFFLINE_MODE: 'True', HF_HUB_OFFLINE: '1', WEBUI_SECRET_KEY: 'clients' },
    ...{ ENABLE_OLLAMA_API: 'False', OPENAI_API_BASE_URL: `${url}/v1`, OPENAI_API_KEY: key },
    ...{
      RAG_EMBEDDING_ENGINE: 'openai',
      BYPASS_MODEL_ACCESS_CONTROL: 'True',
      SCARF_NO_ANALYTICS: 'true',
      DO_NOT_TRACK: 'true',
    },
  };
  const startMs = performance.now();
  const child = spawn(program, ['serve', '--host', '127.0.0.1', '--port', String(port)], {
    ...{ cwd: home, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true },
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => void (log += data));
  const end = () => killed(child);
  process.once('exit', end);
  try {
    const base = `http://127.0.0.1:${port}`;
    while (
      !(await fetch(`${base}/health`).then(
        ({ ok }) => ok,
        () => false,
      ))
    ) {
      if (performance.now() - startMs > TIMEOUT_MS || child.exitCode !== null)
        throw new Error(`no start: ${log.slice(-500)}`);
      await new Promise((next) => setTimeout(next, 500));
    }
    const json = { 'content-type': 'application/json' };
    const signed = await fetch(`${base}/api/v1/auths/signin`, {
      ...{ method: 'POST', headers: json, body: '{"email":"","password":""}' },
    });
    const { token } = await signed.json();
    const headers = { ...json, authorization: `Bearer ${token}` };
    // The page reads the list first; models that are not in it are unknown to it.
    await fetch(`${base}/api/models`, { headers });
    const body = { model, stream: kind === 'stream', messages: [{ role: 'user', content: prompt }] };
    const asked = performance.now();
    const answer = await fetch(`${base}/api/chat/completions`, { method: 'POST', headers, body: JSON.stringify(body) });
    const output = await answer.text().catch((error) => `error: ${error.message}`);
    const seconds = (performance.now() - asked) / 1000;
    return { code: answer.ok ? 0 : 1, output, timedOut: false, seconds };
  } catch (error) {
    return { code: 1, output: `error: ${error.message}`, timedOut: false, seconds: 0 };
  } finally {
    end();
    process.off('exit', end);
  }
}
