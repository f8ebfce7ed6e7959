// A few values of a parameter of the address, of which one is chosen.

import type { VNode } from 'preact';
import { setQuery } from '../router.ts';

export interface ChoiceProps {
  readonly label: string;
  /** Parameter of the address. */
  readonly name: string;
  readonly value: string;
  readonly preset: string;
  readonly options: readonly (readonly [value: string, text: string])[];
}

export function Choice({ label, name, options, preset, value }: ChoiceProps): VNode {
  return (
    <span class="choices" role="group" aria-label={label}>
      {options.map(([each, text]) => (
        <button
          key={each}
          type="button"
          aria-pressed={each === value}
          onClick={() => setQuery(name, each === preset ? '' : each)}
        >
          {text}
        </button>
      ))}
    </span>
  );
}
