// Connections to a browser that breaks the protocol: its errors are those of the connection, never of the process.
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/actor/index.ts';
import { connectDevTools, type DevTools } from '../../../src/fetch/renderer/devtools.ts';
import { Contexts } from '../../../src/fetch/renderer/tab.ts';

/** A text frame of a server (RFC 6455 §5.2) of less than 126 bytes. */
const frame = (text: string): Buffer => Buffer.concat([Buffer.of(0x81, text.length), Buffer.from(text)]);

interface Connected {
  readonly devtools: DevTools;
  /** Why the connection was closed. */
  readonly closed: Promise<string>;
}

/** Connects to a browser that sends `bytes` in one piece with the end of its handshake. */
async function connected(t: Test, bytes: Buffer): Promise<Connected> {
  const server = createServer().on('upgrade', ({ headers }, socket) => {
    const key = `${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash('sha1').update(key).digest('base64');
    const head = `HTTP/1.1 101 S\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`;
    socket.on('error', () => undefined).write(Buffer.concat([Buffer.from(head), bytes]));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close().closeAllConnections());
  const closed = Promise.withResolvers<string>();
  const devtools = await connectDevTools({
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    clock: systemClock,
    timeoutMs: 5000,
    onClose: closed.resolve,
  });
  t.teardown(() => devtools.close('the test is over'));
  return { devtools, closed: closed.promise };
}

t.test('a broken frame that comes with the handshake ends the connection', async (t) => {
  for (const bytes of [Buffer.of(0xff, 0xff, 0xff), Buffer.of(0x81, 0x81, 0, 0, 0, 0, 0), Buffer.of(0xc1, 0)]) {
    const { closed, devtools } = await connected(t, bytes);
    t.match(await closed, /^the connection broke/);
    await t.rejects(devtools.send('Browser.getVersion'), { name: 'DevToolsError' });
  }
});

t.test('a message that is no message of the protocol ends the connection', async (t) => {
  for (const text of ['x', '1', 'null', '"', '']) {
    const { closed } = await connected(t, frame(text));
    t.equal(await closed, 'it does not speak the DevTools protocol');
  }
});

t.test('windows whose context is no text belong to no page', async (t) => {
  const opened: string[] = [];
  const contexts = new Contexts();
  contexts.add('c', (targetId) => opened.push(targetId));
  for (const browserContextId of [{ toString: 1 }, null, undefined, 1, 'c'])
    contexts.receive('Target.targetCreated', { targetInfo: { targetId: 't', browserContextId } });
  t.same(opened, ['t']);
});
