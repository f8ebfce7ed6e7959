// The official `@anthropic-ai/sdk`, unmodified, through a gateway whose only CRN speaks chat completions alone.

import Anthropic, {
  APIError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
  UnprocessableEntityError,
} from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { jsonSchemaOutputFormat } from '@anthropic-ai/sdk/helpers/json-schema';
import t from 'tap';
import { createGateway } from '../../src/gateway/gateway.ts';
import { events, json } from '../support/fake-engine.ts';
import { Random } from '../support/random.ts';
import {
  CHAT_PATH,
  chatAnswer,
  chatStream,
  chunk,
  DONE,
  eventOf,
  finish,
  inPieces,
  type Json,
  randomOutput,
  type ScriptedChat,
  startScriptedChat,
  streamOf,
  usageChunk,
  wholeOf,
} from '../support/scripted-chat.ts';
import { KEY, MODEL, SERVERS } from '../support/system.ts';

interface ChatSystem {
  readonly client: Anthropic;
  readonly crn: ScriptedChat;
}

/** @param model settings of the model */
async function start(
  t: Parameters<typeof startScriptedChat>[0],
  model: object = {},
  server: 'uws' | 'node' = 'node',
): Promise<ChatSystem> {
  const crn = await startScriptedChat(t);
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    server,
    models: { [MODEL]: { servers: [crn.url], ...model } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
    ejection: { consecutive: 1_000_000, minRequests: 1_000_000 },
    log: { level: 'silent' },
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  return { crn, client: new Anthropic({ apiKey: KEY, baseURL: url, maxRetries: 0 }) };
}

const ask = {
  model: MODEL,
  max_tokens: 64,
  messages: [{ role: 'user' as const, content: 'Where does the water go?' }],
};
const usage = { prompt_tokens: 12, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 8 } };
const expectedUsage = { input_tokens: 4, cache_read_input_tokens: 8, output_tokens: 4 };

/** Without the members that the client adds. */
function bare(message: object): unknown {
  const added = ['parsed_output', '_request_id'];
  return JSON.parse(JSON.stringify(message, (name, value: unknown) => (added.includes(name) ? undefined : value)));
}

async function thrownBy(run: Promise<unknown>): Promise<APIError> {
  return run.then(
    () => Promise.reject(new Error('succeeded')),
    (error: unknown) => error as APIError,
  );
}

for (const server of SERVERS) {
  for (const [kind, settings] of [
    ['free', {}],
    ['metered', { pricing: { prompt: '1', completion: '2' } }],
  ] as const) {
    t.test(`${server}: messages of a ${kind} model, whole and streamed, with token counts`, async (t) => {
      const { client, crn } = await start(t, settings, server);
      crn.play(chatAnswer({ content: 'Down the canal.', reasoning_content: 'Hm.' }, {}, { usage }));
      const { data: whole, request_id: id, response } = await client.messages.create(ask).withResponse();
      t.equal(response.headers.get('x-headrace-translated'), 'messages-chat');
      t.ok(id);
      t.match(whole, { model: MODEL, stop_reason: 'end_turn', usage: expectedUsage });
      t.match(whole.content, [
        { type: 'thinking', thinking: 'Hm.' },
        { type: 'text', text: 'Down the canal.' },
      ]);
      const deltas = [chunk({ reasoning: 'Hm.' }), chunk({ content: 'Down ' }), chunk({ content: 'the canal.' })];
      crn.play(chatStream(...deltas, finish('stop'), usageChunk(usage)));
      t.strictSame(bare(await client.messages.stream(ask).finalMessage()), bare(whole));
      let text = '';
      for await (const event of await client.messages.create({ ...ask, stream: true })) {
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text;
      }
      t.equal(text, 'Down the canal.');
      const beta = await client.beta.messages.stream(ask).finalMessage();
      t.match(beta.usage, expectedUsage);
      const { body, headers, path } = crn.last(CHAT_PATH);
      t.equal(path, CHAT_PATH, 'without the query');
      t.match(body, { stream: true, stream_options: { include_usage: true }, max_tokens: 64 });
      t.equal(headers['anthropic-version'], undefined);
    });
  }
}

t.test('random answers are the same whole and streamed', async (t) => {
  const { client, crn } = await start(t);
  const random = new Random(11);
  for (let turn = 0; turn < 30; turn++) {
    const output = randomOutput(random);
    // An answer without output is none.
    if (output.text === '' && output.reasoning === '' && output.calls.length === 0 && output.refusal === '') continue;
    crn.play(json(wholeOf(output)));
    const whole = await client.messages.create(ask);
    crn.play(events(inPieces(random, streamOf(random, output)).map(String)));
    t.strictSame(bare(await client.messages.stream(ask).finalMessage()), bare(whole));
  }
});

const weather = { Rome: '21 degrees', Oslo: '3 degrees' };

for (const stream of [false, true]) {
  t.test(`the tool runner calls tools until the answer is there, ${stream ? 'streamed' : 'whole'}`, async (t) => {
    const { client, crn } = await start(t);
    const calls = ['Rome', 'Oslo'].map((city, index) => ({
      ...{ index, id: `call_${index}`, type: 'function' },
      function: { name: 'get_weather', arguments: JSON.stringify({ city }) },
    }));
    const reasoning = 'Two cities.';
    if (stream) {
      const [first, second] = calls as unknown as [Json, Json];
      const opening = { ...first, function: { name: 'get_weather', arguments: '' } };
      const rest = ['{"city"', ':"Rome"}'].map((text) =>
        chunk({ tool_calls: [{ index: 0, function: { arguments: text } }] }),
      );
      const deltas = [chunk({ reasoning_content: reasoning }), chunk({ tool_calls: [opening] }), ...rest];
      crn.play(
        chatStream(...deltas, chunk({ tool_calls: [second] }), finish('tool_calls'), usageChunk(usage)),
        chatStream(chunk({ content: 'Warm and ' }), chunk({ content: 'cold.' }), finish('stop'), usageChunk(usage)),
      );
    } else {
      const message = { content: null, reasoning_content: reasoning, tool_calls: calls };
      crn.play(chatAnswer(message, { finish_reason: 'tool_calls' }), chatAnswer({ content: 'Warm and cold.' }));
    }
    const tool = betaTool({
      name: 'get_weather',
      description: 'The weather of a city',
      inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      run: ({ city }) => weather[city as keyof typeof weather],
    });
    const final = await client.beta.messages.toolRunner({ ...ask, tools: [tool], stream }).runUntilDone();
    t.match(final.content, [{ type: 'text', text: 'Warm and cold.' }]);
    t.equal(final.stop_reason, 'end_turn');
    const [first, second] = crn.requests.filter(({ path }) => path === CHAT_PATH);
    t.match(first?.body, { tools: [{ type: 'function', function: { name: 'get_weather' } }] });
    const [, assistant, rome, oslo] = (second?.body['messages'] ?? []) as Json[];
    t.match(assistant, { role: 'assistant', reasoning_content: reasoning });
    t.strictSame(
      ((assistant?.['tool_calls'] ?? []) as typeof calls).map(({ id, function: { arguments: args } }) => [
        id,
        JSON.parse(args),
      ]),
      [
        ['call_0', { city: 'Rome' }],
        ['call_1', { city: 'Oslo' }],
      ],
    );
    t.match(rome, { role: 'tool', tool_call_id: 'call_0', content: '21 degrees' });
    t.match(oslo, { role: 'tool', tool_call_id: 'call_1', content: '3 degrees' });
  });
}

t.test('thinking, images and structured output', async (t) => {
  const { client, crn } = await start(t);
  const sent = (): Json => crn.last(CHAT_PATH).body;
  crn.play(chatAnswer({ content: 'Yes.', reasoning_content: 'Hm.' }));
  const thinking = { type: 'enabled', budget_tokens: 8000 } as const;
  const thought = await client.messages.create({ ...ask, max_tokens: 9000, thinking });
  t.match(sent(), { reasoning_effort: 'medium', chat_template_kwargs: { enable_thinking: true } });
  const turns = [...ask.messages, { role: 'assistant' as const, content: thought.content }, ...ask.messages];
  await client.messages.create({ ...ask, messages: turns });
  t.match(sent()['messages'], [{ role: 'user' }, { role: 'assistant', reasoning_content: 'Hm.', content: 'Yes.' }, {}]);

  const data = Buffer.from('image').toString('base64');
  const images = [
    { type: 'image' as const, source: { type: 'base64' as const, media_type: 'image/png' as const, data } },
    { type: 'image' as const, source: { type: 'url' as const, url: 'https://example.org/a.png' } },
  ];
  await client.messages.create({ ...ask, messages: [{ role: 'user', content: images }] });
  t.match(sent()['messages'], [
    {
      content: [
        { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } },
        { type: 'image_url', image_url: { url: 'https://example.org/a.png' } },
      ],
    },
  ]);

  crn.play(chatAnswer({ content: '{"city":"Rome","degrees":21}' }));
  const properties = { city: { type: 'string' }, degrees: { type: 'integer' } } as const;
  const schema = { type: 'object', properties, required: ['city', 'degrees'], additionalProperties: false } as const;
  const parsed = await client.messages.parse({ ...ask, output_config: { format: jsonSchemaOutputFormat(schema) } });
  t.strictSame(parsed.parsed_output, { city: 'Rome', degrees: 21 });
  t.match(sent()['response_format'], { type: 'json_schema', json_schema: { schema: { properties } } });
});

t.test('ends: limits, stop sequences, refusals', async (t) => {
  const { client, crn } = await start(t);
  const cases: readonly (readonly [Json, Json, Json])[] = [
    [{ content: 'a' }, { finish_reason: 'length' }, { stop_reason: 'max_tokens' }],
    [{ content: 'a' }, { stop_reason: 'END' }, { stop_reason: 'stop_sequence', stop_sequence: 'END' }],
    [{ content: 'a' }, { finish_reason: 'content_filter' }, { stop_reason: 'refusal' }],
    [{ content: null, refusal: 'No.' }, {}, { stop_reason: 'refusal', content: [{ type: 'text', text: 'No.' }] }],
  ];
  for (const [message, choice, expected] of cases) {
    crn.play(chatAnswer(message, choice));
    t.match(await client.messages.create({ ...ask, stop_sequences: ['END'] }), expected);
    crn.play(chatStream(chunk(message), finish('stop', choice)));
    t.match(await client.messages.stream({ ...ask, stop_sequences: ['END'] }).finalMessage(), expected);
  }
  t.strictSame(crn.last(CHAT_PATH).body['stop'], ['END']);
});

t.test('errors of the server have the classes and types of the official API', async (t) => {
  const { client, crn } = await start(t);
  const cases: readonly (readonly [status: number, error: new (...args: never) => APIError, type: string])[] = [
    [400, BadRequestError, 'invalid_request_error'],
    [404, NotFoundError, 'not_found_error'],
    [422, UnprocessableEntityError, 'invalid_request_error'],
    [429, RateLimitError, 'rate_limit_error'],
  ];
  for (const [status, Class, type] of cases) {
    crn.play(json({ error: { message: 'The response says no', type: 'x', param: null, code: 'why' } }, status));
    for (const asked of [client.messages.create(ask), client.messages.stream(ask).finalMessage()]) {
      const error = await thrownBy(asked);
      t.ok(error instanceof Class, `${status} is ${error.constructor.name}`);
      t.match(error, { status, type, apiMessage: 'The response says no', requestID: /./ });
      t.match(error.error, { error: { code: 'why' } });
    }
  }
  // These say that the server is at fault, or refuses the gateway's own key: another one is asked, and there is none.
  for (const status of [401, 403, 500, 503, 529]) {
    crn.play(json({ error: { message: 'broken' } }, status));
    t.ok((await thrownBy(client.messages.create(ask))) instanceof InternalServerError);
  }
  crn.play(chatAnswer({ content: 'a' }));
  const hosted = [{ type: 'web_search_20250305' as const, name: 'web_search' as const }];
  const refused = await thrownBy(client.messages.create({ ...ask, tools: hosted }));
  t.ok(refused instanceof UnprocessableEntityError);
  t.match(JSON.stringify(refused.error), /web_search_20250305/);
});

t.test('an error in the middle of a stream throws with its type', async (t) => {
  const { client, crn } = await start(t);
  const error = { error: { message: 'slow down', type: 'rate_limit_exceeded', code: null } };
  crn.play(chatStream(chunk({ content: 'a' }), error));
  t.match(await thrownBy(client.messages.stream(ask).finalMessage()), {
    type: 'rate_limit_error',
    message: /slow down/,
  });
});

t.test('a stream that cannot be translated any more ends, and its server is left', async (t) => {
  const { client, crn } = await start(t);
  let isLeft = Promise.resolve();
  crn.play((_, response) => {
    isLeft = new Promise((resolve) => response.once('close', resolve));
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(eventOf(chunk({ content: 'Down ' })) + eventOf('data: <html>\n\n'));
  });
  const { body } = await client.messages.create({ ...ask, stream: true }).asResponse();
  const text = await new Response(body).text();
  t.match(text, /event: error\ndata: .* not JSON"\}\}\n\n$/);
  await isLeft;
});

t.test('a stream that breaks off throws wherever it does', async (t) => {
  const { client, crn } = await start(t);
  const random = new Random(5);
  for (let stream = 0; stream < 4; stream++) {
    const frames = streamOf(random, randomOutput(random)).filter((frame) => !frame.startsWith(':'));
    for (let cut = 0; cut < frames.length; cut++) {
      const before = frames.slice(0, cut);
      // What has its finish reason is complete.
      if (before.some((frame) => /"finish_reason":"/.test(frame) || frame.trim() === DONE.trim())) break;
      for (const end of ['cut', 'end'] as const) {
        crn.play(events(before, end));
        t.ok((await thrownBy(client.messages.stream(ask).finalMessage())) instanceof APIError, `${end} behind ${cut}`);
        const raw = async (): Promise<void> => {
          for await (const _ of await client.messages.create({ ...ask, stream: true })) continue;
        };
        t.ok((await thrownBy(raw())) instanceof APIError, `${end} behind ${cut}, read by hand`);
      }
    }
  }
});
