// Walks what the user wrote along the settings table and builds the resolved object, collecting every mistake by
// path. `load.ts` calls it once per configuration. Messages never repeat a value.

import { expand } from './expansion.ts';
import { resolvedName, type Setting } from './row.ts';
import { SETTINGS } from './table.ts';
import { nearest } from './spelling.ts';
import { Problem, readScalar } from './value.ts';

/** One thing wrong with a configuration. */
export interface Mistake {
  /** Where: a path in the file (`timeouts.connect`), a variable, a flag, or `FILE:LINE:COLUMN` for syntax. */
  readonly path: string;
  /** What, as the end of a sentence that begins with the path. Holds no value of the configuration. */
  readonly message: string;
}

/** A value from the environment or the command line. `label` is the name it came under. */
export interface Override {
  readonly label: string;
  readonly raw: unknown;
}

/** Reads one configuration; `mistakes` is complete when `read` of the root has returned. */
export class Reader {
  readonly mistakes: Mistake[] = [];
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #overrides: ReadonlyMap<string, readonly Override[]>;

  /** `overrides` holds, by path of the setting, values that win over the file, the strongest last. */
  constructor(env: Readonly<Record<string, string | undefined>>, overrides: ReadonlyMap<string, readonly Override[]>) {
    this.#env = env;
    this.#overrides = overrides;
  }

  /** Reads the whole table from the root of the file. The result is only to be used when there are no mistakes. */
  readRoot(table: Setting, raw: unknown): Record<string, unknown> {
    return this.#readRecord(table, raw ?? {}, '') ?? {};
  }

  report(path: string, message: string): void {
    this.mistakes.push({ path: path === '' ? '(root)' : path, message });
  }

  /** The value, or undefined after a mistake was reported. */
  #read(setting: Setting, raw: unknown, path: string): unknown {
    const plain = typeof raw === 'string' ? this.#expand(raw, path) : raw;
    if (plain === undefined) return undefined;
    if (setting.kind === 'record') return this.#readRecord(setting, plain, path);
    if (setting.kind === 'map') return this.#readMap(setting, plain, path);
    if (setting.kind === 'open') return this.#readOpen(plain, path);
    if (plain === null && setting.nullable === true) return null;
    if (setting.kind === 'list') return this.#readList(setting, plain, path);
    const value = readScalar(plain, setting.kind, setting);
    if (!(value instanceof Problem)) return value;
    this.report(path, setting.nullable === true ? `${value.message}, or null` : value.message);
    return undefined;
  }

  #expand(text: string, path: string): string | undefined {
    const expansion = expand(text, this.#env);
    if ('text' in expansion) return expansion.text;
    for (const problem of expansion.problems) this.report(path, problem);
    return undefined;
  }

  #readRecord(setting: Setting, raw: unknown, path: string): Record<string, unknown> | undefined {
    if (!isMapping(raw)) {
      this.report(path, 'must be a mapping of names to values');
      return undefined;
    }
    const fields = setting.fields ?? {};
    this.#refuseUnknown(raw, fields, path);
    const resolved: Record<string, unknown> = {};
    for (const [name, field] of Object.entries(fields)) {
      const value = this.#readField(field, raw[name], path === '' ? name : `${path}.${name}`);
      if (value !== undefined) resolved[resolvedName(name, field)] = value;
    }
    return resolved;
  }

  /** File, then environment, then flag; all are checked, the last one given counts. */
  #readField(field: Setting, raw: unknown, path: string): unknown {
    // A section or list whose entries are all commented out is null in YAML.
    const holdsEntries = field.kind === 'record' || field.kind === 'map' || field.kind === 'list';
    let value = this.#readWritten(field, raw === null && holdsEntries ? undefined : raw, path);
    for (const override of this.#overrides.get(path) ?? []) {
      const stronger = this.#read(field, override.raw, override.label);
      if (stronger !== undefined) value = stronger;
    }
    return value;
  }

  #readWritten(field: Setting, raw: unknown, path: string): unknown {
    if (raw !== undefined) return this.#read(field, raw, path);
    if (field.required === true) this.report(path, 'is required');
    if (field.required !== undefined) return undefined;
    return this.#read(field, field.kind === 'record' ? {} : field.fallback, path);
  }

  #readMap(setting: Setting, raw: unknown, path: string): unknown {
    if (!isMapping(raw)) {
      this.report(path, 'must be a mapping of names to values');
      return undefined;
    }
    const entries = Object.entries(raw).map(([name, entry]) => {
      return [name, setting.items && this.#read(setting.items, entry ?? {}, entryPath(path, name))] as const;
    });
    return Object.fromEntries(entries);
  }

  /** Objects of classes and functions, which no file can hold, pass as they are: plug-ins. */
  #readOpen(raw: unknown, path: string): unknown {
    if (typeof raw === 'string') return this.#expand(raw, path);
    if (Array.isArray(raw)) return raw.map((item: unknown, index) => this.#readOpen(item, `${path}[${index}]`));
    if (!isPlain(raw)) return raw;
    return Object.fromEntries(
      Object.entries(raw).map(([name, value]) => [name, this.#readOpen(value, entryPath(path, name))]),
    );
  }

  #readList(setting: Setting, raw: unknown, path: string): unknown {
    if (!Array.isArray(raw)) {
      this.report(path, 'must be a list');
      return undefined;
    }
    return raw.map((item: unknown, index) => setting.items && this.#read(setting.items, item, `${path}[${index}]`));
  }

  #refuseUnknown(raw: Record<string, unknown>, fields: Readonly<Record<string, Setting>>, path: string): void {
    const holdsSecrets = Object.values(fields).some((field) => field.secret === true && field.required === true);
    for (const name of Object.keys(raw)) {
      if (Object.hasOwn(fields, name)) continue;
      const near = nearest(name, Object.keys(fields)) ?? (path === '' ? homeOf(name) : undefined);
      // Where keys are listed, an unknown name may be a key in the wrong place.
      if (holdsSecrets && near === undefined) {
        this.report(path, `holds an unknown name; it may hold ${Object.keys(fields).join(' and ')}`);
        continue;
      }
      const where = path === '' ? name : `${path}.${name}`;
      this.report(where, near === undefined ? 'is unknown' : `is unknown; did you mean ${near}?`);
    }
  }
}

/** The path of the setting that has this name inside a section. */
function homeOf(name: string): string | undefined {
  return SETTINGS.find(({ path }) => path.endsWith(`.${name}`))?.path;
}

/** The path of an entry with a name of the user's choice; one that holds dots stands in brackets. */
export function entryPath(path: string, name: string): string {
  return /^[\w-]+$/.test(name) ? `${path}.${name}` : `${path}[${JSON.stringify(name)}]`;
}

/** A mapping of data: neither an instance of a class nor a holder of functions. */
export function isPlain(raw: unknown): raw is Record<string, unknown> {
  if (!isMapping(raw)) return false;
  const prototype: unknown = Object.getPrototypeOf(raw);
  const plain = prototype === Object.prototype || prototype === null;
  return plain && !Object.values(raw).some((value) => typeof value === 'function');
}

/** True for what YAML and JSON call a mapping or object. */
function isMapping(raw: unknown): raw is Record<string, unknown> {
  return typeof raw === 'object' && raw !== null && !Array.isArray(raw);
}
