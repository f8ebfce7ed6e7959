// Values of a parameter of the address: a few of which one is chosen, or a text.

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
        <button key={each} type="button" aria-pressed={each === value} onClick={() => setQuery(name, each, preset)}>
          {text}
        </button>
      ))}
    </span>
  );
}

export interface TextInputProps {
  readonly id?: string;
  /** Parameter of the address. */
  readonly name: string;
  readonly value: string;
  readonly placeholder?: string | undefined;
}

/** What is typed stays when data arrive: only another address of the page replaces it. */
export function TextInput({ id, name, placeholder, value }: TextInputProps): VNode {
  return (
    <input
      id={id}
      key={value}
      type="search"
      autocomplete="off"
      spellcheck={false}
      placeholder={placeholder}
      defaultValue={value}
      onChange={(event) => setQuery(name, event.currentTarget.value.trim())}
    />
  );
}

export function TextChoice({ label, ...input }: TextInputProps & { readonly label: string }): VNode {
  return (
    <label>
      {label} <TextInput {...input} />
    </label>
  );
}
