// Starts the proxies that the gateway is compared with: nginx, HAProxy, fastify and Portkey. Each has one worker on core 0 and
// settings that match the gateway's: keep-alive connections to two servers, bodies in memory, no access log. None of them
// checks keys, keeps affinity, probes or counts.

import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PROXY_CORE } from './cores.mjs';
import { isInstalled, startChild, temporaryFolder } from './process.mjs';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const PORTKEY = path('../node_modules/@portkey-ai/gateway/build/start-server.js');
const REPLY_FROM = path('../node_modules/@fastify/reply-from/package.json');

/**
 * Peers by name. `missing()` returns why a peer cannot run, or ''; `start(ports, stream)` resolves with `{ port, child }`,
 * and with `headers` where requests need more of them.
 */
export const PROXIES = {
  nginx: {
    missing: () => (isInstalled('nginx') ? '' : 'nginx is not installed (Debian: apt-get install nginx-light)'),
    start: startNginx,
  },
  haproxy: {
    missing: () => (isInstalled('haproxy') ? '' : 'haproxy is not installed (Debian: apt-get install haproxy)'),
    start: startHaproxy,
  },
  fastify: {
    missing: () => (existsSync(REPLY_FROM) ? '' : '@fastify/reply-from is not installed (npm ci in bench)'),
    start: startFastify,
  },
  portkey: {
    missing: () => (existsSync(PORTKEY) ? '' : '@portkey-ai/gateway is not installed (npm ci in bench)'),
    start: startPortkey,
  },
};

async function startNginx(ports, stream) {
  const dir = temporaryFolder();
  const port = await freePort();
  const file = join(dir, 'nginx.conf');
  writeFileSync(file, nginxConfig(dir, port, ports, stream));
  const { child } = await startChild({ name: 'nginx', command: 'nginx', args: ['-c', file], core: PROXY_CORE });
  return { port, child };
}

/** Plain `proxy_pass` with kept connections. Bodies stay in memory and the timeouts are the gateway's. */
function nginxConfig(dir, port, ports, stream) {
  return `${process.getuid() === 0 ? 'user root;' : ''}
daemon off;
worker_processes 1;
pid ${dir}/nginx.pid;
error_log stderr error;
events { worker_connections 16384; }
http {
  access_log off;
  client_body_temp_path ${dir}/body;
  proxy_temp_path ${dir}/proxy;
  fastcgi_temp_path ${dir}/fastcgi;
  uwsgi_temp_path ${dir}/uwsgi;
  scgi_temp_path ${dir}/scgi;
  tcp_nodelay on;
  keepalive_timeout 120s;
  keepalive_requests 1000000000;
  client_body_timeout 30s;
  send_timeout 120s;
  client_max_body_size 100m;
  client_body_buffer_size 16m;
  upstream crns {
${ports.map((crn) => `    server 127.0.0.1:${crn} max_fails=0;`).join('\n')}
    keepalive 256;
    keepalive_requests 1000000000;
    keepalive_timeout 60s;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://crns;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering ${stream ? 'off' : 'on'};
      proxy_connect_timeout 3s;
      proxy_read_timeout 600s;
    }
  }
}
`;
}

async function startHaproxy(ports) {
  const port = await freePort();
  const file = join(temporaryFolder(), 'haproxy.cfg');
  writeFileSync(file, haproxyConfig(port, ports));
  const { child } = await startChild({
    name: 'haproxy',
    command: 'haproxy',
    args: ['-db', '-f', file],
    core: PROXY_CORE,
  });
  return { port, child };
}

/** Without `http-no-delay` the events of a stream would wait for more of them, about 40 ms each. */
function haproxyConfig(port, ports) {
  return `global
  nbthread 1
  maxconn 16384
  no strict-limits
defaults
  mode http
  option http-no-delay
  option http-keep-alive
  http-reuse always
  timeout connect 3s
  timeout client 120s
  timeout server 600s
  timeout http-keep-alive 120s
frontend front
  bind 127.0.0.1:${port} backlog 4096
  default_backend crns
backend crns
  balance roundrobin
${ports.map((crn, at) => `  server crn${at} 127.0.0.1:${crn}`).join('\n')}
`;
}

async function startFastify(ports) {
  const { child, match } = await startChild({
    name: 'fastify',
    command: process.execPath,
    args: [path('fastify-proxy.mjs'), ...ports.map(String)],
    core: PROXY_CORE,
    env: { NODE_ENV: 'production' },
    ready: /^ready (\d+)$/,
  });
  return { port: Number(match[1]), child };
}

/** Portkey goes where the headers of a request say; it knows one server, which is all that a header can name. */
async function startPortkey(ports) {
  const port = await freePort();
  const server = `127.0.0.1:${ports[0]}`;
  const { child } = await startChild({
    name: 'portkey',
    command: process.execPath,
    args: [PORTKEY, `--port=${port}`, '--headless'],
    core: PROXY_CORE,
    env: { NODE_ENV: 'production', TRUSTED_CUSTOM_HOSTS: 'localhost,127.0.0.1' },
  });
  const headers = { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `http://${server}/v1` };
  return { port, child, headers };
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
