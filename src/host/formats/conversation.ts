// Conversations, tools and response formats of the compatible dialects in one form. Content that a simulated model cannot
// read, such as an image, becomes a short mark that depends on it, so that different images give different answers.
import { hash } from 'node:crypto';
import type { PromptPart } from '../completion-options.ts';
import type { Tool } from '../engine/grammar/json-schema-grammar.ts';
import type { Prompt, Turn } from '../model-engine.ts';
import type { Json } from './format.ts';
/** What a request specifies for the engine: prompts, tools and the form of the answer. */
export interface PromptSpec {
  /** One or more; each has its own choices. */
  readonly prompts: readonly Prompt[];
  /** Names of all tools of the request. */
  readonly offered: readonly string[];
  /** Tools of which the answer calls one; empty when it calls none. */
  readonly tools: readonly Tool[];
  /** JSON schema of the answer; undefined: any text. */
  readonly schema: unknown;
}

const ROLES: ReadonlyMap<unknown, Turn['role']> = new Map([
  ['system', 'system'],
  ['developer', 'system'],
  ['user', 'user'],
  ['assistant', 'assistant'],
  ['tool', 'tool'],
  ['function', 'tool'],
]);

/** Items of the responses dialect. */
const CALLS: ReadonlySet<unknown> = new Set([
  'function_call',
  'custom_tool_call',
  'local_shell_call',
  'web_search_call',
]);
const RESULTS: ReadonlySet<unknown> = new Set([
  'function_call_output',
  'custom_tool_call_output',
  'local_shell_call_output',
]);

/** What `response_format: {type: 'json_object'}` asks for. */
const ANY_OBJECT = { type: 'object' };

/** The prompt of a plain completion: a text, tokens, or both mixed. */
export function plainPrompt(prompt: unknown): Prompt {
  const parts = Array.isArray(prompt) ? prompt : [prompt];
  return { kind: 'parts', parts: parts.filter(isPart) };
}

function isPart(part: unknown): part is PromptPart {
  return typeof part === 'string' || (Number.isInteger(part) && Number(part) >= 0);
}

/** The turns of `messages` or `input`: messages, calls and results of calls. Throws an Error for anything else. */
export function turnsOf(items: readonly unknown[], name: string): Turn[] {
  return items.flatMap((item, at) => {
    if (typeof item !== 'object' || item === null) throw new Error(`${name}[${at}] must be an object`);
    return turnOf(item as Json, `${name}[${at}]`);
  });
}

function turnOf(item: Json, place: string): Turn[] {
  const { action, output, type } = item;
  if (CALLS.has(type)) {
    const custom = type === 'custom_tool_call' && { input: { input: item['input'] } };
    return [{ role: 'assistant', text: callText({ name: type, input: action, ...item, ...custom }) }];
  }
  if (RESULTS.has(type)) return [{ role: 'tool', text: contentText(output) }];
  if (type === 'reasoning') return [];
  const role = ROLES.get(item['role']);
  if (role === undefined) throw new Error(`${place}.role must be one of ${[...ROLES.keys()].join(', ')}`);
  const { content, tool_calls: calls } = item;
  const results = Array.isArray(content) ? content.filter((part) => isType(part, 'tool_result')) : [];
  if (results.length > 0) {
    const rest = contentText((content as unknown[]).filter((part) => !isType(part, 'tool_result')));
    return [
      ...results.map((part: Json) => ({ role: 'tool', text: contentText(part['content']) }) as const),
      ...(rest === '' ? [] : [{ role, text: rest }]),
    ];
  }
  const called = Array.isArray(calls) ? calls.map((call, at) => calledText(call, `${place}.tool_calls[${at}]`)) : [];
  return [{ role, text: [contentText(content), ...called].filter((text) => text !== '').join('\n') }];
}

function calledText(call: unknown, place: string): string {
  if (typeof call !== 'object' || call === null) throw new Error(`${place} must be an object`);
  const { custom = {}, function: described = custom } = call as Json;
  return callText((described ?? {}) as Json);
}

/** A call as the model writes it, so that a conversation it made is found in the cache. */
function callText({ name, arguments: given, input }: Json): string {
  const text = typeof given === 'string' ? given : JSON.stringify(input ?? {});
  return `{"name":${JSON.stringify(name ?? '')},"arguments":${text}}`;
}

/** Text of a content: a text, a part, or an array of parts. */
export function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (Array.isArray(content)) return content.map(contentText).join('\n');
  if (typeof content !== 'object' || content === null) return '';
  const part = content as Json;
  if (isType(part, 'tool_use')) return callText(part);
  if (typeof part['text'] === 'string') return part['text'];
  const image = part['image_url'] ?? part['source'];
  if (image !== undefined) return `[image ${hash('sha256', JSON.stringify(image)).slice(0, 12)}]`;
  return contentText(part['content']);
}

function isType(part: unknown, type: string): boolean {
  return typeof part === 'object' && part !== null && (part as Json)['type'] === type;
}

/** The prompt of a conversation, with the tools or the schema that constrain its answer. */
export function chatPrompt(
  turns: readonly Turn[],
  tools: readonly Tool[],
  choice: unknown,
  schema: unknown,
): PromptSpec {
  const called = chosenTools(tools, choice, turns.at(-1)?.role);
  const speaks = called.length > 0 || schema !== undefined ? 'data' : 'prose';
  const listed = tools.map((tool) => JSON.stringify(tool)).join('\n');
  const prompts = [{ kind: 'chat', turns, speaks, ...(listed !== '' && { tools: listed }) } as const];
  const offered = tools.map(({ name }) => name);
  return { prompts, offered, tools: called, schema: called.length > 0 ? undefined : schema };
}

/**
 * The tools of which one is called: the one that is named, all when one is required, and, left to the model, all unless
 * the last turn is the result of one. Throws an Error for the name of no tool.
 */
function chosenTools(tools: readonly Tool[], choice: unknown, last: Turn['role'] | undefined): readonly Tool[] {
  const kind = typeof choice === 'string' ? choice : (choice as Json | undefined | null)?.['type'];
  if (tools.length === 0 || kind === 'none') return [];
  if (kind === 'required' || kind === 'any') return tools;
  if (kind === 'allowed_tools') {
    const { allowed_tools: inside, mode, tools: allowed } = choice as Json;
    const list = (inside ?? { mode, tools: allowed }) as Json;
    const names = new Set(
      Array.isArray(list['tools']) ? list['tools'].map((tool: Json | null) => nameOf(tool ?? {})) : [],
    );
    return chosenTools(
      tools.filter(({ name }) => names.has(name)),
      list['mode'],
      last,
    );
  }
  if (kind === 'function' || kind === 'tool' || kind === 'custom') {
    const name = nameOf(choice as Json);
    const tool = tools.find((each) => each.name === name);
    if (tool === undefined) throw new Error(`tool_choice names no tool: ${String(name)}`);
    return [tool];
  }
  return last === 'tool' ? [] : tools;
}

/** The name of the tool that a choice names, as each dialect writes it. */
function nameOf({ custom, function: named = custom, name = (named as Json | undefined)?.['name'] }: Json): unknown {
  return name;
}

/** Tools of a request, each `{name, parameters}` under `inside` or by itself; other kinds of tools are left out. */
export function toolsOf(value: unknown, inside: string | null, parameters: string): Tool[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((tool: Json | null) => {
    const described = inside === null ? tool : (tool?.[inside] as Json | undefined);
    const { name, description } = described ?? {};
    if (typeof name !== 'string') return [];
    const schema = described![parameters] ?? undefined;
    return [
      {
        name,
        ...(typeof description === 'string' && { description }),
        ...(schema !== undefined && { parameters: schema }),
      },
    ];
  });
}

/** The schema a format asks for: `response_format`, `text.format` and their kin. */
export function schemaOf(format: unknown): unknown {
  if (typeof format !== 'object' || format === null) return undefined;
  const { type, schema, json_schema: named } = format as Json;
  if (type === 'json_object') return schema ?? ANY_OBJECT;
  if (type !== 'json_schema') return undefined;
  return schema ?? (named as Json | undefined)?.['schema'] ?? ANY_OBJECT;
}
