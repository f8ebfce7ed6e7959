import t from 'tap';
import { expand } from '../../src/config/expansion.ts';

const ENV = { NAME: 'value', EMPTY: '', TRICKY: '$& ${NAME}', _A1: 'x' };

t.test('variables are replaced, once', async (t) => {
  t.same(expand('a ${NAME} b ${_A1}', ENV), { text: 'a value b x' });
  t.same(expand('[${EMPTY}]', ENV), { text: '[]' });
  t.same(expand('${TRICKY}', ENV), { text: '$& ${NAME}' }, 'a value is not expanded again');
  t.same(expand('costs $5, {x}', ENV), { text: 'costs $5, {x}' });
});

t.test('a doubled dollar is an escape', async (t) => {
  t.same(expand('$${NAME} ${NAME}', ENV), { text: '${NAME} value' });
});

t.test('every missing variable is named', async (t) => {
  t.same(expand('${ONE} ${NAME} ${TWO}', ENV), {
    problems: [
      'names the environment variable ONE, which is not set',
      'names the environment variable TWO, which is not set',
    ],
  });
  t.match(expand('${constructor}', ENV), { problems: [/constructor, which is not set/] });
});

t.test('a malformed reference is a problem', async (t) => {
  for (const text of ['${', '${}', '${A B}', '${1A}', '${NAME']) {
    t.match(expand(text, ENV), { problems: [/without a variable name/] }, text);
  }
});
