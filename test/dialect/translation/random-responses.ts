// Random requests of the responses dialect: conversations with every kind of item that chat completions can carry, tools of all
// kinds, options, and extensions of servers.

import type { Random } from '../../support/random.ts';
import { randomText } from './json-texts.ts';

export type Json = Record<string, unknown>;

const NAMES = ['read', 'write_file', 'exec_command', 'apply_patch', 'größe', 'x'];
const NAMESPACES = ['multi_agent_v1', 'mcp', 'n'];
const MODES = ['auto', 'none', 'required'];

/** Makes one request after the other. */
export class RandomResponses {
  readonly #random: Random;
  #tools: Json[] = [];
  #calls: { readonly type: string; readonly id: string }[] = [];
  #ids = 0;
  #names = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  request(): Json {
    const random = this.#random;
    this.#tools = this.#list(5, () => this.#tool());
    this.#calls = [];
    const conversation = random.chance(0.1) ? { input: this.#text() } : { input: this.#list(12, () => this.#item()) };
    const parts: Json[] = [
      conversation,
      this.#maybe({ instructions: random.pick([this.#text(), null]) }),
      this.#maybe({ tools: this.#tools }),
      this.#maybe({ tool_choice: this.#choice() }),
      this.#maybe({ parallel_tool_calls: random.pick([true, false, null]) }),
      this.#maybe({ max_output_tokens: random.pick([1, 4096, null]) }),
      this.#maybe({ temperature: random.pick([0, 0.7, 1.5]), top_p: 0.95 }),
      this.#maybe({ reasoning: { effort: random.pick(['low', 'high', null]), summary: 'auto' } }),
      this.#maybe({ text: this.#textOptions() }),
      this.#maybe({
        include: this.#list(2, () => random.pick(['reasoning.encrypted_content', 'message.output_text.logprobs'])),
      }),
      this.#maybe({ top_logprobs: random.below(5) }),
      this.#maybe({ stream: random.chance(0.5), stream_options: { include_obfuscation: false } }),
      this.#maybe({ store: false, metadata: { a: this.#text() }, truncation: 'auto', prompt_cache_key: this.#text() }),
      this.#maybe({ previous_response_id: null, conversation: null, background: true, user: this.#text() }),
      this.#maybe({ seed: random.below(100), stop: ['\n', this.#text()], top_k: 40, min_p: 0.05 }),
      this.#maybe({ chat_template_kwargs: { enable_thinking: random.chance(0.5) }, extra_body: [null, this.#text()] }),
    ];
    const members = Object.entries(Object.assign({ model: 'atlas-27b' }, ...parts) as Json);
    // Members come in any order.
    return Object.fromEntries(members.toSorted(() => random.below(3) - 1));
  }

  #item(): Json {
    const random = this.#random;
    switch (random.below(10)) {
      case 0:
        return this.#message('user', random.chance(0.3) ? this.#text() : this.#list(3, () => this.#part()));
      case 1:
        return this.#message('user', [{ type: 'input_text', text: this.#text() }]);
      case 2:
        return this.#message(
          'assistant',
          random.chance(0.2)
            ? this.#text()
            : this.#list(2, () =>
                random.chance(0.2)
                  ? { type: 'refusal', refusal: this.#text() }
                  : { type: 'output_text', text: this.#text(), annotations: [], logprobs: [] },
              ),
        );
      case 3:
        return this.#reasoning();
      case 4:
        if (random.chance(0.7)) return this.#reasoning();
        return this.#message(random.pick(['system', 'developer']), random.chance(0.5) ? this.#text() : this.#texts());
      case 5:
      case 6:
        return this.#call();
      case 7:
      case 8:
        return this.#result();
      default:
        return { type: 'additional_tools', role: 'developer', tools: this.#list(2, () => this.#tool()) };
    }
  }

  #message(role: string, content: unknown): Json {
    const id = this.#maybe({ id: `msg_${++this.#ids}`, status: 'completed' });
    return { ...(role !== 'assistant' && this.#random.chance(0.3) ? {} : { type: 'message' }), role, content, ...id };
  }

  #texts(): Json[] {
    return this.#list(3, () => ({ type: 'input_text', text: this.#text() }));
  }

  #part(): Json {
    const random = this.#random;
    if (random.chance(0.6)) return { type: 'input_text', text: this.#text() };
    if (random.chance(0.3)) {
      const data = Buffer.from(this.#text().toWellFormed()).toString('base64');
      return { type: 'input_file', filename: 'a.txt', file_data: `data:text/plain;base64,${data}` };
    }
    return {
      type: 'input_image',
      image_url: random.pick(['https://a.example/b.png?c="d"', 'data:image/png;base64,iVBORw0KGgo=']),
      ...this.#maybe({ detail: random.pick(['auto', 'low', null]) }),
    };
  }

  #reasoning(): Json {
    const { length } = this.#texts();
    return {
      type: 'reasoning',
      id: `rs_${++this.#ids}`,
      summary: Array.from({ length }, () => ({ type: 'summary_text', text: this.#text() })),
      ...this.#maybe({ content: this.#list(2, () => ({ type: 'reasoning_text', text: this.#text() })) }),
      ...this.#maybe({ encrypted_content: 'gAAAA' }),
    };
  }

  #call(): Json {
    const random = this.#random;
    const id = `call_${++this.#ids}`;
    const tool = random.chance(0.9) && this.#tools.length > 0 ? random.pick(this.#tools) : this.#tool();
    const item = this.#callOf(tool, id);
    this.#calls.push({ type: item['type'] as string, id });
    return item;
  }

  #callOf(tool: Json, id: string): Json {
    const random = this.#random;
    const common = { ...this.#maybe({ id: `fc_${this.#ids}`, status: 'completed' }), call_id: id };
    switch (tool['type']) {
      case 'namespace': {
        const inner = tool['tools'] as Json[];
        return inner.length === 0
          ? this.#callOf({ type: 'function', name: 'x' }, id)
          : { ...this.#callOf(random.pick(inner), id), namespace: tool['name'] };
      }
      case 'custom':
        return { type: 'custom_tool_call', ...common, name: tool['name'], input: this.#text() };
      case 'local_shell':
        return { type: 'local_shell_call', ...common, action: { type: 'exec', command: ['a', this.#text()], env: {} } };
      case 'tool_search':
        return { type: 'tool_search_call', ...common, execution: 'client', arguments: { query: this.#text() } };
      default: {
        const input = JSON.stringify({ path: this.#text(), count: random.below(9) });
        return {
          type: 'function_call',
          ...common,
          name: tool['name'],
          arguments: random.chance(0.1) ? '{broken' : input,
        };
      }
    }
  }

  #result(): Json {
    const random = this.#random;
    const call = this.#calls.shift() ?? { type: 'function_call', id: `call_${++this.#ids}` };
    if (call.type === 'local_shell_call') return { type: 'local_shell_call_output', id: call.id, output: this.#text() };
    if (call.type === 'tool_search_call') {
      const tools = this.#list(2, () =>
        random.chance(0.3) && this.#tools.length > 0 ? random.pick(this.#tools) : this.#tool(),
      );
      return { type: 'tool_search_output', call_id: call.id, execution: 'client', tools };
    }
    const type = call.type === 'custom_tool_call' ? 'custom_tool_call_output' : 'function_call_output';
    return { type, call_id: call.id, output: random.chance(0.6) ? this.#text() : this.#list(3, () => this.#part()) };
  }

  #tool(): Json {
    const random = this.#random;
    const kind = random.below(10);
    if (kind === 0) return { type: 'local_shell' };
    if (kind === 1) return { type: 'tool_search', execution: 'client', description: this.#text(), parameters: {} };
    if (kind === 2) {
      const tools = this.#list(3, () => random.pick([this.#function(), this.#custom()]));
      return { type: 'namespace', name: random.pick(NAMESPACES), description: 'd', tools };
    }
    return kind < 5 ? this.#custom() : this.#function();
  }

  #function(): Json {
    return {
      type: 'function',
      name: this.#name(),
      ...this.#maybe({ description: this.#random.pick([this.#text(), null]) }),
      ...this.#maybe({ parameters: { type: 'object', properties: { [this.#text()]: { type: 'string' } } } }),
      ...this.#maybe({ strict: this.#random.pick([true, false, null]), defer_loading: true }),
      ...this.#maybe({ 'x-extra': this.#text() }),
    };
  }

  #custom(): Json {
    const grammar = { type: 'grammar', syntax: 'lark', definition: this.#text() };
    return {
      type: 'custom',
      name: this.#name(),
      ...this.#maybe({ description: this.#text() }),
      ...this.#maybe({ format: this.#random.pick([grammar, { type: 'text' }]) }),
    };
  }

  /** No two tools have one name. */
  #name(): string {
    return `${this.#random.pick(NAMES)}_${++this.#names}`;
  }

  #choice(): unknown {
    const random = this.#random;
    const named = this.#tools.filter(({ name, type }) => type !== 'namespace' && name !== undefined);
    if (named.length === 0 || random.chance(0.5)) return random.pick([...MODES, null]);
    const selectors = named.map(({ name, type }) => ({ type, name }));
    if (random.chance(0.5)) return random.pick(selectors);
    return { type: 'allowed_tools', mode: random.pick(MODES), tools: [random.pick(selectors), random.pick(selectors)] };
  }

  #textOptions(): Json {
    const schema = { type: 'json_schema', name: 'a', schema: { type: 'object' }, ...this.#maybe({ strict: true }) };
    return {
      ...this.#maybe({ format: this.#random.pick([{ type: 'text' }, { type: 'json_object' }, schema]) }),
      ...this.#maybe({ verbosity: 'low' }),
    };
  }

  #text(): string {
    return randomText(this.#random, this.#random.pick([1, 4, 8]));
  }

  #list<Item>(most: number, make: () => Item): Item[] {
    return Array.from({ length: this.#random.below(most + 1) }, make);
  }

  #maybe(members: Json): Json {
    return this.#random.chance(0.5) ? members : {};
  }
}
