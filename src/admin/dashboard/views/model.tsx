// One model: figures, charts, and the CRNs that serve it.

import type { VNode } from 'preact';
import { TRAFFIC_CHARTS } from '../charts.ts';
import { HistoryCharts, RangePicker } from '../components/history-charts.tsx';
import { Live } from '../components/live.tsx';
import { Page, Section } from '../components/page.tsx';
import { Empty } from '../components/states.tsx';
import { Facts } from '../components/tile.tsx';
import { ErrorTable } from '../components/error-table.tsx';
import { countText, usdText } from '../format.ts';
import { href } from '../router.ts';
import { CrnTable } from './crns.tsx';
import type { ViewProps } from './index.ts';

export function ModelView({ params }: ViewProps): VNode {
  const id = params['model'] ?? '';
  return (
    <Page title={id} parent={{ href: href('/models'), name: 'Models' }} actions={<RangePicker />}>
      <Live>
        {(overview) => {
          const model = overview.models.find((each) => each.model === id);
          if (model === undefined) return <Empty>The gateway has no model of this name.</Empty>;
          const { costUsd, tokens } = model;
          return (
            <>
              <Facts
                of={[
                  ['Requests', countText(model.requests)],
                  ['Errors', countText(model.errors)],
                  ['Failovers', countText(model.failovers)],
                  ['Waiting', countText(model.waiting)],
                  ['Input tokens', countText(tokens.input)],
                  ['Of them cached', countText(tokens.cached)],
                  ['Output tokens', countText(tokens.output)],
                  ['Cost', usdText(costUsd)],
                ]}
              />
              <HistoryCharts charts={TRAFFIC_CHARTS} of={`&model=${encodeURIComponent(id)}`} />
              <Section title="CRNs">
                <CrnTable
                  overview={overview}
                  crns={overview.crns.filter((crn) => crn.models.some((one) => one.model === id))}
                />
              </Section>
              <Section title="Last errors">
                <ErrorTable isPart errors={overview.errors.filter((error) => error.model === id)} />
              </Section>
            </>
          );
        }}
      </Live>
    </Page>
  );
}
