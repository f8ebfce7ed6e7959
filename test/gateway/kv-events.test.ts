// KV events from a host to the gateway's metrics: the capacity of the cache is learned, and a restart of the host is noticed.
import t, { type Test } from 'tap';
import { createGateway } from '../../src/gateway/gateway.ts';
import { createHost, type Host } from '../../src/host/index.ts';
import { chat, MODEL, settingsFor, until } from '../support/system.ts';

const BLOCKS = 128;
const BLOCK_TOKENS = 16;
const ENGINE = {
  profile: { memory: { kind: 'blocks', blocks: BLOCKS, blockTokens: BLOCK_TOKENS } },
  contextTokens: 1024,
  speed: 'virtual',
} as const;

async function startHost(t: Test, listen = '127.0.0.1:0', kvEvents = 'tcp://127.0.0.1:*'): Promise<Host> {
  const host = createHost({ models: [MODEL], engine: ENGINE, listen, kvEvents });
  await host.listen();
  t.teardown(() => host.kill());
  return host;
}

t.test('a gateway learns the capacity of a cache, and notices a restart, by the events of a host', async (t) => {
  const host = await startHost(t);
  const endpoint = host.kvEvents?.endpoint as string;
  const gateway = createGateway(
    settingsFor([host], {
      admin: '127.0.0.1:0',
      models: { [MODEL]: { servers: [{ url: host.url, events: endpoint }] } },
    }),
  );
  t.teardown(() => gateway.close());
  const { url, adminUrl } = await gateway.listen();
  await gateway.ready();
  const metric = async (name: string): Promise<number | undefined> => {
    const text = await (await fetch(`${adminUrl}/metrics`)).text();
    const value = new RegExp(`^${name}\\{crn="${host.url}"\\} (\\S+)$`, 'm').exec(text)?.[1];
    return value === undefined ? undefined : Number(value);
  };
  await until('connected', async () => (await metric('headrace_kv_events_connected')) === 1);

  const prompt = (at: number): string => `${at}: ${'The miller ground the corn of the village. '.repeat(20)}`;
  t.equal((await chat(url, { text: prompt(0) })).status, 200);
  await until('blocks are resident', async () => ((await metric('headrace_kv_resident_tokens')) ?? 0) > 0);
  t.equal(await metric('headrace_kv_capacity_tokens'), undefined, 'nothing has been evicted');
  for (let at = 1; at < 40; at++) t.equal((await chat(url, { text: prompt(at) })).status, 200);
  await until('the capacity is known', async () => (await metric('headrace_kv_capacity_tokens')) !== undefined);
  const capacity = (await metric('headrace_kv_capacity_tokens')) ?? 0;
  const tokens = BLOCKS * BLOCK_TOKENS;
  t.ok(capacity > tokens * 0.7 && capacity <= tokens, `${capacity} of ${tokens} tokens`);
  t.ok(((await metric('headrace_kv_removed_tokens_total')) ?? 0) > 0);

  const overview = await (await fetch(`${adminUrl}/overview`)).json();
  t.match(overview, {
    crns: [
      {
        url: host.url,
        kvEvents: { connected: true, lastMs: Number, lost: 0, residentTokens: Number, capacityTokens: Number },
      },
    ],
  });

  await host.kill();
  await startHost(t, `127.0.0.1:${host.port}`, endpoint);
  let asked = 100;
  const isNoticed = async (): Promise<boolean> => {
    // Only a prompt that is not cached makes events.
    await chat(url, { text: prompt(asked++) });
    return (await metric('headrace_kv_events_restarts_total')) === 1;
  };
  await until('the restart is noticed', isNoticed);
  t.equal(await metric('headrace_kv_events_rejected_total'), 0);
});

t.test('a server whose events cannot be reached is served as any other', async (t) => {
  const host = await startHost(t);
  const servers = [{ url: host.url, events: 'tcp://127.0.0.1:1' }];
  const gateway = createGateway(settingsFor([host], { models: { [MODEL]: { servers } } }));
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  t.equal((await chat(url)).status, 200);
  gateway.reload(settingsFor([host]));
  t.equal((await chat(url)).status, 200);
});
