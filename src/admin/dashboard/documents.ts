// Shapes of the documents that the views read, under the names by which the views call them.

export type { HistoryDocument, Quantiles, RecentFigures } from '../history.ts';
export type {
  CrnOverview as CrnDocument,
  ModelOverview as ModelDocument,
  Overview as OverviewDocument,
} from '../overview.ts';
