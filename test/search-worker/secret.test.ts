import t from 'tap';
import { guardOf } from '../../src/search-worker/secret.ts';

t.test('lets the right bearer token pass and nothing else', (t) => {
  const guard = guardOf('s3cret');
  for (const right of ['Bearer s3cret', 'bearer s3cret', 'Bearer  s3cret ']) t.equal(guard(right), true, right);
  const wrong = ['', 'Bearer', 'Bearer ', 'Bearer s3cre', 'Bearer s3cretx', 'Bearer S3CRET', 'Basic s3cret', 's3cret'];
  for (const field of [undefined, ...wrong, 'Bearer s3cret s3cret']) t.equal(guard(field), false, field ?? 'none');
  t.end();
});

t.test('without a secret everybody passes', (t) => {
  t.equal(guardOf(undefined)(undefined), true);
  t.end();
});
