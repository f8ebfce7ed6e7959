// Durations, byte counts and addresses as text: parsing and printing. They are inverse: parse(print(x)) is x.

import { BlockList, isIP } from 'node:net';

/** A socket address. `host` is a name or an IP address without brackets; port 0 picks a free port. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Longest duration of a setting, in milliseconds: whole days that a timer of Node holds (past 2^31 it fires at once). */
export const MAX_DURATION_MS: number = 24 * 86_400_000;

const DURATION_UNITS: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
];

const BYTE_UNITS: readonly (readonly [string, number])[] = [
  ['GiB', 2 ** 30],
  ['GB', 1e9],
  ['MiB', 2 ** 20],
  ['MB', 1e6],
  ['KiB', 2 ** 10],
  ['KB', 1e3],
  ['B', 1],
];

/** `5s`, `250ms`, `2m`, `1h`, `1d`, or `0`, the only one without a unit. Whole milliseconds, or undefined. */
export function parseDuration(raw: unknown): number | undefined {
  const isBare = typeof raw === 'number' || (typeof raw === 'string' && /^[\s\d.]*$/.test(raw));
  return isBare && Number(raw) !== 0 ? undefined : parseQuantity(raw, DURATION_UNITS);
}

/** What is wrong with a text or number that is no duration, as the end of a sentence. Repeats nothing but a short number. */
export function durationProblem(raw: unknown): string {
  if (!isBareNumber(raw)) return 'must be a duration, such as 250ms, 5s or 2m';
  const digits = String(raw).trim();
  return `has no unit: write ${digits}s for seconds or ${digits}ms for milliseconds`;
}

/** Longer numbers may be secrets in the wrong place, and are no durations. */
function isBareNumber(raw: unknown): boolean {
  return (typeof raw === 'string' || typeof raw === 'number') && /^\s*\d{1,6}(?:\.\d{1,3})?\s*$/.test(String(raw));
}

/** `10MB` (10^6), `100MiB` (2^20), `512B`, or a plain number of bytes. Whole bytes, or undefined. */
export function parseBytes(raw: unknown): number | undefined {
  return parseQuantity(raw, BYTE_UNITS);
}

/** Prints milliseconds with the largest unit that divides them: 90000 is `90s`, 120000 is `2m`. */
export function printDuration(durationMs: number): string {
  return printQuantity(durationMs, DURATION_UNITS);
}

/** Prints bytes with the largest unit that divides them: 104857600 is `100MiB`, 10000000 is `10MB`. */
export function printBytes(bytes: number): string {
  return printQuantity(bytes, BYTE_UNITS);
}

/** `1 item`, `2 items`. `noun`: one that gets an s. */
export function counted(count: number | bigint, noun: string): string {
  return `${count} ${noun}${Number(count) === 1 ? '' : 's'}`;
}

function parseQuantity(raw: unknown, units: typeof DURATION_UNITS): number | undefined {
  if (typeof raw !== 'string' && typeof raw !== 'number') return undefined;
  const match = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/i.exec(String(raw).trim());
  if (match === null) return undefined;
  const [, digits, name = ''] = match;
  const factor = name === '' ? 1 : units.find(([unit]) => unit.toLowerCase() === name.toLowerCase())?.[1];
  if (factor === undefined) return undefined;
  const value = Math.round(Number(digits) * factor);
  return Number.isSafeInteger(value) ? value : undefined;
}

function printQuantity(value: number, units: typeof DURATION_UNITS): string {
  const smallest = units[units.length - 1]?.[0] ?? '';
  if (value === 0) return `0${smallest}`;
  const [unit, factor] = units.find(([, size]) => value % size === 0) ?? [smallest, 1];
  return `${value / factor}${unit}`;
}

/** `HOST:PORT`, `[IPv6]:PORT`, or a port alone, which takes `defaultHost`. Undefined when it is none of these. */
export function parseAddress(raw: unknown, defaultHost: string): Address | undefined {
  if (typeof raw !== 'string' && typeof raw !== 'number') return undefined;
  const match = /^(?:(?:\[([0-9a-f:.%]+)\]|([^:\s/@[\]]+)):)?(\d{1,5})$/i.exec(String(raw).trim());
  if (match === null) return undefined;
  const [, ipv6, name, digits] = match;
  if (ipv6 !== undefined && isIP(ipv6) !== 6) return undefined;
  const port = Number(digits);
  return port > 65_535 ? undefined : { host: ipv6 ?? name ?? defaultHost, port };
}

/** Prints an address so that it can stand in a URL: IPv6 hosts get brackets. */
export function printAddress(address: Address): string {
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return `${host}:${address.port}`;
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** ZeroMQ endpoint of a server: `tcp://HOST:PORT`. No other transport is spoken, and a port above 65,535 cannot be connected to. */
export const ZMQ_ADDRESS: RegExp =
  /^tcp:\/\/(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])$/;

/** Networks that do not cross the public internet: RFC 1918, 6598, 3927 and 4193, and IPv6 link-local. */
const PRIVATE = new BlockList();
for (const [network, prefix] of [
  ['10.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
  ['100.64.0.0', 10],
  ['169.254.0.0', 16],
] as const) {
  PRIVATE.addSubnet(network, prefix, 'ipv4');
}
PRIVATE.addSubnet('fc00::', 7, 'ipv6');
PRIVATE.addSubnet('fe80::', 10, 'ipv6');

/** The URL that a text is; null for other schemes than http and https, and for what is none. */
export function httpUrl(text: string): URL | null {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) ? url : null;
}

/** True when only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || listed(LOOPBACK, host);
}

/** True when the host is on this machine or in a private network, judged by its text alone (no DNS). */
export function isPrivate(host: string): boolean {
  if (isLoopback(host) || listed(PRIVATE, host)) return true;
  const local = !host.includes('.') || /\.(?:local|internal|lan|home\.arpa)$/.test(host);
  return isIP(host) === 0 && local;
}

function listed(list: BlockList, host: string): boolean {
  const version = isIP(host);
  return version !== 0 && list.check(host, version === 6 ? 'ipv6' : 'ipv4');
}
