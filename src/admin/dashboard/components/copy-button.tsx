// A button that copies a text.

import type { VNode } from 'preact';
import { announce } from './announcement.tsx';

/** `what` names the text: "request id". */
export function CopyButton({ text, what }: { readonly text: string; readonly what: string }): VNode {
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      announce(`Copied the ${what}`);
    } catch {
      // Without TLS on another host than localhost browsers refuse.
      announce(`The browser does not allow copying; select the ${what} and copy it`);
    }
  };
  return (
    <button
      type="button"
      class="copy"
      aria-label={`Copy the ${what}`}
      title={`Copy the ${what}`}
      onClick={() => void copy()}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
        <path d="M10.5 3.5v-.5a1 1 0 0 0-1-1h-6a1.5 1.5 0 0 0-1.5 1.5v6a1 1 0 0 0 1 1h.5" />
      </svg>
    </button>
  );
}
