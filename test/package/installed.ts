// The package as users get it: packed, and installed into an empty folder without optional dependencies.

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

export const ROOT: string = fileURLToPath(new URL('../../../', import.meta.url));

/** The lowest supported version. */
export const LOWEST_NODE = '22.19.0';

/** Files of the package, as `npm pack` lists them. */
export interface PackedFile {
  readonly path: string;
  readonly size: number;
}

interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly files: readonly PackedFile[];
}

/** Output of npm. Nothing is built again: what is tested is in `dist`. */
async function npm(args: readonly string[], cwd: string): Promise<string> {
  const options = { cwd, maxBuffer: 2 ** 26, env: { ...process.env, NODE_OPTIONS: '', npm_config_loglevel: 'error' } };
  const { stdout } = await run('npm', [...args, '--ignore-scripts', '--no-audit', '--no-fund'], options);
  return stdout;
}

/** Packs the package; with `folder` it also writes the tarball there. */
export async function pack(folder?: string): Promise<Packed> {
  const where = folder === undefined ? ['--dry-run'] : ['--pack-destination', folder];
  const [packed] = JSON.parse(await npm(['pack', '--json', ...where], ROOT)) as Packed[];
  return packed as Packed;
}

/** A folder with the package installed, and what a consumer has beside it: `others` and the type declarations of Node.js. */
export async function install(others: readonly string[]): Promise<{ folder: string; remove: () => void }> {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-installed-'));
  const { filename } = await pack(folder);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type: 'module' }));
  await npm(['install', '--prefer-offline', '--omit=optional', `./${filename}`, ...others], folder);
  symlinkSync(join(ROOT, 'node_modules/@types'), join(folder, 'node_modules/@types'));
  return { folder, remove: () => rmSync(folder, { recursive: true }) };
}

/** Node.js binaries by version, from the registry or from npm's cache. */
export async function nodeBinaries(versions: readonly string[], folder: string): Promise<ReadonlyMap<string, string>> {
  const name = `node-${process.platform}-${process.arch}`;
  const prefix = join(folder, 'nodes');
  const packages = versions.map((version) => `node-${version}@npm:${name}@${version}`);
  await npm(['install', '--prefer-offline', '--no-save', '--prefix', prefix, ...packages], folder);
  return new Map(
    versions.map((version) => [version, join(prefix, 'node_modules', `node-${version}`, 'bin/node')] as const),
  );
}
