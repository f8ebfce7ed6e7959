// One of several gateways in the process of a test, which are siblings through a real Redis or Valkey.

import type { Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import type { Host } from '../../src/host/index.ts';
import type { RedisServer } from './redis.ts';
import { settingsFor } from './system.ts';

export const TOKEN = 'operator-token';

export interface Member {
  readonly gateway: Gateway;
  readonly url: string;
  readonly adminUrl: string;
}

/** Starts a gateway without a ledger in front of these hosts; it ends with the test. */
export async function startMember(
  t: Test,
  hosts: readonly Host[],
  redis: RedisServer,
  more: SettingsInput = {},
): Promise<Member> {
  const cluster = { url: redis.url, name: 'test' };
  const own: SettingsInput = { cluster, admin: '127.0.0.1:0', adminToken: TOKEN, store: null };
  const gateway = createGateway(settingsFor(hosts, { ...own, ...more }));
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  await gateway.ready();
  return { gateway, url, adminUrl: adminUrl ?? '' };
}
