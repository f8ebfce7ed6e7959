// `headrace demo`, which is what `npm start` runs: the whole house in one process, with lines to paste.

import { resolveSettings } from '../config/load.ts';
import { serveGateway } from '../gateway/gateway.ts';
import { createHost, type Host } from '../host/index.ts';
import { takeFlags, UsageError } from './args.ts';
import { startEngines } from './demo/engines.ts';
import { closeOnSignal, exitNow } from './shutdown.ts';

const KEY = 'hr_demo';

const MODELS = {
  'atlas-27b': {
    context_length: 131_072,
    hugging_face_id: 'acme/Atlas-27B',
    capabilities: ['chat', 'completion', 'tools'],
    pricing: { prompt: '0.25', completion: '1.50' },
  },
  'finch-3b': {
    context_length: 32_768,
    hugging_face_id: 'acme/Finch-3B',
    capabilities: ['chat', 'completion'],
    pricing: { prompt: '0.04', completion: '0.10' },
  },
};

/** Hosts per model: enough to see one fail and the other take over. */
const HOSTS = 2;

/** What the demo prints once it serves. */
function banner(url: string, adminUrl: string | null): string {
  const ask = `-H 'authorization: Bearer ${KEY}' -H 'content-type: application/json'`;
  const body = (extra: string): string =>
    `'{"model": "atlas-27b", "messages": [{"role": "user", "content": "Where does the water go?"}]${extra}}'`;
  return `
headrace demo: ${url}, key ${KEY}, models ${Object.keys(MODELS).join(' and ')}, two simulated hosts each
${adminUrl === null ? '' : `dashboard at ${adminUrl}/, metrics at ${adminUrl}/metrics, docs at ${url}/docs\n`}
A chat:
  curl ${url}/v1/chat/completions ${ask} -d ${body('')}
A streamed chat:
  curl -N ${url}/v1/chat/completions ${ask} -d ${body(', "stream": true, "max_tokens": 64')}
A search, five engines, one of them slow and one failing now and then (see found_in and meta):
  curl ${url}/search ${ask} -d '{"query": "headrace water", "engines": ["engine_a", "engine_b", "engine_c", "engine_d", "engine_e"]}'
The models:
  curl ${url}/v1/models
Health:
  curl ${url}/health

Ctrl-C ends it.
`;
}

function port(name: string, text: string | undefined, fallback: number): number {
  const value = text === undefined ? fallback : Number(text);
  if (!Number.isInteger(value) || value < 0 || value > 65_535) throw new UsageError(`--${name} takes a port number`);
  return value;
}

async function startHosts(): Promise<Map<string, Host[]>> {
  const hosts = new Map<string, Host[]>();
  for (const model of Object.keys(MODELS)) {
    const running = Array.from({ length: HOSTS }, (_, index) =>
      createHost({
        models: [model],
        name: `${model}-${index + 1}`,
        keys: [KEY],
        timeToFirstTokenMs: 120,
        interTokenMs: 25,
      }),
    );
    await Promise.all(running.map((host) => host.listen()));
    hosts.set(model, running);
  }
  return hosts;
}

/** Runs until a signal comes. */
export async function demo(flags: Readonly<Record<string, string>>): Promise<number | undefined> {
  const { own, rest } = takeFlags(flags, ['port', 'admin-port']);
  const publicPort = port('port', own.port, 8080);
  const adminPort = port('admin-port', own['admin-port'], 9090);
  const [hosts, search] = await Promise.all([startHosts(), startEngines()]);
  const models = Object.entries(MODELS).map(([id, model]) => [
    id,
    { ...model, servers: (hosts.get(id) ?? []).map((host) => host.url) },
  ]);
  const resolution = resolveSettings(
    {
      listen: `127.0.0.1:${publicPort}`,
      admin: `127.0.0.1:${adminPort}`,
      threads: 1,
      models: Object.fromEntries(models),
      keys: { static: [{ key: KEY, account: 'demo' }] },
      search: { engines: search.engines },
      store: 'sqlite::memory:',
      log: { level: 'warn' },
    },
    {},
    rest,
  );
  if ('mistakes' in resolution)
    throw new UsageError(resolution.mistakes.map(({ path, message }) => `${path}: ${message}`).join('; '));
  const gateway = serveGateway(resolution.settings, { onFatal: () => exitNow(1, () => gateway.abort()) });
  closeOnSignal({
    close: async () => {
      await gateway.close();
      await Promise.all([search.close(), ...[...hosts.values()].flat().map((host) => host.close())]);
    },
    abort: () => gateway.abort(),
  });
  try {
    const { url, adminUrl } = await gateway.listen();
    await gateway.ready();
    process.stdout.write(banner(url, adminUrl));
  } catch (error) {
    process.stderr.write(`headrace cannot start: ${error instanceof Error ? error.message : String(error)}\n`);
    process.stderr.write('  --port N and --admin-port N choose other ports, 0 picks free ones\n');
    exitNow(1, () => gateway.abort());
  }
  return undefined;
}
