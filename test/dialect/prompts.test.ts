import fc from 'fast-check';
import t from 'tap';
import { promptsIn } from '../../src/dialect/prompts.ts';

function prompts(json: string): number {
  const body = Buffer.from(`{"prompt":${json},"model":"m"}`);
  return promptsIn(body, 10, 10 + Buffer.byteLength(json));
}

t.test('one text, one array of tokens and a mixture are one prompt', async (t) => {
  for (const json of ['"a, b"', '[1, 2, 3]', '[]', '[ ]', 'null', '["a", 1]', '[[1], "a"]', '["a", [1], "b"]']) {
    t.equal(prompts(json), 1, json);
  }
  t.equal(promptsIn(Buffer.from('{}'), -1, -1), 1, 'and no prompt');
});

t.test('an array of texts, or of arrays of tokens, is so many', async (t) => {
  t.equal(prompts('["a"]'), 1);
  t.equal(prompts('["a","b, c","d"]'), 3);
  t.equal(prompts('[ [1, 2],\n [3], [] ]'), 3);
  t.equal(prompts(String.raw`["\"," , "\\", "\\\","]`), 3);
});

t.test('texts may hold anything', async () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: 'binary' }), { minLength: 1 }),
      fc.constantFrom(undefined, 2),
      (list, space) => {
        return prompts(JSON.stringify(list, null, space)) === list.length;
      },
    ),
  );
});
