// Reloads of a command that serves with a configuration file: at a change of the file, at SIGHUP, and when they are asked for.

import type { ReloadAnswer } from '../admin/index.ts';
import { MAX_CONFIG_BYTES, type Resolution, type ResolvedSettings, type SettingSources } from '../config/load.ts';
import { watchConfig } from '../config/watch.ts';
import { messageOf } from '../errors.ts';
import type { Reloaded } from '../gateway/gateway.ts';
import type { Log } from '../telemetry/log.ts';
import type { CliIo } from './io.ts';

/** A gateway that runs, with what its reloads need. */
export interface Reloadable {
  readonly file: string;
  readonly log: Log;
  /** Where the settings of the start come from. */
  readonly started: SettingSources;
  readonly load: () => Promise<Resolution>;
  /** Puts settings in force. */
  readonly apply: (loaded: ResolvedSettings) => Reloaded;
}

/** Takes what a change of the file and SIGHUP need. */
export type OnCreated = (created: Reloading) => void;

interface Reloading {
  readonly log: Log;
  readonly reload: () => Promise<ReloadAnswer>;
}

/**
 * Runs a command that reloads. `run` is given what to call once there is a gateway. Reloads at SIGHUP whether the file has changed or not:
 * variables of the environment that it names may point to files.
 */
export async function withReloads(
  file: string,
  io: CliIo,
  run: (onCreated: OnCreated) => Promise<void>,
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

/** Reads the file again and puts it in force, unless it is wrong. Never rejects. */
export function createReload({ apply, file, load, log, started }: Reloadable): () => Promise<ReloadAnswer> {
  let last: Promise<unknown> = Promise.resolve();
  const reload = async (): Promise<ReloadAnswer> => {
    const loaded = refuseEmpty(await load(), file, started);
    if ('mistakes' in loaded) {
      const { mistakes } = loaded;
      log.error({ file, mistakes }, 'the configuration is wrong: the running one stays');
      return { mistakes };
    }
    const { applied, needRestart } = apply(loaded);
    log.level = loaded.settings.log.level;
    log.info({ applied, needRestart }, needRestart.length > 0 ? 'reloaded; some changes need a restart' : 'reloaded');
    return { applied, needRestart };
  };
  const refuse = (error: unknown): ReloadAnswer => {
    log.error({ file, problem: messageOf(error) }, 'not reloaded');
    return { mistakes: [{ path: file, message: messageOf(error) }] };
  };
  // One after the other, so that what was read first is not put in force last.
  return () => {
    const answer = last.then(reload).catch(refuse);
    last = answer;
    return answer;
  };
}

/** A file that says nothing any more was cut off, as on a full disk: it would take every model and key away. */
function refuseEmpty(loaded: Resolution, file: string, started: SettingSources): Resolution {
  const isSilent = (sources: SettingSources): boolean => !Object.values(sources).includes('file');
  if ('mistakes' in loaded || isSilent(started) || !isSilent(loaded.sources)) return loaded;
  return { mistakes: [{ path: file, message: 'holds no setting any more; for no models write models: {}' }] };
}
