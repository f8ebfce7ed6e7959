// Every setting in force, with its default and where it comes from. Secrets read "(set)"; the gateway sends no more of them.

import type { VNode } from 'preact';
import type { SettingInForce } from '../../../config/in-force.ts';
import { usePolled } from '../api.ts';
import { openAction } from '../components/dialog.tsx';
import { Page, Section } from '../components/page.tsx';
import { Loading, Problem } from '../components/states.tsx';
import { type Column, Table } from '../components/table.tsx';
import { RELOAD, useActionNote } from '../crn-actions.tsx';
import { plural } from '../format.ts';
import { useOverview } from '../overview-poll.ts';
import { route, setQuery } from '../router.ts';
import { useStore } from '../store.ts';

const EVERY_MS = 5000;

interface ConfigurationDocument {
  readonly reloadable: boolean;
  readonly settings: readonly SettingInForce[];
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return JSON.stringify(value, null, isLong(value) ? 2 : undefined);
}

function isLong(value: unknown): boolean {
  return typeof value === 'object' && value !== null && JSON.stringify(value).length > 60;
}

function Value({ of: value }: { readonly of: unknown }): VNode {
  const text = textOf(value);
  if (!isLong(value)) return <code>{text === '' ? '""' : text}</code>;
  return (
    <details>
      <summary>
        <code>
          {Array.isArray(value) ? plural(value.length, 'entry').replace('entrys', 'entries') : summaryOf(value)}
        </code>
      </summary>
      <pre class="text" tabIndex={0}>
        {text}
      </pre>
    </details>
  );
}

function summaryOf(value: unknown): string {
  const names = Object.keys(value as object);
  return `${names.slice(0, 3).join(', ')}${names.length > 3 ? ` and ${names.length - 3} more` : ''}`;
}

const SOURCES: Readonly<Record<SettingInForce['source'], string>> = {
  default: 'default',
  file: 'file',
  program: 'program',
  environment: 'environment',
  process: 'process limits',
  flag: 'command line',
};

const COLUMNS: readonly Column<SettingInForce>[] = [
  {
    name: 'Setting',
    class: 'name',
    cell: ({ path, sentence }) => (
      <>
        <code>{path}</code>
        <small>{sentence}</small>
      </>
    ),
    sort: ({ path }) => path,
  },
  {
    name: 'Value',
    class: 'value',
    cell: ({ differs, pending, value }) => (
      <>
        {differs ? (
          <strong>
            <Value of={value} />
          </strong>
        ) : (
          <Value of={value} />
        )}
        {pending && <small class="warn">another value waits for a restart</small>}
      </>
    ),
  },
  { name: 'Default', class: 'value', cell: ({ default: fallback }) => <Value of={fallback} /> },
  {
    name: 'From',
    cell: ({ env, flag, source }) => (
      <>
        {SOURCES[source]}
        {source === 'environment' && (
          <small>
            <code>{env}</code>
          </small>
        )}
        {source === 'flag' && (
          <small>
            <code>{flag}</code>
          </small>
        )}
      </>
    ),
    sort: ({ source }) => source,
  },
  { name: 'Type', cell: ({ type }) => type },
  {
    name: 'A change takes effect',
    cell: ({ restart }) => (restart ? 'at the next start' : 'at once'),
    sort: ({ restart }) => Number(restart),
  },
];

export function ConfigurationView(): VNode {
  const { data, error, refresh } = usePolled<ConfigurationDocument>('/configuration', EVERY_MS);
  const { overview } = useOverview();
  const { query } = useStore(route);
  const note = useActionNote(overview?.orders);
  const onlyDiffering = query.get('only') === 'differing';
  const settings = data?.settings.filter(({ differs, pending }) => !onlyDiffering || differs || pending);
  return (
    <Page
      title="Configuration"
      lead="Every setting in force. What is a secret reads (set) here and in the document behind this page."
      actions={
        data?.reloadable === true && (
          <button type="button" disabled={note !== null} onClick={() => openAction(RELOAD)}>
            Reload the file
          </button>
        )
      }
    >
      {error !== null && <Problem text={error} retry={refresh} />}
      {settings === undefined ? (
        error === null && <Loading what="the configuration" />
      ) : (
        <Section
          title="Settings"
          actions={
            <label class="check">
              <input
                type="checkbox"
                checked={onlyDiffering}
                onChange={(event) => setQuery('only', event.currentTarget.checked ? 'differing' : '')}
              />{' '}
              Only what differs from the defaults
            </label>
          }
        >
          <Table
            id="settings"
            caption="All settings"
            columns={COLUMNS}
            rows={settings}
            keyOf={({ path }) => path}
            filterText={({ env, path, section, sentence, source, value }) =>
              `${path} ${section} ${sentence} ${env} ${SOURCES[source]} ${textOf(value)}`
            }
            empty="Every setting has its default."
          />
        </Section>
      )}
    </Page>
  );
}
