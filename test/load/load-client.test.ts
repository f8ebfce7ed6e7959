import { createManualClock, systemClock } from '../../src/actor/clock.ts';
import { type Host, type HostSettings, createHost } from '../../src/host/index.ts';
import { AddedLatency } from '../../src/load/added-latency.ts';
import { type LoadResponse, type ClientSettings, LoadClient } from '../../src/load/load-client.ts';
import { LOAD_DIALECTS, loadRequest } from '../../src/load/load-request.ts';
import type { Message } from '../../src/load/workload.ts';
import { site } from '../support/site.ts';

import t, { type Test } from 'tap';

const MESSAGES: readonly Message[] = [
  { role: 'system', text: 'the water and the wheel' },
  { role: 'user', text: 'where does the river go' },
  { role: 'assistant', text: 'to the mill' },
  { role: 'user', text: 'and then' },
];

async function startHost(t: Test, settings: Partial<HostSettings> = {}): Promise<Host> {
  const host = createHost({ models: ['m'], timeToFirstTokenMs: 0, interTokenMs: 0, ...settings });
  t.teardown(() => host.kill());
  await host.listen();
  return host;
}

function clientOf(t: Test, url: string, own: Partial<ClientSettings> = {}): LoadClient {
  const settings: ClientSettings = {
    ...{
      url: new URL(url),
      dialect: 'chat-completions',
      stream: true,
      key: undefined,
      headers: {},
      timeoutMs: 60_000,
      truth: false,
    },
    ...own,
  };
  const client = new LoadClient(settings, systemClock);
  t.teardown(() => client.close());
  return client;
}

function ask(client: LoadClient, tokens = 5): Promise<LoadResponse> {
  const { dialect, stream } = client.settings;
  const request = loadRequest({ dialect, stream, model: 'm', ignoreEos: true, extra: {} }, MESSAGES, tokens);
  return new Promise((resolve) => client.send(request, true, resolve));
}

const FAST = { profile: 'even', speed: 50 } as const;

for (const [name, dialect] of Object.entries(LOAD_DIALECTS)) {
  for (const engine of ['paced', FAST] as const) {
    const what = engine === 'paced' ? 'a paced host' : 'the step engine';
    t.test(`${name}: a stream of ${what} is seen whole, token by token`, async (t) => {
      // Texts of other seeds may have characters of several tokens, and fewer texts then.
      const host = await startHost(t, { engine, random: () => 0.5 });
      const answer = await ask(clientOf(t, host.url, { dialect, truth: true }), 12);
      t.match(answer, { status: 200, outcome: 'ok', outputTokens: 12 });
      t.ok(answer.promptTokens! > 5);
      t.ok(answer.textMs.length >= 10 && answer.textMs.length <= 12, `${answer.textMs.length} texts`);
      t.ok(answer.text.length > 12);
      const times = [answer.sentMs, answer.headMs, answer.firstEventMs, ...answer.textMs, answer.endedMs];
      t.ok(
        times.every((ms, at) => at === 0 || ms >= times[at - 1]!),
        'times in order',
      );
      if (engine === 'paced') return;
      const tally = new AddedLatency();
      tally.add(answer);
      const truth = tally.report()!;
      t.ok(truth.addedTtft.mean > -1, `${truth.addedTtft.mean}`);
      t.equal(truth.clock.sped, 50);
    });

    t.test(`${name}: a whole answer of ${what} is read`, async (t) => {
      const host = await startHost(t, { engine, random: () => 0.5 });
      const answer = await ask(clientOf(t, host.url, { dialect, stream: false }), 7);
      t.match(answer, { status: 200, outcome: 'ok', outputTokens: 7, textMs: [] });
      t.ok(answer.text.length > 7);
      t.ok(Number.isNaN(answer.firstEventMs));
    });
  }
}

t.test('what goes wrong has a name', async (t) => {
  const host = await startHost(t, { control: true });
  const named = async (fault: string): Promise<string> => {
    return (await ask(clientOf(t, host.url, { headers: { 'x-headrace-fault': fault } }))).outcome;
  };
  t.equal(await named('status=503'), '503');
  t.match(await named('reset-after=3'), /^(?:truncated|ECONNRESET)$/);
  t.match(await named('refuse'), /^(?:reset|ECONNRESET)$/);
  t.equal(await named('no-done'), 'truncated');
  t.equal(await named('error-after=2'), 'error event');
  await host.kill();
  t.equal(await named('status=503'), 'ECONNREFUSED');
});

t.test('the code of a gateway is told with the status', async (t) => {
  const { origin } = await site(t, {
    '/v1/chat/completions': (_, response) => response.writeHead(503, { 'x-headrace-error': 'HR_OVERLOADED' }).end('{}'),
  });
  t.equal((await ask(clientOf(t, origin))).outcome, '503 HR_OVERLOADED');
});

t.test('a request that takes too long is cut, and so are those under way at the end', async (t) => {
  const host = await startHost(t, { timeToFirstTokenMs: 3_600_000 });
  const clock = createManualClock();
  const settings = { ...clientOf(t, host.url).settings, timeoutMs: 5000 };
  const client = new LoadClient(settings, clock);
  const late = ask(client);
  const request = await host.nextRequest();
  clock.advance(5000);
  t.match(await late, { outcome: 'timeout', status: 0 });
  await request.whenAborted();
  const cut = ask(client);
  await host.nextRequest();
  client.close();
  t.equal((await cut).outcome, 'cut');
});

t.test('key and further headers are sent, connections used again, and the prefix of the address kept', async (t) => {
  const seen: { url: string | undefined; key: string | undefined; own: unknown; port: number | undefined }[] = [];
  const { origin } = await site(t, {
    '/base/v1/chat/completions': (request, response) => {
      seen.push({
        url: request.url,
        key: request.headers.authorization,
        own: request.headers['x-own'],
        port: request.socket.remotePort,
      });
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    },
  });
  const client = clientOf(t, `${origin}/base/v1/`, { key: 'hr_secret', headers: { 'x-own': 'yes' } });
  await ask(client);
  await new Promise((resolve) => setImmediate(resolve));
  const answer = await ask(client);
  t.match(seen, [{ url: '/base/v1/chat/completions', key: 'Bearer hr_secret', own: 'yes' }, { port: seen[0]!.port }]);
  t.notMatch(JSON.stringify(answer), 'hr_secret');
});

const ANSWERS: readonly (readonly [type: string, body: string, outcome: string])[] = [
  ['application/json', '{"error":{"message":"overloaded"}}', 'error answer'],
  ['application/json', '{"choices":[{"message":{"content":"a"}', 'truncated'],
  ['application/json', '', 'empty answer'],
  ['text/html', '<html>Sign in</html>', 'not an answer'],
  ['text/event-stream', 'data: [DONE]\n\n', 'truncated'],
  [
    'text/event-stream',
    'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"id":"1","error":{"message":"x"}}\n\ndata: [DONE]\n\n',
    'error event',
  ],
  ['application/json', '{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"error":null}', 'ok'],
];

t.test('a status of 200 alone is no success', async (t) => {
  let next = 0;
  const { origin } = await site(t, {
    '/v1/chat/completions': (_, response) => {
      const [type, body] = ANSWERS[next++]!;
      response.writeHead(200, { 'content-type': type }).end(body);
    },
  });
  const client = clientOf(t, origin);
  for (const [type, body, outcome] of ANSWERS) t.equal((await ask(client)).outcome, outcome, `${type} ${body}`);
});
