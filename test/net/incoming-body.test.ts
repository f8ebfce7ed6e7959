import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import t, { type Test } from 'tap';
import { readIncoming } from '../../src/net/incoming-body.ts';

/** Sends bytes to a server that takes bodies of at most 8 bytes; answers with what it read. */
async function read(t: Test, request: string, leaves = false): Promise<string> {
  const found = Promise.withResolvers<string>();
  const server = createServer((req, res) => {
    void readIncoming(req, 8).then((body) => {
      found.resolve(String(body));
      res.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  server.once('request', () => {
    if (leaves) socket.destroy();
  });
  socket.write(request);
  return await found.promise;
}

t.test('a body, whole or in chunks, or without a byte', async (t) => {
  t.equal(await read(t, 'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\n12345678'), '12345678');
  const chunked = 'POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n';
  t.equal(await read(t, `${chunked}4\r\n1234\r\n4\r\n5678\r\n0\r\n\r\n`), '12345678');
  t.equal(await read(t, 'POST / HTTP/1.1\r\nhost: a\r\n\r\n'), '');
});

t.test('one that is too long is known by its length, and without one as soon as it is', async (t) => {
  t.equal(await read(t, 'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n'), 'too long');
  const chunked = 'POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n';
  t.equal(await read(t, `${chunked}9\r\n123456789\r\n`), 'too long');
});

t.test('a client that leaves before the end', async (t) => {
  t.equal(await read(t, 'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\n1234', true), 'gone');
});
