// A DNS server on loopback whose answers a test scripts, and a lookup function that asks it through the resolver of Node.js.

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { Resolver } from 'node:dns/promises';
import packet from 'dns-packet';
import type { Lookup } from '../../src/fetch/guard.ts';

interface Scope {
  teardown(end: () => unknown): void;
}

export interface NameServer {
  readonly lookup: Lookup;
  /** Queries in order, as `TYPE NAME`. */
  readonly asked: string[];
}

/** `answer(name, count)` returns the addresses for the count-th query of a name and type, from 1; null sends no answer. */
export async function nameServer(
  t: Scope,
  answer: (name: string, count: number) => readonly string[] | null,
): Promise<NameServer> {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (message, from) => {
    const query = packet.decode(message);
    const question = query.questions?.[0];
    if (question === undefined) return;
    asked.push(`${question.type} ${question.name}`);
    const count = asked.filter((entry) => entry === `${question.type} ${question.name}`).length;
    const addresses = answer(question.name, count);
    if (addresses === null) return;
    const fitting = addresses.filter((address) => address.includes(':') === (question.type === 'AAAA'));
    const response = packet.encode({
      type: 'response',
      id: query.id ?? 0,
      questions: [question],
      answers: fitting.map((data) => ({
        type: data.includes(':') ? ('AAAA' as const) : ('A' as const),
        name: question.name,
        ttl: 0,
        data,
      })),
    });
    socket.send(response, from.port, from.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const resolver = new Resolver({ timeout: 2000, tries: 1 });
  resolver.setServers([`127.0.0.1:${socket.address().port}`]);
  t.teardown(() => {
    resolver.cancel();
    socket.close();
  });
  return { asked, lookup: (name) => lookUp(resolver, name) };
}

async function lookUp(resolver: Resolver, name: string): Promise<readonly string[]> {
  const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const addresses = answers.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
  const refused = answers.find((one) => one.status === 'rejected');
  if (addresses.length === 0 && refused !== undefined) throw refused.reason as Error;
  return addresses;
}
