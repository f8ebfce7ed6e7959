// The cases of one JavaScript client of the messages dialect: `node javascript-messages.mjs CLIENT`, run in the folder of its packages.
// Prints one JSON line per case. BASE_URL, KEY and MODEL are those of the gateway.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { z } from 'zod';

const { BASE_URL: baseURL, KEY: apiKey, MODEL: model } = process.env;
const WEATHER = { Rome: '21 degrees', Oslo: '3 degrees' };
const RESULT = /21 degrees.*3 degrees/;
const THOUGHT = 'The canal leads to the wheel.';
const RECALLED = `You thought: ${THOUGHT}`;
const PIXELS = 'iVBORw0KGgo'.repeat(8);
const IMAGE = `data:image/png;base64,${PIXELS}`;
const city = z.object({ city: z.string() });
const Report = z.object({ city: z.string(), degrees: z.number() });
const REPORT = { city: 'Rome', degrees: 21 };
const USAGE = { input: 12, cached: 4, output: 6 };

const CLIENTS = { anthropic, 'ai-anthropic': ai, 'langchain-anthropic': langchain };

async function anthropic() {
  const { default: Anthropic } = await import('@anthropic-ai/sdk');
  const { betaZodTool } = await import('@anthropic-ai/sdk/helpers/beta/zod');
  const { zodOutputFormat } = await import('@anthropic-ai/sdk/helpers/zod');
  const client = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ''), apiKey, maxRetries: 0 });
  const ask = (content, more = {}) => ({
    model,
    max_tokens: 2048,
    messages: [{ role: 'user', content }],
    ...more,
  });
  const textOf = ({ content }) => content.flatMap(({ text }) => text ?? []).join('');
  const create = (request) => client.messages.create(request);
  const stream = (request) => client.messages.stream(request).finalMessage();
  const tool = betaZodTool({
    name: 'get_weather',
    description: 'The weather of a city',
    inputSchema: city,
    run: ({ city: name }) => WEATHER[name],
  });
  const loop = async (streams) => {
    const request = { ...ask('What is the weather? think'), tools: [tool], stream: streams };
    const final = await client.beta.messages.toolRunner(request).runUntilDone();
    assert.match(textOf(final), RESULT);
  };
  return {
    text: async () => {
      const message = await create(ask('Where?', { system: 'Be brief.' }));
      assert.equal(textOf(message), 'Down the canal, as told: Be brief.');
      assert.equal(message.stop_reason, 'end_turn');
      assert.equal(message.usage.input_tokens, USAGE.input - USAGE.cached);
      assert.equal(message.usage.cache_read_input_tokens, USAGE.cached);
    },
    stream: async () => {
      let text = '';
      for await (const { delta, type } of await client.messages.create({ ...ask('Where?'), stream: true })) {
        if (type === 'content_block_delta') text += delta.text;
      }
      assert.equal(text, 'Down the canal.');
      const blocks = [];
      const helper = client.messages.stream(ask('What is the weather? think', { tools: [plain(tool)] }));
      helper.on('contentBlock', (block) => blocks.push(block));
      const message = await helper.finalMessage();
      assert.deepEqual(blocks, message.content);
      assert.equal(message.usage.output_tokens, USAGE.output);
    },
    'stream and whole': async () => {
      for (const prompt of ['Where?', 'think: where?', 'refuse', 'limit']) {
        const [whole, streamed] = [await create(ask(prompt)), await stream(ask(prompt))];
        const same = ({ content, stop_details, stop_reason, usage }) =>
          JSON.stringify({ content, stop_details, stop_reason, usage });
        assert.equal(same(streamed), same(whole));
      }
    },
    tools: () => loop(false),
    'streamed tools': () => loop(true),
    'structured output': async () => {
      const request = ask('Rome?', { output_config: { format: zodOutputFormat(Report) } });
      assert.deepEqual((await client.messages.parse(request)).parsed_output, REPORT);
      assert.deepEqual((await stream(request)).parsed_output, REPORT);
    },
    reasoning: async () => {
      const thinking = { type: 'enabled', budget_tokens: 1024 };
      const { content } = await stream(ask('think: where?', { thinking }));
      assert.equal(content[0].thinking, THOUGHT);
    },
    'reasoning sent back': async () => {
      const { content } = await stream(ask('think: where?'));
      const messages = [...ask('think: where?').messages, { role: 'assistant', content }, ...ask('recall').messages];
      assert.equal(textOf(await create({ ...ask(''), messages })), RECALLED);
    },
    images: async () => {
      const source = { type: 'base64', media_type: 'image/png', data: PIXELS };
      const content = [
        { type: 'text', text: 'What is this?' },
        { type: 'image', source },
      ];
      assert.equal(textOf(await create(ask(content))), `An image of ${IMAGE.length} characters.`);
    },
    'refusals and limits': async () => {
      assert.equal((await stream(ask('refuse'))).stop_reason, 'refusal');
      assert.equal((await stream(ask('limit'))).stop_reason, 'max_tokens');
    },
    count_tokens: async () => {
      assert.ok((await client.messages.countTokens({ model, messages: ask('Where?').messages })).input_tokens > 0);
    },
    errors: async () => {
      const expected = { status: 400, type: 'invalid_request_error', apiMessage: /too long/ };
      await assert.rejects(create(ask('fail')), expected);
      await assert.rejects(stream(ask('fail')), expected);
    },
    'broken stream': async () => {
      await assert.rejects(stream(ask('break')), { message: /./ });
      await assert.rejects(async () => {
        for await (const event of await client.messages.create({ ...ask('break'), stream: true })) assert.ok(event);
      });
    },
  };
}

/** A tool without what runs it. */
function plain({ description, input_schema, name }) {
  return { name, description, input_schema };
}

async function ai() {
  const { generateText, Output, stepCountIs, streamText, tool } = await import('ai');
  const { createAnthropic } = await import('@ai-sdk/anthropic');
  const options = { model: createAnthropic({ baseURL, apiKey })(model), maxRetries: 0, onError: () => undefined };
  const tools = {
    get_weather: tool({
      description: 'The weather of a city',
      inputSchema: city,
      execute: ({ city: name }) => WEATHER[name],
    }),
  };
  const loop = { ...options, tools, stopWhen: stepCountIs(3), prompt: 'What is the weather? think' };
  const thinking = { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } };
  return {
    text: async () => {
      const { finishReason, text, usage } = await generateText({ ...options, prompt: 'Where?' });
      assert.equal(text, 'Down the canal.');
      assert.equal(finishReason, 'stop');
      assert.equal(usage.inputTokens, USAGE.input);
      assert.equal(usage.inputTokenDetails.cacheReadTokens, USAGE.cached);
    },
    stream: async () => {
      const stream = streamText({ ...options, prompt: 'Where?' });
      assert.equal(await stream.text, 'Down the canal.');
      assert.equal(await stream.finishReason, 'stop');
      const { inputTokens, outputTokens } = await stream.usage;
      assert.deepEqual([inputTokens, outputTokens], [USAGE.input, USAGE.output]);
    },
    tools: async () => assert.match((await generateText(loop)).text, RESULT),
    'streamed tools': async () => {
      const stream = streamText(loop);
      assert.match(await stream.text, RESULT);
      assert.equal((await stream.steps).length, 2);
    },
    'structured output': async () => {
      // As the input of a tool, and as a format.
      for (const structuredOutputMode of ['jsonTool', 'outputFormat']) {
        const request = { ...options, prompt: 'Rome?', providerOptions: { anthropic: { structuredOutputMode } } };
        const { output } = await generateText({ ...request, output: Output.object({ schema: Report }) });
        assert.deepEqual(output, REPORT);
        assert.deepEqual(await streamText({ ...request, output: Output.object({ schema: Report }) }).output, REPORT);
      }
    },
    reasoning: async () => {
      const request = { ...options, prompt: 'think: where?', providerOptions: thinking };
      assert.equal((await generateText(request)).reasoningText, THOUGHT);
      assert.equal(await streamText(request).reasoningText, THOUGHT);
    },
    'reasoning sent back': async () => {
      const request = { ...options, prompt: 'think: where?', providerOptions: thinking };
      for (const { messages: earlier } of [
        (await generateText(request)).response,
        await streamText(request).response,
      ]) {
        const messages = [{ role: 'user', content: 'think: where?' }, ...earlier, { role: 'user', content: 'recall' }];
        const { text } = await generateText({ ...options, messages, providerOptions: thinking });
        assert.equal(text, RECALLED);
      }
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
      assert.equal((await generateText({ ...options, prompt: 'limit' })).finishReason, 'length');
      assert.equal((await generateText({ ...options, prompt: 'refuse' })).finishReason, 'content-filter');
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
  const { ChatAnthropic } = await import('@langchain/anthropic');
  const { HumanMessage, ToolMessage } = await import('@langchain/core/messages');
  const { tool } = await import('@langchain/core/tools');
  const options = { model, apiKey, anthropicApiUrl: baseURL.replace(/\/v1$/, ''), maxRetries: 0, maxTokens: 2048 };
  const chat = new ChatAnthropic(options);
  const weather = tool(({ city: name }) => WEATHER[name], {
    name: 'get_weather',
    description: 'The weather',
    schema: city,
  });
  const loop = async (ask) => {
    const messages = [new HumanMessage('What is the weather? think')];
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
      const thinks = new ChatAnthropic({ ...options, thinking: { type: 'enabled', budget_tokens: 1024 } });
      for (const message of [await thinks.invoke('think: where?'), await gathered(thinks.stream('think: where?'))]) {
        assert.equal(message.text, 'Down the canal.');
        assert.equal(message.content.find(({ type }) => type === 'thinking').thinking, THOUGHT);
      }
    },
    'reasoning sent back': async () => {
      const thinks = new ChatAnthropic({ ...options, thinking: { type: 'enabled', budget_tokens: 1024 } });
      const asked = new HumanMessage('think: where?');
      for (const answer of [await thinks.invoke([asked]), await gathered(thinks.stream([asked]))]) {
        assert.equal((await thinks.invoke([asked, answer, new HumanMessage('recall')])).text, RECALLED);
      }
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

const PACKAGES = {
  anthropic: '@anthropic-ai/sdk',
  'ai-anthropic': '@ai-sdk/anthropic',
  'langchain-anthropic': '@langchain/anthropic',
};

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
