// `/mcp`: search and fetch as tools by the Model Context Protocol over Streamable HTTP. The protocol is that of the official SDK (mcp/);
// here are keys, origins, sizes and what ends a call. A call is a request of the gateway's own to the endpoint, so that limits, prices
// and places are the same; `/mcp` itself costs nothing and takes no place.

import { isUtf8 } from 'node:buffer';
import { packageVersion } from '../config/env.ts';
import { HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondJson } from '../ingress/respond.ts';
import {
  type Caller,
  digestOf,
  plainCallOf,
  requestOf,
  respondTo,
  ResponsePump,
  servePlainCall,
} from '../mcp/index.ts';
import type { ApiDeps, Endpoint } from './deps.ts';
import { callerOf } from './held-exchange.ts';
import { instructionsOf, toolsOf } from './mcp-tools.ts';
import { hasMoreValues, tooDeepAt } from '../config/json-syntax.ts';
import { parsedJson } from '../net/json-object.ts';
import { isOfForeignPage } from './page-origin.ts';
import { authenticate, TOOL_BODY_BYTES, TOOL_BODY_VALUES } from './pipeline.ts';
import { refuse } from './refuse.ts';

/** Messages of one batch, which revision 2025-03-26 allows. Each may be a search. */
const MOST_MESSAGES = 32;

const VERSION = packageVersion();

const SESSION_HEADER = 'mcp-session-id';
const SESSION_ID = /^[\w-]{1,64}$/;

/** Serves a request of the protocol. Throws 404 where it is off, 401 for a bad key, 403 for a web page of another origin. */
export const mcp: Endpoint = (exchange, deps) => {
  if (!deps.settings.mcp) throw new HeadraceError('HR_ROUTE_NOT_FOUND');
  const access = authenticate(exchange, deps);
  const { keys } = deps.settings;
  // A wallet may look around; what a call costs it pays at the endpoint.
  if (access.credential.kind === 'none' && keys.required && deps.paymentProcessor === null) {
    throw new HeadraceError('HR_AUTH_MISSING');
  }
  // By DNS rebinding, a page may reach a gateway under a name of its own.
  if (access.credential.kind !== 'good' && isOfForeignPage(exchange, deps.settings))
    throw new HeadraceError('HR_TOOL_ORIGIN');
  exchange.readBody((error, body) => {
    try {
      if (error !== null) throw error;
      const { jsonDepth } = deps.settings.limits;
      if (tooDeepAt(body, jsonDepth) >= 0)
        throw new HeadraceError('HR_REQUEST_MALFORMED', { subject: `JSON nested deeper than ${jsonDepth} levels` });
      if (hasMoreValues(body, TOOL_BODY_VALUES))
        throw new HeadraceError('HR_REQUEST_MALFORMED', { subject: `JSON of more than ${TOOL_BODY_VALUES} values` });
      serve(exchange, deps, body);
    } catch (thrown) {
      refuse(exchange, deps, thrown);
    }
  }, TOOL_BODY_BYTES);
};

function serve(exchange: Exchange, deps: ApiDeps, body: Buffer): void {
  const message = parse(body);
  if (message === undefined) {
    respondJson(exchange, 400, PARSE_ERROR);
    return;
  }
  const messages = Array.isArray(message) ? (message as unknown[]) : [message];
  if (messages.length > MOST_MESSAGES) {
    throw new HeadraceError('HR_REQUEST_MALFORMED', { subject: `a batch has at most ${MOST_MESSAGES} messages` });
  }
  const abort = new AbortController();
  const pump = new ResponsePump(exchange, abort, () => refuse(exchange, deps, new HeadraceError('HR_DRAINING')));
  const session = sessionOf(exchange);
  const owner = callerOf(exchange, deps.headerRules.peers);
  if (session !== undefined) for (const each of messages) cancel(each, deps, owner, session);
  const tools = toolsOf(exchange, deps);
  const caller: Caller = {
    version: VERSION,
    instructions: instructionsOf(tools),
    tools,
    began: (id, stop) => {
      if (session === undefined) return ignore;
      const end = messages.length === 1 ? () => pump.cancel() : stop;
      return deps.cancellations.add(digestOf(owner, session, id), end);
    },
  };
  const plain = plainCallOf(exchange, message, tools);
  if (plain !== null) {
    servePlainCall(plain, exchange, pump, deps.clock, abort.signal, caller).catch((thrown: unknown) =>
      refuse(exchange, deps, thrown),
    );
    return;
  }
  const request = requestOf(exchange, abort.signal);
  const begun = messages.some((each) => methodOf(each) === 'initialize') ? startSession() : [];
  respondTo(request, message, caller)
    .then((response) => pump.pass(response, response.status === 200 ? begun : []))
    // What goes wrong after the client has left concerns nobody.
    .catch((thrown: unknown) => refuse(exchange, deps, thrown));
}

function ignore(): void {
  // Such a call ends with its connection only.
}

/** JSON-RPC 2.0, section 5.1. */
const PARSE_ERROR = { jsonrpc: '2.0', error: { code: -32700, message: 'Parse error: Invalid JSON' }, id: null };

/** The JSON of a body, which is UTF-8 where it is exchanged (RFC 8259, section 8.1); undefined where it is none. */
function parse(body: Buffer): unknown {
  return isUtf8(body) ? parsedJson(body.toString()) : undefined;
}

/**
 * Ids of requests are those of one client only. The id of a session tells clients apart that share a key: nothing is kept for it, and
 * requests without one are served all the same.
 */
function startSession(): string[] {
  return [SESSION_HEADER, crypto.randomUUID()];
}

function sessionOf(exchange: Exchange): string | undefined {
  const id = exchange.header(SESSION_HEADER);
  return id !== undefined && SESSION_ID.test(id) ? id : undefined;
}

function methodOf(message: unknown): unknown {
  return (message as { readonly method?: unknown } | null | undefined)?.method;
}

/** Until revision 2025-11-25 a client cancels by another request; since then by closing the connection. */
function cancel(message: unknown, deps: ApiDeps, owner: string, session: string): void {
  if (methodOf(message) !== 'notifications/cancelled') return;
  const { params } = message as { readonly params?: { readonly requestId?: unknown } | null };
  const id = params?.requestId;
  if (typeof id === 'string' || typeof id === 'number') deps.cancellations.cancel(digestOf(owner, session, id));
}
