// docs/llama-server.md lists the paths, options and names that model hosts know: each table is compared with the code.
import t from 'tap';
import { DEFAULT_OPTIONS, OPTION_ALIASES, TODAYS_OPTIONS } from '../../src/host/completion-options.ts';
import { LLAMA_GETS, LLAMA_POSTS, SERVER_POSTS } from '../../src/host/llama-api.ts';
import { COUNTS, PATH_ALIASES } from '../../src/host/model-routes.ts';
import { SYSTEM_PROMPT_SCOPES } from '../../src/host/system-prompts.ts';
import { readDocument } from './markdown.ts';

const page = readDocument('docs/llama-server.md');

/** Rows of the table whose head begins with these cells, without the head. */
function rows(...head: string[]): string[][] {
  const lines = page.split('\n');
  const cells = (line: string): string[] =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
  const from = lines.findIndex((line) => head.every((cell, at) => cells(line)[at] === cell));
  if (from < 0) throw new Error(`there is no table of ${head.join(', ')}`);
  const rest = lines.slice(from + 2);
  return rest
    .slice(
      0,
      rest.findIndex((line) => !line.startsWith('|')),
    )
    .map(cells);
}

function names(cell: string | undefined): string[] {
  return [...(cell ?? '').matchAll(/`([^`]+)`/g)].map(([, name]) => name!);
}

t.test('every path is listed', async (t) => {
  const listed = rows('Path', 'Answered by').flatMap(([paths]) => names(paths));
  const posts = [...LLAMA_POSTS.keys(), ...SERVER_POSTS.keys(), ...COUNTS.keys(), '/models/load', '/models/unload'];
  const gets = [...LLAMA_GETS.keys(), '/health', '/metrics', '/v1/models'];
  const served = [...posts.map((path) => `POST ${path}`), ...gets.map((path) => `GET ${path}`)];
  t.same(listed.toSorted(), served.toSorted());
  t.same(
    rows('Path', 'The same as').map(([path, same]) => [...names(path), ...names(same)]),
    [...PATH_ALIASES],
  );
});

t.test('every name of an option is listed', async (t) => {
  t.same(
    Object.fromEntries(rows("Today's name").map(([today, old]) => [...names(today), ...names(old)])),
    OPTION_ALIASES,
  );
  const values: Readonly<Record<string, unknown[]>> = {
    '`0`': [0],
    '`0` and less': [0, -1],
    '`false`': [false],
    '`1`; more is refused everywhere': [1],
    '`[]`': [[]],
    none: [],
    'any: `dry_multiplier` counts': [0, 5, 'x'],
    'any, for the same reason': [0, 5, 'x'],
  };
  const listed: string[] = [];
  for (const [options, off] of rows('Option', 'Values that switch it off')) {
    for (const name of names(options)) {
      listed.push(name);
      for (const value of values[off!]!)
        t.equal(TODAYS_OPTIONS[name]?.(value), true, `${name}: ${JSON.stringify(value)}`);
      if (!off!.startsWith('any')) t.equal(TODAYS_OPTIONS[name]?.(2), false, `${name}: 2`);
    }
  }
  t.same(listed.toSorted(), Object.keys(TODAYS_OPTIONS).toSorted());
  for (const name of ['response_fields', 'return_tokens', 'post_sampling_probs']) {
    t.ok(name in DEFAULT_OPTIONS && page.includes(`\`${name}\``), name);
  }
});

t.test('every value of the setting is listed', async (t) => {
  t.same(
    rows('Value', 'Effect').flatMap(([value]) => names(value)),
    SYSTEM_PROMPT_SCOPES,
  );
});
