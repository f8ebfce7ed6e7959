// The overview for a view: its content once there is a document, else that it is read or could not be.

import type { VNode } from 'preact';
import { useOverview } from '../overview-poll.ts';
import type { Overview } from '../../overview.ts';
import type { Rates } from '../../rates.ts';
import { Loading, Problem } from './states.tsx';

export interface LiveProps {
  readonly children: (overview: Overview, rates: Rates | null) => VNode;
}

export function Live({ children }: LiveProps): VNode {
  const { error, overview, rates, refresh } = useOverview();
  if (overview !== undefined) return children(overview, rates);
  return error === null ? <Loading what="the overview" /> : <Problem text={error} retry={refresh} />;
}
