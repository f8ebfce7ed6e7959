// `GET /health` and `GET /svc/auth/check`. Health is a latch: 503 until every CRN has been probed once, then 200 whatever the
// CRNs do, and 503 again while draining.

import type { Exchange } from '../ingress/exchange.ts';
import { respondJson } from '../ingress/respond.ts';
import { type Standing, STANDING } from '../routing/index.ts';
import type { ApiDeps } from './deps.ts';
import { requireKey } from './pipeline.ts';

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
    ...degraded(deps),
    ...ledger(deps),
    ...cluster(deps),
  });
}

/** Nothing of a gateway that is alone by its settings. Losing the engine does not make a gateway unready: it goes on alone. */
function cluster({ cluster: { connected, enabled, gateways } }: ApiDeps): object {
  return enabled ? { cluster: { connected, gateways } } : {};
}

/** Nothing while work on the ledger succeeds. What is free, and what leases cover, is served without it. */
function ledger({ billing }: ApiDeps): object {
  return billing?.leases.failing === true ? { ledger: { failing: true } } : {};
}

/** Why a CRN whose last probe was good may not be asked. */
function otherReason(standing: Standing): string {
  return standing === STANDING.drained ? 'drained' : 'ejected or recovering';
}

/** Models in the details, and reasons of a model: a few, since whoever reads them looks elsewhere for more. */
const MOST_DEGRADED = 20;
const MOST_REASONS = 3;

/** Models with CRNs that may not be asked, and why; nothing where all may be. */
function degraded({ board, probeReasons, table }: ApiDeps): object {
  const models = [];
  for (const { id, members } of table.models) {
    const down = members.filter(({ member }) => board.standing(member) < STANDING.capable);
    if (down.length === 0) continue;
    const reasons = new Set(
      down.map(({ member, url }) => probeReasons.get(url) ?? otherReason(board.standing(member))),
    );
    models.push({
      model: id,
      servers: members.length,
      up: members.length - down.length,
      reasons: [...reasons].slice(0, MOST_REASONS),
    });
    if (models.length === MOST_DEGRADED) break;
  }
  return models.length === 0 ? {} : { degraded_models: models };
}

/** Models with at least one CRN that may be asked. */
function healthyModels(deps: ApiDeps): number {
  return deps.table.models.filter((model) =>
    model.members.some((member) => deps.board.standing(member.member) >= STANDING.capable),
  ).length;
}

/** 200 for a good key, 401 for any other, whether or not the gateway asks for keys. */
export function authCheck(exchange: Exchange, deps: ApiDeps): void {
  requireKey(exchange, deps);
  respondJson(exchange, 200, { status: 'ok' });
}
