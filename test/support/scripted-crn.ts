// A CRN that answers as each request tells it to, honestly, with lies about usage, or not at all, and that writes down what it did.
// Several of them share a script: every attempt of a request takes the next step, whichever CRN it meets.

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

/** What an attempt does. `honest` obeys the limit of the request and reports what it delivered. */
export type Step = 'honest' | (typeof LIES)[number] | (typeof FAILURES)[number] | (typeof BREAKS)[number];

/** Answers whose text arrives, and whose usage is wrong. */
export const LIES = [
  'huge usage',
  'no usage',
  'zero usage',
  'negative usage',
  'nested usage',
  'usage in every event',
  'one large event',
  'beyond the limit',
] as const;

/** Those of them that count nothing. */
export const UNCOUNTED = ['no usage', 'zero usage', 'negative usage'] as const;

/** Answers that are none: the next CRN is asked. */
export const FAILURES = [
  'error 500',
  'busy 429',
  'reset',
  'empty 200',
  'no content 204',
  'HTML',
  'error JSON',
  'error event',
  'only done',
  'comments, then a break',
  'role, then a break',
  'silence',
] as const;

/** Answers that break off after some text. */
export const BREAKS = ['break in the middle', 'silence in the middle'] as const;

export type ApiPath = '/v1/chat/completions' | '/v1/completions' | '/v1/responses' | '/v1/messages' | '/completions';

/** What a request asks of the CRNs, in the header `x-script`. */
export interface CrnScript {
  /** For each attempt; the last one is repeated. */
  readonly steps: readonly Step[];
  /** Words of each answer, if the limit allows so many. */
  readonly words: number;
  /** Tokens of the prompt, and how many of them come from the cache, as an honest CRN counts them. */
  readonly prompt: number;
  readonly cached: number;
}

/** What an honest attempt delivered. */
export interface Truth {
  readonly prompt: number;
  readonly cached: number;
  readonly completion: number;
}

type Json = Readonly<Record<string, unknown>>;

const WORD = 'word ';
const LIMITS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n_predict'];
const ERROR = { error: { message: 'out of memory', code: 500 }, usage: { prompt_tokens: 7, completion_tokens: 7 } };
const TRANSLATED: ReadonlySet<string> = new Set(['/v1/messages', '/v1/responses']);
const HUGE = 99_999_999;

export class ScriptedCrns {
  /** Of requests that an honest attempt has answered whole, by request id. */
  readonly truths = new Map<string, Truth>();
  /** Bytes of text in answers whose tokens nobody has counted, by request id. */
  readonly uncounted = new Map<string, number>();
  /** Limits that stood in the requests, by request id. */
  readonly limits = new Map<string, number>();
  readonly urls: string[] = [];
  readonly #attempts = new Map<string, number>();

  /** Requests that were sent to a CRN that does not know their path. */
  unknown = 0;

  /** `chatOnly`: how many of them know neither messages nor responses. */
  static async start(t: Test, count: number, chatOnly = 0): Promise<ScriptedCrns> {
    const crns = new ScriptedCrns();
    for (let at = 0; at < count; at++) {
      const server = createServer((request, response) => void crns.#serve(request, response, at < chatOnly));
      await once(server.listen(0, '127.0.0.1'), 'listening');
      t.teardown(() => {
        server.close();
        server.closeAllConnections();
      });
      crns.urls.push(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    }
    return crns;
  }

  async #serve(request: IncomingMessage, response: ServerResponse, isChatOnly: boolean): Promise<void> {
    const { 'x-request-id': id, 'x-script': scripted } = request.headers;
    const pieces: Buffer[] = [];
    try {
      for await (const piece of request) pieces.push(piece as Buffer);
    } catch {
      return;
    }
    if (typeof scripted !== 'string' || typeof id !== 'string') {
      response.end('{"status":"ok"}');
      return;
    }
    if (isChatOnly && TRANSLATED.has(request.url ?? '')) {
      this.unknown++;
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}');
      return;
    }
    const body = JSON.parse(Buffer.concat(pieces).toString()) as Json;
    const script = JSON.parse(scripted) as CrnScript;
    const attempt = this.#attempts.get(id) ?? 0;
    this.#attempts.set(id, attempt + 1);
    const step = script.steps[Math.min(attempt, script.steps.length - 1)] as Step;
    new Answer(this, id, request.url as ApiPath, body, script, step, response).send();
  }
}

class Answer {
  readonly #crns: ScriptedCrns;
  readonly #id: string;
  readonly #path: string;
  readonly #script: CrnScript;
  readonly #step: Step;
  readonly #response: ServerResponse;
  readonly #streams: boolean;
  readonly #asksUsage: boolean;
  readonly #choices: number;
  readonly #words: number;

  constructor(
    crns: ScriptedCrns,
    id: string,
    path: string,
    body: Json,
    script: CrnScript,
    step: Step,
    response: ServerResponse,
  ) {
    this.#crns = crns;
    this.#id = id;
    this.#path = path;
    this.#script = script;
    this.#step = step;
    this.#response = response;
    this.#streams = body['stream'] === true;
    const options = body['stream_options'] as { include_usage?: boolean } | undefined;
    this.#asksUsage = options?.include_usage === true || !path.includes('completions') || path === '/completion';
    this.#choices = path === '/v1/chat/completions' || path === '/v1/completions' ? Number(body['n'] ?? 1) : 1;
    const limits = LIMITS.flatMap((name) => (typeof body[name] === 'number' && body[name] >= 0 ? [body[name]] : []));
    const limit = Math.min(Infinity, ...limits);
    crns.limits.set(id, limit);
    this.#words = step === 'beyond the limit' ? script.words + 500 : Math.min(script.words, limit);
  }

  send(): void {
    const response = this.#response;
    response.on('error', () => undefined);
    const json = (status: number, text: string, type = 'application/json'): void => {
      response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(text) });
      response.end(text);
    };
    switch (this.#step) {
      case 'error 500':
        json(500, '{"detail":"no"}');
        break;
      case 'busy 429':
        json(429, '{"detail":"busy"}');
        break;
      case 'reset':
        response.socket?.resetAndDestroy();
        break;
      case 'empty 200':
        json(200, '');
        break;
      case 'no content 204':
        response.writeHead(204).end();
        break;
      case 'HTML':
        json(200, '<html><body>It works!</body></html>', 'text/html');
        break;
      case 'error JSON':
        json(200, JSON.stringify(ERROR));
        break;
      case 'error event':
        this.#head().end(this.#event('error', { type: 'error', ...ERROR }));
        break;
      case 'only done':
        this.#head().end('data: [DONE]\n\n');
        break;
      case 'comments, then a break':
        this.#head().write(': keep-alive\n\n'.repeat(3), () => response.destroy());
        break;
      case 'role, then a break':
        this.#head().write(this.#opening(), () => response.destroy());
        break;
      case 'silence':
        this.#head().write(': wait\n\n');
        break;
      default:
        if (this.#streams) this.#stream();
        else if (this.#step === 'break in the middle' || this.#step === 'silence in the middle') this.#cutWhole();
        else json(200, JSON.stringify(this.#whole()));
    }
    if (this.#step === 'honest') this.#crns.truths.set(this.#id, this.#truth);
    if (UNCOUNTED.some((step) => step === this.#step)) {
      this.#crns.uncounted.set(this.#id, this.#words * this.#choices * WORD.length);
    }
  }

  get #truth(): Truth {
    const { cached, prompt } = this.#script;
    return { prompt, cached, completion: this.#words * this.#choices };
  }

  #head(): ServerResponse {
    return this.#response.writeHead(200, { 'content-type': 'text/event-stream' });
  }

  /** Bytes of a JSON answer that stops short of its length. */
  #cutWhole(): void {
    const text = JSON.stringify(this.#whole());
    this.#response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
    this.#response.write(text.slice(0, text.length / 2), () => {
      if (this.#step === 'break in the middle') this.#response.destroy();
    });
  }

  #stream(): void {
    const isBroken = this.#step === 'break in the middle' || this.#step === 'silence in the middle';
    const words = isBroken ? Math.ceil(this.#words / 2) : this.#words;
    const texts = this.#step === 'one large event' ? [WORD.repeat(words)] : Array.from({ length: words }, () => WORD);
    let events = this.#opening();
    for (const text of texts) {
      for (let index = 0; index < this.#choices; index++) events += this.#delta(text, index);
    }
    if (!isBroken) events += this.#ending();
    // In pieces that cut events anywhere.
    const response = this.#head();
    const bytes = Buffer.from(events);
    const half = Math.floor(bytes.length / 2);
    response.write(bytes.subarray(0, half), () => {
      if (!isBroken) response.end(bytes.subarray(half));
      else
        response.write(bytes.subarray(half), () => void (this.#step === 'break in the middle' && response.destroy()));
    });
  }

  /** Members with token counts, as this step reports them. */
  #usage(): Json {
    const { cached, completion, prompt } = this.#truth;
    const named = (p: number, c: number): Json => {
      switch (this.#path) {
        case '/completion':
          return { tokens_evaluated: p, tokens_predicted: c, timings: { cache_n: cached, prompt_n: p - cached } };
        case '/v1/messages': {
          const input = { input_tokens: p - cached, cache_read_input_tokens: cached };
          return { usage: { ...input, output_tokens: c } };
        }
        case '/v1/responses':
          return { usage: { input_tokens: p, output_tokens: c, input_tokens_details: { cached_tokens: cached } } };
        default:
          return {
            usage: { prompt_tokens: p, completion_tokens: c, prompt_tokens_details: { cached_tokens: cached } },
          };
      }
    };
    switch (this.#step) {
      case 'huge usage':
        return named(HUGE, HUGE);
      case 'no usage':
        return {};
      case 'zero usage':
        return named(0, 0);
      case 'negative usage':
        return named(-5, -5.5);
      case 'nested usage':
        return { metadata: { more: [named(HUGE, HUGE)] }, usage: [named(1, 1)] };
      default:
        return named(prompt, completion);
    }
  }

  #event(name: string, data: Json): string {
    const isNamed = this.#path === '/v1/responses' || this.#path === '/v1/messages';
    return `${isNamed ? `event: ${name}\n` : ''}data: ${JSON.stringify(data)}\n\n`;
  }

  #opening(): string {
    switch (this.#path) {
      case '/v1/chat/completions':
        return this.#event('', { choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] });
      case '/v1/responses':
        return this.#event('response.created', { type: 'response.created', response: {} });
      case '/v1/messages':
        return this.#event('message_start', { type: 'message_start', message: { content: [], ...this.#usage() } });
      default:
        return ': opening\n\n';
    }
  }

  #delta(text: string, index: number): string {
    const usage = this.#step === 'usage in every event' ? this.#usage() : {};
    switch (this.#path) {
      case '/v1/chat/completions':
        return this.#event('', {
          id: 'c',
          choices: [{ index, delta: { content: text }, finish_reason: null }],
          ...usage,
        });
      case '/v1/completions':
        return this.#event('', { id: 'c', choices: [{ index, text, finish_reason: null }], ...usage });
      case '/v1/responses': {
        const type = 'response.output_text.delta';
        return this.#event(type, { type, delta: text, ...usage });
      }
      case '/v1/messages': {
        const type = 'content_block_delta';
        return this.#event(type, { type, index, delta: { type: 'text_delta', text }, ...usage });
      }
      default:
        return this.#event('', { index, content: text, stop: false, ...usage });
    }
  }

  #ending(): string {
    const usage = this.#usage();
    switch (this.#path) {
      case '/v1/chat/completions':
      case '/v1/completions': {
        let events = '';
        for (let index = 0; index < this.#choices; index++) {
          events += this.#event('', { choices: [{ index, delta: {}, finish_reason: 'stop' }] });
        }
        if (this.#asksUsage && 'usage' in usage) events += this.#event('', { choices: [], ...usage });
        return `${events}data: [DONE]\n\n`;
      }
      case '/v1/responses': {
        const type = 'response.completed';
        // Without an id it would be no response.
        return this.#event(type, { type, response: { id: `resp_${this.#id}`, output: [], ...usage } });
      }
      case '/v1/messages':
        return (
          this.#event('message_delta', { type: 'message_delta', delta: { stop_reason: 'end_turn' }, ...usage }) +
          this.#event('message_stop', { type: 'message_stop' })
        );
      default:
        return this.#event('', { content: '', stop: true, ...usage });
    }
  }

  #whole(): Json {
    const text = WORD.repeat(this.#words);
    const usage = this.#usage();
    const choices = Array.from({ length: this.#choices }, (_, index) => ({ index, finish_reason: 'stop' }));
    switch (this.#path) {
      case '/v1/chat/completions':
        return { choices: choices.map((choice) => ({ ...choice, message: { content: text } })), ...usage };
      case '/v1/completions':
        return { choices: choices.map((choice) => ({ ...choice, text })), ...usage };
      case '/v1/responses':
        return { output: [{ type: 'message', content: [{ type: 'output_text', text }] }], ...usage };
      case '/v1/messages':
        return { type: 'message', content: [{ type: 'text', text }], stop_reason: 'end_turn', ...usage };
      default:
        return { content: text, stop: true, ...usage };
    }
  }
}
