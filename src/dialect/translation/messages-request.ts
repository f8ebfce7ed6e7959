// Requests of the messages dialect as chat completions. Each table is about one kind of object; its rows are the fields, what
// happens to them, and what writes them.

import { bodyTape as tape } from '../body-scan.ts';
import { nameIds } from '../json-names.ts';
import { JsonTape } from '../json-tape.ts';
import { ChatRequest } from './chat-request.ts';
import { carried, dropped, type Field, FieldTable, passed, refused, type Table, TypeTable } from './field-table.ts';
import { clearList, JsonWriter, literal, type WrittenText } from './json-writer.ts';
import { MessagesAnswer } from './messages-answer.ts';
import { each, isTrueIn, optionalString, present, stringIn } from './request-values.ts';
import { ResponseEcho } from './response-echo.ts';
import type { AnswerTranslator } from './translation.ts';
import { untranslatable } from './untranslatable.ts';

/** Texts that are written for each message, call, result or tool. */
const LITERAL = {
  functionType: literal('"type":"function"'),
  functionName: literal('"function":{"name":'),
  arguments: literal(',"arguments":"'),
  toolRole: literal('"role":"tool"'),
  content: literal('"content":'),
  reasoning: literal('"reasoning_content":"'),
  toolCalls: literal('"tool_calls":['),
  functionTool: literal('{"type":"function","function":{'),
} as const;

const out = new JsonWriter(tape);
const deps = { tape, out };
const { NONE, ROOT } = JsonTape;
const NAME = nameIds(
  'any',
  'auto',
  'budget_tokens',
  'chat_template_kwargs',
  'content',
  'context',
  'data',
  'disable_parallel_tool_use',
  'effort',
  'enable_thinking',
  'enabled',
  'format',
  'include_usage',
  'input',
  'is_error',
  'media_type',
  'name',
  'none',
  'output_config',
  'parallel_tool_calls',
  'reasoning_effort',
  'response_format',
  'schema',
  'source',
  'standard_only',
  'stop',
  'stream',
  'stream_options',
  'strict',
  'system',
  'text',
  'thinking',
  'title',
  'tool',
  'tools',
  'type',
  'url',
  'user',
);

/** A request of the messages dialect as one of chat completions. Throws `HR_REQUEST_UNTRANSLATABLE` (422). */
export class MessagesRequest extends ChatRequest {
  readonly #body: Buffer;

  constructor(body: Buffer) {
    super(body, writeRequest);
    this.#body = body;
  }

  answer(): AnswerTranslator {
    return new MessagesAnswer(() => new ResponseEcho(this.#body, null).model);
  }
}

function writeRequest(): WrittenText {
  isInResult = false;
  out.begin();
  out.latin1('{');
  BODY.write(ROOT);
  out.latin1('}');
  return out.take();
}

const PASSES = { action: 'passed', note: 'Passes under its own name.' } as const;
const LEFT_OUT = { action: 'dropped', note: 'The object has no counterpart.' } as const;
const CACHE_CONTROL = dropped('cache_control', 'Servers cache what prompts have in common without being told.');
const FILE = refused('file', 'A file by its id is known to the vendor of the API alone; send its content.');
const NOT_TEXT = 'Chat servers read documents as text only; send the text of the document.';
const NO_CITATIONS = refused('citations', 'Chat servers do not cite.', (citations) => {
  if (isTrueIn(citations, NAME.enabled)) throw untranslatable(tape, citations, 'Chat servers do not cite.');
});

// The parts of contents.

const TEXT_PART = '{"type":"text","text":"';

const TEXT = new FieldTable(
  deps,
  'content[] (text)',
  [
    passed('type', '`text`.'),
    passed('text', 'A content of one text is a string in the chat dialect.'),
    CACHE_CONTROL,
    dropped('citations', 'Where a text of an earlier answer came from; no model reads it.'),
  ],
  PASSES,
);

const IMAGE_SOURCE = new TypeTable(
  deps,
  'content[] (image).source',
  [
    carried('base64', 'content[].image_url.url', 'A data URL of `media_type` and `data`.', (source) => {
      out.latin1('data:');
      out.inside(stringIn(source, NAME.media_type));
      out.latin1(';base64,');
      out.inside(stringIn(source, NAME.data));
    }),
    carried('url', 'content[].image_url.url', 'Its `url`.', (source) => out.inside(stringIn(source, NAME.url))),
    FILE,
  ],
  { action: 'refused', note: 'Chat servers take images by their address or as base64.' },
);

const IMAGE = new FieldTable(
  deps,
  'content[] (image)',
  [
    carried('type', 'content[].type', '`image_url`.', () => out.next('"type":"image_url"')),
    carried('source', 'content[].image_url', 'By its type.', (source) => {
      out.next('"image_url":{"url":"');
      IMAGE_SOURCE.write(source);
      out.latin1('"}');
    }),
    CACHE_CONTROL,
    dropped('transformations', 'How the vendor of the API scales images.'),
  ],
  PASSES,
);

const HEADINGS = [NAME.title, NAME.context];

/** Writes title and context of a document, each on a line of its own, as the beginning of a text. */
function writeHeadings(document: number): void {
  for (const name of HEADINGS) {
    const heading = optionalString(document, name);
    if (heading === NONE) continue;
    out.inside(heading);
    out.latin1('\\n');
  }
}

/** Writes a document whose content is one text, or the headings of one whose content follows. */
function writeDocumentText(document: number, text: number): void {
  out.next(TEXT_PART);
  writeHeadings(document);
  if (text !== NONE) out.inside(text);
  out.latin1('"}');
}

const DOCUMENT_SOURCE = new TypeTable(
  deps,
  'content[] (document).source',
  [
    carried('text', 'content[].text', 'Its `data`.', (source, document) => {
      writeDocumentText(document, stringIn(source, NAME.data));
    }),
    carried('content', 'content[]', 'Its `content`: a text, or texts and images.', (source, document) => {
      const content = tape.member(source, NAME.content);
      if (!tape.isArray(content)) {
        writeDocumentText(document, stringIn(source, NAME.content));
        return;
      }
      if (HEADINGS.some((name) => present(document, name) !== NONE)) writeDocumentText(document, NONE);
      each(content, writePart);
    }),
    refused('base64', NOT_TEXT),
    refused('url', NOT_TEXT),
    FILE,
  ],
  { action: 'refused', note: NOT_TEXT },
);

const DOCUMENT = new FieldTable(
  deps,
  'content[] (document)',
  [
    carried('type', 'content[].type', '`text`.', null),
    carried('source', 'content[]', 'By its type.', null),
    carried('title', 'content[].text', 'The first line of the text.', null),
    carried('context', 'content[].text', 'The line behind the title.', null),
    NO_CITATIONS,
    CACHE_CONTROL,
  ],
  LEFT_OUT,
);

function writeDocument(document: number): void {
  DOCUMENT.write(document);
  const source = tape.member(document, NAME.source);
  if (source < 0) throw untranslatable(tape, document, NOT_TEXT);
  DOCUMENT_SOURCE.write(source, document);
}

const SEARCH_RESULT = new FieldTable(
  deps,
  'content[] (search_result)',
  [
    carried('type', 'content[].type', '`text`.', null),
    carried('content', 'content[]', 'Its texts, behind one of title and source.', null),
    carried('title', 'content[].text', 'The first line of the text before the content.', null),
    carried('source', 'content[].text', 'The second line of that text.', null),
    NO_CITATIONS,
    CACHE_CONTROL,
  ],
  LEFT_OUT,
);

function writeOptional(object: number, name: number): void {
  const text = optionalString(object, name);
  if (text !== NONE) out.inside(text);
}

function writeSearchResult(result: number): void {
  SEARCH_RESULT.write(result);
  out.next(TEXT_PART);
  writeOptional(result, NAME.title);
  out.latin1('\\n');
  writeOptional(result, NAME.source);
  out.latin1('"}');
  const content = present(result, NAME.content);
  if (content !== NONE) each(content, writePart);
}

/** The parts that are being written are in a result of a tool, whose images are collected for a message of the user. */
let isInResult = false;
const images: number[] = [];

const HOSTED_SEARCH = 'A search that the vendor of the API has run. With `webSearchTool` the gateway translates it.';
const HOSTED_PAGE = 'A page that the vendor of the API has read. With `webSearchTool` the gateway translates it.';
const HOSTED = 'A part of an answer that the vendor of the API made with tools of its own.';

const PARTS = new TypeTable(
  deps,
  'content[]',
  [
    passed('text', 'A text.', (part) => writeObject(TEXT, part)),
    carried('image', 'content[] (image_url)', 'An image.', (part) => {
      if (isInResult) images.push(part);
      else writeObject(IMAGE, part);
    }),
    carried('document', 'content[] (text)', 'A document, as text.', writeDocument),
    carried('search_result', 'content[] (text)', 'A result of a search, as texts.', writeSearchResult),
    carried('tool_use', 'messages[].tool_calls[]', 'A call of a tool.', null),
    carried('tool_result', 'messages[] (tool)', 'Messages of their own before the other parts of the turn.', null),
    carried('thinking', 'messages[].reasoning_content', 'Several are joined by an empty line.', null),
    dropped('redacted_thinking', 'Encrypted; only the vendor of the API can read it.'),
    dropped('fallback', 'A note that the vendor of the API ignores too.'),
    refused('container_upload', 'A file by its id is known to the vendor of the API alone; send its content.'),
    refused('tool_reference', 'Chat servers do not search for tools; send the tools.'),
    refused('tool_addition', 'The tools of a chat request do not change within it.'),
    refused('tool_removal', 'The tools of a chat request do not change within it.'),
    refused('compaction', 'A summary that only the vendor of the API can read.'),
    refused('browser_state', HOSTED),
    refused('server_tool_use', HOSTED_SEARCH),
    refused('mcp_*', HOSTED),
    refused('web_search_tool_result', HOSTED_SEARCH),
    refused('web_fetch_tool_result', HOSTED_PAGE),
    refused('code_execution_tool_result', HOSTED),
    refused('bash_code_execution_tool_result', HOSTED),
    refused('text_editor_code_execution_tool_result', HOSTED),
    refused('tool_search_tool_result', HOSTED),
    refused('advisor_tool_result', HOSTED),
  ],
  { action: 'passed', note: 'Parts of the chat dialect, such as `image_url` and `input_audio`, pass as they are.' },
);
const [TEXT_ROW, IMAGE_ROW] = [PARTS.row('text'), PARTS.row('image')];
const [CALL_ROW, RESULT_ROW, THINKING_ROW] = [PARTS.row('tool_use'), PARTS.row('tool_result'), PARTS.row('thinking')];

function writeObject(table: FieldTable, object: number): void {
  out.next('{');
  table.write(object);
  out.latin1('}');
}

function writePart(part: number): void {
  PARTS.write(part);
}

/** The text of a part that says nothing else; `NONE` of any other part. `row`: that of the part. */
function plainText(part: number, row: Field | undefined): number {
  return row === TEXT_ROW && !TEXT.hasOthers(part) ? tape.member(part, NAME.text) : NONE;
}

// Messages.

/** Writes the call of a tool as an item of `tool_calls`. */
const CALL = new FieldTable(
  deps,
  'content[] (tool_use)',
  [
    passed('id', 'Byte for byte.'),
    carried('type', 'tool_calls[].type', '`function`.', () => out.next(LITERAL.functionType)),
    carried('name', 'tool_calls[].function.name', 'The name of the tool.', (name, call) => {
      out.next(LITERAL.functionName);
      out.value(name);
      out.literal(LITERAL.arguments);
      const input = present(call, NAME.input);
      if (input !== NONE) out.quoted(input);
      else out.latin1('{}');
      out.latin1('"}');
    }),
    carried('input', 'tool_calls[].function.arguments', 'As JSON text.', null),
    CACHE_CONTROL,
    dropped('caller', 'Says that the model called the tool itself.'),
    dropped('toolset_name', 'Toolsets are refused among the tools.'),
  ],
  PASSES,
);

const RESULT = new FieldTable(
  deps,
  'content[] (tool_result)',
  [
    carried('type', 'messages[].role', '`tool`.', () => out.next(LITERAL.toolRole)),
    carried('tool_use_id', 'messages[].tool_call_id', 'Byte for byte.'),
    carried(
      'content',
      'messages[].content',
      'Images follow in a message of the user, behind the results of the turn.',
      null,
    ),
    carried('is_error', 'messages[].content', 'The content begins with `error: `.', null),
    CACHE_CONTROL,
    dropped('toolset_name', 'Toolsets are refused among the tools.'),
  ],
  PASSES,
);

/** Writes a result of a tool as a message. Its images are added to `images`. */
function writeResult(result: number): void {
  const content = present(result, NAME.content);
  const isError = isTrueIn(result, NAME.is_error);
  out.next('{');
  RESULT.write(result);
  out.next(LITERAL.content);
  if (tape.isArray(content)) {
    writeResultParts(content, isError);
  } else if (content === NONE || tape.isString(content)) {
    writeResultText(content, isError);
  } else {
    // For the server to refuse.
    out.value(content);
  }
  out.latin1('}');
}

function writeResultText(text: number, isError: boolean): void {
  if (text !== NONE && !isError) {
    out.value(text);
    return;
  }
  out.latin1(isError ? '"error: ' : '"');
  if (text !== NONE) out.inside(text);
  out.latin1('"');
}

function writeResultParts(content: number, isError: boolean): void {
  const { length } = out;
  out.latin1(isError ? `[${TEXT_PART}error: "}` : '[');
  const empty = out.length;
  isInResult = true;
  each(content, writePart);
  isInResult = false;
  const text = out.length > empty ? onlyText(content) : NONE;
  if (text < 0 && out.length > empty) {
    out.latin1(']');
    return;
  }
  out.takeBack(length);
  writeResultText(text, isError);
}

/** The text of the only part of a result beside images; `NONE` when it has another part, or when that says more. */
function onlyText(content: number): number {
  let text = NONE;
  const end = tape.next(content);
  for (let part = tape.first(content); part < end; part = tape.next(part)) {
    const row = PARTS.find(part);
    if (row === IMAGE_ROW) continue;
    if (text >= 0) return NONE;
    text = plainText(part, row);
    if (text < 0) return NONE;
  }
  return text;
}

const THINKING = new FieldTable(
  deps,
  'content[] (thinking)',
  [
    carried('type', 'messages[].reasoning_content', 'The name of the field.', null),
    carried('thinking', 'messages[].reasoning_content', 'The text.', (thinking) => out.inside(thinking)),
    dropped('signature', 'Only the vendor of the API that signed the thinking can check it.'),
  ],
  LEFT_OUT,
);

/** Parts of the message that is being written, by where they go. */
const thoughts: number[] = [];
const calls: number[] = [];
const results: number[] = [];
const parts: number[] = [];
const SORTED = [thoughts, calls, results, parts, images];
/** The row of the last one of `parts`. */
let lastRow: Field | undefined;

function sortParts(content: number): void {
  for (const sorted of SORTED) clearList(sorted);
  if (!tape.isArray(content)) return;
  const end = tape.next(content);
  for (let part = tape.first(content); part < end; part = tape.next(part)) {
    const row = PARTS.find(part);
    if (row === THINKING_ROW) thoughts.push(part);
    else if (row === CALL_ROW) calls.push(part);
    else if (row === RESULT_ROW) results.push(part);
    else if (row?.write !== null) {
      parts.push(part);
      lastRow = row;
    }
  }
}

const MESSAGE = new FieldTable(
  deps,
  'messages[]',
  [
    passed('role', '`user`, `assistant`, or `system` in the middle of a conversation.'),
    carried('content', 'messages[].content', 'A text, or the parts of a list.', writeContent),
    CACHE_CONTROL,
  ],
  PASSES,
);

/** Writes a text, or the parts that were sorted. */
function writeContent(content: number): void {
  if (!tape.isArray(content)) {
    out.carry(LITERAL.content, content);
    return;
  }
  if (thoughts.length > 0) {
    out.next(LITERAL.reasoning);
    for (let at = 0; at < thoughts.length; at++) {
      if (at > 0) out.latin1('\\n\\n');
      THINKING.write(thoughts[at] as number);
    }
    out.latin1('"');
  }
  if (calls.length > 0) {
    out.next(LITERAL.toolCalls);
    for (const call of calls) writeObject(CALL, call);
    out.latin1(']');
  }
  out.next(LITERAL.content);
  if (parts.length + images.length === 0) {
    out.latin1(calls.length > 0 ? 'null' : '""');
    return;
  }
  const text = parts.length === 1 && images.length === 0 ? plainText(parts[0] as number, lastRow) : NONE;
  if (text >= 0) {
    out.value(text);
    return;
  }
  out.latin1('[');
  for (const image of images) writePart(image);
  for (const part of parts) writePart(part);
  out.latin1(']');
}

/** Writes one message, and before it those of the results of tools in it. */
function writeMessage(message: number): void {
  if (!tape.isObject(message)) {
    out.item(message);
    return;
  }
  sortParts(tape.member(message, NAME.content));
  for (const result of results) writeResult(result);
  if (results.length === 0 || parts.length + images.length > 0) writeObject(MESSAGE, message);
}

function writeMessages(messages: number, body: number): void {
  if (!tape.isArray(messages)) {
    out.carry('"messages":', messages);
    return;
  }
  out.next('"messages":[');
  const system = tape.member(body, NAME.system);
  if (system >= 0 && !tape.isEmpty(system)) {
    out.latin1('{"role":"system"');
    sortParts(system);
    writeContent(system);
    out.latin1('}');
  }
  each(messages, writeMessage);
  out.latin1(']');
}

// Tools.

const TOOL = new FieldTable(
  deps,
  'tools[] (custom)',
  [
    carried('type', 'tools[].type', '`function`.', null),
    carried('name', 'tools[].function.name', 'As it is.'),
    carried('description', 'tools[].function.description', 'As it is.'),
    carried('input_schema', 'tools[].function.parameters', 'As it is.'),
    carried('strict', 'tools[].function.strict', 'As it is.'),
    CACHE_CONTROL,
    dropped('input_examples', 'Chat templates show no examples of calls.'),
    dropped('defer_loading', 'Chat servers do not search for tools: each one is in the prompt.'),
    dropped('allowed_callers', 'Only the model calls tools.'),
    dropped('eager_input_streaming', 'Arguments stream as the server makes them.'),
  ],
  { action: 'passed', note: 'Passes under its own name, in `function`.' },
);

function writeTool(tool: number): void {
  out.next(LITERAL.functionTool);
  TOOL.write(tool);
  out.latin1('}}');
}

const VENDOR_TOOL = 'Only the vendor of the API has tools of this type; define the tool with `input_schema`.';

const TOOLS = new TypeTable(
  deps,
  'tools[]',
  [
    carried('custom', 'tools[]', 'A tool of the client; so is one without `type`.', writeTool),
    passed('function', 'A tool as the chat dialect defines it.'),
    refused('web_search_*', 'Without `webSearchTool`, only the vendor of the API has this tool.'),
    refused('web_fetch_*', 'Without `webSearchTool`, only the vendor of the API has this tool.'),
    refused('code_execution_*', VENDOR_TOOL),
    refused('bash_*', VENDOR_TOOL),
    refused('text_editor_*', VENDOR_TOOL),
    refused('computer_*', VENDOR_TOOL),
    refused('browser_*', VENDOR_TOOL),
    refused('memory_*', VENDOR_TOOL),
    refused('tool_search_*', VENDOR_TOOL),
    refused('advisor_*', VENDOR_TOOL),
    refused('mcp_toolset', VENDOR_TOOL),
  ],
  { action: 'refused', note: VENDOR_TOOL },
);

function writeTools(tools: number): void {
  if (tape.isEmpty(tools)) return;
  out.next('"tools":[');
  each(tools, (tool) => {
    const type = tape.member(tool, NAME.type);
    if (tape.isObject(tool) && (type < 0 || tape.isNull(type))) writeTool(tool);
    else TOOLS.write(tool);
  });
  out.latin1(']');
}

const TOOL_CHOICE = new FieldTable(
  deps,
  'tool_choice',
  [
    carried(
      'type',
      'tool_choice',
      '`auto` and `none` as they are, `any` as `required`, `tool` as the named function.',
      null,
    ),
    carried('name', 'tool_choice.function.name', 'The name of the tool.', null),
    carried('disable_parallel_tool_use', 'parallel_tool_calls', 'True as `false`.', (_, choice) => {
      if (isTrueIn(choice, NAME.disable_parallel_tool_use) && !isSaid(NAME.parallel_tool_calls))
        out.next('"parallel_tool_calls":false');
    }),
  ],
  LEFT_OUT,
);

function writeToolChoice(choice: number, body: number): void {
  const tools = tape.member(body, NAME.tools);
  if (tools < 0 || tape.isEmpty(tools)) return;
  const type = tape.member(choice, NAME.type);
  const name = tape.member(choice, NAME.name);
  if (tape.isObject(choice)) TOOL_CHOICE.write(choice);
  if (tape.name(type) === NAME.auto || tape.name(type) === NAME.none) {
    out.carry('"tool_choice":', type);
  } else if (tape.name(type) === NAME.any) {
    out.next('"tool_choice":"required"');
  } else if (tape.name(type) === NAME.tool && name >= 0) {
    out.next('"tool_choice":{"type":"function","function":{"name":');
    out.value(name);
    out.latin1('}}');
  } else {
    out.carry('"tool_choice":', choice);
  }
}

// The body.

/** Whether the request has a field of the chat dialect under its own name, which then counts. */
function isSaid(name: number): boolean {
  return present(ROOT, name) !== NONE;
}

/** Budgets below these are little and medium effort; a larger one is high. */
const LOW_BUDGET = 4096;
const MEDIUM_BUDGET = 16_384;

const THINKING_TYPES = new TypeTable(
  deps,
  'thinking',
  [
    carried(
      'enabled',
      'reasoning_effort, chat_template_kwargs',
      '`enable_thinking: true`, and an effort by `budget_tokens`.',
      (thinking) => {
        const tokens = present(thinking, NAME.budget_tokens);
        const budget = tape.number(tokens);
        if (tokens !== NONE && Number.isNaN(budget)) throw untranslatable(tape, tokens, 'It is no number.');
        const effort = budget < LOW_BUDGET ? 'low' : budget < MEDIUM_BUDGET ? 'medium' : 'high';
        const isKnown =
          isSaid(NAME.reasoning_effort) || present(tape.member(ROOT, NAME.output_config), NAME.effort) !== NONE;
        if (budget >= 0 && !isKnown) out.next(`"reasoning_effort":"${effort}"`);
        writeTemplateSwitch(true);
      },
    ),
    carried('disabled', 'chat_template_kwargs', '`enable_thinking: false`.', () => writeTemplateSwitch(false)),
    dropped('adaptive', 'The model decides; `output_config.effort` says how much.'),
    dropped('between_tools', 'The model decides.'),
  ],
  { action: 'dropped', note: 'The model decides.' },
);

/** Writes `chat_template_kwargs` with the members that the request has there itself, which count. */
function writeTemplateSwitch(enableThinking: boolean): void {
  const own = tape.member(ROOT, NAME.chat_template_kwargs);
  if (own >= 0 && !tape.isObject(own) && !tape.isNull(own)) {
    out.carry('"chat_template_kwargs":', own);
    return;
  }
  out.next('"chat_template_kwargs":{');
  if (tape.member(own, NAME.enable_thinking) < 0) out.next(`"enable_thinking":${enableThinking}`);
  writeMembers(own);
  out.latin1('}');
}

/** Writes all members of an object but those of one name. */
function writeMembers(object: number, without = -1): void {
  if (!tape.isObject(object)) return;
  const end = tape.next(object);
  for (let key = tape.first(object); key < end; key = tape.next(tape.valueOf(key))) {
    if (tape.name(key) !== without) out.member(key);
  }
}

/** Writes a JSON schema that the answer must match. */
function writeFormat(format: number): void {
  if (isSaid(NAME.response_format)) return;
  const schema = tape.member(format, NAME.schema);
  if (schema < 0) {
    out.carry('"response_format":', format);
    return;
  }
  out.next('"response_format":{"type":"json_schema","json_schema":{');
  const name = present(format, NAME.name);
  if (name !== NONE) out.carry('"name":', name);
  else out.next('"name":"output"');
  out.carry('"schema":', schema);
  const strict = present(format, NAME.strict);
  if (strict !== NONE) out.carry('"strict":', strict);
  else out.next('"strict":true');
  out.latin1('}}');
}

const OUTPUT_CONFIG = new FieldTable(
  deps,
  'output_config',
  [
    carried('effort', 'reasoning_effort', 'As it is; it counts before the budget of `thinking`.', (effort) => {
      if (!isSaid(NAME.reasoning_effort)) out.carry('"reasoning_effort":', effort);
    }),
    carried('format', 'response_format.json_schema', 'With `strict: true`; its name is `output`.', writeFormat),
    dropped('task_budget', 'Counted by the vendor of the API over several requests.'),
  ],
  LEFT_OUT,
);

const METADATA = new FieldTable(
  deps,
  'metadata',
  [
    carried('user_id', 'user', 'As it is.', (user) => {
      if (!isSaid(NAME.user)) out.carry('"user":', user);
    }),
  ],
  LEFT_OUT,
);

const BODY = new FieldTable(
  deps,
  '',
  [
    passed('model', 'As it is.'),
    carried('system', 'messages[] (system)', 'The first message. Several texts stay parts of it.', null),
    carried('messages', 'messages[]', 'A last message of the assistant stays one.', writeMessages),
    carried('tools', 'tools[]', 'By their type. An empty list is left out.', writeTools),
    carried('tool_choice', 'tool_choice', 'Left out where there are no tools.', writeToolChoice),
    passed('max_tokens', 'As it is.'),
    passed('temperature', 'As it is.'),
    passed('top_p', 'As it is.'),
    passed('top_k', 'Most servers read it.'),
    carried('stop_sequences', 'stop', 'As it is.', (stops) => {
      if (!isSaid(NAME.stop) && !tape.isEmpty(stops)) out.carry('"stop":', stops);
    }),
    passed('stream', 'A stream also asks for usage: `stream_options.include_usage`.', (stream, body) => {
      out.carry('"stream":', stream);
      if (!isTrueIn(body, NAME.stream)) return;
      out.next('"stream_options":{"include_usage":true');
      writeMembers(tape.member(ROOT, NAME.stream_options), NAME.include_usage);
      out.latin1('}');
    }),
    passed('stream_options', 'As it is, but for `include_usage`.', (options, body) => {
      if (!tape.isTrue(tape.member(body, NAME.stream))) out.carry('"stream_options":', options);
    }),
    carried('thinking', 'reasoning_effort, chat_template_kwargs', 'By its type.', (thinking) =>
      THINKING_TYPES.write(thinking),
    ),
    passed('chat_template_kwargs', 'Its `enable_thinking` counts before `thinking`.', (own, body) => {
      const thinking = THINKING_TYPES.find(tape.member(body, NAME.thinking));
      if (thinking === undefined || thinking.action === 'dropped') out.carry('"chat_template_kwargs":', own);
    }),
    carried('output_config', 'reasoning_effort, response_format', 'By its members.', (config) =>
      OUTPUT_CONFIG.write(config),
    ),
    carried(
      'output_format',
      'response_format.json_schema',
      'The older name of `output_config.format`.',
      (format, body) => {
        if (present(tape.member(body, NAME.output_config), NAME.format) === NONE) writeFormat(format);
      },
    ),
    carried('metadata', 'user', 'By its members.', (metadata) => METADATA.write(metadata)),
    carried('service_tier', 'service_tier', '`standard_only` is `default`.', (tier) => {
      if (tape.name(tier) === NAME.standard_only) out.next('"service_tier":"default"');
      else out.carry('"service_tier":', tier);
    }),
    passed('stop', 'Counts before `stop_sequences`.'),
    passed('user', 'Counts before `metadata`.'),
    passed('parallel_tool_calls', 'Counts before `tool_choice`.'),
    passed('reasoning_effort', 'Counts before `output_config` and `thinking`.'),
    passed('response_format', 'Counts before `output_config`.'),
    CACHE_CONTROL,
    dropped('n', 'An answer is one message.'),
    dropped('n_cmpl', 'The same for llama-server.'),
    dropped('betas', 'What the vendor of the API tries out; also the header `anthropic-beta`.'),
    dropped('anthropic_beta', 'The same in the body, as some clients send it.'),
    dropped('anthropic_version', 'Says how the vendor of the API reads the request.'),
    dropped('context_management', 'The vendor of the API shortens long conversations with it; here all of it is sent.'),
    dropped('diagnostics', 'Asks the vendor of the API about its cache.'),
    dropped('fallbacks', 'Other models of the vendor of the API.'),
    dropped('fallback_credit_token', 'Billing of the vendor of the API.'),
    dropped('billing_policy', 'Billing of the vendor of the API.'),
    dropped('user_profile_id', 'Billing of the vendor of the API.'),
    dropped('workspace_id', 'Billing of the vendor of the API.'),
    dropped('inference_geo', 'Regions of the vendor of the API; the operator chooses the servers.'),
    dropped('speed', 'Service levels of the vendor of the API.'),
    refused('container', 'Chat servers run no code.'),
    refused('mcp_servers', 'Chat servers do not call MCP servers.'),
    refused('thread', 'Chat servers keep no threads; send the whole conversation.'),
    refused('compaction', 'Chat servers do not summarise conversations by themselves.'),
  ],
  PASSES,
);

/** All tables of the direction, as the docs show them. */
export const MESSAGES_TABLES: readonly Table[] = [
  ...[BODY, MESSAGE, PARTS, TEXT, IMAGE, IMAGE_SOURCE, DOCUMENT, DOCUMENT_SOURCE, SEARCH_RESULT],
  ...[CALL, RESULT, THINKING, TOOLS, TOOL, TOOL_CHOICE, THINKING_TYPES, OUTPUT_CONFIG, METADATA],
];
