import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { createSigningKey, printSigningKey } from '../../src/billing/main-thread.ts';
import { runCli, startCli } from '../support/cli.ts';
import { CERTIFICATE, EXPIRED_CERTIFICATE, EXPIRED_KEY, KEY } from '../support/certificate.ts';
import { certificateAt, DataPlane, destinationOf, requestHeaders } from '../support/data-plane.ts';
import { MODEL, settingsFor, startHosts, until } from '../support/system.ts';

t.test('picks for a data plane, answers its health, and ends at SIGTERM', async (t) => {
  const hosts = await startHosts(t);
  const folder = t.testdir({ 'headrace.json': JSON.stringify(settingsFor(hosts, { admin: '127.0.0.1:0' })) });
  const cli = startCli(t, ['picker', '--config', `${folder}/headrace.json`, '--grpc', '127.0.0.1:0']);
  const [, port, admin] = await cli.shows(/picker listening on grpc:\/\/127\.0\.0\.1:(\d+)\nadmin on (\S+)\n/);
  const plane = new DataPlane(t, Number(port));
  await until('it is ready', async () => (await plane.check('readiness')) === 1);
  const request = plane.begin();
  request.send(requestHeaders({ ':method': 'POST', ':path': '/v1/chat/completions' }));
  const body = Buffer.from(JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'hello' }] }));
  request.send({ request_body: { body, end_of_stream: true } });
  t.equal(destinationOf(await request.next()), new URL(hosts[0]?.url ?? '').host);
  request.cancel();
  t.match(await (await fetch(`${admin}/metrics`)).text(), /headrace_routing_picks_total\{[^}]*\} 1/);
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
  t.equal(await plane.check('liveness'), 'UNAVAILABLE');
});

t.test('reloads its configuration as a gateway does', async (t) => {
  const hosts = await startHosts(t);
  const settings = settingsFor(hosts, { admin: '127.0.0.1:0', adminToken: 'operator', log: { level: 'info' } });
  const folder = t.testdir({ 'headrace.json': JSON.stringify(settings) });
  const file = `${folder}/headrace.json`;
  const cli = startCli(t, ['picker', '--config', file, '--grpc', '127.0.0.1:0']);
  const [, port, admin] = await cli.shows(/picker listening on grpc:\/\/127\.0\.0\.1:(\d+)\nadmin on (\S+)\n/);
  const plane = new DataPlane(t, Number(port));
  await until('it is ready', async () => (await plane.check('readiness')) === 1);
  const statusFor = async (model: string): Promise<number> => {
    const request = plane.begin();
    request.send(requestHeaders({ ':method': 'POST', ':path': '/v1/chat/completions' }));
    request.send({ request_body: { body: Buffer.from(JSON.stringify({ model })), end_of_stream: true } });
    const answer = await request.next();
    request.cancel();
    return answer?.immediate_response?.status.code ?? 200;
  };
  const reloads = (): number => cli.log.filter(({ msg }) => String(msg).startsWith('reloaded')).length;
  writeFileSync(file, '');
  await cli.complains(/holds no setting any more/);
  t.equal(await statusFor(MODEL), 200, 'a file that was cut off takes no model away');
  const models = { ...settings.models, other: { servers: [hosts[0]?.url ?? ''] } };
  writeFileSync(file, JSON.stringify({ ...settings, models }));
  await until('reloaded', () => reloads() === 1);
  t.equal(await statusFor('other'), 200);
  cli.signal('SIGHUP');
  await until('reloaded at SIGHUP', () => reloads() === 2);
  const headers = { authorization: 'Bearer operator', 'content-type': 'application/json' };
  const asked = await fetch(`${admin}/reload`, { method: 'POST', headers, body: '{}' });
  t.match(await asked.json(), { applied: [] });
  t.equal(reloads(), 3);
});

t.test('ends within the times of the last reload', async (t) => {
  const hosts = await startHosts(t);
  const settings = settingsFor(hosts, { admin: null, log: { level: 'info' } });
  const file = `${t.testdir({ 'headrace.json': '' })}/headrace.json`;
  const write = (drain: string, unready: string): void =>
    writeFileSync(file, JSON.stringify({ ...settings, timeouts: { drain, unready } }));
  write('10m', '10m');
  const cli = startCli(t, ['picker', '--config', file, '--grpc', '127.0.0.1:0']);
  const [, port] = await cli.shows(/picker listening on grpc:\/\/127\.0\.0\.1:(\d+)\n/);
  write('10ms', '10ms');
  await until('reloaded', () => cli.log.some(({ msg }) => String(msg).startsWith('reloaded')));
  const request = new DataPlane(t, Number(port)).begin();
  request.send(requestHeaders({ ':method': 'GET', ':path': '/v1/models' }, { isEnd: true }));
  t.ok(destinationOf(await request.next()));
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test('a signal before it is ready ends it with exit code 0', async (t) => {
  const settings = settingsFor(await startHosts(t), { admin: 'localhost:0' });
  const folder = t.testdir({ 'headrace.json': JSON.stringify(settings) });
  const cli = startCli(t, ['picker', '--config', `${folder}/headrace.json`, '--grpc', '127.0.0.1:0']);
  await until('handlers', () => cli.listensTo('SIGTERM'));
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
  t.equal(cli.stderr, '');
});

t.test('reloads a changed file and at SIGHUP; an empty or broken one changes nothing', async (t) => {
  const hosts = await startHosts(t);
  const file = `${t.testdir({ 'headrace.json': '' })}/headrace.json`;
  const write = (model: string): void => {
    const models = { [model]: { servers: hosts.map((host) => host.url) } };
    const timeouts = { unready: model === 'last' ? '300ms' : '1ms' };
    const keys = { static: [{ key: 'k', account: 'a', rpm: 1 }] };
    writeFileSync(file, JSON.stringify(settingsFor(hosts, { admin: '127.0.0.1:0', log: {}, models, keys, timeouts })));
  };
  write('first');
  const cli = startCli(t, ['picker', '--config', file, '--grpc', '127.0.0.1:0']);
  await until('handlers', () => cli.listensTo('SIGTERM'));
  write('second');
  const [, admin] = await cli.shows(/admin on (\S+)\n/);
  const serves = (model: string): Promise<void> =>
    until(model, async () => (await (await fetch(`${admin}/status`)).text()).includes(`"${model}"`));
  await serves('second');
  writeFileSync(file, '');
  await cli.complains(/holds no setting any more/);
  write('last');
  cli.signal('SIGHUP');
  await serves('last');
  writeFileSync(file, '{"threads": "none"}');
  await cli.complains(/"threads","message"/);
  const beganMs = performance.now();
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
  t.ok(performance.now() - beganMs >= 300, 'timeouts.unready of the last good one holds');
});

t.test('a renewed certificate is used without a restart; one that does not fit its key is not', async (t) => {
  const settings = settingsFor(await startHosts(t), { admin: null, log: { level: 'info' } });
  const folder = t.testdir({
    'headrace.json': JSON.stringify(settings),
    'tls.crt': CERTIFICATE,
    'tls.key': KEY,
  });
  const files = ['--tls-cert', `${folder}/tls.crt`, '--tls-key', `${folder}/tls.key`];
  const cli = startCli(t, ['picker', '--config', `${folder}/headrace.json`, '--grpc', '127.0.0.1:0', ...files]);
  const port = Number((await cli.shows(/picker listening on grpc:\/\/127\.0\.0\.1:(\d+)\n/))[1]);
  const first = new X509Certificate(CERTIFICATE).fingerprint256;
  const second = new X509Certificate(EXPIRED_CERTIFICATE).fingerprint256;
  t.equal(await certificateAt(port), first);
  writeFileSync(`${folder}/tls.crt`, EXPIRED_CERTIFICATE);
  await cli.complains(/the certificate cannot be used: the running one stays/);
  t.equal(await certificateAt(port), first);
  writeFileSync(`${folder}/tls.key`, EXPIRED_KEY);
  await until('the new one is used', async () => (await certificateAt(port)) === second);
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test('sends model hosts no keys: those of a store are not known here', async (t) => {
  const asked: string[] = [];
  const server = createHttpServer(({ url = '' }, res) => {
    asked.push(url);
    res.end('{}');
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const trust = { signingKey: printSigningKey(createSigningKey()), token: 'hosts' };
  const settings = settingsFor([], { admin: '127.0.0.1:0', models: { m: { servers: [url] } }, trust });
  const folder = t.testdir({ 'headrace.json': JSON.stringify(settings) });
  const cli = startCli(t, ['picker', '--config', `${folder}/headrace.json`, '--grpc', '127.0.0.1:0']);
  await cli.shows(/admin on/);
  await until('probes', () => asked.filter((path) => path === '/health').length > 1);
  t.same(
    asked.filter((path) => path.includes('keys')),
    [],
  );
});

t.test('mistakes of the command line and of the configuration', async (t) => {
  const folder = t.testdir({
    'headrace.json': JSON.stringify(settingsFor(await startHosts(t), { admin: null })),
    'wrong.yaml': 'thread: 2\n',
  });
  const good = ['picker', '--config', `${folder}/headrace.json`];
  const failure = async (...args: string[]): Promise<string> => {
    const { exit, stderr } = await runCli(t, args);
    t.strictSame(exit, { code: 1, signal: null });
    return stderr;
  };
  t.match(await failure('picker', '--config', `${folder}/wrong.yaml`), 'cannot start with');
  t.match(await failure(...good, '--grpc', 'nowhere:port'), 'It must be HOST:PORT.');
  t.match(await failure(...good, '--tls-cert', 'one.pem'), '--tls-cert and --tls-key belong together');
  const twice = `${folder}/wrong.yaml`;
  t.match(await failure(...good, '--tls-cert', twice, '--tls-key', twice), 'are no certificate and its key');
  t.match(await failure(...good, '--tls-cert', 'none.pem', '--tls-key', 'none.key'), 'none.pem cannot be read');
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve));
  t.teardown(() => holder.close());
  const { port } = holder.address() as AddressInfo;
  t.match(await failure(...good, '--grpc', `127.0.0.1:${port}`), 'headrace cannot start');
});
