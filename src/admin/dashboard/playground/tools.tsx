// What the search and the fetch of the playground share: who asks, one request at a time, what came of it, and its address.

import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { identity, may, problemText, request } from '../api.ts';
import { announce } from '../components/announcement.tsx';
import { Empty, Loading, Problem } from '../components/states.tsx';
import { useParameter } from '../router.ts';
import { useStore } from '../store.ts';
import { curlOf } from './run.ts';
import { type Asked, ask, CurlCommand, KeyField, OutcomeFacts, publicBase, useTarget } from './shared.tsx';

/** Longer than any search or page takes by default. */
const EXPLAIN_TIMEOUT_MS = 120_000;

/** What was asked, and what came of it: an answer as a client has it, or an explanation. */
export interface Sent<Answer, Explained> extends Asked<Answer> {
  readonly body: object;
  readonly explained: Explained | null;
}

interface Asking<Answer, Explained> {
  readonly sent: Sent<Answer, Explained> | null;
  readonly isRunning: boolean;
  readonly send: (body: object) => void;
  readonly stop: () => void;
  /** Whether the holder of the admin token asks, and not a client. */
  readonly asOperator: boolean;
}

/** Whether the tab may ask as an operator, and does. */
function useOperator(): readonly [may: boolean, does: boolean, set: (does: boolean) => void] {
  const isAllowed = may('operator', useStore(identity));
  const [as, setAs] = useParameter('as');
  return [isAllowed, isAllowed && as !== 'client', (does) => setAs(does ? '' : 'client')];
}

/** Sends one request at a time; the one before is aborted. `path`: of the public interface. */
export function useAsk<Answer, Explained>(path: string, playgroundPath: string): Asking<Answer, Explained> {
  const [sent, setSent] = useState<Sent<Answer, Explained> | null>(null);
  const [isRunning, setRunning] = useState(false);
  const [, asOperator] = useOperator();
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const stop = (): void => {
    abort.current?.abort();
    abort.current = null;
    setRunning(false);
  };
  const send = (body: object): void => {
    abort.current?.abort();
    const own = new AbortController();
    abort.current = own;
    setRunning(true);
    const asked = asOperator
      ? explain<Explained>(path, body, own.signal).then((answer) => ({ ...answer, body }))
      : ask<Answer>(playgroundPath, body, own.signal).then((answer) => ({ ...answer, body, explained: null }));
    asked.then(
      (answer) => {
        setSent(answer);
        setRunning(false);
      },
      // A later request has taken its place.
      () => undefined,
    );
  };
  return { sent, isRunning, send, stop, asOperator };
}

async function explain<Explained>(
  path: string,
  body: object,
  signal: AbortSignal,
): Promise<Omit<Sent<never, Explained>, 'body'>> {
  const nothing = { value: null, outcome: null };
  try {
    const options = { body, signal, timeoutMs: EXPLAIN_TIMEOUT_MS };
    return { ...nothing, explained: await request<Explained>('POST', `/explain?path=${path}`, options), problem: null };
  } catch (error) {
    signal.throwIfAborted();
    return { ...nothing, explained: null, problem: problemText(error) };
  }
}

/** Who asks: the choice of an operator, or the field of the API key. */
export function AskedBy(): VNode {
  const [isAllowed, does, set] = useOperator();
  return (
    <>
      {isAllowed && (
        <div>
          <span class="choices" role="group" aria-label="Ask as">
            <button type="button" aria-pressed={does} onClick={() => set(true)}>
              Operator
            </button>
            <button type="button" aria-pressed={!does} onClick={() => set(false)}>
              Client
            </button>
          </span>
          <small>
            {does ? 'Read anew and charged to nobody, with what happened.' : 'With an API key, as clients ask.'}
          </small>
        </div>
      )}
      {!does && <KeyField />}
      {!isAllowed && <p class="quiet small">Operators who are signed in see here how an answer comes about.</p>}
    </>
  );
}

export interface SendButtonsProps {
  readonly verb: string;
  readonly isRunning: boolean;
  readonly stop: () => void;
}

export function SendButtons({ isRunning, stop, verb }: SendButtonsProps): VNode {
  return (
    <div class="composer-actions">
      <button type="submit" class="main" disabled={isRunning}>
        {verb}
      </button>
      {isRunning && (
        <button type="button" onClick={stop}>
          Stop
        </button>
      )}
      <button type="button" onClick={() => void copyAddress()}>
        Copy link
      </button>
    </div>
  );
}

/** The address has all fields of the form, but no key. Who opens it sends nothing yet. */
async function copyAddress(): Promise<void> {
  try {
    await navigator.clipboard.writeText(location.href);
    announce('Copied the link to this form');
  } catch {
    announce('The browser does not allow copying; the address of this page is the link');
  }
}

export interface AnsweredProps<Answer, Explained> {
  readonly what: string;
  readonly sent: Sent<Answer, Explained> | null;
  readonly isRunning: boolean;
  readonly path: string;
  readonly children: ComponentChildren;
}

export function Answered<Answer, Explained>({
  children,
  isRunning,
  path,
  sent,
  what,
}: AnsweredProps<Answer, Explained>): VNode {
  const target = useTarget();
  return (
    <div class="conversation">
      {isRunning && <Loading what={what} />}
      {!isRunning && sent === null && <Empty>Nothing was asked yet.</Empty>}
      {!isRunning && sent !== null && (
        <>
          {sent.problem !== null && <Problem text={sent.problem} />}
          {children}
          {sent.outcome !== null && <OutcomeFacts outcome={sent.outcome} path={path} body={sent.body} />}
          {sent.explained !== null && (
            <CurlCommand text={curlOf(publicBase(target), { path, body: JSON.stringify(sent.body) })} />
          )}
        </>
      )}
    </div>
  );
}

/** A link to a page on the web; text where the address is of another kind, such as a script. */
export function WebLink({ children, url }: { readonly url: string; readonly children: ComponentChildren }): VNode {
  if (!/^https?:\/\//i.test(url)) return <>{children}</>;
  return (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

/** A list of words in one field, separated by commas or spaces. */
export function wordsOf(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '');
}
