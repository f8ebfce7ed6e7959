// The table of the admin API in docs/accounts-and-payments.md names every operation.
import t from 'tap';
import { OPERATIONS } from '../../src/admin/operations.ts';
import { readDocument } from './markdown.ts';

t.test('docs/accounts-and-payments.md names every operation of the admin API', (t) => {
  const page = readDocument('docs/accounts-and-payments.md');
  for (const { method, path } of Object.values(OPERATIONS))
    t.ok(page.includes(`\`${method} ${path}\``), `${method} ${path}`);
  t.end();
});
