// The official `openai` client on paths without a dialect, through the gateway: forms, binary answers, and what is refused.

import type { IncomingMessage, ServerResponse } from 'node:http';
import OpenAI, { NotFoundError, toFile } from 'openai';
import t, { type Test } from 'tap';
import { createGateway } from '../../src/gateway/gateway.ts';
import { serving } from '../support/serving.ts';
import { KEY, SERVERS } from '../support/system.ts';

const SOUND = Buffer.from(Array.from({ length: 1000 }, (_, at) => at & 0xff));

const ANSWERS: Readonly<Record<string, object>> = {
  '/v1/embeddings': {
    object: 'list',
    data: [{ object: 'embedding', index: 0, embedding: [0.5, -1] }],
    usage: { prompt_tokens: 2, total_tokens: 2 },
  },
  '/v1/audio/transcriptions': { text: 'the water goes' },
  '/v1/audio/translations': { text: 'the water goes' },
  '/v1/images/generations': { created: 1, data: [{ b64_json: 'AAAA' }] },
  '/v1/images/edits': { created: 1, data: [{ b64_json: 'BBBB' }] },
  '/v1/images/variations': { created: 1, data: [{ b64_json: 'CCCC' }] },
  '/v1/moderations': { id: 'modr-1', model: 'm', results: [{ flagged: true }] },
};

/** A form as the server reads it: texts, and files as their bytes. */
async function fieldsOf(req: IncomingMessage, body: Buffer): Promise<Record<string, unknown>> {
  const type = req.headers['content-type'] ?? '';
  if (!type.startsWith('multipart/')) return JSON.parse(body.toString()) as Record<string, unknown>;
  const form = await new Response(body, { headers: { 'content-type': type } }).formData();
  const entries = [...form].map(async ([name, value]) => [
    name,
    typeof value === 'string' ? value : Buffer.from(await value.arrayBuffer()).toString('latin1'),
  ]);
  return Object.fromEntries(await Promise.all(entries)) as Record<string, unknown>;
}

async function open(t: Test, server: 'uws' | 'node'): Promise<{ openai: OpenAI; received: Record<string, unknown>[] }> {
  const received: Record<string, unknown>[] = [];
  const serve = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const pieces: Buffer[] = [];
    for await (const piece of req) pieces.push(piece as Buffer);
    if (req.method === 'GET') {
      res.end('{}');
      return;
    }
    const path = req.url ?? '';
    received.push({ path, ...(await fieldsOf(req, Buffer.concat(pieces))) });
    const answer = ANSWERS[path];
    res.setHeader('content-type', answer === undefined ? 'audio/mpeg' : 'application/json');
    res.end(answer === undefined ? SOUND : JSON.stringify(answer));
  };
  const url = await serving(t, (req, res) => void serve(req, res));
  const gateway = createGateway({
    ...{ listen: '127.0.0.1:0', admin: null, store: null, server, threads: 0, log: { level: 'silent' } },
    models: { media: { servers: [url], aliases: ['whisper-1', 'dall-e-3'] } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
  });
  t.teardown(() => gateway.close());
  const base = (await gateway.listen()).url;
  await gateway.ready();
  return { openai: new OpenAI({ apiKey: KEY, baseURL: `${base}/v1`, maxRetries: 0 }), received };
}

for (const server of SERVERS) {
  t.test(`${server}: embeddings and moderations`, async (t) => {
    const { openai, received } = await open(t, server);
    const embedded = await openai.embeddings.create({ model: 'media', input: 'a', encoding_format: 'float' });
    t.same(embedded.data[0]?.embedding, [0.5, -1]);
    t.same((await openai.moderations.create({ model: 'media', input: 'a' })).results[0]?.flagged, true);
    t.match(received, [{ path: '/v1/embeddings' }, { path: '/v1/moderations', model: 'media' }]);
  });

  t.test(`${server}: speech, transcriptions and translations`, async (t) => {
    const { openai, received } = await open(t, server);
    const speech = await openai.audio.speech.create({ model: 'media', input: 'a', voice: 'alloy' });
    t.same(Buffer.from(await speech.arrayBuffer()), SOUND);
    const file = await toFile(SOUND, 'a.mp3', { type: 'audio/mpeg' });
    const said = await openai.audio.transcriptions.create({ model: 'whisper-1', file, language: 'en', prompt: 'ü' });
    t.equal(said.text, 'the water goes');
    t.equal((await openai.audio.translations.create({ model: 'whisper-1', file })).text, 'the water goes');
    const sound = SOUND.toString('latin1');
    t.match(received.slice(1), [
      { path: '/v1/audio/transcriptions', model: 'media', file: sound, language: 'en', prompt: 'ü' },
      { path: '/v1/audio/translations', model: 'media', file: sound },
    ]);
  });

  t.test(`${server}: images are generated, edited and varied`, async (t) => {
    const { openai, received } = await open(t, server);
    const made = await openai.images.generate({ model: 'dall-e-3', prompt: 'a mill' });
    t.equal(made.data?.[0]?.b64_json, 'AAAA');
    const image = await toFile(SOUND, 'a.png', { type: 'image/png' });
    const edited = await openai.images.edit({ model: 'dall-e-3', image: [image], prompt: 'blue' });
    t.equal(edited.data?.[0]?.b64_json, 'BBBB');
    const varied = await openai.images.createVariation({ model: 'dall-e-3', image });
    t.equal(varied.data?.[0]?.b64_json, 'CCCC');
    t.match(received, [{ model: 'media' }, { model: 'media', prompt: 'blue' }, { model: 'media' }]);
  });

  t.test(`${server}: what only one server could serve throws the reason`, async (t) => {
    const { openai, received } = await open(t, server);
    for (const [run, message] of [
      [() => openai.files.list(), /^404 This path is not served: files belong to one server/],
      [
        async () => openai.files.create({ file: await toFile(SOUND, 'a'), purpose: 'batch' }),
        /: files belong to one server/,
      ],
      [() => openai.batches.list(), /: batches are read from files/],
      [() => openai.fineTuning.jobs.create({ model: 'media', training_file: 'f' }), /: fine-tuning is a job/],
      [() => openai.vectorStores.list(), /: vector stores are state/],
      [() => openai.conversations.create({}), /: the gateway keeps no conversations/],
      [() => openai.chat.completions.retrieve('chatcmpl-1'), /: chat completions are not stored/],
    ] as const) {
      await t.rejects(async () => run(), { constructor: NotFoundError, code: 'HR_ROUTE_UNSERVED', message });
    }
    t.equal(received.length, 0);
  });
}
