// Random conversations in the messages and the responses dialect, each with the facts that a chat-only server must be told, a scripted
// answer of that server, and the facts that the client must be told back. Every text has a mark of its own, so that a fact is found
// wherever a gateway has put it. The same seed makes the same conversations.

import { isDeepStrictEqual } from 'node:util';

const MODEL = 'atlas-27b';

/** A small generator of random numbers (mulberry32). */
export function createRandom(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    below: (count) => Math.floor(next() * count),
    chance: (share) => next() < share,
    pick: (list) => list[Math.floor(next() * list.length)],
  };
}

const ENDS = ['', ' ü😀', ' "quoted" \\ back', '\nsecond line', ' <tag> & more', ' {"json": [1, 2.50]}'];
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** What is found of a text: where it must be, somewhere else or not whole, or nowhere. */
function fateOfText(text, places, all) {
  if (places.some((place) => place.includes(text))) return 'carried';
  return JSON.stringify(all).includes(text.split(' ')[0].split('\n')[0]) ? 'changed' : 'lost';
}

const fateOfValue = (found, wanted) =>
  found === undefined || found === null ? 'lost' : isDeepStrictEqual(found, wanted) ? 'carried' : 'changed';

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const listOf = (value) => (Array.isArray(value) ? value : []);
const partsOf = (content) => (typeof content === 'string' ? [{ type: 'text', text: content }] : listOf(content));
const textOf = (message) =>
  partsOf(message.content)
    .map(({ text }) => text ?? '')
    .join('\n');
const imagesOf = (message) => partsOf(message.content).flatMap(({ image_url: image }) => image?.url ?? image ?? []);
const withRole = (chat, ...roles) => listOf(chat.messages).filter(({ role }) => roles.includes(role));
const callsOf = (chat) => withRole(chat, 'assistant').flatMap((message) => listOf(message.tool_calls));

/** Thoughts of a message, wherever servers read them. */
const thoughtsOf = ({ reasoning, reasoning_content: content }) => [reasoning, content].filter(Boolean).map(String);

/** Makes one conversation after the other; see `Messages` and `Responses`. */
class Conversations {
  constructor(seed) {
    this.random = createRandom(seed);
    this.count = 0;
  }

  /** A text that no other one contains. */
  text() {
    return `mark${++this.count}x${this.random.below(1e9).toString(36)}${this.random.pick(ENDS)}`;
  }

  expect(field, fate) {
    this.facts.push({ field, fate });
  }

  expectText(field, text, ...roles) {
    this.marks.push(text);
    this.expect(field, (chat) => fateOfText(text, withRole(chat, ...roles).map(textOf), chat));
  }

  expectThought(field, text) {
    this.expect(field, (chat) => fateOfText(text, withRole(chat, 'assistant').flatMap(thoughtsOf), chat));
  }

  expectImage(field, url, ...roles) {
    this.expect(field, (chat) => {
      if (withRole(chat, ...roles).some((message) => imagesOf(message).includes(url))) return 'carried';
      return JSON.stringify(chat).includes(url.slice(-24)) ? 'changed' : 'lost';
    });
  }

  expectValue(field, wanted, ...names) {
    this.expect(field, (chat) =>
      fateOfValue(
        names.map((name) => chat[name]).find((value) => value !== undefined),
        wanted,
      ),
    );
  }

  expectCall(id, name, input) {
    const like = (chat) => callsOf(chat).filter((call) => call.function?.name === name);
    const own = (chat) => callsOf(chat).find((call) => call.id === id);
    this.expect('call of a tool: id', (chat) => (own(chat) ? 'carried' : like(chat).length > 0 ? 'changed' : 'lost'));
    this.expect('call of a tool: name and arguments', (chat) => {
      const equal = ({ function: called }) =>
        called?.name === name && isDeepStrictEqual(parsed(called.arguments), input);
      return callsOf(chat).some(equal) ? 'carried' : own(chat) || like(chat).length > 0 ? 'changed' : 'lost';
    });
  }

  expectResult(id, text) {
    this.marks.push(text);
    this.expect('result of a tool: text', (chat) => {
      const own = withRole(chat, 'tool').filter((message) => message.tool_call_id === id);
      return fateOfText(text, own.map(textOf), chat);
    });
  }

  expectTool(name, description, parameters) {
    const own = (chat) => listOf(chat.tools).find((tool) => tool.function?.name === name)?.function;
    this.expect('tool: name', (chat) => (own(chat) ? 'carried' : 'lost'));
    this.expect('tool: description', (chat) => fateOfValue(own(chat)?.description, description));
    this.expect('tool: schema', (chat) => fateOfValue(own(chat)?.parameters, parameters));
  }

  /** A schema of which validators of other gateways could drop a word. */
  schema() {
    const { random } = this;
    const hasPoint = random.chance(0.3);
    return {
      type: 'object',
      properties: {
        path: { type: 'string', description: this.text(), minLength: 1 },
        ...(random.chance(0.5) && { lines: { type: 'array', items: { type: 'integer', minimum: 0 }, maxItems: 9 } }),
        ...(random.chance(0.3) && { mode: { anyOf: [{ const: 'r' }, { enum: ['w', 'a'] }], default: 'r' } }),
        ...(hasPoint && { at: { $ref: '#/$defs/point' } }),
      },
      required: ['path'],
      ...(random.chance(0.5) && { additionalProperties: false }),
      ...(hasPoint && { $defs: { point: { type: 'object', properties: { x: { type: 'number' } } } } }),
    };
  }

  input() {
    const { random } = this;
    return {
      path: this.text(),
      ...(random.chance(0.5) && { lines: [1, 2.5, -3e10], nested: { a: null, b: [true, ''] } }),
    };
  }

  /** What servers take beside the API of OpenAI. */
  extensions() {
    const { random } = this;
    const members = {
      ...(random.chance(0.2) && { min_p: 0.05 }),
      ...(random.chance(0.2) && { repetition_penalty: 1.1 }),
      ...(random.chance(0.15) && { guided_regex: '[a-z]+' }),
    };
    const custom = random.chance(0.15) ? this.text() : undefined;
    if (custom !== undefined) {
      members.chat_template_kwargs = { custom };
      // Switches of thinking may stand beside it.
      this.expect('extensions of servers', (chat) => fateOfValue(chat.chat_template_kwargs?.custom, custom));
    }
    for (const name of ['min_p', 'repetition_penalty', 'guided_regex']) {
      if (name in members) this.expectValue('extensions of servers', members[name], name);
    }
    return members;
  }

  /** The scripted answer of the server, in the terms of chat completions. */
  answer() {
    const { random } = this;
    const calls = Array.from({ length: random.chance(0.4) ? 1 + random.below(2) : 0 }, (_, at) => ({
      id: `call_${this.count}_${at}_${random.below(1e9).toString(36)}`,
      name: random.pick(['read', 'edit', 'run']),
      input: this.input(),
    }));
    const isCut = calls.length === 0 && random.chance(0.1);
    return {
      id: `chatcmpl-${this.count}`,
      text: calls.length > 0 && random.chance(0.5) ? '' : this.text(),
      thought: random.chance(0.4) ? this.text() : '',
      calls,
      finish: calls.length > 0 ? 'tool_calls' : isCut ? 'length' : 'stop',
      usage: { prompt: 20 + random.below(5000), completion: 1 + random.below(500), cached: random.below(20) },
    };
  }

  make(index) {
    this.facts = [];
    this.marks = [];
    this.calls = [];
    const stream = this.random.chance(0.5);
    const request = this.request(stream);
    const { marks } = this;
    this.expect('order of the conversation', (chat) => {
      const told = listOf(chat.messages).map((message) => JSON.stringify(message));
      const places = marks.map((mark) => told.findIndex((text) => text.includes(mark.split(' ')[0].split('\n')[0])));
      const found = places.filter((place) => place >= 0);
      return found.every((place, at) => at === 0 || place >= found[at - 1]) ? 'carried' : 'changed';
    });
    const isError = this.random.chance(0.05);
    const error = isError ? { status: this.random.pick([400, 413, 422]), message: this.text() } : null;
    return { index, request, stream, facts: this.facts, answer: this.answer(), error };
  }
}

/** Conversations of the messages dialect, as coding agents have them. */
export class Messages extends Conversations {
  path = '/v1/messages';

  request(stream) {
    const { random } = this;
    const tools = Array.from({ length: random.below(4) }, (_, at) => {
      const tool = { name: `tool_${at}_${random.below(100)}`, description: this.text(), input_schema: this.schema() };
      this.expectTool(tool.name, tool.description, tool.input_schema);
      return { ...tool, ...(random.chance(0.2) && { cache_control: { type: 'ephemeral' } }) };
    });
    const request = {
      model: MODEL,
      max_tokens: 16 + random.below(4000),
      ...(random.chance(0.8) && { system: this.system() }),
      messages: this.turns(tools),
      ...(tools.length > 0 && { tools }),
      ...this.choice(tools),
      ...(stream && { stream: true }),
      ...this.options(),
      ...this.extensions(),
    };
    this.expectValue('max_tokens', request.max_tokens, 'max_tokens', 'max_completion_tokens');
    return request;
  }

  system() {
    const { random } = this;
    const texts = Array.from({ length: 1 + random.below(3) }, () => this.text());
    for (const text of texts)
      this.expect('system', (chat) => fateOfText(text, withRole(chat, 'system', 'developer').map(textOf), chat));
    if (texts.length === 1 && random.chance(0.5)) return texts[0];
    return texts.map((text) => ({
      type: 'text',
      text,
      ...(random.chance(0.3) && { cache_control: { type: 'ephemeral' } }),
    }));
  }

  turns(tools) {
    const { random } = this;
    const messages = [this.user()];
    const rounds = random.below(4);
    for (let round = 0; round < rounds; round++) {
      const content = [];
      if (random.chance(0.3)) {
        const thinking = this.text();
        this.expectThought('thinking of earlier turns', thinking);
        content.push({ type: 'thinking', thinking, signature: 'c2lnbmF0dXJl' });
      }
      const calls = tools.length > 0 && random.chance(0.6) ? 1 + random.below(2) : 0;
      if (calls === 0 || random.chance(0.5)) {
        const text = this.text();
        this.expectText('text of the assistant', text, 'assistant');
        content.push({ type: 'text', text });
      }
      const results = [];
      for (let call = 0; call < calls; call++) {
        const id = `toolu_${++this.count}_${random.below(1e9).toString(36)}`;
        const { name } = random.pick(tools);
        const input = this.input();
        this.expectCall(id, name, input);
        content.push({ type: 'tool_use', id, name, input });
        results.push({ id });
      }
      messages.push({ role: 'assistant', content });
      messages.push(calls === 0 ? this.user() : { role: 'user', content: this.results(results) });
    }
    return messages;
  }

  results(results) {
    const { random } = this;
    const blocks = results.map(({ id }) => {
      const text = this.text();
      this.expectResult(id, text);
      const isError = random.chance(0.2);
      if (isError) {
        this.expect('result of a tool: is_error', (chat) => {
          const own = withRole(chat, 'tool').filter((message) => message.tool_call_id === id);
          return own.some((message) => /error|fail/i.test(textOf(message).replace(text, ''))) ? 'carried' : 'lost';
        });
      }
      const parts = [{ type: 'text', text }];
      if (random.chance(0.15)) {
        const data = `${PNG.slice(0, -2)}${this.count}AA==`;
        this.expectImage('result of a tool: image', `data:image/png;base64,${data}`, 'user', 'tool');
        parts.push({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } });
      }
      const content = parts.length === 1 && random.chance(0.5) ? text : parts;
      return { type: 'tool_result', tool_use_id: id, content, ...(isError && { is_error: true }) };
    });
    if (random.chance(0.2)) {
      const text = this.text();
      this.expectText('text of the user', text, 'user');
      blocks.push({ type: 'text', text });
    }
    return blocks;
  }

  user() {
    const { random } = this;
    const text = this.text();
    this.expectText('text of the user', text, 'user');
    if (random.chance(0.4)) return { role: 'user', content: text };
    const content = [{ type: 'text', text }];
    if (random.chance(0.2)) {
      const data = `${PNG.slice(0, -2)}${++this.count}BB==`;
      this.expectImage('image of the user: base64', `data:image/png;base64,${data}`, 'user');
      content.push({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } });
    }
    if (random.chance(0.15)) {
      const url = `https://images.example/${++this.count}.png?a="b"`;
      this.expectImage('image of the user: URL', url, 'user');
      content.push({ type: 'image', source: { type: 'url', url } });
    }
    if (random.chance(0.1)) {
      const data = this.text();
      this.expectText('document of the user: text', data, 'user');
      content.push({ type: 'document', source: { type: 'text', media_type: 'text/plain', data }, title: 'notes' });
    }
    return { role: 'user', content };
  }

  choice(tools) {
    const { random } = this;
    if (tools.length === 0 || random.chance(0.4)) return {};
    const { name } = random.pick(tools);
    const [choice, wanted] = random.pick([
      [{ type: 'auto' }, 'auto'],
      [{ type: 'any' }, 'required'],
      [{ type: 'none' }, 'none'],
      [
        { type: 'tool', name },
        { type: 'function', function: { name } },
      ],
    ]);
    this.expectValue('tool_choice', wanted, 'tool_choice');
    const isSingle = choice.type !== 'none' && random.chance(0.3);
    if (isSingle) this.expectValue('disable_parallel_tool_use', false, 'parallel_tool_calls');
    return { tool_choice: { ...choice, ...(isSingle && { disable_parallel_tool_use: true }) } };
  }

  options() {
    const { random } = this;
    const options = {
      ...(random.chance(0.4) && { temperature: 0.25 }),
      ...(random.chance(0.3) && { top_p: 0.9 }),
      ...(random.chance(0.3) && { top_k: 40 }),
      ...(random.chance(0.3) && { stop_sequences: ['END', '\n\n'] }),
    };
    for (const name of ['temperature', 'top_p', 'top_k']) {
      if (name in options) this.expectValue(name, options[name], name);
    }
    if ('stop_sequences' in options) this.expectValue('stop_sequences', options.stop_sequences, 'stop');
    if (random.chance(0.3)) {
      options.metadata = { user_id: this.text() };
      this.expectValue('metadata.user_id', options.metadata.user_id, 'user');
    }
    if (random.chance(0.3)) {
      const isOn = random.chance(0.7);
      options.thinking = isOn
        ? { type: 'enabled', budget_tokens: random.pick([1024, 8192, 32_000]) }
        : { type: 'disabled' };
      this.expect('thinking: on or off, and its budget', (chat) => {
        const { chat_template_kwargs: kwargs, reasoning, reasoning_effort: effort, thinking } = chat;
        if (isOn ? effort !== undefined : effort === 'none' || kwargs?.enable_thinking === false) return 'carried';
        return thinking === undefined && reasoning === undefined ? 'lost' : 'changed';
      });
    }
    if (random.chance(0.2)) {
      const schema = this.schema();
      options.output_config = { format: { type: 'json_schema', schema } };
      this.expect('output_config.format', (chat) =>
        fateOfValue(chat.response_format?.json_schema?.schema ?? chat.response_format, schema),
      );
    }
    return options;
  }

  /** Facts of an answer, read from the message that the client has. */
  answerFacts({ calls, finish, text, thought, usage }) {
    const blocks = (message, type) => listOf(message.content).filter((block) => block.type === type);
    const facts = [];
    const expect = (field, fate) => facts.push({ field, fate });
    if (text !== '')
      expect('text', (message) =>
        fateOfText(
          text,
          blocks(message, 'text').map((block) => block.text),
          message,
        ),
      );
    if (thought !== '') {
      expect('thinking', (message) =>
        fateOfText(
          thought,
          blocks(message, 'thinking').map((block) => block.thinking),
          message,
        ),
      );
    }
    for (const { id, input, name } of calls) {
      const own = (message) => blocks(message, 'tool_use').find((block) => block.id === id);
      expect('call: id', (message) =>
        own(message) ? 'carried' : blocks(message, 'tool_use').length > 0 ? 'changed' : 'lost',
      );
      expect('call: name and input', (message) =>
        blocks(message, 'tool_use').some((block) => block.name === name && isDeepStrictEqual(block.input, input))
          ? 'carried'
          : blocks(message, 'tool_use').length > 0
            ? 'changed'
            : 'lost',
      );
    }
    const reason = { stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use' }[finish];
    expect('stop reason', (message) => fateOfValue(message.stop_reason, reason));
    expect('usage: input', ({ usage: told = {} }) =>
      fateOfValue((told.input_tokens ?? NaN) + (told.cache_read_input_tokens ?? 0), usage.prompt),
    );
    expect('usage: output', (message) => fateOfValue(message.usage?.output_tokens, usage.completion));
    if (usage.cached > 0)
      expect('usage: cached', (message) => fateOfValue(message.usage?.cache_read_input_tokens, usage.cached));
    return facts;
  }

  /** The message that the events of a stream make, and what is wrong with their order. */
  accumulate(events) {
    let message = null;
    let fault = events.at(-1)?.type === 'message_stop' ? null : 'no message_stop';
    const arguments_ = new Map();
    for (const event of events) {
      if (event.type === 'ping') continue;
      if (message === null && event.type !== 'message_start') fault ??= `${event.type} comes first`;
      message ??= { content: [], usage: {} };
      const block = message.content[event.index];
      if (event.type === 'message_start') message = { ...event.message, content: [] };
      else if (event.type === 'content_block_start') {
        if (event.index !== message.content.length) fault ??= 'indexes have gaps';
        message.content[event.index] = { ...event.content_block };
        arguments_.set(event.index, '');
      } else if (event.type === 'content_block_delta' && block === undefined) fault ??= 'a delta without its block';
      else if (event.type === 'content_block_delta') {
        const { delta } = event;
        if (delta.type === 'text_delta') block.text += delta.text;
        else if (delta.type === 'thinking_delta') block.thinking += delta.thinking;
        else if (delta.type === 'input_json_delta')
          arguments_.set(event.index, arguments_.get(event.index) + delta.partial_json);
      } else if (event.type === 'message_delta') {
        Object.assign(message, event.delta);
        message.usage = { ...message.usage, ...event.usage };
      } else if (event.type === 'error') fault ??= `an error: ${JSON.stringify(event.error)}`;
    }
    for (const [at, block] of (message?.content ?? []).entries()) {
      if (block?.type === 'tool_use' && arguments_.get(at)) block.input = parsed(arguments_.get(at));
    }
    return { whole: message ?? {}, fault };
  }
}

/** Conversations of the responses dialect. */
export class Responses extends Conversations {
  path = '/v1/responses';

  request(stream) {
    const { random } = this;
    const tools = Array.from({ length: random.below(4) }, (_, at) => {
      const tool = { name: `tool_${at}_${random.below(100)}`, description: this.text(), parameters: this.schema() };
      this.expectTool(tool.name, tool.description, tool.parameters);
      return { type: 'function', ...tool, strict: false };
    });
    const request = {
      model: MODEL,
      ...(random.chance(0.8) && { instructions: this.instructions() }),
      input: this.items(tools),
      ...(tools.length > 0 && { tools }),
      ...this.choice(tools),
      ...(stream && { stream: true }),
      store: false,
      ...this.options(),
      ...this.extensions(),
    };
    return request;
  }

  instructions() {
    const text = this.text();
    this.expect('instructions', (chat) => fateOfText(text, withRole(chat, 'system', 'developer').map(textOf), chat));
    return text;
  }

  items(tools) {
    const { random } = this;
    if (random.chance(0.1)) {
      const text = this.text();
      this.expectText('text of the user', text, 'user');
      return text;
    }
    const items = [this.user()];
    if (random.chance(0.15)) {
      const text = this.text();
      this.expectText('developer message', text, 'system', 'developer');
      items.unshift({ type: 'message', role: 'developer', content: [{ type: 'input_text', text }] });
      this.marks.unshift(this.marks.pop());
    }
    const rounds = random.below(4);
    for (let round = 0; round < rounds; round++) {
      if (random.chance(0.3)) {
        const text = this.text();
        this.expectThought('reasoning of earlier turns', text);
        items.push({
          type: 'reasoning',
          id: `rs_${++this.count}`,
          summary: [],
          content: [{ type: 'reasoning_text', text }],
        });
      }
      const calls = tools.length > 0 && random.chance(0.6) ? 1 + random.below(2) : 0;
      if (calls === 0 || random.chance(0.5)) {
        const text = this.text();
        this.expectText('text of the assistant', text, 'assistant');
        const content = [{ type: 'output_text', text, annotations: [] }];
        items.push({ type: 'message', id: `msg_${++this.count}`, role: 'assistant', status: 'completed', content });
      }
      const results = [];
      for (let call = 0; call < calls; call++) {
        const id = `call_${++this.count}_${random.below(1e9).toString(36)}`;
        const { name } = random.pick(tools);
        const input = this.input();
        this.expectCall(id, name, input);
        items.push({
          type: 'function_call',
          id: `fc_${this.count}`,
          call_id: id,
          name,
          arguments: JSON.stringify(input),
        });
        results.push(id);
      }
      for (const id of results) {
        const text = this.text();
        this.expectResult(id, text);
        items.push({ type: 'function_call_output', call_id: id, output: text });
      }
      if (calls === 0) items.push(this.user());
    }
    return items;
  }

  user() {
    const { random } = this;
    const text = this.text();
    this.expectText('text of the user', text, 'user');
    if (random.chance(0.3)) return { role: 'user', content: text };
    const content = [{ type: 'input_text', text }];
    if (random.chance(0.2)) {
      const url = `data:image/png;base64,${PNG.slice(0, -2)}${++this.count}CC==`;
      this.expectImage('image of the user: base64', url, 'user');
      content.push({ type: 'input_image', image_url: url, detail: 'auto' });
    }
    if (random.chance(0.15)) {
      const url = `https://images.example/${++this.count}.png?a="b"`;
      this.expectImage('image of the user: URL', url, 'user');
      content.push({ type: 'input_image', image_url: url, detail: 'low' });
    }
    return { type: 'message', role: 'user', content };
  }

  choice(tools) {
    const { random } = this;
    const isSingle = tools.length > 0 && random.chance(0.3);
    if (isSingle) this.expectValue('parallel_tool_calls', false, 'parallel_tool_calls');
    const parallel = isSingle ? { parallel_tool_calls: false } : {};
    if (tools.length === 0 || random.chance(0.4)) return parallel;
    const { name } = random.pick(tools);
    const [choice, wanted] = random.pick([
      ['auto', 'auto'],
      ['required', 'required'],
      ['none', 'none'],
      [
        { type: 'function', name },
        { type: 'function', function: { name } },
      ],
    ]);
    this.expectValue('tool_choice', wanted, 'tool_choice');
    return { tool_choice: choice, ...parallel };
  }

  options() {
    const { random } = this;
    const options = {
      ...(random.chance(0.5) && { max_output_tokens: 16 + random.below(4000) }),
      ...(random.chance(0.4) && { temperature: 0.25 }),
      ...(random.chance(0.3) && { top_p: 0.9 }),
      ...(random.chance(0.2) && { user: this.text() }),
    };
    for (const name of ['temperature', 'top_p', 'user']) {
      if (name in options) this.expectValue(name, options[name], name);
    }
    if ('max_output_tokens' in options) {
      this.expectValue('max_output_tokens', options.max_output_tokens, 'max_completion_tokens', 'max_tokens');
    }
    if (random.chance(0.3)) {
      options.reasoning = { effort: random.pick(['low', 'medium', 'high']) };
      this.expectValue('reasoning.effort', options.reasoning.effort, 'reasoning_effort');
    }
    if (random.chance(0.3)) {
      const schema = this.schema();
      options.text = { format: { type: 'json_schema', name: 'answer', schema, strict: true }, verbosity: 'low' };
      this.expect('text.format', (chat) =>
        fateOfValue(chat.response_format?.json_schema?.schema ?? chat.response_format, schema),
      );
      this.expectValue('text.verbosity', 'low', 'verbosity');
    }
    return options;
  }

  answerFacts({ calls, finish, text, thought, usage }) {
    const items = (response, type) => listOf(response.output).filter((item) => item.type === type);
    const textsIn = (list) =>
      list.flatMap((item) => [...listOf(item.content), ...listOf(item.summary)].map((part) => part.text ?? ''));
    const facts = [];
    const expect = (field, fate) => facts.push({ field, fate });
    if (text !== '') expect('text', (response) => fateOfText(text, textsIn(items(response, 'message')), response));
    if (thought !== '')
      expect('reasoning', (response) => fateOfText(thought, textsIn(items(response, 'reasoning')), response));
    for (const { id, input, name } of calls) {
      const all = (response) => items(response, 'function_call');
      expect('call: id', (response) =>
        all(response).some((item) => item.call_id === id) ? 'carried' : all(response).length > 0 ? 'changed' : 'lost',
      );
      expect('call: name and arguments', (response) =>
        all(response).some((item) => item.name === name && isDeepStrictEqual(parsed(item.arguments), input))
          ? 'carried'
          : all(response).length > 0
            ? 'changed'
            : 'lost',
      );
    }
    expect('status', (response) => fateOfValue(response.status, finish === 'length' ? 'incomplete' : 'completed'));
    if (finish === 'length') {
      expect('incomplete_details', (response) => fateOfValue(response.incomplete_details?.reason, 'max_output_tokens'));
    }
    expect('usage: input', (response) => fateOfValue(response.usage?.input_tokens, usage.prompt));
    expect('usage: output', (response) => fateOfValue(response.usage?.output_tokens, usage.completion));
    if (usage.cached > 0) {
      expect('usage: cached', (response) =>
        fateOfValue(response.usage?.input_tokens_details?.cached_tokens, usage.cached),
      );
    }
    return facts;
  }

  accumulate(events) {
    const last = events.at(-1);
    let fault = /^response\.(?:completed|incomplete)$/.test(last?.type) ? null : 'no response.completed at the end';
    if (events[0]?.type !== 'response.created') fault ??= `${events[0]?.type} comes first`;
    const texts = new Map();
    for (const event of events) {
      if (event.type === 'response.output_text.delta') {
        texts.set(event.output_index, (texts.get(event.output_index) ?? '') + event.delta);
      }
    }
    const output = last?.response?.output ?? [];
    for (const [at, text] of texts) {
      const told = (output[at]?.content ?? []).map((part) => part.text ?? '').join('');
      if (told !== text) fault ??= 'deltas differ from the text of the last event';
    }
    return { whole: last?.response ?? {}, fault };
  }
}
