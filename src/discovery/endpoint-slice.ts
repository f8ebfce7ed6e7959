// EndpointSlices of Kubernetes (discovery.k8s.io/v1) as far as they matter here, read from JSON. What makes no sense is left out.

import { isIP } from 'node:net';
import { membersOf } from '../net/json-object.ts';

export interface EndpointSlice {
  readonly name: string;
  /** The service as a host name, `NAME.NAMESPACE.svc`; undefined when the slice names none. */
  readonly service: string | undefined;
  /** Those of its service. */
  readonly labels: ReadonlyMap<string, string>;
  readonly addressType: 'IPv4' | 'IPv6' | 'FQDN';
  /** TCP ports. */
  readonly ports: readonly { readonly name: string; readonly port: number }[];
  readonly endpoints: readonly Endpoint[];
}

export interface Endpoint {
  readonly address: string;
  /** Not known counts as ready. */
  readonly isReady: boolean;
  readonly isTerminating: boolean;
  /** Name of its pod; null without one. */
  readonly pod: string | null;
  /** UID of its pod. */
  readonly instance: string | null;
}

type Json = Readonly<Record<string, unknown>>;

/** The API allows 1,000 endpoints and 100 ports in a slice. */
const MOST_ENDPOINTS = 1000;
const MOST_PORTS = 100;
const MOST_LABELS = 256;
const HOST_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;

/** Null when it is no EndpointSlice. */
export function readEndpointSlice(object: Json): EndpointSlice | null {
  const { addressType, endpoints, metadata, ports } = object;
  const { name, namespace } = membersOf(metadata);
  if (typeof name !== 'string') return null;
  if (addressType !== 'IPv4' && addressType !== 'IPv6' && addressType !== 'FQDN') return null;
  const labels = readLabels(object);
  const service = labels.get('kubernetes.io/service-name');
  return {
    name,
    service: service === undefined || typeof namespace !== 'string' ? undefined : `${service}.${namespace}.svc`,
    labels,
    addressType,
    ports: listOf(ports, MOST_PORTS).flatMap(readPort),
    endpoints: listOf(endpoints, MOST_ENDPOINTS).flatMap((endpoint) => readEndpoint(endpoint, addressType)),
  };
}

export interface Pod {
  readonly uid: string | null;
  readonly labels: ReadonlyMap<string, string>;
}

/** What matters of a pod: its labels among `wanted`. */
export function readPod(object: Json, wanted: ReadonlySet<string>): Pod {
  return { uid: readUid(membersOf(object['metadata'])), labels: readLabels(object, wanted) };
}

/** The labels of an object; with `wanted` only those. */
function readLabels({ metadata }: Json, wanted?: ReadonlySet<string>): ReadonlyMap<string, string> {
  const entries = Object.entries(membersOf(membersOf(metadata)['labels'])).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string' && (wanted?.has(entry[0]) ?? true),
  );
  return new Map(entries.slice(0, MOST_LABELS));
}

function readPort(value: unknown): { name: string; port: number }[] {
  const { name, port, protocol } = membersOf(value);
  if (!Number.isInteger(port) || !((port as number) >= 1 && (port as number) <= 65_535)) return [];
  if (protocol !== undefined && protocol !== null && protocol !== 'TCP') return [];
  return [{ name: typeof name === 'string' ? name : '', port: port as number }];
}

/** Of several addresses, which are the same endpoint, the first is used, as the API says. */
function readEndpoint(value: unknown, type: EndpointSlice['addressType']): Endpoint[] {
  const { addresses, conditions, targetRef } = membersOf(value);
  const [address] = listOf(addresses, 1);
  if (typeof address !== 'string') return [];
  const family = isIP(address);
  const fits = type === 'FQDN' ? family === 0 && HOST_NAME.test(address) : family === (type === 'IPv4' ? 4 : 6);
  if (!fits || address.includes('%')) return [];
  const { ready, terminating } = membersOf(conditions);
  const target = membersOf(targetRef);
  const { kind, name } = target;
  const isPod = kind === 'Pod';
  return [
    {
      address,
      isReady: ready !== false,
      isTerminating: terminating === true,
      pod: isPod && typeof name === 'string' ? name : null,
      instance: isPod ? readUid(target) : null,
    },
  ];
}

function readUid({ uid }: Json): string | null {
  return typeof uid === 'string' && uid.length <= 128 ? uid : null;
}

function listOf(value: unknown, most: number): readonly unknown[] {
  return Array.isArray(value) ? value.slice(0, most) : [];
}
