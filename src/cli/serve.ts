// `headrace serve` and `headrace check`: a configuration file into a running gateway, or into an explanation.

import { explain } from '../config/describe.ts';
import { environment } from '../config/env.ts';
import { loadConfigFile, loadConfigText, type Mistake, type Resolution } from '../config/load.ts';
import { findWarnings } from '../config/warning.ts';
import { watchConfig } from '../config/watch.ts';
import { withEnginesChecked } from '../gateway/engine-settings.ts';
import type { ReloadAnswer } from '../admin/index.ts';
import { type ServedGateway, serveGateway } from '../gateway/gateway.ts';
import { createLog, type Log } from '../telemetry/log.ts';
import { takeFlags, UsageError } from './args.ts';
import { closeOnSignal, exitNow } from './shutdown.ts';

type Flags = Readonly<Record<string, string>>;

function splitConfig(flags: Flags): { file: string; settings: Flags } {
  const { own, rest } = takeFlags(flags, ['config']);
  if (own.config === undefined) throw new UsageError('--config FILE is missing');
  return { file: own.config, settings: rest };
}

function lines(mistakes: readonly Mistake[]): string {
  return mistakes.map(({ path, message }) => `  ${path}: ${message}\n`).join('');
}

/** Runs until a signal comes. Resolves with an exit code only when the start fails. */
export async function serve(flags: Flags): Promise<number | undefined> {
  const { file, settings: overrides } = splitConfig(flags);
  const resolution = withEnginesChecked(await loadConfigFile(file, environment(), overrides));
  if ('mistakes' in resolution) {
    process.stderr.write(`headrace cannot start with ${file}:\n${lines(resolution.mistakes)}`);
    return 1;
  }
  const { settings } = resolution;
  const log = createLog(settings.log.level);
  for (const warning of findWarnings(settings)) log.warn(warning);
  const gateway = serveGateway(settings, {
    onFatal: () => exitNow(1, () => gateway.abort()),
    reload: () => readAgain(file, overrides, gateway, log),
  });
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'the gateway cannot go on');
    exitNow(1, () => gateway.abort());
  });
  try {
    const { url, adminUrl } = await gateway.listen();
    process.stdout.write(`headrace listening on ${url}\n${adminUrl === null ? '' : `admin on ${adminUrl}\n`}`);
  } catch (error) {
    process.stderr.write(`headrace cannot start: ${error instanceof Error ? error.message : String(error)}\n`);
    exitNow(1, () => gateway.abort());
    return undefined;
  }
  keepUp(file, overrides, gateway, log);
  closeOnSignal({ close: () => gateway.close(), abort: () => gateway.abort() });
  return undefined;
}

/** Reloads at every change of the file, and at SIGHUP whether it changed or not. */
function keepUp(file: string, overrides: Flags, gateway: ServedGateway, log: Log): void {
  watchConfig(file, {
    onChange: (text) => void takeOver(loadConfigText(text, file, environment(), overrides), file, gateway, log),
    onError: (error) => log.error({ file, problem: error.message }, 'the configuration cannot be read'),
  });
  process.on('SIGHUP', () => void readAgain(file, overrides, gateway, log));
}

async function readAgain(file: string, overrides: Flags, gateway: ServedGateway, log: Log): Promise<ReloadAnswer> {
  return takeOver(await loadConfigFile(file, environment(), overrides), file, gateway, log);
}

/** Puts a configuration in force, unless it is wrong. */
function takeOver(loaded: Resolution, file: string, gateway: ServedGateway, log: Log): ReloadAnswer {
  const resolution = withEnginesChecked(loaded);
  if ('mistakes' in resolution) {
    log.error({ file, mistakes: resolution.mistakes }, 'the configuration is wrong: the running one stays');
    return resolution;
  }
  const { applied, needRestart } = gateway.reloadSettings(resolution.settings);
  log.level = resolution.settings.log.level;
  log.info({ applied, needRestart }, needRestart.length > 0 ? 'reloaded; some changes need a restart' : 'reloaded');
  return { applied, needRestart };
}

/** Explains a configuration. */
export async function check(flags: Flags): Promise<number> {
  const { file, settings: overrides } = splitConfig(flags);
  const resolution = withEnginesChecked(await loadConfigFile(file, environment(), overrides));
  if ('mistakes' in resolution) {
    const count = resolution.mistakes.length;
    process.stdout.write(`${file}: ${count} ${count === 1 ? 'mistake' : 'mistakes'}\n${lines(resolution.mistakes)}`);
    return 1;
  }
  process.stdout.write(`${explain(resolution.settings, file)}\n`);
  return 0;
}
