// How the answer of a search came about: the merged list with the share of each engine in every score, and the list of each engine
// with what became of its hits. All of it is text of engines: it is shown as text.

import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ExplainedSearch } from '../../../api/search.ts';
import { Section } from '../components/page.tsx';
import { Empty, Problem } from '../components/states.tsx';
import { Bar } from '../components/sparkline.tsx';
import { Pairs, Tile, Tiles } from '../components/tile.tsx';
import { countText, latencyText, NONE, plural, usdText } from '../format.ts';
import { WebLink } from './tools.tsx';

type Explanation = ExplainedSearch['explanation'];
type MergedPage = Explanation['pages'][number];
type Engine = Explanation['engines'][number];
type Hit = Engine['hits'][number];
type Result = NonNullable<ExplainedSearch['answer']>['results'][number];

/** Colours of engines, in the order of the request. */
const COLORS = 6;

/** Merged pages that are shown at once. */
const SHOWN = 30;

export function SearchExplained({ explained }: { readonly explained: ExplainedSearch }): VNode {
  const { answer, costs, error, explanation, isKept, pages: read, steps } = explained;
  const { engines, pages } = explanation;
  const [picked, pick] = useState<number | null>(null);
  const answered = engines.filter(({ reason }) => reason === null);
  const slowest = Math.max(...engines.map(({ elapsedMs }) => elapsedMs ?? 0), 1);
  const hits = engines.reduce((sum, engine) => sum + engine.hits.length, 0);
  const cost = [...costs, read].reduce((sum, { costUsd }) => sum + Number(costUsd), 0);
  const colorOf = (engine: string): number => (engines.findIndex((each) => each.engine === engine) % COLORS) + 1;
  return (
    <>
      {error !== null && <Problem text={`A client gets ${error.code}: ${error.detail}`} />}
      <Tiles label="The search">
        <Tile name="Results" value={countText(answer?.results.length ?? 0)}>
          <Pairs of={[['of hits', countText(hits)]]} />
        </Tile>
        <Tile name="Time" value={latencyText(answer?.meta.duration_ms)}>
          <Pairs of={[['slowest', latencyText(slowest)]]} />
        </Tile>
        <Tile
          name="Engines"
          value={countText(answered.length)}
          unit={`of ${engines.length}`}
          bad={answered.length < engines.length}
        >
          {answered.length < engines.length ? 'answered; the others below' : 'all answered'}
        </Tile>
        <Tile name="Cost for a client" value={usdText(cost)}>
          {isKept ? 'a kept answer would be given' : 'no answer is kept'}
        </Tile>
      </Tiles>
      <Section title="Merged list">
        {pages.length === 0 ? (
          <Empty>No engine has found anything.</Empty>
        ) : (
          <Merged
            explanation={explanation}
            results={answer?.results ?? []}
            colorOf={colorOf}
            picked={picked}
            pick={pick}
          />
        )}
      </Section>
      {read.count > 0 && <Steps steps={steps} />}
      <Section title="What each engine gave">
        <div class="engine-lists">
          {engines.map((engine) => (
            <EngineList
              key={engine.engine}
              engine={engine}
              color={colorOf(engine.engine)}
              slowest={slowest}
              picked={picked}
              pick={pick}
            />
          ))}
        </div>
      </Section>
    </>
  );
}

/** When engines and pages ended, of a search with the text of its results. */
function Steps({ steps }: Pick<ExplainedSearch, 'steps'>): VNode {
  const last = Math.max(...steps.map(({ elapsedMs }) => elapsedMs), 1);
  return (
    <Section title="What ended when">
      <ol class="steps">
        {steps.map(({ elapsedMs, message }, index) => (
          <li key={index}>
            <span class="quiet">{latencyText(elapsedMs)}</span>
            <Bar share={elapsedMs / last} />
            <span class="address">{message}</span>
          </li>
        ))}
      </ol>
    </Section>
  );
}

interface MergedProps {
  readonly explanation: Explanation;
  readonly results: readonly Result[];
  readonly colorOf: (engine: string) => number;
  readonly picked: number | null;
  readonly pick: (place: number | null) => void;
}

function Merged({ colorOf, explanation, pick, picked, results }: MergedProps): VNode {
  const { engines, pages, rankOffset } = explanation;
  const [isAll, setAll] = useState(false);
  const shown = isAll ? pages : pages.slice(0, SHOWN);
  const top = pages[0]?.score ?? 1;
  return (
    <>
      <p class="note">
        A page scores <code>weight / ({rankOffset} + rank)</code> with each engine that found it. The length of a bar is
        the score, its colours are the engines.
      </p>
      <p class="legend">
        {engines
          .filter(({ reason }) => reason === null)
          .map(({ engine, weight }) => (
            <span key={engine}>
              <i class={`dot line-${colorOf(engine)}`} aria-hidden="true" />
              {engine}
              {weight !== 1 && ` × ${weight}`}
            </span>
          ))}
      </p>
      <ol class="merged">
        {shown.map((page, index) => (
          <li
            key={page.key}
            class={picked === index + 1 ? 'picked' : ''}
            onMouseEnter={() => pick(index + 1)}
            onMouseLeave={() => pick(null)}
          >
            <MergedRow
              page={page}
              place={index + 1}
              result={results[index]}
              top={top}
              rankOffset={rankOffset}
              colorOf={colorOf}
            />
          </li>
        ))}
      </ol>
      {shown.length < pages.length && (
        <button type="button" onClick={() => setAll(true)}>
          Show all {countText(pages.length)}
        </button>
      )}
    </>
  );
}

interface MergedRowProps {
  readonly page: MergedPage;
  readonly place: number;
  readonly result: Result | undefined;
  /** The best score. */
  readonly top: number;
  readonly rankOffset: number;
  readonly colorOf: (engine: string) => number;
}

function MergedRow({ colorOf, page, place, rankOffset, result, top }: MergedRowProps): VNode {
  const { key, score, terms, tie } = page;
  const url = result?.url ?? terms[0]?.url ?? '';
  return (
    <>
      <span class="place">{place}</span>
      <div class="what">
        <WebLink url={url}>{result?.title || key}</WebLink>
        <span class="address">{url}</span>
        {result !== undefined && result.snippet !== '' && <span class="snippet">{result.snippet}</span>}
        {result !== undefined && <Content result={result} />}
      </div>
      <div class="score">
        <ScoreBar terms={terms} top={top} colorOf={colorOf} />
        <details>
          <summary>
            {score.toFixed(4)}
            <span class="hidden-label">, why place {place}</span>
            {terms.length > 1 && <span class="tag">{terms.length} engines</span>}
            {tie !== null && <span class="tag">tie</span>}
          </summary>
          <Why terms={terms} pageKey={key} tie={tie} rankOffset={rankOffset} colorOf={colorOf} />
        </details>
      </div>
    </>
  );
}

/** The text of a result, where that was asked for. */
function Content({
  result: { content, content_error: problem, word_count: words },
}: {
  readonly result: Result;
}): VNode {
  return (
    <>
      {problem !== undefined && <span class="tag">no text: {problem}</span>}
      {content !== undefined && (
        <details>
          <summary>{words === undefined ? 'Text' : `Text of ${plural(words, 'word')}`}</summary>
          <pre tabIndex={0}>{content}</pre>
        </details>
      )}
    </>
  );
}

function ScoreBar({ colorOf, terms, top }: Pick<MergedRowProps, 'colorOf' | 'top'> & Pick<MergedPage, 'terms'>): VNode {
  let x = 0;
  return (
    <svg class="score-bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="rest" width="100" height="8" />
      {terms.map(({ engine, share }) => {
        const width = (share / top) * 100;
        const from = x;
        x += width;
        return <rect key={engine} class={`line-${colorOf(engine)}`} x={from} width={width} height="8" />;
      })}
    </svg>
  );
}

interface WhyProps extends Pick<MergedPage, 'terms' | 'tie'>, Pick<MergedRowProps, 'colorOf' | 'rankOffset'> {
  readonly pageKey: string;
}

function Why({ colorOf, pageKey, rankOffset, terms, tie }: WhyProps): VNode {
  return (
    <div class="why">
      <p>
        One page: <code>{pageKey}</code>
      </p>
      <ul>
        {terms.map(({ engine, rank, rules, share, url, weight }) => (
          <li key={engine}>
            <i class={`dot line-${colorOf(engine)}`} aria-hidden="true" /> {engine}:{' '}
            <code>
              {weight} / ({rankOffset} + {rank}) = {share.toFixed(4)}
            </code>
            <span class="address">{url}</span>
            {rules.length > 0 && (
              <span class="tags">
                {rules.map((rule) => (
                  <span key={rule} class="tag">
                    {rule}
                  </span>
                ))}
              </span>
            )}
          </li>
        ))}
      </ul>
      {tie !== null && (
        <p>
          {tie === 'rank'
            ? 'It has the score of the page before it, whose best rank is better.'
            : 'It has the score and the best rank of the page before it, whose engine comes first in the request.'}
        </p>
      )}
    </div>
  );
}

interface EngineListProps {
  readonly engine: Engine;
  readonly color: number;
  readonly slowest: number;
  readonly picked: number | null;
  readonly pick: (place: number | null) => void;
}

function EngineList({ color, engine, pick, picked, slowest }: EngineListProps): VNode {
  const { calls, elapsedMs, hits, note, reason } = engine;
  return (
    <article class="engine-list" aria-label={engine.engine}>
      <h3>
        <i class={`dot line-${color}`} aria-hidden="true" /> {engine.engine}
      </h3>
      <p class={reason === null ? 'quiet' : 'bad'}>
        {reason === null
          ? `${plural(hits.length, 'hit')}, ${plural(calls, 'request')}, ${latencyText(elapsedMs)}`
          : `▲ ${reason}${elapsedMs === null ? '' : ` after ${latencyText(elapsedMs)}`}`}
      </p>
      <Bar share={(elapsedMs ?? 0) / slowest} tone={`line-${color}`} />
      {note !== null && <p class="warn">{note}</p>}
      <ol>
        {hits.map((hit, index) => (
          <li
            key={index}
            class={`${hit.fate === 'first' || hit.fate === 'joined' ? '' : 'out'}${hit.place !== null && hit.place === picked ? ' picked' : ''}`}
            onMouseEnter={() => pick(hit.place)}
            onMouseLeave={() => pick(null)}
          >
            <HitLine {...hit} />
          </li>
        ))}
      </ol>
    </article>
  );
}

const FATES: Readonly<Record<Hit['fate'], string>> = {
  first: '',
  joined: 'joined',
  repeated: 'the same page again',
  dropped: 'dropped',
};

function HitLine({ fate, hit, place, rank, reason }: Hit): VNode {
  return (
    <details>
      <summary>
        <span class="rank">{rank === 0 ? NONE : rank}</span>
        <span class="title">{hit.title}</span>
        <span class="fate">{place === null ? (reason ?? FATES[fate]) : `→ ${place}`}</span>
      </summary>
      <pre tabIndex={0}>{JSON.stringify(hit, null, 2)}</pre>
    </details>
  );
}
