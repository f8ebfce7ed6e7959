// The generated parts of the pages in docs/: tables made from the one source they describe. A part stands between
// `<!-- generated:NAME -->` and `<!-- /generated:NAME -->`.

import { parse } from 'yaml';
import { processIo } from '../../src/cli/io.ts';
import { programFor } from '../../src/cli/main.ts';
import { packageVersion } from '../../src/config/env.ts';
import { openapiDocument } from '../../src/api/openapi.ts';
import { PATH_ALIASES } from '../../src/api/path-aliases.ts';
import { ROUTES } from '../../src/api/routes.ts';
import { CONTROL_PATHS, UNSERVED_PATHS } from '../../src/api/unserved-paths.ts';
import { settingsTable } from '../../src/config/describe.ts';
import { SETTINGS } from '../../src/config/settings.ts';
import type { Table } from '../../src/dialect/translation/field-table.ts';
import { MESSAGES_TABLES } from '../../src/dialect/translation/messages-request.ts';
import { RESPONSES_TABLES } from '../../src/dialect/translation/responses-request.ts';
import { ERRORS } from '../../src/errors.ts';
import { SITES } from '../../src/extract/sites/sites.ts';
import { type EngineFilters, type FilterSupport, SEARCH_TYPES } from '../../src/search/engine.ts';
import { createEngine, ENGINE_KINDS } from '../../src/search/engines/kinds.ts';
import { declaredMetrics } from '../rules/declared-metrics.ts';
import { OTHER_PATHS } from '../support/openai-paths.ts';
import { helmValuesRows } from './helm-values.ts';
import { manPage } from './man-page.ts';
import { readDocument, ROOT } from './markdown.ts';

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** The table of settings, cut into one table per section. */
function settings(): string {
  const [head = '', rule = '', ...rows] = settingsTable().split('\n');
  const sections = new Map<string, string[]>();
  for (const row of rows) {
    const path = /`([^`]+)`/.exec(row)?.[1] ?? '';
    // A field of a setting, such as `keys.static[].key`, follows its setting.
    const owner = SETTINGS.find(
      (setting) => path.startsWith(setting.path) && !/^\w/.test(path.slice(setting.path.length)),
    );
    const title = path.startsWith('models') ? 'Models' : (owner?.section ?? 'General');
    const lines = sections.get(title) ?? [];
    lines.push(row);
    sections.set(title, lines);
  }
  return [...sections].map(([title, lines]) => `### ${title}\n\n${[head, rule, ...lines].join('\n')}`).join('\n\n');
}

function endpoints(): string {
  return table(
    ['Endpoint', 'Key', 'Meaning'],
    ROUTES.map(({ method, path, auth, summary }) => [`\`${method} ${path}\``, auth === 'key' ? 'yes' : '', summary]),
  );
}

/** The parts of JSON Schema and OpenAPI that the document uses. */
interface SchemaNode {
  readonly $ref?: string;
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly string[];
  readonly items?: SchemaNode;
  readonly anyOf?: readonly SchemaNode[];
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | SchemaNode;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
}

type Media = Readonly<Record<string, { readonly schema?: SchemaNode }>>;

interface ResponseNode {
  readonly $ref?: string;
  readonly description?: string;
  readonly content?: Media;
}

interface Operation {
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly security: readonly unknown[];
  readonly parameters?: readonly { name: string; in: string; required: boolean; description?: string }[];
  readonly requestBody?: { readonly content: Media };
  readonly responses: Readonly<Record<string, ResponseNode>>;
}

/** Answers that many operations share. The document describes them by every sentence that any operation has for the status. */
const SHARED_ANSWERS: Readonly<Record<string, string>> = {
  400: 'The request is malformed',
  401: 'The API key is missing or not valid',
  408: 'The body arrived too slowly',
  413: 'The body is too large',
  422: 'The body is not valid; every mistake is named',
};

/** Every operation of the OpenAPI document: parameters, body fields, answers. */
function operations(): string {
  const document = openapiDocument(ROUTES, { servicePrefix: 'svc', listingPrefix: 'aggregator' });
  const find = (ref: string): unknown =>
    ref
      .split('/')
      .slice(1)
      .reduce((node: unknown, name) => (node as Record<string, unknown>)[name], document);
  const schemaOf = (node: SchemaNode): SchemaNode => (node.$ref === undefined ? node : (find(node.$ref) as SchemaNode));
  const fields = (node: SchemaNode): string[][] => {
    const schema = schemaOf(node);
    return Object.entries(schema.properties ?? {}).map(([name, field]) => [
      `\`${name}\``,
      field.$ref?.endsWith('/ModelId') === true ? 'string' : typeOf(field),
      schema.required?.includes(name) === true ? 'yes' : '',
      field.default === undefined ? '' : `\`${JSON.stringify(field.default)}\``,
      field.description ?? schemaOf(field).description ?? '',
    ]);
  };
  const statuses = (responses: Operation['responses']): string[][] =>
    Object.entries(responses)
      .filter(([status]) => status !== 'default')
      .map(([status, { $ref, content, description }]) => {
        if ($ref !== undefined) return [status, SHARED_ANSWERS[status] ?? ''];
        const types = Object.keys(content ?? {}).filter((type) => type !== 'application/json');
        const note = types.includes('text/event-stream') ? '; server-sent events for `stream: true`' : '';
        return [status, `${description ?? ''}${note}`];
      });

  const parts: string[] = [];
  for (const { name: tag } of document.tags) {
    parts.push(`## ${tag}`);
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, node] of Object.entries(methods)) {
        const operation = node as unknown as Operation;
        if (!operation.tags.includes(tag)) continue;
        parts.push(`### ${method.toUpperCase()} ${path.replaceAll('_', '\\_')}`, `${operation.summary}.`);
        if (operation.description !== undefined) parts.push(operation.description);
        parts.push(operation.security.length > 0 ? 'Needs an API key.' : 'Needs no key.');
        const parameters = operation.parameters ?? [];
        if (parameters.length > 0) {
          const rows = parameters.map((parameter) => [
            `\`${parameter.name}\``,
            parameter.in,
            parameter.required ? 'yes' : '',
            parameter.description ?? '',
          ]);
          parts.push(table(['Parameter', 'In', 'Required', 'Meaning'], rows));
        }
        const body = operation.requestBody?.content['application/json']?.schema;
        if (body !== undefined) {
          parts.push(table(['Body field', 'Type', 'Required', 'Default', 'Meaning'], fields(body)));
          if (schemaOf(body).additionalProperties === true) parts.push('Other fields are passed on unchanged.');
        }
        const answer = operation.responses['200']?.content?.['application/json']?.schema;
        if (answer !== undefined) {
          const rows = fields(answer).map(
            ([name, type, required, , meaning]) => [name, type, required, meaning] as string[],
          );
          parts.push(table(['Answer field', 'Type', 'Always', 'Meaning'], rows));
        }
        parts.push(table(['Status', 'Meaning'], statuses(operation.responses)));
      }
    }
  }
  return parts.join('\n\n');
}

function typeOf(schema: SchemaNode): string {
  const { type, items, minimum, maximum, minItems, maxItems, minLength, maxLength } = schema;
  if (schema.enum !== undefined) return `one of ${schema.enum.map((word) => `\`${word}\``).join(', ')}`;
  if (schema.$ref !== undefined) return `\`${schema.$ref.split('/').at(-1) ?? ''}\``;
  if (schema.anyOf !== undefined) return [...new Set(schema.anyOf.map(typeOf))].join(', or ');
  if (type === 'array')
    return `array of ${items === undefined ? 'any' : typeOf(items)}${range('items', minItems, maxItems)}`;
  return `${type ?? 'any'}${range('', minimum, maximum)}${range('characters', minLength, maxLength)}`;
}

function range(unit: string, least: number | undefined, most: number | undefined): string {
  if (least === undefined && most === undefined) return '';
  if (least === 1 && most === undefined && unit !== '') return ', not empty';
  const words =
    most === undefined ? `at least ${least}` : least === undefined ? `at most ${most}` : `${least} to ${most}`;
  return `, ${words}${unit === '' ? '' : ` ${unit}`}`;
}

function pathAliases(): string {
  const quoted = (text: string): string => text.replace(/\/[^\s,]*/g, (path) => `\`${path}\``);
  return table(
    ['Sent', 'Stands for', 'For'],
    PATH_ALIASES.map(({ forSdks = false, meant, sent }) => [
      quoted(sent),
      quoted(meant),
      forSdks ? 'SDKs only: model servers have others at these paths' : 'everybody',
    ]),
  );
}

function errors(): string {
  return table(
    ['Code', 'Status', 'Source', 'Retry', 'Sentence'],
    Object.entries(ERRORS).map(([code, { status, source, retryable, detail }]) => [
      `\`${code}\``,
      String(status),
      source,
      retryable === null ? '' : retryable ? 'yes' : 'no',
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

function sites(): string {
  const rows = SITES.map(({ name, hosts, generator, reads }) => {
    const known = hosts.map((host) => `\`${host.startsWith('.') ? `*${host}` : host}\``);
    return [`\`${name}\``, generator === undefined ? known.join(', ') : 'any, by its `generator`', reads];
  });
  return table(['adapter', 'hosts', 'reads'], rows);
}

/** Values for the required settings of engines, so that each kind can be created and asked for its metadata. */
const REQUIRED = { apiKey: 'key', url: 'http://engine.example', path: '.' };

function engines(): string {
  const rows = Object.entries(ENGINE_KINDS).map(([kind, { settings }]) => {
    const names = (isRequired: boolean): string[] =>
      Object.entries(settings)
        .filter(([, { presence }]) => (presence === 'required') === isRequired)
        .map(([name]) => name);
    const given = Object.fromEntries(names(true).map((name) => [name, REQUIRED[name as keyof typeof REQUIRED]]));
    const { documentation, types } =
      kind === 'module'
        ? { documentation: '#engine-modules', types: ['those of the module'] }
        : createEngine(kind, given);
    const list = (isRequired: boolean): string =>
      names(isRequired)
        .map((name) => `\`${name}\``)
        .join(', ');
    return [
      /^https:|^#/.test(documentation) ? `[\`${kind}\`](${documentation})` : `\`${kind}\``,
      types.length === SEARCH_TYPES.length ? 'all' : types.join(', '),
      list(true),
      list(false),
    ];
  });
  return table(['Kind', 'Search types', 'Required settings', 'Optional settings'], rows);
}

/** What each kind of engine applies itself of the filters of a search. */
function engineFilters(): string {
  const rows = Object.entries(ENGINE_KINDS)
    .filter(([kind]) => kind !== 'module')
    .map(([kind, { settings }]) => {
      const required = Object.keys(settings).filter((name) => settings[name]?.presence === 'required');
      const given = Object.fromEntries(required.map((name) => [name, REQUIRED[name as keyof typeof REQUIRED]]));
      const { filters = {}, types } = createEngine(kind, given);
      if (kind === 'worker') return [`\`${kind}\``, ...Array.from({ length: 7 }, () => 'as its engine')];
      const said = (name: keyof EngineFilters): string => supportText(filters[name], types.length);
      return [
        `\`${kind}\``,
        ...(
          ['timeRange', 'includeDomains', 'excludeDomains', 'language', 'country', 'safeSearch', 'page'] as const
        ).map(said),
      ];
    });
  const names = ['time_range', 'include_domains', 'exclude_domains', 'language', 'country', 'safe_search', 'page'];
  return table(['Kind', ...names.map((name) => `\`${name}\``)], rows);
}

/** Longer lists of values are counted. */
const MOST_VALUES = 6;

function supportText(support: FilterSupport | undefined, types: number): string {
  if (support === undefined) return '';
  if (support.moot === true) return 'nothing to leave out';
  const { except, most, needs, prefers, values } = support;
  const parts = [
    ...(prefers === true ? ['prefers'] : []),
    ...(support.types === undefined || support.types.length === types ? [] : [support.types.join(', ')]),
    ...(most === undefined ? [] : [`at most ${most}`]),
    ...(values === undefined ? [] : [values.length > MOST_VALUES ? `${values.length} values` : values.join(', ')]),
    ...(except === undefined ? [] : [`all but ${except.length}`]),
    ...(needs === undefined ? [] : [`with \`${needs}\``]),
  ];
  return parts.length === 0 ? 'yes' : parts.join('; ');
}

function otherPaths(): string {
  const rows = OTHER_PATHS.map(({ body, note, paths }) => [
    paths.map((path) => `\`${path}\``).join(', '),
    body === 'JSON' ? 'JSON' : 'form (`multipart/form-data`)',
    note,
  ]);
  return table(['POST', 'Body', 'What it is'], rows);
}

function unservedPaths(): string {
  return table(
    ['Path', 'Reason'],
    UNSERVED_PATHS.map(({ path, reason }) => [`\`${path}\``, reason]),
  );
}

function controlPaths(): string {
  return table(
    ['Servers', 'POST'],
    CONTROL_PATHS.map(({ paths, servers }) => [servers, paths.map((path) => `\`${path}\``).join(', ')]),
  );
}

/** Page and name of every generated part. */
/** What happens to the fields of a request that is translated: a table for each kind of object. */
function fields(tables: readonly Table[]): string {
  const code = (text: string): string =>
    text
      .split(', ')
      .map((part) => (part === '' ? '' : `\`${part}\``))
      .join(', ');
  return tables
    .map(({ fields, ofTypes, others, path }) => {
      const title = path === '' ? 'The body' : `${code(path)}${ofTypes ? ' by its `type`' : ''}`;
      const rows = fields.map(({ action, name, note, to }) => [code(name), action, code(to), note]);
      rows.push(['any other', others.action, '', others.note]);
      return `#### ${title}\n\n${table([ofTypes ? 'Type' : 'Field', 'What happens', 'Where', ''], rows)}`;
    })
    .join('\n\n');
}

/** The table of the values of the Helm chart. */
function helmValues(): string {
  return table(['Value', 'Default', 'Meaning'], helmValuesRows(parse(readDocument('ops/helm/headrace/values.yaml'))));
}

const PARTS: readonly { readonly page: string; readonly name: string; readonly write: () => string }[] = [
  { page: 'docs/configuration.md', name: 'settings', write: settings },
  { page: 'docs/api-reference.md', name: 'endpoints', write: endpoints },
  { page: 'docs/api-reference.md', name: 'operations', write: operations },
  { page: 'docs/dialects.md', name: 'messages', write: () => fields(MESSAGES_TABLES) },
  { page: 'docs/dialects.md', name: 'responses', write: () => fields(RESPONSES_TABLES) },
  { page: 'docs/errors.md', name: 'errors', write: errors },
  { page: 'docs/other-paths.md', name: 'other-paths', write: otherPaths },
  { page: 'docs/other-paths.md', name: 'path-aliases', write: pathAliases },
  { page: 'docs/other-paths.md', name: 'unserved-paths', write: unservedPaths },
  { page: 'docs/other-paths.md', name: 'control-paths', write: controlPaths },
  { page: 'docs/kubernetes.md', name: 'values', write: helmValues },
  { page: 'docs/metrics.md', name: 'metrics', write: metrics },
  { page: 'docs/search-engines.md', name: 'engines', write: engines },
  { page: 'docs/search-engines.md', name: 'engine-filters', write: engineFilters },
  { page: 'docs/fetch.md', name: 'sites', write: sites },
];

/** The pages that hold generated parts. */
export const GENERATED_PAGES: readonly string[] = [...new Set(PARTS.map(({ page }) => page))];

/** The first line of a page with generated parts. */
export const NOTICE = '<!-- The parts of this page between "generated" comments are written by `npm run docs`. -->';

/** A script in plain JavaScript, which is not built. */
interface Formatting {
  readonly formatted: (file: string, text: string) => Promise<string>;
}

/** `text` of a page with its generated parts renewed and formatted. Throws when a marker is missing. */
export async function renew(page: string, text: string): Promise<string> {
  let renewed = text;
  for (const { name, write } of PARTS.filter((part) => part.page === page)) {
    const [start, end] = [`<!-- generated:${name} -->`, `<!-- /generated:${name} -->`];
    const from = renewed.indexOf(start);
    const to = renewed.indexOf(end);
    if (from < 0 || to < from) throw new Error(`${page} needs the lines ${start} and ${end}`);
    renewed = `${renewed.slice(0, from + start.length)}\n\n${write()}\n\n${renewed.slice(to)}`;
  }
  const { formatted } = (await import(`${ROOT}scripts/formatted.mjs`)) as Formatting;
  return formatted(page, renewed);
}

/** The manual page of the command line. */
export async function renewedManPage(): Promise<string> {
  return manPage(await programFor('all', processIo()), packageVersion());
}
