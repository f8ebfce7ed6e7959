// What /openapi.json and /docs say about the dialects: schemas of requests and answers, and examples. Requests are not checked
// against them: a server may take more members, and all of them reach it.

import type { JsonSchema } from './schema.ts';

/** A model for examples. */
export interface ExampleModel {
  readonly id: string;
  /** Words such as `chat`, `vision`, `tools`; empty where nothing is declared. */
  readonly capabilities: readonly string[];
}

/** A request that works as it stands. */
export interface RequestExample {
  readonly summary: string;
  /** What the model must be able to do; the first model that declares it is named; null: no model is asked. Default: `chat`. */
  readonly needs?: string | null;
  /** The body of the request, without its model. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** Documentation of one dialect. */
export interface DialectDoc {
  /** Names of components. */
  readonly request: string;
  readonly answer: string;
  /** What the stream holds, in one sentence. */
  readonly stream?: string;
  readonly components: Readonly<Record<string, JsonSchema>>;
  readonly examples: Readonly<Record<string, RequestExample>>;
  /** How the official SDKs call it: the package, and the method of a client. */
  readonly sdk?: { readonly package: 'openai' | 'anthropic'; readonly method: string };
}

const ref = (name: string): JsonSchema => ({ $ref: `#/components/schemas/${name}` });
const text = (description: string): JsonSchema => ({ type: 'string', description });
const flag = (description: string): JsonSchema => ({ type: 'boolean', description });
const whole = (description: string, minimum = 0): JsonSchema => ({ type: 'integer', minimum, description });
const number = (description: string, minimum: number, maximum: number): JsonSchema => ({
  type: 'number',
  minimum,
  maximum,
  description,
});
const word = (description: string, ...values: readonly string[]): JsonSchema => ({
  type: 'string',
  enum: values,
  description,
});
const list = (description: string, items: JsonSchema): JsonSchema => ({ type: 'array', items, description });
const NULL: JsonSchema = { type: 'null' };
const any = (description: string): JsonSchema => ({ description });
const anyOf = (description: string, ...schemas: readonly JsonSchema[]): JsonSchema => ({ anyOf: schemas, description });

/** An object that may have further members; the names in `required` must be there. */
function object(
  description: string,
  required: readonly string[],
  properties: Readonly<Record<string, JsonSchema>>,
): JsonSchema {
  return {
    type: 'object',
    description,
    properties,
    ...(required.length > 0 && { required }),
    additionalProperties: true,
  };
}

/** An object whose member `type` has one value. */
function typed(
  type: string,
  description: string,
  required: readonly string[],
  properties: Readonly<Record<string, JsonSchema>>,
): JsonSchema {
  const kind = { type: 'string', const: type, description: `\`${type}\`.` };
  return object(description, ['type', ...required], { type: kind, ...properties });
}

const MODEL = ref('ModelId');
const STREAM = flag('Whether the answer is a stream of server-sent events.');
const TEMPERATURE = number('Randomness of the choice of tokens; 0 takes the likeliest.', 0, 2);
const TOP_P = number('Only the likeliest tokens with this sum of probabilities are chosen from.', 0, 1);
const SEED = { type: 'integer', description: 'Repeats an answer, as far as the server can.' };
const STOP = anyOf('Texts that end the answer.', { type: 'string' }, { type: 'array', items: { type: 'string' } });
const PENALTY = number('Above 0, tokens that have occurred become less likely.', -2, 2);
const JSON_SCHEMA = { type: 'object', description: 'A JSON schema.', additionalProperties: true };
const TEMPLATE = {
  type: 'object',
  description: 'Values for the chat template of the server.',
  additionalProperties: true,
};
const TOOL_NAME = text('Name of the tool.');
const TOOL_PURPOSE = text('What the tool does and when to call it, for the model.');

const WEATHER = {
  name: 'get_weather',
  description: 'The weather of a place now.',
  parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
};
const PERSON = {
  type: 'object',
  properties: { name: { type: 'string' }, born: { type: 'integer' } },
  required: ['name', 'born'],
  additionalProperties: false,
};
/** A red square, 8 by 8. */
const PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mO4oKCAFTEMLQkAvk5EAYUHFA8AAAAASUVORK5CYII=';
const QUESTION = 'Why is the sky blue?';
const FACTS = 'Ada Lovelace was born in 1815.';

const CHAT: DialectDoc = {
  request: 'ChatCompletionRequest',
  answer: 'ChatCompletion',
  stream: 'Events with objects `chat.completion.chunk`; `[DONE]` ends the stream.',
  sdk: { package: 'openai', method: 'chat.completions.create' },
  components: {
    ChatCompletionRequest: object('A conversation to continue.', ['model', 'messages'], {
      model: MODEL,
      messages: list('The conversation, oldest message first.', ref('ChatMessage')),
      stream: STREAM,
      stream_options: object('Options of a stream.', [], {
        include_usage: flag('Whether a last event counts the tokens.'),
      }),
      max_completion_tokens: whole('Most tokens of the answer, reasoning included.', 1),
      max_tokens: whole('The older name of `max_completion_tokens`.', 1),
      temperature: TEMPERATURE,
      top_p: TOP_P,
      stop: STOP,
      n: whole('Number of answers.', 1),
      seed: SEED,
      frequency_penalty: PENALTY,
      presence_penalty: PENALTY,
      logit_bias: { type: 'object', description: 'Changes to the likelihood of tokens, by token id.' },
      logprobs: flag('Whether the answer holds log-probabilities.'),
      top_logprobs: whole('Likeliest tokens to list at each place.'),
      tools: list('Tools that the model may call; the client runs them.', ref('ChatTool')),
      tool_choice: anyOf(
        '`auto`, `none`, `required`, or one tool.',
        word('', 'auto', 'none', 'required'),
        typed('function', 'This tool.', ['function'], { function: object('', ['name'], { name: TOOL_NAME }) }),
      ),
      parallel_tool_calls: flag('Whether one answer may call several tools.'),
      response_format: anyOf(
        'Form of the answer.',
        typed('text', 'Text, the default.', [], {}),
        typed('json_object', 'Any JSON object.', [], {}),
        typed('json_schema', 'JSON that matches a schema.', ['json_schema'], {
          json_schema: object('', ['name'], {
            name: text('Name of the schema.'),
            schema: JSON_SCHEMA,
            strict: flag('Whether the answer must match the schema.'),
          }),
        }),
      ),
      reasoning_effort: word('How much the model thinks first.', 'none', 'minimal', 'low', 'medium', 'high', 'xhigh'),
      user: text('The end user, for the logs of the server.'),
      verbosity: word('Length of the answer.', 'low', 'medium', 'high'),
      service_tier: text('Service tier.'),
      chat_template_kwargs: TEMPLATE,
    }),
    ChatMessage: object('One message.', ['role'], {
      role: word('Who speaks.', 'system', 'developer', 'user', 'assistant', 'tool'),
      content: anyOf(
        'A text, or parts; null beside calls of tools.',
        { type: 'string' },
        { type: 'array', items: ref('ChatContentPart') },
        NULL,
      ),
      name: text('Name of the speaker.'),
      tool_calls: list('Of an assistant: tools that it has called.', ref('ChatToolCall')),
      tool_call_id: text('Of a tool: the call that this is the result of.'),
      reasoning_content: text('Of an assistant: what it thought.'),
    }),
    ChatContentPart: anyOf(
      'A part of a message.',
      typed('text', 'A text.', ['text'], { text: text('The text.') }),
      typed('image_url', 'An image.', ['image_url'], {
        image_url: object('', ['url'], {
          url: text('An address, or a data URL with base64.'),
          detail: word('Resolution.', 'auto', 'low', 'high'),
        }),
      }),
      typed('input_audio', 'A recording.', ['input_audio'], {
        input_audio: object('', ['data', 'format'], { data: text('Base64.'), format: word('', 'wav', 'mp3') }),
      }),
    ),
    ChatTool: typed('function', 'A tool.', ['function'], {
      function: object('', ['name'], {
        name: TOOL_NAME,
        description: TOOL_PURPOSE,
        parameters: JSON_SCHEMA,
        strict: flag('Whether arguments must match the schema.'),
      }),
    }),
    ChatToolCall: typed('function', 'A call of a tool.', ['id', 'function'], {
      id: text('Names the call; its result refers to it.'),
      function: object('', ['name', 'arguments'], { name: TOOL_NAME, arguments: text('The arguments as JSON text.') }),
    }),
    ChatCompletion: object('The answer.', ['id', 'object', 'created', 'model', 'choices'], {
      id: text('Names the answer.'),
      object: text('`chat.completion`.'),
      created: whole('Unix time in seconds.'),
      model: text('The model.'),
      choices: list(
        'One choice, or as many as `n`.',
        object('', ['index', 'message', 'finish_reason'], {
          index: whole('From 0.'),
          message: ref('ChatMessage'),
          finish_reason: word('Why it ended.', 'stop', 'length', 'tool_calls', 'content_filter'),
        }),
      ),
      usage: ref('Usage'),
    }),
    Usage: object('Tokens of the request.', [], {
      prompt_tokens: whole('Tokens of the prompt.'),
      completion_tokens: whole('Tokens of the answer.'),
      total_tokens: whole('Both.'),
      prompt_tokens_details: object('', [], {
        cached_tokens: whole('Tokens of the prompt that came from a KV cache.'),
      }),
    }),
  },
  examples: {
    simple: { summary: 'A question', body: { messages: [{ role: 'user', content: QUESTION }], max_tokens: 64 } },
    stream: {
      summary: 'A stream that counts its tokens',
      body: {
        messages: [
          { role: 'system', content: 'Answer in one sentence.' },
          { role: 'user', content: QUESTION },
        ],
        max_tokens: 64,
        stream: true,
        stream_options: { include_usage: true },
      },
    },
    tools: {
      summary: 'A tool that the model may call',
      needs: 'tools',
      body: {
        messages: [{ role: 'user', content: 'How is the weather in Bern?' }],
        tools: [{ type: 'function', function: WEATHER }],
        tool_choice: 'auto',
        max_tokens: 128,
      },
    },
    image: {
      summary: 'A question about an image',
      needs: 'vision',
      body: {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'Which colour is this?' },
              { type: 'image_url', image_url: { url: `data:image/png;base64,${PICTURE}` } },
            ],
          },
        ],
        max_tokens: 64,
      },
    },
    structured: {
      summary: 'JSON by a schema',
      body: {
        messages: [{ role: 'user', content: FACTS }],
        response_format: { type: 'json_schema', json_schema: { name: 'person', strict: true, schema: PERSON } },
        max_tokens: 64,
      },
    },
  },
};

const COMPLETIONS: DialectDoc = {
  request: 'CompletionRequest',
  answer: 'Completion',
  stream: 'Events with objects `text_completion`; `[DONE]` ends the stream.',
  sdk: { package: 'openai', method: 'completions.create' },
  components: {
    CompletionRequest: object('A text to continue.', ['model', 'prompt'], {
      model: MODEL,
      prompt: anyOf(
        'The text, or several; also as token ids.',
        { type: 'string' },
        { type: 'array', items: { type: 'string' } },
        { type: 'array', items: { type: 'integer' } },
      ),
      suffix: text('Text behind the gap that is to be filled.'),
      stream: STREAM,
      stream_options: object('Options of a stream.', [], {
        include_usage: flag('Whether a last event counts the tokens.'),
      }),
      max_tokens: { ...whole('Most tokens of the answer.', 1), default: 16 },
      temperature: TEMPERATURE,
      top_p: TOP_P,
      stop: STOP,
      n: whole('Number of answers for each prompt.', 1),
      seed: SEED,
      echo: flag('Whether the answer repeats the prompt.'),
      logprobs: whole('Likeliest tokens to list at each place.'),
      frequency_penalty: PENALTY,
      presence_penalty: PENALTY,
      user: text('The end user, for the logs of the server.'),
    }),
    Completion: object('The answer.', ['id', 'object', 'created', 'model', 'choices'], {
      id: text('Names the answer.'),
      object: text('`text_completion`.'),
      created: whole('Unix time in seconds.'),
      model: text('The model.'),
      choices: list(
        'One choice for each prompt and answer.',
        object('', ['index', 'text', 'finish_reason'], {
          index: whole('From 0.'),
          text: text('The continuation.'),
          finish_reason: word('Why it ended.', 'stop', 'length', 'content_filter'),
        }),
      ),
      usage: ref('Usage'),
    }),
  },
  examples: {
    simple: { summary: 'A text to continue', body: { prompt: 'The river runs', max_tokens: 32 } },
    stream: { summary: 'A stream', body: { prompt: 'The river runs', max_tokens: 32, stream: true } },
  },
};

const RESPONSES: DialectDoc = {
  request: 'ResponseRequest',
  answer: 'ResponseObject',
  stream: 'Named events such as `response.output_text.delta`; `response.completed` ends the stream.',
  sdk: { package: 'openai', method: 'responses.create' },
  components: {
    ResponseRequest: object('Input to answer.', ['model'], {
      model: MODEL,
      input: anyOf('A text, or items.', { type: 'string' }, { type: 'array', items: ref('ResponseItem') }),
      instructions: text('What the model is told first.'),
      stream: STREAM,
      max_output_tokens: whole('Most tokens of the answer, reasoning included.', 1),
      temperature: TEMPERATURE,
      top_p: TOP_P,
      tools: list('Tools that the model may call; the client runs them.', ref('ResponseTool')),
      tool_choice: anyOf(
        '`auto`, `none`, `required`, or one tool.',
        word('', 'auto', 'none', 'required'),
        typed('function', 'This tool.', ['name'], { name: TOOL_NAME }),
      ),
      parallel_tool_calls: flag('Whether one answer may call several tools.'),
      text: object('Form of the answer.', [], {
        format: anyOf(
          'Format.',
          typed('text', 'Text, the default.', [], {}),
          typed('json_object', 'Any JSON object.', [], {}),
          typed('json_schema', 'JSON that matches a schema.', ['name', 'schema'], {
            name: text('Name of the schema.'),
            schema: JSON_SCHEMA,
            strict: flag('Whether the answer must match the schema.'),
          }),
        ),
        verbosity: word('Length of the answer.', 'low', 'medium', 'high'),
      }),
      reasoning: object('How the model thinks.', [], {
        effort: word('How much.', 'none', 'minimal', 'low', 'medium', 'high', 'xhigh'),
        summary: word('Summary of it.', 'auto', 'concise', 'detailed'),
      }),
      previous_response_id: text('The stored response that this one continues.'),
      store: { ...flag('Whether the response is stored.'), default: true },
      background: flag('Whether it runs without the client, which asks for it later by its id.'),
      include: list('Further members of the answer.', { type: 'string' }),
      metadata: { type: 'object', description: 'Repeated in the response.', additionalProperties: { type: 'string' } },
      truncation: word('Whether the server may shorten a long input.', 'auto', 'disabled'),
      top_logprobs: whole('Likeliest tokens to list at each place.'),
      user: text('The end user, for the logs of the server.'),
      safety_identifier: text('The end user.'),
      service_tier: text('Service tier.'),
      prompt_cache_key: text('Groups requests with the same beginning.'),
      max_completion_tokens: whole('For chat servers: counts before `max_output_tokens`.', 1),
      reasoning_effort: text('For chat servers: counts before `reasoning`.'),
      response_format: any('For chat servers: counts before `text`.'),
      verbosity: text('For chat servers: counts before `text`.'),
      logprobs: flag('For chat servers: counts before `include`.'),
    }),
    ResponseItem: anyOf(
      'An item of the input.',
      object('A message.', ['role', 'content'], {
        type: text('`message`; may be left out.'),
        role: word('Who speaks.', 'user', 'assistant', 'system', 'developer'),
        content: anyOf('A text, or parts.', { type: 'string' }, { type: 'array', items: ref('ResponseContentPart') }),
      }),
      typed('function_call', 'A call of a tool.', ['call_id', 'name', 'arguments'], {
        call_id: text('Names the call.'),
        name: TOOL_NAME,
        arguments: text('The arguments as JSON text.'),
      }),
      typed('function_call_output', 'The result of a call.', ['call_id', 'output'], {
        call_id: text('The call.'),
        output: anyOf('A text, or parts.', { type: 'string' }, { type: 'array', items: ref('ResponseContentPart') }),
      }),
      typed('reasoning', 'What the model thought before.', [], {
        content: list('Texts.', { type: 'object' }),
        summary: list('Summaries.', { type: 'object' }),
      }),
      typed('item_reference', 'An item of a stored response.', ['id'], { id: text('Its id.') }),
    ),
    ResponseContentPart: anyOf(
      'A part of a message.',
      typed('input_text', 'A text.', ['text'], { text: text('The text.') }),
      typed('input_image', 'An image.', [], {
        image_url: text('An address, or a data URL with base64.'),
        detail: word('Resolution.', 'auto', 'low', 'high'),
      }),
      typed('input_file', 'A file.', [], {
        file_data: text('A data URL with base64.'),
        filename: text('Its name.'),
      }),
      typed('output_text', 'A text of the model.', ['text'], { text: text('The text.') }),
    ),
    ResponseTool: typed('function', 'A tool.', ['name'], {
      name: TOOL_NAME,
      description: TOOL_PURPOSE,
      parameters: JSON_SCHEMA,
      strict: flag('Whether arguments must match the schema.'),
    }),
    ResponseObject: object('The response.', ['id', 'object', 'status', 'output'], {
      id: text('Names the response; `previous_response_id` of the next one.'),
      object: text('`response`.'),
      created_at: whole('Unix time in seconds.'),
      status: word('State.', 'queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled'),
      model: text('The model.'),
      output: list('Messages, calls of tools and reasoning.', { type: 'object' }),
      error: any('What went wrong; null where nothing did.'),
      incomplete_details: any('Why the response is incomplete; null where it is not.'),
      usage: anyOf(
        'Tokens of the request; null before its end.',
        object('', [], {
          input_tokens: whole('Tokens of the prompt.'),
          input_tokens_details: object('', [], {
            cached_tokens: whole('Tokens of the prompt that came from a KV cache.'),
          }),
          output_tokens: whole('Tokens of the answer.'),
          total_tokens: whole('Both.'),
        }),
        NULL,
      ),
    }),
  },
  examples: {
    simple: { summary: 'A question', body: { input: QUESTION, max_output_tokens: 64 } },
    stream: {
      summary: 'A stream with instructions',
      body: { instructions: 'Answer in one sentence.', input: QUESTION, max_output_tokens: 64, stream: true },
    },
    tools: {
      summary: 'A tool that the model may call',
      needs: 'tools',
      body: {
        input: 'How is the weather in Bern?',
        tools: [{ type: 'function', ...WEATHER }],
        max_output_tokens: 128,
      },
    },
    structured: {
      summary: 'JSON by a schema',
      body: {
        input: FACTS,
        text: { format: { type: 'json_schema', name: 'person', strict: true, schema: PERSON } },
        max_output_tokens: 64,
      },
    },
    background: {
      summary: 'A response that runs in the background',
      body: { input: QUESTION, max_output_tokens: 64, background: true },
    },
  },
};

const CACHE_CONTROL = any('A mark for the prompt cache of servers that read it, such as `{"type": "ephemeral"}`.');

const MESSAGES: DialectDoc = {
  request: 'MessagesRequest',
  answer: 'MessageAnswer',
  stream: 'Named events from `message_start` to `message_stop`.',
  sdk: { package: 'anthropic', method: 'messages.create' },
  components: {
    MessagesRequest: object('A conversation to continue.', ['model', 'messages', 'max_tokens'], {
      model: MODEL,
      messages: list('The conversation, oldest message first.', ref('MessageTurn')),
      max_tokens: whole('Most tokens of the answer.', 1),
      system: anyOf(
        'What the model is told first: a text, or text blocks.',
        { type: 'string' },
        { type: 'array', items: ref('MessageBlock') },
      ),
      stream: STREAM,
      temperature: number('Randomness of the choice of tokens; 0 takes the likeliest.', 0, 1),
      top_p: TOP_P,
      top_k: whole('Only this many of the likeliest tokens are chosen from.', 1),
      stop_sequences: list('Texts that end the answer.', { type: 'string' }),
      tools: list('Tools that the model may call; the client runs them.', ref('MessagesTool')),
      tool_choice: object('How tools are called.', ['type'], {
        type: word('`tool` calls the named one.', 'auto', 'any', 'tool', 'none'),
        name: TOOL_NAME,
        disable_parallel_tool_use: flag('Whether an answer calls one tool at most.'),
      }),
      thinking: object('How the model thinks.', ['type'], {
        type: word('Whether it does.', 'enabled', 'disabled', 'adaptive'),
        budget_tokens: whole('Most tokens of it.', 1),
      }),
      output_config: object('Form and effort of the answer.', [], {
        effort: word('How much work.', 'low', 'medium', 'high', 'xhigh', 'max'),
        format: typed('json_schema', 'JSON that matches a schema.', ['schema'], { schema: JSON_SCHEMA }),
      }),
      output_format: any('The older name of `output_config.format`.'),
      metadata: object('About the request.', [], { user_id: text('The end user.') }),
      service_tier: word('Service tier.', 'auto', 'standard_only'),
      stream_options: { type: 'object', description: 'For chat servers: options of a stream.' },
      chat_template_kwargs: TEMPLATE,
      stop: any('For chat servers: counts before `stop_sequences`.'),
      user: text('For chat servers: counts before `metadata`.'),
      parallel_tool_calls: flag('For chat servers: counts before `tool_choice`.'),
      reasoning_effort: text('For chat servers: counts before `output_config` and `thinking`.'),
      response_format: any('For chat servers: counts before `output_config`.'),
    }),
    MessageTurn: object('One message.', ['role', 'content'], {
      role: word('Who speaks.', 'user', 'assistant'),
      content: anyOf('A text, or blocks.', { type: 'string' }, { type: 'array', items: ref('MessageBlock') }),
    }),
    MessageBlock: anyOf(
      'A block of a message.',
      typed('text', 'A text.', ['text'], { text: text('The text.'), cache_control: CACHE_CONTROL }),
      typed('image', 'An image.', ['source'], {
        source: object('', ['type'], {
          type: word('How it is given.', 'base64', 'url'),
          media_type: text('Such as `image/png`.'),
          data: text('Base64.'),
          url: text('An address.'),
        }),
      }),
      typed('document', 'A document of texts.', ['source'], { source: { type: 'object' }, title: text('Its title.') }),
      typed('tool_use', 'A call of a tool.', ['id', 'name', 'input'], {
        id: text('Names the call.'),
        name: TOOL_NAME,
        input: { type: 'object', description: 'The arguments.', additionalProperties: true },
      }),
      typed('tool_result', 'The result of a call.', ['tool_use_id'], {
        tool_use_id: text('The call.'),
        content: anyOf('A text, or blocks.', { type: 'string' }, { type: 'array', items: { type: 'object' } }),
        is_error: flag('Whether the tool has failed.'),
      }),
      typed('thinking', 'What the model thought.', ['thinking'], {
        thinking: text('The text.'),
        signature: text('Of the vendor that made it.'),
      }),
    ),
    MessagesTool: object('A tool.', ['name', 'input_schema'], {
      name: TOOL_NAME,
      description: TOOL_PURPOSE,
      input_schema: JSON_SCHEMA,
      cache_control: CACHE_CONTROL,
    }),
    MessageAnswer: object('The answer.', ['id', 'type', 'role', 'content', 'model', 'stop_reason', 'usage'], {
      id: text('Names the answer.'),
      type: text('`message`.'),
      role: text('`assistant`.'),
      model: text('The model.'),
      content: list('Blocks.', ref('MessageBlock')),
      stop_reason: word('Why it ended.', 'end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'refusal'),
      stop_sequence: any('The text that ended it, or null.'),
      usage: object('Tokens of the request.', ['input_tokens', 'output_tokens'], {
        input_tokens: whole('Tokens of the prompt that did not come from a cache.'),
        cache_read_input_tokens: whole('Tokens of the prompt that came from a KV cache.'),
        output_tokens: whole('Tokens of the answer.'),
      }),
    }),
  },
  examples: {
    simple: { summary: 'A question', body: { max_tokens: 64, messages: [{ role: 'user', content: QUESTION }] } },
    stream: {
      summary: 'A stream with a system text',
      body: {
        max_tokens: 64,
        system: 'Answer in one sentence.',
        messages: [{ role: 'user', content: QUESTION }],
        stream: true,
      },
    },
    tools: {
      summary: 'A tool that the model may call',
      needs: 'tools',
      body: {
        max_tokens: 128,
        messages: [{ role: 'user', content: 'How is the weather in Bern?' }],
        tools: [{ name: WEATHER.name, description: WEATHER.description, input_schema: WEATHER.parameters }],
      },
    },
    image: {
      summary: 'A question about an image',
      needs: 'vision',
      body: {
        max_tokens: 64,
        messages: [
          {
            role: 'user',
            content: [
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PICTURE } },
              { type: 'text', text: 'Which colour is this?' },
            ],
          },
        ],
      },
    },
  },
};

const COUNT_TOKENS: DialectDoc = {
  request: 'CountTokensRequest',
  answer: 'TokenCount',
  sdk: { package: 'anthropic', method: 'messages.count_tokens' },
  components: {
    CountTokensRequest: object(
      'A request of the messages dialect; `max_tokens` may be missing.',
      ['model', 'messages'],
      {
        model: MODEL,
        messages: list('The conversation.', ref('MessageTurn')),
        system: any('As in `MessagesRequest`.'),
        tools: list('Tools.', ref('MessagesTool')),
        tool_choice: any('As in `MessagesRequest`.'),
        thinking: any('As in `MessagesRequest`.'),
      },
    ),
    TokenCount: object('', ['input_tokens'], { input_tokens: whole('Tokens of the whole prompt.') }),
  },
  examples: {
    simple: { summary: 'A question', body: { messages: [{ role: 'user', content: QUESTION }] } },
  },
};

/** Of the Responses API, and of llama-server for both dialects. */
const INPUT_TOKENS: JsonSchema = object('', ['object', 'input_tokens'], {
  object: word('', 'response.input_tokens'),
  input_tokens: whole('Tokens of the whole prompt, what it continues included.'),
});

const RESPONSE_TOKENS: DialectDoc = {
  request: 'ResponseRequest',
  answer: 'InputTokens',
  sdk: { package: 'openai', method: 'responses.input_tokens.count' },
  components: { InputTokens: INPUT_TOKENS },
  examples: { simple: { summary: 'A question', body: { input: QUESTION } } },
};

const CHAT_TOKENS: DialectDoc = {
  request: 'ChatCompletionRequest',
  answer: 'InputTokens',
  components: { InputTokens: INPUT_TOKENS },
  examples: { simple: { summary: 'A question', body: { messages: [{ role: 'user', content: QUESTION }] } } },
};

const LLAMA: DialectDoc = {
  request: 'LlamaCompletionRequest',
  answer: 'LlamaCompletion',
  stream: 'Events with objects like the answer; the last one has `stop: true`.',
  components: {
    LlamaCompletionRequest: object('A text to continue, as llama-server takes it.', ['model', 'prompt'], {
      model: MODEL,
      prompt: anyOf(
        'The text; also token ids, or both mixed.',
        { type: 'string' },
        { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'integer' }] } },
      ),
      n_predict: { type: 'integer', minimum: -1, description: 'Most tokens of the answer; -1: no limit.' },
      stream: STREAM,
      temperature: TEMPERATURE,
      top_k: whole('Only this many of the likeliest tokens are chosen from.'),
      top_p: TOP_P,
      min_p: number('Least probability of a token, as a share of the likeliest one.', 0, 1),
      repeat_penalty: number('Above 1, tokens that have occurred become less likely.', 0, 10),
      stop: list('Texts that end the answer.', { type: 'string' }),
      seed: SEED,
      grammar: text('A grammar that the answer follows (GBNF).'),
      json_schema: JSON_SCHEMA,
      cache_prompt: flag('Whether the server may reuse its KV cache.'),
      n_probs: whole('Likeliest tokens to list at each place.'),
    }),
    LlamaCompletion: object('The answer.', ['content'], {
      content: text('The continuation.'),
      stop: flag('Whether this is the end.'),
      stop_type: word('Why it ended.', 'none', 'eos', 'limit', 'word'),
      tokens_evaluated: whole('Tokens of the prompt.'),
      tokens_predicted: whole('Tokens of the answer.'),
      tokens_cached: whole('Tokens in the KV cache.'),
      timings: { type: 'object', description: 'Times of prefill and decode.' },
    }),
  },
  examples: {
    simple: { summary: 'A text to continue', body: { prompt: 'The river runs', n_predict: 32 } },
    stream: { summary: 'A stream', body: { prompt: 'The river runs', n_predict: 32, stream: true } },
  },
};

/** By the path of the endpoint. */
export const DIALECT_DOCS: Readonly<Record<string, DialectDoc>> = {
  '/v1/chat/completions': CHAT,
  '/v1/completions': COMPLETIONS,
  '/v1/responses': RESPONSES,
  '/v1/messages': MESSAGES,
  '/v1/messages/count_tokens': COUNT_TOKENS,
  '/v1/responses/input_tokens': RESPONSE_TOKENS,
  '/v1/chat/completions/input_tokens': CHAT_TOKENS,
  '/completions': LLAMA,
};

/** Requests of other paths, by the path of the endpoint. */
export const OTHER_EXAMPLES: Readonly<Record<string, Readonly<Record<string, RequestExample>>>> = {
  '/search': {
    simple: { summary: 'Web pages', needs: null, body: { query: 'How does a water mill work?' } },
    filters: {
      summary: 'Recent pages of some hosts, the second ten',
      needs: null,
      body: {
        query: 'fish ladder',
        time_range: 'year',
        include_domains: ['example.com'],
        language: 'en',
        safe_search: 'strict',
        page: 2,
      },
    },
    works: {
      summary: 'Scholarly works of a time',
      needs: null,
      body: {
        query: 'sediment transport',
        search_type: 'academic',
        time_range: { from: '2020-01-01', to: '2024-12-31' },
      },
    },
  },
  '/search/fetch': {
    page: {
      summary: 'A page as Markdown, with what it says of itself',
      needs: null,
      body: { url: 'https://example.com/', format: 'markdown', max_chars: 20_000, links: true, images: true },
    },
    rest: {
      summary: 'The piece that follows: start is next_start of the answer before',
      needs: null,
      body: { url: 'https://example.com/', format: 'markdown', max_chars: 20_000, start: 19_730 },
    },
    fresh: {
      summary: 'A page that its server is asked for again',
      needs: null,
      body: { url: 'https://example.com/', max_age: 0 },
    },
    several: {
      summary: 'Several pages',
      needs: null,
      body: { urls: ['https://example.com/', 'https://example.org/'], max_chars: 5000 },
    },
  },
  '/{full_path}': {
    embeddings: {
      summary: 'Embeddings at v1/embeddings',
      needs: 'embedding',
      body: { input: ['The river runs', 'Water flows'] },
    },
  },
};

/** Where no model is configured. */
const NO_MODEL = 'my-model';

/** The schema of `model` in every request. */
export function modelIdSchema(models: readonly ExampleModel[]): JsonSchema {
  return {
    title: 'ModelId',
    type: 'string',
    description: 'Id or alias of a model; upper and lower case are alike. `GET /v1/models` lists them.',
    examples: models.length === 0 ? [NO_MODEL] : models.slice(0, 20).map(({ id }) => id),
  };
}

/** The body of an example with the first model that declares what it needs, else the first of all. */
export function exampleBody({ needs = 'chat', body }: RequestExample, models: readonly ExampleModel[]): object {
  if (needs === null) return body;
  const fitting = models.find(({ capabilities }) => capabilities.includes(needs)) ?? models[0];
  return { model: fitting?.id ?? NO_MODEL, ...body };
}
