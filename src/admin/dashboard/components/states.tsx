// What stands in the place of content: while it is read, when there is none, and when it could not be read.

import type { ComponentChildren, VNode } from 'preact';

export function Loading({ what }: { readonly what: string }): VNode {
  return (
    <p class="state" role="status">
      Reading {what}…
    </p>
  );
}

export function Empty({ children }: { readonly children: ComponentChildren }): VNode {
  return <p class="state">{children}</p>;
}

/** A problem, with what was being done; `retry` tries again. */
export function Problem({ text, retry }: { readonly text: string; readonly retry?: (() => void) | undefined }): VNode {
  return (
    <div class="problem" role="alert">
      <p>
        <span aria-hidden="true">▲ </span>
        {text}
      </p>
      {retry !== undefined && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}
