// Writes of the uWebSockets.js adapter: all corked, head and body together.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { encode } from '../support/server-adapter-wire.ts';
import { CHAT, GOOD, open } from '../support/server-adapter.ts';
import { WITH_UWS } from '../support/uws.ts';

t.test('uws: no response is written uncorked', WITH_UWS, async (t) => {
  const script = fileURLToPath(new URL('fixtures/traffic.js', import.meta.url));
  const { code, stdout, stderr } = await new Promise<{ code: unknown; stdout: string; stderr: string }>((resolve) => {
    const env = { PATH: process.env['PATH'] };
    execFile(process.execPath, [script], { env }, (error, stdout, stderr) => {
      resolve({ code: error?.code ?? 0, stdout, stderr });
    });
  });
  t.equal(stderr, '');
  t.equal(code, 0);
  t.same(JSON.parse(stdout), [
    ...[200, 200, 404, 204, 401, 422, 413, 200, 200],
    200,
    ...[200, 200, 200, 503, 400],
    ...[408, 400],
  ]);
});

t.test('uws: head and body of a response leave in one write', WITH_UWS, async (t) => {
  const { dial } = await open(t, 'uws');
  for (const request of [
    { path: '/health' },
    { path: '/nope' },
    { path: '/v1/completions', headers: GOOD, body: CHAT },
  ]) {
    const wire = dial();
    const first = new Promise<string>((resolve) => wire.socket.once('data', (piece) => resolve(piece.toString())));
    await wire.send(encode(request));
    t.match(await first, /\r\n\r\n\{.*\}$/s, request.path);
  }
});
