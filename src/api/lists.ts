// The three lists of models, and one model by id. Answers are serialized once per snapshot.

import {
  aggregatorList,
  anthropicEntry,
  anthropicList,
  discoveryMap,
  openAiEntry,
  openAiList,
} from '../catalog/index.ts';
import { HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { JSON_HEADERS } from '../ingress/respond.ts';
import { percentDecoded } from '../net/percent-decoding.ts';
import type { ApiDeps } from './deps.ts';

/** Of the paths with a shape for each dialect: a cache keeps both. */
const BY_DIALECT = [...JSON_HEADERS, 'vary', 'anthropic-version'];

/** Serialized answers by name, held as long as their snapshot. */
const rendered = new WeakMap<ApiDeps, Map<string, Buffer>>();

/** Responds with a text, or a value as JSON, that is made once for a snapshot. */
export function respondRendered(
  exchange: Exchange,
  deps: ApiDeps,
  name: string,
  make: () => unknown,
  headers: readonly string[] = JSON_HEADERS,
): void {
  let lists = rendered.get(deps);
  if (lists === undefined) {
    lists = new Map();
    rendered.set(deps, lists);
  }
  let bytes = lists.get(name);
  if (bytes === undefined) {
    const made = make();
    bytes = Buffer.from(typeof made === 'string' ? made : JSON.stringify(made));
    lists.set(name, bytes);
  }
  exchange.respondShared(200, headers, bytes);
}

/** `GET /svc/models`: every configured model with all its servers, healthy or not. */
export function discovery(exchange: Exchange, deps: ApiDeps): void {
  respondRendered(exchange, deps, 'discovery', () => discoveryMap(deps.catalog));
}

/** `GET /v1/models`: the OpenAI list; clients of the messages dialect get the shape of theirs. */
export function models(exchange: Exchange, deps: ApiDeps): void {
  const created = deps.createdS;
  if (isOfMessages(exchange)) {
    respondRendered(exchange, deps, 'anthropic', () => anthropicList(deps.catalog, { created }), BY_DIALECT);
  } else {
    const { ownedBy } = deps.settings;
    respondRendered(exchange, deps, 'openai', () => openAiList(deps.catalog, { created, ownedBy }), BY_DIALECT);
  }
}

/** Whether the client speaks the messages dialect, which has lists of its own. */
function isOfMessages(exchange: Exchange): boolean {
  return exchange.header('anthropic-version') !== undefined;
}

/** `GET /v1/models/{id}`: one entry of that list, by its id or an alias; ids may hold slashes. */
export function model(exchange: Exchange, deps: ApiDeps): void {
  const id = percentDecoded(exchange.path.slice('/v1/models/'.length));
  const name = deps.table.find(id)?.id ?? id;
  const found = deps.catalog.find((entry) => entry.id.toLowerCase() === name.toLowerCase());
  if (found === undefined && !deps.table.isComplete) throw new HeadraceError('HR_STARTING');
  if (found === undefined) {
    exchange.alias = id.slice(0, 128);
    throw new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: exchange.alias });
  }
  const created = deps.createdS;
  const entry = isOfMessages(exchange)
    ? anthropicEntry(found, { created })
    : openAiEntry(found, { created, ownedBy: deps.settings.ownedBy });
  exchange.respond(200, BY_DIALECT, Buffer.from(JSON.stringify(entry)));
}

/** `GET /aggregator/models`: 503 before prices are known, since aggregators would believe an empty list. */
export function aggregator(exchange: Exchange, deps: ApiDeps): void {
  if (deps.stage === 'starting') throw new HeadraceError('HR_LIST_NOT_READY', { headers: ['retry-after', '30'] });
  respondRendered(exchange, deps, 'aggregator', () => aggregatorList(deps.catalog, { created: deps.createdS }));
}
