// The cases of one JavaScript client: `node javascript.mjs CLIENT`, run in the folder of its packages. Prints one JSON line per case.
// BASE_URL, KEY and MODEL are those of the gateway.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { z } from 'zod';

const { BASE_URL: baseURL, KEY: apiKey, MODEL: model } = process.env;
const WEATHER = { Rome: '21 degrees', Oslo: '3 degrees' };
const RESULT = /21 degrees.*3 degrees/;
const IMAGE = `data:image/png;base64,${'iVBORw0KGgo'.repeat(8)}`;
const city = z.object({ city: z.string() });
const Report = z.object({ city: z.string(), degrees: z.number() });
const REPORT = { city: 'Rome', degrees: 21 };
const USAGE = { input: 12, cached: 4, output: 6 };

const CLIENTS = { openai, ai, langchain, agents };

async function openai() {
  const { default: OpenAI } = await import('openai');
  const { zodTextFormat } = await import('openai/helpers/zod');
  const { zodResponsesFunction } = await import('openai/helpers/zod');
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const tools = [zodResponsesFunction({ name: 'get_weather', parameters: city })];
  const results = (output) =>
    output
      .filter(({ type }) => type === 'function_call')
      .map(({ arguments: args, call_id }) => ({
        type: 'function_call_output',
        call_id,
        output: WEATHER[JSON.parse(args).city],
      }));
  const loop = async (ask) => {
    const input = [{ role: 'user', content: 'What is the weather?' }];
    const first = await ask({ model, input, tools, store: false });
    assert.equal(first.output.length, 2);
    const second = await ask({
      model,
      input: [...input, ...first.output.map(bare), ...results(first.output)],
      tools,
      store: false,
    });
    assert.match(second.output_text, RESULT);
  };
  const bare = (item) => {
    const { parsed_arguments: added, ...members } = item;
    assert.ok(typeof added !== 'string');
    return members;
  };
  return {
    text: async () => {
      const {
        output_text: text,
        status,
        usage,
      } = await client.responses.create({ model, instructions: 'Be brief.', input: 'Where?' });
      assert.equal(text, 'Down the canal, as told: Be brief.');
      assert.equal(status, 'completed');
      assert.equal(usage.input_tokens, USAGE.input);
      assert.equal(usage.input_tokens_details.cached_tokens, USAGE.cached);
    },
    stream: async () => {
      let text = '';
      for await (const event of await client.responses.create({ model, input: 'Where?', stream: true })) {
        if (event.type === 'response.output_text.delta') text += event.delta;
      }
      assert.equal(text, 'Down the canal.');
      const final = await client.responses.stream({ model, input: 'Where?' }).finalResponse();
      assert.equal(final.output_text, text);
      assert.equal(final.usage.output_tokens, USAGE.output);
    },
    tools: () => loop((request) => client.responses.create(request)),
    'streamed tools': () => loop((request) => client.responses.stream(request).finalResponse()),
    previous_response_id: async () => {
      const first = await client.responses.create({ model, input: 'What is the weather?', tools });
      const second = await client.responses.create({
        model,
        input: results(first.output),
        tools,
        previous_response_id: first.id,
      });
      assert.match(second.output_text, RESULT);
    },
    'stored responses': async () => {
      const { id } = await client.responses.create({ model, input: 'Where?' });
      assert.equal((await client.responses.retrieve(id)).output_text, 'Down the canal.');
      const items = [];
      for await (const item of client.responses.inputItems.list(id)) items.push(item);
      assert.equal(items.length, 1);
      await client.responses.delete(id);
      await assert.rejects(client.responses.retrieve(id), { status: 404 });
    },
    background: async () => {
      let response = await client.responses.create({ model, input: 'Where?', background: true });
      while (['queued', 'in_progress'].includes(response.status))
        response = await client.responses.retrieve(response.id);
      assert.equal(response.output_text, 'Down the canal.');
      const events = [];
      for await (const event of await client.responses.create({
        model,
        input: 'Where?',
        background: true,
        stream: true,
      })) {
        events.push(event);
      }
      const [{ response: begun }] = events;
      const rest = [];
      const after = { stream: true, starting_after: 3 };
      for await (const event of await client.responses.retrieve(begun.id, after)) rest.push(event);
      assert.deepEqual(rest, events.slice(4));
    },
    'reasoning sent back': async () => {
      const options = { model, store: false, include: ['reasoning.encrypted_content'] };
      const input = [{ role: 'user', content: 'think: where?' }];
      const { output } = await client.responses.create({ ...options, input });
      const items = output.map(({ content, ...item }) => (item.type === 'reasoning' ? item : { ...item, content }));
      const again = await client.responses.create({
        ...options,
        input: [...input, ...items, { role: 'user', content: 'recall' }],
      });
      assert.equal(again.output_text, 'You thought: The canal leads to the wheel.');
    },
    'custom tools': async () => {
      const request = { model, input: 'patch it', tools: [{ type: 'custom', name: 'apply_patch' }] };
      const { output } = await client.responses.create(request);
      assert.equal(output[0].type, 'custom_tool_call');
      assert.equal(output[0].input, '*** "Begin"\n');
      const streamed = await client.responses.stream(request).finalResponse();
      assert.equal(streamed.output[0].input, output[0].input);
      const result = { type: 'custom_tool_call_output', call_id: output[0].call_id, output: 'patched' };
      const again = { ...request, previous_response_id: (await client.responses.create(request)).id };
      assert.match((await client.responses.create({ ...again, input: [result] })).output_text ?? '', /./);
    },
    logprobs: async () => {
      const request = { model, input: 'Where?', include: ['message.output_text.logprobs'] };
      const tokens = ({ output }) => output[0].content[0].logprobs.map(({ token }) => token).join('');
      assert.equal(tokens(await client.responses.create(request)), 'Down the canal.');
      assert.equal(tokens(await client.responses.stream(request).finalResponse()), 'Down the canal.');
    },
    WebSocket: async () => {
      const { ResponsesWS } = await import('openai/resources/responses/ws');
      const socket = new ResponsesWS(client);
      const ask = (request) =>
        new Promise((resolve, reject) => {
          socket.once('response.completed', ({ response }) => resolve(response));
          socket.once('error', reject);
          socket.send({ type: 'response.create', model, ...request });
        });
      const first = await ask({ input: 'What is the weather?', tools, store: false });
      const second = await ask({ input: results(first.output), tools, store: false, previous_response_id: first.id });
      socket.close();
      assert.match(second.output[0].content[0].text, RESULT);
    },
    'structured output': async () => {
      const request = { model, input: 'Rome?', text: { format: zodTextFormat(Report, 'report') } };
      assert.deepEqual((await client.responses.parse(request)).output_parsed, REPORT);
      assert.deepEqual((await client.responses.stream(request).finalResponse()).output_parsed, REPORT);
    },
    reasoning: async () => {
      const request = { model, input: 'think: where?', reasoning: { effort: 'low' } };
      const whole = await client.responses.create(request);
      assert.equal(whole.output[0].content[0].text, 'The canal leads to the wheel.');
      const { output } = await client.responses.stream(request).finalResponse();
      assert.deepEqual(output[0].content, whole.output[0].content);
      assert.equal(whole.usage.output_tokens_details.reasoning_tokens, 3);
    },
    images: async () => {
      const content = [
        { type: 'input_text', text: 'What is this?' },
        { type: 'input_image', image_url: IMAGE, detail: 'auto' },
      ];
      const { output_text: text } = await client.responses.create({ model, input: [{ role: 'user', content }] });
      assert.equal(text, `An image of ${IMAGE.length} characters.`);
    },
    'refusals and limits': async () => {
      const refused = await client.responses.stream({ model, input: 'refuse' }).finalResponse();
      assert.equal(refused.output[0].content[0].refusal, 'I cannot do that.');
      const limited = await client.responses.stream({ model, input: 'limit', max_output_tokens: 9 }).finalResponse();
      assert.equal(limited.incomplete_details.reason, 'max_output_tokens');
    },
    errors: async () => {
      const expected = { status: 400, code: 'context_length_exceeded', message: /too long/ };
      await assert.rejects(client.responses.create({ model, input: 'fail' }), expected);
      await assert.rejects(client.responses.stream({ model, input: 'fail' }).finalResponse(), expected);
    },
    'broken stream': async () =>
      assert.rejects(client.responses.stream({ model, input: 'break' }).finalResponse(), { message: /./ }),
  };
}

async function ai() {
  const { generateText, Output, stepCountIs, streamText, tool } = await import('ai');
  const { createOpenAI } = await import('@ai-sdk/openai');
  const responses = createOpenAI({ baseURL, apiKey })(model);
  const options = { model: responses, maxRetries: 0, onError: () => undefined };
  const tools = {
    get_weather: tool({
      description: 'The weather of a city',
      inputSchema: city,
      execute: ({ city: name }) => WEATHER[name],
    }),
  };
  const stateless = { openai: { store: false } };
  return {
    text: async () => {
      const { finishReason, text, usage } = await generateText({ ...options, prompt: 'Where?' });
      assert.equal(text, 'Down the canal.');
      assert.equal(finishReason, 'stop');
      assert.equal(usage.inputTokens, USAGE.input);
    },
    stream: async () => {
      const stream = streamText({ ...options, prompt: 'Where?' });
      assert.equal(await stream.text, 'Down the canal.');
      assert.equal(await stream.finishReason, 'stop');
      assert.equal((await stream.usage).outputTokens, USAGE.output);
    },
    tools: async () => {
      const request = { ...options, tools, stopWhen: stepCountIs(3), prompt: 'What is the weather?' };
      assert.match((await generateText({ ...request, providerOptions: stateless })).text, RESULT);
      assert.match((await generateText(request)).text, RESULT);
    },
    'streamed tools': async () => {
      const request = { ...options, tools, stopWhen: stepCountIs(3), prompt: 'think: what is the weather?' };
      const stream = streamText({ ...request, providerOptions: stateless });
      assert.match(await stream.text, RESULT);
      assert.equal((await stream.steps).length, 2);
      // Earlier reasoning is named by its id.
      assert.match(await streamText(request).text, RESULT);
    },
    previous_response_id: async () => {
      const { providerMetadata } = await generateText({ ...options, prompt: 'Where?', instructions: 'Be brief.' });
      const previous = { openai: { previousResponseId: providerMetadata.openai.responseId } };
      const { text } = await generateText({ ...options, prompt: 'And then?', providerOptions: previous });
      assert.match(text, /^Down the canal/);
    },
    'reasoning sent back': async () => {
      const providerOptions = { openai: { store: false, include: ['reasoning.encrypted_content'] } };
      const messages = [{ role: 'user', content: 'think: where?' }];
      const stream = streamText({ ...options, providerOptions, messages });
      const earlier = (await stream.response).messages;
      messages.push(...earlier, { role: 'user', content: 'recall' });
      const { text } = await generateText({ ...options, providerOptions, messages });
      assert.equal(text, 'You thought: The canal leads to the wheel.');
    },
    'structured output': async () => {
      const { output } = await generateText({ ...options, prompt: 'Rome?', output: Output.object({ schema: Report }) });
      assert.deepEqual(output, REPORT);
    },
    images: async () => {
      const content = [
        { type: 'text', text: 'What is this?' },
        { type: 'image', image: IMAGE },
      ];
      assert.match(
        (await generateText({ ...options, messages: [{ role: 'user', content }] })).text,
        /^An image of \d+ characters/,
      );
    },
    'refusals and limits': async () => {
      const { finishReason } = await generateText({ ...options, prompt: 'limit' });
      assert.equal(finishReason, 'length');
    },
    errors: async () => {
      await assert.rejects(generateText({ ...options, prompt: 'fail' }), { statusCode: 400, message: /too long/ });
    },
    'broken stream': async () => {
      const parts = [];
      for await (const part of streamText({ ...options, prompt: 'break' }).fullStream) parts.push(part);
      assert.ok(parts.some(({ type }) => type === 'error'));
    },
  };
}

async function langchain() {
  const { ChatOpenAI } = await import('@langchain/openai');
  const { HumanMessage, ToolMessage } = await import('@langchain/core/messages');
  const { tool } = await import('@langchain/core/tools');
  const options = { model, apiKey, configuration: { baseURL }, useResponsesApi: true, maxRetries: 0 };
  const chat = new ChatOpenAI(options);
  const weather = tool(({ city: name }) => WEATHER[name], {
    name: 'get_weather',
    description: 'The weather',
    schema: city,
  });
  const loop = async (ask) => {
    const messages = [new HumanMessage('What is the weather?')];
    const called = await ask(messages);
    assert.equal(called.tool_calls.length, 2);
    messages.push(called);
    for (const { args, id } of called.tool_calls) {
      messages.push(new ToolMessage({ content: await weather.invoke(args), tool_call_id: id }));
    }
    assert.match((await ask(messages)).text, RESULT);
  };
  const gathered = async (stream) => {
    let message;
    for await (const chunk of await stream) message = message === undefined ? chunk : message.concat(chunk);
    return message;
  };
  return {
    text: async () => {
      const { text, usage_metadata: usage } = await chat.invoke('Where?');
      assert.equal(text, 'Down the canal.');
      assert.equal(usage.input_tokens, USAGE.input);
    },
    stream: async () => {
      const { text, usage_metadata: usage } = await gathered(chat.stream('Where?'));
      assert.equal(text, 'Down the canal.');
      assert.equal(usage.output_tokens, USAGE.output);
    },
    tools: () => loop((messages) => chat.bindTools([weather]).invoke(messages)),
    'streamed tools': () => loop((messages) => gathered(chat.bindTools([weather]).stream(messages))),
    'structured output': async () => {
      assert.deepEqual(await chat.withStructuredOutput(Report, { method: 'jsonSchema' }).invoke('Rome?'), REPORT);
    },
    reasoning: async () => {
      assert.equal((await chat.invoke('think: where?')).text, 'Down the canal.');
      assert.equal((await gathered(chat.stream('think: where?'))).text, 'Down the canal.');
    },
    images: async () => {
      const content = [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: IMAGE } },
      ];
      assert.equal(
        (await chat.invoke([new HumanMessage({ content })])).text,
        `An image of ${IMAGE.length} characters.`,
      );
    },
    errors: async () => assert.rejects(chat.invoke('fail'), { message: /too long/ }),
    'broken stream': async () => assert.rejects(gathered(chat.stream('break'))),
  };
}

async function agents() {
  const agentsPackage = await import('@openai/agents');
  const { Agent, run, setDefaultOpenAIClient, setOpenAIAPI, setOpenAIResponsesTransport, setTracingDisabled, tool } =
    agentsPackage;
  const { default: OpenAI } = await import('openai');
  setDefaultOpenAIClient(new OpenAI({ baseURL, apiKey, maxRetries: 0 }));
  setOpenAIAPI('responses');
  setTracingDisabled(true);
  const weather = tool({
    name: 'get_weather',
    description: 'The weather of a city',
    parameters: city,
    execute: ({ city: name }) => WEATHER[name],
  });
  const plain = new Agent({ name: 'Guide', model, instructions: 'Be brief.' });
  const reporter = new Agent({ name: 'Reporter', model, tools: [weather] });
  const refunds = new Agent({ name: 'Refunds', model, instructions: 'Give money back.' });
  const front = new Agent({ name: 'Front', model, handoffs: [refunds] });
  return {
    text: async () => assert.equal((await run(plain, 'Where?')).finalOutput, 'Down the canal, as told: Be brief.'),
    stream: async () => {
      const result = await run(plain, 'Where?', { stream: true });
      let text = '';
      for await (const piece of result.toTextStream()) text += piece;
      await result.completed;
      assert.equal(text, 'Down the canal, as told: Be brief.');
    },
    tools: async () => assert.match((await run(reporter, 'What is the weather?')).finalOutput, RESULT),
    'streamed tools': async () => {
      const result = await run(reporter, 'think: what is the weather?', { stream: true });
      await result.completed;
      assert.match(result.finalOutput, RESULT);
    },
    previous_response_id: async () => {
      const { lastResponseId } = await run(reporter, 'What is the weather?');
      const { finalOutput } = await run(plain, 'And then?', { previousResponseId: lastResponseId });
      assert.match(finalOutput, /^Down the canal/);
    },
    WebSocket: async () => {
      setOpenAIResponsesTransport('websocket');
      const { finalOutput } = await run(reporter, 'What is the weather?');
      setOpenAIResponsesTransport('http');
      assert.match(finalOutput, RESULT);
    },
    handoff: async () => {
      const { finalOutput, lastAgent } = await run(front, 'I want a refund.');
      assert.equal(lastAgent.name, 'Refunds');
      assert.match(finalOutput, /^Tools say/);
    },
    'structured output': async () => {
      const agent = new Agent({ name: 'Reporter', model, outputType: Report });
      assert.deepEqual((await run(agent, 'Rome?')).finalOutput, REPORT);
    },
    errors: async () => assert.rejects(run(plain, 'fail'), { message: /too long/ }),
    'broken stream': async () => {
      await assert.rejects(async () => {
        const result = await run(plain, 'break', { stream: true });
        await result.completed;
      });
    },
  };
}

const PACKAGES = { openai: 'openai', ai: '@ai-sdk/openai', langchain: '@langchain/openai', agents: '@openai/agents' };

const [name] = process.argv.slice(2);
const { version } = JSON.parse(readFileSync(`node_modules/${PACKAGES[name]}/package.json`, 'utf8'));
for (const [title, run] of Object.entries(await CLIENTS[name]())) {
  let error = null;
  try {
    await run();
  } catch (thrown) {
    error = String(thrown?.stack ?? thrown);
  }
  process.stdout.write(`${JSON.stringify({ client: `${PACKAGES[name]} (JavaScript)`, version, title, error })}\n`);
}
process.exit(0);
