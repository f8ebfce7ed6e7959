// What a load benchmark compares: nginx, the gateway, and the upstream itself for reference. Every peer runs on core 0
// and the upstream on core 1, beside the load client. Configurations are written into the run's temporary folder.

import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startChild, stopChild, temporaryFolder } from './process.mjs';
import { KEY, MODEL } from './traffic.mjs';

export const PROXY_CORE = 0;
export const LOAD_CORE = 1;

const HEALTH_TIMEOUT_MS = 10_000;
const HERE = new URL('.', import.meta.url);
const path = (relative) => fileURLToPath(new URL(relative, HERE));

/**
 * Starts the named peers and their upstream, calls `use(peers)`, stops everything. `stream` sets nginx up for streams;
 * `gapMs` is the time between two events; `profileDir` runs the gateway under the CPU profiler.
 */
export async function withPeers({ names, stream, gapMs = 5, threads = 1, nodeFlags = [], profileDir }, use) {
  const dir = temporaryFolder();
  const children = [];
  try {
    const upstream = await startUpstream(gapMs);
    children.push(upstream.child);
    const start = {
      direct: async () => ({ port: upstream.ports[0], child: upstream.child }),
      nginx: () => startNginx(dir, upstream.ports, stream),
      headrace: () => startHeadrace(dir, upstream.ports, { threads, nodeFlags, profileDir }),
    };
    const peers = [];
    for (const name of names) {
      if (!Object.hasOwn(start, name)) throw new Error(`there is no peer "${name}"`);
      const { port, child } = await start[name]();
      if (child !== upstream.child) children.push(child);
      peers.push({ name, port, pid: child.pid, upstreamPid: upstream.child.pid });
      await healthy(name, port);
    }
    return await use(peers);
  } finally {
    for (const child of children.reverse()) await stopChild(child);
  }
}

async function startUpstream(gapMs) {
  const { child, match } = await startChild({
    name: 'upstream',
    command: process.execPath,
    args: [path('upstream.mjs'), String(gapMs)],
    core: LOAD_CORE,
    ready: /^ready (\d+) (\d+)$/,
  });
  return { child, ports: [Number(match[1]), Number(match[2])] };
}

async function startHeadrace(dir, ports, { threads, nodeFlags, profileDir }) {
  const file = join(dir, 'headrace.json');
  writeFileSync(file, JSON.stringify(headraceConfig(ports, threads)));
  const profile = profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}`];
  const { child, match } = await startChild({
    name: 'headrace',
    command: process.execPath,
    args: [...nodeFlags, ...profile, path('../../bin/headrace.js'), 'serve', '--config', file],
    core: PROXY_CORE,
    ready: /^headrace listening on http:\/\/[^:]+:(\d+)/,
  });
  return { port: Number(match[1]), child };
}

/** Everything that production has on: keys, routing with affinity, probes, metrics. */
function headraceConfig(ports, threads) {
  return {
    listen: '127.0.0.1:0',
    admin: '127.0.0.1:0',
    threads,
    models: { [MODEL]: { servers: ports.map((port) => `http://127.0.0.1:${port}`) } },
    routing: { affinity: true },
    keys: { required: true, static: [{ key: KEY, account: 'bench' }] },
    log: { level: 'warn' },
  };
}

async function startNginx(dir, ports, stream) {
  const port = await freePort();
  const file = join(dir, 'nginx.conf');
  writeFileSync(file, nginxConfig(dir, port, ports, stream));
  const { child } = await startChild({ name: 'nginx', command: 'nginx', args: ['-c', file], core: PROXY_CORE });
  return { port, child };
}

/**
 * Plain `proxy_pass` with kept connections: no keys, no affinity, no metrics. Bodies stay in memory, as in the gateway,
 * and the timeouts are the gateway's.
 */
function nginxConfig(dir, port, ports, stream) {
  return `${process.getuid() === 0 ? 'user root;' : ''}
daemon off;
worker_processes 1;
pid ${dir}/nginx.pid;
error_log stderr error;
events { worker_connections 8192; }
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

/** Waits until a peer answers for its upstream. */
async function healthy(name, port) {
  const lastMs = performance.now() + HEALTH_TIMEOUT_MS;
  for (;;) {
    try {
      const { status } = await fetch(`http://127.0.0.1:${port}/health`, { headers: { connection: 'close' } });
      if (status === 200) return;
    } catch {
      // Not listening yet.
    }
    if (performance.now() > lastMs) throw new Error(`${name} does not answer /health with 200`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
