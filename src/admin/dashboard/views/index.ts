// The views of the dashboard, in the order of the navigation. Those that few look at are loaded when they are opened.

import type { ComponentType } from 'preact';
import { CrnView } from './crn.tsx';
import { CrnsView } from './crns.tsx';
import { lazy } from './lazy.tsx';
import { ModelView } from './model.tsx';
import { ModelsView } from './models.tsx';
import { OverviewView } from './overview.tsx';
import { SearchView } from './search.tsx';
import { ThreadsView } from './threads.tsx';

export interface ViewProps {
  /** Parameters of the path, decoded. */
  readonly params: Readonly<Record<string, string>>;
}

export interface View {
  /** Pattern of the path behind `#`; a step such as `:url` is a parameter. */
  readonly path: string;
  readonly name: string;
  readonly component: ComponentType<ViewProps>;
  /** Group in the navigation; a view without one is reached from others. */
  readonly group?: 'Traffic' | 'Accounts' | 'Gateway';
  /** `token`: for those who are signed in. `token if set`: the same where the gateway has admin tokens, else for everyone. */
  readonly needs?: 'token' | 'token if set';
}

const ConfigurationView = lazy(async () => (await import('./configuration.tsx')).ConfigurationView);
const RequestsView = lazy(async () => (await import('./requests.tsx')).RequestsView);
const RequestView = lazy(async () => (await import('./request.tsx')).RequestView);
const AccountsView = lazy(async () => (await import('./accounts.tsx')).AccountsView);
const AccountView = lazy(async () => (await import('./account.tsx')).AccountView);
const KeysView = lazy(async () => (await import('./keys.tsx')).KeysView);
const SpendView = lazy(async () => (await import('./spend.tsx')).SpendView);
const ToolsView = lazy(async () => (await import('./tools.tsx')).ToolsView);
const PaymentsView = lazy(async () => (await import('./payments.tsx')).PaymentsView);
const ActsView = lazy(async () => (await import('./acts.tsx')).ActsView);
const WebhooksView = lazy(async () => (await import('./webhooks.tsx')).WebhooksView);
const PlaygroundView = lazy(async () => (await import('./playground.tsx')).PlaygroundView);
const PlaygroundSearchView = lazy(async () => (await import('./playground-search.tsx')).PlaygroundSearchView);
const PlaygroundFetchView = lazy(async () => (await import('./playground-search.tsx')).PlaygroundFetchView);

export const VIEWS: readonly View[] = [
  { path: '/', name: 'Overview', component: OverviewView, group: 'Traffic' },
  { path: '/models', name: 'Models', component: ModelsView, group: 'Traffic' },
  { path: '/models/:model', name: 'Model', component: ModelView },
  { path: '/crns', name: 'CRNs', component: CrnsView, group: 'Traffic' },
  { path: '/crns/:url', name: 'CRN', component: CrnView },
  { path: '/requests', name: 'Requests', component: RequestsView, group: 'Traffic', needs: 'token if set' },
  { path: '/requests/:id', name: 'Request', component: RequestView, needs: 'token if set' },
  { path: '/search', name: 'Search and fetch', component: SearchView, group: 'Traffic' },
  { path: '/playground', name: 'Playground', component: PlaygroundView, group: 'Traffic' },
  { path: '/playground/search', name: 'Playground', component: PlaygroundSearchView },
  { path: '/playground/fetch', name: 'Playground', component: PlaygroundFetchView },
  { path: '/accounts', name: 'Accounts', component: AccountsView, group: 'Accounts', needs: 'token' },
  { path: '/accounts/:account', name: 'Account', component: AccountView, needs: 'token' },
  { path: '/keys', name: 'Keys', component: KeysView, group: 'Accounts', needs: 'token' },
  { path: '/spend', name: 'Spend', component: SpendView, group: 'Accounts', needs: 'token' },
  { path: '/tools', name: 'Tools', component: ToolsView, group: 'Accounts', needs: 'token' },
  { path: '/payments', name: 'Payments', component: PaymentsView, group: 'Accounts', needs: 'token' },
  { path: '/acts', name: 'Acts', component: ActsView, group: 'Accounts', needs: 'token' },
  { path: '/webhooks', name: 'Webhooks', component: WebhooksView, group: 'Accounts', needs: 'token' },
  { path: '/threads', name: 'Threads', component: ThreadsView, group: 'Gateway' },
  {
    path: '/configuration',
    name: 'Configuration',
    component: ConfigurationView,
    group: 'Gateway',
    needs: 'token if set',
  },
];
