// The standing of a CRN, an engine or a key: a mark and a word, so that it is not told by colour alone.

import type { ComponentChildren, VNode } from 'preact';

const MARKS: Readonly<Record<string, readonly [mark: string, tone: 'good' | 'warn' | 'bad' | 'off']>> = {
  up: ['●', 'good'],
  ready: ['●', 'good'],
  ok: ['●', 'good'],
  active: ['●', 'good'],
  settled: ['●', 'good'],
  delivered: ['●', 'good'],
  capable: ['◐', 'warn'],
  probing: ['◌', 'warn'],
  trial: ['◌', 'warn'],
  starting: ['◌', 'warn'],
  waiting: ['◌', 'warn'],
  pending: ['◌', 'warn'],
  reserved: ['◌', 'warn'],
  submitted: ['◌', 'warn'],
  draining: ['◐', 'warn'],
  ejected: ['▼', 'bad'],
  down: ['▼', 'bad'],
  suspended: ['▼', 'bad'],
  failed: ['▼', 'bad'],
  failing: ['▼', 'bad'],
  drained: ['■', 'off'],
  disabled: ['■', 'off'],
  expired: ['■', 'off'],
};

export function Standing({ children, word }: { readonly word: string; readonly children?: ComponentChildren }): VNode {
  const [mark, tone] = MARKS[word] ?? ['○', 'off'];
  return (
    <span class={`standing ${tone}`}>
      <span aria-hidden="true">{mark} </span>
      {word}
      {children}
    </span>
  );
}
