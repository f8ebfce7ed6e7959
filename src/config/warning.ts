// Warnings about settings that are valid but probably not intended. They name settings, models and addresses, never keys.

import { printAddress, printDuration, isLoopback, isPrivate } from './units.ts';
import { discoverySources, type ModelSettings, type Settings } from './settings.ts';

/** Every warning about a configuration, one sentence each, the most dangerous first. */
export function findWarnings(settings: Settings): string[] {
  return [
    ...warnOfExposure(settings),
    ...warnOfModels(settings),
    ...warnOfRouting(settings),
    ...warnOfProbes(settings),
    ...warnOfSearch(settings),
  ];
}

function warnOfExposure(settings: Settings): string[] {
  const { listen, admin, adminToken, adminTokens, keys, payments, store, requestLog } = settings;
  const warnings: string[] = [];
  if (!keys.required && !isLoopback(listen.host)) {
    warnings.push(`open gateway: anybody who reaches ${printAddress(listen)} can use it (keys.required is false)`);
  }
  if (admin !== null && !isLoopback(admin.host)) {
    warnings.push(`the admin interface on ${printAddress(admin)} can be reached from other machines`);
  }
  if (requestLog.prompts && requestLog.size > 0) {
    const isReadable = admin !== null && (adminToken !== null || adminTokens.length > 0);
    const readers = isReadable ? 'operators read them' : 'nobody can read them without adminToken or adminTokens';
    warnings.push(`prompts and answers of all clients are kept in memory (requestLog.prompts), and ${readers}`);
  }
  if (keys.required && keys.static.length === 0 && store === null) {
    warnings.push('nobody can call: keys.required is true, keys.static is empty and there is no store');
  }
  for (const source of discoverySources(settings)) {
    if (source.kind !== 'url' || !crossesOpenly(source.url)) continue;
    warnings.push(`discovery: the model map crosses a public network unencrypted (${new URL(source.url).host})`);
  }
  for (const name of ['facilitator', 'rpc'] as const) {
    const url = payments[name];
    if (url === null || !crossesOpenly(url)) continue;
    warnings.push(
      `payments.${name}: its answers cross a public network unencrypted (${new URL(url).host}): who forges one gets credit for nothing`,
    );
  }
  return warnings;
}

function warnOfModels(settings: Settings): string[] {
  const entries = Object.entries(settings.models);
  // With a token hosts may register.
  const isDiscovered = discoverySources(settings).length > 0 || settings.trust.token !== null;
  if (entries.length === 0 && !isDiscovered) return ['nothing to serve: models is empty and discovery is off'];
  const having = (count: number): string[] =>
    isDiscovered ? [] : entries.filter(([, { servers }]) => servers.length === count).map(([id]) => id);
  return [
    ...warnOfAll(having(0), 'no server, so every request gets 503'),
    ...warnOfAll(having(1), 'one server only, so nothing to fail over to'),
    ...entries.flatMap(([id, model]) => warnOfModel(id, model)),
  ];
}

/** Models that one warning names; it counts the others. */
const MOST_NAMED = 8;

/** One warning for all models that it is about: a line for each of thousands would hide all others. */
function warnOfAll(ids: readonly string[], problem: string): string[] {
  const more = ids.length > MOST_NAMED ? ` and ${ids.length - MOST_NAMED} more` : '';
  return ids.length === 0 ? [] : [`${ids.slice(0, MOST_NAMED).join(', ')}${more}: ${problem}`];
}

function warnOfModel(id: string, { servers, apiKey: common }: ModelSettings): string[] {
  const warnings: string[] = [];
  for (const { url } of servers) {
    if (!url.endsWith('/v1')) continue;
    warnings.push(`${id}: ${url} ends in /v1, to which paths such as /v1/chat/completions are added: leave /v1 out`);
  }
  for (const { apiKey = common, url } of servers) {
    if (apiKey === undefined || !crossesOpenly(url)) continue;
    warnings.push(`${id}: its apiKey crosses a public network unencrypted (${new URL(url).host})`);
  }
  return warnings;
}

function warnOfSearch({ search, webSearchTool }: Settings): string[] {
  const isSearchable = search.default.some((id) => Object.hasOwn(search.engines, id));
  const unknown = Object.keys(search.pricing).filter((id) => !Object.hasOwn(search.engines, id));
  return [
    ...(Object.keys(search.engines).length > 0 && !isSearchable
      ? ['search: no engine of search.default is configured, so a search fails that names none itself']
      : []),
    ...(webSearchTool && !isSearchable
      ? ['webSearchTool: no engine of search.default is configured, so every search of a model fails']
      : []),
    ...(unknown.length > 0 ? [`search.pricing: ${unknown.join(', ')}: no engine is configured under this id`] : []),
  ];
}

function warnOfRouting({ routing }: Settings): string[] {
  if (routing.boundedLoad === null) return [];
  return [
    'routing.boundedLoad has no effect: load is a part of the cost of a server, and routing.stickiness bounds what the affinity cookie may cost',
  ];
}

function warnOfProbes({ health }: Settings): string[] {
  if (health.timeoutMs <= health.intervalMs) return [];
  const [timeout, interval] = [printDuration(health.timeoutMs), printDuration(health.intervalMs)];
  return [`health.timeout (${timeout}) is longer than health.interval (${interval})`];
}

function crossesOpenly(target: string): boolean {
  const { protocol, hostname } = new URL(target);
  return protocol === 'http:' && !isPrivate(hostname.replace(/^\[|\]$/g, ''));
}
