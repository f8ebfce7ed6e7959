// What the gateway keeps for the responses dialect while a request is served: the conversation that it continues is put before its
// input, before the request is priced and routed, and its finished response is stored.

import {
  allItemsOf,
  arrayItemsOf,
  inputItemsOf,
  inputOf,
  ITEM_REFERENCE,
  itemNameOf,
  previousResponseId,
  type ScannedBody,
  type StateFields,
  stateFieldsOf,
  withEarlierItems,
  withInput,
} from '../dialect/index.ts';
import { HeadraceError, invalidRequest } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import {
  backgroundOf,
  type ItemReader,
  type ResponseOrigin,
  ResponseRecorder,
  unknownResponse,
} from '../responses/index.ts';
import type { Downstream } from '../upstream/index.ts';
import { heldName } from './affinity-hint.ts';
import { startBackground } from './background.ts';
import type { ApiDeps } from './deps.ts';
import { refuse } from './refuse.ts';

/** Items that are looked up for one request; databases bound the parameters of a query. */
const MAX_REFERENCES = 1000;

/** A request of the responses dialect whose body is known and whose model exists. */
export interface StatefulRequest {
  readonly exchange: Exchange;
  readonly deps: ApiDeps;
  readonly body: Buffer;
  readonly scan: ScannedBody;
  readonly model: string;
}

/** How a request goes on. `origin`: what its response is stored with; null: it is not stored. */
export type Proceed = (body: Buffer, origin: ResponseOrigin | null) => void;

/**
 * Looks up what a request continues. Calls `proceed`, at once where nothing has to be looked up; or answers with an error of the
 * table. Throws 422 for a background request that cannot be one.
 */
export function withState(request: StatefulRequest, proceed: Proceed): void {
  const { body, deps, exchange, scan } = request;
  if (deps.responses === null) {
    if (stateFieldsOf(body, scan).background) throw noBackground(OFF);
    proceed(body, null);
    return;
  }
  const fields = stateFieldsOf(body, scan);
  // Strangers have no account of their own: nothing of theirs is kept, for the next one could read it.
  const keeps = fields.store !== false && !exchange.keyless;
  if (fields.background) {
    if (exchange.keyless) throw noBackground('it needs a key');
    if (!keeps) throw noBackground('store is false');
    startBackground(exchange, deps, deps.responses, body, fields);
    return;
  }
  lookUp({ ...request, fields, keeps }, proceed);
}

/** As `withState`, for a request that is not answered with a response: nothing is stored. */
export function withEarlier(request: StatefulRequest, proceed: (body: Buffer) => void): void {
  const { body, deps, scan } = request;
  if (deps.responses === null) proceed(body);
  else lookUp({ ...request, fields: stateFieldsOf(body, scan), keeps: false }, proceed);
}

interface ReadRequest extends StatefulRequest {
  readonly fields: StateFields;
  readonly keeps: boolean;
}

function lookUp(request: ReadRequest, proceed: Proceed): void {
  const { body, deps, exchange, fields, keeps, model, scan } = request;
  const previous = previousResponseId(body, scan) ?? null;
  const { account } = exchange;
  const items = fields.hasReferences ? referencesIn(inputItemsOf(body)) : [];
  if (previous === null && items.length === 0) {
    proceed(body, keeps ? { account, model, previous, input: () => inputOf(body) } : null);
    return;
  }
  if (exchange.keyless) {
    if (previous !== null) throw unknownResponse(previous);
    proceed(body, null);
    return;
  }
  resolve({ ...request, items, previous }, proceed).catch((thrown: unknown) => refuse(exchange, deps, thrown));
}

const OFF = 'the setting responses.store is off';

/** 422 that names the field. */
function noBackground(reason: string): HeadraceError {
  return invalidRequest(['body', 'background'], `background is not possible: ${reason}`);
}

interface ContinuedRequest extends ReadRequest {
  readonly items: readonly string[];
  readonly previous: string | null;
}

async function resolve(request: ContinuedRequest, proceed: Proceed): Promise<void> {
  const { body, deps, exchange, items, keeps, model, previous } = request;
  const { account } = exchange;
  const { bodyBytes } = deps.settings.limits;
  const bytes = Math.max(bodyBytes - body.byteLength, 0);
  let reserved = 0;
  const reader: ItemReader = {
    reserve: (size) => exchange.reserveBody((reserved = size)),
    get isGone() {
      return exchange.handedOver;
    },
  };
  const resolved = await deps.responses?.resolve({ account, previous, items, bytes }, reader);
  if (exchange.handedOver || resolved === undefined || resolved === null) return;
  if (resolved.kind !== 'found') {
    // The CRN that made the response may keep it itself.
    const isHeld =
      previous !== null &&
      resolved.kind === 'unknown' &&
      // What runs in the background is stored, and so is what it continues.
      backgroundOf(exchange) === undefined &&
      deps.responseHolders.find(heldName(previous, account)) !== 0;
    if (!isHeld) throw stateError(resolved.kind, previous ?? '');
    proceed(body, null);
    return;
  }
  const arrays = resolved.parts.flatMap(({ input, output }) => [input, output]);
  // Items are told apart only where the request names some.
  const earlier =
    items.length === 0 ? arrays.flatMap(allItemsOf) : arrays.flatMap((array) => arrayItemsOf(Buffer.from(array)));
  const own = items.length === 0 ? null : withoutReferences(inputItemsOf(body), resolved.items, earlier);
  const named = own === null ? body : withInput(body, own);
  const whole = previous === null ? named : withEarlierItems(named, earlier);
  if (whole.byteLength > bodyBytes) throw stateError('long', previous ?? '');
  exchange.reserveBody(Math.max(whole.byteLength - reserved, 0));
  exchange.continues ||= previous ?? '';
  const input = (): string => (own === null ? inputOf(body) : `[${own.join(',')}]`);
  proceed(whole, keeps ? { account, model, previous, input } : null);
}

/** Ids of the items that the input names. */
function referencesIn(input: readonly string[]): string[] {
  return input
    .filter((item) => item.includes(ITEM_REFERENCE))
    .flatMap((item) => {
      const { id, type } = itemNameOf(item);
      return type === ITEM_REFERENCE && id !== '' ? [id] : [];
    })
    .slice(0, MAX_REFERENCES);
}

/** The input with the items that it names; those that the conversation has, before it or in it, are left out, unknown ones stay. */
function withoutReferences(
  input: readonly string[],
  named: Readonly<Record<string, string>>,
  earlier: readonly string[],
): string[] {
  const names = [...earlier, ...input].map(itemNameOf);
  const present = new Set(names.flatMap(({ id, type }) => (type === ITEM_REFERENCE ? [] : [id])));
  return input.flatMap((item) => {
    if (!item.includes(ITEM_REFERENCE)) return [item];
    const { id, type } = itemNameOf(item);
    if (type !== ITEM_REFERENCE) return [item];
    return present.has(id) ? [] : [named[id] ?? item];
  });
}

function stateError(kind: 'unknown' | 'broken' | 'running' | 'long' | 'away', id: string): HeadraceError {
  const subject = `'${id.slice(0, 128)}'`;
  switch (kind) {
    case 'unknown':
      return unknownResponse(id);
    case 'broken':
      return new HeadraceError('HR_RESPONSE_BROKEN', { subject });
    case 'running':
      return new HeadraceError('HR_RESPONSE_STATE', {
        subject: `${subject} cannot be continued: it has not ended yet`,
      });
    case 'long':
      return new HeadraceError('HR_RESPONSE_LENGTH', { subject });
    case 'away':
      return new HeadraceError('HR_RESPONSE_UNAVAILABLE');
  }
}

/** The client side of a request whose response is stored as `origin` says. */
export function recorded(
  exchange: Exchange,
  { epochMs, responses, settings }: ApiDeps,
  origin: ResponseOrigin | null,
): Downstream {
  if (origin === null || responses === null || backgroundOf(exchange) !== undefined) return exchange;
  const { maxBytes } = settings.responses;
  return new ResponseRecorder(exchange, { store: responses, maxBytes, epochMs }, origin);
}
