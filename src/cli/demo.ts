// `headrace demo`: a gateway, simulated model hosts and search engines in one process, with commands to paste.

import type { Command } from 'commander';
import { type ResolvedSettings, resolveSettings } from '../config/load.ts';
import { messageOf } from '../errors.ts';
import { withEnginesChecked } from '../gateway/engine-settings.ts';
import { serveGateway } from '../gateway/gateway.ts';
import { createHost, type Host, type Profile } from '../host/index.ts';
import { type DemoBrowser, startBrowser } from './demo-browser.ts';
import { type DemoPart, startEngines } from './demo-engines.ts';
import { startDemoLoad } from './demo-load.ts';
import { type DemoSite, startSite } from './demo-site.ts';
import { type CliIo, StartError, UsageError } from './io.ts';
import { port, sentenceOf } from './options.ts';
import { readRest, type Rest } from './setting-options.ts';
import { closeOnSignal } from './shutdown.ts';

const KEY = 'hr_demo';

/** Machines that are slow enough to show what a cache of prompts saves: prefill takes 0.15 ms a token, and 0.03 ms. */
const PROFILES: Readonly<Record<keyof typeof MODELS, Partial<Profile>>> = {
  'atlas-27b': { stepUs: 22_000, prefillTokenUs: 150, contextTokens: 131_072, memory: blocksOf(16_384) },
  'finch-3b': { stepUs: 7000, prefillTokenUs: 30, contextTokens: 32_768, memory: blocksOf(16_384) },
};

/** Memory in blocks of 16 tokens, in which prompts stay until their place is needed. */
function blocksOf(blocks: number): Profile['memory'] {
  return { kind: 'blocks', blocks, blockTokens: 16 };
}

const MODELS = {
  'atlas-27b': {
    context_length: 131_072,
    hugging_face_id: 'acme/Atlas-27B',
    capabilities: ['chat', 'completion', 'tools'],
    pricing: { prompt: '0.25', cached_prompt: '0.05', completion: '1.50' },
  },
  'finch-3b': {
    context_length: 32_768,
    hugging_face_id: 'acme/Finch-3B',
    capabilities: ['chat', 'completion'],
    pricing: { prompt: '0.04', cached_prompt: '0.01', completion: '0.10' },
  },
};

/** Hosts per model: enough to see one fail and the other take over. */
const HOSTS = 2;

/** A terminal that is closed ends the demo in order too: the browser would stay. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const DESCRIPTION = `Runs a gateway in front of two simulated hosts for each of two models and of five search engines, with a demo key,
and prints commands to paste. An installed Chromium or Chrome is started to show pages that need scripts. Nothing
leaves this machine. Ctrl-C ends it.`;

export function configureDemo(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .option('--port <n>', 'public port; 0 picks a free one', port, 8080)
    .option('--admin-port <n>', 'port of metrics, status and dashboard; 0 picks a free one', port, 9090)
    .option('--no-browser', 'start no browser for pages that need scripts')
    .option('--load', 'a few users chat with the models, so that there is something to see')
    .allowUnknownOption()
    .allowExcessArguments()
    .addHelpText('after', '\nSettings of the gateway may follow as --SETTING VALUE: see headrace serve --help.')
    .action(async (options: DemoOptions) => demo(options, readRest(command, 0).settings, io));
}

interface DemoOptions {
  readonly port: number;
  readonly adminPort: number;
  readonly load?: boolean;
  readonly browser: boolean;
}

/** What the demo shows of pages: the address of one that needs a browser, and the browser. */
interface Pages {
  readonly url: string;
  readonly browser: 'sandboxed' | 'unsandboxed' | 'absent' | 'unwanted';
}

const TELLS: Readonly<Record<Pages['browser'], string>> = {
  sandboxed: ', which a browser renders since it is empty without its scripts (see rendered)',
  unsandboxed:
    ', which a browser renders since it is empty without its scripts (see rendered; as root, the browser runs without its sandbox)',
  unwanted: ', empty since no browser renders it (--no-browser)',
  absent: ', empty since no browser renders it: install chromium and start the demo again',
};

/** What the demo prints once it serves. */
function banner(url: string, adminUrl: string | null, isLoaded: boolean, pages: Pages): string {
  const chats = `npx headrace bench ${url} --key ${KEY} --model atlas-27b --users 6 --turns 6 --prefixes 3 --prefix-tokens 1200 --think 1s --duration 60s`;
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
A page as text${TELLS[pages.browser]}:
  curl ${url}/search/fetch ${ask} -d '{"url": "${pages.url}"}'
${
  isLoaded
    ? 'A few users chat already: see the tokens and what of them is cached'
    : `Users who chat: see on the dashboard what of their prompts is cached (or start the demo with --load)
  ${chats}`
}
The models:
  curl ${url}/v1/models
Health:
  curl ${url}/health

Ctrl-C ends it.
`;
}

async function startHosts(parts: DemoPart[]): Promise<Map<string, Host[]>> {
  const hosts = new Map<string, Host[]>();
  for (const [model, profile] of Object.entries(PROFILES)) {
    const ofModel: Host[] = [];
    for (let number = 1; number <= HOSTS; number++) {
      const host = createHost({ models: [model], name: `${model}-${number}`, keys: [KEY], engine: { profile } });
      await host.listen();
      parts.push(host);
      ofModel.push(host);
    }
    hosts.set(model, ofModel);
  }
  return hosts;
}

/** What the configuration names of what the gateway of the demo has behind it. */
interface Named {
  /** By model. */
  readonly hosts: ReadonlyMap<string, readonly Pick<Host, 'url'>[]>;
  /** For `search.engines`. */
  readonly engines: Readonly<Record<string, unknown>>;
  readonly site: Pick<DemoSite, 'port'>;
  readonly browser: Pick<DemoBrowser, 'url'> | null;
}

interface Services extends Named {
  readonly site: DemoSite;
  readonly browser: DemoBrowser | null;
  close(): Promise<void>;
}

/** Before anything has been started. */
const NOTHING: Named = { hosts: new Map(), engines: {}, site: { port: 8080 }, browser: null };

/** All of them: where one does not start, those before it are closed. */
async function startServices(wantsBrowser: boolean, signal: AbortSignal): Promise<Services> {
  const parts: DemoPart[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(parts.map((part) => part.close()));
  };
  try {
    const hosts = await startHosts(parts);
    const engines = await startEngines(parts);
    const site = await startSite();
    parts.push(site);
    const browser = wantsBrowser ? await startBrowser({ signal }) : null;
    if (browser !== null) parts.push(browser);
    return { hosts, engines, site, browser, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The gateway's configuration, as a file would hold it. */
function configuration(
  { adminPort, port: publicPort }: DemoOptions,
  { browser, engines, hosts, site }: Named,
): unknown {
  const models = Object.entries(MODELS).map(([id, model]) => [
    id,
    { ...model, servers: (hosts.get(id) ?? []).map((host) => host.url) },
  ]);
  return {
    listen: `127.0.0.1:${publicPort}`,
    admin: `127.0.0.1:${adminPort}`,
    threads: 1,
    models: Object.fromEntries(models),
    keys: { static: [{ key: KEY, account: 'demo' }] },
    search: { engines },
    fetch: {
      allow: ['127.0.0.1'],
      ports: [80, 443, 8080, 8443, site.port],
      renderer: { url: browser?.url ?? null },
    },
    store: 'sqlite::memory:',
    costLog: { requests: 'all' },
    log: { level: 'warn' },
  };
}

function settingsFor(options: DemoOptions, named: Named, overrides: Rest['settings']): ResolvedSettings {
  const resolution = withEnginesChecked(resolveSettings(configuration(options, named), {}, overrides));
  if ('mistakes' in resolution) throw new UsageError(sentenceOf(resolution.mistakes));
  return resolution;
}

function browserState(browser: DemoBrowser | null): Pages['browser'] {
  if (browser === null) return 'absent';
  return browser.isSandboxed ? 'sandboxed' : 'unsandboxed';
}

async function demo(options: DemoOptions, overrides: Rest['settings'], io: CliIo): Promise<void> {
  const { load = false } = options;
  // What is wrong is said before anything is started.
  settingsFor(options, NOTHING, overrides);
  let users: { stop(): void } | null = null;
  const starting = new AbortController();
  const stop = (): void => starting.abort();
  for (const signal of SIGNALS) io.events.on(signal, stop);
  const services = await startServices(options.browser, starting.signal).finally(() => {
    for (const signal of SIGNALS) io.events.off(signal, stop);
  });
  if (starting.signal.aborted) {
    await services.close();
    return;
  }
  const { browser, site } = services;
  const pages: Pages = { url: site.url, browser: options.browser ? browserState(browser) : 'unwanted' };
  const { settings, sources } = settingsFor(options, services, overrides);
  const gateway = serveGateway(settings, { onFatal: () => serving.fail(), sources });
  const serving = closeOnSignal(io, {
    close: async () => {
      users?.stop();
      await gateway.close();
      await services.close();
    },
    abort: async () => {
      users?.stop();
      await gateway.abort();
      await services.close();
    },
    signals: SIGNALS,
  });
  const start = async (): Promise<void> => {
    try {
      const { url, adminUrl } = await gateway.listen();
      await gateway.ready();
      if (serving.isEnding) return;
      if (load) users = startDemoLoad(url, KEY, Object.keys(MODELS));
      io.stdout.write(banner(url, adminUrl, load, pages));
    } catch (error) {
      if (serving.isEnding) return;
      await gateway.close();
      const advice = '--port N and --admin-port N choose other ports, 0 picks free ones';
      serving.fail(new StartError(`${messageOf(error)}\n  ${advice}`));
    }
  };
  // Not awaited: a gateway that is ended at once before its threads serve leaves `listen` pending.
  void start();
  await serving.ended;
}
