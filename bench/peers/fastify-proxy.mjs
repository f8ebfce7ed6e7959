// A proxy of fastify and @fastify/reply-from, one of the peers. `node fastify-proxy.mjs PORT PORT` prints `ready PORT` and
// forwards requests to the two servers in turn until SIGTERM.

import replyFrom from '@fastify/reply-from';
import Fastify from 'fastify';

const servers = process.argv.slice(2).map((port) => `http://127.0.0.1:${port}`);
let next = 0;

const app = Fastify({ bodyLimit: 100 * 2 ** 20, keepAliveTimeout: 120_000 });
await app.register(replyFrom, {
  undici: { connections: 256, pipelining: 1, keepAliveTimeout: 60_000, headersTimeout: 600_000, bodyTimeout: 600_000 },
});
// Bodies are streamed through unparsed: this proxy does not look into them.
app.removeAllContentTypeParsers();
app.addContentTypeParser('*', (_request, body, done) => done(null, body));
app.all('/*', (request, reply) => {
  next = (next + 1) % servers.length;
  return reply.from(servers[next] + request.url);
});
await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`ready ${app.server.address().port}\n`);
process.on('SIGTERM', () => process.exit(0));
