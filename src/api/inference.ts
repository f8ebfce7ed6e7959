// Every proxied POST: the four dialects, llama-style completions, and anything else whose JSON body names a model. Body
// bytes pass untouched; what routing must know is read by one scan. The path of a request: admit, body, scan, find the
// model, pick, fail over and relay.

import { dialectOf, endsWell, errorEvent, prefixHash, scanBody, type ScannedBody, upstreamPath } from '../dialect/index.ts';
import { HeadraceError } from '../errors.ts';
import { readCookie, setCookie } from '../ingress/cookies.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError, type ErrorDecorator } from '../ingress/respond.ts';
import {
  AFFINITY_COOKIE,
  AFFINITY_MAX_AGE_S,
  Candidates,
  hashText,
  type Member,
  type Model,
  readAffinity,
  writeAffinity,
} from '../routing/index.ts';
import { Failover, type Job, type Progress, requestHeaders } from '../upstream/index.ts';
import { admit, type Admission, requireKey } from './admit.ts';
import type { ApiWorld } from './world.ts';

/** The dialect functions a relay calls. */
export const DIALECT_RULES: { endsWell: typeof endsWell; errorEvent: typeof errorEvent } = { endsWell, errorEvent };

/** Headers by which clients name their conversation, in order of preference. */
const SESSION_HEADERS = [
  'session_id',
  'x-session-id',
  'x-claude-code-session-id',
  'x-conversation-id',
  'x-openwebui-chat-id',
];

const JSON_TYPE = /^application\/(?:[^;\s]+\+)?json\s*(?:;|$)/i;

/** With `errorBodies: dialect`: the members that the official SDKs of this path's dialect read. */
export const decorateError: ErrorDecorator = (exchange, { code, message, status, validation }) => {
  const text = validation === undefined ? message : validation.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ');
  return dialectOf(exchange.path)?.errorMember({ code, message: text, status });
};

/** Serves a proxied request. Throws 401 for a bad key; every later refusal is answered here. */
export function forward(exchange: Exchange, world: ApiWorld): void {
  const admission = admit(exchange, world);
  exchange.readBody((error, body) => {
    try {
      if (error !== null) throw error;
      route(exchange, world, admission, body);
    } catch (thrown) {
      respondError(exchange, thrown, world.settings.errorBodies === 'dialect' ? decorateError : undefined);
    }
  });
}

function route(exchange: Exchange, world: ApiWorld, admission: Admission, body: Buffer): void {
  const contentType = exchange.header('content-type');
  if (contentType !== undefined && body.byteLength > 0 && !JSON_TYPE.test(contentType)) throw notJson();
  const scan = scanBody(body, { maxDepth: world.settings.limits.jsonDepth });
  if (!scan.ok) throw new HeadraceError('HR_REQUEST_INVALID', { validation: scan.errors });
  const model = world.table.find(scan.model);
  if (model === undefined) throw new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: scan.model.slice(0, 128) });
  exchange.model = model.id;
  requireKey(admission, world);
  new Failover(world.failover, job(exchange, world, admission, body, scan, model), exchange).start();
}

function notJson(): HeadraceError {
  const msg = 'Input should be a valid dictionary or object to extract fields from';
  return new HeadraceError('HR_REQUEST_INVALID', { validation: [{ loc: ['body'], msg, type: 'model_attributes_type' }] });
}

function job(
  exchange: Exchange,
  world: ApiWorld,
  admission: Admission,
  body: Buffer,
  scan: ScannedBody,
  model: Model,
): Job {
  const { settings, table, counters, reporter } = world;
  const dialect = dialectOf(exchange.path);
  const cookie = readCookie(exchange.header('cookie'), AFFINITY_COOKIE);
  const preferred = readAffinity(cookie);
  const wishes = {
    favourite: preferred.get(model.id.toLowerCase()),
    key: affinityKey(exchange, body, scan),
  };
  const picker = {
    affinity: settings.routing.affinity,
    boundedLoad: settings.routing.boundedLoad,
    slowStartMs: settings.ejection.slowStartMs,
  };
  const path = upstreamPath(exchange.path);
  return {
    model: model.id,
    path: exchange.query === '' ? path : `${path}?${exchange.query}`,
    headers: requestHeaders({
      headers: exchange.headers,
      requestId: exchange.requestId,
      bearer: admission.bearer,
      streaming: scan.stream,
    }),
    body,
    dialect,
    candidates: new Candidates(model, world.board, picker, wishes, world.clock.now(), world.random),
    budget: world.budget(model.id),
    extraHeaders: (member, progress) => {
      // The first byte of a stream shows how busy a CRN is; of a whole answer it shows how long the answer was.
      if (scan.stream || dialect === undefined) noteFirstByte(world, model, member, progress);
      const headers = answerHeaders(exchange, world, progress);
      const updated = settings.routing.affinity ? writeAffinity(preferred, table, model.id, member.url) : undefined;
      if (updated !== undefined) {
        const secure = settings.publicScheme === 'https';
        headers.push('set-cookie', setCookie(AFFINITY_COOKIE, updated, AFFINITY_MAX_AGE_S, secure));
      }
      return headers;
    },
    fail: (error) => respondError(exchange, error, settings.errorBodies === 'dialect' ? decorateError : undefined),
    onPick: (affinity) => counters.pick(affinity),
    onAttempt: (member, verdict, failure) => {
      counters.attempt(member, verdict, failure);
      reporter.report(member.member, verdict, failure);
    },
  };
}

function affinityKey(exchange: Exchange, body: Buffer, scan: ScannedBody): number {
  for (const name of SESSION_HEADERS) {
    const session = exchange.header(name);
    if (session !== undefined && session !== '') return hashText(session) || 1;
  }
  if (scan.session !== undefined) return hashText(scan.session) || 1;
  return prefixHash(body, scan, dialectOf(exchange.path));
}

function noteFirstByte(world: ApiWorld, model: Model, member: Member, progress: Progress): void {
  const elapsedMs = progress.firstByteMs - progress.sentMs;
  world.board.noteFirstByte(member.member, elapsedMs, progress.firstByteMs);
  world.counters.firstByte(model.id, elapsedMs);
}

/** `Server-Timing` (W3C): what the gateway took until the request left, and the CRN until its first byte. */
function answerHeaders(exchange: Exchange, world: ApiWorld, { sentMs, firstByteMs, attempts }: Progress): string[] {
  if (!world.settings.serverTiming) return [];
  const gateway = (sentMs - exchange.receivedMs).toFixed(3);
  const upstream = (firstByteMs - sentMs).toFixed(3);
  return ['server-timing', `gateway;dur=${gateway}, upstream;dur=${upstream}, attempts;desc="${attempts}"`];
}
