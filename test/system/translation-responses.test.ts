// The official `openai` client in the responses dialect, unmodified, through a gateway whose only CRN speaks chat completions alone.

import OpenAI, { type APIError } from 'openai';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import type { ResponseInput } from 'openai/resources/responses/responses';
import t from 'tap';
import { z } from 'zod';
import { createGateway } from '../../src/gateway/gateway.ts';
import { type Answer, events, json } from '../support/fake-engine.ts';
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
import { KEY, MODEL } from '../support/system.ts';

interface ChatSystem {
  readonly openai: OpenAI;
  readonly crn: ScriptedChat;
}

/** @param settings of the model */
async function start(t: Parameters<typeof startScriptedChat>[0], settings: object = {}): Promise<ChatSystem> {
  const crn = await startScriptedChat(t);
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    models: { [MODEL]: { servers: [crn.url], ...settings } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
    ejection: { consecutive: 1_000_000, minRequests: 1_000_000 },
    log: { level: 'silent' },
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  return { crn, openai: new OpenAI({ apiKey: KEY, baseURL: `${url}/v1`, maxRetries: 0 }) };
}

const ask = { model: MODEL, input: 'Where does the water go?' };
const usage = {
  prompt_tokens: 12,
  completion_tokens: 4,
  total_tokens: 16,
  prompt_tokens_details: { cached_tokens: 8 },
};
const expectedUsage = {
  input_tokens: 12,
  input_tokens_details: { cached_tokens: 8, cache_write_tokens: 0 },
  output_tokens: 4,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 16,
};

/** Without the members that the client adds, and those that differ from answer to answer. */
function bare(response: object): unknown {
  const added = ['parsed', 'parsed_arguments', 'output_parsed', 'completed_at', 'id'];
  return JSON.parse(JSON.stringify(response, (name, value: unknown) => (added.includes(name) ? undefined : value)));
}

async function thrownBy(run: Promise<unknown>): Promise<APIError> {
  return run.then(
    () => Promise.reject(new Error('succeeded')),
    (error: unknown) => error as APIError,
  );
}

for (const [kind, settings] of [
  ['free', {}],
  ['metered', { pricing: { prompt: '1', completion: '2' } }],
] as const) {
  t.test(`responses of a ${kind} model, whole and streamed, with token counts`, async (t) => {
    const { crn, openai } = await start(t, settings);
    const message = { content: 'Down the canal.', reasoning_content: 'Hm.' };
    crn.play(chatAnswer(message, {}, { usage }));
    const { data: whole, response } = await openai.responses.create(ask).withResponse();
    t.equal(response.headers.get('x-headrace-translated'), 'responses-chat');
    t.match(whole, { status: 'completed', output_text: 'Down the canal.', model: MODEL, usage: expectedUsage });
    t.match(whole.output[0], { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'Hm.' }] });
    const deltas = [chunk({ reasoning: 'Hm.' }), chunk({ content: 'Down ' }), chunk({ content: 'the canal.' })];
    crn.play(chatStream(...deltas, finish('stop'), usageChunk(usage)));
    const streamed = await openai.responses.stream(ask).finalResponse();
    t.strictSame(bare(streamed), bare(whole));
    let text = '';
    for await (const event of await openai.responses.create({ ...ask, stream: true })) {
      if (event.type === 'response.output_text.delta') text += event.delta;
    }
    t.equal(text, 'Down the canal.');
    t.match(crn.last(CHAT_PATH).body, { stream: true, stream_options: { include_usage: true } });
  });
}

t.test('random answers are the same whole and streamed', async (t) => {
  const { crn, openai } = await start(t);
  const random = new Random(11);
  for (let turn = 0; turn < 30; turn++) {
    const output = randomOutput(random);
    // An answer without output is none.
    if (output.text === '' && output.reasoning === '' && output.calls.length === 0 && output.refusal === '') continue;
    crn.play(json(wholeOf(output)));
    const whole = await openai.responses.create(ask);
    crn.play(events(inPieces(random, streamOf(random, output)).map(String)));
    t.strictSame(bare(await openai.responses.stream(ask).finalResponse()), bare(whole));
  }
});

t.test('a loop of tools, whole and streamed', async (t) => {
  const { crn, openai } = await start(t);
  const tools = [zodResponsesFunction({ name: 'get_weather', parameters: z.object({ city: z.string() }) })];
  const call = { id: 'call_7', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Rome"}' } };
  for (const how of ['whole', 'streamed'] as const) {
    const run = (input: ResponseInput): Promise<OpenAI.Responses.Response> => {
      const request = { model: MODEL, input, tools, store: false };
      return how === 'whole' ? openai.responses.parse(request) : openai.responses.stream(request).finalResponse();
    };
    const input: ResponseInput = [{ role: 'user', content: 'What is the weather in Rome?' }];
    if (how === 'whole') crn.play(chatAnswer({ content: null, tool_calls: [call] }, { finish_reason: 'tool_calls' }));
    else crn.play(chatStream(chunk({ tool_calls: [{ index: 0, ...call }] }), finish('tool_calls')));
    const { output } = await run(input);
    t.match(output, [{ type: 'function_call', call_id: 'call_7', parsed_arguments: { city: 'Rome' } }]);
    t.match(crn.last(CHAT_PATH).body, {
      tools: [{ type: 'function', function: { name: 'get_weather', strict: true } }],
    });
    const items = bare(output) as ResponseInput;
    crn.play(how === 'whole' ? chatAnswer({ content: '21' }) : chatStream(chunk({ content: '21' }), finish('stop')));
    const second = await run([...input, ...items, { type: 'function_call_output', call_id: 'call_7', output: '21' }]);
    t.equal(second.output_text, '21');
    const { messages } = crn.last(CHAT_PATH).body as { readonly messages: readonly Json[] };
    t.match(messages, [
      { role: 'user' },
      { role: 'assistant', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_7' },
    ]);
  }
});

t.test('structured output, images, refusals and limits', async (t) => {
  const { crn, openai } = await start(t);
  const Report = z.object({ city: z.string(), degrees: z.number() });
  const report = { city: 'Rome', degrees: 21 };
  const request = { ...ask, text: { format: zodTextFormat(Report, 'report') } };
  crn.play(chatAnswer({ content: JSON.stringify(report) }));
  t.same((await openai.responses.parse(request)).output_parsed, report);
  t.match(crn.last(CHAT_PATH).body, {
    response_format: { type: 'json_schema', json_schema: { name: 'report', strict: true } },
  });
  crn.play(chatStream(chunk({ content: '{"city":"Rome"' }), chunk({ content: ',"degrees":21}' }), finish('stop')));
  t.same((await openai.responses.stream(request).finalResponse()).output_parsed, report);

  const image = 'data:image/png;base64,iVBORw0KGgo=';
  const content = [
    { type: 'input_text' as const, text: 'What is this?' },
    { type: 'input_image' as const, image_url: image, detail: 'auto' as const },
  ];
  crn.play(chatAnswer({ content: 'A canal.' }));
  await openai.responses.create({ model: MODEL, input: [{ role: 'user', content }] });
  t.match(crn.last(CHAT_PATH).body, {
    messages: [{ role: 'user', content: [{ type: 'text' }, { type: 'image_url', image_url: { url: image } }] }],
  });

  crn.play(chatStream(chunk({ refusal: 'No.' }), finish('stop')));
  const refused = await openai.responses.stream(ask).finalResponse();
  t.match(refused.output, [{ type: 'message', content: [{ type: 'refusal', refusal: 'No.' }] }]);
  crn.play(chatStream(chunk({ content: 'Down' }), finish('length')));
  t.match(await openai.responses.stream({ ...ask, max_output_tokens: 1 }).finalResponse(), {
    status: 'incomplete',
    incomplete_details: { reason: 'max_output_tokens' },
    output_text: 'Down',
  });
  t.match(crn.last(CHAT_PATH).body, { max_completion_tokens: 1 });
});

t.test('errors of the CRN keep their status, message, type, code and parameter', async (t) => {
  const { crn, openai } = await start(t);
  const error = { message: 'Bad temperature', type: 'invalid_request_error', param: 'temperature', code: 'bad_value' };
  crn.play(json({ error }, 400));
  for (const run of [openai.responses.create(ask), openai.responses.stream(ask).finalResponse()]) {
    const { code, message, param, status, type } = await thrownBy(run);
    t.same({ code, param, status, type }, { code: error.code, param: error.param, status: 400, type: error.type });
    t.match(message, error.message);
  }
});

t.test('a request that cannot be carried is refused with the name of its field', async (t) => {
  const { openai } = await start(t);
  const { message, status } = await thrownBy(openai.responses.create({ ...ask, tools: [{ type: 'web_search' }] }));
  t.equal(status, 422);
  t.match(message, /web_search|tools/);
});

t.test('a stream that reports an error throws with its message', async (t) => {
  const { crn, openai } = await start(t);
  crn.play(chatStream(chunk({ content: 'Down' }), { error: { message: 'out of memory', code: 'oom' } }));
  t.match(await thrownBy(openai.responses.stream(ask).finalResponse()), { message: /out of memory/, code: 'oom' });
});

t.test('a stream that breaks off is continued on another CRN', async (t) => {
  const crns = [await startScriptedChat(t), await startScriptedChat(t)];
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    models: { [MODEL]: { servers: crns.map(({ url }) => url), pricing: { prompt: '1', completion: '2' } } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
    routing: { continue: 'prefill', retryBudget: 1 },
    log: { level: 'silent' },
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  const answers = [
    events([chunk({ role: 'assistant', content: '' }), chunk({ content: 'Down' })].map(eventOf), 'cut'),
    chatStream(chunk({ content: ' the canal.' }), finish('stop'), usageChunk(usage)),
  ];
  const next: Answer = (request, response) => answers.shift()?.(request, response);
  for (const crn of crns) crn.answers.set(CHAT_PATH, next);
  const openai = new OpenAI({ apiKey: KEY, baseURL: `${url}/v1`, maxRetries: 0 });
  const stream = openai.responses.stream(ask);
  const numbers: number[] = [];
  stream.on('event', (event) => numbers.push(event.sequence_number));
  const { output, output_text: text, status } = await stream.finalResponse();
  t.same({ status, text }, { status: 'completed', text: 'Down the canal.' });
  t.equal(output.length, 1, 'in one item');
  t.same(numbers, [...numbers.keys()]);
  t.same(answers, [], 'both CRNs were asked');
});

t.test('every stream that is cut throws, and its events are numbered without a gap', async (t) => {
  const { crn, openai } = await start(t);
  const call = { index: 0, id: 'call_7', type: 'function', function: { name: 'run', arguments: '{"a":' } };
  const frames = [
    chunk({ role: 'assistant', content: '' }),
    chunk({ reasoning: 'Hm' }),
    chunk({ content: 'Down' }),
    chunk({ content: ' the canal.' }),
    chunk({ tool_calls: [call] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '1}' } }] }),
    finish('tool_calls'),
    DONE,
  ];
  const finished = frames.length - 2;
  for (const end of ['end', 'cut'] as const) {
    for (let cut = 0; cut <= finished; cut++) {
      crn.play(events(frames.slice(0, cut), end));
      const how = `${end} after ${cut} events`;
      await t.rejects(openai.responses.stream(ask).finalResponse(), how);
      const numbers: number[] = [];
      const read = async (): Promise<void> => {
        for await (const event of await openai.responses.create({ ...ask, stream: true }))
          numbers.push(event.sequence_number);
      };
      await t.rejects(read(), how);
      t.same(numbers, [...numbers.keys()], how);
    }
    crn.play(events(frames.slice(0, finished + 1), end));
    t.match(
      await openai.responses.stream(ask).finalResponse(),
      { status: 'completed' },
      `${end} behind the finish reason`,
    );
  }
});
