// POST /v1/messages. Events are named, usage is always carried, and the opening events leave with the first token.
import type { Ask, Frames, Generation, Json, Wire } from './wire.ts';
import { limitOf, messagesProblem, namedFrame, stopsOf, textOf } from './wire.ts';

/** The messages dialect of the Anthropic API. */
export const messages: Wire = { read, answer, frames, problem: messagesProblem };

function read(body: Json): Ask {
  if (!Array.isArray(body['messages'])) throw new Error('messages must be an array');
  return {
    prompt: [textOf(body['system']), textOf(body['messages'])].join('\n'),
    maxTokens: limitOf(body, 'max_tokens'),
    stops: stopsOf(body['stop_sequences']),
    stream: body['stream'] === true,
    includeUsage: true,
  };
}

function usage(generation: Generation, outputTokens: number): Json {
  return {
    input_tokens: generation.promptTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: outputTokens,
  };
}

function ending({ finish, stoppingWord }: Generation): Json {
  if (stoppingWord !== '') return { stop_reason: 'stop_sequence', stop_sequence: stoppingWord };
  return { stop_reason: finish === 'length' ? 'max_tokens' : 'end_turn', stop_sequence: null };
}

function head(generation: Generation): Json {
  return { id: `msg_${generation.id}`, type: 'message', role: 'assistant', model: generation.model };
}

function answer(generation: Generation): Json {
  const content = [{ type: 'text', text: generation.pieces.join('') }];
  return { ...head(generation), content, ...ending(generation), usage: usage(generation, generation.pieces.length) };
}

function frames(generation: Generation): Frames {
  const started = { content: [], stop_reason: null, stop_sequence: null, usage: usage(generation, 1) };
  return {
    opening: () => [
      namedFrame({ type: 'message_start', message: { ...head(generation), ...started } }),
      namedFrame({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
    ],
    token: (piece) =>
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":' +
      `${JSON.stringify(piece)}}}\n\n`,
    closing: () => [
      namedFrame({ type: 'content_block_stop', index: 0 }),
      namedFrame({
        type: 'message_delta',
        delta: ending(generation),
        usage: usage(generation, generation.pieces.length),
      }),
      namedFrame({ type: 'message_stop' }),
    ],
    failure: (message) => namedFrame({ type: 'error', error: { type: 'api_error', message } }),
  };
}
