// CPU time of the engine for publishing and delivering messages: a redis-server of its own on loopback, subscribers that read and throw away, and
// one publisher that sends a given number of messages. CPU time of the process, so that a busy machine changes little.
//
//   node bench/cluster/engine-cost.mjs [--messages 20000]

import { once } from 'node:events';
import { connect } from 'node:net';
import { parseArgs } from 'node:util';
import { PROXY_CORE } from '../lib/cores.mjs';
import { stopChild } from '../lib/process.mjs';
import { tableText } from '../lib/report.mjs';
import { engineInfo, startEngine } from './engine.mjs';

/** Sizes of bodies in bytes, and numbers of subscribers. */
const BODIES = [100, 1000, 8000];
const SUBSCRIBERS = [1, 8, 32];

/** Messages at once: each alone, as at low load, and many, which the engine writes to a subscriber together. */
const AT_ONCE = [1, 32];

const CHANNEL = 'headrace:bench';

/** CPU time of the engine's main thread so far, in microseconds. */
async function cpuUs({ port }) {
  const { used_cpu_sys_main_thread: system, used_cpu_user_main_thread: user } = await engineInfo(port);
  return (Number(system) + Number(user)) * 1e6;
}

async function client(port) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  return socket;
}

/** Publishes `messages` bodies to so many subscribers; resolves with microseconds of the engine's CPU time for each message. */
async function publish({ atOnce, bodyBytes, engine, messages, subscribers }) {
  const readers = [];
  let left = 0;
  let done;
  for (let at = 0; at < subscribers; at++) {
    const socket = await client(engine.port);
    socket.write(`*2\r\n$9\r\nSUBSCRIBE\r\n$${CHANNEL.length}\r\n${CHANNEL}\r\n`);
    await once(socket, 'data');
    socket.on('data', (chunk) => {
      left -= chunk.length;
      if (left <= 0) done?.();
    });
    readers.push(socket);
  }
  const publisher = await client(engine.port);
  const command = Buffer.from(
    `*3\r\n$7\r\nPUBLISH\r\n$${CHANNEL.length}\r\n${CHANNEL}\r\n$${bodyBytes}\r\n${'x'.repeat(bodyBytes)}\r\n`,
  );
  // As RESP2 delivers it: three words.
  const delivered =
    `*3\r\n$7\r\nmessage\r\n$${CHANNEL.length}\r\n${CHANNEL}\r\n$${bodyBytes}\r\n`.length + bodyBytes + 2;
  const batch = Buffer.concat(Array.from({ length: atOnce }, () => command));
  publisher.resume();
  const beforeUs = await cpuUs(engine);
  for (let sent = 0; sent < messages; sent += atOnce) {
    left = delivered * atOnce * subscribers;
    const all = new Promise((resolve) => (done = resolve));
    publisher.write(batch);
    await all;
  }
  const usedUs = (await cpuUs(engine)) - beforeUs;
  for (const socket of [...readers, publisher]) socket.destroy();
  return usedUs / messages;
}

/** Rows `{ bodyBytes, subscribers, aloneUs, togetherUs }`: CPU time of the engine for one message. */
export async function measureEngine({ messages, step = () => undefined }) {
  const engine = await startEngine({ core: PROXY_CORE });
  const rows = [];
  try {
    for (const bodyBytes of BODIES) {
      for (const subscribers of SUBSCRIBERS) {
        step(`${bodyBytes} bytes to ${subscribers}`);
        const us = [];
        for (const atOnce of AT_ONCE) us.push(await publish({ atOnce, bodyBytes, engine, messages, subscribers }));
        rows.push({ bodyBytes, subscribers, aloneUs: us[0], togetherUs: us[1] });
      }
    }
  } finally {
    await stopChild(engine.child);
  }
  return rows;
}

if (import.meta.filename === process.argv[1]) {
  const { values } = parseArgs({ options: { messages: { type: 'string', default: '20000' } } });
  const rows = await measureEngine({ messages: Number(values.messages) });
  const text = rows.map(({ aloneUs, bodyBytes, subscribers, togetherUs }) => [
    String(bodyBytes),
    String(subscribers),
    ...[aloneUs, aloneUs / subscribers, togetherUs, togetherUs / subscribers].map((us) => us.toFixed(2)),
  ]);
  const columns = [
    'bytes of the body',
    'subscribers',
    'CPU us/message',
    'a delivery',
    `${AT_ONCE[1]} at once: us/message`,
    'a delivery',
  ];
  process.stdout.write(`${tableText(columns, text)}\n`);
}
