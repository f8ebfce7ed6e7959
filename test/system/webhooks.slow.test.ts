// Webhooks of two gateways with one PostgreSQL ledger, as processes: whichever of them is killed, every event is delivered, and an
// endpoint that is down is asked seldom.

import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { openTestLedger } from '../support/ledger-fixture.ts';
import { postgresDatabase } from '../support/postgres.ts';
import { startHosts, until } from '../support/system.ts';
import { startServe } from '../support/system-cli.ts';

interface Receiver {
  readonly url: string;
  /** Values of `webhook-id`, and the port of the process that sent it. */
  readonly received: { readonly id: string; readonly port: number }[];
  answer: (res: ServerResponse) => void;
}

async function startReceiver(t: Test): Promise<Receiver> {
  const received: Receiver['received'] = [];
  const server = createServer((req, res) => {
    void text(req).then(() => {
      received.push({ id: String(req.headers['webhook-id']), port: req.socket.remotePort ?? 0 });
      receiver.answer(res);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const receiver: Receiver = { url, received, answer: (res) => void res.writeHead(204).end() };
  return receiver;
}

t.test('a gateway that is killed while it sends leaves its webhooks to the other one', async (t) => {
  const store = await postgresDatabase();
  const ledger = await openTestLedger(t, store);
  await ledger.createAccount({ id: 'acme' });
  const receiver = await startReceiver(t);
  const hosts = await startHosts(t);
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const endpoint = { url: receiver.url, secret, events: ['key.created' as const] };
  const settings = { webhooks: { allow: ['127.0.0.1'], endpoints: { billing: endpoint } } };
  const makeKey = (id: string): Promise<unknown> =>
    ledger.createKey({ id, hash: `hash-${id}`, prefix: 'hr_abc', account: 'acme' });
  const ids = (): Set<string> => new Set(receiver.received.map(({ id }) => id));

  const one = await startServe(t, hosts, settings, { env: { HEADRACE_STORE: store } });
  await makeKey('k1');
  await until('the first gateway sends', () => ids().size === 1);
  const two = await startServe(t, hosts, settings, { env: { HEADRACE_STORE: store } });
  // It takes the message, and its gateway dies before it gets an answer.
  receiver.answer = () => undefined;
  await makeKey('k2');
  await until('the message is on its way', () => ids().size === 2);
  one.cli.signal('SIGKILL');
  await one.cli.exited;
  receiver.answer = (res) => void res.writeHead(204).end();
  await makeKey('k3');
  const delivered = async (): Promise<number> => (await ledger.webhooks.list({ state: 'delivered' })).length;
  await until('the second gateway goes on when the lease has ended', async () => (await delivered()) === 3, 60_000);
  t.equal(ids().size, 3);
  t.equal(receiver.received.length, 4, 'what was on its way comes again, with its id');

  receiver.answer = (res) => void res.writeHead(503).end();
  await makeKey('k4');
  await until(
    'the endpoint is down',
    async () => (await ledger.webhooks.list({ state: 'pending' }))[0]?.attempts === 1,
  );
  const [down] = await ledger.webhooks.list({ state: 'pending' });
  t.match(down, { attempts: 1, result: 'HTTP 503' });
  t.ok(two.cli.running);
});
