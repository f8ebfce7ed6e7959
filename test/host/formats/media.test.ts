import { inflateSync } from 'node:zlib';
import { createHost } from '../../../src/host/index.ts';

import OpenAI from 'openai';
import t from 'tap';

const host = createHost({ models: ['m'] });
t.before(() => host.listen());
t.teardown(() => host.close());

const client = (): OpenAI => new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'k', maxRetries: 0 });

t.test('images are valid PNG files, as many as asked for', async (t) => {
  const answer = await client().images.generate({ model: 'm', prompt: 'a mill', n: 2 });
  t.equal(answer.data?.length, 2);
  const png = Buffer.from(answer.data![0]!.b64_json!, 'base64');
  t.equal(png.toString('latin1', 1, 4), 'PNG');
  const at = png.indexOf('IDAT');
  t.same([...inflateSync(png.subarray(at + 4, at + 4 + png.readUInt32BE(at - 4)))], [0, 128]);
  await t.rejects(client().images.generate({ model: 'm', prompt: 'x', n: 11 }), {
    status: 400,
    message: /from 1 to 10/,
  });
});

t.test('speech is a WAV file whose length follows the text', async (t) => {
  const speech = await client().audio.speech.create({ model: 'm', voice: 'alloy', input: 'hello' });
  t.equal(speech.headers.get('content-type'), 'audio/wav');
  const wav = Buffer.from(await speech.arrayBuffer());
  t.equal(wav.toString('latin1', 0, 4), 'RIFF');
  t.equal(wav.length, 44 + 5 * 80);
  t.equal(wav.readUInt32LE(4), wav.length - 8);
  t.equal(wav.readUInt32LE(40), wav.length - 44);
  const bad = await fetch(`${host.url}/v1/audio/speech`, { method: 'POST', body: '{"model":"m"}' });
  t.equal(bad.status, 400);
});
