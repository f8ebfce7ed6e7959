// SSRF guard: decides which URLs and addresses may be fetched for clients. Only public unicast addresses and entries of the
// allow list pass; what is unknown or cannot be parsed is refused. Every redirect and every resolved address is checked.

import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { HeadraceError } from '../errors.ts';
import { type Lookup, systemNames } from '../net/name-cache.ts';
import { NameResolver } from '../net/name-resolver.ts';

export interface GuardOptions {
  /**
   * Host names (exact, whatever they resolve to), addresses and CIDR blocks that pass although they are not public. An
   * entry that is none of these admits nothing.
   */
  readonly allow: readonly string[];
  /** Allowed ports, including the defaults of `http` and `https`. */
  readonly ports: readonly number[];
  /**
   * Default: the cache of configured servers for names of the allow list, hosts file included; for all others a resolver that
   * asks the name servers itself.
   */
  readonly lookup?: Lookup;
}

/**
 * Refusals are `HR_FETCH_BLOCKED`; the subject is one of `not a URL`, `too long`, `scheme`, `credentials`, `port`,
 * `host name` and `private address`, and never tells what a name resolves to.
 */
export interface Guard {
  /** Parses and checks a URL, relative to `base` where given. The result has neither fragment nor trailing dot. */
  admit(url: string, base?: URL): URL;
  /**
   * The checked addresses of a host in the order of the resolver, at least one. One private address refuses the host: a
   * name with both kinds is an attack or a mistake. `hostname` is as in a URL, with or without the brackets of IPv6.
   */
  resolve(hostname: string): Promise<readonly string[]>;
}

/** Longest URL in characters; a common limit of servers. */
const MAX_URL = 8192;

type Block = [ipaddr.IPv4 | ipaddr.IPv6, number];

/** All global unicast IPv6 addresses allocated by IANA; everything else is special or unassigned. */
const GLOBAL_UNICAST: Block = ipaddr.parseCIDR('2000::/3');

/** Azure's host agent: an internal service on an address in public space. */
const HOST_AGENTS: ReadonlySet<string> = new Set(['168.63.129.16']);

export function createGuard({ allow, ports, lookup }: GuardOptions): Guard {
  const names = new Set(allow.map((entry) => hostOf(entry)));
  const blocks = allow.map((entry) => blockOf(entry)).filter((block) => block !== null);
  const isAllowed = (hostname: string): boolean => names.has(hostname);

  const check = (address: string): void => {
    const parsed = parseAddress(address);
    if (parsed !== null && (isPublic(parsed) || blocks.some((block) => contains(block, parsed)))) return;
    throw blocked('private address');
  };

  return {
    admit(text, base) {
      const url = parse(text, base);
      if (url.protocol !== 'http:' && url.protocol !== 'https:') throw blocked('scheme');
      if (url.username !== '' || url.password !== '') throw blocked('credentials');
      if (!ports.includes(portOf(url))) throw blocked('port');
      url.hash = '';
      if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1);
      const hostname = bare(url.hostname);
      if (isAllowed(hostname)) return url;
      if (isIP(hostname) !== 0) check(hostname);
      else if (!isPublicName(hostname)) throw blocked('host name');
      return url;
    },
    async resolve(bracketed) {
      const hostname = bare(bracketed);
      const isTrusted = isAllowed(hostname);
      const resolver = lookup ?? (isTrusted ? allowedLookup : publicLookup);
      const addresses = isIP(hostname) === 0 ? await lookUp(resolver, hostname) : [hostname];
      if (!isTrusted) addresses.forEach(check);
      return addresses;
    },
  };
}

/** Whether two texts spell the same address. */
export function isSameAddress(one: string, other: string): boolean {
  const left = parseAddress(one);
  const right = parseAddress(other);
  return left !== null && right !== null && left.toNormalizedString() === right.toNormalizedString();
}

/** The port of a URL, explicit or the default of its protocol. */
export function portOf({ port, protocol }: Pick<URL, 'port' | 'protocol'>): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}

function blocked(subject: string, cause?: unknown): HeadraceError {
  return new HeadraceError('HR_FETCH_BLOCKED', { subject, cause });
}

function parse(text: string, base: URL | undefined): URL {
  if (text.length > MAX_URL) throw blocked('too long');
  const url = URL.parse(text, base?.href);
  if (url === null) throw blocked('not a URL');
  // Percent-encoding may have made it longer.
  if (url.href.length > MAX_URL) throw blocked('too long');
  return url;
}

/** RFC 6761: `localhost` names never leave the machine, whatever a resolver returns. Empty labels are invalid. */
function isPublicName(hostname: string): boolean {
  const labels = hostname.toLowerCase().split('.');
  return labels.every((label) => label !== '') && labels.at(-1) !== 'localhost';
}

async function lookUp(lookup: Lookup, hostname: string): Promise<readonly string[]> {
  let addresses: readonly string[];
  try {
    addresses = await lookup(hostname);
  } catch (cause) {
    throw new HeadraceError('HR_FETCH_FAILED', { subject: dnsSubject(cause), cause });
  }
  if (addresses.length === 0) throw new HeadraceError('HR_FETCH_FAILED', { subject: 'name not found' });
  return addresses;
}

function dnsSubject(cause: unknown): string {
  const code = (cause as NodeJS.ErrnoException | null)?.code ?? '';
  return ['ENOTFOUND', 'ENODATA', 'EBADNAME'].includes(code) ? 'name not found' : 'name lookup failed';
}

const publicNames = new NameResolver();
const publicLookup: Lookup = (hostname) => publicNames.resolve(hostname);
const allowedLookup: Lookup = (hostname) => systemNames.lookup(hostname);

/** Zone ids are refused: they address a local link. */
function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | null {
  return isIP(text) === 0 || text.includes('%') ? null : ipaddr.parse(text);
}

function isPublic(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address.range() !== 'unicast') return false;
  return address.kind() === 'ipv6' ? address.match(GLOBAL_UNICAST) : !HOST_AGENTS.has(address.toString());
}

function contains(block: Block, address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  return block[0].kind() === address.kind() && address.match(block);
}

function blockOf(entry: string): Block | null {
  const text = bare(entry);
  if (isIP(text) !== 0) return text.includes('%') ? null : [ipaddr.parse(text), isIP(text) === 4 ? 32 : 128];
  const [address = ''] = text.split('/');
  return isIP(address) !== 0 && ipaddr.isValidCIDR(text) ? ipaddr.parseCIDR(text) : null;
}

/** A host name of the allow list in the normal form of `URL`. Empty for CIDR blocks. */
function hostOf(entry: string): string {
  const hostname = entry.includes('/') ? '' : bare(URL.parse(`http://${entry}/`)?.hostname ?? '');
  return hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
}

function bare(hostname: string): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
}
