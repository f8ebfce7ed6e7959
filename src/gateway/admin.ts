// The admin listener: metrics, status and liveness on a port of their own, loopback by default. node:http, because a
// handful of requests a minute need no speed, and because it must answer when the ingress threads do not.
//
// GET /metrics  Prometheus text      GET /status  CRNs and stage as JSON      GET /health  200 while the process lives

import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Address } from '../ingress/server.ts';
import { mergeMetrics, METRICS_CONTENT_TYPE } from '../telemetry/metrics.ts';
import type { ControlPlane } from './control-plane.ts';
import { listenError } from './port.ts';

/** A running admin listener. */
export interface Admin {
  readonly address: Address;
  close(): void;
}

/** Opens the admin listener; rejects with a sentence when it cannot listen. */
export function openAdmin(address: Address, control: ControlPlane): Promise<Admin> {
  const server = createServer((req, res) => {
    const path = (req.url ?? '/').split('?', 1)[0];
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      respond(res, 405, 'application/json', JSON.stringify({ detail: 'Method Not Allowed' }));
    } else if (path === '/metrics') {
      void respondMetrics(res, control);
    } else if (path === '/status') {
      respond(res, 200, 'application/json', JSON.stringify({ stage: control.stage, crns: control.crns() }));
    } else if (path === '/health') {
      respond(res, 200, 'application/json', JSON.stringify({ status: 'ok' }));
    } else {
      respond(res, 404, 'application/json', JSON.stringify({ detail: 'Not Found' }));
    }
  });
  return new Promise((resolve, reject) => {
    const refuse = (error: Error): void => reject(listenError(address, error));
    server.once('error', refuse);
    server.listen(address.port, address.host, () => {
      server.off('error', refuse);
      const { port } = server.address() as AddressInfo;
      resolve({ address: { host: address.host, port }, close: () => closeServer(server) });
    });
  });
}

async function respondMetrics(res: ServerResponse, control: ControlPlane): Promise<void> {
  try {
    respond(res, 200, METRICS_CONTENT_TYPE, await mergeMetrics(await control.metrics()));
  } catch (error) {
    respond(res, 500, 'application/json', JSON.stringify({ detail: String(error) }));
  }
}

function respond(res: ServerResponse, status: number, contentType: string, body: string): void {
  res.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) });
  res.end(body);
}

function closeServer(server: Server): void {
  server.close();
  server.closeAllConnections();
}
