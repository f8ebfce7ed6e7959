// The parts of the README that are made from the one source they describe. `npm run docs` writes them; the test beside
// this file keeps them equal.

import { ROUTES } from '../../src/api/routes.ts';
import { settingsTable } from '../../src/config/describe.ts';
import { ERRORS } from '../../src/errors.ts';
import { SEARCH_TYPES } from '../../src/search/engine.ts';
import { createEngine, ENGINE_KINDS } from '../../src/search/engines/kinds.ts';
import { declaredMetrics } from './declared-metrics.ts';

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

function endpoints(): string {
  return table(
    ['Endpoint', 'Key', 'Meaning'],
    ROUTES.map(({ method, path, auth, summary }) => [`\`${method} ${path}\``, auth === 'key' ? 'yes' : '', summary]),
  );
}

function errors(): string {
  return table(
    ['Code', 'Status', 'Source', 'Retry', 'Sentence'],
    Object.entries(ERRORS).map(([code, { status, source, retryable, detail }]) => [
      `\`${code}\``,
      String(status),
      source,
      retryable ? 'yes' : '',
      detail.replace('{}', '…'),
    ]),
  );
}

function metrics(): string {
  return table(
    ['Metric', 'Type', 'Labels', 'Meaning'],
    declaredMetrics().map(({ name, type, help, labelNames }) => [
      `\`${name}\``,
      type,
      labelNames.map((label) => `\`${label}\``).join(' '),
      help,
    ]),
  );
}

/** What an engine must be given, so that one can be made to ask it for its metadata. */
const NEEDED = { apiKey: 'key', url: 'http://engine.example', path: '.' };

function engines(): string {
  const rows = Object.entries(ENGINE_KINDS).map(([kind, { settings }]) => {
    const needed = Object.entries(settings).filter(([, { required }]) => required === true);
    const given = Object.fromEntries(needed.map(([name]) => [name, NEEDED[name as keyof typeof NEEDED]]));
    const { documentation, types } = createEngine(kind, given);
    const name = documentation.startsWith('https:') ? `[\`${kind}\`](${documentation})` : `\`${kind}\``;
    const searches = types.length === SEARCH_TYPES.length ? 'all' : types.join(', ');
    const words = (isNeeded: boolean): string =>
      Object.entries(settings)
        .filter(([, { required }]) => (required === true) === isNeeded)
        .map(([setting]) => `\`${setting}\``)
        .join(', ');
    return [name, searches, words(true), words(false)];
  });
  return table(['Kind', 'Searches', 'Needs', 'Takes'], rows);
}

/** Every generated part by the name between its markers. */
function generated(): ReadonlyMap<string, string> {
  return new Map([
    ['endpoints', endpoints()],
    ['engines', engines()],
    ['errors', errors()],
    ['settings', settingsTable()],
    ['metrics', metrics()],
  ]);
}

/** The README with its generated parts renewed. Throws when a marker is missing. */
export function renew(readme: string): string {
  let text = readme;
  for (const [name, part] of generated()) {
    const [start, end] = [`<!-- table:${name} -->`, `<!-- /table:${name} -->`];
    const from = text.indexOf(start);
    const to = text.indexOf(end);
    if (from < 0 || to < from) throw new Error(`the README has no markers for ${name}`);
    text = `${text.slice(0, from + start.length)}\n\n${part}\n\n${text.slice(to)}`;
  }
  return text;
}
