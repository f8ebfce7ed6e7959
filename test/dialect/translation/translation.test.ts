import t from 'tap';
import { dialectOf, translationOf } from '../../../src/dialect/index.ts';

t.test('has no translation for paths without a dialect, and for what chat servers speak themselves', (t) => {
  t.equal(translationOf(undefined), undefined);
  for (const path of ['/v1/chat/completions', '/v1/completions', '/completion']) {
    t.equal(translationOf(dialectOf(path)), undefined, path);
  }
  t.end();
});
