// Explains for one request which CRN it would go to and why, by what this process knows at that moment. Nothing is sent, charged,
// counted or remembered, and nothing of the prompt is in the answer.

import { dialectOf, scanBody } from '../dialect/index.ts';
import { HeadraceError } from '../errors.ts';
import { type Exchange, readCookie } from '../ingress/exchange.ts';
import { respondError, respondJson } from '../ingress/respond.ts';
import {
  AFFINITY_COOKIE,
  type AffinityHint,
  Candidates,
  type ExplainedCrn,
  type Explanation,
  readAffinity,
  STANDING_WORDS,
} from '../routing/index.ts';
import { continuedResponse, promptOf, sessionOf } from './affinity-hint.ts';
import type { ApiDeps } from './deps.ts';

const NO_STORE = ['cache-control', 'no-store'];

/** Answer of `POST /explain`. */
export interface RequestExplanation extends Omit<Explanation, 'crns'> {
  readonly crns: readonly (Omit<ExplainedCrn, 'standing'> & { readonly standing: string })[];
  readonly model: string;
  /** Name of the dialect; null for a path without one. */
  readonly dialect: string | null;
  readonly session: boolean;
  /** CRN of the affinity cookie; null without one for this model. */
  readonly cookie: string | null;
}

/** Answers the body and the headers of a request with its explanation. `account`: as which it is sent; '' for none. */
export function explain(exchange: Exchange, deps: ApiDeps, account: string): void {
  exchange.readBody((error, body) => {
    try {
      if (error !== null) throw error;
      respondJson(exchange, 200, explained(exchange, deps, account, body), NO_STORE);
    } catch (thrown) {
      respondError(exchange, thrown);
    }
  });
}

function explained(exchange: Exchange, deps: ApiDeps, account: string, body: Buffer): RequestExplanation {
  const { picker, pickerSettings, responseHolders, settings, table } = deps;
  const scan = scanBody(body, { maxDepth: settings.limits.jsonDepth });
  if (!scan.ok) throw new HeadraceError('HR_REQUEST_INVALID', { validation: scan.errors });
  const model = table.find(scan.model);
  if (model === undefined) throw new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: scan.model.slice(0, 128) });
  const dialect = dialectOf(exchange.path);
  const session = sessionOf(exchange, scan);
  const url = readAffinity(readCookie(exchange.cookie, AFFINITY_COOKIE)).get(model.id.toLowerCase());
  const response = continuedResponse(dialect, body, scan);
  const hint: AffinityHint = {
    url,
    session,
    holder: response === undefined ? 0 : responseHolders.find(response),
    stream: scan.stream,
    bytes: body.byteLength,
    blocks: () => promptOf(settings, model.id, account, body, scan, dialect),
  };
  const { crns, ...explanation } = new Candidates(model, picker, pickerSettings, hint).explain();
  return {
    model: model.id,
    dialect: dialect?.name ?? null,
    session: session !== 0,
    cookie: url ?? null,
    ...explanation,
    crns: crns.map(({ standing, ...crn }) => ({ ...crn, standing: STANDING_WORDS.get(standing) ?? 'unknown' })),
  };
}
