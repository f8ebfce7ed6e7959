// A DNS server on loopback whose answers a test scripts, and a lookup function that asks it through `NameResolver`.

import { createSocket } from 'node:dgram';
import dns from 'node:dns';
import { once } from 'node:events';
import { syncBuiltinESMExports } from 'node:module';
import packet from 'dns-packet';
import type { Lookup } from '../../src/net/name-cache.ts';
import { NameResolver } from '../../src/net/name-resolver.ts';

interface Scope {
  teardown(end: () => unknown): void;
}

export interface NameServer {
  /** `127.0.0.1:port`. */
  readonly address: string;
  readonly lookup: Lookup;
  /** Queries in order, as `TYPE NAME`. */
  readonly asked: string[];
}

/** Resolvers that are made until the end of the test have these name servers, as if the system had them. */
export function setSystemNameServers(t: Scope, servers: () => readonly string[]): void {
  const { Resolver: SystemResolver } = dns;
  dns.Resolver = class extends SystemResolver {
    constructor(options: dns.ResolverOptions) {
      super(options);
      this.setServers(servers());
    }
  };
  syncBuiltinESMExports();
  t.teardown(() => {
    dns.Resolver = SystemResolver;
    syncBuiltinESMExports();
  });
}

/** `answer(name, count, type)` returns the addresses for the count-th query of a name and type, from 1; null sends no answer. */
export async function nameServer(
  t: Scope,
  answer: (name: string, count: number, type: string) => readonly string[] | null,
): Promise<NameServer> {
  const { address, asked } = await dnsServer(t, ({ name, type }) => {
    const count = asked.filter((entry) => entry === `${type} ${name}`).length;
    const addresses = answer(name, count, type);
    if (addresses === null) return null;
    const fitting = addresses.filter((data) => data.includes(':') === (type === 'AAAA'));
    return {
      answers: fitting.map((data) => ({
        type: data.includes(':') ? ('AAAA' as const) : ('A' as const),
        name,
        ttl: 0,
        data,
      })),
    };
  });
  const resolver = new NameResolver({ servers: [address] });
  t.teardown(() => resolver.close());
  return { address, asked, lookup: (name) => resolver.resolve(name) };
}

/** A record of `zoneServer`; an SRV record's data is `{ target, port, priority, weight }`. */
export interface ZoneRecord {
  readonly type: 'A' | 'AAAA' | 'SRV';
  readonly data: string | { target: string; port: number; priority?: number; weight?: number };
  readonly ttl?: number;
}

/** What a query of a name is answered with. `silent`: nothing. */
export type ZoneAnswer = readonly ZoneRecord[] | 'NXDOMAIN' | 'SERVFAIL' | 'silent';

export interface ZoneServer {
  /** `127.0.0.1:port`. */
  readonly address: string;
  /** Queries in order, as `TYPE NAME`. */
  readonly asked: string[];
  /** By name, or by `TYPE NAME`; other names do not exist. */
  readonly zone: Map<string, ZoneAnswer>;
}

const RCODES = { NXDOMAIN: 3, SERVFAIL: 2 } as const;

/** A DNS server on loopback with a zone that the test changes. Records of other types than the asked one are left out. */
export async function zoneServer(t: Scope): Promise<ZoneServer> {
  const zone = new Map<string, ZoneAnswer>();
  const server = await dnsServer(t, ({ name, type }) => {
    const answer = zone.get(`${type} ${name}`) ?? zone.get(name) ?? 'NXDOMAIN';
    if (answer === 'silent') return null;
    const records = typeof answer === 'string' ? [] : answer;
    return {
      flags: typeof answer === 'string' ? RCODES[answer] : 0,
      answers: records
        .filter((record) => record.type === type)
        .map((record) => ({ ttl: 60, ...record, name, data: record.data as string, type: record.type as 'A' })),
    };
  });
  return { ...server, zone };
}

/** A server that answers each question with what `respond` returns; null sends no answer. */
async function dnsServer(
  t: Scope,
  respond: (question: packet.Question) => packet.Packet | null,
): Promise<{ readonly address: string; readonly asked: string[] }> {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (message, from) => {
    const { id = 0, questions: [question] = [] } = packet.decode(message);
    if (question === undefined) return;
    asked.push(`${question.type} ${question.name}`);
    const response = respond(question);
    if (response === null) return;
    socket.send(packet.encode({ type: 'response', id, questions: [question], ...response }), from.port, from.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  t.teardown(() => void socket.close());
  return { address: `127.0.0.1:${socket.address().port}`, asked };
}
