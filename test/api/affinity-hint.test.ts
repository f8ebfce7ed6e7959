// promptSeed: what keeps the cached prompts of clients apart.

import t from 'tap';
import { promptSeed } from '../../src/api/affinity-hint.ts';

t.test('prompts are shared by the clients of a model, or by those of an account', (t) => {
  t.equal(promptSeed('none', 'm', 'a'), promptSeed('none', 'm', 'b'));
  t.not(promptSeed('none', 'm', 'a'), promptSeed('none', 'n', 'a'));
  t.equal(promptSeed('account', 'm', 'a'), promptSeed('account', 'm', 'a'));
  t.not(promptSeed('account', 'm', 'a'), promptSeed('account', 'm', 'b'));
  t.not(promptSeed('account', 'm', 'a'), promptSeed('account', 'n', 'a'));
  t.equal(promptSeed('account', 'm', ''), promptSeed('none', 'm', ''), 'without a key');
  t.end();
});
