// Naive readers of requests in the responses dialect and of chat completions, which know nothing of how one is translated into the
// other. Both give the facts of a conversation in their order.

import type { Json } from './random-responses.ts';

/** What a conversation says, one fact after the other. */
export type Fact = readonly [kind: string, ...rest: unknown[]];

const filled = (texts: readonly string[]): string => texts.filter((text) => text !== '').join('\n\n');

/** Facts of neighbouring messages of the system and of the assistant are one fact: where one ends is not a fact. */
class Facts {
  readonly list: Fact[] = [];
  #system: string[] = [];
  #assistant = { thoughts: [] as string[], texts: [] as string[], calls: [] as unknown[] };

  system(text: string): void {
    this.#endAssistant();
    this.#system.push(text);
  }

  assistant(add: { thoughts?: string[]; texts?: string[]; calls?: unknown[] }): void {
    // Nothing is left of an empty message.
    if (filled([...(add.thoughts ?? []), ...(add.texts ?? [])]) === '' && (add.calls ?? []).length === 0) return;
    this.#endSystem();
    for (const key of ['thoughts', 'texts', 'calls'] as const)
      this.#assistant[key].push(...((add[key] ?? []) as never[]));
  }

  add(...fact: Fact): void {
    this.end();
    this.list.push(fact);
  }

  end(): Fact[] {
    this.#endSystem();
    this.#endAssistant();
    return this.list;
  }

  #endSystem(): void {
    const text = filled(this.#system);
    if (text !== '') this.list.push(['system', text]);
    this.#system = [];
  }

  #endAssistant(): void {
    const { calls, texts, thoughts } = this.#assistant;
    const [said, thought] = [filled(texts), filled(thoughts)];
    if (said + thought !== '' || calls.length > 0) this.list.push(['assistant', thought, said, calls]);
    this.#assistant = { thoughts: [], texts: [], calls: [] };
  }
}

const present = (value: unknown): boolean => value !== undefined && value !== null;
/** The elements of a list; none of any other value. */
export const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);
/** The members that are neither undefined nor null. */
export const defined = (members: Json): Json =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => present(value)));

// === A naive reader of responses ===

function partOf({ detail, file_data: data, filename, image_url: url, refusal, text, type }: Json): unknown[] {
  if (type === 'input_image') return ['image', url, detail ?? null];
  if (type === 'refusal') return ['text', refusal];
  if (type !== 'input_file') return ['text', text];
  const decoded = Buffer.from((data as string).split(',')[1] as string, 'base64').toString();
  return ['text', `${filename as string}\n${decoded}`];
}

function partsOf(content: unknown): unknown[][] {
  if (typeof content === 'string') return [['text', content]];
  const parts = list(content).map(partOf);
  return parts.length === 0 ? [['text', '']] : parts;
}

const textsIn = (parts: readonly unknown[][]): string[] =>
  parts.filter(([kind]) => kind === 'text').map(([, text]) => text as string);

/** The name of the function that stands for a tool, or for the tool that an item calls. */
export function flatName({ name, namespace, type }: Json): string {
  if (type === 'local_shell' || type === 'local_shell_call') return 'local_shell';
  if (type === 'tool_search' || type === 'tool_search_call') return 'tool_search';
  return namespace === undefined ? (name as string) : `${namespace as string}__${name as string}`;
}

/** Id, name and arguments: those of functions as they are written, others as values. */
function callOf(item: Json): unknown[] {
  const { action, arguments: given, call_id: id, input } = item;
  const { type: _, ...command } = (action ?? {}) as Json;
  switch (item['type']) {
    case 'custom_tool_call':
      return [id, flatName(item), { input }];
    case 'local_shell_call':
      return [id, flatName(item), command];
    default:
      return [id, flatName(item), given];
  }
}

function flatTools(tools: unknown, namespace?: string): Json[] {
  return list(tools).flatMap((tool) =>
    tool['type'] === 'namespace'
      ? flatTools(tool['tools'], tool['name'] as string)
      : [{ ...tool, ...(namespace !== undefined && { namespace }) }],
  );
}

/** What the conversation of a request says. */
export function factsOfResponses({ input, instructions }: Json): Fact[] {
  const facts = new Facts();
  let images: unknown[][] = [];
  const endResults = (): void => {
    if (images.length > 0) facts.add('user', images);
    images = [];
  };
  if (typeof instructions === 'string' && instructions !== '') facts.system(instructions);
  if (typeof input === 'string') facts.add('user', [['text', input]]);
  for (const item of typeof input === 'string' ? [] : list(input)) {
    const { call_id: callId, content, id, output, role, summary, tools, type } = item;
    const isResult = type === 'tool_search_output' || String(type).endsWith('call_output');
    if (!isResult && type !== 'additional_tools') endResults();
    if (type === 'tool_search_output') facts.add('result', callId, filled(flatTools(tools).map(flatName)));
    else if (isResult) {
      const parts = partsOf(output);
      facts.add('result', callId ?? id, filled(textsIn(parts)));
      images.push(...parts.filter(([kind]) => kind === 'image'));
    } else if (type === 'reasoning') {
      const thoughts = list(content).length > 0 ? list(content) : list(summary);
      facts.assistant({ thoughts: thoughts.map(({ text }) => text as string) });
    } else if (String(type).endsWith('_call')) facts.assistant({ calls: [callOf(item)] });
    else if (role === 'user') facts.add('user', partsOf(content));
    else if (role === 'assistant') facts.assistant({ texts: textsIn(partsOf(content)) });
    else if (type !== 'additional_tools') facts.system(filled(textsIn(partsOf(content))));
  }
  endResults();
  return facts.end();
}

const INPUT = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
};

const TEXT = { type: 'string' };
const LOCAL_SHELL = {
  name: 'local_shell',
  description: 'Runs a command and returns its output.',
  parameters: {
    type: 'object',
    properties: {
      command: { type: 'array', items: TEXT },
      env: { type: 'object', additionalProperties: TEXT },
      ...{ timeout_ms: { type: 'integer' }, user: TEXT, working_directory: TEXT },
    },
    required: ['command'],
    additionalProperties: false,
  },
};

function functionOf(tool: Json): Json {
  const { defer_loading: _, description, execution: _e, format, namespace: _n, type, ...rest } = tool;
  if (type === 'local_shell') return LOCAL_SHELL;
  if (type !== 'custom') return defined({ ...rest, name: flatName(tool), description });
  const { definition, syntax } = (format ?? {}) as Json;
  const grammar = `The input follows this grammar (${syntax as string}):\n${definition as string}`;
  const described = [description, definition === undefined ? undefined : grammar].filter(present);
  return {
    name: flatName(tool),
    ...(described.length > 0 && { description: described.join('\n\n') }),
    parameters: INPUT,
  };
}

/** All that the chat request has to say, but for the messages. */
export function optionsOfResponses(request: Json): Json {
  const { include, input, max_output_tokens: limit, parallel_tool_calls: parallel, reasoning, stream, text } = request;
  const { tool_choice: choice, tools, top_logprobs: count } = request;
  const passed = { ...request };
  for (const name of [
    ...[
      'background',
      'client_metadata',
      'conversation',
      'include',
      'input',
      'instructions',
      'max_output_tokens',
      'metadata',
    ],
    ...['parallel_tool_calls', 'previous_response_id', 'reasoning', 'store', 'stream', 'stream_options', 'text'],
    ...['tool_choice', 'tools', 'top_logprobs', 'truncation'],
  ]) {
    delete passed[name];
  }
  const found = list(typeof input === 'string' ? [] : input).filter(
    (item) => item['type'] === 'tool_search_output' || item['type'] === 'additional_tools',
  );
  let functions = [tools, ...found.map((item) => item['tools'])].flatMap((each) => flatTools(each)).map(functionOf);
  const { mode, name, tools: chosen, type } = (typeof choice === 'object' ? (choice ?? {}) : {}) as Json;
  const allowed = list(chosen).map(({ name }) => name);
  if (type === 'allowed_tools') functions = functions.filter(({ name }) => allowed.includes(name));
  if (found.length > 0) {
    functions = functions.filter(({ name }, at) => functions.findIndex((other) => other['name'] === name) === at);
  }
  const hasTools = functions.length > 0;
  const word = type === 'allowed_tools' ? mode : choice;
  let toolChoice: unknown = typeof word === 'string' && (hasTools || word === 'required') ? word : undefined;
  if (type !== undefined && type !== 'allowed_tools') toolChoice = { type: 'function', function: { name } };
  const { format, verbosity } = (text ?? {}) as Json;
  const { type: formatType, ...schema } = (format ?? {}) as Json;
  const responseFormat =
    formatType === 'json_schema' ? { type: formatType, json_schema: schema } : { type: 'json_object' };
  const asks = list(include).includes('message.output_text.logprobs' as unknown as Json);
  return {
    ...passed,
    ...defined({
      ...{ max_completion_tokens: limit, reasoning_effort: (reasoning as Json | undefined)?.['effort'], verbosity },
      tools: hasTools ? functions.map((each) => ({ type: 'function', function: each })) : undefined,
      tool_choice: toolChoice,
      parallel_tool_calls: hasTools ? parallel : undefined,
      response_format: formatType === undefined || formatType === 'text' ? undefined : responseFormat,
      logprobs: asks ? true : undefined,
      top_logprobs: asks ? count : undefined,
      stream,
      stream_options: stream === true ? { include_usage: true } : undefined,
    }),
  };
}

// === A naive reader of chat completions ===

function chatParts(content: unknown): unknown[][] {
  if (typeof content === 'string') return [['text', content]];
  return list(content).map((part) => {
    const { detail, url } = (part['image_url'] ?? {}) as Json;
    return part['type'] === 'text' ? ['text', part['text']] : ['image', url, detail ?? null];
  });
}

/**
 * What the messages of a chat request say.
 * @param request the original one: arguments of its calls of functions are texts, all others values
 */
export function factsOfChat(messages: Json[], request: Json): Fact[] {
  const facts = new Facts();
  const asValues = new Set(
    callsOf(request).flatMap((call) => (call['type'] === 'function_call' ? [] : [call['call_id']])),
  );
  for (const { content, reasoning_content: thought, role, tool_call_id: id, tool_calls: calls } of messages) {
    if (role === 'system') facts.system(content as string);
    else if (role === 'user') facts.add('user', chatParts(content));
    else if (role === 'tool') facts.add('result', id, content);
    else {
      facts.assistant({
        ...(typeof thought === 'string' && { thoughts: [thought] }),
        ...(typeof content === 'string' && { texts: [content] }),
        calls: list(calls).map(({ function: called, id: callId }) => {
          const { arguments: given, name } = called as { arguments: string; name: string };
          return [callId, name, asValues.has(callId) ? (JSON.parse(given) as unknown) : given];
        }),
      });
    }
  }
  return facts.end();
}

/** Items of a request that call a tool. */
export const callsOf = (request: Json): Json[] =>
  list(request['input']).filter(({ type }) => String(type).endsWith('_call'));
