// POST /v1/completions: text in, text out, in the OpenAI shape.
import type { Want } from './turns.ts';
import { plainPrompt, schemaOf } from './turns.ts';
import type { Ask, Frames, Generation, Json, Wire } from './wire.ts';
import {
  completionUsage,
  dataFrame,
  DONE_FRAME,
  limitOf,
  NO_CALLS,
  openaiProblem,
  stopsOf,
  textOf,
  wantsUsage,
} from './wire.ts';

/** The completions dialect of the OpenAI API. */
export const completions: Wire = { read, want, answer, frames, problem: openaiProblem };

function read(body: Json): Ask {
  return {
    prompt: textOf(body['prompt']),
    maxTokens: limitOf(body, 'max_tokens'),
    stops: stopsOf(body['stop']),
    stream: body['stream'] === true,
    includeUsage: wantsUsage(body),
  };
}

function want(body: Json): Want {
  return { prompt: plainPrompt(body['prompt']), tools: [], schema: schemaOf(body['response_format']) };
}

function headOf(generation: Generation): Json {
  const { id, created, model } = generation;
  return { id: `cmpl-${id}`, object: 'text_completion', created, model };
}

function choice(text: string, finishReason: string | null): Json {
  return { index: 0, text, logprobs: null, finish_reason: finishReason };
}

function answer(generation: Generation): Json {
  const choices = [choice(generation.pieces.join(''), generation.finish)];
  return { ...headOf(generation), choices, usage: completionUsage(generation) };
}

function frames(generation: Generation): Frames {
  const head = headOf(generation);
  const { includeUsage } = generation.ask;
  const noUsage = includeUsage ? { usage: null } : {};
  const before = `data: ${JSON.stringify(head).slice(0, -1)},"choices":[{"index":0,"text":`;
  const after = `,"logprobs":null,"finish_reason":null}]${includeUsage ? ',"usage":null' : ''}}\n\n`;
  return {
    opening: () => [],
    token: (piece) => `${before}${JSON.stringify(piece)}${after}`,
    ...NO_CALLS,
    closing: () => [
      dataFrame({ ...head, choices: [choice('', generation.finish)], ...noUsage }),
      ...(includeUsage ? [dataFrame({ ...head, choices: [], usage: completionUsage(generation) })] : []),
      DONE_FRAME,
    ],
    failure: (message) => dataFrame(openaiProblem(500, message, 'server_error')),
  };
}
