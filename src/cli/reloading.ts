// Reads the configuration of a command that serves again: when its file changes, at SIGHUP and for `POST /reload`.

import type { ReloadAnswer } from '../admin/index.ts';
import { MAX_CONFIG_BYTES, type Resolution, type SettingSources } from '../config/load.ts';
import { watchConfig } from '../config/watch.ts';
import { messageOf } from '../errors.ts';
import type { ServedGateway } from '../gateway/gateway.ts';
import type { Log } from '../telemetry/log.ts';
import type { CliIo } from './io.ts';

/** What a change of the file and SIGHUP need. */
export interface Reloading {
  readonly log: Log;
  readonly reload: () => Promise<ReloadAnswer>;
}

/** Runs a command whose configuration is reloaded when the file changes and at SIGHUP. `onCreated` is to be called once there is a gateway. */
export async function withReloads(
  file: string,
  io: CliIo,
  run: (onCreated: (reloading: Reloading) => void) => Promise<void>,
): Promise<void> {
  const created = Promise.withResolvers<Reloading>();
  // Before the file is read: a change behind that is not missed, and SIGHUP ends a process that does not listen for it.
  const onHangup = (): void => void created.promise.then(({ reload }) => reload());
  const watch = watchConfig(file, {
    maxBytes: MAX_CONFIG_BYTES,
    onChange: onHangup,
    onError: ({ message }) =>
      void created.promise.then(({ log }) => log.error({ file, problem: message }, 'the configuration cannot be read')),
  });
  io.events.on('SIGHUP', onHangup);
  try {
    await run(created.resolve);
  } finally {
    watch.close();
    io.events.off('SIGHUP', onHangup);
  }
}

export interface ReloadOptions {
  readonly file: string;
  /** Those of the start. */
  readonly sources: SettingSources;
  readonly load: () => Promise<Resolution>;
  readonly gateway: () => ServedGateway;
  readonly log: Log;
}

/** Makes the function that reloads. A configuration that is wrong leaves the running one in force. */
export function reloadOf(options: ReloadOptions): () => Promise<ReloadAnswer> {
  let last: Promise<unknown> = Promise.resolve();
  // One after the other, so that what was read first is not put in force last.
  return () => {
    const answer = last.then(async () => {
      try {
        return apply(await options.load(), options);
      } catch (error) {
        const { file, log } = options;
        log.error({ file, problem: messageOf(error) }, 'not reloaded');
        return { mistakes: [{ path: file, message: messageOf(error) }] };
      }
    });
    last = answer;
    return answer;
  };
}

function apply(loaded: Resolution, { file, gateway, log, sources }: ReloadOptions): ReloadAnswer {
  const resolution = refuseEmpty(loaded, file, sources);
  if ('mistakes' in resolution) {
    log.error({ file, mistakes: resolution.mistakes }, 'the configuration is wrong: the running one stays');
    return resolution;
  }
  const { applied, needRestart } = gateway().reloadSettings(resolution.settings, resolution.sources);
  log.level = resolution.settings.log.level;
  log.info({ applied, needRestart }, needRestart.length > 0 ? 'reloaded; some changes need a restart' : 'reloaded');
  return { applied, needRestart };
}

/** A file that says nothing any more was cut off, as on a full disk: it would take every model and key away. */
function refuseEmpty(loaded: Resolution, file: string, started: SettingSources): Resolution {
  const isSilent = (sources: SettingSources): boolean => !Object.values(sources).includes('file');
  if ('mistakes' in loaded || isSilent(started) || !isSilent(loaded.sources)) return loaded;
  return { mistakes: [{ path: file, message: 'holds no setting any more; for no models write models: {}' }] };
}
