// OpenAI Agents with a tool, over responses or chat completions: `run`, whole and streamed.

import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from '@openai/agents';
import { z } from 'zod';

const { BASE_URL, KEY, MODEL, DIALECT } = process.env;
setTracingDisabled(true);
const modelProvider = new OpenAIProvider({
  baseURL: `${BASE_URL}/v1`,
  apiKey: KEY,
  useResponses: DIALECT === 'responses',
});
const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => String(a + b),
});
const agent = new Agent({ name: 'Adder', model: MODEL, tools: [add] });
const runner = new Runner({ modelProvider });

const whole = await runner.run(agent, 'What is 2 + 3?');
console.log(whole.finalOutput);
const streamed = await runner.run(agent, 'What is 2 + 3?', { stream: true });
await streamed.completed;
console.log(streamed.finalOutput);
