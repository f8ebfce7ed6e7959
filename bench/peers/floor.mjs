// The floor: a proxy on node:net that does the system calls of a proxy and nothing else. `node floor.mjs PORT PORT` prints
// `ready PORT` and serves until SIGTERM. It is what any HTTP proxy on these libraries costs at least.
//
// For each request of the load client: one read, one write to a kept upstream connection, one read of the answer (one for each piece
// of a stream), one write for each. Nothing is parsed: a request ends after the number of bytes that its first
// `content-length` gives, found once per connection, because all requests of a connection have the same length; an answer ends
// after its content-length, or with the last chunk of a chunked body. Bytes are copied, since the read buffer is shared.

import { connect, createServer, Socket } from 'node:net';

const READ_BUFFER_BYTES = 256 * 1024;
const HEAD_END = '\r\n\r\n';
const LAST_CHUNK = Buffer.from('\r\n0\r\n\r\n');
const LENGTH = /\r\ncontent-length: *(\d+)/i;

const ports = process.argv.slice(2).map(Number);
const readBuffer = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES);
/** Upstream connections without a request. */
const idle = [];
let next = 0;

/** Whole length of the message at the head of `bytes`; 0 if it has no content-length. */
function lengthOf(bytes) {
  const end = bytes.indexOf(HEAD_END);
  if (end < 0) return 0;
  const length = LENGTH.exec(bytes.latin1Slice(0, end + 2));
  return length === null ? 0 : end + HEAD_END.length + Number(length[1]);
}

class Upstream {
  socket;
  client = null;
  #length = -1;
  #got = 0;

  constructor() {
    next = (next + 1) % ports.length;
    this.socket = connect({
      port: ports[next],
      host: '127.0.0.1',
      noDelay: true,
      onread: { buffer: readBuffer, callback: (count) => this.#read(count) },
    });
    this.socket.on('error', () => this.socket.destroy());
    this.socket.on('close', () => {
      this.client?.socket.destroy();
      const at = idle.indexOf(this);
      if (at >= 0) idle.splice(at, 1);
    });
  }

  #read(count) {
    const bytes = readBuffer.subarray(0, count);
    const { client } = this;
    if (this.#got === 0 && this.#length < 0) this.#length = lengthOf(bytes);
    this.#got += count;
    const isEnd = this.#length > 0 ? this.#got >= this.#length : bytes.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK);
    if (isEnd) {
      this.#got = 0;
      // Streams have no length: their first piece says so again.
      if (this.#length === 0) this.#length = -1;
      this.client = null;
      client.upstream = null;
      idle.push(this);
    }
    client.socket.write(Buffer.copyBytesFrom(bytes));
    return true;
  }
}

class Client {
  socket;
  upstream = null;
  #length = 0;
  #left = 0;

  constructor(accepted) {
    // A socket that is made anew around the accepted handle can read into a buffer of ours; node:net has no option for it.
    const handle = accepted._handle;
    accepted._handle = null;
    const onread = { buffer: readBuffer, callback: (count) => this.#read(count) };
    this.socket = new Socket({ handle, onread });
    this.socket.on('error', () => this.socket.destroy());
    this.socket.on('close', () => this.upstream?.socket.destroy());
    this.socket.setNoDelay(true);
    this.socket.read(0);
  }

  #read(count) {
    const bytes = readBuffer.subarray(0, count);
    if (this.#left === 0) {
      this.#length ||= lengthOf(bytes);
      this.#left = this.#length;
      this.upstream = idle.pop() ?? new Upstream();
      this.upstream.client = this;
    }
    this.#left -= count;
    this.upstream.socket.write(Buffer.copyBytesFrom(bytes));
    return true;
  }
}

const server = createServer({ noDelay: true, pauseOnConnect: true }, (accepted) => new Client(accepted));
server.listen(0, '127.0.0.1', 4096, () => process.stdout.write(`ready ${server.address().port}\n`));
process.on('SIGTERM', () => process.exit(0));
