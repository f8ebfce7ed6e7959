// POST /completion (and /completions), the llama-style API (docs/interface.md, section 12).
// Streams have no closing word of their own: they end after the event with `stop: true`.
import { plainPrompt } from './turns.ts';
import type { Ask, Frames, Generation, Json, Wire } from './wire.ts';
import { dataFrame, limitOf, NO_CALLS, ONE_CHOICE, stopsOf, textOf } from './wire.ts';

/** Context size every simulated model claims, in tokens. */
export const CONTEXT_TOKENS: number = 32_768;

/** The llama-style dialect. */
export const llama: Wire = {
  read,
  want: (body) => ({ prompts: [plainPrompt(body['prompt'])], tools: [], schema: undefined }),
  answer: (generation) => final(generation, generation.pieces.join('')),
  frames,
  problem,
};

function read(body: Json): Ask {
  return {
    prompt: textOf(body['prompt']),
    maxTokens: limitOf(body, 'n_predict'),
    stops: stopsOf(body['stop']),
    stream: body['stream'] === true,
    includeUsage: true,
    ...ONE_CHOICE,
  };
}

function problem(status: number, message: string): Json {
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
  return { error: { code: status, message, type } };
}

function timings({ promptTokens, pieces, timeToFirstTokenMs, interTokenMs }: Generation): Json {
  const perSecond = (count: number, ms: number): number | null => (ms === 0 ? null : (count * 1000) / ms);
  const predictedMs = pieces.length * interTokenMs;
  return {
    cache_n: 0,
    prompt_n: promptTokens,
    prompt_ms: timeToFirstTokenMs,
    prompt_per_token_ms: timeToFirstTokenMs / promptTokens,
    prompt_per_second: perSecond(promptTokens, timeToFirstTokenMs),
    predicted_n: pieces.length,
    predicted_ms: predictedMs,
    predicted_per_token_ms: interTokenMs,
    predicted_per_second: perSecond(pieces.length, predictedMs),
  };
}

function final(generation: Generation, content: string): Json {
  const { body, model, finish, stoppingWord, ask } = generation;
  return {
    content,
    slot_id: 0,
    stop: true,
    model,
    tokens_predicted: generation.pieces.length,
    tokens_evaluated: generation.promptTokens,
    generation_settings: {
      n_ctx: CONTEXT_TOKENS,
      model,
      n_predict: ask.maxTokens ?? -1,
      seed: body['seed'] ?? -1,
      stop: ask.stops,
      stream: ask.stream,
    },
    prompt: body['prompt'] ?? '',
    truncated: false,
    stopped_eos: finish === 'stop' && stoppingWord === '',
    stopped_limit: finish === 'length',
    stopped_word: stoppingWord !== '',
    stopping_word: stoppingWord,
    tokens_cached: 0,
    timings: timings(generation),
  };
}

function frames(generation: Generation): Frames {
  return {
    opening: () => [],
    token: (piece) => `data: {"content":${JSON.stringify(piece)},"stop":false}\n\n`,
    ...NO_CALLS,
    closing: () => [dataFrame(final(generation, ''))],
    failure: (message) => dataFrame(problem(500, message)),
  };
}
