// How often the official SDKs send a request that is refused: once where `x-should-retry` says that no repeat can help, again where it
// says that one can. Their waits are shortened on the way, so that nothing is slept through.

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { endow, SECRET, startLedgerFixture, bearer, USD } from '../support/ledger-fixture.ts';
import { KEY, MODEL, SERVERS, startSystem, type System, until } from '../support/system.ts';

const RETRIES = 2;
const messages = [{ role: 'user' as const, content: 'Where does the water go?' }];
const ask = { model: MODEL, messages, max_tokens: 6 };

interface Case {
  readonly key?: string;
  readonly body?: object;
  /** `x-headrace-error` of every answer, and the number of requests. */
  readonly code: string;
  readonly tries: number;
}

/** Statuses, in the order in which they came. */
type Seen = { readonly status: number; readonly code: string | null; readonly retry: string | null }[];

/** A `fetch` that notes the answers and shortens the waits that they ask for. */
function noting(seen: Seen): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const { headers, status } = response;
    seen.push({ status, code: headers.get('x-headrace-error'), retry: headers.get('x-should-retry') });
    const shortened = new Headers(headers);
    if (headers.has('retry-after')) shortened.set('retry-after-ms', '1');
    return new Response(await response.arrayBuffer(), { status, headers: shortened });
  };
}

async function check(
  t: Test,
  { url }: Pick<System, 'url'>,
  { body = {}, code, key = KEY, tries }: Case,
): Promise<void> {
  const openai = (fetch: typeof globalThis.fetch): Promise<unknown> =>
    new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: RETRIES, fetch }).chat.completions.create({
      ...ask,
      ...body,
    });
  const anthropic = (fetch: typeof globalThis.fetch): Promise<unknown> =>
    new Anthropic({ apiKey: key, authToken: null, baseURL: url, maxRetries: RETRIES, fetch }).messages.create({
      ...ask,
      ...body,
    });
  for (const [sdk, call] of Object.entries({ openai, anthropic })) {
    const seen: Seen = [];
    await t.rejects(call(noting(seen)), `${sdk} ${code}`);
    t.same(new Set(seen.map((answer) => answer.code)), new Set([code]), `${sdk} ${code}`);
    t.same(new Set(seen.map(({ retry }) => retry)), new Set([String(tries > 1)]), `${sdk} ${code}: x-should-retry`);
    t.equal(seen.length, tries, `${sdk} ${code}: requests`);
  }
}

for (const server of SERVERS) {
  const start = (t: Test, settings: SettingsInput = {}): Promise<System> =>
    startSystem(t, { settings: { server, threads: 0, ...settings } });

  void t.test(`${server}: mistakes of the caller are sent once`, async (t) => {
    const system = await start(t, { limits: { bodyBytes: 1000 } });
    await check(t, system, { key: 'hr_wrong', code: 'HR_AUTH_INVALID', tries: 1 });
    await check(t, system, { body: { model: 'nobody' }, code: 'HR_ROUTE_UNKNOWN_MODEL', tries: 1 });
    await check(t, system, { body: { user: 'x'.repeat(1000) }, code: 'HR_REQUEST_TOO_LARGE', tries: 1 });
    await check(t, system, { body: { model: 7 }, code: 'HR_REQUEST_INVALID', tries: 1 });
  });

  void t.test(`${server}: without credit once, above a limit a minute again`, async (t) => {
    const fixture = await startLedgerFixture(t, { settings: { server } });
    await endow(fixture.ledger, 0n);
    await endow(fixture.ledger, USD, { requestsPerMinute: 0 }, 'limited');
    for (const key of [SECRET, 'hr_limited']) {
      const known = async (): Promise<boolean> =>
        (await fetch(`${fixture.url}/svc/auth/check`, { headers: bearer(key) })).status === 200;
      await until('the key is known', known);
    }
    await check(t, fixture, { key: SECRET, code: 'HR_CREDIT_SHORT', tries: 1 });
    await check(t, fixture, { key: 'hr_limited', code: 'HR_KEY_RATE', tries: 1 + RETRIES });
  });

  void t.test(`${server}: when every CRN fails again, when none is fit once`, async (t) => {
    const system = await start(t, { ejection: { consecutive: 1000, errorRate: 1 } });
    await system.host.setFault([{ fault: { status: 500 } }]);
    await check(t, system, { code: 'HR_ROUTE_ALL_FAILED', tries: 1 + RETRIES });
    await system.host.kill();
    await until('all CRNs are down', () => system.gateway.crns().every(({ standing }) => standing === 'down'));
    await check(t, system, { code: 'HR_ROUTE_ALL_FAILED', tries: 1 });
  });
}
