// SSRF guard: decides which URLs and addresses may be fetched for clients. Only public unicast addresses and entries of the
// allow list pass; what is unknown, cannot be parsed or is on the deny list is refused. Every redirect and every resolved address is
// checked. A name that resolves to a refused address is answered as one that does not exist.

import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { type Clock, systemClock } from '../actor/index.ts';
import { HeadraceError } from '../errors.ts';
import { type Lookup, systemNames } from '../net/name-cache.ts';
import { NameResolver } from '../net/name-resolver.ts';

export interface GuardOptions {
  /**
   * Host names (exact, whatever they resolve to), addresses and CIDR blocks that pass although they are not public. An
   * entry that is none of these admits nothing.
   */
  readonly allow: readonly string[];
  /** Host names with their subdomains, addresses and CIDR blocks that are refused, whatever the allow list says. */
  readonly deny?: readonly string[];
  /** Allowed ports, including the defaults of `http` and `https`. Null: the usual ones, and any of what the allow list names. */
  readonly ports: readonly number[] | null;
  /**
   * Default: the cache of configured servers for names of the allow list, hosts file included; for all others a resolver that
   * asks the name servers itself.
   */
  readonly lookup?: Lookup;
  /** Default: the clock of the process. */
  readonly clock?: Clock;
}

/**
 * Refusals of a URL are `HR_FETCH_BLOCKED`; the subject is one of `not a URL`, `too long`, `scheme`, `credentials`, `port`,
 * `host name`, `denied` and `private address`. Names fail with `HR_FETCH_FAILED`, `name not found` or `name lookup failed`, which
 * never tells whether a name exists inside.
 */
export interface Guard {
  /** Parses and checks a URL, relative to `base` where given. The result has neither fragment nor trailing dot. */
  admit(url: string, base?: URL): URL;
  /**
   * The checked addresses of a host in the order of the resolver, at least one. One refused address refuses the host: a
   * name with both kinds is an attack or a mistake. A name that failed fails again for 5 s without a lookup. `hostname` is as in a URL, with or without the brackets of IPv6.
   */
  resolve(hostname: string, signal?: AbortSignal): Promise<readonly string[]>;
}

/** Longest URL in characters; a common limit of servers. */
const MAX_URL = 8192;

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Block = [Address, number];

/** Also said of names with a refused address. */
export const NAME_NOT_FOUND = 'name not found';

/** All global unicast IPv6 addresses allocated by IANA; everything else is special or unassigned. */
const GLOBAL_UNICAST: Block = ipaddr.parseCIDR('2000::/3');

/** Addresses that a translator maps to IPv4, for networks without it (RFC 6052 §2.1; DNS64 makes them). */
const TRANSLATED: Block = ipaddr.parseCIDR('64:ff9b::/96');

/** IPv4 addresses of sockets that serve both families (RFC 4291 §2.5.5.2): a connection to one is a connection by IPv4. */
const MAPPED: Block = ipaddr.parseCIDR('::ffff:0:0/96');

/** The first half of interface identifiers of ISATAP, with the bit for IPv4 addresses that are unique in the world and without. */
const ISATAP: ReadonlySet<string> = new Set(['00005efe', '02005efe']);

/** How long a name that failed is not looked up again. */
const FAILED_MS = 5000;
const MAX_FAILED = 4096;

const USUAL_PORTS: readonly number[] = [80, 443, 8080, 8443];

/** Azure's host agent: an internal service on an address in public space. */
const HOST_AGENTS: ReadonlySet<string> = new Set(['168.63.129.16']);

export function createGuard({ allow, clock = systemClock, deny = [], lookup, ports }: GuardOptions): Guard {
  const names = new Set(allow.map((entry) => hostOf(entry)));
  const blocks = allow.map((entry) => blockOf(entry)).filter((block) => block !== null);
  const deniedNames = new Set(deny.map((entry) => hostOf(entry)).filter((name) => name !== ''));
  const deniedBlocks = deny.map((entry) => blockOf(entry)).filter((block) => block !== null);
  const failed = new FailedNames(clock);
  const isAllowed = (hostname: string): boolean => names.has(hostname);
  const isDenied = (address: Address): boolean => deniedBlocks.some((block) => contains(block, address));

  /** Whether the allow list names a host or its address, whatever a name resolves to. */
  const isListed = (hostname: string): boolean => {
    if (isAllowed(hostname)) return true;
    const address = isIP(hostname) === 0 ? null : parseAddress(hostname);
    return address !== null && blocks.some((block) => contains(block, address));
  };

  /** What is wrong with an address; null: it may be fetched. */
  const refusal = (text: string): 'denied' | 'private address' | null => {
    const address = parseAddress(text);
    if (address === null) return 'private address';
    const meant = embedded(TRANSLATED, address);
    const end = tunnelEnd(address);
    if ([address, meant, end, embedded(MAPPED, address)].some((each) => isDenied(each))) return 'denied';
    const isReachable = isPublic(meant) && (end === address || isPublic(end));
    return isReachable || blocks.some((block) => contains(block, address)) ? null : 'private address';
  };

  const lookUp = async (hostname: string, signal: AbortSignal | undefined): Promise<readonly string[]> => {
    const isTrusted = isAllowed(hostname);
    const resolver = lookup ?? (isTrusted ? allowedLookup : publicLookup);
    const addresses = await resolver(hostname, signal);
    const isRefused = isTrusted
      ? addresses.some((address) => refusal(address) === 'denied')
      : addresses.some((address) => refusal(address) !== null);
    // As of a name that does not exist: else names that exist inside could be told apart.
    return isRefused ? [] : addresses;
  };

  return {
    admit(text, base) {
      const url = parse(text, base);
      if (url.protocol !== 'http:' && url.protocol !== 'https:') throw blocked('scheme');
      if (url.username !== '' || url.password !== '') throw blocked('credentials');
      url.hash = '';
      if (url.hostname.endsWith('.')) url.hostname = url.hostname.slice(0, -1);
      const hostname = bare(url.hostname);
      const takesPort = (ports ?? USUAL_PORTS).includes(portOf(url)) || (ports === null && isListed(hostname));
      if (!takesPort) throw blocked('port');
      if (isDeniedName(hostname, deniedNames)) throw blocked('denied');
      if (isIP(hostname) !== 0) {
        const wrong = refusal(hostname);
        if (wrong === 'denied' || (wrong !== null && !isAllowed(hostname))) throw blocked(wrong);
      } else if (!isAllowed(hostname) && !isPublicName(hostname)) {
        throw blocked('host name');
      }
      return url;
    },
    async resolve(bracketed, signal) {
      const hostname = bare(bracketed);
      if (isIP(hostname) !== 0) {
        const wrong = refusal(hostname);
        if (wrong === 'denied' || (wrong !== null && !isAllowed(hostname))) throw blocked(wrong);
        return [hostname];
      }
      const known = failed.get(hostname);
      if (known !== undefined) throw new HeadraceError('HR_FETCH_FAILED', { subject: known });
      try {
        const addresses = await lookUp(hostname, signal);
        if (addresses.length > 0) return addresses;
      } catch (cause) {
        const subject = dnsSubject(cause);
        if (signal?.aborted !== true) failed.add(hostname, subject);
        throw new HeadraceError('HR_FETCH_FAILED', { subject, cause });
      }
      failed.add(hostname, NAME_NOT_FOUND);
      throw new HeadraceError('HR_FETCH_FAILED', { subject: NAME_NOT_FOUND });
    },
  };
}

/** Names whose lookup has just failed, and how. */
class FailedNames {
  readonly #clock: Clock;
  readonly #names = new Map<string, { readonly subject: string; readonly untilMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get(hostname: string): string | undefined {
    const failure = this.#names.get(hostname);
    return failure !== undefined && failure.untilMs > this.#clock.now() ? failure.subject : undefined;
  }

  add(hostname: string, subject: string): void {
    this.#names.delete(hostname);
    const [oldest] = this.#names.keys();
    if (this.#names.size >= MAX_FAILED && oldest !== undefined) this.#names.delete(oldest);
    this.#names.set(hostname, { subject, untilMs: this.#clock.now() + FAILED_MS });
  }
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

/** Whether a name or one of its parents is on the deny list. */
function isDeniedName(hostname: string, denied: ReadonlySet<string>): boolean {
  if (denied.size === 0) return false;
  for (let name = hostname; ; name = name.slice(name.indexOf('.') + 1)) {
    if (denied.has(name)) return true;
    if (!name.includes('.')) return false;
  }
}

function dnsSubject(cause: unknown): string {
  const code = (cause as NodeJS.ErrnoException | null)?.code ?? '';
  return ['ENOTFOUND', 'ENODATA', 'EBADNAME'].includes(code) ? NAME_NOT_FOUND : 'name lookup failed';
}

const publicNames = new NameResolver();
const publicLookup: Lookup = (hostname, signal) => publicNames.resolve(hostname, signal);
const allowedLookup: Lookup = (hostname) => systemNames.lookup(hostname);

/** Zone ids are refused: they address a local link. */
function parseAddress(text: string): Address | null {
  return isIP(text) === 0 || text.includes('%') ? null : ipaddr.parse(text);
}

/** The IPv4 address at the end of an address of a block; every other address itself. */
function embedded(block: Block, address: Address): Address {
  if (!contains(block, address)) return address;
  return ipaddr.fromByteArray(address.toByteArray().slice(12)) as Address;
}

/** The IPv4 address to which ISATAP sends packets for an address (RFC 5214 §6.1); every other address itself. */
function tunnelEnd(address: Address): Address {
  const bytes = address.toByteArray();
  const isTunnelled = bytes.length === 16 && ISATAP.has(Buffer.from(bytes.slice(8, 12)).toString('hex'));
  return isTunnelled ? (ipaddr.fromByteArray(bytes.slice(12)) as Address) : address;
}

function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast') return false;
  return address.kind() === 'ipv6' ? address.match(GLOBAL_UNICAST) : !HOST_AGENTS.has(address.toString());
}

function contains(block: Block, address: Address): boolean {
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
