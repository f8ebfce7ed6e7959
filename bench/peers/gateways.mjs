// Gateways for language models as peers: SMG, vLLM Router, LiteLLM, Portkey, Olla and Bifrost. Each runs one process on core 0 in
// front of the same two servers, with its log and its calls home off. Keys are checked where one setting does it.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PROXY_CORE } from '../lib/cores.mjs';
import { startChild, temporaryFolder } from '../lib/process.mjs';
import { KEY, MODEL } from '../lib/traffic.mjs';
import { freePort } from './free-port.mjs';
import { goModule, npm, pypi, unavailable } from './install.mjs';
import { commandVersion, npmVersion, pypiVersion } from './versions.mjs';

const urlsOf = (ports) => ports.map((port) => `http://127.0.0.1:${port}`);

/** A gateway of the SGLang family: workers by their URLs, the policy with affinity by prefix, one key. */
async function startRouter(name, command, args, ports) {
  const [port, metricsPort] = [await freePort(), await freePort()];
  const { child } = await startChild({
    name,
    command,
    args: [
      ...args,
      ...['--host', '127.0.0.1', '--port', String(port), '--worker-urls', ...urlsOf(ports)],
      ...['--policy', 'cache_aware', '--api-key', KEY],
      ...['--prometheus-host', '127.0.0.1', '--prometheus-port', String(metricsPort), '--log-level', 'error'],
    ],
    core: PROXY_CORE,
    env: { HF_HUB_OFFLINE: '1' },
  });
  return { port, child };
}

async function startLitellm(command, ports) {
  const file = join(temporaryFolder(), 'litellm.yaml');
  return await runLitellm(command, file, litellmConfig(ports), PROXY_CORE);
}

/** Starts LiteLLM with one worker. Answers `{ port, child }`. */
export async function runLitellm(command, file, config, core) {
  const port = await freePort();
  writeFileSync(file, JSON.stringify(config));
  const { child } = await startChild({
    name: 'litellm',
    command,
    args: [
      ...['--config', file, '--host', '127.0.0.1', '--port', String(port)],
      ...['--num_workers', '1', '--telemetry', 'False'],
    ],
    core,
    // Without the first, it asks the network for a table of prices at each start.
    env: { LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_LOG: 'ERROR', NO_DOCS: 'True' },
  });
  return { port, child };
}

/** Two deployments of one model, the master key, no database; JSON is YAML. */
export function litellmConfig(ports) {
  return {
    model_list: urlsOf(ports).map((url) => ({
      model_name: MODEL,
      litellm_params: { model: `openai/${MODEL}`, api_base: `${url}/v1`, api_key: 'none' },
    })),
    router_settings: { routing_strategy: 'simple-shuffle', num_retries: 0 },
    litellm_settings: { telemetry: false, set_verbose: false, request_timeout: 600 },
    general_settings: { master_key: KEY, disable_spend_logs: true, background_health_checks: false },
  };
}

/** Portkey goes where the headers of a request say; it knows one server, which is all that a header can name. */
async function startPortkey(file, ports) {
  const port = await freePort();
  const { child } = await startChild({
    name: 'portkey',
    command: process.execPath,
    args: [file, `--port=${port}`, '--headless'],
    core: PROXY_CORE,
    env: { NODE_ENV: 'production', TRUSTED_CUSTOM_HOSTS: 'localhost,127.0.0.1' },
  });
  const headers = { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `http://127.0.0.1:${ports[0]}/v1` };
  return { port, child, headers };
}

async function startOlla(command, ports) {
  const port = await freePort();
  const file = join(temporaryFolder(), 'olla.yaml');
  writeFileSync(file, JSON.stringify(ollaConfig(port, ports)));
  const { child } = await startChild({ name: 'olla', command, args: ['-c', file], core: PROXY_CORE });
  return { port, child, path: '/olla/openai/v1' };
}

/** Its own engine, affinity by prefix, limits of rates off. */
export function ollaConfig(port, ports) {
  return {
    server: {
      ...{ host: '127.0.0.1', port, request_logging: false, write_timeout: '0s', shutdown_timeout: '1s' },
      rate_limits: {
        ...{ global_requests_per_minute: 0, per_ip_requests_per_minute: 0, health_requests_per_minute: 0 },
        per_endpoint: { default_requests_per_minute: 0 },
      },
    },
    proxy: {
      ...{ engine: 'olla', profile: 'auto', load_balancer: 'least-connections' },
      sticky_sessions: { enabled: true, key_sources: ['prefix_hash'], prefix_hash_bytes: 512 },
    },
    discovery: {
      type: 'static',
      static: {
        endpoints: urlsOf(ports).map((url, at) => ({
          ...{ url, name: `crn${at}`, type: 'openai-compatible', priority: 100 },
          ...{ model_url: '/v1/models', health_check_url: '/health', check_interval: '5s', check_timeout: '2s' },
        })),
      },
    },
    logging: { level: 'error', format: 'json', output: 'stdout' },
    dashboard: { enabled: false },
  };
}

/** Gateways by name; the fields are those of `PROXIES`. */
export const GATEWAY_PEERS = {
  smg: {
    ...pypi('smg', 'smg==1.13.0'),
    kind: 'gateway, Rust',
    does: 'one key; affinity by prefix; probes; metrics',
    version: () => pypiVersion('smg'),
    start: (command, ports) => startRouter('smg', command, ['launch', '--disable-tokenizer-autoload'], ports),
  },
  'vllm-router': {
    ...pypi('vllm-router', 'vllm-router==0.1.17'),
    kind: 'gateway, Rust',
    does: 'one key; affinity by prefix, for which it has the server render each prompt first; probes; metrics',
    version: () => pypiVersion('vllm-router'),
    start: (command, ports) => startRouter('vllm-router', command, [], ports),
  },
  olla: {
    ...goModule('olla', 'github.com/thushan/olla@latest'),
    from: 'Go module github.com/thushan/olla, or a program on the path',
    kind: 'gateway, Go',
    does: 'no keys; affinity by prefix; probes; statistics',
    version: (command) => commandVersion(command, ['--version']),
    start: startOlla,
  },
  litellm: {
    ...pypi('litellm', 'litellm[proxy]==1.106.2'),
    kind: 'gateway, Python',
    does: 'one key; a random server; counts tokens and cost; no database',
    slow: 5,
    version: () => pypiVersion('litellm'),
    start: startLitellm,
  },
  portkey: {
    ...npm('@portkey-ai/gateway', '@portkey-ai/gateway/build/start-server.js'),
    kind: 'gateway, Node.js',
    does: 'no keys; one server, named by headers; no metering',
    slow: 2,
    version: (file) => npmVersion(file),
    start: startPortkey,
  },
  bifrost: {
    ...unavailable(
      'Go module github.com/maximhq/bifrost/transports',
      'the Go module proxy refuses the module, and the npm package downloads its program from another host at its start',
    ),
    kind: 'gateway, Go',
    does: '-',
    version: () => null,
    start: () => Promise.reject(new Error('not installed')),
  },
};
