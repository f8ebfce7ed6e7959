// POST /v1/responses. Every event carries sequence_number, output_index, content_index and item ids, which strict
// clients need; an answer cut by its limit ends as `response.incomplete`.
import type { Ask, Frames, Generation, Json, Wire } from './wire.ts';
import { limitOf, namedFrame, openaiProblem, stopsOf, textOf } from './wire.ts';

/** The responses dialect of the OpenAI API. */
export const responses: Wire = {
  read,
  answer: (generation) => response(generation, 'ended'),
  frames,
  problem: openaiProblem,
};

function read(body: Json): Ask {
  return {
    prompt: [textOf(body['instructions']), textOf(body['input'])].join('\n'),
    maxTokens: limitOf(body, 'max_output_tokens'),
    stops: stopsOf(body['stop']),
    stream: body['stream'] === true,
    includeUsage: true,
  };
}

function usage({ promptTokens, pieces }: Generation): Json {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: pieces.length,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: promptTokens + pieces.length,
  };
}

function textPart(text: string): Json {
  return { type: 'output_text', text, annotations: [], logprobs: [] };
}

function message(generation: Generation, status: string, content: readonly Json[]): Json {
  return { id: `msg_${generation.id}`, type: 'message', status, role: 'assistant', content };
}

function response(generation: Generation, stage: 'started' | 'ended' | 'failed', error: Json | null = null): Json {
  const { body, finish, pieces } = generation;
  const ended = stage === 'ended';
  const endStatus = finish === 'length' ? 'incomplete' : 'completed';
  return {
    id: `resp_${generation.id}`,
    object: 'response',
    created_at: generation.created,
    status: ended ? endStatus : stage === 'failed' ? 'failed' : 'in_progress',
    error,
    incomplete_details: ended && finish === 'length' ? { reason: 'max_output_tokens' } : null,
    instructions: body['instructions'] ?? null,
    max_output_tokens: body['max_output_tokens'] ?? null,
    model: generation.model,
    output: ended ? [message(generation, endStatus, [textPart(pieces.join(''))])] : [],
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: false,
    temperature: body['temperature'] ?? 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: body['top_p'] ?? 1,
    truncation: 'disabled',
    usage: ended ? usage(generation) : null,
    metadata: {},
  };
}

function frames(generation: Generation): Frames {
  let sequence = 0;
  const itemId = `msg_${generation.id}`;
  const place = { item_id: itemId, output_index: 0, content_index: 0 };
  const event = (type: string, rest: Json): string => namedFrame({ type, sequence_number: sequence++, ...rest });
  const delta = 'response.output_text.delta';
  const beforeDelta = `event: ${delta}\ndata: {"type":"${delta}",${JSON.stringify(place).slice(1, -1)},"logprobs":[],"sequence_number":`;
  const status = generation.finish === 'length' ? 'incomplete' : 'completed';
  return {
    opening: () => [
      event('response.created', { response: response(generation, 'started') }),
      event('response.in_progress', { response: response(generation, 'started') }),
      event('response.output_item.added', { output_index: 0, item: message(generation, 'in_progress', []) }),
      event('response.content_part.added', { ...place, part: textPart('') }),
    ],
    token: (piece) => `${beforeDelta}${sequence++},"delta":${JSON.stringify(piece)}}\n\n`,
    closing() {
      const text = generation.pieces.join('');
      const item = message(generation, status, [textPart(text)]);
      return [
        event('response.output_text.done', { ...place, text, logprobs: [] }),
        event('response.content_part.done', { ...place, part: textPart(text) }),
        event('response.output_item.done', { output_index: 0, item }),
        event(`response.${status}`, { response: response(generation, 'ended') }),
      ];
    },
    failure: (text) =>
      event('response.failed', { response: response(generation, 'failed', { code: 'server_error', message: text }) }),
  };
}
