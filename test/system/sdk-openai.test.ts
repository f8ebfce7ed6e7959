// The official `openai` client, unmodified, through the gateway on both server adapters: successful calls return what the API returns,
// and failures throw the client's own errors.

import OpenAI, { type APIError, AuthenticationError, AzureOpenAI, InternalServerError, NotFoundError } from 'openai';
import t from 'tap';
import { KEY, MODEL, SERVERS, startSystem, type System, until } from '../support/system.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import type { FaultPlan } from '../../src/host/index.ts';

const messages = [{ role: 'user' as const, content: 'Where does the water go?' }];
const ask = { model: MODEL, messages, max_tokens: 6 };

function client({ url }: System, options: object = {}): OpenAI {
  return new OpenAI({ apiKey: KEY, baseURL: `${url}/v1`, maxRetries: 0, ...options });
}

/** Ways in which a stream ends before its end. */
const BREAKS: Readonly<Record<string, FaultPlan>> = {
  'is reset': [{ fault: { resetAfter: 2 } }],
  'is reset in the middle of an event': [{ fault: { resetAfter: 2, partial: true } }],
  'is truncated': [{ fault: { truncateAfter: 2 } }],
  'ends cleanly without a finish': [{ fault: { endAfter: 2 } }],
};

/** The error of a call that must fail. */
async function thrownBy(run: () => Promise<unknown>): Promise<APIError> {
  try {
    await run();
  } catch (error) {
    return error as APIError;
  }
  throw new Error('succeeded');
}

async function gather(chunks: AsyncIterable<OpenAI.ChatCompletionChunk>): Promise<string> {
  let text = '';
  for await (const chunk of chunks) text += chunk.choices[0]?.delta.content ?? '';
  return text;
}

for (const server of SERVERS) {
  const start = (t: Parameters<typeof startSystem>[0], settings: SettingsInput = {}): Promise<System> =>
    startSystem(t, { settings: { server, ...settings } });

  t.test(`${server}: chats, buffered and streamed`, async (t) => {
    const system = await start(t);
    const openai = client(system);
    const whole = await openai.chat.completions.create(ask);
    const text = whole.choices[0]?.message.content ?? '';
    t.equal(text.split(' ').length, 6);
    t.match(whole.usage, { completion_tokens: 6 });
    t.match(whole._request_id, /./);
    t.equal(await gather(await openai.chat.completions.create({ ...ask, stream: true })), text);
    const helped = openai.chat.completions.stream(ask);
    t.equal(await helped.finalContent(), text);
  });

  t.test(`${server}: base URLs without a version and those of Azure`, async (t) => {
    const system = await start(t);
    const azure = new AzureOpenAI({ endpoint: system.url, apiKey: KEY, apiVersion: '2024-10-21', maxRetries: 0 });
    const wrong = new AzureOpenAI({ endpoint: system.url, apiKey: 'no', apiVersion: '2024-10-21', maxRetries: 0 });
    for (const openai of [
      azure,
      client(system, { baseURL: system.url }),
      client(system, { baseURL: `${system.url}/openai/v1` }),
    ]) {
      const whole = await openai.chat.completions.create(ask);
      t.equal(
        await gather(await openai.chat.completions.create({ ...ask, stream: true })),
        whole.choices[0]?.message.content,
      );
      t.ok((await openai.responses.create({ model: MODEL, input: 'Hi', max_output_tokens: 6 })).output_text);
      t.equal((await openai.embeddings.create({ model: MODEL, input: 'a' })).data.length, 1);
      t.same(
        (await openai.models.list()).data.map(({ id }) => id),
        [MODEL],
      );
      t.match(await thrownBy(() => openai.chat.completions.create({ ...ask, model: 'nobody' })), {
        status: 404,
        message: /Model 'nobody' not found/,
      });
    }
    t.match(await thrownBy(() => wrong.chat.completions.create(ask)), { status: 401, message: /Invalid API key/ });
  });

  t.test(`${server}: responses, buffered and streamed`, async (t) => {
    const openai = client(await start(t));
    const request = { model: MODEL, input: 'Where does the water go?', max_output_tokens: 6 };
    const whole = await openai.responses.create(request);
    t.equal(whole.output_text.split(' ').length, 6);
    const stream = openai.responses.stream(request);
    t.equal((await stream.finalResponse()).output_text, whole.output_text);
    let text = '';
    for await (const event of await openai.responses.create({ ...request, stream: true })) {
      if (event.type === 'response.output_text.delta') text += event.delta;
    }
    t.equal(text, whole.output_text);
  });

  t.test(`${server}: completions, buffered and streamed`, async (t) => {
    const openai = client(await start(t));
    const request = { model: MODEL, prompt: 'Where does', max_tokens: 5 };
    const whole = (await openai.completions.create(request)).choices[0]?.text;
    let text = '';
    for await (const chunk of await openai.completions.create({ ...request, stream: true })) {
      text += chunk.choices[0]?.text ?? '';
    }
    t.ok(text.length > 0);
    t.equal(text, whole);
  });

  t.test(`${server}: lists models and retrieves one`, async (t) => {
    const openai = client(await start(t));
    const ids = [];
    for await (const model of await openai.models.list()) ids.push(model.id);
    t.same(ids, [MODEL]);
    t.match(await openai.models.retrieve(MODEL), { id: MODEL, object: 'model' });
    t.match(await thrownBy(() => openai.models.retrieve('nobody')), { status: 404 });
  });

  t.test(`${server}: passes embeddings, images and speech through`, async (t) => {
    const system = await start(t);
    const openai = client(system);
    const { data } = await openai.embeddings.create({ model: MODEL, input: ['one', 'two'] });
    t.same(
      data.map(({ index, embedding }) => [index, Array.isArray(embedding) && embedding.length > 0]),
      [
        [0, true],
        [1, true],
      ],
    );
    const images = await openai.images.generate({ model: MODEL, prompt: 'a canal', response_format: 'b64_json' });
    const direct = await new OpenAI({ apiKey: KEY, baseURL: `${system.host.url}/v1` }).images.generate({
      model: MODEL,
      prompt: 'a canal',
      response_format: 'b64_json',
    });
    t.equal(images.data?.[0]?.b64_json, direct.data?.[0]?.b64_json);
    const speech = await openai.audio.speech.create({ model: MODEL, voice: 'alloy', input: 'water' });
    const bytes = Buffer.from(await speech.arrayBuffer());
    t.equal(speech.headers.get('content-type'), 'audio/wav');
    t.equal(bytes.subarray(0, 4).toString(), 'RIFF');
    t.equal(bytes.readUInt32LE(4) + 8, bytes.length, 'no byte is missing or changed on the way');
  });

  t.test(`${server}: an unknown model throws, with the message in the error object unless that is off`, async (t) => {
    const strict = client(await start(t, { errorBodies: 'contract' }));
    const plain = await thrownBy(() => strict.chat.completions.create({ ...ask, model: 'nobody' }));
    t.ok(plain instanceof NotFoundError);
    t.equal(plain.headers?.get('x-headrace-error'), 'HR_ROUTE_UNKNOWN_MODEL');
    const decorated = client(await start(t));
    for (const run of [
      () => decorated.chat.completions.create({ ...ask, model: 'nobody' }),
      () => decorated.chat.completions.create({ ...ask, model: 'nobody', stream: true }),
      () => decorated.responses.create({ model: 'nobody', input: 'x' }),
    ]) {
      const error = await thrownBy(run);
      t.ok(error instanceof NotFoundError);
      t.match(error, { code: 'HR_ROUTE_UNKNOWN_MODEL', type: 'invalid_request_error' });
      t.match(error.message, /Model 'nobody' not found/);
    }
  });

  t.test(`${server}: a bad key throws, with the message in the error object unless that is off`, async (t) => {
    const system = await start(t);
    const error = await thrownBy(() => client(system, { apiKey: 'hr_wrong' }).chat.completions.create(ask));
    t.ok(error instanceof AuthenticationError);
    t.equal(system.host.requests.filter(({ method }) => method === 'POST').length, 0);
    const decorated = client(await start(t), { apiKey: 'hr_wrong' });
    t.match(await thrownBy(() => decorated.chat.completions.create(ask)), {
      status: 401,
      message: /Invalid API key/,
      type: 'authentication_error',
    });
  });

  t.test(`${server}: with every CRN gone it throws at once and does not retry`, async (t) => {
    const system = await start(t);
    await system.host.kill();
    const openai = client(system, { maxRetries: 5 });
    await t.rejects(openai.chat.completions.create(ask));
    await until('all CRNs are down', () => system.gateway.crns().every(({ standing }) => standing === 'down'));
    const before = performance.now();
    const error = await thrownBy(() => openai.chat.completions.create({ ...ask, stream: true }));
    t.ok(error instanceof InternalServerError);
    t.match(error, {
      status: 503,
      code: 'HR_ROUTE_ALL_FAILED',
      message: /All servers unavailable for model atlas-27b/,
    });
    t.equal(error.headers?.get('x-should-retry'), 'false');
    t.ok(Number(error.headers?.get('retry-after')) > 0);
    t.ok(performance.now() - before < 2500, 'five retries would have slept longer');
  });

  for (const [how, plan] of Object.entries(BREAKS)) {
    t.test(`${server}: a stream that ${how} throws`, async (t) => {
      const system = await start(t);
      const openai = client(system);
      await system.host.setFault(plan);
      const long = { ...ask, max_tokens: 64 };
      const chat = await thrownBy(async () => gather(await openai.chat.completions.create({ ...long, stream: true })));
      t.ok(chat instanceof Error);
      if (!how.includes('middle')) t.match(chat, { code: /^HR_STREAM_/ });
      await t.rejects(openai.chat.completions.stream(long).finalContent());
      await t.rejects(openai.responses.stream({ model: MODEL, input: 'x', max_output_tokens: 64 }).finalResponse());
      await t.rejects(async () => {
        for await (const _ of await openai.responses.create({ model: MODEL, input: 'x', stream: true })) continue;
      });
      await t.rejects(async () => {
        const request = { model: MODEL, prompt: 'x', max_tokens: 64, stream: true as const };
        for await (const _ of await openai.completions.create(request)) continue;
      });
    });
  }

  t.test(`${server}: a truncated response throws`, async (t) => {
    const system = await start(t);
    const openai = client(system);
    for (const fault of [{ resetAfter: 0 }, { truncateAfter: 0 }]) {
      await system.host.setFault([{ fault }]);
      await t.rejects(openai.chat.completions.create(ask), JSON.stringify(fault));
    }
  });
}
