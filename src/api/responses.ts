// Stored responses over HTTP: GET and DELETE /v1/responses/{id}, POST /v1/responses/{id}/cancel and GET /v1/responses/{id}/input_items.
// A client sees the responses of its own account alone; all others are 404.

import { arrayItemsOf, itemNameOf, withMembers } from '../dialect/index.ts';
import { HeadraceError, invalidRequest } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondJson } from '../ingress/respond.ts';
import { EventFollower, responseOf, type StoredResponses, unknownResponse } from '../responses/index.ts';
import { heldName } from './affinity-hint.ts';
import type { ApiDeps, Endpoint } from './deps.ts';
import { type ParameterDoc, parametersOf } from './openapi.ts';
import { authenticate } from './pipeline.ts';
import { refuse } from './refuse.ts';
import { type ObjectSchema, readQuery } from './schema.ts';
import { parseJson } from '../config/json-text.ts';
import { percentDecoded } from '../net/percent-decoding.ts';

const PATH = /\/v1\/responses\/([^/]+)(?:\/[a-z_]+)?$/;

interface ResponseQuery {
  readonly include?: string;
  readonly stream: boolean;
  readonly starting_after: number;
}

const responseQuery: ObjectSchema<ResponseQuery> = {
  type: 'object',
  fields: {
    include: { type: 'string', description: 'Accepted; a stored response has all that it had.' },
    stream: { type: 'boolean', default: false, description: 'The events of a background response, and those to come.' },
    starting_after: {
      type: 'integer',
      minimum: -1,
      maximum: Number.MAX_SAFE_INTEGER,
      default: -1,
      description: 'With `stream`: only events with a higher number.',
    },
  },
};

interface InputItemsQuery {
  readonly include?: string;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
  readonly after?: string;
}

/** Items of a page as in the API reference of OpenAI. */
const inputItemsQuery: ObjectSchema<InputItemsQuery> = {
  type: 'object',
  fields: {
    limit: {
      type: 'integer',
      minimum: 1,
      maximum: 100,
      default: 20,
      description: 'Items of a page, 1 to 100; default 20.',
    },
    order: {
      type: 'enum',
      values: ['asc', 'desc'],
      default: 'desc',
      description: '`asc` or `desc`; default `desc`, the newest first.',
    },
    after: { type: 'string', description: 'The id of the last item of the page before.' },
    include: { type: 'string', description: 'Accepted; a stored item has all that it had.' },
  },
};

export const RESPONSE_PARAMETERS: readonly ParameterDoc[] = parametersOf(responseQuery);
export const INPUT_ITEM_PARAMETERS: readonly ParameterDoc[] = parametersOf(inputItemsQuery);

/** A request for one response of an account. */
interface StoredRequest {
  readonly exchange: Exchange;
  readonly responses: StoredResponses;
  readonly key: { readonly account: string; readonly id: string };
}

/** Makes the endpoint. `serve` answers, or rejects with an error of the table. Throws 401 for a missing or bad key. */
function stored(serve: (request: StoredRequest, deps: ApiDeps) => Promise<void>): Endpoint {
  return (exchange, deps) => {
    const { credential } = authenticate(exchange, deps);
    if (credential.kind === 'none' && deps.settings.keys.required) throw new HeadraceError('HR_AUTH_MISSING');
    const id = idIn(exchange.path);
    const { responses } = deps;
    if (responses === null) throw unknownResponse(id);
    exchange.readBody((error) => {
      if (error !== null) {
        refuse(exchange, deps, error);
        return;
      }
      const key = { account: exchange.account, id };
      serve({ exchange, responses, key }, deps).catch((thrown: unknown) => refuse(exchange, deps, thrown));
    });
  };
}

function idIn(path: string): string {
  const [, id = ''] = PATH.exec(path) ?? [];
  return percentDecoded(id);
}

/** GET /v1/responses/{id} */
export const response: Endpoint = stored(async ({ exchange, key, responses }, { unread }) => {
  const { starting_after: after, stream } = readQuery(responseQuery, exchange.query);
  const found = await responses.find(key);
  if (!stream) {
    unread.respond(exchange, responseOf(found));
    return;
  }
  if (!found.hasEvents) {
    const subject = `'${key.id}' has no events: it was not made with both background and stream`;
    throw new HeadraceError('HR_RESPONSE_STATE', { subject });
  }
  if (!exchange.handedOver) new EventFollower(exchange, responses, key, after).followStore();
});

/** DELETE /v1/responses/{id} */
export const deleteResponse: Endpoint = stored(async ({ exchange, key, responses }, deps) => {
  await responses.remove(key);
  deps.responseHolders.forget(heldName(key.id, key.account));
  respondJson(exchange, 200, { id: key.id, object: 'response.deleted', deleted: true });
});

/** POST /v1/responses/{id}/cancel */
export const cancelResponse: Endpoint = stored(async ({ exchange, key, responses }, { unread }) => {
  const found = await responses.cancel(key);
  if (!found.isBackground) {
    const subject = `'${key.id}' cannot be cancelled: it does not run in the background`;
    throw new HeadraceError('HR_RESPONSE_STATE', { subject });
  }
  unread.respond(exchange, responseOf(found));
});

/** GET /v1/responses/{id}/input_items: the input of this response, without what it continues. */
export const inputItems: Endpoint = stored(async ({ exchange, key, responses }, { unread }) => {
  const { after, limit, order } = readQuery(inputItemsQuery, exchange.query);
  const input = await responses.inputOf(key);
  const ids = new Set<string>();
  const items = arrayItemsOf(Buffer.from(input)).map((item, at) => {
    const name = itemNameOf(item);
    // A list with an id twice would begin anew behind the second one.
    const id = idOf(ids.has(name.id) ? { ...name, id: '' } : name, key.id, at);
    ids.add(id);
    return { item, id, name };
  });
  if (order === 'desc') items.reverse();
  const from = after === undefined ? 0 : items.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && from === 0) throw invalidRequest(['query', 'after'], 'it names no item of this response');
  const page = items.slice(from, from + limit).map(listedItem);
  const ends = { first_id: page[0]?.id ?? null, last_id: page.at(-1)?.id ?? null };
  const rest = JSON.stringify({ object: 'list', ...ends, has_more: from + limit < items.length });
  const data = `[${page.map(({ json }) => json).join(',')}]`;
  unread.respond(exchange, withMembers(Buffer.from(rest), { data }));
});

type ItemName = ReturnType<typeof itemNameOf>;

/** Its own, or one by its place, which is no id of an output item. */
function idOf({ id, type }: ItemName, response: string, at: number): string {
  return id || `${type === '' || type === 'message' ? 'msg' : 'item'}_${response.replace(/^resp_/, '')}_in_${at}`;
}

/** An item as lists show it: with an id and a status, and its text as a part. */
function listedItem({ id, item, name }: { readonly id: string; readonly item: string; readonly name: ItemName }): {
  readonly id: string;
  readonly json: string;
} {
  const members: Record<string, string> = { id: JSON.stringify(id) };
  if (name.type === '') members['type'] = '"message"';
  const value = parseJson(item) as Readonly<Record<'content' | 'role' | 'status', unknown>> | null;
  // A server may take what is no item.
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { id, json: item };
  const { content, role, status } = value;
  if (typeof content === 'string') {
    const part = role === 'assistant' ? { type: 'output_text', annotations: [], logprobs: [] } : { type: 'input_text' };
    members['content'] = JSON.stringify([{ ...part, text: content }]);
  }
  if (typeof status !== 'string') members['status'] = '"completed"';
  return { id, json: withMembers(Buffer.from(item), members).toString() };
}
