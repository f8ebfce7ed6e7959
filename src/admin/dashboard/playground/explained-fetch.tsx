// How the text of a page came about: its requests, and the source beside the result, with the score of each block. The page is text of
// strangers: nothing of it becomes an element here, it is shown as text only.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ExplainedFetch } from '../../../api/fetch.ts';
import { CopyButton } from '../components/copy-button.tsx';
import { Section } from '../components/page.tsx';
import { Empty, Problem } from '../components/states.tsx';
import { Facts, Pairs, Tile, Tiles } from '../components/tile.tsx';
import { bytesText, countText, latencyText, plural, shareText } from '../format.ts';

type Explanation = NonNullable<ExplainedFetch['explanation']>;
type Hop = Explanation['hops'][number];
type Clean = NonNullable<Explanation['clean']>;
type Block = Clean['blocks'][number];
type Answer = NonNullable<ExplainedFetch['answer']>;

export function FetchExplained({ explained }: { readonly explained: ExplainedFetch }): VNode {
  const { answer, costUsd, error, explanation } = explained;
  return (
    <>
      {error !== null && <Problem text={`A client gets ${error.code}: ${error.detail}`} />}
      {explanation !== null && <Figures answer={answer} costUsd={costUsd} explanation={explanation} />}
      {explanation !== null && explanation.hops.length > 0 && <Hops explanation={explanation} />}
      {answer !== null && <SideBySide answer={answer} clean={explanation?.clean ?? null} />}
    </>
  );
}

interface FiguresProps {
  readonly answer: Answer | null;
  readonly costUsd: string;
  readonly explanation: Explanation;
}

function Figures({ answer, costUsd, explanation }: FiguresProps): VNode {
  const { clean, cleanMs, download, downloadMs, isKept, isRendered } = explanation;
  const kept = clean?.blocks.filter((block) => block.kept).length ?? 0;
  return (
    <Tiles label="The page">
      <Tile name="Words" value={countText(answer?.word_count)}>
        {clean === null ? 'no HTML' : `${plural(kept, 'block')} of ${countText(clean.blockCount)} kept`}
      </Tile>
      <Tile name="Download" value={latencyText(downloadMs)}>
        <Pairs of={[['size', bytesText(download?.bytes)]]} />
      </Tile>
      <Tile name="Cleaning" value={latencyText(cleanMs)}>
        {isRendered ? 'a browser has run its scripts' : 'scripts were not run'}
      </Tile>
      <Tile name="Cost for a client" value={Number(costUsd) === 0 ? '$0' : `$${costUsd}`}>
        {isKept
          ? 'the cache has the page'
          : download?.noStore === true
            ? 'the site forbids keeping it'
            : 'not in the cache'}
      </Tile>
    </Tiles>
  );
}

function Hops({ explanation: { download, hops, robots } }: { readonly explanation: Explanation }): VNode {
  const slowest = Math.max(...hops.map(({ totalMs, waitedMs }) => waitedMs + (totalMs ?? 0)), 1);
  return (
    <Section title={hops.length === 1 ? 'Request' : `${hops.length} requests`}>
      <ol class="hops">
        {hops.map((hop, index) => (
          <li key={index}>
            <HopLine hop={hop} slowest={slowest} />
          </li>
        ))}
      </ol>
      <Facts
        of={[
          ['robots.txt', robots ? 'allowed' : 'not asked'],
          ['Media type', download?.mediaType ?? '–'],
          ['Character set', download === null ? '–' : (download.charset ?? 'not in the header')],
        ]}
      />
    </Section>
  );
}

function HopLine({ hop, slowest }: { readonly hop: Hop; readonly slowest: number }): VNode {
  const { contentType, headMs, leadsTo, status, totalMs, url, waitedMs } = hop;
  const head = ((headMs ?? 0) / slowest) * 100;
  const waited = (waitedMs / slowest) * 100;
  const body = (((totalMs ?? headMs ?? 0) - (headMs ?? 0)) / slowest) * 100;
  return (
    <>
      <span class={status === null || status >= 400 ? 'status-code bad' : 'status-code'}>{status ?? 'no answer'}</span>
      <span class="what">
        <code>{url}</code>
        <small>
          {contentType ?? 'no type'}
          {leadsTo !== null && status !== null && (status < 300 ? ', leads on by itself' : ', redirect')}
        </small>
      </span>
      <span class="times">
        <svg class="score-bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
          <rect class="rest" width="100" height="8" />
          <rect class="line-3" width={waited} height="8" />
          <rect class="line-2" x={waited} width={head} height="8" />
          <rect class="line-1" x={waited + head} width={body} height="8" />
        </svg>
        <small>
          {waitedMs >= 1 && `waited ${latencyText(waitedMs)}, `}
          {`head ${latencyText(headMs)}, all ${latencyText(totalMs)}`}
        </small>
      </span>
    </>
  );
}

type Shown = 'all' | 'kept' | 'dropped' | 'HTML';

function SideBySide({ answer, clean }: { readonly answer: Answer; readonly clean: Clean | null }): VNode {
  const [picked, pick] = useState<number | null>(null);
  const block = picked === null ? undefined : clean?.blocks[picked];
  return (
    <Section title={answer.title === '' ? 'A page without a title' : answer.title}>
      {clean !== null && <Chosen clean={clean} />}
      {clean !== null && clean.blocks.length > 0 && <PageMap clean={clean} picked={picked} pick={pick} />}
      <div class="side-by-side">
        {clean !== null && <Source clean={clean} picked={picked} pick={pick} />}
        <Result answer={answer} sought={block?.kept === true ? block.text : ''} />
      </div>
    </Section>
  );
}

/** Where the content is from, and what else was tried. */
function Chosen({ clean: { chosen, kind, threshold, tried } }: { readonly clean: Clean }): VNode {
  return (
    <p class="note">
      {`The text is from: ${chosen}. `}
      {kind !== 'other' && `The page is of the kind ${kind}. `}
      {threshold !== null && `Blocks are kept from a score of ${threshold.toFixed(2)} on, and what belongs to them. `}
      {tried.length > 1 &&
        `Tried: ${tried.map(({ characters, name }) => `${name} (${countText(characters)} characters)`).join(', ')}.`}
    </p>
  );
}

interface Picking {
  readonly clean: Clean;
  readonly picked: number | null;
  readonly pick: (block: number | null) => void;
}

const MAP_HEIGHT = 56;

/** The page from its beginning to its end: the width of a block is its text, its height the score. */
function PageMap({ clean, pick, picked }: Picking): VNode {
  const { blocks, threshold } = clean;
  const total = blocks.reduce((sum, { text }) => sum + text.length + 1, 0);
  const at = MAP_HEIGHT * (1 - (threshold ?? 0));
  let x = 0;
  return (
    <svg
      class="page-map"
      viewBox={`0 0 1000 ${MAP_HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Scores of ${plural(blocks.length, 'block')} from the beginning of the page to its end; the list below has them too`}
    >
      {blocks.map(({ kept, score, text }, index) => {
        const width = ((text.length + 1) / total) * 1000;
        const height = Math.max(score * MAP_HEIGHT, 2);
        const from = x;
        x += width;
        return (
          <rect
            key={index}
            class={`${kept ? 'kept' : 'dropped'}${picked === index ? ' picked' : ''}`}
            x={from}
            width={Math.max(width - 0.6, 0.6)}
            y={MAP_HEIGHT - height}
            height={height}
            onClick={() => pick(index)}
          />
        );
      })}
      {threshold !== null && <line x1="0" x2="1000" y1={at} y2={at} />}
    </svg>
  );
}

const CHOICES: readonly (readonly [Shown, string])[] = [
  ['all', 'All blocks'],
  ['kept', 'Kept'],
  ['dropped', 'Dropped'],
  ['HTML', 'HTML'],
];

function Source({ clean, pick, picked }: Picking): VNode {
  const [shown, show] = useState<Shown>('all');
  return (
    <div class="pane">
      <div class="pane-head">
        <h3>Source</h3>
        <span class="choices" role="group" aria-label="Show">
          {CHOICES.map(([each, name]) => (
            <button key={each} type="button" aria-pressed={each === shown} onClick={() => show(each)}>
              {name}
            </button>
          ))}
        </span>
      </div>
      {shown === 'HTML' ? (
        <Html clean={clean} />
      ) : (
        <BlockList clean={clean} shown={shown} picked={picked} pick={pick} />
      )}
    </div>
  );
}

function BlockList({ clean, pick, picked, shown }: Picking & { readonly shown: Shown }): VNode {
  const { blockCount, blocks } = clean;
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    if (picked !== null) scrollTo(list.current, `[data-block="${picked}"]`);
  }, [picked]);
  if (blocks.length === 0) return <Empty>The text is not from blocks of the page; its source is under HTML.</Empty>;
  return (
    <ol class="blocks" ref={list} tabIndex={0} aria-label="Blocks of the page">
      {blocks.map((block, index) =>
        shown === 'all' || block.kept === (shown === 'kept') ? (
          <li
            key={index}
            data-block={index}
            class={`${block.kept ? 'kept' : 'dropped'}${picked === index ? ' picked' : ''} ${shapeOf(block)}`}
          >
            <button type="button" aria-pressed={picked === index} onClick={() => pick(picked === index ? null : index)}>
              <BlockText block={block} isPicked={picked === index} />
            </button>
          </li>
        ) : null,
      )}
      {blocks.length < blockCount && <li class="quiet">{`and ${plural(blockCount - blocks.length, 'block')} more`}</li>}
    </ol>
  );
}

interface BlockTextProps {
  readonly block: Block;
  readonly isPicked: boolean;
}

/** What was kept speaks for itself until it is picked. */
function BlockText({ block: { kept, marks, path, score, text }, isPicked }: BlockTextProps): VNode {
  return (
    <>
      <span class="score">
        <span class="hidden-label">{kept ? 'Kept' : 'Dropped'}, score </span>
        {score.toFixed(2)}
        <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
          <rect width={Math.max(score * 100, 2)} height="6" />
        </svg>
      </span>
      <span class="words">
        {text}
        {(!kept || isPicked) && (
          <span class="marks">{[path.slice(0, 3).toReversed().join(' › '), ...marks].join(' · ')}</span>
        )}
      </span>
    </>
  );
}

/** Headings, items and code look like what they are. */
function shapeOf({ path }: Block): string {
  const [element = ''] = path;
  if (/^h[1-6]$/.test(element)) return `heading ${element}`;
  return element === 'li' || element === 'pre' ? element : '';
}

/** Characters of the source that are shown at once. */
const SHOWN_SOURCE = 60_000;

/** The source as it came, with what was kept marked. */
function Html({ clean: { blocks, source, sourceLength } }: { readonly clean: Clean }): VNode {
  const [most, setMost] = useState(SHOWN_SOURCE);
  const pane = useRef<HTMLPreElement>(null);
  useEffect(() => scrollTo(pane.current, 'mark'), []);
  const parts: (VNode | string)[] = [];
  const end = Math.min(most, source.length);
  let at = 0;
  for (const { from, kept, to } of blocks) {
    if (from >= end) break;
    if (from < at || to <= from) continue;
    const text = source.slice(from, Math.min(to, end)).trimEnd();
    parts.push(<span class="tags-of">{source.slice(at, from)}</span>);
    parts.push(kept ? <mark>{text}</mark> : <s>{text}</s>);
    at = from + text.length;
  }
  parts.push(<span class="tags-of">{source.slice(at, end)}</span>);
  return (
    <>
      <pre class="source" tabIndex={0} aria-label="Source of the page" ref={pane}>
        {parts}
      </pre>
      {end < source.length && (
        <button type="button" onClick={() => setMost(most * 4)}>
          Show more
        </button>
      )}
      {end === source.length && source.length < sourceLength && (
        <p class="quiet">{`${shareText(source.length / sourceLength)} of the source is here.`}</p>
      )}
    </>
  );
}

/** Characters of a block that are looked for in the result. */
const SOUGHT = 48;

function Result({ answer, sought }: { readonly answer: Answer; readonly sought: string }): VNode {
  const { content } = answer;
  const pane = useRef<HTMLPreElement>(null);
  const start = sought === '' ? -1 : content.indexOf(sought.slice(0, SOUGHT));
  useEffect(() => {
    if (start >= 0) scrollTo(pane.current, 'mark');
  }, [start]);
  const end = start + Math.min(sought.length, SOUGHT);
  const line = start < 0 ? -1 : content.indexOf('\n', end);
  const stop = line < 0 ? content.length : line;
  return (
    <div class="pane">
      <div class="pane-head">
        <h3>Result</h3>
        <CopyButton text={content} what="text" />
      </div>
      <pre class="source result" tabIndex={0} aria-label="Result" ref={pane}>
        {start < 0 ? (
          content
        ) : (
          <>
            {content.slice(0, start)}
            <mark>{content.slice(start, stop)}</mark>
            {content.slice(stop)}
          </>
        )}
      </pre>
    </div>
  );
}

/** Scrolls a pane, and not the page, to an element in it. */
function scrollTo(pane: HTMLElement | null, selector: string): void {
  const found = pane?.querySelector(selector);
  if (pane === null || !(found instanceof HTMLElement)) return;
  const delta = found.getBoundingClientRect().top - pane.getBoundingClientRect().top;
  pane.scrollTo({ top: pane.scrollTop + delta - pane.clientHeight / 3 });
}
