// `headrace picker`: an endpoint picker for Envoy and other data planes of the Kubernetes Gateway API, with the routing of a gateway.

import { type Command, InvalidArgumentError, Option } from 'commander';
import { loadConfigFile } from '../config/load.ts';
import type { Settings } from '../config/settings.ts';
import { type Address, parseAddress } from '../config/units.ts';
import { messageOf } from '../errors.ts';
import { serveGateway } from '../gateway/gateway.ts';
import { createPickerServer, type Grpc, loadGrpc } from '../picker/index.ts';
import { createLog } from '../telemetry/log.ts';
import { type CliIo, StartError, UsageError } from './io.ts';
import { mistakeLines, wholeNumber } from './options.ts';
import { readTls, type TlsFiles, watchTls } from './picker-tls.ts';
import { createReload, type OnCreated, withReloads } from './reloading.ts';
import { readRest } from './setting-options.ts';
import { closeOnSignal } from './shutdown.ts';

interface PickerOptions {
  readonly config: string;
  readonly grpc: Address;
  readonly fallbacks: number;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

const DEFAULT_LISTEN = '0.0.0.0:9002';

const DESCRIPTION = `Picks a model server for each request of a data plane, by the prompt, as the gateway does: an endpoint picker of the
Gateway API Inference Extension, over Envoy's external processing (gRPC). The data plane forwards the requests
itself. Prints to standard output, once the port answers:
  headrace picker listening on grpc://HOST:PORT
  admin on http://HOST:PORT

Models, servers, discovery, routing and cluster are those of the configuration; listen, store, keys, payments and
search are not used. Servers need addresses in their URLs, not names. Health: grpc.health.v1, services liveness and
readiness. Needs the packages @grpc/grpc-js and @grpc/proto-loader beside headrace.`;

export function configurePicker(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .usage('--config FILE [options] [--SETTING VALUE ...]')
    .requiredOption('-c, --config <file>', 'configuration, YAML or JSON')
    .addOption(
      new Option('--grpc <host:port>', 'where data planes connect to')
        .argParser(address)
        .default(address(DEFAULT_LISTEN), DEFAULT_LISTEN),
    )
    .option('--fallbacks <n>', 'servers named behind the picked one, for data planes that retry', wholeNumber(0), 0)
    .option('--tls-cert <file>', 'certificate chain as PEM, read again when it changes; without it plain HTTP/2')
    .option('--tls-key <file>', 'its key as PEM')
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async (options: PickerOptions) => {
      const { settings } = readRest(command, 0);
      await withReloads(options.config, io, (onCreated) => pick(options, settings, io, onCreated));
    });
}

function address(text: string): Address {
  const parsed = parseAddress(text, '0.0.0.0');
  if (parsed === undefined) throw new InvalidArgumentError('It must be HOST:PORT.');
  return parsed;
}

async function pick(
  options: PickerOptions,
  overrides: Readonly<Record<string, string>>,
  io: CliIo,
  onCreated: OnCreated,
): Promise<void> {
  const { config: file } = options;
  const grpc = await installedGrpc();
  const files = tlsFiles(options);
  const tls = files === null ? null : await readTls(files);
  const loaded = await loadConfigFile(file, io.env, overrides);
  if ('mistakes' in loaded) throw new StartError(mistakeLines(loaded.mistakes), file);
  const { sources } = loaded;
  const settings = ofPicker(loaded.settings);
  let { timeouts } = loaded.settings;
  const log = createLog(settings.log.level, io.log);
  const reload = createReload({
    ...{ file, log, started: sources },
    load: () => loadConfigFile(file, io.env, overrides),
    apply: ({ settings: next, sources: from }) => {
      const reloaded = gateway.reloadSettings(ofPicker(next), from);
      ({ timeouts } = next);
      return reloaded;
    },
  });
  const gateway = serveGateway(settings, { onFatal: () => serving.fail(), reload, sources });
  const { plane } = gateway;
  const picker = createPickerServer({
    ...{ grpc, tls, fallbacks: options.fallbacks, budget: plane.budget, deps: () => plane.deps },
    maxBodyBytes: () => plane.limits.maxBodyBytes,
    isReady: () => !serving.isEnding && plane.deps.stage === 'ready',
  });
  const close = async (): Promise<void> => {
    // Data planes see that it is not ready before their connections end.
    await new Promise((resolve) => setTimeout(resolve, timeouts.unreadyMs));
    await picker.close(timeouts.drainMs);
    await gateway.close();
  };
  const serving = closeOnSignal(io, { close, abort: () => gateway.abort() });
  onCreated({ log, reload });
  const onChange = picker.useTls.bind(picker);
  const watch = files === null || tls === null ? null : watchTls(files, { log, current: tls, onChange });
  try {
    const port = await picker.listen(options.grpc);
    const adminUrl = await gateway.listenAdmin();
    const { host } = options.grpc;
    io.stdout.write(
      `headrace picker listening on grpc://${host.includes(':') ? `[${host}]` : host}:${port}\n${adminUrl === null ? '' : `admin on ${adminUrl}\n`}`,
    );
  } catch (error) {
    if (!serving.isEnding) {
      await picker.close(0);
      await gateway.close();
      serving.fail(new StartError(messageOf(error)));
    }
  }
  await serving.ended.finally(() => watch?.close());
}

/** What a picker does not use is off. */
function ofPicker(settings: Settings): Settings {
  const { payments, timeouts, trust } = settings;
  return {
    ...settings,
    ...{ threads: 0, store: null, timeouts: { ...timeouts, unreadyMs: 0 } },
    keys: { required: false, static: [] },
    payments: { ...payments, facilitator: null, payTo: null },
    // Without the store it knows some of the keys only: hosts that it sent these would refuse all others.
    trust: { ...trust, signingKey: null, token: null },
  };
}

async function installedGrpc(): Promise<Grpc> {
  try {
    return await loadGrpc();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new UsageError('the picker needs gRPC: npm install @grpc/grpc-js @grpc/proto-loader');
  }
}

function tlsFiles({ tlsCert, tlsKey }: PickerOptions): TlsFiles | null {
  if (tlsCert === undefined && tlsKey === undefined) return null;
  if (tlsCert === undefined || tlsKey === undefined) throw new UsageError('--tls-cert and --tls-key belong together');
  return { certificate: tlsCert, key: tlsKey };
}
