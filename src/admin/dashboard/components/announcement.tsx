// Short messages about what has happened: shown for some seconds, and read out by screen readers.

import type { VNode } from 'preact';
import { useEffect } from 'preact/hooks';
import { Store, useStore } from '../store.ts';

const SHOWN_MS = 6000;

const current: Store<string> = new Store('');
/** Read out without being shown. */
const spoken: Store<string> = new Store('');

/** Shows a message and has it read out. */
export function announce(text: string): void {
  current.set(text);
}

/** Has a message read out. */
export function speak(text: string): void {
  spoken.set(text);
}

export function Announcements(): VNode {
  const text = useStore(current);
  const quiet = useStore(spoken);
  useEffect(() => {
    if (text === '') return undefined;
    const timer = window.setTimeout(() => current.set(''), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <>
      <div class={text === '' ? 'toast hidden-label' : 'toast'} role="status">
        {text}
      </div>
      <div class="hidden-label" aria-live="polite">
        {quiet}
      </div>
    </>
  );
}
