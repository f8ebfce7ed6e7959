// `headrace mcp`: search and fetch as tools over standard input and output, with a gateway inside this process or a running one.

import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { loadConfigFile } from '../config/load.ts';
import type { Settings } from '../config/settings.ts';
import { httpUrl } from '../config/units.ts';
import { messageOf } from '../errors.ts';
import { withEnginesChecked } from '../gateway/engine-settings.ts';
import { type ServedGateway, serveGateway } from '../gateway/gateway.ts';
import { type DetachedExchange, startDetached } from '../ingress/detached-exchange.ts';
import { type SendMessage, StdioBridge } from '../mcp/index.ts';
import { type CliIo, StartError, UsageError } from './io.ts';
import { mistakeLines } from './options.ts';
import { readRest } from './setting-options.ts';

interface McpOptions {
  readonly config?: string;
  readonly url?: string;
  readonly keyFile?: string;
}

/** The store is not used, wherever it may be. */
const NO_STORE = 'sqlite::memory:';

const KEY_VARIABLE = 'HEADRACE_API_KEY';

const DESCRIPTION = `Serves the tools search and fetch by the Model Context Protocol over standard input and output, for programs that
start their tools themselves. With --config a gateway inside this process does the work, with the sections search
and fetch of that file; keys, prices, models and the store are not used. With --url the requests go to a running
gateway, which wants its key. Standard output has the protocol only, standard error the log. Ends with the input, or
at SIGTERM.`;

const EXAMPLE = `
For example
  headrace mcp --config headrace.yaml
  ${KEY_VARIABLE}=hr_… headrace mcp --url https://gateway.example`;

export function configureMcp(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .usage('(--config FILE | --url URL) [options] [--SETTING VALUE ...]')
    .option('-c, --config <file>', 'configuration, YAML or JSON')
    .option('--url <url>', 'base URL of a running gateway')
    .option('--key-file <file>', `the key for it; default: the variable ${KEY_VARIABLE}`)
    .allowUnknownOption()
    .allowExcessArguments()
    .addHelpText('after', EXAMPLE)
    .action(async (options: McpOptions) => serveMcp(options, readRest(command, 0).settings, io));
}

async function serveMcp(options: McpOptions, overrides: Readonly<Record<string, string>>, io: CliIo): Promise<void> {
  const { config, url } = options;
  if ((config === undefined) === (url === undefined)) throw new UsageError('one of --config and --url is needed');
  if (url !== undefined) {
    if (Object.keys(overrides).length > 0) throw new UsageError('settings belong to --config');
    await bridge(remote(url, await keyOf(options, io)), io);
    return;
  }
  if (options.keyFile !== undefined) throw new UsageError('--key-file belongs to --url');
  const loaded = await loadConfigFile(config as string, io.env, { ...overrides, store: NO_STORE });
  const resolution = withEnginesChecked(
    'mistakes' in loaded ? loaded : { ...loaded, settings: ofMcp(loaded.settings) },
  );
  if ('mistakes' in resolution) throw new StartError(mistakeLines(resolution.mistakes), config);
  const { settings, sources } = resolution;
  const gateway = serveGateway(settings, { sources });
  try {
    await bridge(inProcess(gateway), io);
  } finally {
    await gateway.close();
  }
}

/** What the tools do not use is off. Whoever has the configuration is its operator, whom no key limits. */
function ofMcp(settings: Settings): Settings {
  const { cluster, keys, responses, timeouts, trust } = settings;
  return {
    ...settings,
    ...{ admin: null, store: null, threads: 0, server: 'auto', mcp: true, models: {}, discovery: [] },
    cluster: { ...cluster, url: null },
    keys: { ...keys, required: false },
    responses: { ...responses, store: false },
    trust: { ...trust, signingKey: null, token: null },
    timeouts: { ...timeouts, unreadyMs: 0, drainMs: 0 },
  };
}

async function bridge(send: SendMessage, io: CliIo): Promise<void> {
  const { events, stderr, stdin, stdout } = io;
  const stop = new AbortController();
  const onSignal = (): void => {
    io.abandonsOutput = true;
    stop.abort();
  };
  for (const signal of ['SIGTERM', 'SIGINT']) events.once(signal, onSignal);
  const complain = (sentence: string): void => void stderr.write(`headrace mcp: ${sentence}\n`);
  try {
    await new StdioBridge({ stdin, stdout, send, complain }).run(stop.signal);
  } finally {
    for (const signal of ['SIGTERM', 'SIGINT']) events.off(signal, onSignal);
  }
}

async function keyOf({ keyFile }: McpOptions, { env }: CliIo): Promise<string | undefined> {
  const key = keyFile === undefined ? env[KEY_VARIABLE] : await readKey(keyFile);
  // The error of a header that cannot be sent would quote the key.
  if (key !== undefined && !/^[\x21-\x7e]*$/.test(key)) {
    throw new UsageError(
      `the key in ${keyFile ?? KEY_VARIABLE} has blanks, line ends or other characters that no key has`,
    );
  }
  return key;
}

async function readKey(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${messageOf(error)}`);
  }
}

/** The endpoint of a running gateway. */
function remote(url: string, key: string | undefined): SendMessage {
  const base = httpUrl(url);
  if (base === null) throw new UsageError('--url must be an http or https URL');
  if (!/\/mcp\/?$/.test(base.pathname)) base.pathname = `${base.pathname.replace(/\/$/, '')}/mcp`;
  const credentials = key === undefined || key === '' ? {} : { authorization: `Bearer ${key}` };
  return async (body, headers, signal) =>
    // oxlint-disable-next-line no-restricted-globals -- one program with one connection; its answers are streams of the Fetch standard.
    fetch(base, { method: 'POST', body, headers: { ...headers, ...credentials }, signal, redirect: 'error' });
}

/** The endpoint of a gateway in this process, without a socket. */
function inProcess({ plane }: ServedGateway): SendMessage {
  return (message, headers, signal) =>
    new Promise((resolve, reject) => {
      const body = Buffer.from(message);
      const head = {
        method: 'POST',
        path: '/mcp',
        query: '',
        headers: Object.entries(headers).flat(),
        remoteAddress: '',
      };
      let exchange!: DetachedExchange;
      let pieces!: ReadableStreamDefaultController<Uint8Array>;
      let begun = false;
      const stream = new ReadableStream<Uint8Array>({
        start: (controller) => {
          pieces = controller;
        },
        pull: () => exchange.resume(),
      });
      const begin = (): void => {
        if (begun) return;
        begun = true;
        const flat = exchange.answerHeaders;
        const fields = flat.flatMap((name, i) =>
          i % 2 === 0 ? [[name, flat[i + 1] as string] as [string, string]] : [],
        );
        const { status } = exchange;
        resolve(new Response(status === 202 || status === 204 ? null : stream, { status, headers: fields }));
      };
      const sink = {
        piece: (chunk: Uint8Array): boolean => {
          begin();
          pieces.enqueue(new Uint8Array(chunk));
          return (pieces.desiredSize ?? 0) > 0;
        },
        end: (): void => {
          begin();
          pieces.close();
        },
        broken: (): void => {
          if (begun) pieces.error(new Error('the answer was broken off'));
          else reject(new Error('the answer was broken off'));
        },
      };
      const leave = (): void => {
        exchange.leave();
        reject(signal.reason as Error);
        if (begun) pieces.error(signal.reason);
      };
      startDetached(plane.deps.detached, head, body, sink, (started) => {
        exchange = started;
        signal.addEventListener('abort', leave, { once: true });
      });
    });
}
