// The peers of client connections: how their address is written in X-Forwarded-For, and whether they are proxies that are trusted
// to say for whom they connect.

import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** One peer. */
export interface Peer {
  /** Its address, IPv4-mapped ones as IPv4; empty when it is unknown. */
  readonly address: string;
  readonly isTrusted: boolean;
}

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Peers that are remembered, so that an address is parsed once and not per request. */
const MAX_PEERS = 4096;

/** The prefix of IPv4-mapped addresses, `::ffff:0:0/96`. */
const MAPPED_BITS = 96;

/** Groups of 16 bits. */
const NETWORK_GROUPS = 4;

export class Peers {
  readonly #blocks: readonly [Address, number][];
  readonly #known = new Map<string, Peer>();

  /** `trusted`: addresses and CIDR blocks. */
  constructor(trusted: readonly string[]) {
    this.#blocks = trusted.map(blockOf);
  }

  /** The peer at an address as a socket says it, '' included. */
  of(remoteAddress: string): Peer {
    return this.#known.get(remoteAddress) ?? this.#add(remoteAddress);
  }

  #add(remoteAddress: string): Peer {
    const address = parse(remoteAddress);
    const peer = {
      address: address?.toString() ?? '',
      isTrusted: address !== null && this.#blocks.some((block) => contains(block, address)),
    };
    if (this.#known.size >= MAX_PEERS) this.#known.clear();
    this.#known.set(remoteAddress, peer);
    return peer;
  }
}

/** The network of one subscriber: an IPv4 address, or the first 64 bits of one of IPv6. A text that is no address stays as it is. */
export function networkOf(text: string): string {
  const address = parse(text);
  if (address === null) return text;
  if (address.kind() === 'ipv4') return address.toString();
  return address.toNormalizedString().split(':').slice(0, NETWORK_GROUPS).join(':');
}

/** The address without its zone; null when it is none. */
function parse(text: string): Address | null {
  const [address = ''] = text.split('%');
  return isIP(address) === 0 ? null : ipaddr.process(address);
}

function blockOf(text: string): [Address, number] {
  const [start = '', bits] = text.split('/');
  const written = ipaddr.parse(start);
  const address = ipaddr.process(start);
  const length = bits === undefined ? (written.kind() === 'ipv4' ? 32 : 128) : Number(bits);
  const isMapped = written.kind() !== address.kind();
  // A block around all mapped addresses is one of IPv6.
  if (isMapped && length < MAPPED_BITS) return [written, length];
  return [address, isMapped ? length - MAPPED_BITS : length];
}

function contains([start, length]: [Address, number], address: Address): boolean {
  if (start.kind() === address.kind()) return address.match(start, length);
  return start.kind() === 'ipv6' && (address as ipaddr.IPv4).toIPv4MappedAddress().match(start, length);
}
