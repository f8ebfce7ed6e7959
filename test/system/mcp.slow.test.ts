// `/mcp` over sockets: the conformance suite of the protocol, the official clients of both kinds of revisions through both server adapters
// and several threads, cancellation through another gateway, and a shutdown.

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import t from 'tap';
import type { Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/index.ts';
import { startRedis } from '../support/redis.ts';
import { site } from '../support/site.ts';
import { SERVERS, until } from '../support/system.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const CONFORMANCE = fileURLToPath(
  new URL('../../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
);

const KEY = 'hr_mcp_system';
const AUTHORIZATION = { authorization: `Bearer ${KEY}` };

const ARTICLE = `<!doctype html><title>On weirs</title><main><h1>On weirs</h1>${'<p>A weir holds the river back in a dry month, and spills it in a wet one.</p>'.repeat(6)}</main>`;

/** A page, and one that is never answered, with the number of clients that wait for it. */
async function pages(t: Test): Promise<{ origin: string; port: number; waiting: () => number; asked: () => number }> {
  let waiting = 0;
  let asked = 0;
  const { origin, port } = await site(t, {
    '/': (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(ARTICLE),
    '/hang': (_, response) => {
      waiting++;
      asked++;
      response.on('close', () => waiting--);
    },
  });
  return { origin, port, waiting: () => waiting, asked: () => asked };
}

async function open(t: Test, port: number, more: SettingsInput = {}): Promise<{ gateway: Gateway; url: URL }> {
  const gateway = createGateway({
    ...{ listen: '127.0.0.1:0', log: { level: 'silent' }, fetch: { allow: ['127.0.0.1'], ports: [port] } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
    ...more,
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  return { gateway, url: new URL('/mcp', url) };
}

/** What both kinds of clients can do. */
interface AnyClient {
  listTools(): Promise<{ tools: { name: string }[] }>;
  callTool(url: string, signal?: AbortSignal): Promise<Record<string, unknown>>;
}

const CLIENTS: Readonly<Record<string, (t: Test, url: URL) => Promise<AnyClient>>> = {
  'with a handshake': async (t, url) => {
    const client = new OldClient({ name: 'test', version: '1' });
    const transport = new OldTransport(url, { requestInit: { headers: AUTHORIZATION } });
    await client.connect(transport as unknown as Transport);
    t.teardown(() => client.close());
    return {
      listTools: () => client.listTools(),
      callTool: (page, signal) =>
        client.callTool({ name: 'fetch', arguments: { url: page } }, undefined, signal === undefined ? {} : { signal }),
    };
  },
  'without one': async (t, url) => {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers: AUTHORIZATION } }));
    t.teardown(() => client.close());
    return {
      listTools: () => client.listTools(),
      callTool: (page, signal) =>
        client.callTool({ name: 'fetch', arguments: { url: page } }, signal === undefined ? {} : { signal }),
    };
  },
};

for (const server of SERVERS) {
  t.test(`the official clients list, call and cancel through ${server} and two threads`, async (t) => {
    const { asked, origin, port, waiting } = await pages(t);
    const { url } = await open(t, port, { server, threads: 2 });
    for (const [at, [kind, connect]] of Object.entries(CLIENTS).entries()) {
      const client = await connect(t, url);
      t.match(await client.listTools(), { tools: [{ name: 'fetch' }] }, kind);
      const page = await client.callTool(`${origin}/`);
      t.match(page, { structuredContent: { title: 'On weirs' } });
      t.match(page['content'], [{ text: /^# On weirs\n/ }]);
      const leave = new AbortController();
      const call = client.callTool(`${origin}/hang`, leave.signal);
      await until('the page is asked for', () => asked() === at + 1);
      leave.abort(new Error('changed my mind'));
      await t.rejects(call);
      await until('nobody waits for the page', () => waiting() === 0);
    }
  });
}

t.test('a cancellation may reach another gateway than the call', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const { asked, origin, port, waiting } = await pages(t);
  const cluster = { url: redis.url };
  const [one, other] = await Promise.all([open(t, port, { cluster }), open(t, port, { cluster, threads: 2 })]);
  const isJoined = async ({ url }: { url: URL }): Promise<boolean> => {
    const answer = await fetch(new URL('/health', url));
    const { cluster } = (await answer.json()) as { cluster?: { gateways: number } };
    return cluster?.gateways === 2;
  };
  await until('the gateways know each other', async () => (await isJoined(one)) && (await isJoined(other)));
  const post = (url: URL, body: object): Promise<Response> =>
    fetch(url, {
      method: 'POST',
      headers: {
        ...AUTHORIZATION,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-session-id': 'a-session',
      },
      body: JSON.stringify({ jsonrpc: '2.0', ...body }),
    });
  const params = { name: 'fetch', arguments: { url: `${origin}/hang` } };
  const call = post(one.url, { id: 5, method: 'tools/call', params });
  await until('the page is asked for', () => asked() === 1);
  await post(other.url, { method: 'notifications/cancelled', params: { requestId: 5 } });
  await until('nobody waits for the page', () => waiting() === 0);
  t.notMatch(await (await call).text(), 'result');
});

t.test('a shutdown ends calls that do not end by themselves', async (t) => {
  const { asked, origin, port, waiting } = await pages(t);
  const { gateway, url } = await open(t, port, { timeouts: { drain: '50ms' } });
  const client = await CLIENTS['with a handshake']!(t, url);
  const call = client.callTool(`${origin}/hang`);
  const ended = call.then(
    (result) => result,
    (error: Error) => ({ error: error.message }),
  );
  await until('the page is asked for', () => asked() === 1);
  await gateway.close();
  t.match(JSON.stringify(await ended), /HR_DRAINING|error/);
  await until('nobody waits for the page', () => waiting() === 0);
});

/** Scenarios about what a server offers that has tools, and nothing but tools of its own. */
const SCENARIOS = [
  'server-initialize',
  'ping',
  'tools-list',
  'server-sse-polling',
  'server-sse-multiple-streams',
  'dns-rebinding-protection',
];

/** Why the others say nothing about this server. */
const NOT_APPLICABLE: Readonly<Record<string, string>> = {
  'completion-complete': 'there are no prompts and resources whose arguments could be completed',
  'tools-call-simple-text': 'calls a tool of the suite, test_simple_text',
  'tools-call-image': 'calls a tool of the suite; no tool gives images',
  'tools-call-audio': 'calls a tool of the suite; no tool gives audio',
  'tools-call-embedded-resource': 'calls a tool of the suite; there are no resources',
  'tools-call-mixed-content': 'calls a tool of the suite; results are text',
  'logging-set-level': 'no log is sent to clients; SEP-2577 gives logging up',
  'tools-call-with-logging': 'calls a tool of the suite; no log is sent to clients',
  'tools-call-error': 'calls a tool of the suite, test_error_handling',
  'tools-call-with-progress': 'calls a tool of the suite, test_tool_with_progress',
  'tools-call-sampling': 'calls a tool of the suite; nothing is asked of clients',
  'tools-call-elicitation': 'calls a tool of the suite; nothing is asked of clients',
  'json-schema-2020-12': 'looks for a tool of the suite, json_schema_2020_12_tool',
  'elicitation-sep1034-defaults': 'nothing is asked of clients',
  'elicitation-sep1330-enums': 'nothing is asked of clients',
  'resources-list': 'there are no resources',
  'resources-read-text': 'there are no resources',
  'resources-read-binary': 'there are no resources',
  'resources-templates-read': 'there are no resources',
  'resources-subscribe': 'there are no resources',
  'resources-unsubscribe': 'there are no resources',
  'prompts-list': 'there are no prompts',
  'prompts-get-simple': 'there are no prompts',
  'prompts-get-with-args': 'there are no prompts',
  'prompts-get-embedded-resource': 'there are no prompts',
  'prompts-get-with-image': 'there are no prompts',
};

t.test('the conformance suite passes, in every scenario that applies', async (t) => {
  const { port } = await pages(t);
  const { url } = await open(t, port, { keys: { required: false } });
  const folder = temporaryFolder(t);
  const output = await new Promise<string>((resolve) => {
    const args = [CONFORMANCE, 'server', '--url', url.href, '--suite', 'all'];
    execFile(process.execPath, args, { cwd: folder, env: { PATH: process.env['PATH'] } }, (_, stdout) =>
      resolve(stdout),
    );
  });
  const summary = [...output.matchAll(/^[✓✗] ([\w-]+): (\d+) passed, (\d+) failed/gm)];
  t.same(new Set(summary.map(([, name]) => name)), new Set([...SCENARIOS, ...Object.keys(NOT_APPLICABLE)]), output);
  for (const [line, name, , failed] of summary) if (SCENARIOS.includes(name as string)) t.equal(failed, '0', line);
});
