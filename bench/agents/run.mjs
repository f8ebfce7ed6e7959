// Runs coding agents, unmodified, through the gateway against a simulated host that plays a script, and checks that each reads a file,
// edits it once, runs a command and answers: streamed, and with a stream that breaks in the middle of the edit. Frameworks ask for a
// sum with a tool. Installs nothing: README.md of bench/ says what DIR holds.
//   node bench/agents/run.mjs --tools DIR [--agents claude,codex,…] [--dialects chat]
//     [--fault reset-after=4] [--record DIR]

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCommand } from '../lib/flags.mjs';
import { useOwnNode } from '../lib/own-node.mjs';
import { temporaryFolder } from '../lib/process.mjs';
import { printTable } from '../lib/report.mjs';
import { AFTER, AGENTS, ANSWER, FILES, isInstalled } from './agents.mjs';
import { FRAMEWORKS, interpreterOf, placeExample, SUM, SUM_STEPS, versionArguments } from './frameworks.mjs';
import { runAgent, SESSION_TIMEOUT_MS } from './process.mjs';
import { startRecorder } from './recorder.mjs';

const MODEL = 'atlas-27b';
const KEY = 'hr_agents';
const MODEL_PATHS = /\/(chat\/completions|responses|messages)$/;

const { values: flags } = readCommand(
  'node bench/agents/run.mjs --tools DIR [flags]',
  'Coding agents and frameworks, unmodified, through the gateway against a host that plays a script.',
  {
    tools: { type: 'word', default: '', help: 'folder with node_modules of the agents and aider/' },
    agents: {
      type: 'word',
      default: Object.keys({ ...AGENTS, ...FRAMEWORKS }).join(','),
      help: 'agents and frameworks',
    },
    dialects: { type: 'word', default: 'chat', help: 'what the host speaks; all: everything' },
    fault: { type: 'word', default: 'reset-after=4', help: 'how the stream with the edit breaks' },
    record: { type: 'word', default: '', help: 'folder for the requests and the output of each session' },
  },
);
if (flags.tools === '') {
  process.stderr.write(
    '--tools DIR is wanted: the folder with node_modules of the agents and aider/ as a virtual environment\n',
  );
  process.exit(2);
}
useOwnNode(fileURLToPath(new URL('../..', import.meta.url)));
const { createGateway } = await import('../../dist/src/gateway/gateway.js');
const { createHost, parseFault, parseScript } = await import('../../dist/src/host/index.js');
const tools = resolve(flags.tools);
/** What happens to the answer with the edit. */
const fault = parseFault(flags.fault);

const rows = [];
for (const name of flags.agents.split(',')) {
  if (name in AGENTS) rows.push(await checkAgent(name, AGENTS[name]));
  else if (name in FRAMEWORKS) rows.push(...(await checkFramework(name, FRAMEWORKS[name])));
  else throw new Error(`${name} is none of ${Object.keys({ ...AGENTS, ...FRAMEWORKS }).join(', ')}`);
}
printTable(
  `Coding agents against a host that speaks ${flags.dialects}`,
  ['agent', 'version', 'dialect', 'session', 'streaming', 'count_tokens', 'broken stream', 'requests', 'result'],
  rows,
);
process.exit(rows.every((row) => row.at(-1) === 'ok') ? 0 : 1);

async function checkAgent(name, agent) {
  if (!isInstalled(agent, tools))
    return [agent.title, '-', agent.dialect, '-', '-', '-', '-', '-', `not installed in ${flags.tools}`];
  const version = versionOf(agent.program(tools), ['--version'], tools);
  const whole = await session(name, agent, false);
  const broken = await session(name, agent, true);
  const mistakes = [...whole.mistakes, ...broken.mistakes.map((mistake) => `broken stream: ${mistake}`)];
  const asked = whole.requests.filter(({ path }) => MODEL_PATHS.test(pathOf(path)));
  return [
    agent.title,
    version,
    agent.dialect,
    whole.mistakes.length === 0 ? 'ok' : 'failed',
    asked.every(({ isStream }) => isStream) ? 'yes' : 'no',
    String(whole.requests.filter(({ path }) => pathOf(path).endsWith('/count_tokens')).length),
    broken.mistakes.length > 0 ? 'failed' : agent.endsWhenBroken ? 'ends' : 'ok',
    `${asked.length} + ${broken.requests.filter(({ path }) => MODEL_PATHS.test(pathOf(path))).length}`,
    mistakes.length === 0 ? 'ok' : mistakes.join('; '),
  ];
}

function pathOf(path) {
  return path.split('?', 1)[0];
}

/** One row for each dialect that it speaks. */
async function checkFramework(name, framework) {
  const { title, dialects } = framework;
  const interpreter = interpreterOf(framework, tools);
  if (interpreter === undefined) return [[title, '-', '-', '-', '-', '-', '-', '-', `not installed in ${flags.tools}`]];
  const version = versionOf(interpreter, versionArguments(framework), join(tools, 'frameworks'));
  const found = [];
  for (const dialect of dialects) {
    const whole = await runExample(name, framework, interpreter, dialect, false);
    const broken = await runExample(name, framework, interpreter, dialect, true);
    const answers = ({ run }) => run.output.split(SUM).length - 1;
    const mistakes = [
      ...endMistakes(whole.run),
      ...(answers(whole) === 2 ? [] : ['the answer is not there twice']),
      ...statusMistakes(whole.requests),
      // A stream that breaks must be an error or be repeated, but never look complete.
      ...(broken.run.code === 0 && answers(broken) < 2 ? ['a broken stream looks complete'] : []),
    ];
    const asked = [whole, broken].map(({ requests }) => requests.filter(({ path }) => MODEL_PATHS.test(pathOf(path))));
    const result = mistakes.length === 0 ? 'ok' : mistakes.join('; ');
    found.push([
      title,
      version,
      dialect,
      result === 'ok' ? 'ok' : 'failed',
      asked[0].some(({ isStream }) => isStream) ? 'both' : 'no',
      '0',
      broken.run.code === 0 ? 'ok' : 'error',
      asked.map(({ length }) => length).join(' + '),
      result,
    ]);
  }
  return found;
}

/** Runs an example; its first stream breaks when `breaks`. */
async function runExample(name, framework, interpreter, dialect, breaks) {
  let isLeft = breaks;
  const before = async ({ body }, host) => {
    if (!isLeft || body?.stream !== true) return;
    isLeft = false;
    await host.setFault([{ times: 1, fault }]);
  };
  const { requests, run } = await withGateway(
    SUM_STEPS,
    async ({ recorder }) => {
      const home = temporaryFolder();
      const example = placeExample(framework, tools);
      const env = { BASE_URL: recorder.url, KEY, MODEL, DIALECT: dialect };
      const run = await runAgent(interpreter, [example.path], { home, project: home, env });
      example.remove();
      return { requests: recorder.requests, run };
    },
    before,
  );
  if (flags.record !== '') writeRecord(`${name}-${dialect}${breaks ? '-broken' : ''}`, requests, run);
  return { requests, run };
}

function versionOf(program, args, cwd) {
  const { stdout } = spawnSync(program, args, { encoding: 'utf8', timeout: 30_000, cwd });
  return /\d+\.\d+\.\d+/.exec(stdout ?? '')?.[0] ?? 'unknown';
}

/** Plays one session in a project of its own, and says what was wrong with it. */
async function session(name, agent, breaks) {
  const home = temporaryFolder();
  const project = join(home, 'project');
  mkdirSync(project);
  for (const [file, text] of Object.entries(FILES)) writeFileSync(join(project, file), text);
  if (agent.needsGit) {
    const git = ['-c', 'user.name=Check', '-c', 'user.email=check@localhost'];
    for (const args of [
      ['init', '-q'],
      ['add', '.'],
      [...git, 'commit', '-qm', 'Begin'],
    ]) {
      spawnSync('git', args, { cwd: project });
    }
  }
  let broken = breaks ? 0 : null;
  const before = async ({ body }, host) => {
    if (broken !== 0) return;
    if (agent.breaksRequest !== undefined) {
      const path = flags.dialects.includes(agent.dialect) ? `/v1/${agent.dialect}` : '/v1/chat/completions';
      await host.setFault([{ match: { path, nth: agent.breaksRequest }, times: 1, fault }]);
    } else if (agent.isBeforeEdit(JSON.stringify(body ?? ''))) await host.setFault([{ times: 1, fault }]);
    else return;
    broken++;
  };
  const { requests, run } = await withGateway(
    agent.script(project),
    async ({ recorder }) => {
      const { args, env } = agent.prepare({ ...agent, url: recorder.url, key: KEY, model: MODEL, home });
      const run = await runAgent(agent.program(tools), args, { home, project, env });
      return { requests: recorder.requests, run };
    },
    before,
  );
  if (flags.record !== '') writeRecord(`${name}${breaks ? '-broken' : ''}`, requests, run);
  const mistakes =
    breaks && agent.endsWhenBroken ? endedMistakes(run, project) : mistakesOf(run, project, requests, broken);
  return { requests, mistakes };
}

/** Calls `play` with a recorder in front of a gateway in front of a host with this script, and ends them. */
async function withGateway(steps, play, before = () => undefined) {
  const host = createHost({
    models: [MODEL],
    engine: { profile: '8b-h100', speed: 'virtual', contextTokens: 200_000 },
    script: parseScript({ steps, otherwise: 'A short title' }),
    ...(flags.dialects !== 'all' && { dialects: flags.dialects.split(',') }),
  });
  await host.listen();
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    models: { [MODEL]: { servers: [host.url] } },
    keys: { static: [{ key: KEY, account: 'agents' }] },
    log: { level: 'silent' },
  });
  const { url } = await gateway.listen();
  const recorder = await startRecorder(url, (entry) => before(entry, host));
  try {
    return await play({ recorder });
  } finally {
    recorder.close();
    await gateway.close();
    await host.kill();
  }
}

function endMistakes({ code, timedOut }) {
  if (timedOut) return [`no end after ${SESSION_TIMEOUT_MS / 1000} s`];
  return code === 0 ? [] : [`exit code ${code}`];
}

function statusMistakes(requests) {
  const failed = requests.filter(({ status, path }) => status >= 400 && MODEL_PATHS.test(pathOf(path)));
  return [...new Set(failed.map(({ status, answer }) => `status ${status}: ${answer?.slice(0, 200)}`))];
}

/** Of an agent that gives up: it must say so and leave the file as it was. */
function endedMistakes(run, project) {
  return [
    ...(run.timedOut || run.code === 0 ? ['it does not say that it failed'] : []),
    ...(readFileSync(join(project, 'sum.mjs'), 'utf8') === FILES['sum.mjs'] ? [] : ['sum.mjs has changed']),
  ];
}

function mistakesOf(run, project, requests, broken) {
  const read = (file) => {
    try {
      return readFileSync(join(project, file), 'utf8');
    } catch {
      return '';
    }
  };
  return [
    ...endMistakes(run),
    ...(read('sum.mjs') === `// Adds two numbers.\n${AFTER}\n` ? [] : ['sum.mjs is not as the edit leaves it']),
    ...(read('checks.log') === 'passed\n' ? [] : [`checks.log is ${JSON.stringify(read('checks.log'))}`]),
    ...(run.output.includes(ANSWER) ? [] : ['the answer is missing']),
    ...(broken === 0 ? ['no stream was broken'] : []),
    ...statusMistakes(requests),
  ];
}

function writeRecord(name, requests, { output }) {
  mkdirSync(flags.record, { recursive: true });
  writeFileSync(join(flags.record, `${name}.json`), `${JSON.stringify(requests, null, 2)}\n`);
  writeFileSync(join(flags.record, `${name}.log`), output);
}
