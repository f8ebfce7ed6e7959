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

t.test('a file is replaced by its content, without the line ends at its end', (t) => {
  const folder = t.testdir({
    key: 'sesame\n',
    pem: '-----BEGIN\nabc\n-----END\r\n',
    empty: '',
    marked: '\uFEFFsesame\n',
    tricky: '${NAME}',
  });
  t.same(expand(`a \${file:${folder}/key} b`, ENV), { text: 'a sesame b' });
  t.same(expand(`\${file:${folder}/marked}`, ENV), { text: 'sesame' });
  t.same(expand(`\${file:${folder}/pem}`, ENV), { text: '-----BEGIN\nabc\n-----END' });
  t.same(expand(`[\${file:${folder}/empty}]`, ENV), { text: '[]' });
  t.same(expand(`\${file:${folder}/tricky}`, ENV), { text: '${NAME}' }, 'a content is not expanded again');
  t.same(expand(`$\${file:${folder}/key}`, ENV), { text: `\${file:${folder}/key}` }, 'a doubled dollar');
  t.end();
});

t.test('what is wrong with a file is said without its content', (t) => {
  const folder = t.testdir({ large: 'sesame'.repeat(11_000), folder: {} });
  const problem = (path: string, text: string): void => {
    t.same(expand(`\${file:${path}}`, ENV), { problems: [text] }, path);
  };
  problem('key', 'names the file key; write its full path');
  problem(`${folder}/none`, `names the file ${folder}/none, which does not exist`);
  problem(`${folder}/large`, `names the file ${folder}/large, which is larger than 64 KiB`);
  problem(`${folder}/folder`, `names ${folder}/folder, which is no file`);
  t.match(expand('${file:}', ENV), { problems: [/without a variable name, or file: and a path/] });
  t.end();
});
