import t from 'tap';
import { bearerCheck } from '../../src/net/bearer-token.ts';

t.test('accepts the right bearer token and nothing else', (t) => {
  const isAuthorized = bearerCheck('s3cret');
  for (const right of ['Bearer s3cret', 'bearer s3cret', 'Bearer  s3cret ']) t.equal(isAuthorized(right), true, right);
  const wrong = ['', 'Bearer', 'Bearer ', 'Bearer s3cre', 'Bearer s3cretx', 'Bearer S3CRET', 'Basic s3cret', 's3cret'];
  for (const field of [undefined, ...wrong, 'Bearer s3cret s3cret'])
    t.equal(isAuthorized(field), false, field ?? 'none');
  t.end();
});
