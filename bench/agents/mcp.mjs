// Runs Claude Code and Codex, unmodified, with the tools of a gateway: over Streamable HTTP and over standard input and output. The model is
// the same gateway, in front of a simulated host that plays a script: it calls search, then fetch with the page that was found, and
// answers. Installs nothing; README.md of bench/ says what DIR holds.
//   node bench/agents/mcp.mjs --tools DIR [--agents claude,codex] [--transports http,stdio] [--record DIR]

import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCommand } from '../lib/flags.mjs';
import { useOwnNode } from '../lib/own-node.mjs';
import { temporaryFolder } from '../lib/process.mjs';
import { printTable } from '../lib/report.mjs';
import { AGENTS, isInstalled } from './agents.mjs';
import { runAgent } from './process.mjs';
import { startRecorder } from './recorder.mjs';

const MODEL = 'atlas-27b';
const KEY = 'hr_agents';
const TASK = 'Find out what a weir is good for.';
const QUERY = 'purpose of weirs';
const FACT = 'A weir holds the river back so that the mill has water in a dry month.';
const ANSWER = 'It keeps water for the mill.';
const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';
const BIN = fileURLToPath(new URL('../../bin/headrace.js', import.meta.url));

const { values: flags } = readCommand(
  'node bench/agents/mcp.mjs --tools DIR [flags]',
  'Claude Code and Codex, unmodified, with the tools of a gateway.',
  {
    tools: { type: 'word', default: '', help: 'folder with node_modules of the agents' },
    agents: { type: 'word', default: 'claude,codex', help: 'agents' },
    transports: { type: 'word', default: 'http,stdio', help: 'how they reach the tools' },
    record: { type: 'word', default: '', help: 'folder for the requests and the output of each session' },
  },
);
if (flags.tools === '') {
  process.stderr.write('--tools DIR is wanted: the folder with node_modules of the agents\n');
  process.exit(2);
}
useOwnNode(fileURLToPath(new URL('../..', import.meta.url)));
const { createGateway } = await import('../../dist/src/gateway/gateway.js');
const { createHost, parseScript } = await import('../../dist/src/host/index.js');
const tools = resolve(flags.tools);

/** How each agent is told of the server, and by which names its model calls the tools. */
const CLIENTS = {
  claude: {
    // Else it names tools only, and its model asks for their schemas first.
    env: { ENABLE_TOOL_SEARCH: 'false' },
    toolName: (tool) => `mcp__headrace__${tool}`,
    arguments({ home, server }) {
      const file = join(home, 'mcp.json');
      const entry =
        server.url === undefined
          ? { type: 'stdio', command: server.command, args: server.args, env: server.env }
          : { type: 'http', url: server.url, headers: { Authorization: `Bearer ${KEY}` } };
      writeFileSync(file, JSON.stringify({ mcpServers: { headrace: entry } }));
      return [
        ...['-p', TASK, '--output-format', 'stream-json', '--verbose'],
        ...['--mcp-config', file, '--strict-mcp-config', '--allowedTools', 'mcp__headrace'],
      ];
    },
  },
  codex: {
    toolName: (tool) => `mcp__headrace__${tool}`,
    arguments({ home, server }) {
      const lines =
        server.url === undefined
          ? [
              `command = ${JSON.stringify(server.command)}`,
              `args = ${JSON.stringify(server.args)}`,
              'required = true',
              `env = { ${Object.entries(server.env)
                .map(([name, value]) => `${name} = ${JSON.stringify(value)}`)
                .join()} }`,
            ]
          : [`url = ${JSON.stringify(server.url)}`, 'bearer_token_env_var = "HEADRACE_API_KEY"'];
      const file = join(home, '.codex', 'config.toml');
      writeFileSync(file, `\n[mcp_servers.headrace]\n${lines.join('\n')}\n`, { flag: 'a' });
      return ['exec', '--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', TASK];
    },
  },
};

const rows = [];
for (const name of flags.agents.split(',')) {
  for (const transport of flags.transports.split(',')) rows.push(await check(name, transport));
}
printTable('Agents with the tools of a gateway', ['agent', 'tools over', 'revision', 'calls', 'result'], rows);
process.exit(rows.every((row) => row.at(-1) === 'ok') ? 0 : 1);

async function check(name, transport) {
  const agent = AGENTS[name];
  const client = CLIENTS[name];
  if (!isInstalled(agent, tools)) return [agent.title, transport, '-', '-', `not installed in ${flags.tools}`];
  const site = await startSite();
  const call = (tool, input) => ({
    name: client.toolName(tool),
    arguments: input,
  });
  const host = createHost({
    models: [MODEL],
    // Codex puts the tools of a server into a namespace, which the gateway translates.
    dialects: ['chat'],
    engine: { profile: '8b-h100', speed: 'virtual', contextTokens: 200_000 },
    script: parseScript({
      steps: [
        { when: { results: 0 }, calls: [call('search', { query: QUERY })] },
        { when: { results: 1 }, calls: [call('fetch', { url: site.page })] },
        { when: { results: 2 }, text: ANSWER },
      ],
      otherwise: 'A short title',
    }),
  });
  await host.listen();
  const asked = [];
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    models: { [MODEL]: { servers: [host.url] } },
    keys: { static: [{ key: KEY, account: 'agents' }] },
    log: { level: 'silent' },
    fetch: { allow: ['127.0.0.1'], ports: [site.port] },
    search: {
      engines: {
        engine_a: {
          kind: 'example',
          documentation: 'README.md',
          types: ['web'],
          search({ query }) {
            asked.push(query);
            return Promise.resolve([{ title: 'On weirs', url: site.page, snippet: 'What weirs are good for.' }]);
          },
        },
      },
    },
  });
  const { url } = await gateway.listen();
  const recorder = await startRecorder(url, () => undefined);
  const home = temporaryFolder();
  const project = join(home, 'project');
  mkdirSync(project);
  const server =
    transport === 'http'
      ? { url: `${recorder.url}/mcp` }
      : { command: process.execPath, args: [BIN, 'mcp', '--url', recorder.url], env: { HEADRACE_API_KEY: KEY } };
  const prepared = agent.prepare({ ...agent, url: recorder.url, key: KEY, model: MODEL, home });
  const env = { ...prepared.env, ...client.env };
  const run = await runAgent(agent.program(tools), client.arguments({ home, server }), { home, project, env });
  recorder.close();
  await gateway.close();
  await host.kill();
  site.close();
  const { requests } = recorder;
  if (flags.record !== '') {
    mkdirSync(flags.record, { recursive: true });
    writeFileSync(join(flags.record, `${name}-${transport}.json`), `${JSON.stringify(requests, null, 2)}\n`);
    writeFileSync(join(flags.record, `${name}-${transport}.log`), run.output);
  }
  const messages = requests.filter(({ path }) => path === '/mcp').map(({ body }) => body ?? {});
  const calls = messages.filter(({ method }) => method === 'tools/call').map(({ params }) => params.name);
  const started = messages.find(({ params }) => params?.protocolVersion !== undefined)?.params.protocolVersion;
  const stated = messages.find(({ params }) => params?._meta?.[VERSION_KEY] !== undefined)?.params._meta[VERSION_KEY];
  const mistakes = [
    ...(run.timedOut ? ['no end'] : run.code === 0 ? [] : [`exit code ${run.code}`]),
    ...(messages.some(({ method }) => method === 'tools/list') ? [] : ['the tools were not listed']),
    ...(calls.join() === 'search,fetch' ? [] : [`calls: ${calls.join()}`]),
    ...(asked.join() === QUERY ? [] : [`searches: ${asked.join()}`]),
    ...(requests.some(({ body }) => JSON.stringify(body ?? '').includes(FACT))
      ? []
      : ['the model did not get the page']),
    ...(run.output.includes(ANSWER) ? [] : ['the answer is missing']),
  ];
  return [agent.title, transport, stated ?? started ?? '-', calls.join(' '), mistakes.join('; ') || 'ok'];
}

/** A page to read. */
async function startSite() {
  const html = `<!doctype html><title>On weirs</title><main><h1>On weirs</h1>${`<p>${FACT}</p>`.repeat(8)}</main>`;
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end(html);
  });
  await new Promise((listening) => {
    server.listen(0, '127.0.0.1', listening);
  });
  const { port } = server.address();
  return { port, page: `http://127.0.0.1:${port}/weirs`, close: () => server.close() };
}
