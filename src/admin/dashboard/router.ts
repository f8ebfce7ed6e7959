// Addresses of views: a path and a query behind `#`, such as `#/crns?standing=down`. Parameters are encoded once, so the URL of
// a CRN is one segment.

import { Store, useStore } from './store.ts';

export interface Route {
  readonly path: string;
  readonly query: URLSearchParams;
}

function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?', 2);
  return { path: path === '' ? '/' : path, query: new URLSearchParams(query) };
}

/** The address that is shown. */
export const route: Store<Route> = new Store(parse(location.hash));

addEventListener('hashchange', () => route.set(parse(location.hash)));

/** Value of `href` for a view. Parameters in the path must be encoded with `encodeURIComponent`. */
export function href(path: string, query: Readonly<Record<string, string>> = {}): string {
  const text = new URLSearchParams(query).toString();
  return `#${path}${text === '' ? '' : `?${text}`}`;
}

/** Goes to a view. */
export function navigate(path: string, query: Readonly<Record<string, string>> = {}): void {
  location.hash = href(path, query);
}

/** Sets a parameter of the present address without a new entry in the history of the tab; `preset` is not written. */
export function setQuery(name: string, value: string, preset = ''): void {
  const { path, query } = route.value;
  const next = new URLSearchParams(query);
  if (value === preset) next.delete(name);
  else next.set(name, value);
  history.replaceState(null, '', href(path, Object.fromEntries(next)));
  route.set({ path, query: next });
}

/** A parameter of the address as the value of a field; `preset` is not written. */
export function useParameter(name: string, preset = ''): readonly [value: string, set: (value: string) => void] {
  const { query } = useStore(route);
  return [query.get(name) ?? preset, (value) => setQuery(name, value, preset)];
}

/** Parameters of a path by a pattern such as `/crns/:url`; null when it is another path. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [index, step] of wanted.entries()) {
    const text = given[index] ?? '';
    if (!step.startsWith(':')) {
      if (step !== text) return null;
      continue;
    }
    try {
      params[step.slice(1)] = decodeURIComponent(text);
    } catch {
      // Not a valid encoding: no such view.
      return null;
    }
  }
  return params;
}
