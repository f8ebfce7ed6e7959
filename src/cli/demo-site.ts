// A page of the demo that has no text without its scripts.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const PAGE = `<!doctype html><html lang="en"><title>Water levels</title>
<main id="app"></main>
<script type="module" src="/app.js"></script></html>`;

const SCRIPT = `const response = await fetch('/levels.json');
const { text, levels } = await response.json();
const rows = levels.map(([place, level]) => '<tr><td>' + place + '</td><td>' + level + ' m</td></tr>').join('');
document.querySelector('#app').innerHTML = '<h1>Water levels</h1>' + text.map((line) => '<p>' + line + '</p>').join('') +
  '<table><tr><th>Place</th><th>Level</th></tr>' + rows + '</table>';`;

const LEVELS = {
  text: [
    'The gauges of the mill are read every hour. This page is empty until its script has asked for the readings, so that only a browser shows them.',
    'A level below two metres at the intake closes the sluice of the small wheel; above four metres, the spillway of the weir is opened.',
  ],
  levels: [
    ['Weir', '3.41'],
    ['Intake', '2.87'],
    ['Headrace', '2.66'],
    ['Tailrace', '0.92'],
  ],
};

const FILES: Readonly<Record<string, readonly [type: string, body: string]>> = {
  '/': ['text/html; charset=utf-8', PAGE],
  '/app.js': ['text/javascript', SCRIPT],
  '/levels.json': ['application/json', JSON.stringify(LEVELS)],
};

export interface DemoSite {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

export async function startSite(): Promise<DemoSite> {
  const server = createServer((request, response) => {
    const [type, body] = FILES[request.url ?? ''] ?? [];
    if (type === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': type }).end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    port,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
