// Writes a request of the responses dialect as a request of chat completions. Text, arguments, schemas and numbers are copied as
// they are written. What would change the answer if it were left out is refused by name.

import { bodyTape as tape } from '../body-scan.ts';
import { nameId, nameIds } from '../json-names.ts';
import { JsonTape } from '../json-tape.ts';
import { ChatRequest } from './chat-request.ts';
import { carried, dropped, type Field, FieldTable, passed, refused, type Table, TypeTable } from './field-table.ts';
import { clearList, JsonWriter, literal, type WrittenText } from './json-writer.ts';
import { reasoningIn } from './opaque-reasoning.ts';
import { each, isTrueIn, optionalString, present, stringIn } from './request-values.ts';
import { type CalledTool, repeatedSpans, ResponseEcho } from './response-echo.ts';
import { ResponsesAnswer } from './responses-answer.ts';
import type { AnswerTranslator, Repeats } from './translation.ts';
import { untranslatable, untranslatableType } from './untranslatable.ts';

const { NONE, ROOT } = JsonTape;
const NAME = nameIds(
  'action',
  'allowed_tools',
  'arguments',
  'assistant',
  'auto',
  'call_id',
  'client',
  'content',
  'definition',
  'description',
  'developer',
  'execution',
  'external_web_access',
  'file_data',
  'filename',
  'format',
  'id',
  'image_url',
  'input',
  'input_text',
  'instructions',
  'local_shell',
  'logprobs',
  'message.output_text.logprobs',
  'mode',
  'name',
  'namespace',
  'none',
  'output',
  'parallel_tool_calls',
  'refusal',
  'response_format',
  'role',
  'stream',
  'summary',
  'syntax',
  'system',
  'text',
  'tool_choice',
  'tool_search',
  'tools',
  'top_logprobs',
  'type',
  'user',
);

/** Texts that are written for each message, call, result or tool. */
const LITERAL = {
  user: literal('{"role":"user","content":'),
  toolResult: literal('{"role":"tool","tool_call_id":'),
  content: literal(',"content":'),
  assistant: literal('{"role":"assistant","content":'),
  reasoning: literal(',"reasoning_content":'),
  toolCalls: literal(',"tool_calls":['),
  functionCall: literal(',"type":"function","function":{"name":'),
  arguments: literal(',"arguments":'),
  function: literal('{"type":"function","function":{"name":'),
} as const;

/** A text: a string of the tape, or text of the program. */
type Text = number | string;

/** Which message is being collected: it is written when an item comes that does not belong to it. */
type Pending = 'none' | 'system' | 'assistant' | 'results';

// One request at a time: all that follows is of the request that is being written.
const out = new JsonWriter(tape);
const deps = { tape, out };

let pending: Pending = 'none';
const texts: Text[] = [];
const thoughts: Text[] = [];
const calls: number[] = [];
const callWriters: ((item: number) => void)[] = [];
const images: number[] = [];
/** Lists of tools that stand between the items of the input. */
const foundTools: number[] = [];
/** Of the tools that are being written; `NONE` outside of one. */
let namespace: number = NONE;
/** Tools that functions stand for, by the names of the functions. */
let standIns: Map<string, CalledTool> | null = null;
/** Where the members stand that responses repeat. */
let repeated: readonly number[] = [];
/** Names of the only functions that may be called; null where all may. */
let allowed: Set<string> | null = null;
/** Names of the functions that were written, where one may come twice; else null. */
let written: Set<string> | null = null;
/** Whether any tool was written. */
let hasTools = false;

/** A request of the responses dialect as one of chat completions. Throws `HR_REQUEST_UNTRANSLATABLE` (422). */
export class ResponsesRequest extends ChatRequest {
  readonly #echo: ResponseEcho;

  constructor(body: Buffer, { continues = '', shown = body }: Repeats = {}) {
    super(body, writeRequest);
    this.#echo = new ResponseEcho(shown, standIns, shown === body ? repeated : null, continues);
  }

  answer(): AnswerTranslator {
    return new ResponsesAnswer(this.#echo);
  }
}

function writeRequest(): WrittenText {
  pending = 'none';
  for (const list of [texts, thoughts, calls, callWriters, images, foundTools]) clearList(list);
  standIns = allowed = written = null;
  namespace = NONE;
  repeated = repeatedSpans(tape);
  out.begin();
  out.latin1('{"messages":[');
  writeConversation();
  out.latin1(']');
  writeTools();
  BODY.write(ROOT);
  out.latin1('}');
  return out.take();
}

// === What is read and written again and again ===

function isOfType(object: number, type: number): boolean {
  return tape.name(tape.member(object, NAME.type)) === type;
}

/** Writes texts as one string, with an empty line between two. */
function writeJoined(parts: readonly Text[]): void {
  out.latin1('"');
  let isFirst = true;
  for (const part of parts) {
    if (part === '' || (typeof part === 'number' && tape.isEmpty(part))) continue;
    if (!isFirst) out.latin1('\\n\\n');
    isFirst = false;
    if (typeof part === 'number') out.inside(part);
    else writeInside(part);
  }
  out.latin1('"');
}

/** Writes text of the program as the inside of a JSON string. */
function writeInside(text: string): void {
  const json = Buffer.from(JSON.stringify(text));
  out.copy(json, 1, json.length - 1);
}

// === Parts of messages ===

/** Where the parts being read go: to the message being written, or to what is collected for one that holds text only. */
let isWritingParts = false;
/** What can hold no image; '' for what can. */
let textOnly = '';

function addText(text: Text): void {
  if (!isWritingParts) {
    texts.push(text);
    return;
  }
  out.next('{"type":"text","text":');
  writeJoined([text]);
  out.latin1('}');
}

function addImage(part: number): void {
  if (isWritingParts) writeImage(part);
  else if (textOnly === '') images.push(part);
  else throw untranslatable(tape, part, `${textOnly} can hold no image.`);
}

function writeImage(part: number): void {
  out.next('{"type":"image_url","image_url":{');
  IMAGE.write(part);
  stringIn(part, NAME.image_url);
  out.latin1('}}');
}

const TEXT_FILE = /^data:(?:text\/|application\/(?:[\w.-]+\+)?(?:json|xml|yaml)\b)[^,]*;base64,/i;

function addFile(part: number): void {
  FILE.write(part);
  const url = tape.string(stringIn(part, NAME.file_data)) ?? '';
  const head = TEXT_FILE.exec(url);
  if (head === null) throw untranslatable(tape, part, 'Only a text file, as a base64 data URL, can be carried.');
  const text = Buffer.from(url.slice(head[0].length), 'base64').toString('utf8');
  const name = tape.string(optionalString(part, NAME.filename)) ?? '';
  addText(name === '' ? text : `${name}\n${text}`);
}

const PARTS = new TypeTable(
  deps,
  'input[].content[]',
  [
    carried('input_text', 'messages[].content', 'A text part; the only part of a message becomes a string.', (part) =>
      addText(stringIn(part, NAME.text)),
    ),
    carried('output_text', 'messages[].content', 'Text. Annotations and log-probabilities are dropped.', (part) =>
      addText(stringIn(part, NAME.text)),
    ),
    carried('text', 'messages[].content', 'Text.', (part) => addText(stringIn(part, NAME.text))),
    carried('refusal', 'messages[].content', 'Its text.', (part) => addText(stringIn(part, NAME.refusal))),
    carried('input_image', 'messages[].content[] image_url', 'An image by URL or as a data URL.', addImage),
    carried('input_file', 'messages[].content', 'A text file, decoded; other files are refused.', addFile),
    refused('input_audio', 'Audio is not carried.'),
  ],
  { action: 'refused', note: 'Chat completions have no such part.' },
);

const BREAKPOINT = dropped('prompt_cache_breakpoint', 'Servers find the cached part of a prompt themselves.');
const ONLY_INLINE = 'Only content that is in the request, or an image by its address, can be carried.';
const OTHER_PART_FIELDS = { action: 'dropped', note: 'Not part of the content.' } as const;

const IMAGE = new FieldTable(
  deps,
  'input[].content[] input_image',
  [
    carried('type', 'type', 'An image is an object of its own: `{type: image_url, image_url: {…}}`.', null),
    refused('file_id', ONLY_INLINE),
    carried('image_url', 'url', 'A URL or a data URL.'),
    passed('detail', 'Resolution.'),
    BREAKPOINT,
  ],
  OTHER_PART_FIELDS,
);

const FILE = new FieldTable(
  deps,
  'input[].content[] input_file',
  [
    carried('type', 'type', 'Text.', null),
    refused('file_id', ONLY_INLINE),
    refused('file_url', ONLY_INLINE),
    carried('file_data', 'text', 'A base64 data URL of text, JSON, XML or YAML, decoded.', null),
    carried('filename', 'text', 'The first line of the text.', null),
    dropped('detail', 'Only images have it.'),
    BREAKPOINT,
  ],
  OTHER_PART_FIELDS,
);

// === Messages ===

function writeConversation(): void {
  const instructions = optionalString(ROOT, NAME.instructions);
  if (instructions !== NONE && !tape.isEmpty(instructions)) {
    pending = 'system';
    texts.push(instructions);
  }
  const input = present(ROOT, NAME.input);
  if (input !== NONE && tape.isString(input)) writeUser(input);
  else if (input !== NONE) each(input, readItem);
  flush();
}

function readItem(item: number): void {
  const row = ITEMS.find(item);
  if (row?.write != null) row.write(item, item);
  else if (row === undefined && tape.isObject(item) && tape.member(item, NAME.type) === NONE) readMessage(item);
  else ITEMS.write(item);
}

function readMessage(item: number): void {
  const role = stringIn(item, NAME.role);
  const content = present(item, NAME.content);
  if (tape.name(role) === NAME.user) writeUser(content);
  else if (tape.name(role) === NAME.assistant) {
    beginAssistant();
    collect(content, 'A message of the assistant');
  } else if (tape.name(role) === NAME.system || tape.name(role) === NAME.developer) {
    if (pending !== 'system') flush();
    pending = 'system';
    collect(content, 'A system message');
  } else throw untranslatable(tape, role, 'There is no such role.');
}

function writeUser(content: number): void {
  flush();
  out.next(LITERAL.user);
  if (content !== NONE && tape.isString(content)) out.value(content);
  else if (content === NONE || (tape.isArray(content) && tape.isEmpty(content))) out.latin1('""');
  else {
    const first = tape.first(content);
    const isAlone = tape.isArray(content) && tape.next(first) === tape.next(content) && isText(first);
    if (isAlone) out.value(stringIn(first, NAME.text));
    else {
      out.latin1('[');
      isWritingParts = true;
      each(content, writePart);
      out.latin1(']');
    }
  }
  out.latin1('}');
}

function isText(part: number): boolean {
  return isOfType(part, NAME.input_text) || isOfType(part, NAME.text);
}

function writePart(part: number): void {
  isWritingParts = true;
  PARTS.write(part);
}

/** Collects texts, and images unless there can be none in `where`. */
function collect(content: number, where: string): void {
  isWritingParts = false;
  textOnly = where;
  if (content === NONE) texts.push('');
  else if (tape.isString(content)) texts.push(content);
  else {
    each(content, collectPart);
    if (tape.isEmpty(content)) texts.push('');
  }
}

function collectPart(part: number): void {
  PARTS.write(part);
}

/** A message of the assistant goes on, unless it has text and no calls: what follows is another one then. */
function beginAssistant(): void {
  const isComplete = texts.length > 0 && calls.length === 0;
  if (pending !== 'assistant' || isComplete) flush();
  pending = 'assistant';
}

/** The row of a call, which `write` writes when its message ends. */
function carriedCall(name: string, note: string, write: (item: number) => void): Field {
  return carried(name, 'messages[].tool_calls[]', note, (item) => {
    if (pending !== 'assistant') flush();
    pending = 'assistant';
    calls.push(item);
    callWriters.push(write);
  });
}

function readThoughts(parts: number): void {
  each(parts, readThought);
}

function readThought(part: number): void {
  thoughts.push(stringIn(part, NAME.text));
}

function writeResult(item: number): void {
  beginResult(item);
  collect(present(item, NAME.output), '');
  endResult();
}

/** What a search has found becomes tools of the request; its result are their names. */
function writeFoundTools(item: number): void {
  beginResult(item);
  const tools = present(item, NAME.tools);
  if (tools !== NONE) {
    foundTools.push(tools);
    nameTools(tools, NONE);
  }
  endResult();
}

function nameTools(tools: number, namespace: number): void {
  each(tools, (tool) => {
    if (isOfType(tool, NAME.namespace)) {
      const inner = present(tool, NAME.tools);
      if (inner !== NONE) nameTools(inner, stringIn(tool, NAME.name));
    } else texts.push(functionName(tool, namespace));
  });
}

function beginResult(item: number): void {
  if (pending !== 'results') flush();
  pending = 'results';
  out.next(LITERAL.toolResult);
  out.value(callId(item));
  out.literal(LITERAL.content);
}

function endResult(): void {
  writeJoined(texts);
  clearList(texts);
  out.latin1('}');
}

/** Writes the message that was collected. */
function flush(): void {
  if (pending === 'system') {
    out.next('{"role":"system","content":');
    writeJoined(texts);
    out.latin1('}');
  } else if (pending === 'assistant') writeAssistant();
  else if (pending === 'results' && images.length > 0) writeImages();
  clearList(texts);
  pending = 'none';
}

function writeAssistant(): void {
  // Nothing is left of reasoning that only its own server can read.
  if (texts.length + thoughts.length + calls.length === 0) return;
  out.next(LITERAL.assistant);
  if (texts.length === 0 && calls.length > 0) out.latin1('null');
  else writeJoined(texts);
  if (thoughts.length > 0) {
    out.literal(LITERAL.reasoning);
    writeJoined(thoughts);
  }
  if (calls.length > 0) {
    out.literal(LITERAL.toolCalls);
    for (let index = 0; index < calls.length; index++) callWriters[index]?.(calls[index] as number);
    out.latin1(']');
  }
  out.latin1('}');
  clearList(calls);
  clearList(callWriters);
  clearList(thoughts);
}

function writeImages(): void {
  out.next('{"role":"user","content":[');
  for (const image of images) writeImage(image);
  out.latin1(']}');
  clearList(images);
}

const OTHER_ITEM_FIELDS = { action: 'dropped', note: 'Not part of the conversation.' } as const;

const MESSAGE: Table = {
  path: 'input[] message',
  fields: [
    carried('type', '', 'Optional.', null),
    carried('role', 'role', '`developer` becomes `system`.', null),
    carried('content', 'content', 'A string or a list of parts.', null),
    dropped('id', 'Messages have no ids.'),
    dropped('status', 'Messages have no status.'),
    dropped('phase', 'Messages have no phases.'),
  ],
  others: OTHER_ITEM_FIELDS,
  ofTypes: false,
};

const REASONING_ITEM = new FieldTable(
  deps,
  'input[] reasoning',
  [
    carried('content', 'messages[].reasoning_content', 'Text of its parts.', readThoughts),
    carried(
      'summary',
      'messages[].reasoning_content',
      'Text of its parts, where there is no content.',
      (parts, item) => {
        if (!hasParts(item, NAME.content)) readThoughts(parts);
      },
    ),
    carried(
      'encrypted_content',
      'messages[].reasoning_content',
      'Where there is no text, and the gateway has written it; what other servers have encrypted is left out.',
      (opaque, item) => {
        if (hasParts(item, NAME.content) || hasParts(item, NAME.summary)) return;
        const text = reasoningIn(tape.string(opaque) ?? '');
        if (text !== undefined) thoughts.push(text);
      },
    ),
  ],
  OTHER_ITEM_FIELDS,
);

function hasParts(item: number, name: number): boolean {
  const parts = present(item, name);
  return parts !== NONE && !tape.isEmpty(parts);
}

function readReasoning(item: number): void {
  beginAssistant();
  REASONING_ITEM.write(item);
}

// === Calls ===

/** The id that a call and its result share. The result of a shell call has it as its own. */
function callId(item: number): number {
  const id = present(item, NAME.call_id);
  return id !== NONE && tape.isString(id) ? id : stringIn(item, id === NONE ? NAME.id : NAME.call_id);
}

/** The beginning of a call, up to the name of its function. */
function beginCall(item: number): void {
  out.next('{"id":');
  out.value(callId(item));
  out.literal(LITERAL.functionCall);
}

function writeFunctionCall(item: number): void {
  beginCall(item);
  writeName(item, optionalString(item, NAME.namespace));
  out.literal(LITERAL.arguments);
  writeArguments(present(item, NAME.arguments));
  out.latin1('}}');
}

function writeCustomCall(item: number): void {
  beginCall(item);
  writeName(item, optionalString(item, NAME.namespace));
  out.latin1(String.raw`,"arguments":"{\"input\":`);
  out.quoted(stringIn(item, NAME.input));
  out.latin1('}"}}');
}

function writeShellCall(item: number): void {
  beginCall(item);
  out.latin1('"local_shell","arguments":');
  writeAction(present(item, NAME.action));
  out.latin1('}}');
}

function writeSearchCall(item: number): void {
  beginCall(item);
  out.latin1('"tool_search","arguments":');
  writeArguments(present(item, NAME.arguments));
  out.latin1('}}');
}

function writeArguments(value: number): void {
  if (value === NONE) out.latin1('"{}"');
  else if (tape.isString(value)) out.value(value);
  else {
    out.latin1('"');
    out.quoted(value);
    out.latin1('"');
  }
}

/** Writes the members of a shell action but its type as arguments. */
function writeAction(action: number): void {
  out.latin1('"{');
  let isFirst = true;
  if (action !== NONE) {
    if (!tape.isObject(action)) throw untranslatable(tape, action, 'It is no object.');
    for (let key = tape.first(action), end = tape.next(action); key < end; key = tape.next(tape.valueOf(key))) {
      if (tape.name(key) === NAME.type) continue;
      if (!isFirst) out.latin1(',');
      isFirst = false;
      out.quoted(key);
      out.latin1(':');
      out.quoted(tape.valueOf(key));
    }
  }
  out.latin1('}"');
}

const CALL: Table = {
  path: 'input[] calls',
  fields: [
    carried('call_id', 'id', 'The same id.', null),
    carried('name', 'function.name', 'With its namespace and `__` before it, where it has one.', null),
    carried('namespace', 'function.name', 'Written before the name, with `__` between.', null),
    carried('arguments', 'function.arguments', 'A string is kept as it is; an object becomes a string.', null),
    carried('input', 'function.arguments', 'The text of a custom call, as `{"input": …}`.', null),
    carried('action', 'function.arguments', 'The action of a shell call without its type.', null),
    dropped('id', 'Messages have no ids.'),
    dropped('status', 'Calls have no status.'),
    dropped('execution', 'Always the client.'),
  ],
  others: OTHER_ITEM_FIELDS,
  ofTypes: false,
};

const RESULT: Table = {
  path: 'input[] results',
  fields: [
    carried('call_id', 'tool_call_id', 'The same id.', null),
    carried('id', 'tool_call_id', 'Where there is no `call_id`.', null),
    carried('output', 'content', 'A string or a list of parts.', null),
    carried('tools', 'tools', 'The tools that a search found.', null),
    dropped('status', 'Results have no status.'),
    dropped('execution', 'Always the client.'),
  ],
  others: OTHER_ITEM_FIELDS,
  ofTypes: false,
};

const TO_RESULT = 'messages[] tool';
const HOSTED_CALL = 'Only the vendor of the API can run this tool.';
const HOSTED_SEARCH = 'Without `webSearchTool`, only the vendor of the API can run this tool.';

const ITEMS = new TypeTable(
  deps,
  'input[]',
  [
    carried(
      'message',
      'messages[]',
      'Consecutive system messages, with the instructions, become one message.',
      readMessage,
    ),
    carriedCall(
      'function_call',
      'In one message with the text, the reasoning and the other calls of the turn.',
      writeFunctionCall,
    ),
    carried(
      'function_call_output',
      TO_RESULT,
      'Its text. Images follow the results of the turn in a user message.',
      writeResult,
    ),
    carriedCall('custom_tool_call', 'A function call with the text as `input`.', writeCustomCall),
    carried('custom_tool_call_output', TO_RESULT, 'Like `function_call_output`.', writeResult),
    carriedCall(
      'local_shell_call',
      'A call of the function `local_shell` with the action as arguments.',
      writeShellCall,
    ),
    carried('local_shell_call_output', TO_RESULT, 'Like `function_call_output`.', writeResult),
    carriedCall('tool_search_call', 'A call of the function `tool_search`.', writeSearchCall),
    carried(
      'tool_search_output',
      TO_RESULT,
      'The tools are added to `tools`; the result lists their names.',
      writeFoundTools,
    ),
    carried('additional_tools', 'tools', 'The tools are added to `tools`.', (item) => {
      const tools = present(item, NAME.tools);
      if (tools !== NONE) foundTools.push(tools);
    }),
    carried('reasoning', 'messages[].reasoning_content', 'In the assistant message that follows.', readReasoning),
    refused('item_reference', 'No stored item has this id.'),
    refused('compaction', 'Only the server that encrypted it can read it.'),
    refused('web_search_call', HOSTED_SEARCH),
    refused('file_search_call', HOSTED_CALL),
    refused('computer_call*', HOSTED_CALL),
    refused('code_interpreter_call', HOSTED_CALL),
    refused('image_generation_call', HOSTED_CALL),
    refused('mcp_*', HOSTED_CALL),
    refused('shell_call*', HOSTED_CALL),
    refused('apply_patch_call*', HOSTED_CALL),
  ],
  { action: 'refused', note: 'Chat completions have no such item.' },
);

// === Tools ===

const INPUT_PARAMETERS =
  ',"parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}';

const LOCAL_SHELL =
  '"local_shell","description":"Runs a command and returns its output.","parameters":{"type":"object","properties":' +
  '{"command":{"type":"array","items":{"type":"string"}},"env":{"type":"object","additionalProperties":{"type":"string"}},' +
  '"timeout_ms":{"type":"integer"},"user":{"type":"string"},"working_directory":{"type":"string"}},' +
  '"required":["command"],"additionalProperties":false}';

function writeTools(): void {
  const tools = present(ROOT, NAME.tools);
  const choice = present(ROOT, NAME.tool_choice);
  if (choice !== NONE && isOfType(choice, NAME.allowed_tools)) readAllowed(choice);
  if (foundTools.length > 0) written = new Set();
  const { length } = out;
  out.latin1(',"tools":[');
  const empty = out.length;
  if (tools !== NONE) writeList(tools);
  for (const list of foundTools) writeList(list);
  hasTools = out.length > empty;
  if (hasTools) out.latin1(']');
  else out.takeBack(length);
  if (choice !== NONE) writeChoice(choice);
  const parallel = present(ROOT, NAME.parallel_tool_calls);
  // Servers refuse it without tools.
  if (parallel !== NONE && hasTools) out.carry('"parallel_tool_calls":', parallel);
}

function writeList(tools: number): void {
  each(tools, writeTool);
}

function writeTool(tool: number): void {
  TOOLS.write(tool);
}

/** Whether the function is to be written. Notes what it stands for. */
function begins(tool: number, type: CalledTool['type']): boolean {
  const isPlain = type === 'function' && namespace === NONE;
  if (!isPlain || allowed !== null || written !== null) {
    const name = functionName(tool, namespace);
    if (allowed?.has(name) === false || written?.has(name) === true) return false;
    written?.add(name);
    if (!isPlain) {
      const holder = tape.string(namespace);
      standIns ??= new Map();
      standIns.set(name, { type, name: functionName(tool, NONE), ...(holder !== undefined && { namespace: holder }) });
    }
  }
  out.next(LITERAL.function);
  return true;
}

function writeFunction(tool: number): void {
  if (!begins(tool, 'function')) return;
  writeName(tool, namespace);
  FUNCTION.write(tool);
  out.latin1('}}');
}

function writeCustom(tool: number): void {
  if (!begins(tool, 'custom')) return;
  writeName(tool, namespace);
  CUSTOM.write(tool);
  out.latin1(INPUT_PARAMETERS);
  out.latin1('}}');
}

/** What a text has to look like is said in the description: functions have no grammars. */
function writeGrammar(format: number, tool: number): void {
  const description = optionalString(tool, NAME.description);
  out.next('"description":"');
  if (description !== NONE) {
    out.inside(description);
    out.latin1(String.raw`\n\n`);
  }
  out.latin1('The input follows this grammar (');
  out.inside(stringIn(format, NAME.syntax));
  out.latin1(String.raw`):\n`);
  out.inside(stringIn(format, NAME.definition));
  out.latin1('"');
}

function writeLocalShell(tool: number): void {
  if (!begins(tool, 'local_shell')) return;
  out.latin1(LOCAL_SHELL);
  out.latin1('}}');
}

function writeToolSearch(tool: number): void {
  if (!isClients(tool)) throw untranslatableType(tape, tool, HOSTED_TOOL);
  if (!begins(tool, 'tool_search')) return;
  out.latin1('"tool_search"');
  FUNCTION.write(tool);
  out.latin1('}}');
}

function leaveOutWebSearch(tool: number): void {
  const access = tape.member(tool, NAME.external_web_access);
  if (access === NONE || !tape.isFalse(access)) throw untranslatableType(tape, tool, HOSTED_SEARCH);
}

function isClients(tool: number): boolean {
  return tape.name(tape.member(tool, NAME.execution)) === NAME.client;
}

function writeNamespace(tool: number): void {
  const outer = namespace;
  namespace = stringIn(tool, NAME.name);
  const tools = present(tool, NAME.tools);
  if (tools !== NONE) writeList(tools);
  namespace = outer;
}

/** Between a namespace and the name of a tool in it. */
const IN_NAMESPACE = '__';

/** The name of the function that stands for a tool. */
function functionName(tool: number, namespace: number): string {
  if (isOfType(tool, NAME.local_shell)) return 'local_shell';
  if (isOfType(tool, NAME.tool_search)) return 'tool_search';
  const name = tape.string(stringIn(tool, NAME.name)) ?? '';
  return namespace === NONE ? name : (tape.string(namespace) ?? '') + IN_NAMESPACE + name;
}

/** Writes that name of a tool, of the tool of a call, or of the one that is chosen. */
function writeName(object: number, namespace: number): void {
  const name = stringIn(object, NAME.name);
  out.latin1('"');
  if (namespace !== NONE) {
    out.inside(namespace);
    out.latin1(IN_NAMESPACE);
  }
  out.inside(name);
  out.latin1('"');
}

const HOSTED_TOOL = 'Only the vendor of the API can run this tool.';

const FUNCTION = new FieldTable(
  deps,
  'tools[] function',
  [
    carried('type', 'type', 'A function is an object of its own: `{type: function, function: {…}}`.', null),
    carried('name', 'function.name', 'With its namespace and `__` before it, where it has one.', null),
    passed('description', 'What it does.'),
    passed('parameters', 'A JSON schema.'),
    passed('strict', 'Whether arguments must match the schema.'),
    dropped('execution', 'Always the client.'),
    dropped('defer_loading', 'All tools are sent at once.'),
    dropped('allowed_callers', 'Always the model.'),
    dropped('async', 'Results always follow their calls.'),
    dropped('output_schema', 'Results have no schema.'),
  ],
  { action: 'passed', note: 'Written into the function object.' },
);

const INPUT_FORMATS = new TypeTable(
  deps,
  'tools[] custom.format',
  [
    dropped('text', 'The default.'),
    carried('grammar', 'function.description', 'It is appended to the description.', writeGrammar),
  ],
  { action: 'refused', note: 'Functions have no such format.' },
);

const CUSTOM = new FieldTable(
  deps,
  'tools[] custom',
  [
    carried('type', 'type', 'A function.', null),
    carried('name', 'function.name', 'With its namespace and `__` before it, where it has one.', null),
    carried('description', 'function.description', 'What it does.', (description, tool) => {
      if (INPUT_FORMATS.find(present(tool, NAME.format))?.write !== writeGrammar)
        out.carry('"description":', description);
    }),
    carried('format', 'function.description', 'By its type.', (format, tool) => INPUT_FORMATS.write(format, tool)),
  ],
  { action: 'dropped', note: 'Only the vendor of the API has it.' },
);

const TOOLS = new TypeTable(
  deps,
  'tools[]',
  [
    carried('function', 'tools[]', 'A function.', writeFunction),
    carried(
      'custom',
      'tools[]',
      'A function with one string, `input`. Its calls become `custom_tool_call` items.',
      writeCustom,
    ),
    carried('namespace', 'tools[]', 'Its tools, named `NAMESPACE__NAME`.', writeNamespace),
    carried(
      'local_shell',
      'tools[]',
      'A function `local_shell`. Its calls become `local_shell_call` items.',
      writeLocalShell,
    ),
    carried(
      'tool_search',
      'tools[]',
      'With `execution: client`: a function whose calls become `tool_search_call` items. Otherwise refused.',
      writeToolSearch,
    ),
    carried(
      'web_search*',
      '',
      'Left out with `external_web_access: false`, as Codex offers it unasked: the model answers without it. Otherwise refused, unless `webSearchTool` is on.',
      leaveOutWebSearch,
    ),
    refused('file_search', HOSTED_TOOL),
    refused('code_interpreter', HOSTED_TOOL),
    refused('image_generation', HOSTED_TOOL),
    refused('computer*', HOSTED_TOOL),
    refused('mcp', HOSTED_TOOL),
    refused('shell', HOSTED_TOOL),
    refused('apply_patch', HOSTED_TOOL),
    refused('programmatic_tool_calling', HOSTED_TOOL),
  ],
  { action: 'refused', note: 'Chat completions have no such tool.' },
);

function writeChosen(choice: number): void {
  out.next('"tool_choice":{"type":"function","function":{"name":');
  if (isOfType(choice, NAME.local_shell)) out.latin1('"local_shell"');
  else writeName(choice, optionalString(choice, NAME.namespace));
  out.latin1('}}');
}

const CHOICES = new TypeTable(
  deps,
  'tool_choice',
  [
    carried('function', 'tool_choice', 'The function.', writeChosen),
    carried('custom', 'tool_choice', 'The function that stands for it.', writeChosen),
    carried('local_shell', 'tool_choice', 'The function that stands for it.', writeChosen),
    carried('allowed_tools', 'tools', 'Only these tools are sent, and its `mode` is the choice.', (choice) =>
      writeChoice(stringIn(choice, NAME.mode)),
    ),
  ],
  { action: 'refused', note: 'Only a tool that the client runs can be chosen.' },
);

/** Reads the names of the tools that may be called. */
function readAllowed(choice: number): void {
  const names = new Set<string>();
  const tools = present(choice, NAME.tools);
  if (tools === NONE) throw untranslatable(tape, choice, 'It has no `tools`.');
  each(tools, (tool) => {
    if (CHOICES.find(tool)?.write !== writeChosen) throw untranslatable(tape, tool, CHOICES.others.note);
    names.add(functionName(tool, optionalString(tool, NAME.namespace)));
  });
  allowed = names;
}

function writeChoice(choice: number): void {
  if (!tape.isString(choice)) CHOICES.write(choice);
  // Without tools servers refuse even these words.
  else if (hasTools || !(tape.name(choice) === NAME.auto || tape.name(choice) === NAME.none))
    out.carry('"tool_choice":', choice);
}

// === Options ===

/** Carries a value to a member that the client may have written under its chat name, which counts then. */
function carriedOption(name: string, to: string, note: string): Field {
  const key = literal(`"${to}":`);
  const own = nameId(to);
  return carried(name, to, note, (value) => {
    if (present(ROOT, own) === NONE) out.carry(key, value);
  });
}

const REASONING = new FieldTable(
  deps,
  'reasoning',
  [
    carriedOption('effort', 'reasoning_effort', 'Reasoning effort.'),
    dropped('summary', 'The reasoning of the server is returned in full.'),
    dropped('generate_summary', 'The reasoning of the server is returned in full.'),
  ],
  { action: 'dropped', note: 'Only the vendor of the API has it.' },
);

const FORMATS = new TypeTable(
  deps,
  'text.format',
  [
    dropped('text', 'The default.'),
    carried('json_object', 'response_format', 'Any JSON object.', () =>
      out.latin1(',"response_format":{"type":"json_object"}'),
    ),
    carried('json_schema', 'response_format', 'JSON that matches a schema.', (format) => {
      out.latin1(',"response_format":{"type":"json_schema","json_schema":{');
      SCHEMA.write(format);
      out.latin1('}}');
    }),
  ],
  { action: 'refused', note: 'Chat completions have no such format.' },
);

const SCHEMA = new FieldTable(
  deps,
  'text.format json_schema',
  [
    carried('type', 'type', 'Written outside of the schema object.', null),
    passed('name', 'Name of the schema.'),
    passed('schema', 'The schema.'),
    passed('strict', 'Whether the text must match.'),
    passed('description', 'Purpose of the schema.'),
  ],
  { action: 'passed', note: 'Written into the schema object.' },
);

const TEXT = new FieldTable(
  deps,
  'text',
  [
    carried('format', 'response_format', 'Output format.', (format) => {
      if (present(ROOT, NAME.response_format) === NONE) FORMATS.write(format);
    }),
    carriedOption('verbosity', 'verbosity', 'Length of the text.'),
  ],
  { action: 'dropped', note: 'Only the vendor of the API has it.' },
);

function writeInclude(include: number): void {
  let asks = false;
  each(include, (name) => {
    if (!tape.isString(name)) throw untranslatable(tape, name, 'It is no text.');
    asks ||= tape.name(name) === NAME['message.output_text.logprobs'];
  });
  if (!asks || present(ROOT, NAME.logprobs) !== NONE) return;
  out.latin1(',"logprobs":true');
  writeTopLogprobs();
}

function writeTopLogprobs(): void {
  const count = present(ROOT, NAME.top_logprobs);
  if (count !== NONE) out.carry('"top_logprobs":', count);
}

const BODY = new FieldTable(
  deps,
  '',
  [
    passed('model', 'The name of the model.'),
    carried('instructions', 'messages[0]', 'First text of the system message. An empty one is left out.', null),
    carried('input', 'messages', 'A string is a user message; items become messages.', null),
    refused('messages', 'Requests of this dialect have `input` instead.'),
    carried('tools', 'tools', 'Tools that the client runs.', null),
    carried('tool_choice', 'tool_choice', 'Left out with `auto` and `none` where there are no tools.', null),
    carried('parallel_tool_calls', 'parallel_tool_calls', 'Left out where there are no tools.', null),
    dropped('max_tool_calls', 'Limits tools that the vendor runs; none are sent.'),
    carriedOption('max_output_tokens', 'max_completion_tokens', 'The output limit.'),
    carried('reasoning', 'reasoning_effort', 'The effort.', (reasoning) => REASONING.write(reasoning)),
    carried('text', 'response_format, verbosity', 'Format and verbosity.', (text) => TEXT.write(text)),
    carried(
      'include',
      'logprobs',
      '`message.output_text.logprobs` asks for log-probabilities, `reasoning.encrypted_content` is answered by the gateway; the rest is dropped.',
      writeInclude,
    ),
    carried('top_logprobs', 'top_logprobs', 'Where log-probabilities are asked for.', null),
    carried('stream', 'stream', 'Streams ask for usage.', (stream, body) => {
      out.carry('"stream":', stream);
      if (isTrueIn(body, NAME.stream)) out.latin1(',"stream_options":{"include_usage":true}');
    }),
    dropped('stream_options', 'Events are not padded.'),
    passed('max_completion_tokens', 'Counts before `max_output_tokens`.'),
    passed('reasoning_effort', 'Counts before `reasoning`.'),
    passed('response_format', 'Counts before `text`.'),
    passed('verbosity', 'Counts before `text`.'),
    passed('logprobs', 'Counts before `include`.', (logprobs) => {
      out.carry('"logprobs":', logprobs);
      if (tape.isTrue(logprobs)) writeTopLogprobs();
    }),
    passed('temperature', 'Sampling.'),
    passed('top_p', 'Sampling.'),
    passed('user', 'The end user.'),
    passed('safety_identifier', 'The end user.'),
    passed('prompt_cache_key', 'Kept for servers that read it.'),
    passed('service_tier', 'The service tier.'),
    refused('previous_response_id', 'What it names is not stored here; send the whole conversation.'),
    refused('conversation', 'The gateway keeps no conversations; continue a response with `previous_response_id`.'),
    refused('prompt', 'The gateway keeps no prompts; send its text as `instructions` and `input`.'),
    dropped('store', 'The gateway stores responses.'),
    dropped('background', 'The gateway runs the request in the background.'),
    dropped('background_options', 'How soon the vendor of the API runs it; here it runs at once.'),
    dropped('metadata', 'Repeated in the response.'),
    dropped('truncation', 'The server decides about prompts that are too long.'),
    dropped('context_management', 'The server decides about prompts that are too long.'),
    dropped('prompt_cache_options', 'The server decides how long it keeps caches.'),
    dropped('prompt_cache_retention', 'The server decides how long it keeps caches.'),
    dropped('image', 'How the vendor of the API compresses images.'),
    dropped('moderation', 'Only the vendor of the API has it.'),
    dropped('access_programs', 'Only the vendor of the API has it.'),
    dropped('client_metadata', 'Describes the client.'),
    dropped('n', 'A response has one output.'),
    dropped('n_cmpl', 'The same for llama-server.'),
  ],
  {
    action: 'passed',
    note: 'Sampling fields and the extensions of servers: `seed`, `stop`, `top_k`, `min_p`, `chat_template_kwargs`.',
  },
);

/** All tables, for the docs. */
export const RESPONSES_TABLES: readonly Table[] = [
  ...[BODY, ITEMS, MESSAGE, PARTS, IMAGE, FILE, CALL, RESULT, REASONING_ITEM],
  ...[TOOLS, FUNCTION, CUSTOM, INPUT_FORMATS, CHOICES, REASONING, TEXT, FORMATS, SCHEMA],
];
