// Versions of the peers, read from the programs and packages that are installed.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cacheFolder, inPackages } from './install.mjs';

/** First match of `pattern` in what a command says; null if there is none. */
export function commandVersion(command, args, pattern = /(\d+\.\d+[\w.+~-]*)/) {
  const { stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  return pattern.exec(`${stdout}${stderr}`)?.[1] ?? null;
}

/** Version of a Python package in the virtual environment `venv` of the cache folder, from its metadata. */
export function pypiVersion(venv, name = venv) {
  const prefix = `${name.replaceAll('-', '_')}-`;
  const entries = readdirSync(inPackages(join(cacheFolder(), venv), ''));
  const entry = entries.find((it) => it.startsWith(prefix) && it.endsWith('.dist-info'));
  return entry === undefined ? null : entry.slice(prefix.length, -'.dist-info'.length);
}

/** Version of the npm package that has `file`. */
export function npmVersion(file) {
  for (let folder = dirname(file); folder !== dirname(folder); folder = dirname(folder)) {
    try {
      return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version;
    } catch {
      // Not the folder of the package yet.
    }
  }
  return null;
}
