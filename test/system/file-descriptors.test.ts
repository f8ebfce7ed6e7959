// A gateway that may have few files open, with more clients than that.

import { connect } from 'node:net';
import t from 'tap';
import { MODEL, startHost } from '../support/server-adapter.ts';
import { startServe } from '../support/system-cli.ts';

const OPEN_FILES = 256;
const CLIENTS = 400;
const CHAT = JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'hello' }], max_tokens: 2 });
const REQUEST = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${CHAT.length}\r\n\r\n${CHAT}`;

t.setTimeout(60_000);

/** Asks on a connection that stays open, and resolves with the status, or '' when it is closed without an answer. */
function ask(t: { teardown(run: () => void): void }, url: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(REQUEST));
    socket.on('data', (piece) => resolve(piece.toString('latin1', 9, 12)));
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(''));
    t.teardown(() => socket.destroy());
  });
}

t.test('clients who connect do not take the descriptors that requests to servers need', async (t) => {
  const host = await startHost(t, { timeToFirstTokenMs: 500 });
  const settings = { threads: 1, keys: { required: false } };
  const { cli, url } = await startServe(t, [host], settings, { openFiles: OPEN_FILES });
  t.match(cli.stderr, '"connections":80,"openFiles":256', 'the log says how many there may be');

  const answers = await Promise.all(Array.from({ length: CLIENTS }, () => ask(t, url)));
  const answered = answers.filter((status) => status !== '');
  t.ok(answered.length >= 72 && answered.length <= 80, `${answered.length} of ${CLIENTS} clients are answered`);
  t.ok(
    answered.every((status) => status === '200'),
    `with success: ${[...new Set(answered)].join(' ')}`,
  );
  t.notMatch(cli.stderr, /ejected|no file descriptor left/, 'no server is blamed');
});
