// `GET /health` and `GET /svc/auth/check`. Health is a latch: 503 until every CRN has been probed once, then 200 whatever the
// CRNs do, and 503 again while draining.

import { HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondJson } from '../ingress/respond.ts';
import { STANDING } from '../routing/index.ts';
import type { ApiDeps } from './deps.ts';
import { authenticate } from './pipeline.ts';

export function health(exchange: Exchange, deps: ApiDeps): void {
  if (deps.stage !== 'ready') {
    respondJson(exchange, 503, { status: deps.stage }, ['retry-after', '1']);
    return;
  }
  respondJson(exchange, 200, {
    status: 'ok',
    keys_loaded: deps.keys.size > 0,
    healthy_models: healthyModels(deps),
    prices_loaded: deps.catalog.some((model) => model.pricing !== undefined),
  });
}

/** Models with at least one CRN that may be asked. */
function healthyModels(deps: ApiDeps): number {
  return deps.table.models.filter((model) =>
    model.members.some((member) => deps.board.standing(member.member) >= STANDING.capable),
  ).length;
}

/** 200 for a good key, 401 for any other, whether or not the gateway asks for keys. */
export function authCheck(exchange: Exchange, deps: ApiDeps): void {
  const { credential } = authenticate(exchange, deps);
  if (credential.kind === 'bad') throw new HeadraceError('HR_AUTH_INVALID');
  if (credential.kind === 'none') throw new HeadraceError('HR_AUTH_MISSING');
  respondJson(exchange, 200, { status: 'ok' });
}
