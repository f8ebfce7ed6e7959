// Asks CRNs how many tokens a prompt has: by their own endpoint for the dialect, else by their tokenizer. Servers have
// different ones; what a server was found to lack is remembered for an hour.

import { parseJson } from '../config/json-text.ts';
import { LRUCache } from 'lru-cache';
import { chosenMembers, type DialectName, memberTable, tokenCount } from '../dialect/index.ts';
import { type BufferedClient, type BufferedResponse } from '../net/buffered-client.ts';
import { classifyBody, type Member, pathUnknown } from '../routing/index.ts';
import { membersOf, parsedJson } from '../net/json-object.ts';

/** A request to count the tokens of a prompt. */
export interface TokenCountRequest {
  readonly model: string;
  /** Of `body`. */
  readonly dialect: DialectName;
  /** The gateway has checked the client's key: a CRN that refuses it does not tell of the client. */
  readonly keyChecked: boolean;
  /** Path and query. */
  readonly path: string;
  readonly body: Buffer;
  /** Of the request for one CRN: names in lower case. */
  headers(member: Member): Readonly<Record<string, string>>;
  /** Whether the CRN is to be asked in the dialect. */
  speaks(member: Member): boolean;
  /** The request as one of chat completions, as JSON; null when it cannot be carried. */
  chat(): Buffer | null;
}

/** What a CRN says: tokens, or its own answer to the client's request, which is for the client as it is. */
export type TokenCount =
  | { readonly member: Member; readonly tokens: number; readonly answer: null }
  | { readonly member: Member; readonly tokens: null; readonly answer: BufferedResponse };

/** Ways to count, in the order in which they are tried. Bits. */
const WAYS = {
  /** `/tokenize` with messages, to which the server applies its chat template: vLLM */
  messages: 2,
  /** `/apply-template`, then `/tokenize` with its text: llama-server */
  template: 4,
  /** `/tokenize` with the text alone, without a chat template: SGLang */
  text: 8,
} as const;

/** The first way of each dialect: an endpoint of its own, as `/v1/messages/count_tokens`. */
const OWN: Readonly<Partial<Record<DialectName, number>>> = { messages: 1, responses: 16, 'chat-completions': 32 };

/** A server may be updated without a sign of a restart. */
const LACK_MS = 60 * 60 * 1000;
const MAX_SERVERS = 4096;
/** CRNs that are asked for one request. They run the same model: when several fail another one is not likely to do better. */
const MAX_ASKED = 3;
/** A token has up to 8 bytes in a list. */
const MAX_ANSWER_BYTES = 32 * 1024 * 1024;

export class TokenCounter {
  readonly #client: Pick<BufferedClient, 'send'>;
  readonly #now: () => number;
  readonly #timeoutMs: number;
  /** Ways that a server lacks, and since when, by URL and model. */
  readonly #lacks = new LRUCache<string, { ways: number; readonly sinceMs: number }>({ max: MAX_SERVERS });

  /**
   * @param now milliseconds of a clock that does not go back
   * @param timeoutMs for one request, whatever CRNs are asked. Default 3 s
   */
  constructor(client: Pick<BufferedClient, 'send'>, now: () => number, timeoutMs = 3000) {
    this.#client = client;
    this.#now = now;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Asks `members` one after another. Resolves with null when none of them can say it, or none in time. Rejects with the reason of
   * `gone` when it is aborted.
   */
  async count(members: readonly Member[], request: TokenCountRequest, gone: AbortSignal): Promise<TokenCount | null> {
    const signal = AbortSignal.any([gone, AbortSignal.timeout(this.#timeoutMs)]);
    for (const member of members.slice(0, MAX_ASKED)) {
      try {
        const counted = await this.#ask(member, request, signal);
        if (counted !== null) return counted;
      } catch {
        gone.throwIfAborted();
        if (signal.aborted) return null;
        // The next CRN may be in order.
      }
    }
    return null;
  }

  async #ask(member: Member, request: TokenCountRequest, signal: AbortSignal): Promise<TokenCount | null> {
    const ask = (way: number, path: string, body: string | Buffer): Promise<unknown> =>
      this.#send(member, request, way, path, body, signal);
    const own = OWN[request.dialect] ?? 0;
    if (own !== 0 && request.speaks(member) && !this.#isLacked(member, request, own)) {
      const url = member.url + request.path;
      const answer = await this.#post(member, request, url, request.body, signal);
      if (!this.#isMissing(member, request, own, answer)) {
        if (isForClient(answer, member, request)) return { member, tokens: null, answer };
        throw new Error(`${url} answered ${answer.status}`);
      }
    }
    const chat = request.chat();
    if (chat === null) return null;
    const asked = chosenMembers(chat, PROMPT, '"add_generation_prompt":true');
    const counted = membersOf(await ask(WAYS.messages, '/tokenize', asked));
    const count = tokenCount(counted['count']);
    if (count !== undefined) return { member, tokens: count, answer: null };
    // llama-server overlooks what it does not know, and has counted nothing.
    if (Array.isArray(counted['tokens'])) this.#note(member, request, WAYS.messages);
    const { prompt: text } = membersOf(await ask(WAYS.template, '/apply-template', chosenMembers(chat, PROMPT)));
    if (typeof text === 'string') {
      const body = JSON.stringify({ model: request.model, content: text, add_special: true, parse_special: true });
      const tokens = lengthOf(await ask(WAYS.template, '/tokenize', body));
      if (tokens !== undefined) return { member, tokens, answer: null };
    }
    const plain = JSON.stringify({ model: request.model, prompt: textOfPrompt(chat) });
    const tokens = lengthOf(await ask(WAYS.text, '/tokenize', plain));
    if (tokens === undefined) return null;
    this.#note(member, request, WAYS.messages);
    return { member, tokens, answer: null };
  }

  /** The parsed answer; undefined when the server lacks this way, or cannot do it for this prompt. */
  async #send(
    member: Member,
    request: TokenCountRequest,
    way: number,
    path: string,
    body: string | Buffer,
    signal: AbortSignal,
  ): Promise<unknown> {
    if (this.#isLacked(member, request, way)) return undefined;
    const url = member.url + path;
    const answer = await this.#post(member, request, url, body, signal);
    if (this.#isMissing(member, request, way, answer) || answer.status === 400 || answer.status === 422)
      return undefined;
    if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}`);
    return parseJson(answer.body.toString());
  }

  #post(
    member: Member,
    request: TokenCountRequest,
    url: string,
    body: string | Buffer,
    signal: AbortSignal,
  ): Promise<BufferedResponse> {
    const { host: hostname } = member;
    const named = hostname === undefined ? {} : { hostname };
    const headers = request.headers(member);
    return this.#client.send({ method: 'POST', url, headers, body, ...named }, signal, MAX_ANSWER_BYTES);
  }

  #isLacked({ url }: Member, { model }: TokenCountRequest, way: number): boolean {
    const lack = this.#lacks.get(`${url} ${model}`);
    return lack !== undefined && (lack.ways & way) !== 0 && this.#now() - lack.sinceMs < LACK_MS;
  }

  #note({ url }: Member, { model }: TokenCountRequest, way: number): void {
    const key = `${url} ${model}`;
    const sinceMs = this.#now();
    const lack = this.#lacks.get(key);
    if (lack === undefined || sinceMs - lack.sinceMs >= LACK_MS) this.#lacks.set(key, { ways: way, sinceMs });
    else lack.ways |= way;
  }

  /** Whether the server cannot count this way. Where it does not know the path it is not asked so again. */
  #isMissing(member: Member, request: TokenCountRequest, way: number, { body, status }: BufferedResponse): boolean {
    // Some servers answer every path, with a page or with an empty object.
    const isOwn = way === OWN[request.dialect];
    const isOther = isOwn && status === 200 && inputTokensIn(body) === undefined;
    if (!isOther && status !== 404 && status !== 405 && status !== 501) return false;
    // The next CRN may have the model.
    if (classifyBody(status, body) === 'next-neutral') throw new Error(`${member.url} does not know the model`);
    // A 404 may be of what this request names, such as a response that it continues.
    if (isOwn && !isOther && !pathUnknown(status, body)) return true;
    // Both are `/tokenize`.
    this.#note(member, request, way === WAYS.messages ? WAYS.messages | WAYS.text : way);
    return true;
  }
}

function inputTokensIn(body: Buffer): number | undefined {
  return tokenCount(membersOf(parsedJson(body.toString()))['input_tokens']);
}

/** Whether an answer is the client's: a count, or a mistake in its request. */
function isForClient({ status }: BufferedResponse, { apiKey }: Member, { keyChecked }: TokenCountRequest): boolean {
  if (status === 200) return true;
  if (status === 401 || status === 403) return apiKey === undefined && !keyChecked;
  return status >= 400 && status < 500 && status !== 408 && status !== 425 && status !== 429;
}

/** Members of a chat request that become prompt. */
const PROMPT = memberTable(['model', 'messages', 'tools', 'chat_template', 'chat_template_kwargs', 'reasoning_effort']);

/** Tokens in the answer of a tokenizer. */
function lengthOf(answer: unknown): number | undefined {
  const { count, tokens } = membersOf(answer);
  return tokenCount(count) ?? (Array.isArray(tokens) ? tokens.length : undefined);
}

/** All text of a prompt. */
function textOfPrompt(chat: Buffer): string {
  const { messages, tools } = membersOf(parsedJson(chat.toString()));
  const texts: string[] = [];
  if (Array.isArray(tools)) texts.push(JSON.stringify(tools));
  for (const message of Array.isArray(messages) ? (messages as readonly unknown[]) : []) {
    const { content, reasoning_content: reasoning, tool_calls: calls } = membersOf(message);
    if (typeof reasoning === 'string') texts.push(reasoning);
    if (typeof content === 'string') texts.push(content);
    if (Array.isArray(content)) {
      for (const part of content as readonly unknown[]) {
        const { text } = membersOf(part);
        if (typeof text === 'string') texts.push(text);
      }
    }
    if (Array.isArray(calls)) texts.push(JSON.stringify(calls));
  }
  return texts.join('\n');
}
