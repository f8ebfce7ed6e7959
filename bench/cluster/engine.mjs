// An engine for a benchmark: redis-server or valkey-server on a free port of loopback, without persistence, stopped by its process id.

import { connect } from 'node:net';
import { gatewaySettings } from '../lib/gateway.mjs';
import { isInstalled, startChild } from '../lib/process.mjs';
import { LOAD_CORE } from '../lib/cores.mjs';
import { freePort } from '../peers/free-port.mjs';

/** The token of the admin listener of gateways here: benchmarks ask there what a gateway knows. */
export const ADMIN_TOKEN = 'bench-admin-token-0123456789abcdef';

const PROGRAMS = ['redis-server', 'valkey-server'];

/** The program that is installed; undefined without one. */
export function engineProgram() {
  return PROGRAMS.find(isInstalled);
}

/** Starts one; answers `{ child, port, url }`. */
export async function startEngine({ core = LOAD_CORE } = {}) {
  const command = engineProgram();
  if (command === undefined) throw new Error(`the cluster needs an engine (Debian: apt-get install ${PROGRAMS[0]})`);
  const port = await freePort();
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--daemonize', 'no'];
  const { child } = await startChild({ name: command, command, args, core, ready: /Ready to accept connections/ });
  return { child, port, url: `redis://127.0.0.1:${port}` };
}

/** Figures of `INFO` by name, as text. */
export async function engineInfo(port) {
  const socket = connect({ port, host: '127.0.0.1' });
  socket.setEncoding('latin1').write('*1\r\n$4\r\nINFO\r\n');
  let text = '';
  let size = 0;
  for await (const chunk of socket) {
    text += chunk;
    const end = text.indexOf('\r\n');
    if (size === 0 && end > 0) size = end + 2 + Number(text.slice(1, end)) + 2;
    if (size > 0 && text.length >= size) break;
  }
  socket.destroy();
  return Object.fromEntries(
    text.split('\r\n').flatMap((line) => (line.includes(':') ? [line.split(/:(.*)/s, 2)] : [])),
  );
}

/** Settings of a gateway over the servers on `ports`, which shares through `engine`; null: alone. */
export function settingsOf(ports, engine) {
  const cluster = engine === null ? {} : { cluster: { url: engine.url } };
  return { ...gatewaySettings('keys', ports), adminToken: ADMIN_TOKEN, ...cluster };
}

/** What has reached an engine and left it so far. */
export async function engineTraffic({ port }) {
  const info = await engineInfo(port);
  return {
    inBytes: Number(info.total_net_input_bytes),
    outBytes: Number(info.total_net_output_bytes),
    commands: Number(info.total_commands_processed),
  };
}

export const trafficSince = (before, after) =>
  Object.fromEntries(Object.entries(after).map(([name, value]) => [name, value - before[name]]));
