// Starts the gateway as users start it, `headrace serve` with a configuration file, and waits until it listens.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { proxyCores } from './cores.mjs';
import { startChild, temporaryFolder } from './process.mjs';
import { KEY, MODEL } from './traffic.mjs';

const CLI = fileURLToPath(new URL('../../bin/headrace.js', import.meta.url));

/** Settings of every benchmarked gateway: free ports, and no ledger, so that a run leaves no file behind. */
const BASE = { listen: '127.0.0.1:0', admin: '127.0.0.1:0', store: null, log: { level: 'warn' } };
const KEYS = { required: true, static: [{ key: KEY, account: 'bench' }] };

/**
 * Runs a gateway with `settings` over the common ones. `cores` are the CPU cores it runs on; `nodeFlags` are flags of Node.js; `profileDir` runs it
 * under the CPU profiler; `cli` is the program of another build. Answers `{ port, child }`.
 */
export async function startGateway(settings, { threads = 1, cores, nodeFlags = [], profileDir, cli = CLI } = {}) {
  const file = join(temporaryFolder(), 'headrace.json');
  writeFileSync(file, JSON.stringify({ ...BASE, keys: KEYS, threads, ...settings }));
  const profile = profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}`];
  const { child, match } = await startChild({
    name: 'headrace',
    command: process.execPath,
    args: [...nodeFlags, ...profile, cli, 'serve', '--config', file],
    core: cores ?? proxyCores(threads),
    ready: /^headrace listening on http:\/\/[^:]+:(\d+)/,
  });
  return { port: Number(match[1]), child };
}

/** Limits that no benchmark reaches: what is measured is the counting. */
const LIMITS = { rpm: 100_000_000, tpm: 1_000_000_000, monthly: '9000' };

/**
 * Settings of a gateway over the model servers on `ports`. `headrace` has everything on, as in production: it checks keys, routes
 * with affinity, probes, keeps metrics, counts tokens and charges an account in a SQLite ledger in `folder`. `keys` has no prices and
 * no ledger; `open` has no keys either, and `least-load` no affinity as well. `limited` is `headrace` with limits of requests, tokens and
 * money for the key.
 */
export function gatewaySettings(variant, ports, folder = temporaryFolder()) {
  const servers = ports.map((port) => `http://127.0.0.1:${port}`);
  const plain = { models: { [MODEL]: { servers } }, routing: { affinity: true } };
  const open = { ...plain, keys: { required: false } };
  if (variant === 'open') return open;
  if (variant === 'least-load') return { ...open, routing: { affinity: false } };
  if (variant === 'keys') return { ...plain, keys: KEYS };
  const pricing = { prompt: '0.25', completion: '1.50' };
  const charged = { ...plain, models: { [MODEL]: { servers, pricing } }, store: `sqlite:${join(folder, 'ledger.db')}` };
  if (variant === 'headrace') return { ...charged, keys: KEYS };
  return { ...charged, keys: { required: true, static: [{ key: KEY, account: 'bench', ...LIMITS }] } };
}
