import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { ERRORS } from '../../src/errors.ts';
import { renew } from './readme.ts';

const root = new URL('../../../', import.meta.url);
const readme = readFileSync(new URL('README.md', root), 'utf8');

t.test('the tables of the README are those of the code', async (t) => {
  const renewed = execFileSync('prettier', ['--stdin-filepath', 'README.md'], {
    input: renew(readme),
    encoding: 'utf8',
    cwd: root,
  });
  t.equal(readme, renewed, 'npm run docs writes them');
});

t.test('the changelog has an entry for the version of the package', async (t) => {
  const { version } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { version: string };
  t.match(readFileSync(new URL('CHANGELOG.md', root), 'utf8'), `## ${version}`);
});

t.test('every error code says its area and every sentence its meaning', async (t) => {
  for (const [code, { detail, status }] of Object.entries(ERRORS)) {
    t.match(code, /^HR_[A-Z]+(?:_[A-Z]+)*$/);
    t.ok(detail.length > 5 && status >= 400 && status < 600, code);
  }
});
