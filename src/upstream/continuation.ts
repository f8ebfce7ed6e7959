// Continues a text stream that broke off on another CRN, by prefilling what the client has already: as the unfinished message of the
// assistant in chat completions, behind the prompt in completions. Only plain text of one choice can be continued.

import { sseEvent } from '../dialect/index.ts';
import { parseEvents } from '../net/sse.ts';
import { isJsonObject, parsedJson } from '../net/json-object.ts';

/**
 * How CRNs take an unfinished message. `vllm`: with `continue_final_message`, as vLLM and SGLang do. `prefill`: a last message of the
 * assistant is continued, as by llama-server. `off`: nothing is continued.
 */
export type ContinuationKind = 'off' | 'vllm' | 'prefill';

type Json = Readonly<Record<string, unknown>>;

/** Members of a request that make its stream more than plain text, unless they have one of the values. */
const PLAIN_ONLY: Readonly<Record<string, readonly unknown[]>> = {
  n: [1],
  best_of: [1],
  tools: [],
  functions: [],
  logprobs: [false],
  top_logprobs: [],
  guided_json: [],
  guided_regex: [],
  guided_choice: [],
  guided_grammar: [],
  structured_outputs: [],
  grammar: [''],
  json_schema: [],
  echo: [false],
  suffix: [''],
  modalities: [],
  audio: [],
};

const LIMITS = ['max_tokens', 'max_completion_tokens', 'n_predict'];

/** Members of a chunk of text, beside `content` and `text`. */
const CHUNK_MEMBERS: ReadonlySet<string> = new Set(['index', 'delta', 'text', 'finish_reason', 'stop_reason']);

/** The text of one stream as it passes, and the request that continues it. */
export class Continuation {
  readonly #kind: 'vllm' | 'prefill';
  readonly #isChat: boolean;
  readonly #request: Json;
  #text = '';
  /** Chunks with text: CRNs send one for each token. */
  #tokens = 0;
  #isPlain = true;
  /** The members that say which answer a chunk belongs to, of the first chunk. */
  #identity: Json | null = null;

  /** Null for a request whose stream cannot be continued. */
  static of(kind: ContinuationKind, dialect: string | undefined, body: Buffer): Continuation | null {
    if (kind === 'off' || (dialect !== 'chat-completions' && dialect !== 'completions')) return null;
    // The body was checked for routing alone: it may be no JSON in the parts that were skipped.
    const request = objectOf(parsedJson(body.toString()));
    if (request === null) return null;
    const isChat = dialect === 'chat-completions';
    if (!(isChat ? Array.isArray(request['messages']) : typeof request['prompt'] === 'string')) return null;
    for (const [name, plain] of Object.entries(PLAIN_ONLY)) {
      const value = request[name] ?? undefined;
      if (value === undefined || plain.includes(value) || (Array.isArray(value) && value.length === 0)) continue;
      return null;
    }
    const format = request['response_format'] ?? undefined;
    if (format !== undefined && objectOf(format)?.['type'] !== 'text') return null;
    return new Continuation(kind, isChat, request);
  }

  private constructor(kind: 'vllm' | 'prefill', isChat: boolean, request: Json) {
    this.#kind = kind;
    this.#isChat = isChat;
    this.#request = request;
  }

  /** Notes whole events that pass to the client. */
  pass(piece: Buffer): void {
    if (!this.#isPlain) return;
    for (const { data } of parseEvents(piece.toString())) {
      if (data === '[DONE]') continue;
      const chunk = objectOf(parsedJson(data));
      this.#isPlain &&= chunk !== null && this.#note(chunk);
    }
  }

  /** The body of a request that continues what has passed; null when that is not possible. */
  body(): Buffer | null {
    if (!this.#isPlain || this.#text === '') return null;
    const request: Record<string, unknown> = { ...this.#request };
    for (const name of LIMITS) {
      const limit = request[name];
      if (typeof limit !== 'number' || limit < 0) continue;
      if (limit <= this.#tokens) return null;
      request[name] = limit - this.#tokens;
    }
    if (!this.#isChat) {
      request['prompt'] = `${String(request['prompt'])}${this.#text}`;
    } else if (!this.#prefill(request)) {
      return null;
    }
    return Buffer.from(JSON.stringify(request));
  }

  /** The events of a CRN that continues, as events of the answer that began: same ids, no second beginning. */
  rewrite(piece: Buffer): Buffer {
    let text = '';
    for (const { data } of parseEvents(piece.toString())) {
      const chunk = data === '[DONE]' ? null : objectOf(parsedJson(data));
      if (chunk === null) text += `data: ${data}\n\n`;
      else if (!isOpening(chunk)) text += sseEvent(undefined, { ...withoutRole(chunk), ...this.#identity });
    }
    return Buffer.from(text);
  }

  /** The message of the assistant that is to be continued, in place of the client's own when it had begun one. */
  #prefill(request: Record<string, unknown>): boolean {
    const messages = request['messages'] as readonly unknown[];
    const last = objectOf(messages.at(-1)) ?? undefined;
    const isBegun =
      last?.['role'] === 'assistant' && (this.#kind === 'prefill' || request['continue_final_message'] === true);
    if (isBegun && typeof last['content'] !== 'string') return false;
    const begun = isBegun ? String(last['content']) : '';
    request['messages'] = [
      ...(isBegun ? messages.slice(0, -1) : messages),
      { ...(isBegun ? last : { role: 'assistant' }), content: begun + this.#text },
    ];
    if (this.#kind === 'vllm') {
      request['continue_final_message'] = true;
      request['add_generation_prompt'] = false;
    }
    return true;
  }

  /** False for a chunk that holds anything but text. */
  #note(chunk: Json): boolean {
    const { id, created, model, choices } = chunk;
    this.#identity ??= {
      ...(id !== undefined && { id }),
      ...(created !== undefined && { created }),
      ...(model !== undefined && { model }),
    };
    if (!Array.isArray(choices) || choices.length === 0) return Array.isArray(choices);
    const choice = objectOf(choices[0]);
    if (choice === null || choices.length > 1 || (choice['index'] ?? 0) !== 0) return false;
    for (const [name, value] of Object.entries(choice)) if (value !== null && !CHUNK_MEMBERS.has(name)) return false;
    const delta = objectOf(choice['delta'] ?? {});
    if (delta === null) return false;
    for (const [name, value] of Object.entries(delta)) {
      if (value !== null && value !== '' && name !== 'role' && name !== 'content') return false;
    }
    const text = this.#isChat ? delta['content'] : choice['text'];
    if (typeof text === 'string' && text !== '') {
      this.#text += text;
      this.#tokens++;
    }
    return true;
  }
}

/** A chunk that says who speaks and no more. */
function isOpening({ choices }: Json): boolean {
  const choice = Array.isArray(choices) ? objectOf(choices[0]) : null;
  const delta = objectOf(choice?.['delta']);
  if (choice === null || delta === null) return false;
  const { content, role, ...others } = delta;
  const ends = choice['finish_reason'] ?? null;
  return (
    role !== undefined &&
    (content ?? '') === '' &&
    ends === null &&
    Object.values(others).every((value) => value === null)
  );
}

/** Who speaks has been said. */
function withoutRole(chunk: Json): Json {
  const { choices } = chunk;
  const first = Array.isArray(choices) ? objectOf(choices[0]) : null;
  const delta = objectOf(first?.['delta']);
  if (delta?.['role'] === undefined) return chunk;
  const { role: _, ...rest } = delta;
  return { ...chunk, choices: [{ ...first, delta: rest }] };
}

function objectOf(value: unknown): Json | null {
  return isJsonObject(value) ? value : null;
}
