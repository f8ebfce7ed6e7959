// Fixtures for the tests of the account commands (keys, credits, usage, audit): a store in a file, and an admin service behind an
// admin listener.

import { randomBytes } from 'node:crypto';
import type { Test } from 'tap';
import type { Ledger } from '../../src/billing/index.ts';
import { openLedger } from '../../src/billing/main-thread.ts';
import { systemClock } from '../../src/actor/clock.ts';
import { AccountRoutes } from '../../src/admin/account-routes.ts';
import { AdminTokens } from '../../src/admin/admin-tokens.ts';
import { openAdmin } from '../../src/admin/admin.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { type Cli, type Exit, runCli } from '../support/cli.ts';

/** An empty store in a folder with these files, and the flags that name it. */
export function storeFor(
  t: Test,
  files: Readonly<Record<string, string>> = {},
): { folder: string; url: string; where: readonly string[] } {
  const folder = t.testdir({ ...files, 'accounts.db': '' });
  const url = `sqlite:${folder}/accounts.db`;
  return { folder, url, where: ['--store', url] };
}

export function dateMs(): number {
  return Math.floor(systemClock.now());
}

/** The ledger of a store, as a gateway has it open; charges come from here. */
export async function ledgerOf(t: Test, url: string): Promise<Ledger> {
  const ledger = await openLedger(url, { clock: systemClock, dateMs, lingerMs: 0 });
  t.teardown(() => ledger.close());
  return ledger;
}

/** Runs a command that has to succeed. */
export async function run(t: Test, ...args: readonly string[]): Promise<Cli & { exit: Exit }> {
  const cli = await runCli(t, args);
  t.strictSame(cli.exit, { code: 0, signal: null }, `${args.join(' ')}: ${cli.stderr}`);
  t.match(cli.stderr, /^(?:store: .+\n)?$/);
  return cli;
}

export interface RemoteAdminService {
  readonly ledger: Ledger;
  /** Flags and variables that lead there. */
  readonly where: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly log: readonly string[];
}

/** An admin listener with accounts over a ledger in memory. */
export async function startAdminService(t: Test): Promise<RemoteAdminService> {
  const ledger = await ledgerOf(t, 'sqlite::memory:');
  const lines: string[] = [];
  const note = (...said: unknown[]): void => void lines.push(JSON.stringify(said));
  const token = 'open-sesame';
  const tokens = new AdminTokens({ adminToken: token, adminTokens: [] });
  const log = { info: note, error: note } as unknown as Log;
  const routes = new AccountRoutes({ ledger: () => ledger, dateMs, randomBytes, tokens, log });
  const deps = { status: () => ({}), metrics: async () => [] };
  const admin = await openAdmin({ host: '127.0.0.1', port: 0 }, deps, routes);
  t.teardown(() => admin.close());
  const where = ['--admin', `http://127.0.0.1:${admin.address.port}/`];
  return { ledger, where, env: { HEADRACE_ADMIN_TOKEN: token }, log: lines };
}
