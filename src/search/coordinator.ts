// One search: an aggregator actor that asks every engine at once, collects what comes until the deadline, and answers the
// moment the last engine has reported. At the deadline engines are cut off and give what they have, at once. It ends
// with its answer; a client that leaves ends it sooner.

import type { Behavior, Ref } from '../actor/index.ts';
import type { EngineHit } from './engine.ts';
import type { EngineCommand } from './engine-actor.ts';
import type { SearchQuery } from './query.ts';

/** What an engine came to: hits, or the reason why not. */
export type Report =
  | { readonly engine: string; readonly hits: readonly EngineHit[] }
  | { readonly engine: string; readonly reason: string };

export type CoordinatorCommand =
  | { readonly type: 'Report'; readonly report: Report }
  | { readonly type: 'Deadline' }
  | { readonly type: 'Grace' }
  | { readonly type: 'Abort' };

/** What engines have at the deadline is waited for at most so long: they give it up in no time, unless one is stuck. */
const GRACE_MS = 20;

export interface CoordinatorOptions {
  readonly query: SearchQuery;
  /** The actor of an engine; undefined when it is not configured. */
  readonly engine: (id: string) => Ref<EngineCommand> | undefined;
  /** When the engines are cut off, on the clock of the system: counted from the acceptance of the search. */
  readonly deadlineMs: number;
  /** Hears the reports in the order of the request, once, by the deadline and 20 ms; never after an abort. */
  readonly onDone: (reports: readonly Report[]) => void;
}

/** Makes the behaviour of one search. */
export function coordinator({ query, engine, deadlineMs, onDone }: CoordinatorOptions): Behavior<CoordinatorCommand> {
  return (context) => {
    const reports = new Map<string, Report>();
    const asked = new Map<string, Ref<EngineCommand>>();

    const cancel = (timedOut: boolean): void => {
      for (const [id, ref] of asked) if (!reports.has(id)) ref.tell({ type: 'Cancel', asker: context.path, timedOut });
    };
    const finish = (): void => {
      onDone(query.engines.map((id) => reports.get(id) ?? { engine: id, reason: 'timeout' }));
      context.stop();
    };

    context.timers.once('deadline', deadlineMs - context.clock.now(), { type: 'Deadline' });
    for (const id of query.engines) {
      const ref = engine(id);
      if (ref === undefined) {
        reports.set(id, { engine: id, reason: 'not configured' });
        continue;
      }
      asked.set(id, ref);
      const { query: text, type, maxResults } = query;
      ref.tell({
        type: 'Search',
        asker: context.path,
        query: { query: text, type, maxResults },
        deadlineMs,
        report: (report) => context.self.tell({ type: 'Report', report: { ...report, engine: id } }),
      });
    }
    if (asked.size === 0) finish();

    return (command) => {
      switch (command.type) {
        case 'Report':
          reports.set(command.report.engine, command.report);
          if (reports.size === query.engines.length) finish();
          break;
        case 'Deadline':
          cancel(true);
          context.timers.once('grace', GRACE_MS, { type: 'Grace' });
          break;
        case 'Grace':
          finish();
          break;
        case 'Abort':
          cancel(false);
          context.stop();
          break;
      }
    };
  };
}
