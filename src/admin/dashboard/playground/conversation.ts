// A conversation of the playground in a form that no dialect owns: what the user and the model said, calls of tools, and results.
// Texts are what was sent and received, and never markup.

export interface AttachedImage {
  /** A data URL, or the address that the server is to read. */
  readonly url: string;
  readonly name: string;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON, as the model wrote it. */
  readonly arguments: string;
}

export interface ToolResult {
  readonly id: string;
  readonly name: string;
  readonly output: string;
}

/** Reasoning with the signature by which the messages dialect accepts it again. */
export interface SignedThinking {
  readonly text: string;
  readonly signature: string;
}

export interface TokenUsage {
  readonly input: number;
  /** Part of the input; null where the server does not say. */
  readonly cached: number | null;
  readonly output: number;
}

export interface Answer {
  readonly text: string;
  readonly reasoning: string;
  readonly thinking: readonly SignedThinking[];
  readonly calls: readonly ToolCall[];
  /** Why the model stopped, in the words of the dialect; '' before the end. */
  readonly finish: string;
  readonly usage: TokenUsage | null;
  /** What went wrong, also behind a part of the answer; null: nothing. */
  readonly error: string | null;
  /** The answer has its regular end. */
  readonly complete: boolean;
}

/** `results`: for all calls of the answer before. */
export type Turn =
  | { readonly role: 'user'; readonly text: string; readonly images: readonly AttachedImage[] }
  | { readonly role: 'assistant'; readonly answer: Answer }
  | { readonly role: 'tool'; readonly results: readonly ToolResult[] };

export const NO_ANSWER: Answer = {
  ...{ text: '', reasoning: '', thinking: [], calls: [] },
  ...{ finish: '', usage: null, error: null, complete: false },
};

export interface Tool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema. */
  readonly parameters: object;
}

/** Tools as the user gave them: functions, and tools of the server, which are sent as they are. */
export interface Tools {
  readonly functions: readonly Tool[];
  readonly others: readonly object[];
}

export const NO_TOOLS: Tools = { functions: [], others: [] };

/** What a request asks for beside the conversation. Null: not sent. */
export interface Parameters {
  readonly system: string;
  readonly stream: boolean;
  readonly maxTokens: number | null;
  readonly temperature: number | null;
  readonly topP: number | null;
  /** Further members of the body; they win over all others. */
  readonly extra: Readonly<Record<string, unknown>>;
}

type JsonObject = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Reads tools in the form of any dialect: one of them, a list, or a body with `tools`. A schema alone is a function named by its `title`. Throws
 * a sentence that says what is wrong.
 */
export function readTools(text: string): Tools {
  if (text.trim() === '') return NO_TOOLS;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`Tools are not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  const listed = isObject(value) && Array.isArray(value['tools']) ? (value['tools'] as unknown[]) : value;
  const functions: Tool[] = [];
  const others: object[] = [];
  for (const [index, given] of (Array.isArray(listed) ? (listed as unknown[]) : [listed]).entries()) {
    const where = `Tool ${index + 1}`;
    if (!isObject(given)) throw new Error(`${where} is not an object`);
    const type = given['type'];
    const inner = isObject(given['function']) ? given['function'] : given;
    const isSchema = type === 'object' && typeof given['title'] === 'string';
    const schema = isSchema ? given : (inner['parameters'] ?? inner['input_schema']);
    const isOther = typeof type === 'string' && !['function', 'custom', 'object'].includes(type);
    if (isOther || (type === 'custom' && schema === undefined)) {
      others.push(given);
      continue;
    }
    const name = isSchema ? given['title'] : inner['name'];
    if (typeof name !== 'string' || name === '') throw new Error(`${where} has no name`);
    if (schema !== undefined && !isObject(schema))
      throw new Error(`${where}, ${name}: its parameters are not a JSON Schema`);
    const description = typeof inner['description'] === 'string' ? inner['description'] : '';
    functions.push({ name, description, parameters: schema ?? { type: 'object', properties: {} } });
  }
  return { functions, others };
}

/** Reads further members of a body. Throws a sentence that says what is wrong. */
export function readExtra(text: string): JsonObject {
  if (text.trim() === '') return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`Further members are not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (!isObject(value)) throw new Error('Further members must be a JSON object, such as {"seed": 1}');
  return value;
}

/** Plain text, or a block of code with the word behind its fence. */
export interface TextPart {
  readonly code: boolean;
  readonly language: string;
  readonly text: string;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/s;

/** Splits a text at fences of code (CommonMark §4.5). A fence without an end, as in a text that still grows, goes to the end. */
export function textParts(text: string): TextPart[] {
  const parts: TextPart[] = [];
  let lines: string[] = [];
  let open: { fence: string; language: string } | null = null;
  const flush = (): void => {
    const joined = lines.join('\n');
    lines = [];
    if (open !== null) parts.push({ code: true, language: open.language, text: joined });
    else if (joined.trim() !== '')
      parts.push({ code: false, language: '', text: joined.replace(/^\n+/, '').trimEnd() });
  };
  for (const line of text.split('\n')) {
    const [, marks = '', info = ''] = FENCE.exec(line) ?? [];
    // Backquotes behind others are code in a line.
    const fence = info.includes('`') ? '' : marks;
    if (open === null && fence !== '') {
      flush();
      open = { fence, language: info.trim().split(/\s/, 1)[0] ?? '' };
    } else if (open !== null && fence.startsWith(open.fence) && info.trim() === '') {
      flush();
      open = null;
    } else {
      lines.push(line);
    }
  }
  flush();
  return parts;
}
