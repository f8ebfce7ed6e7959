// One call of one JavaScript client: `node probe.mjs CLIENT CASE`, run in the folder of its packages. Prints the text of the answer, and
// exits with 1 and the message that a user of the client would see. BASE_URL (without /v1), KEY and MODEL say whom to ask.

const { BASE_URL: root, KEY: apiKey, MODEL: model, PROMPT: prompt } = process.env;
const baseURL = `${root}/v1`;
const [name, kind] = process.argv.slice(2);
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const description = 'The weather of a city';
const weather = () => '21 degrees';
const messages = [{ role: 'user', content: prompt }];

async function openai(module, make) {
  const sdk = await import(module);
  const client = make?.(sdk) ?? new sdk.default({ baseURL, apiKey });
  if (kind === 'tools') {
    const tool = { type: 'function', function: { name: 'get_weather', description, parameters, parse: JSON.parse } };
    tool.function.function = weather;
    return client.chat.completions.runTools({ model, messages, tools: [tool] }).finalContent();
  }
  if (kind !== 'stream') return (await client.chat.completions.create({ model, messages })).choices[0].message.content;
  let text = '';
  for await (const { choices } of await client.chat.completions.create({ model, messages, stream: true })) {
    text += choices[0]?.delta.content ?? '';
  }
  return text;
}

async function anthropic() {
  const { default: Anthropic } = await import('@anthropic-ai/sdk');
  const client = new Anthropic({ baseURL: root, apiKey, authToken: null });
  const ask = { model, max_tokens: 500, messages };
  const textOf = ({ content }) => content.map(({ text = '' }) => text).join('');
  if (kind === 'tools') {
    const tool = { type: 'custom', name: 'get_weather', description, input_schema: parameters, run: weather };
    return textOf(await client.beta.messages.toolRunner({ ...ask, tools: [{ ...tool, parse: (x) => x }] }));
  }
  if (kind === 'stream') return textOf(await client.messages.stream(ask).finalMessage());
  return textOf(await client.messages.create(ask));
}

async function ai(module, make) {
  const { generateText, jsonSchema, stepCountIs, streamText, tool } = await import('ai');
  const chosen = make(await import(module))(model);
  if (kind === 'stream') {
    let failure;
    const stream = streamText({ model: chosen, prompt, onError: ({ error }) => void (failure = error) });
    let text = '';
    for await (const part of stream.textStream) text += part;
    if (failure !== undefined) throw failure;
    return text;
  }
  const tools = { get_weather: tool({ description, inputSchema: jsonSchema(parameters), execute: weather }) };
  const more = kind === 'tools' ? { tools, stopWhen: stepCountIs(3) } : {};
  return (await generateText({ model: chosen, prompt, ...more })).text;
}

async function langchain(chat) {
  if (kind === 'stream') {
    let text = '';
    for await (const chunk of await chat.stream(prompt)) text += chunk.text;
    return text;
  }
  if (kind !== 'tools') return (await chat.invoke(prompt)).text;
  const { HumanMessage, ToolMessage } = await import('@langchain/core/messages');
  const { tool } = await import('@langchain/core/tools');
  const bound = chat.bindTools([tool(weather, { name: 'get_weather', description, schema: parameters })]);
  const asked = new HumanMessage(prompt);
  const answer = await bound.invoke([asked]);
  const results = answer.tool_calls.map(({ id }) => new ToolMessage({ content: weather(), tool_call_id: id }));
  return (await bound.invoke([asked, answer, ...results])).text;
}

async function agents() {
  const { Agent, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool } = await import('@openai/agents');
  const { default: OpenAI } = await import('openai');
  setTracingDisabled(true);
  setOpenAIAPI('chat_completions');
  setDefaultOpenAIClient(new OpenAI({ baseURL, apiKey }));
  const strict = { ...parameters, additionalProperties: false };
  const tools = [tool({ name: 'get_weather', description, parameters: strict, execute: weather })];
  const agent = new Agent({ name: 'probe', model, tools: kind === 'tools' ? tools : [] });
  if (kind !== 'stream') return (await run(agent, prompt)).finalOutput;
  const streamed = await run(agent, prompt, { stream: true });
  for await (const _ of streamed) continue;
  await streamed.completed;
  return streamed.finalOutput;
}

const CLIENTS = {
  'openai-js': () => openai('openai'),
  'openai-js-6': () => openai('openai6'),
  'azure-js': () =>
    openai('openai', ({ AzureOpenAI }) => new AzureOpenAI({ endpoint: root, apiKey, apiVersion: '2024-10-21' })),
  'anthropic-js': anthropic,
  'ai-compatible': () =>
    ai('@ai-sdk/openai-compatible', ({ createOpenAICompatible }) =>
      createOpenAICompatible({ name: 'headrace', baseURL, apiKey }),
    ),
  'ai-openai': () => ai('@ai-sdk/openai', ({ createOpenAI }) => createOpenAI({ baseURL, apiKey })),
  'ai-anthropic': () => ai('@ai-sdk/anthropic', ({ createAnthropic }) => createAnthropic({ baseURL, apiKey })),
  'langchain-js': async () => {
    const { ChatOpenAI } = await import('@langchain/openai');
    return langchain(new ChatOpenAI({ model, apiKey, configuration: { baseURL } }));
  },
  'agents-js': agents,
};

try {
  process.stdout.write(`${await CLIENTS[name]()}\n`);
} catch (error) {
  process.stdout.write(`${error.name}: ${error.message}\n`);
  process.exitCode = 1;
}
