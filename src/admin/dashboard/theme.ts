// Light or dark: what the system says, unless the user has chosen. The choice is kept in the local storage of the browser.

import { Store } from './store.ts';

export type Theme = 'system' | 'light' | 'dark';

const THEME = 'headrace-theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

function stored(): Theme {
  const word = localStorage.getItem(THEME);
  return word === 'light' || word === 'dark' ? word : 'system';
}

/** What the user has chosen. */
export const theme: Store<Theme> = new Store(stored());

/** What is shown: charts draw with the colours of it. */
export const shownTheme: Store<'light' | 'dark'> = new Store(shownOf(theme.value));

function shownOf(chosen: Theme): 'light' | 'dark' {
  return chosen === 'system' ? (dark.matches ? 'dark' : 'light') : chosen;
}

function apply(): void {
  const { dataset } = document.documentElement;
  if (theme.value === 'system') delete dataset['theme'];
  else dataset['theme'] = theme.value;
  shownTheme.set(shownOf(theme.value));
}

export function chooseTheme(chosen: Theme): void {
  if (chosen === 'system') localStorage.removeItem(THEME);
  else localStorage.setItem(THEME, chosen);
  theme.set(chosen);
  apply();
}

dark.addEventListener('change', apply);
apply();
