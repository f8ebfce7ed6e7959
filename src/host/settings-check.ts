// What is wrong with the settings of a host in a program without types.

import { validateHeaderValue } from 'node:http';
import { PROFILE_NAMES } from './engine/profiles.ts';
import type { HostSettings } from './model-host.ts';

const MAX_PORT = 65_535;

const NUMBERS = [
  ...(['timeToFirstTokenMs', 'interTokenMs', 'maxTokens', 'naturalTokens', 'seed', 'loadingMs'] as const),
  ...(['maxBodyBytes', 'journalEntries'] as const),
] satisfies readonly (keyof HostSettings)[];

const ENGINES: readonly unknown[] = [undefined, 'paced', 'steps', ...PROFILE_NAMES];

/** Throws a `RangeError` that names the setting. */
export function checkHostSettings(settings: HostSettings): void {
  if (typeof settings !== 'object' || settings === null) throw new RangeError('a host needs settings, at least models');
  const { engine, keys = [], listen, models, name: host = 'host' } = settings;
  const isModels =
    Array.isArray(models) && models.length > 0 && models.every((id) => typeof id === 'string' && id !== '');
  if (!isModels) throw new RangeError('models must be a list of ids that is not empty');
  const [, port] = /:(\d{1,5})$/.exec(String(listen)) ?? [];
  if (listen !== undefined && !(Number(port) <= MAX_PORT))
    throw new RangeError(`listen must be HOST:PORT, not ${JSON.stringify(listen)}`);
  if (!isHeaderValue(host)) throw new RangeError(`name must be the value of a header, not ${JSON.stringify(host)}`);
  checkEngine(engine, 'engine');
  if (typeof engine === 'object' && 'profile' in engine) checkEngine(engine.profile, 'engine.profile');
  if (!Array.isArray(keys) || !keys.every(isKey))
    throw new RangeError('keys must be a list of texts, or of objects with key and account');
  for (const name of NUMBERS) {
    const value: unknown = settings[name];
    if (value !== undefined && (typeof value !== 'number' || !(value >= 0)))
      throw new RangeError(`${name} must be a number that is not negative, not ${JSON.stringify(value)}`);
  }
}

function checkEngine(engine: unknown, name: string): void {
  if ((typeof engine === 'object' && engine !== null) || ENGINES.includes(engine)) return;
  throw new RangeError(
    `${name} must be settings or one of ${ENGINES.slice(1).join(', ')}, not ${JSON.stringify(engine)}`,
  );
}

/** Whether answers can have it as `x-host`, and in their ids. */
function isHeaderValue(value: unknown): boolean {
  try {
    validateHeaderValue('x-host', value as string);
    return typeof value === 'string';
  } catch {
    return false;
  }
}

function isKey(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return typeof value === 'string';
  const { account, key } = value as Readonly<Record<string, unknown>>;
  return typeof key === 'string' && typeof account === 'string';
}
