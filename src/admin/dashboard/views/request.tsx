// One finished request: what it was, its attempts on a time line, tokens and cost, and its texts where they are kept and may be read.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { LoggedRequest } from '../../../telemetry/request-log.ts';
import { ApiError, problemText, read } from '../api.ts';
import { Page, Section } from '../components/page.tsx';
import { Empty, Loading, Problem } from '../components/states.tsx';
import { type Column, Table } from '../components/table.tsx';
import { Facts } from '../components/tile.tsx';
import { bytesText, countText, dateText, latencyText, NONE, plural, rateText, shareText } from '../format.ts';
import { AFFINITIES, CrnLink, ModelLink, Outcome, RequestId } from '../requests.tsx';
import { href } from '../router.ts';
import type { ViewProps } from './index.ts';

/** Answer of `GET /requests/log/ID`. */
interface RequestDocument extends LoggedRequest {
  readonly texts: { readonly kept: boolean; readonly prompt: string | null; readonly answer: string | null };
  /** Cursors of other requests with the same id, the newest first. */
  readonly others: readonly string[];
}

export function RequestView({ params }: ViewProps): VNode {
  const id = params['id'] ?? '';
  const [found, setFound] = useState<RequestDocument | null>(null);
  const [problem, setProblem] = useState<{ readonly text: string; readonly isGone: boolean } | null>(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const ended = new AbortController();
    setProblem(null);
    read<RequestDocument>(`/requests/log/${encodeURIComponent(id)}`, ended.signal).then(setFound, (error: unknown) => {
      const isGone = error instanceof ApiError && error.status === 404;
      if (!ended.signal.aborted) setProblem({ text: problemText(error), isGone });
    });
    return () => ended.abort();
  }, [id, turn]);
  return (
    <Page title="Request" parent={{ href: href('/requests'), name: 'Requests' }}>
      {problem !== null && problem.isGone && (
        <Empty>
          The request log has no request <code>{id}</code> any more, or never had one.
        </Empty>
      )}
      {problem !== null && !problem.isGone && <Problem text={problem.text} retry={() => setTurn(turn + 1)} />}
      {problem === null && found === null && <Loading what="the request" />}
      {problem === null && found !== null && <OneRequest request={found} />}
    </Page>
  );
}

function OneRequest({ request }: { readonly request: RequestDocument }): VNode {
  const { account, affinity, bytesIn, bytesOut, cachedTokens, client, costUsd, dialect, durationMs, endpoint } =
    request;
  const { firstByteMs, heldMs, inputTokens, key, method, others, outputTokens, path, predictedHit } = request;
  const { texts, tokensPerSecond, traceId, translation } = request;
  return (
    <>
      <Facts
        of={[
          ['Request id', <RequestId id={request.requestId} />],
          ['Ended', `${dateText(request.dateMs)}, after ${latencyText(durationMs)}`],
          ['Status', <Outcome request={request} />],
          ['Endpoint', `${method} ${path ?? endpoint}${dialect === null ? '' : ` (${dialect})`}`],
          ...(request.tool === null ? [] : ([['Tool', request.tool]] as const)),
          ['Model', <ModelLink model={request.model} alias={request.alias} />],
          [
            'Account',
            account === null ? (
              NONE
            ) : (
              <>
                <a href={href(`/accounts/${encodeURIComponent(account)}`)}>{account}</a>
                {key !== null && `, key ${key}`}
              </>
            ),
          ],
          ['CRN', <CrnLink crn={request.crn} />],
          ['Chosen because', affinity === null ? NONE : (AFFINITIES[affinity] ?? affinity)],
          ['Asked as', translation ?? 'the client wrote it'],
          ['Streamed', request.streamed ? `yes, first piece after ${latencyText(firstByteMs)}` : 'no'],
          ['Waited for a CRN', heldMs > 0 ? latencyText(heldMs) : 'no'],
          [
            'Tokens',
            inputTokens === null && outputTokens === null
              ? NONE
              : `${countText(inputTokens)} of the prompt, ${countText(outputTokens)} of the answer${request.estimated ? ', estimated' : ''}`,
          ],
          [
            'Cached',
            `${cachedTokens === null ? 'not reported' : `${countText(cachedTokens)} tokens`}, ${
              predictedHit === null ? 'nothing predicted' : `${shareText(predictedHit)} predicted`
            }`,
          ],
          ['Tokens/s', rateText(tokensPerSecond)],
          ['Cost', costUsd === null ? NONE : `$${costUsd}`],
          ['Bytes', `${bytesText(bytesIn)} in, ${bytesText(bytesOut)} out`],
          ['Trace id', traceId === null ? 'not traced' : <code>{traceId}</code>],
          ...(client === null ? [] : [['Client', client] as const]),
        ]}
      />
      {others.length > 0 && (
        <p class="note">
          {`${plural(others.length, 'other request')} in the log ${others.length === 1 ? 'has' : 'have'} the same id: `}
          {others.map((cursor, index) => (
            <span key={cursor}>
              {index > 0 && ', '}
              <a href={href(`/requests/${encodeURIComponent(cursor)}`)}>{index + 2}</a>
            </span>
          ))}
        </p>
      )}
      <Section title="Attempts">
        <Attempts request={request} />
      </Section>
      {texts.kept && (
        <Section title="Prompt and answer">
          {texts.prompt === null && texts.answer === null ? (
            <p class="note">They are kept, and only operators may read them.</p>
          ) : (
            <div class="columns">
              <Text title="Prompt" text={texts.prompt ?? ''} />
              <Text title="Answer" text={texts.answer ?? ''} />
            </div>
          )}
        </Section>
      )}
    </>
  );
}

function Text({ text, title }: { readonly title: string; readonly text: string }): VNode {
  return (
    <div>
      <h3>{title}</h3>
      <pre class="text" tabIndex={0} aria-label={title}>
        {text === '' ? NONE : text}
      </pre>
    </div>
  );
}

/** An attempt as it is drawn; milliseconds from the arrival. `begunMs`: when its answer began; null where it did not. */
interface Drawn {
  readonly number: number;
  readonly crn: string;
  readonly outcome: string;
  readonly failed: boolean;
  readonly startMs: number;
  readonly sentMs: number | null;
  readonly begunMs: number | null;
  readonly endMs: number;
  readonly totalMs: number;
}

/** The attempts that failed, and the last one where it did not. Attempts follow each other; a hedge overlaps with the one before. */
function drawnOf(request: LoggedRequest): Drawn[] {
  const { attempts, begunMs, crn, durationMs: totalMs, failures, heldMs, sentMs } = request;
  let endedMs = heldMs;
  const drawn = failures.map((failure, index): Drawn => {
    const startMs = Math.min(endedMs, failure.sentMs ?? endedMs);
    endedMs = failure.endMs;
    const outcome = failure.reason ?? failure.failure;
    const { crn: url, endMs } = failure;
    return {
      number: index + 1,
      crn: url,
      outcome,
      failed: true,
      startMs,
      sentMs: failure.sentMs,
      begunMs: null,
      endMs,
      totalMs,
    };
  });
  if (attempts > failures.length && crn !== null) {
    const startMs = Math.min(endedMs, sentMs ?? endedMs);
    const outcome = begunMs === null ? 'no answer' : 'answered';
    const failed = begunMs === null;
    drawn.push({ number: attempts, crn, outcome, failed, startMs, sentMs, begunMs, endMs: totalMs, totalMs });
  }
  return drawn;
}

const COLUMNS: readonly Column<Drawn>[] = [
  { name: 'Attempt', numeric: true, cell: ({ number }) => number },
  { name: 'CRN', class: 'name', cell: ({ crn }) => <CrnLink crn={crn} /> },
  {
    name: 'Outcome',
    class: 'reason',
    cell: ({ failed, outcome }) => <span class={failed ? 'bad' : 'good'}>{outcome}</span>,
  },
  { name: 'From', numeric: true, cell: ({ startMs }) => latencyText(startMs) },
  { name: 'Sent', numeric: true, cell: ({ sentMs }) => latencyText(sentMs) },
  { name: 'First byte', numeric: true, cell: ({ begunMs }) => latencyText(begunMs) },
  { name: 'To', numeric: true, cell: ({ endMs }) => latencyText(endMs) },
  { name: 'Time line', class: 'time-line', cell: (drawn) => <TimeLine of={drawn} /> },
];

function Attempts({ request }: { readonly request: LoggedRequest }): VNode {
  const drawn = drawnOf(request);
  const hidden = request.attempts - drawn.length;
  return (
    <>
      <Table
        id="attempts"
        caption="Attempts, with times from the arrival of the request"
        showCaption
        columns={COLUMNS}
        rows={drawn}
        keyOf={({ number }) => String(number)}
        empty="No CRN was asked."
      />
      {hidden > 0 && <p class="note">{`${plural(hidden, 'further attempt')}: the first eight failures are kept.`}</p>}
    </>
  );
}

/** The wait, the answer and what was before it, over the whole time of the request; the columns beside it say the same. */
function TimeLine({ of: { begunMs, endMs, failed, startMs, totalMs } }: { readonly of: Drawn }): VNode {
  const at = (ms: number): number => (totalMs > 0 ? Math.min(Math.max((ms / totalMs) * 100, 0), 100) : 0);
  const least = 0.6;
  return (
    <svg class={failed ? 'spans bad' : 'spans'} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect width="100" height="8" />
      <rect class="wait" x={at(startMs)} width={Math.max(at(begunMs ?? endMs) - at(startMs), least)} height="8" />
      {begunMs !== null && (
        <rect class="part" x={at(begunMs)} width={Math.max(at(endMs) - at(begunMs), least)} height="8" />
      )}
    </svg>
  );
}
