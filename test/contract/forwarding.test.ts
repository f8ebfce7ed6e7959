// What a proxied request looks like when it reaches a CRN: its path, its headers and its credential, over all four server adapters.

import t, { type Test } from 'tap';
import { type Opened, CHAT, GOOD, MODEL, open, SERVER_ADAPTERS } from '../support/server-adapter.ts';
import type { ServerAdapterName } from '../support/server-adapter.ts';
import { answer, type RawCrn, rawCrn } from '../support/upstream-crn.ts';
import type { SettingsInput } from '../../src/config/settings.ts';

/** A CRN that answers everything, and a gateway with a credential for it; the CRN's base URL has a path. */
async function start(
  t: Test,
  adapter: ServerAdapterName,
  settings: SettingsInput = {},
): Promise<Opened & { readonly crn: RawCrn; readonly posts: () => string[] }> {
  const crn = await rawCrn(t, ({ socket }) => {
    socket.write(answer('200 OK', '{"choices":[{"finish_reason":"stop"}]}', 'content-type: application/json'));
  });
  const models = { [MODEL]: { servers: [`${crn.url}/tenant-a/vllm`], apiKey: 'gateway-secret' } };
  const opened = await open(t, adapter, { models, ...settings });
  const posts = (): string[] => crn.requests.map(({ head }) => head).filter((head) => head.startsWith('POST '));
  return { ...opened, crn, posts };
}

for (const adapter of SERVER_ADAPTERS) {
  t.test(`${adapter}: a path that may lead out of the base URL is 400 and reaches no CRN`, async (t) => {
    const { ask, posts } = await start(t, adapter);
    const paths = [
      ...['/../../secret', '/v1/../../secret', '/%2e%2e/%2E%2E/secret', '/.%2e/secret', '/..%2fsecret', '/..;/secret'],
      ...['/v1/./x', '//secret', '/v1//x', '/..\\secret', '/%5c..%5csecret', '/v1/%00', '/v1/%0d%0ax', '/v1/%zz'],
    ];
    for (const path of paths) {
      const refused = await ask({ path, headers: GOOD, body: CHAT });
      t.match(refused, { status: 400, headers: { 'x-headrace-error': 'HR_REQUEST_MALFORMED' } }, path);
      t.match(refused.json(), { detail: /^Malformed request: the path has an? / }, path);
    }
    t.same(posts(), []);
    // Other characters stay as they were sent.
    const target = '/v1/a%2Fb/..c/%C3%A9/x;y=1/?q=../..//%2e%2e\\&r=%20%zz';
    t.equal((await ask({ path: target, headers: GOOD, body: CHAT })).status, 200);
    t.match(posts(), [
      /^POST \/tenant-a\/vllm\/v1\/a%2Fb\/\.\.c\/%C3%A9\/x;y=1\/\?q=\.\.\/\.\.\/\/%2e%2e\\&r=%20%zz HTTP\/1\.1\r\n/,
    ]);
  });
}
