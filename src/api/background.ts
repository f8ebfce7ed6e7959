// `background: true`: the client is answered as soon as the request is admitted and stored, and the work goes on in an exchange of its
// own, through the same pipeline: authenticated, priced, held, charged and drained like every other request.

import { randomBytes } from 'node:crypto';
import { asForeground, emptyResponse, type StateFields } from '../dialect/index.ts';
import { type DetachedExchange, startDetached } from '../ingress/detached-exchange.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { JSON_HEADERS } from '../ingress/respond.ts';
import { chosenHeaders } from '../net/flat-headers.ts';
import { BackgroundResponse, EventFollower, type StoredResponses } from '../responses/index.ts';
import { tracedHeaders } from '../telemetry/trace-context.ts';
import type { ApiDeps } from './deps.ts';
import { StoredCharges } from './held-charges.ts';

/** As in ids of the official API: 24 bytes nobody guesses. */
const ID_BYTES = 24;

/** Headers that belong to the client's connection, or are given anew. */
const OF_CONNECTION =
  /^(?:connection|keep-alive|content-length|content-encoding|transfer-encoding|expect|te|upgrade|origin|x-request-id|x-client-request-id)$/;

/** Headers that the client's own exchange adds. */
const OF_EXCHANGE = /^(?:x-request-id|request-id|vary|content-length|access-control-.*)$/;

/** Starts a request in the background and answers the client. */
export function startBackground(
  exchange: Exchange,
  deps: ApiDeps,
  responses: StoredResponses,
  body: Buffer,
  { stream }: StateFields,
): void {
  const { clock, epochMs, settings } = deps;
  const key = { account: exchange.account, id: `resp_${randomBytes(ID_BYTES).toString('hex')}` };
  const queued = emptyResponse(body, {
    ...{ id: key.id, status: 'queued', model: exchange.model, usage: null },
    createdS: Math.floor(epochMs() / 1000),
  });
  const { maxBytes } = settings.responses;
  // Who polls gets nothing of an answer that has failed, whatever was written of it.
  const charges = stream ? null : new StoredCharges();
  const run: BackgroundResponse = new BackgroundResponse(
    { store: responses, clock, epochMs, maxBytes },
    { key, queued, hasEvents: stream },
    {
      begun: () => {
        if (exchange.handedOver) return;
        if (!stream) {
          exchange.respond(200, JSON_HEADERS, queued);
          return;
        }
        new EventFollower(exchange, responses, key, -1).followLive(run);
      },
      refused: (inner, answer) => passOn(exchange, inner, answer),
      ended: () => charges?.storing(),
      delivered: () => charges?.stored(true),
      undelivered: () => charges?.stored(false),
    },
  );
  const request = asForeground(body);
  exchange.isPassedOn = true;
  const { path, query, remoteAddress, requestId } = exchange;
  const sent = chosenHeaders(tracedHeaders(exchange.headers, exchange.span), (name) => !OF_CONNECTION.test(name));
  const headers = ['x-request-id', requestId, 'content-length', String(request.byteLength), ...sent];
  startDetached(deps.detached, { method: 'POST', path, query, headers, remoteAddress }, request, run, (inner) => {
    inner.heldBy = charges;
    run.runIn(inner);
  });
}

/** The request was refused: the client gets that answer. */
function passOn(exchange: Exchange, { answerHeaders, errorCode, status }: DetachedExchange, body: Buffer): void {
  if (exchange.handedOver) return;
  exchange.errorCode = errorCode;
  exchange.respond(
    status,
    chosenHeaders(answerHeaders, (name) => !OF_EXCHANGE.test(name)),
    body,
  );
}
