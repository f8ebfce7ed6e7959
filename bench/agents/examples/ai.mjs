// Vercel `ai` with a tool, over chat completions, responses or messages: `generateText` and `streamText`.

import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, isStepCount, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const { BASE_URL, KEY, MODEL, DIALECT } = process.env;
const baseURL = `${BASE_URL}/v1`;
const providers = {
  chat: () => createOpenAICompatible({ name: 'headrace', baseURL, apiKey: KEY })(MODEL),
  responses: () => createOpenAI({ baseURL, apiKey: KEY }).responses(MODEL),
  messages: () => createAnthropic({ baseURL, apiKey: KEY })(MODEL),
};
const ask = {
  model: providers[DIALECT](),
  prompt: 'What is 2 + 3?',
  stopWhen: (isStepCount ?? stepCountIs)(4),
  tools: {
    add: tool({
      description: 'Adds two numbers.',
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      execute: ({ a, b }) => String(a + b),
    }),
  },
};

const { text, steps } = await generateText(ask);
console.log(steps.length, text);
// Without `onError` a stream that breaks looks like one that has ended.
const onError = ({ error }) => {
  console.error(error);
  process.exitCode = 1;
};
console.log(await streamText({ ...ask, onError }).text);
