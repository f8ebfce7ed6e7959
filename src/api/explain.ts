// Explains for one request which CRN it would go to and why, by what this process knows at that moment. Nothing is sent, charged,
// counted or remembered, and nothing of the prompt is in the answer.

import { dialectOf, previousResponseId, promptBlocks, scanBody } from '../dialect/index.ts';
import { HeadraceError } from '../errors.ts';
import { type Exchange, readCookie } from '../ingress/exchange.ts';
import { respondError } from '../ingress/respond.ts';
import {
  AFFINITY_COOKIE,
  type AffinityHint,
  Candidates,
  type ExplainedCrn,
  type Explanation,
  hashText,
  readAffinity,
  STANDING_WORDS,
} from '../routing/index.ts';
import type { ApiDeps } from './deps.ts';
import { promptSeed } from './prompt-seed.ts';

const JSON_HEADERS = ['content-type', 'application/json', 'cache-control', 'no-store'];

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
    if (error !== null) {
      respondError(exchange, error);
      return;
    }
    try {
      const answer = Buffer.from(JSON.stringify(explained(exchange, deps, account, body)));
      exchange.respond(200, JSON_HEADERS, answer);
    } catch (thrown) {
      respondError(
        exchange,
        thrown instanceof HeadraceError ? thrown : new HeadraceError('HR_INTERNAL', { cause: thrown }),
      );
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
  const session = exchange.session ?? scan.session;
  const url = readAffinity(readCookie(exchange.cookie, AFFINITY_COOKIE)).get(model.id.toLowerCase());
  const response = dialect?.name === 'responses' ? previousResponseId(body, scan) : undefined;
  const hint: AffinityHint = {
    url,
    session: session === undefined ? 0 : hashText(session) || 1,
    holder: response === undefined ? 0 : responseHolders.find(response),
    stream: scan.stream,
    bytes: body.byteLength,
    blocks: () => promptBlocks(body, scan, dialect, promptSeed(settings.routing.isolate, model.id, account)),
  };
  const { crns, ...explanation } = new Candidates(model, picker, pickerSettings, hint).explain();
  return {
    model: model.id,
    dialect: dialect?.name ?? null,
    session: session !== undefined,
    cookie: url ?? null,
    ...explanation,
    crns: crns.map(({ standing, ...crn }) => ({ ...crn, standing: STANDING_WORDS.get(standing) ?? 'unknown' })),
  };
}
