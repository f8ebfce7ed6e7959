// Random answers of servers that speak chat completions: the whole answer, and its stream in the ways in which servers write one.

import fc from 'fast-check';

type Json = Record<string, unknown>;

export interface ChatCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

export interface ChatMessage {
  readonly role: 'assistant';
  readonly content: string | null;
  readonly reasoning_content?: string;
  readonly refusal?: string;
  readonly tool_calls?: readonly ChatCall[];
}

/** One answer as the server would give it whole, and as a stream. */
export interface ChatAnswer {
  readonly whole: Json;
  readonly chunks: readonly Json[];
}

const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 });

const TOOLS = ['read_file', 'get_weather', 'run'] as const;

const call: fc.Arbitrary<ChatCall['function']> = fc.record({
  name: fc.constantFrom(...TOOLS),
  arguments: fc
    .dictionary(fc.string({ minLength: 1, maxLength: 6 }), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 })
    .map((value) => JSON.stringify(value)),
});

const message: fc.Arbitrary<ChatMessage> = fc
  .record({
    reasoning: fc.option(text, { nil: undefined }),
    content: fc.option(text, { nil: null }),
    refusal: fc.option(text, { nil: undefined, freq: 6 }),
    calls: fc.array(call, { maxLength: 3 }),
  })
  .map(({ calls, content, reasoning, refusal }) => ({
    role: 'assistant',
    content,
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(refusal === undefined ? {} : { refusal }),
    ...(calls.length === 0
      ? {}
      : { tool_calls: calls.map((one, at) => ({ id: `call_${at}`, type: 'function' as const, function: one })) }),
  }));

/** How a server writes a stream. */
const style = fc.record({
  role: fc.boolean(),
  reasoning: fc.constantFrom('reasoning', 'reasoning_content'),
  usage: fc.constantFrom('last', 'with the finish', 'in every chunk', 'none'),
  /** Characters in one delta. */
  size: fc.integer({ min: 1, max: 12 }),
  wholeCalls: fc.boolean(),
  finishInLastDelta: fc.boolean(),
  emptyDeltas: fc.boolean(),
});

/** An answer with its stream. The stream ends with a finish reason; `[DONE]` is for the caller. */
export const chatAnswer: fc.Arbitrary<ChatAnswer> = fc
  .record({
    message,
    style,
    reason: fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter'),
    prompt: fc.nat({ max: 9000 }),
    completion: fc.nat({ max: 9000 }),
    cached: fc.option(fc.nat({ max: 9000 })),
    thought: fc.option(fc.nat({ max: 9000 })),
  })
  .map(({ cached, completion, message, prompt, reason, style, thought }) => {
    const head = { id: 'chatcmpl-7f3a', created: 1_790_000_000, model: 'atlas-27b' };
    const usage = {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
      ...(cached === null ? {} : { prompt_tokens_details: { cached_tokens: cached } }),
      ...(thought === null ? {} : { completion_tokens_details: { reasoning_tokens: thought } }),
    };
    const counted = style.usage !== 'none';
    const whole = {
      ...head,
      object: 'chat.completion',
      choices: [{ index: 0, message, logprobs: null, finish_reason: reason }],
      ...(counted ? { usage } : {}),
    };
    const deltas = deltasOf(message, style);
    const chunks: Json[] = deltas.map((delta) => ({
      ...head,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta, logprobs: null, finish_reason: null }],
      ...(style.usage === 'in every chunk' ? { usage: { ...usage, completion_tokens: 1 } } : {}),
    }));
    const last = style.finishInLastDelta ? chunks.pop() : undefined;
    const delta = last === undefined ? {} : (last['choices'] as { delta: Json }[])[0]?.delta;
    chunks.push({
      ...head,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta, logprobs: null, finish_reason: reason }],
      ...(style.usage === 'with the finish' ? { usage } : {}),
    });
    if (style.usage === 'last' || style.usage === 'in every chunk') {
      chunks.push({ ...head, object: 'chat.completion.chunk', choices: [], usage });
    }
    return { whole, chunks };
  });

function deltasOf(
  message: ChatMessage,
  style: { readonly [Key in 'role' | 'wholeCalls' | 'emptyDeltas']: boolean } & {
    readonly reasoning: string;
    readonly size: number;
  },
): Json[] {
  const deltas: Json[] = [];
  if (style.role) deltas.push({ role: 'assistant', content: '' });
  for (const piece of cut(message.reasoning_content ?? '', style.size))
    deltas.push({ content: null, [style.reasoning]: piece });
  if (style.emptyDeltas) deltas.push({ content: '' }, {});
  for (const piece of cut(message.content ?? '', style.size)) deltas.push({ content: piece });
  for (const piece of cut(message.refusal ?? '', style.size)) deltas.push({ refusal: piece });
  for (const [index, { function: called, id }] of (message.tool_calls ?? []).entries()) {
    if (style.wholeCalls) {
      deltas.push({ tool_calls: [{ index, id, type: 'function', function: called }] });
      continue;
    }
    deltas.push({ tool_calls: [{ index, id, type: 'function', function: { name: called.name, arguments: '' } }] });
    for (const piece of cut(called.arguments, style.size)) {
      deltas.push({ tool_calls: [{ index, function: { arguments: piece } }] });
    }
  }
  return deltas;
}

function cut(text: string, size: number): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; at += size) pieces.push(text.slice(at, at + size));
  return pieces;
}

/** The bytes of a stream of these chunks, event by event. */
export function eventsOf(chunks: readonly unknown[]): string[] {
  return chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`);
}
