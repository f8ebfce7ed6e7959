// The gateways that translate dialects, as they are installed below a folder and started in front of one server that speaks chat
// completions only. Each listens on loopback; each is stopped by its process id.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startChild } from '../lib/process.mjs';
import { freePort } from '../peers/free-port.mjs';
import { runLitellm } from '../peers/gateways.mjs';

const MODEL = 'atlas-27b';
const KEY = 'sk-bench';
const INSTALL_TIMEOUT_MS = 15 * 60_000;
const START_TIMEOUT_MS = 120_000;
const ROOT = new URL('../../', import.meta.url).pathname;
const REQUIREMENTS = new URL('requirements.txt', import.meta.url).pathname;
const CLAUDE_CODE_ROUTER = '@musistudio/claude-code-router';
/** Of those that it has, the one that carries more than none does; token counts of streams are not carried with any. */
const TRANSFORMERS = ['reasoning'];

const run = (command, args, cwd) =>
  execFileSync(command, args, { cwd, stdio: ['ignore', 'ignore', 'pipe'], timeout: INSTALL_TIMEOUT_MS });

/** Resolves once a port of this machine answers HTTP. */
async function answering(url, child) {
  const endMs = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    if (child.exited) throw new Error(`${child.name} has ended: ${child.errors}`);
    const answered = await fetch(url).then(
      (response) => response.arrayBuffer(),
      () => null,
    );
    if (answered !== null) return;
    if (performance.now() > endMs) throw new Error(`${child.name} does not answer: ${child.errors}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function litellm(folder) {
  const venv = join(folder, 'py');
  return {
    dialects: ['messages', 'responses'],
    note: 'provider `hosted_vllm`, one worker',
    install() {
      if (existsSync(join(venv, 'bin/litellm'))) return;
      run('python3', ['-m', 'venv', venv], folder);
      run(join(venv, 'bin/pip'), ['install', '-q', '--disable-pip-version-check', '-r', REQUIREMENTS], folder);
    },
    version: () =>
      execFileSync(join(venv, 'bin/pip'), ['show', 'litellm'], { encoding: 'utf8' }).match(/^Version: (.*)$/m)[1],
    async start(server, core) {
      const file = join(folder, 'litellm.json');
      const model = {
        ...{ model: `hosted_vllm/${MODEL}`, api_base: `${server}/v1`, api_key: 'none' },
        // Else responses are passed on as they are, which the server does not know.
        use_chat_completions_api: true,
      };
      const config = {
        model_list: [{ model_name: MODEL, litellm_params: model }],
        router_settings: { num_retries: 0, disable_cooldowns: true },
        litellm_settings: { telemetry: false, num_retries: 0, drop_params: false },
        general_settings: { master_key: KEY, disable_spend_logs: true },
      };
      const { child, port } = await runLitellm(join(venv, 'bin/litellm'), file, config, core);
      const url = `http://127.0.0.1:${port}`;
      await answering(`${url}/health/liveliness`, child);
      return { child, url, key: KEY };
    },
  };
}

function claudeCodeRouter(folder) {
  const place = join(folder, 'claude-code-router');
  const packageOf = join(place, 'node_modules', CLAUDE_CODE_ROUTER);
  return {
    dialects: ['messages'],
    note: 'one provider with the transformer `reasoning`; without it all stop reasons are carried, and no thinking',
    install() {
      if (existsSync(packageOf)) return;
      mkdirSync(place, { recursive: true });
      writeFileSync(join(place, 'package.json'), '{"private":true}');
      run('npm', ['install', '--no-audit', '--no-fund', `${CLAUDE_CODE_ROUTER}@2.0.0`], place);
    },
    version: () => JSON.parse(readFileSync(join(packageOf, 'package.json'))).version,
    async start(server, core) {
      const port = await freePort();
      const home = join(place, 'home');
      mkdirSync(join(home, '.claude-code-router'), { recursive: true });
      const provider = {
        ...{ name: 'chat', api_base_url: `${server}/v1/chat/completions`, api_key: 'none', models: [MODEL] },
        transformer: { use: TRANSFORMERS },
      };
      const config = {
        ...{ HOST: '127.0.0.1', PORT: port, LOG: false, NON_INTERACTIVE_MODE: true },
        Providers: [provider],
        Router: { default: `chat,${MODEL}` },
      };
      writeFileSync(join(home, '.claude-code-router/config.json'), JSON.stringify(config));
      const { child } = await startChild({
        name: 'claude-code-router',
        command: process.execPath,
        args: [join(packageOf, 'dist/cli.js'), 'start'],
        core,
        env: { HOME: home },
      });
      const url = `http://127.0.0.1:${port}`;
      await answering(`${url}/`, child);
      return { child, url, key: KEY };
    },
  };
}

function bifrost(folder) {
  const place = join(folder, 'bifrost');
  const start = join(place, 'node_modules/@maximhq/bifrost/bin.js');
  return {
    dialects: ['messages', 'responses'],
    note: '',
    install() {
      if (!existsSync(start)) {
        mkdirSync(place, { recursive: true });
        writeFileSync(join(place, 'package.json'), '{"private":true}');
        run('npm', ['install', '--no-audit', '--no-fund', '@maximhq/bifrost@1.6.3'], place);
      }
      // The package has no program in it: it loads one from a server of its vendor when it is started.
      run(process.execPath, [start, '-help'], place);
    },
    version: () => JSON.parse(readFileSync(join(place, 'node_modules/@maximhq/bifrost/package.json'))).version,
    async start(server, core) {
      const port = await freePort();
      const data = join(place, 'data');
      mkdirSync(data, { recursive: true });
      const openai = {
        keys: [{ name: 'none', value: 'none', models: [MODEL], weight: 1 }],
        network_config: { base_url: server },
      };
      writeFileSync(join(data, 'config.json'), JSON.stringify({ providers: { openai } }));
      const args = [start, '-app-dir', data, '-host', '127.0.0.1', '-port', String(port)];
      const { child } = await startChild({ name: 'bifrost', command: process.execPath, args, core });
      const url = `http://127.0.0.1:${port}`;
      await answering(`${url}/health`, child);
      return { child, url: `${url}/anthropic`, key: KEY };
    },
  };
}

function headrace(folder) {
  return {
    dialects: ['messages', 'responses'],
    note: 'one ingress thread, no ledger',
    install() {},
    version: () => JSON.parse(readFileSync(join(ROOT, 'package.json'))).version,
    async start(server, core) {
      const file = join(folder, 'headrace.json');
      const config = {
        ...{ listen: '127.0.0.1:0', admin: null, threads: 1, store: null, log: { level: 'error' } },
        models: { [MODEL]: { servers: [server], dialects: ['chat'] } },
        keys: { required: false },
        errorBodies: 'dialect',
      };
      writeFileSync(file, JSON.stringify(config));
      const { child, match } = await startChild({
        name: 'headrace',
        command: process.execPath,
        args: [join(ROOT, 'bin/headrace.js'), 'serve', '--config', file],
        core,
        ready: /listening on (\S+)/,
        startTimeoutMs: START_TIMEOUT_MS,
      });
      return { child, url: match[1], key: KEY };
    },
  };
}

/** By the name on the command line. */
export const PEERS = { headrace, litellm, 'claude-code-router': claudeCodeRouter, bifrost };
