// What the views of the playground share: their tabs, the field of the API key, what the gateway says of its public API, and how a
// request went.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { PlaygroundTarget } from '../../playground-routes.ts';
import { ApiError, urlOf } from '../api.ts';
import { CopyButton } from '../components/copy-button.tsx';
import { Facts } from '../components/tile.tsx';
import { latencyText } from '../format.ts';
import { href } from '../router.ts';
import { useStore } from '../store.ts';
import { errorText, type Json } from './dialects.ts';
import { curlOf, keyHeaders, readTarget } from './run.ts';
import { apiKey, setApiKey } from './session.ts';

const TABS: readonly (readonly [path: string, name: string])[] = [
  ['/playground', 'Chat'],
  ['/playground/search', 'Search'],
  ['/playground/fetch', 'Fetch'],
];

export function Tabs({ at }: { readonly at: string }): VNode {
  return (
    <nav class="tabs" aria-label="Playground">
      {TABS.map(([path, name]) => (
        <a key={path} href={href(path)} aria-current={path === at ? 'page' : undefined}>
          {name}
        </a>
      ))}
    </nav>
  );
}

let known: Promise<PlaygroundTarget> | null = null;

/** What the playground stands for; null until it is known. */
export function useTarget(): PlaygroundTarget | null {
  const [target, setTarget] = useState<PlaygroundTarget | null>(null);
  useEffect(() => {
    known ??= readTarget();
    known.then(setTarget, () => {
      known = null;
    });
  }, []);
  return target;
}

/** Base URL that a client would use: the public port, or the playground itself where there is none. */
export function publicBase(target: PlaygroundTarget | null): string {
  return target?.url ?? new URL('playground', location.href.replace(/[?#].*$/, '')).href;
}

export interface KeyFieldProps {
  /** The key was typed in. */
  readonly onSet?: () => void;
}

export function KeyField({ onSet }: KeyFieldProps): VNode {
  const key = useStore(apiKey);
  const target = useTarget();
  return (
    <label>
      API key
      <input
        type="password"
        autocomplete="off"
        spellcheck={false}
        value={key}
        placeholder={target?.keyRequired === false ? 'not needed here' : 'hr_…'}
        onInput={(event) => setApiKey(event.currentTarget.value.trim())}
        onChange={() => onSet?.()}
      />
      <small>Kept in this tab only, and sent to the gateway as a client does.</small>
    </label>
  );
}

/** How a request outside of the chat went, in one line. */
export interface Outcome {
  readonly requestId: string;
  readonly status: number;
  readonly code: string;
  readonly elapsedMs: number;
  readonly costUsd: string | null;
  readonly isCached: boolean;
}

/** An answer, or why there is none. */
export interface Asked<T> {
  readonly value: T | null;
  readonly problem: string | null;
  readonly outcome: Outcome | null;
}

/** Asks a path of the playground for JSON. Never rejects, unless it is aborted. */
export async function ask<T>(path: string, body: object, signal: AbortSignal): Promise<Asked<T>> {
  const startMs = performance.now();
  let outcome: Outcome | null = null;
  try {
    const response = await fetch(urlOf(path), {
      method: 'POST',
      headers: { ...keyHeaders(), 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    });
    const text = await response.text();
    const { headers, ok, status } = response;
    outcome = {
      ...{ status, requestId: headers.get('x-request-id') ?? '', code: headers.get('x-headrace-error') ?? '' },
      ...{ elapsedMs: performance.now() - startMs, costUsd: headers.get('x-headrace-cost') },
      isCached: headers.get('x-headrace-cache') === 'hit',
    };
    const value = JSON.parse(text) as Json;
    if (!ok) return { value: null, problem: `${status}: ${errorText(value)}`, outcome };
    return { value: value as unknown as T, problem: null, outcome };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ApiError) return { value: null, problem: error.message, outcome };
    const reason = error instanceof Error ? error.message : String(error);
    return { value: null, problem: `the gateway gave no answer that can be read (${reason})`, outcome };
  }
}

/** What is shown of an outcome, with the request as a command. */
export function OutcomeFacts({
  body,
  outcome,
  path,
}: {
  readonly outcome: Outcome;
  readonly path: string;
  readonly body: object;
}): VNode {
  const target = useTarget();
  const { code, costUsd, elapsedMs, isCached, requestId, status } = outcome;
  const curl = curlOf(publicBase(target), { path, body: JSON.stringify(body) });
  return (
    <>
      <Facts
        of={[
          ['Status', `${status}${code === '' ? '' : ` ${code}`}`],
          ['Total', latencyText(elapsedMs)],
          ...(isCached ? ([['Cache', 'hit']] as const) : []),
          ...(costUsd === null ? [] : ([['Cost', `$${costUsd}`]] as const)),
          ['Request', <RequestLink id={requestId} />],
        ]}
      />
      <CurlCommand text={curl} />
    </>
  );
}

/** A request id that leads to the request log. */
export function RequestLink({ id }: { readonly id: string }): VNode {
  return (
    <>
      <a href={href('/requests', { q: id })}>{id}</a>
      <CopyButton text={id} what="request id" />
    </>
  );
}

/** The end of a request that is shown; all of it is copied. Images make requests long. */
const SHOWN_CHARACTERS = 6000;

export function CurlCommand({ text }: { readonly text: string }): VNode {
  return (
    <details class="curl">
      <summary>As a curl command</summary>
      <div class="code-block">
        <span class="code-head">
          sh
          <CopyButton text={text} what="command" />
        </span>
        <pre tabIndex={0}>{text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text}</pre>
      </div>
    </details>
  );
}
