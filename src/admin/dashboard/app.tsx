// The shell of the dashboard: header with the state of the gateway, navigation, and the view of the present address.

import { render, type VNode } from 'preact';
import { useEffect, useErrorBoundary, useRef, useState } from 'preact/hooks';
import type { Overview } from '../overview.ts';
import { identity, may, paused, restoreIdentity, signOut } from './api.ts';
import { Announcements, speak } from './components/announcement.tsx';
import { ActionDialog, openAction, SIGN_IN } from './components/dialog.tsx';
import { focusNextHeading, Page } from './components/page.tsx';
import { Standing } from './components/standing.tsx';
import { Empty, Loading, Problem } from './components/states.tsx';
import { RELOAD } from './crn-actions.tsx';
import { clockText, durationText } from './format.ts';
import { useOverview } from './overview-poll.ts';
import { href, matchPath, route } from './router.ts';
import { useStore } from './store.ts';
import { chooseTheme, type Theme, theme } from './theme.ts';
import { type View, VIEWS } from './views/index.ts';

const GROUPS = ['Traffic', 'Accounts', 'Gateway'] as const;

/** Documents and pages beside the dashboard. */
const LINKS: readonly (readonly [href: string, name: string])[] = [
  ['metrics', 'Metrics'],
  ['overview', 'Overview as JSON'],
  ['status', 'Status as JSON'],
  ['licenses.txt', 'Licences'],
];

/** A page of the public port for this browser: a gateway that listens on loopback or everywhere is where the dashboard is. */
function fromHere(publicUrl: string, path: string): string {
  const url = new URL(path, publicUrl);
  if (['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname)) url.hostname = location.hostname;
  return url.href;
}

interface Shown {
  readonly view: View;
  readonly params: Readonly<Record<string, string>>;
}

function viewAt(path: string): Shown | null {
  for (const view of VIEWS) {
    const params = matchPath(view.path, path);
    if (params !== null) return { view, params };
  }
  return null;
}

function App(): VNode {
  const { error, overview } = useOverview();
  const { path } = useStore(route);
  const shown = viewAt(path);
  const main = useRef<HTMLElement>(null);
  useStandingWords(overview);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to main content
      </a>
      <Header overview={overview} error={error} path={path} />
      <div class="frame">
        <div class="side">
          <Navigation path={path} publicUrl={overview?.publicUrl ?? null} />
        </div>
        <main ref={main} id="main" tabIndex={-1}>
          {shown === null ? (
            <Page title="Not found">
              <Empty>
                There is no view at this address. <a href={href('/')}>Overview</a>
              </Empty>
            </Page>
          ) : (
            <Bounded key={path} name={shown.view.name}>
              <Guarded overview={overview} {...shown} />
            </Bounded>
          )}
        </main>
      </div>
      <ActionDialog />
      <Announcements />
    </>
  );
}

/** Its content, or why it failed: a gateway of another version may answer without what a view reads. */
function Bounded({ children, name }: { readonly name: string; readonly children: VNode }): VNode {
  const [error, retry] = useErrorBoundary() as [Error | undefined, () => void];
  if (error === undefined) return children;
  return (
    <Page title={name}>
      <Problem text={`This view failed: ${error.message}`} retry={retry} />
    </Page>
  );
}

/** A view, or what it takes to see it. */
function Guarded({ overview, params, view }: Shown & { readonly overview: Overview | undefined }): VNode {
  const holder = useStore(identity);
  const { component: Component, name, needs } = view;
  if (needs === undefined || (holder !== null && holder !== undefined)) return <Component params={params} />;
  if (overview === undefined || holder === undefined) {
    return (
      <Page title={name}>
        <Loading what="the gateway" />
      </Page>
    );
  }
  if (overview.orders) {
    return (
      <Page title={name}>
        <Empty>
          This view needs an admin token.{' '}
          <button type="button" onClick={() => openAction(SIGN_IN)}>
            Sign in
          </button>
        </Empty>
      </Page>
    );
  }
  if (needs === 'token if set') return <Component params={params} />;
  return (
    <Page title={name}>
      <Empty>
        This view needs an admin token, and this gateway has none: set <code>adminToken</code> or{' '}
        <code>adminTokens</code>.
      </Empty>
    </Page>
  );
}

interface NavigationProps {
  readonly path: string;
  /** Of the gateway; null while it is not known. */
  readonly publicUrl: string | null;
}

function Navigation({ path, publicUrl }: NavigationProps): VNode {
  const first = `/${path.split('/')[1] ?? ''}`;
  return (
    <nav aria-label="Views">
      {GROUPS.map((group) => {
        const members = VIEWS.filter((view) => view.group === group);
        if (members.length === 0) return null;
        return (
          <div key={group}>
            <h2 id={`nav-${group}`}>{group}</h2>
            <ul aria-labelledby={`nav-${group}`}>
              {members.map((view) => (
                <li key={view.path}>
                  <a href={href(view.path)} aria-current={view.path === first ? 'page' : undefined}>
                    {view.name}
                  </a>
                </li>
              ))}
            </ul>
          </div>
        );
      })}
      <h2 id="nav-links">Elsewhere</h2>
      <ul class="links" aria-labelledby="nav-links">
        {publicUrl !== null && (
          <li>
            <a href={fromHere(publicUrl, '/docs')}>API reference</a>
          </li>
        )}
        {LINKS.map(([to, name]) => (
          <li key={to}>
            <a href={to}>{name}</a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

interface HeaderProps {
  readonly overview: Overview | undefined;
  readonly error: string | null;
  readonly path: string;
}

function Header({ error, overview, path }: HeaderProps): VNode {
  const isPaused = useStore(paused);
  const holder = useStore(identity);
  const [isOpen, setOpen] = useState(false);
  const menu = useRef<HTMLButtonElement>(null);
  useEffect(() => setOpen(false), [path]);
  const signInTitle = overview?.orders === false ? 'This gateway has no admin tokens' : undefined;
  return (
    <header
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || !isOpen) return;
        setOpen(false);
        menu.current?.focus();
      }}
    >
      <div class="bar">
        <button
          type="button"
          class="menu"
          ref={menu}
          aria-expanded={isOpen}
          aria-controls="menu"
          aria-label="Menu"
          onClick={() => setOpen(!isOpen)}
        >
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M2 4h12M2 8h12M2 12h12" />
          </svg>
        </button>
        <a class="brand" href={href('/')}>
          <img src="icon.svg" alt="" width="22" height="22" />
          Headrace
        </a>
        <span class="about">
          {overview !== undefined && (
            <>
              <Standing word={overview.stage === 'ready' ? 'ready' : overview.stage} />
              <span class="wide">
                {overview.version}, up {durationText(overview.uptimeMs)}
              </span>
            </>
          )}
        </span>
        <span id="status" class={error === null ? 'status' : 'status bad'} role="status">
          {statusText(overview, error, isPaused)}
        </span>
        <span class="buttons">
          <button type="button" aria-label="Pause" aria-pressed={isPaused} onClick={() => paused.set(!isPaused)}>
            <svg viewBox="0 0 16 16" aria-hidden="true">
              <path d={isPaused ? 'M5 3l8 5-8 5z' : 'M5.5 3v10M10.5 3v10'} />
            </svg>
            <span class="label"> Pause</span>
          </button>
          <ThemeButton />
          {overview?.reloadable === true && overview.orders && (!holder || may('operator', holder)) && (
            <button type="button" class="wide" onClick={() => openAction(RELOAD)}>
              Reload configuration
            </button>
          )}
          {holder === null || holder === undefined ? (
            <button
              type="button"
              disabled={overview?.orders !== true}
              title={signInTitle}
              onClick={() => openAction(SIGN_IN)}
            >
              Sign in
            </button>
          ) : (
            <button type="button" title={`${holder.name}, ${holder.role}`} onClick={signOut}>
              Sign out
              <span class="wide"> {holder.name}</span>
            </button>
          )}
        </span>
      </div>
      <div id="menu" hidden={!isOpen}>
        {isOpen && <Navigation path={path} publicUrl={overview?.publicUrl ?? null} />}
      </div>
    </header>
  );
}

function statusText(overview: Overview | undefined, error: string | null, isPaused: boolean): string {
  if (error !== null) {
    const since = overview === undefined ? '' : ` since ${clockText(overview.dateMs)}`;
    return `No answer from the gateway${since}: ${error}`;
  }
  if (isPaused) return 'Paused';
  return overview === undefined ? 'Connecting' : 'Live';
}

const NEXT: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' };

function ThemeButton(): VNode {
  const chosen = useStore(theme);
  const next = NEXT[chosen];
  return (
    <button
      type="button"
      aria-label={`Theme: ${chosen}`}
      title={`Theme: ${chosen}. Click for ${next}`}
      onClick={() => chooseTheme(next)}
    >
      <svg class="theme" viewBox="0 0 16 16" aria-hidden="true">
        {chosen === 'light' && (
          <>
            <circle cx="8" cy="8" r="3" />
            <path d="M8 1v2M8 13v2M1 8h2M13 8h2M3 3l1.4 1.4M11.6 11.6L13 13M3 13l1.4-1.4M11.6 4.4L13 3" />
          </>
        )}
        {chosen === 'dark' && <path d="M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z" />}
        {chosen === 'system' && (
          <>
            <circle cx="8" cy="8" r="6" />
            <path class="filled" d="M8 2a6 6 0 0 1 0 12z" />
          </>
        )}
      </svg>
    </button>
  );
}

/** Reads out when the standing of a CRN changes. */
function useStandingWords(overview: Overview | undefined): void {
  const known = useRef(new Map<string, string>());
  useEffect(() => {
    const changed: string[] = [];
    const next = new Map<string, string>();
    for (const { models, url } of overview?.crns ?? []) {
      const words = [...new Set(models.map(({ standing }) => standing))].join(' and ');
      const before = known.current.get(url);
      if (before !== undefined && before !== words) changed.push(`${url} is ${words}`);
      next.set(url, words);
    }
    known.current = next;
    if (changed.length > 0) speak(changed.slice(0, 3).join('; '));
  }, [overview]);
}

let shownPath = route.value.path;

void restoreIdentity();
route.subscribe(() => {
  const { path } = route.value;
  if (path === shownPath) return;
  shownPath = path;
  scrollTo(0, 0);
  focusNextHeading();
});
render(<App />, document.getElementById('app') ?? document.body);
