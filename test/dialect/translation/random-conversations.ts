// Random, valid requests of the messages dialect: system texts, turns with every kind of part that chat completions can carry, loops
// of tools, thinking, schemas, options, cache marks and extensions of servers.

import type { Random } from '../../support/random.ts';
import { randomJson, randomText } from './json-texts.ts';

export type Json = Record<string, unknown>;

const TOOL_NAMES = ['read', 'write_file', 'größe', 'mcp__files__list', 'x'];
const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max'];
const EPHEMERAL = { cache_control: { type: 'ephemeral', ttl: '1h' } };

/** Makes one request after the other. */
export class RandomConversations {
  readonly #random: Random;
  #ids = 0;
  /** Calls of the last turn of the assistant, which wait for their results. */
  #calls: string[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  request(): Json {
    const random = this.#random;
    this.#calls = [];
    const tools = this.#list(4, () => this.#tool());
    const parts: Json[] = [
      this.#maybe({ system: random.chance(0.4) ? this.#text() : this.#list(3, () => this.#textPart()) }),
      { messages: this.#turns() },
      this.#maybe({ tools, ...(tools.length > 0 && this.#maybe({ tool_choice: this.#toolChoice(tools) })) }),
      this.#maybe({ temperature: random.pick([0, 0.7, 1]), top_p: 0.95, top_k: 40 }),
      this.#maybe({ stop_sequences: this.#list(3, () => this.#text()) }),
      this.#maybe({ stream: random.chance(0.5) }),
      this.#maybe({ thinking: this.#thinking() }),
      this.#maybe({
        output_config: { ...this.#maybe({ effort: random.pick([...EFFORTS, null]) }), ...this.#format('format') },
      }),
      this.#format('output_format'),
      this.#maybe({ metadata: { ...this.#maybe({ user_id: random.pick([this.#text(), null]) }), session: 'x' } }),
      this.#maybe({ service_tier: random.pick(['auto', 'standard_only']) }),
      this.#maybe({
        chat_template_kwargs: { ...this.#maybe({ enable_thinking: random.chance(0.5) }), a: this.value() },
      }),
      this.#maybe({ min_p: 0.05, seed: random.below(100), guided_json: this.value(), 'x"y': this.value() }),
      this.#maybe({ reasoning_effort: random.pick(EFFORTS) }),
      this.#maybe({ ...EPHEMERAL, betas: ['a'], context_management: { edits: [] }, diagnostics: null, speed: 'fast' }),
      this.#maybe({ container: null, mcp_servers: [], inference_geo: 'us' }),
    ];
    const members = Object.entries(Object.assign({ model: 'atlas-27b', max_tokens: 1024 }, ...parts) as Json);
    // Members come in any order.
    return Object.fromEntries(members.toSorted(() => random.below(3) - 1));
  }

  /** A JSON value of any kind. */
  value(): unknown {
    // Numbers that are none in JSON become null.
    return JSON.parse(JSON.stringify(JSON.parse(randomJson(this.#random, 3)))) as unknown;
  }

  #turns(): Json[] {
    const random = this.#random;
    const turns: Json[] = [];
    for (let rest = random.below(5); rest >= 0; rest--) {
      turns.push(this.#userTurn());
      if (random.chance(0.05))
        turns.push({ role: 'system', content: random.chance(0.5) ? this.#text() : [this.#textPart()] });
      if (rest > 0 || random.chance(0.1)) turns.push(this.#assistantTurn());
    }
    return turns;
  }

  #userTurn(): Json {
    const random = this.#random;
    const results = this.#calls.map((id) => this.#result(id));
    this.#calls = [];
    if (results.length === 0) {
      const content = random.chance(0.3) ? this.#text() : this.#list(4, () => this.#part());
      return { role: 'user', content, ...this.#extras(0.1) };
    }
    return { role: 'user', content: [...results, ...(random.chance(0.4) ? this.#list(3, () => this.#part()) : [])] };
  }

  #assistantTurn(): Json {
    const random = this.#random;
    if (random.chance(0.3)) return { role: 'assistant', content: this.#text() };
    const calls = random.chance(0.5) ? this.#list(3, () => this.#call()) : [];
    this.#calls = calls.map(({ id }) => id as string);
    const thoughts = this.#list(2, () =>
      random.chance(0.2)
        ? { type: 'redacted_thinking', data: 'abc' }
        : { type: 'thinking', thinking: this.#text(), signature: 'EqQB' },
    );
    return { role: 'assistant', content: [...thoughts, ...this.#list(2, () => this.#textPart()), ...calls] };
  }

  #part(): Json {
    const random = this.#random;
    switch (random.below(8)) {
      case 0:
        return this.#image();
      case 1:
        return this.#document();
      case 2: {
        const content = this.#list(2, () => this.#textPart());
        return { type: 'search_result', title: this.#text(), source: 'https://a.example', content, ...this.#mark() };
      }
      case 3:
        return { type: 'video_url', video_url: { url: 'https://a.example/b.mp4' }, ...this.#extras(0.5) };
      default:
        return this.#textPart();
    }
  }

  #textPart(): Json {
    const citations = this.#random.chance(0.1) ? { citations: [{ type: 'char_location', cited_text: 'a' }] } : {};
    return { type: 'text', text: this.#text(), ...this.#mark(), ...this.#extras(0.1), ...citations };
  }

  #image(): Json {
    const source = this.#random.chance(0.5)
      ? { type: 'base64', media_type: 'image/png', data: Buffer.from(this.#text()).toString('base64') }
      : { type: 'url', url: `https://a.example/${encodeURIComponent(this.#text().toWellFormed())}` };
    return { type: 'image', source, ...this.#mark(), ...this.#extras(0.1) };
  }

  #document(): Json {
    const random = this.#random;
    const source = random.pick([
      { type: 'text', media_type: 'text/plain', data: this.#text() },
      { type: 'content', content: this.#text() },
      { type: 'content', content: this.#list(2, () => (random.chance(0.7) ? this.#textPart() : this.#image())) },
    ]);
    const headings = {
      ...this.#maybe({ title: random.pick([this.#text(), null]) }),
      ...this.#maybe({ context: this.#text() }),
    };
    return {
      type: 'document',
      source,
      ...headings,
      ...this.#maybe({ citations: { enabled: false } }),
      ...this.#mark(),
    };
  }

  #call(): Json {
    const input = Object.fromEntries(this.#list(3, (at) => [`${at}${this.#text()}`, this.value()] as const));
    const id = `toolu_${++this.#ids} "ü"`;
    return { type: 'tool_use', id, name: this.#random.pick(TOOL_NAMES), input, ...this.#mark(), ...this.#extras(0.1) };
  }

  #result(id: string): Json {
    const random = this.#random;
    const part = (): Json => random.pick([this.#textPart(), this.#textPart(), this.#image(), this.#document()]);
    const content = random.pick([{ content: this.#text() }, { content: this.#list(3, part) }, {}, { content: null }]);
    const error = this.#maybe({ is_error: random.chance(0.5) });
    return { type: 'tool_result', tool_use_id: id, ...content, ...error, ...this.#mark(), ...this.#extras(0.1) };
  }

  #tool(): Json {
    const random = this.#random;
    if (random.chance(0.1)) return { type: 'function', function: { name: 'f', parameters: this.value() } };
    return {
      ...this.#maybe({ type: random.pick(['custom', null]) }),
      name: `${random.pick(TOOL_NAMES)}_${++this.#ids}`,
      ...this.#maybe({ description: this.#text() }),
      input_schema: { type: 'object', properties: { [this.#text()]: this.value() }, additionalProperties: false },
      ...this.#maybe({ strict: random.chance(0.5) }),
      ...this.#maybe({ input_examples: [{}], defer_loading: true, eager_input_streaming: null }),
      ...this.#mark(),
      ...this.#extras(0.1),
    };
  }

  #toolChoice(tools: readonly Json[]): Json {
    const type = this.#random.pick(['auto', 'any', 'tool', 'none']);
    const name = tools[0]?.['name'] ?? 'f';
    const parallel = this.#maybe({ disable_parallel_tool_use: this.#random.chance(0.5) });
    return { type, ...(type === 'tool' && { name }), ...parallel };
  }

  #thinking(): Json {
    const random = this.#random;
    const budget_tokens = random.pick([1024, 4095, 4096, 16_383, 16_384, 64_000]);
    return random.pick([
      { type: 'enabled', budget_tokens, ...this.#maybe({ display: 'summarized' }) },
      { type: 'disabled' },
      { type: 'adaptive' },
    ]);
  }

  #format(name: string): Json {
    return this.#maybe({ [name]: this.#random.pick([{ type: 'json_schema', schema: this.value() }, null]) });
  }

  #text(): string {
    return randomText(this.#random, 6);
  }

  #mark(): Json {
    return this.#random.chance(0.15) ? EPHEMERAL : {};
  }

  /** Members that no dialect has. */
  #extras(share: number): Json {
    return this.#random.chance(share) ? { extra: this.value(), 'größe "1"': null } : {};
  }

  #maybe(members: Json): Json {
    return this.#random.chance(0.4) ? members : {};
  }

  #list<Item>(most: number, make: (at: number) => Item): Item[] {
    return Array.from({ length: this.#random.below(most + 1) }, (_, at) => make(at));
  }
}
