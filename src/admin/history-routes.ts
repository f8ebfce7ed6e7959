// GET /history?range=15m|1h|6h|24h[&model=ID][&crn=URL] on the admin listener: the figures of the last day (history.ts).

import type { ServerResponse } from 'node:http';
import { refusesMethod, respondJson } from './admin-exchange.ts';
import type { AdminRoutes } from './admin.ts';
import { type History, HISTORY_RANGES, type HistoryRange } from './history.ts';

const PARAMETERS: ReadonlySet<string> = new Set(['range', 'model', 'crn']);

export function historyRoutes(history: Pick<History, 'read'>): AdminRoutes {
  return {
    answer(req, res, path, query) {
      if (path !== '/history') return false;
      if (!refusesMethod(req, res, 'GET', 'HEAD')) respondHistory(history, res, query);
      return true;
    },
  };
}

function respondHistory(history: Pick<History, 'read'>, res: ServerResponse, query: URLSearchParams): void {
  const mistake = mistakeIn(query);
  if (mistake !== null) {
    respondJson(res, 422, { detail: mistake });
    return;
  }
  const model = query.get('model');
  const crn = query.get('crn');
  const of = model !== null ? { model } : crn !== null ? { crn } : null;
  const document = history.read((query.get('range') ?? '1h') as HistoryRange, of);
  if (document === null) respondJson(res, 404, { detail: `there is no history of ${model ?? crn}` });
  else respondJson(res, 200, document, { 'cache-control': 'no-store' });
}

function mistakeIn(query: URLSearchParams): string | null {
  for (const name of query.keys()) {
    if (!PARAMETERS.has(name)) return `${name}: there is no such parameter`;
  }
  const range = query.get('range') ?? '1h';
  if (!HISTORY_RANGES.includes(range as HistoryRange)) return `range: one of ${HISTORY_RANGES.join(', ')}`;
  return query.has('model') && query.has('crn') ? 'model and crn: one of them at most' : null;
}
