// `headrace serve`: runs the gateway of a configuration file and reloads it when the file changes.

import type { Command } from 'commander';
import { helpText } from '../config/describe.ts';
import { loadConfigFile, type Resolution } from '../config/load.ts';
import { storeName, unwritableFolder } from '../config/store-url.ts';
import { findWarnings } from '../config/warning.ts';
import { withEnginesChecked } from '../gateway/engine-settings.ts';
import { messageOf } from '../errors.ts';
import { ListenError } from '../ingress/server.ts';
import { serveGateway } from '../gateway/gateway.ts';
import { createLog } from '../telemetry/log.ts';
import { watchExceptions } from './exceptions.ts';
import { type CliIo, StartError } from './io.ts';
import { mistakeLines } from './options.ts';
import { createReload, type OnCreated, withReloads } from './reloading.ts';
import { readRest } from './setting-options.ts';
import { closeOnSignal } from './shutdown.ts';

type Flags = Readonly<Record<string, string>>;

const DESCRIPTION = `Runs the gateway. Prints to standard output, once the public port answers:
  headrace listening on http://HOST:PORT
  admin on http://HOST:PORT
Logs go to standard error, one JSON object a line.

A changed file or SIGHUP reloads the configuration without dropping a stream; a broken file keeps the running
configuration and logs the mistakes. SIGTERM or SIGINT stops accepting, lets requests in flight finish within
timeouts.drain and exits 0; a second signal exits at once. Exit code 1: the configuration is wrong, the port is
taken, or the gateway failed.`;

export function configureServe(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .usage('--config FILE [--SETTING VALUE ...]')
    .requiredOption('-c, --config <file>', 'configuration, YAML or JSON')
    .allowUnknownOption()
    .allowExcessArguments()
    .addHelpText('after', () => `\n${helpText()}`)
    .action(async ({ config }: { config: string }) => {
      const overrides = readRest(command, 0).settings;
      await withReloads(config, io, (onCreated) => run(config, overrides, io, onCreated));
    });
}

/** `onCreated` is called once there is a gateway. */
async function run(file: string, overrides: Flags, io: CliIo, onCreated: OnCreated): Promise<void> {
  const load = async (): Promise<Resolution> => withEnginesChecked(await loadConfigFile(file, io.env, overrides));
  const resolution = await load();
  if ('mistakes' in resolution) throw new StartError(mistakeLines(resolution.mistakes), file);
  const { settings, sources } = resolution;
  const folder = settings.store === null ? null : unwritableFolder(settings.store);
  if (folder !== null) {
    const problem = `${storeName(settings.store ?? '')} cannot be made: ${folder} does not exist or is not writable; write another path`;
    throw new StartError(`  store: ${problem}\n`, file);
  }
  const log = createLog(settings.log.level, io.log);
  for (const warning of findWarnings(settings)) log.warn(warning);
  const reload = createReload({
    ...{ file, load, log, started: sources },
    apply: (loaded) => gateway.reloadSettings(loaded.settings, loaded.sources),
  });
  const gateway = serveGateway(settings, { onFatal: () => serving.fail(), reload, sources });
  const serving = closeOnSignal(io, { close: () => gateway.close(), abort: () => gateway.abort() });
  const endWatch = watchExceptions(io, log, 'gateway', () => serving.fail());
  onCreated({ log, reload });
  const start = async (): Promise<void> => {
    try {
      const { url, adminUrl } = await gateway.listen();
      if (serving.isEnding) return;
      io.stdout.write(`headrace listening on ${url}\n${adminUrl === null ? '' : `admin on ${adminUrl}\n`}`);
    } catch (error) {
      if (serving.isEnding) return;
      await gateway.close();
      // The line of the file, since nobody thinks of the second port first.
      const isAdmin =
        error instanceof ListenError && settings.admin !== null && error.address.port === settings.admin.port;
      serving.fail(new StartError(`${messageOf(error)}${isAdmin ? ' (setting admin)' : ''}`));
    }
  };
  // Not awaited: a gateway that is ended at once before its threads serve leaves `listen` pending.
  void start();
  await serving.ended.finally(endWatch);
}
