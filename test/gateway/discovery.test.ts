// Discovery over a real gateway.
import t from 'tap';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { chat, settingsFor, startHosts, until } from '../support/system.ts';
import { createGateway } from '../../src/gateway/gateway.ts';

t.test('models of the directory are served beside configured ones, and a failed poll keeps them', async (t) => {
  const [host] = await startHosts(t, [{ models: ['found-1b', 'atlas-27b'] }]);
  let answer: string | null = JSON.stringify({ 'found-1b': { servers: [host?.url] } });
  let polls = 0;
  const directory = createServer((_req, res) => {
    polls++;
    res.writeHead(answer === null ? 500 : 200).end(answer ?? '');
  });
  await new Promise<void>((resolve) => directory.listen(0, '127.0.0.1', resolve));
  t.teardown(() => directory.close());
  const url = `http://127.0.0.1:${(directory.address() as AddressInfo).port}/svc/models`;
  const gateway = createGateway(
    settingsFor(host === undefined ? [] : [host], { discovery: url, discoveryInterval: '20ms' }),
  );
  t.teardown(() => gateway.close());
  const base = (await gateway.listen()).url;
  await gateway.ready();
  await until('found', async () => (await chat(base, { model: 'found-1b' })).status === 200);
  t.equal((await chat(base)).status, 200);
  answer = null;
  const before = polls;
  await until('polled again', () => polls > before + 2);
  t.equal((await chat(base, { model: 'found-1b' })).status, 200, 'losing the directory does not lose the servers');
  answer = '{}';
  await until('gone', async () => (await chat(base, { model: 'found-1b' })).status === 404);
});
