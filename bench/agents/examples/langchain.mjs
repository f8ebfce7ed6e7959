// LangChain with a tool, over chat completions, responses or messages: `invoke` and `stream`.

import { ChatAnthropic } from '@langchain/anthropic';
import { ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { z } from 'zod';

const { BASE_URL, KEY, MODEL, DIALECT } = process.env;
const configuration = { baseURL: `${BASE_URL}/v1` };
const model =
  DIALECT === 'messages'
    ? new ChatAnthropic({ model: MODEL, apiKey: KEY, anthropicApiUrl: BASE_URL })
    : new ChatOpenAI({ model: MODEL, apiKey: KEY, configuration, useResponsesApi: DIALECT === 'responses' });
const add = tool(({ a, b }) => String(a + b), {
  name: 'add',
  description: 'Adds two numbers.',
  schema: z.object({ a: z.number(), b: z.number() }),
});
const bound = model.bindTools([add]);

const streamed = async (messages) => {
  let whole;
  for await (const chunk of await bound.stream(messages)) whole = whole === undefined ? chunk : whole.concat(chunk);
  return whole;
};

for (const ask of [(messages) => bound.invoke(messages), streamed]) {
  const messages = [{ role: 'user', content: 'What is 2 + 3?' }];
  const first = await ask(messages);
  const [call] = first.tool_calls;
  const result = await add.invoke(call.args);
  const last = await ask([...messages, first, new ToolMessage({ content: result, tool_call_id: call.id })]);
  console.log(last.text);
}
