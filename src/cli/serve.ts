// `headrace serve`: runs the gateway of a configuration file and reloads it when the file changes.

import type { Command } from 'commander';
import { helpText } from '../config/describe.ts';
import { loadConfigFile, type Resolution, type SettingSources } from '../config/load.ts';
import { storeName, unwritableFolder } from '../config/store-url.ts';
import { findWarnings } from '../config/warning.ts';
import { watchConfig } from '../config/watch.ts';
import { withEnginesChecked } from '../gateway/engine-settings.ts';
import type { ReloadAnswer } from '../admin/index.ts';
import { messageOf } from '../errors.ts';
import { ListenError } from '../ingress/server.ts';
import { type ServedGateway, serveGateway } from '../gateway/gateway.ts';
import { createLog, type Log } from '../telemetry/log.ts';
import { watchExceptions } from './exceptions.ts';
import { type CliIo, StartError } from './io.ts';
import { mistakeLines } from './options.ts';
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
    .action(async ({ config }: { config: string }) => serve(config, readRest(command, 0).settings, io));
}

/** What a change of the file and SIGHUP need. */
interface Reloading {
  readonly log: Log;
  readonly reload: () => Promise<ReloadAnswer>;
}

async function serve(file: string, overrides: Flags, io: CliIo): Promise<void> {
  const created = Promise.withResolvers<Reloading>();
  // Before the file is read: a change behind that is not missed, and SIGHUP ends a process that does not listen for it.
  const onHangup = (): void => void created.promise.then(({ reload }) => reload());
  const watch = watchConfig(file, {
    onChange: onHangup,
    onError: ({ message }) =>
      void created.promise.then(({ log }) => log.error({ file, problem: message }, 'the configuration cannot be read')),
  });
  io.events.on('SIGHUP', onHangup);
  try {
    await run(file, overrides, io, created.resolve);
  } finally {
    watch.close();
    io.events.off('SIGHUP', onHangup);
  }
}

/** `onCreated` is called once there is a gateway. */
async function run(file: string, overrides: Flags, io: CliIo, onCreated: (it: Reloading) => void): Promise<void> {
  const resolution = withEnginesChecked(await loadConfigFile(file, io.env, overrides));
  if ('mistakes' in resolution) throw new StartError(mistakeLines(resolution.mistakes), file);
  const { settings, sources } = resolution;
  const folder = settings.store === null ? null : unwritableFolder(settings.store);
  if (folder !== null) {
    const problem = `${storeName(settings.store ?? '')} cannot be made: ${folder} does not exist or is not writable; write another path`;
    throw new StartError(`  store: ${problem}\n`, file);
  }
  const log = createLog(settings.log.level, io.log);
  for (const warning of findWarnings(settings)) log.warn(warning);
  let last: Promise<unknown> = Promise.resolve();
  // One after the other, so that what was read first is not put in force last.
  const reload = (): Promise<ReloadAnswer> => {
    const answer = last.then(async () => {
      const loaded = refuseEmpty(await loadConfigFile(file, io.env, overrides), file, sources);
      return apply(loaded, file, gateway, log);
    });
    last = answer.catch(() => undefined);
    return answer;
  };
  const gateway = serveGateway(settings, { onFatal: () => serving.fail(), reload, sources });
  const serving = closeOnSignal(io, { close: () => gateway.close(), abort: () => gateway.abort() });
  const endWatch = watchExceptions(io, log, 'gateway', () => serving.fail());
  // Reloads at SIGHUP whether the file has changed or not: variables of the environment it names may point to files.
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

/** A file that says nothing any more was cut off, as on a full disk: it would take every model and key away. */
function refuseEmpty(loaded: Resolution, file: string, started: SettingSources): Resolution {
  const isSilent = (sources: SettingSources): boolean => !Object.values(sources).includes('file');
  if ('mistakes' in loaded || isSilent(started) || !isSilent(loaded.sources)) return loaded;
  return { mistakes: [{ path: file, message: 'holds no setting any more; for no models write models: {}' }] };
}

/** Puts a configuration in force, unless it is wrong. */
function apply(loaded: Resolution, file: string, gateway: ServedGateway, log: Log): ReloadAnswer {
  const resolution = withEnginesChecked(loaded);
  if ('mistakes' in resolution) {
    log.error({ file, mistakes: resolution.mistakes }, 'the configuration is wrong: the running one stays');
    return resolution;
  }
  try {
    const { applied, needRestart } = gateway.reloadSettings(resolution.settings, resolution.sources);
    log.level = resolution.settings.log.level;
    log.info({ applied, needRestart }, needRestart.length > 0 ? 'reloaded; some changes need a restart' : 'reloaded');
    return { applied, needRestart };
  } catch (error) {
    log.error({ file, problem: messageOf(error) }, 'not reloaded');
    return { mistakes: [{ path: file, message: messageOf(error) }] };
  }
}
