// The generated parts of the documentation are up to date, the changelog has an entry for the package version, and error codes are
// well-formed.

import { spawnSync } from 'node:child_process';
import t from 'tap';
import { ERRORS } from '../../src/errors.ts';
import { GENERATED_PAGES, NOTICE, renew, renewedManPage } from './generate.ts';
import { helmValuesSchema } from './helm-values.ts';
import { readDocument, ROOT } from './markdown.ts';

for (const page of GENERATED_PAGES) {
  t.test(`the generated parts of ${page} are up to date`, async (t) => {
    const text = readDocument(page);
    t.equal(text.split('\n', 1)[0], NOTICE, 'the page says that parts of it are generated');
    t.equal(text, await renew(page, text), 'run "npm run docs"');
  });
}

t.test('the schema of the values of the Helm chart is up to date', async (t) => {
  t.equal(readDocument('ops/helm/headrace/values.schema.json'), helmValuesSchema(), 'run "npm run docs"');
});

t.test('the manual page is up to date and wellformed', async (t) => {
  const page = readDocument('man/headrace.1');
  t.notMatch(page, /\[object\s+Object\]/);
  t.equal(page, await renewedManPage(), 'run "npm run docs"');
  t.strictSame(
    page.split('\n').filter((line) => line.startsWith("'") || line !== line.trimEnd()),
    [],
  );
  const { man } = JSON.parse(readDocument('package.json')) as { man: string };
  t.equal(man, './man/headrace.1');
  // The formatter of the system that shows pages, and the stricter linter where it is installed.
  for (const [program, ...args] of [
    ['man', '--warnings', '-l', `${ROOT}man/headrace.1`],
    ['mandoc', '-T', 'lint', '-W', 'warning', `${ROOT}man/headrace.1`],
  ] as const) {
    const { error, stderr, stdout } = spawnSync(program, args, {
      encoding: 'utf8',
      env: { ...process.env, MANPAGER: 'cat', MANWIDTH: '120' },
    });
    if (error !== undefined) continue;
    t.equal(stderr, '', program);
    t.ok(program === 'man' || stdout === '', stdout);
  }
});

t.test('the changelog has an entry for the version of the package', async (t) => {
  const { version } = JSON.parse(readDocument('package.json')) as { version: string };
  t.match(readDocument('CHANGELOG.md'), `## ${version}`);
});

t.test('error codes follow the pattern HR_AREA_WHAT, with a sentence and a status of 400 to 599', async (t) => {
  for (const [code, { detail, status }] of Object.entries(ERRORS)) {
    t.match(code, /^HR_[A-Z]+(?:_[A-Z]+)*$/);
    t.ok(detail.length > 5 && status >= 400 && status < 600, code);
  }
});
