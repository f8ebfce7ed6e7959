import { createHost } from '../../../src/host/index.ts';

import OpenAI from 'openai';
import t from 'tap';

const host = createHost({ models: ['m', 'n'] });
t.before(() => host.listen());
t.teardown(() => host.close());

const client = (): OpenAI => new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'k', maxRetries: 0 });

t.test('the official client gets the same vectors as base64 and as numbers', async (t) => {
  const input = ['hello', 'there'];
  const coded = await client().embeddings.create({ model: 'm', input });
  const plain = await client().embeddings.create({ model: 'm', input, encoding_format: 'float' });
  t.same(
    coded.data.map(({ embedding }) => [...embedding]),
    plain.data.map(({ embedding }) => embedding),
  );
  t.match(plain, { object: 'list', model: 'm', usage: { prompt_tokens: 4, total_tokens: 4 } });
  t.same(
    plain.data.map(({ index }) => index),
    [0, 1],
  );
});

t.test('vectors have length one, depend on text and model alone, and take the dimensions asked for', async (t) => {
  const vector = async (model: string, input: string, dimensions?: number): Promise<number[]> => {
    const body = {
      model,
      input,
      encoding_format: 'float' as const,
      ...(dimensions === undefined ? {} : { dimensions }),
    };
    return (await client().embeddings.create(body)).data[0]!.embedding;
  };
  const hello = await vector('m', 'hello');
  t.equal(hello.length, 64);
  t.ok(Math.abs(Math.hypot(...hello) - 1) < 1e-6);
  t.same(await vector('m', 'hello'), hello);
  t.notSame(await vector('m', 'hello!'), hello);
  t.notSame(await vector('n', 'hello'), hello);
  t.equal((await vector('m', 'hello', 8)).length, 8);
});

t.test('tokens are one text, and mistakes are named', async (t) => {
  t.equal((await client().embeddings.create({ model: 'm', input: [1, 2, 3] })).data.length, 1);
  t.equal((await client().embeddings.create({ model: 'm', input: [[1], [2]] })).data.length, 2);
  await t.rejects(client().embeddings.create({ model: 'm', input: [] }), { status: 400, message: /input must be/ });
  await t.rejects(client().embeddings.create({ model: 'm', input: 'x', dimensions: 0 }), {
    message: /dimensions must be/,
  });
  const input = Array.from({ length: 513 }, () => 'x');
  await t.rejects(client().embeddings.create({ model: 'm', input, dimensions: 4096 }), {
    message: /at most 512 texts of 4096 dimensions/,
  });
  await t.rejects(client().embeddings.create({ model: 'x', input: 'x' }), { status: 404, message: /does not exist/ });
});
