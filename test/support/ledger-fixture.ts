// A gateway with a SQLite ledger for the tests of accounts: priced models on simulated hosts, an account with a key, and a second
// connection to the same ledger for the assertions.

import { join } from 'node:path';
import type { Test } from 'tap';
import { hashKey, type Ledger } from '../../src/billing/index.ts';
import { openLedger } from '../../src/billing/main-thread.ts';
import type { KeyLimits, UsageRow } from '../../src/billing/ledger/ledger.ts';
import { systemClock } from '../../src/actor/index.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import type { HostSettings } from '../../src/host/index.ts';
import { MODEL, settingsFor, startHosts, startSystem, type System, until } from './system.ts';
import { temporaryFolder } from './temporary-folder.ts';

export const SECRET = 'hr_prepaid';
export const USD = 1_000_000_000_000n;

/** USD per million tokens. */
export const PRICING = { prompt: '0.25', completion: '1.50', cached_prompt: '0.05' };
const PROMPT = 250_000;
const CACHED = 50_000;
const COMPLETION = 1_500_000;

export interface LedgerFixture extends System {
  readonly ledger: Ledger;
  readonly store: string;
}

/** The price of these token counts, in pico-USD. */
export function priceOf(prompt: number, cached: number, completion: number): bigint {
  return BigInt((prompt - cached) * PROMPT + cached * CACHED + completion * COMPLETION);
}

export function openTestLedger(t: Pick<Test, 'teardown'>, store: string): Promise<Ledger> {
  const dateMs = (): number => Math.floor(performance.timeOrigin + performance.now());
  const opened = openLedger(store, { clock: systemClock, dateMs, lingerMs: 0 });
  t.teardown(async () => (await opened).close());
  return opened;
}

/** Creates an account with a key and grants it credit. */
export async function endow(ledger: Ledger, usd: bigint, limits: KeyLimits = {}, account = 'acme'): Promise<void> {
  await ledger.createAccount({ id: account });
  const hash = hashKey(account === 'acme' ? SECRET : `hr_${account}`);
  await ledger.createKey({ id: `key-of-${account}`, hash, prefix: 'hr_pre', account, limits });
  if (usd > 0n) await ledger.grant({ id: `grant-${account}`, account, amount: usd });
}

/** Starts the fixture. Spending is flushed every 5 ms, so that tests see charges soon. */
export async function startLedgerFixture(
  t: Test,
  more: {
    readonly hosts?: readonly Partial<HostSettings>[];
    readonly settings?: SettingsInput;
    readonly store?: string;
    /** Members of the model in the configuration. */
    readonly model?: object;
  } = {},
): Promise<LedgerFixture> {
  const store = more.store ?? `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
  const ledger = await openTestLedger(t, store);
  const hosts = await startHosts(t, more.hosts);
  const settings = { ...settingsFor(hosts), ...more.settings };
  const system = await startSystem(t, {
    hosts: [],
    settings: {
      ...settings,
      models: {
        [MODEL]: { servers: hosts.map(({ url }) => url), pricing: PRICING, ...more.model },
        ...more.settings?.models,
      },
      store,
      credit: { flush: '5ms', ...more.settings?.credit },
    },
  });
  return { ...system, hosts, host: hosts[0] as System['host'], ledger, store };
}

/** Totals of an account; waits until they include this number of requests. */
export async function usageOf(ledger: Ledger, requests: number, account = 'acme'): Promise<UsageRow> {
  let row: UsageRow | undefined;
  await until(`${requests} requests in the ledger`, async () => {
    [row] = await ledger.usage({ account, by: [] });
    return row?.requests === BigInt(requests);
  });
  return row as UsageRow;
}

export const bearer = (key: string = SECRET): Record<string, string> => ({ authorization: `Bearer ${key}` });
