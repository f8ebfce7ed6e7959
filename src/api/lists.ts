// The three lists of models and one model by id. Answers are made once per snapshot and kept as bytes.

import { aggregatorList, anthropicList, discoveryMap, openAiEntry, openAiList } from '../catalog/index.ts';
import { HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import type { ApiWorld } from './world.ts';

const JSON_HEADERS = ['content-type', 'application/json'];

/** Answers of one snapshot, by list; snapshots that are gone take theirs along. */
const rendered = new WeakMap<ApiWorld, Map<string, Buffer>>();

function respondList(exchange: Exchange, world: ApiWorld, list: string, make: () => unknown): void {
  let lists = rendered.get(world);
  if (lists === undefined) {
    lists = new Map();
    rendered.set(world, lists);
  }
  let bytes = lists.get(list);
  if (bytes === undefined) {
    bytes = Buffer.from(JSON.stringify(make()));
    lists.set(list, bytes);
  }
  exchange.respond(200, JSON_HEADERS, bytes);
}

/** `GET /svc/models`: every configured model with all its servers, healthy or not. */
export function discovery(exchange: Exchange, world: ApiWorld): void {
  respondList(exchange, world, 'discovery', () => discoveryMap(world.catalog));
}

/** `GET /v1/models`: the OpenAI list; clients of the messages dialect get the shape of theirs. */
export function models(exchange: Exchange, world: ApiWorld): void {
  const created = world.createdS;
  if (exchange.header('anthropic-version') !== undefined) {
    respondList(exchange, world, 'anthropic', () => anthropicList(world.catalog, { created }));
  } else {
    const { ownedBy } = world.settings;
    respondList(exchange, world, 'openai', () => openAiList(world.catalog, { created, ownedBy }));
  }
}

/** `GET /v1/models/{id}`: one entry of the OpenAI list; ids may hold slashes. */
export function model(exchange: Exchange, world: ApiWorld): void {
  const id = decode(exchange.path.slice('/v1/models/'.length));
  const found = world.catalog.find((entry) => entry.id.toLowerCase() === id.toLowerCase());
  if (found === undefined) throw new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: id.slice(0, 128) });
  const entry = openAiEntry(found, { created: world.createdS, ownedBy: world.settings.ownedBy });
  exchange.respond(200, JSON_HEADERS, Buffer.from(JSON.stringify(entry)));
}

/** `GET /aggregator/models`: an empty list would be taken for the truth, so before prices are known it is 503. */
export function aggregator(exchange: Exchange, world: ApiWorld): void {
  if (world.stage === 'starting') throw new HeadraceError('HR_LIST_NOT_READY', { headers: ['retry-after', '30'] });
  respondList(exchange, world, 'aggregator', () => aggregatorList(world.catalog, { created: world.createdS }));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
