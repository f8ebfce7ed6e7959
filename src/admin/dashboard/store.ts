// A value that components read and that renders them again when it changes.

import { useEffect, useState } from 'preact/hooks';

export class Store<T> {
  readonly #listeners = new Set<() => void>();
  #value: T;

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const listener of [...this.#listeners]) listener();
  }

  /** Calls `listener` after every change, until the function that is returned is called. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** The value of a store, in a component. */
export function useStore<T>(store: Store<T>): T {
  const [, render] = useState(0);
  const { value: seen } = store;
  useEffect(() => {
    const off = store.subscribe(() => render((count) => count + 1));
    // It may have changed between the rendering and now.
    if (!Object.is(seen, store.value)) render((count) => count + 1);
    return off;
  }, [store]);
  return seen;
}
