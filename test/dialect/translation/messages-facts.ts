// Naive readers of requests in the messages dialect and of chat completions, which know nothing of how one is translated into the
// other. Both say what a request says in one form, that of messages.

import { isDeepStrictEqual } from 'node:util';
import type { Json } from './random-conversations.ts';

const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
const without = (object: Json, ...names: readonly string[]): Json =>
  Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
const isPresent = (value: unknown): boolean => value !== undefined && value !== null;
const present = (object: Json): Json =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => isPresent(value)));
const textPart = (text: unknown): Json => ({ type: 'text', text });

/** A content as its parts; a text that says nothing is none. */
function partsOf(content: unknown): Json[] {
  const parts = typeof content === 'string' ? [textPart(content)] : list(content);
  return isDeepStrictEqual(parts, [textPart('')]) ? [] : parts;
}

// === What a request of messages says, in one form ===

function plainPart(part: Json): Json[] {
  const { content, context, title, type } = part;
  if (type === 'redacted_thinking') return [];
  if (type === 'search_result') {
    return [textPart(`${title as string}\n${part['source'] as string}`), ...list(content).flatMap(plainPart)];
  }
  if (type !== 'document') return [without(part, 'cache_control', 'citations')];
  const source = part['source'] as Json;
  const heading = [title, context].filter(isPresent).map((line) => `${line as string}\n`);
  const inner = source['data'] ?? source['content'];
  if (typeof inner === 'string') return [textPart(heading.join('') + inner)];
  return [...(heading.length > 0 ? [textPart(heading.join(''))] : []), ...list(inner).flatMap(plainPart)];
}

/** The images of a result, those of its documents included. */
function imagesOf(parts: readonly Json[]): Json[] {
  return parts.flatMap((part) => {
    if (part['type'] === 'image') return plainPart(part);
    return part['type'] === 'document' ? imagesOf(list((part['source'] as Json)['content'])) : [];
  });
}

/** Images of results stand among the parts of the turn: no server takes them elsewhere. */
function plainTurn({ content, role, ...extras }: Json): Json {
  const parts = partsOf(content);
  const isResult = ({ type }: Json): boolean => type === 'tool_result';
  const results = parts.filter(isResult);
  const isImage = ({ type }: Json): boolean => type === 'image';
  const plainResults = results.map(({ content: inner, is_error: isError, ...result }) => ({
    ...without(result, 'cache_control'),
    content: partsOf(
      partsOf(inner)
        .flatMap(plainPart)
        .filter((part) => !isImage(part)),
    ),
    isError: isError === true,
  }));
  const images = results.flatMap(({ content: inner }) => imagesOf(partsOf(inner)));
  const others = parts.filter((part) => !isResult(part)).flatMap(plainPart);
  const ofType = (wanted: string): Json[] => others.filter(({ type }) => type === wanted);
  const thoughts = ofType('thinking').map(({ thinking }) => thinking as string);
  const [calls, said] = [ofType('tool_use'), others.filter(({ type }) => type !== 'thinking' && type !== 'tool_use')];
  return {
    role,
    results: plainResults,
    content: partsOf([...images, ...said]),
    ...(thoughts.length > 0 && { thinking: thoughts.join('\n\n') }),
    calls,
    ...extras,
  };
}

function effortOf(request: Json): unknown {
  const {
    output_config: config,
    reasoning_effort: own,
    thinking,
  } = request as Readonly<Record<string, Json | undefined>>;
  if (own !== undefined) return own;
  if (isPresent(config?.['effort'])) return config?.['effort'];
  if (thinking?.['type'] !== 'enabled') return undefined;
  const budget = thinking['budget_tokens'] as number;
  return budget < 4096 ? 'low' : budget < 16_384 ? 'medium' : 'high';
}

/** Fields that say nothing to a model, or that are given elsewhere. */
const NOT_SAID = [
  ...[
    'cache_control',
    'betas',
    'context_management',
    'diagnostics',
    'speed',
    'container',
    'mcp_servers',
    'inference_geo',
  ],
  ...['system', 'messages', 'tools', 'tool_choice', 'thinking', 'output_config', 'output_format', 'metadata'],
  ...['reasoning_effort', 'chat_template_kwargs', 'stop_sequences', 'service_tier'],
];
const NOT_SAID_OF_TOOLS = ['cache_control', 'input_examples', 'defer_loading', 'eager_input_streaming', 'type'];

/** What a request of messages says. */
export function plainRequest(request: Json): Json {
  const {
    chat_template_kwargs: kwargs,
    metadata,
    output_config: config,
    output_format: format,
    thinking,
  } = request as Readonly<Record<string, Json | undefined>>;
  const { service_tier: tier, stop_sequences: stops, tool_choice: choice } = request;
  const isThinking = { enabled: true, disabled: false }[thinking?.['type'] as string];
  const tools = list(request['tools']).map((tool) => ('function' in tool ? tool : without(tool, ...NOT_SAID_OF_TOOLS)));
  const { disable_parallel_tool_use: isSerial, ...chosen } = (choice ?? {}) as Json;
  return {
    ...without(request, ...NOT_SAID),
    system: partsOf(partsOf(request['system']).flatMap(plainPart)),
    turns: list(request['messages']).map(plainTurn),
    tools,
    ...(choice !== undefined && { choice: chosen }),
    ...(isSerial === true && { isSerial }),
    ...present({
      effort: effortOf(request),
      format: config?.['format'] ?? format,
      kwargs:
        kwargs === undefined && isThinking === undefined
          ? undefined
          : { ...(isThinking !== undefined && { enable_thinking: isThinking }), ...kwargs },
      user: metadata?.['user_id'],
      stops: list(stops).length > 0 ? stops : undefined,
      tier,
    }),
  };
}

// === A chat request, read as one of messages ===

function partBack(part: Json): Json {
  if (part['type'] !== 'image_url') return part;
  const { image_url: image, type: _, ...extras } = part as { image_url: { url: string }; type: string };
  const [, mediaType, data] = /^data:([^;]*);base64,(.*)$/s.exec(image.url) ?? [];
  const source = data === undefined ? { type: 'url', url: image.url } : { type: 'base64', media_type: mediaType, data };
  return { type: 'image', source, ...extras };
}

function resultBack({ content, tool_call_id: id, ...extras }: Json): Json {
  let parts = partsOf(content);
  const first = (parts[0]?.['text'] ?? '') as string;
  const isError = first.startsWith('error: ');
  if (isError && typeof content === 'string') parts = partsOf(content.slice('error: '.length));
  else if (isError) parts = partsOf(parts.slice(1));
  return { ...without(extras, 'role'), type: 'tool_result', tool_use_id: id, content: parts, isError };
}

function callBack({ function: called, ...call }: Json): Json {
  const { arguments: input, name } = called as { arguments: string; name: string };
  return { ...call, type: 'tool_use', name, input: JSON.parse(input) as unknown };
}

function turnsBack(messages: readonly Json[]): Json[] {
  const turns: Json[] = [];
  let results: Json[] = [];
  const endResults = (): void => {
    if (results.length > 0) turns.push({ role: 'user', results, content: [], calls: [] });
    results = [];
  };
  for (const message of messages) {
    const { content, reasoning_content: thinking, role, tool_calls: calls, ...extras } = message;
    if (role === 'tool') {
      results.push(resultBack(message));
      continue;
    }
    if (role !== 'user') endResults();
    const parts = partsOf(content).map(partBack);
    turns.push({
      ...{ role, results, content: parts },
      ...(thinking !== undefined && { thinking }),
      calls: list(calls).map(callBack),
      ...extras,
    });
    results = [];
  }
  endResults();
  return turns;
}

function choiceBack(choice: unknown): Json {
  if (typeof choice === 'string') return { type: choice === 'required' ? 'any' : choice };
  return { type: 'tool', name: ((choice as Json)['function'] as Json)['name'] };
}

/** What a chat request says, as `plainRequest` says it of the request of messages that it was made of. */
export function requestBack(chat: Json): Json {
  const {
    chat_template_kwargs: kwargs,
    messages,
    parallel_tool_calls: isParallel,
    reasoning_effort: effort,
    response_format,
    ...rest
  } = chat;
  const {
    service_tier: tier,
    stop: stops,
    stream_options: options,
    tool_choice: choice,
    tools,
    user,
    ...others
  } = rest;
  const [first, ...later] = list(messages);
  const hasSystem = first?.['role'] === 'system' && later.length >= 0;
  const schema = (response_format as Json | undefined)?.['json_schema'] as Json | undefined;
  if (others['stream'] === true && !isDeepStrictEqual(options, { include_usage: true }))
    throw new Error('no usage is asked for');
  if (others['stream'] !== true && options !== undefined) throw new Error('usage of no stream is asked for');
  if (schema !== undefined && (schema['name'] !== 'output' || schema['strict'] !== true))
    throw new Error('a wrong schema');
  const toolBack = (tool: Json): Json => {
    const { parameters, ...members } = tool['function'] as Json;
    return { ...members, input_schema: parameters };
  };
  return {
    ...others,
    system: hasSystem ? partsOf(first['content']) : [],
    turns: turnsBack(hasSystem ? later : list(messages)),
    tools: list(tools).map((tool) => ((tool['function'] as Json)['name'] === 'f' ? tool : toolBack(tool))),
    ...(choice !== undefined && { choice: choiceBack(choice) }),
    ...(isParallel === false && { isSerial: true }),
    ...present({
      effort,
      format: schema === undefined ? undefined : { type: 'json_schema', schema: schema['schema'] },
      kwargs,
      user,
      stops,
      tier: tier === 'default' ? 'standard_only' : tier,
    }),
  };
}
