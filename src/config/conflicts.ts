// Mistakes of settings that are right alone and wrong together.

import { entryPath, type Mistake } from './mistake.ts';
import { asksForSrv, discoverySources, type Settings } from './settings.ts';
import type { Address } from './units.ts';

/** Of two settings that may exclude each other: the one to change, and the other one. */
const OTHERS: Readonly<Record<string, string>> = {
  admin: 'listen',
  listingPrefix: 'servicePrefix',
  'ejection.backoff': 'ejection.backoffMax',
  'limits.bodyBytes': 'limits.bufferedBytes',
  'limits.heldEventBytes': 'limits.bufferedBytes',
};

/**
 * Every conflict between settings, by the path of the one to change. `refused`: paths of settings that have their defaults because what is
 * written for them is a mistake; a conflict that a right value may end is none yet.
 */
export function findConflicts(settings: Settings, refused: ReadonlySet<string> = new Set()): Mistake[] {
  const { admin, listen, ejection, limits } = settings;
  const conflicts: Mistake[] = [];
  const refuse = (path: string, message: string): void => void conflicts.push({ path, message });
  if (admin !== null && collide(admin, listen)) refuse('admin', 'must not take the port of listen');
  if (settings.servicePrefix === settings.listingPrefix) refuse('listingPrefix', 'must differ from servicePrefix');
  for (const name of ['servicePrefix', 'listingPrefix'] as const) {
    if (settings[name] === 'v1') refuse(name, 'must not be v1, which holds the compatible interfaces');
  }
  if (ejection.backoffMs > ejection.backoffMaxMs) refuse('ejection.backoff', 'must not exceed ejection.backoffMax');
  if (limits.bodyBytes > limits.bufferedBytes) refuse('limits.bodyBytes', 'must not exceed limits.bufferedBytes');
  if (limits.heldEventBytes > limits.bufferedBytes) {
    refuse('limits.heldEventBytes', 'must not exceed limits.bufferedBytes');
  }
  return [
    ...conflicts,
    ...findPaymentConflicts(settings),
    ...findLimitConflicts(settings),
    ...findDiscoveryConflicts(settings),
    ...findRepeats(settings),
  ].filter(({ path }) => !refused.has(path) && !refused.has(OTHERS[path] ?? path));
}

function findPaymentConflicts({ payments, store }: Settings): Mistake[] {
  if (payments.facilitator === null) {
    return payments.payTo === null
      ? []
      : [{ path: 'payments.facilitator', message: 'is required with payments.payTo' }];
  }
  const mistakes: Mistake[] = [];
  if (payments.payTo === null) mistakes.push({ path: 'payments.payTo', message: 'is required with a facilitator' });
  if (store === null) mistakes.push({ path: 'store', message: 'must not be null with a facilitator' });
  return mistakes;
}

/** Limits are counted where accounts are: without a ledger they would not hold. */
function findLimitConflicts({ keys, store }: Settings): Mistake[] {
  if (store !== null) return [];
  return keys.static.flatMap(({ monthly, rpm, running, tpm }, index) => {
    const isLimited = [monthly, rpm, running, tpm].some((limit) => limit !== undefined);
    return isLimited ? [{ path: `keys.static[${index}]`, message: 'has limits, which need a store' }] : [];
  });
}

/** What each source lacks to name servers and their model. */
function findDiscoveryConflicts(settings: Settings): Mistake[] {
  const sources = discoverySources(settings);
  const mistakes = sources.flatMap((source, index): Mistake[] => {
    const at = (name: string, message: string): Mistake => ({ path: `discovery[${index}].${name}`, message });
    if (source.kind === 'dns' && source.port === undefined && !asksForSrv(source)) {
      return [at('port', 'is required: A and AAAA records have no port')];
    }
    if (source.kind !== 'kubernetes') return [];
    const found: Mistake[] = [];
    if (source.service === undefined && source.selector === undefined) {
      found.push(at('service', 'is required, or selector'));
    }
    if (source.model === undefined && source.modelLabel === undefined) {
      found.push(at('model', 'is required, or modelLabel'));
    }
    return found;
  });
  for (const index of repeated(sources.map((source) => JSON.stringify(source)))) {
    mistakes.push({ path: `discovery[${index}]`, message: 'is listed before' });
  }
  return mistakes;
}

/** A wildcard host takes the port of every other host. */
function collide(a: Address, b: Address): boolean {
  const isWildcard = [a.host, b.host].some((host) => host === '0.0.0.0' || host === '::');
  return a.port !== 0 && a.port === b.port && (isWildcard || a.host === b.host);
}

function findRepeats({ adminTokens, models, keys }: Settings): Mistake[] {
  const mistakes: Mistake[] = [];
  const ids = Object.keys(models);
  for (const id of repeated(ids.map((each) => each.toLowerCase()))) {
    mistakes.push({ path: 'models', message: `holds ${ids[id]} twice; upper and lower case are the same` });
  }
  for (const [id, { servers }] of Object.entries(models)) {
    if (id.trim() === '') mistakes.push({ path: 'models', message: 'holds a model without an id' });
    for (const index of repeated(servers.map(({ url }) => url))) {
      mistakes.push({ path: `${entryPath('models', id)}.servers[${index}]`, message: 'is listed before' });
    }
  }
  mistakes.push(...findAliasRepeats(models));
  for (const index of repeated(keys.static.map(({ key }) => key))) {
    mistakes.push({ path: `keys.static[${index}].key`, message: 'is listed before' });
  }
  for (const index of repeated(adminTokens.map(({ sha256 }) => sha256.toLowerCase()))) {
    mistakes.push({ path: `adminTokens[${index}].sha256`, message: 'is listed before' });
  }
  return mistakes;
}

/** Every name must lead to one model. */
function findAliasRepeats(models: Settings['models']): Mistake[] {
  const ids = new Set(Object.keys(models).map((id) => id.toLowerCase()));
  const known = new Set<string>();
  return Object.entries(models).flatMap(([id, { aliases = [] }]) =>
    aliases.flatMap((alias, index): Mistake[] => {
      const name = alias.toLowerCase();
      const path = `${entryPath('models', id)}.aliases[${index}]`;
      if (ids.has(name)) return [{ path, message: 'is the id of a model; upper and lower case are the same' }];
      if (known.has(name)) return [{ path, message: 'is an alias already; upper and lower case are the same' }];
      known.add(name);
      return [];
    }),
  );
}

/** Indexes of the values that also appear earlier in the list. */
function repeated(values: readonly string[]): number[] {
  const known = new Set<string>();
  return values.flatMap((value, index) => (known.size === known.add(value).size ? [index] : []));
}
