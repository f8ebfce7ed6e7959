// Explains for one request which CRN it would go to and why, by what this process knows at that moment. Nothing is sent, charged,
// counted or remembered, and nothing of the prompt is in the answer. Where the gateway runs the web search of a request, its first round
// is explained. A search or a fetch is explained by what happens when it is made:
// engines and sites are asked, and nobody is charged.

import { dialectOf, type Translation, translationOf } from '../dialect/index.ts';
import { HeadraceError, messageOf } from '../errors.ts';
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
import { continuedResponse, heldName, promptOf, sessionOf } from './affinity-hint.ts';
import type { ApiDeps } from './deps.ts';
import type { GivenBody } from './explained.ts';
import { explainFetch } from './fetch.ts';
import { hostedSearchOf, ROUND_PATH } from './hosted-search.ts';
import { refuseDeep, TOOL_BODY_BYTES } from './pipeline.ts';
import { scannedBody } from './scanned-body.ts';
import { explainSearch } from './search.ts';

const NO_STORE = ['cache-control', 'no-store'];

/** Answer of `POST /explain`. */
export interface RequestExplanation extends Omit<Explanation, 'crns'> {
  /** `form`: the name of a translation in place of `translated`. */
  readonly crns: readonly (Omit<ExplainedCrn, 'form' | 'standing'> & {
    readonly form: string;
    readonly standing: string;
  })[];
  readonly model: string;
  /** Name of the dialect; null for a path without one. */
  readonly dialect: string | null;
  readonly session: boolean;
  /** CRN of the affinity cookie; null without one for this model. */
  readonly cookie: string | null;
  /** Why the request cannot be carried to CRNs that lack its dialect; null when it can. */
  readonly untranslatable: string | null;
}

/** Answers the body and the headers of a request with its explanation. `account`: as which it is sent; '' for none. */
export function explain(exchange: Exchange, deps: ApiDeps, account: string): void {
  const made = MADE.get(exchange.path);
  exchange.readBody(
    (error, body) => {
      try {
        if (error !== null) throw error;
        if (made !== undefined) {
          refuseDeep(body, deps);
          void made(deps, { body, contentType: exchange.contentType }, account).then(
            (answer) => respondJson(exchange, 200, answer, NO_STORE),
            (thrown: unknown) => respondError(exchange, thrown),
          );
          return;
        }
        respondJson(exchange, 200, explained(exchange, deps, account, body), NO_STORE);
      } catch (thrown) {
        respondError(exchange, thrown);
      }
    },
    made === undefined ? undefined : TOOL_BODY_BYTES,
  );
}

/** Requests that are explained by making them. */
const MADE: ReadonlyMap<string, (deps: ApiDeps, given: GivenBody, account: string) => Promise<object>> = new Map<
  string,
  (deps: ApiDeps, given: GivenBody, account: string) => Promise<object>
>([
  ['/search', explainSearch],
  ['/search/fetch', explainFetch],
]);

function explained(exchange: Exchange, deps: ApiDeps, account: string, received: Buffer): RequestExplanation {
  const { picker, pickerSettings, responseHolders, settings, table } = deps;
  const given = scannedBody(exchange.path, settings, received);
  const model = table.find(given.scan.model);
  if (model === undefined)
    throw new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: given.scan.model.slice(0, 128) });
  const hosted = hostedSearchOf(exchange, deps, model, given);
  const path = hosted === null ? exchange.path : ROUND_PATH;
  const { body, scan } =
    hosted === null
      ? given
      : scannedBody(path, settings, Buffer.from(JSON.stringify({ ...hosted.chat, stream: true })));
  const dialect = dialectOf(path);
  const session = sessionOf(exchange, scan);
  const url = readAffinity(readCookie(exchange.cookie, AFFINITY_COOKIE)).get(model.id.toLowerCase());
  const response = continuedResponse(dialect, body, scan);
  const translation = translationOf(dialect);
  const untranslatable = refusalOf(translation, body);
  const hint: AffinityHint = {
    url,
    session,
    holder: response === undefined ? 0 : responseHolders.find(heldName(response, account)),
    stream: scan.stream,
    bytes: body.byteLength,
    dialectBit: dialect?.bit ?? 0,
    translatedBit: translation?.to.bit ?? 0,
    isUntranslatable: untranslatable !== null,
    blocks: () => promptOf(settings, model.id, account, body, scan, dialect),
  };
  const { crns, ...explanation } = new Candidates(model, picker, pickerSettings, hint).explain();
  return {
    model: model.id,
    dialect: dialectOf(exchange.path)?.name ?? null,
    session: session !== 0,
    cookie: url ?? null,
    untranslatable,
    ...explanation,
    crns: crns.map(({ form, standing, ...crn }) => ({
      ...crn,
      form: form === 'translated' ? (translation?.name ?? form) : form,
      standing: STANDING_WORDS.get(standing) ?? 'unknown',
    })),
  };
}

/** Why a request cannot be carried to another dialect; null when it can, or when there is none. */
function refusalOf(translation: Translation | undefined, body: Buffer): string | null {
  try {
    translation?.request(body);
    return null;
  } catch (thrown) {
    return messageOf(thrown);
  }
}
