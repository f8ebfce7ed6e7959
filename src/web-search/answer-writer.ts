// Writes the answer of all rounds as one answer for the client: chunks of the chat dialect, which the translation of the request carries
// to the client's dialect. Markers become citations as each dialect has them.

import { type AnswerTranslator, type HostedStep, type ServerError } from '../dialect/index.ts';
import { membersOf, parsedJson } from '../net/json-object.ts';
import { CitationSplitter, type Segment } from './citation-splitter.ts';
import { exactlyParsed } from './exact-json.ts';
import type { HostedRequest, Members } from './hosted-request.ts';
import type { Source } from './sources.ts';

/** A call of a tool of the client. */
export interface ClientCall {
  readonly id: string;
  readonly name: string;
  arguments: string;
}

/** Tokens of all rounds. */
export interface RoundUsage {
  prompt: number;
  completion: number;
  cached: number;
  reasoning: number;
}

/**
 * Takes what is written for the client. The memory may be used again when the call returns. `isUseful`: it is a part of the answer, not
 * only its head, a comment or an error.
 */
export type Output = (events: Buffer, isUseful: boolean) => void;

const DONE = Buffer.from('data: [DONE]\n\n');

export class AnswerWriter {
  readonly #request: HostedRequest;
  readonly #output: Output;
  readonly #translator: AnswerTranslator | null;
  readonly #splitter: CitationSplitter;
  /** Members that all chunks have; null before the first round has begun. */
  #head: Members | null = null;
  /** Code points of the text in which citations have their place. */
  #offset = 0;
  #lastChar = '';
  /** Text follows what was said before a search, where both are one text. */
  #isApart = false;
  /** The text has been cited, and more text is another block. */
  #isCited = false;
  /** Of an answer in chat completions. */
  readonly #citations: unknown[] = [];

  constructor(request: HostedRequest, output: Output) {
    this.#request = request;
    this.#output = output;
    this.#translator = request.translated?.answer() ?? null;
    const isText = !isConstrained(request.chat);
    this.#splitter = new CitationSplitter((number) => isText && request.sources.find(number) !== undefined);
  }

  /** Number of the next event of a numbered stream. */
  get nextSequence(): number {
    return this.#translator?.nextSequence ?? 0;
  }

  /** The first chunk of a round: that of the first one gives the answer its names. */
  begin({
    created,
    id,
    model,
    service_tier: tier,
    system_fingerprint: print,
  }: Readonly<Record<string, unknown>>): void {
    if (this.#head !== null) return;
    this.#head = {
      ...{ id, object: 'chat.completion.chunk', created, model },
      ...(tier !== undefined && { service_tier: tier }),
      ...(print !== undefined && { system_fingerprint: print }),
    };
    this.#chunk({ role: 'assistant', content: '' }, {}, false);
  }

  text(text: string): void {
    for (const segment of this.#splitter.push(text)) this.#segment(segment);
  }

  /** A text of the model has ended: what was held back of it leaves. */
  endText(): void {
    for (const segment of this.#splitter.end()) this.#segment(segment);
  }

  reasoning(text: string): void {
    this.#chunk({ reasoning_content: text });
    this.#endPart();
  }

  refusal(text: string): void {
    this.#chunk({ refusal: text });
    this.#endPart();
  }

  /** Reasoning has ended with a signature, which goes with it. */
  signature(signature: string): void {
    this.#chunk({ thinking_blocks: [{ type: 'thinking', signature }] });
  }

  /** A search begins or ends. */
  step(step: HostedStep): void {
    this.#put(this.#translator?.hosted(step), step.kind !== 'break');
    this.#endPart();
    this.#isCited = false;
    this.#isApart = this.#lastChar !== '' && this.#lastChar !== '\n';
  }

  comment(line: string): void {
    this.#send(Buffer.from(`${line}\n\n`), false);
  }

  /** The answer has ended: `calls` are for the client. */
  finish(reason: string, calls: readonly ClientCall[], choice: Members, usage: RoundUsage): void {
    for (const [index, call] of calls.entries()) {
      const { arguments: args, id, name } = call;
      this.#chunk({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: args } }] });
    }
    // In one list: of several, clients that put a message together keep the last one, or throw.
    if (this.#citations.length > 0) this.#chunk({ annotations: this.#citations });
    this.#chunk({}, { ...choice, finish_reason: reason });
    if (this.#request.wantsUsage || !this.#request.streams) {
      this.#event({ ...this.#head, choices: [], usage: usageMember(usage) });
    }
    this.#send(DONE, true);
    this.#put(this.#translator?.end(), true);
  }

  /** The answer breaks off. */
  fail({ code, message, param, type }: ServerError): void {
    const error = { message, type: type || 'server_error', code: code || null, param: param || null };
    this.#send(Buffer.from(`data: ${JSON.stringify({ error })}\n\n`), false);
  }

  #segment({ cites, text }: Segment): void {
    if (this.#isApart) {
      this.#isApart = false;
      this.#say('\n\n');
    }
    if (text !== undefined) this.#say(text);
    else for (const number of cites) this.#cite(this.#request.sources.find(number) as Source);
  }

  #say(text: string, annotations?: readonly unknown[]): void {
    if (text === '') return;
    if (this.#isCited && this.#request.dialect === 'messages') this.step({ kind: 'break' });
    this.#chunk(annotations === undefined ? { content: text } : { content: text, annotations });
    this.#offset += codePoints(text);
    this.#lastChar = text.at(-1) ?? '';
  }

  #cite(source: Source): void {
    if (this.#translator !== null && this.#request.dialect === 'messages') {
      this.#put(this.#translator.hosted({ kind: 'cite', source }), true);
      this.#isCited = true;
      return;
    }
    const space = this.#lastChar === '' || /\s/.test(this.#lastChar) ? '' : ' ';
    const { title, url } = source;
    const link = `([${hostOf(url)}](${url.replaceAll(NOT_IN_LINK, escapeIn)}))`;
    const start = this.#offset + space.length;
    const place = { start_index: start, end_index: start + codePoints(link), url, title };
    const citation = { type: 'url_citation', url_citation: place };
    const isChat = this.#request.dialect === 'chat-completions';
    if (isChat && this.#citations.length < MOST_CITATIONS) this.#citations.push(citation);
    this.#say(space + link, isChat ? undefined : [citation]);
  }

  /** What follows is another part, whose text begins anew. */
  #endPart(): void {
    if (this.#request.dialect === 'chat-completions') return;
    this.#offset = 0;
    this.#lastChar = '';
  }

  #chunk(delta: Members, choice: Members = {}, isUseful = true): void {
    this.#event({ ...this.#head, choices: [{ index: 0, delta, finish_reason: null, ...choice }] }, isUseful);
  }

  #event(data: Members, isUseful = true): void {
    this.#send(Buffer.from(`data: ${JSON.stringify(data)}\n\n`), isUseful);
  }

  #send(events: Buffer, isUseful: boolean): void {
    this.#put(this.#translator === null ? events : this.#translator.events(events), isUseful);
  }

  #put(events: Buffer | undefined, isUseful: boolean): void {
    if (events !== undefined && events.byteLength > 0) this.#output(events, isUseful);
  }
}

/** Most citations of an answer in chat completions, which are kept until its end. Further ones are links only. */
const MOST_CITATIONS = 10_000;

/** What would end the address of a Markdown link, or the link. */
const NOT_IN_LINK = /[\s()<>"\\]/g;

function escapeIn(char: string): string {
  return `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
}

/** Members by which servers bind answers to a form, in which a link would be out of place: `[1]` may be a list. */
const CONSTRAINTS = [
  'guided_json',
  'guided_regex',
  'guided_choice',
  'guided_grammar',
  'structured_outputs',
  'json_schema',
  'grammar',
];

function isConstrained(chat: Members): boolean {
  const { type = 'text' } = membersOf(chat['response_format']);
  return type !== 'text' || CONSTRAINTS.some((name) => chat[name] !== undefined && chat[name] !== null);
}

/** Places in texts are counted in Unicode code points. */
function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

function hostOf(url: string): string {
  return URL.parse(url)?.hostname.replace(/^www\./, '') ?? 'source';
}

function usageMember({ cached, completion, prompt, reasoning }: RoundUsage): Members {
  return {
    ...{ prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}

/** The events of an answer as the whole answer of the same dialect. */
export function wholeAnswer(dialect: HostedRequest['dialect'], events: Buffer): string {
  const all = events
    .toString()
    .split('\n')
    .flatMap((line) => (line.startsWith('data: {') ? [membersOf(exactlyParsed(line.slice('data: '.length)))] : []));
  if (dialect === 'responses') return JSON.stringify(all.at(-1)?.['response'] ?? {});
  return JSON.stringify(dialect === 'messages' ? wholeMessage(all) : wholeCompletion(all));
}

type Event = Readonly<Record<string, unknown>>;

function wholeMessage(events: readonly Event[]): Members {
  let message: Members = {};
  const content: Members[] = [];
  let json = '';
  for (const { content_block: block, delta, message: begun, type, usage } of events) {
    const last = content.at(-1) ?? {};
    const { citation, partial_json: part, signature, text, thinking, type: kind, ...ending } = membersOf(delta);
    if (type === 'message_start') message = { ...membersOf(begun) };
    else if (type === 'content_block_start') {
      json = '';
      content.push({ ...membersOf(block) });
    } else if (type === 'content_block_delta') {
      if (kind === 'text_delta') last['text'] = `${String(last['text'])}${String(text)}`;
      else if (kind === 'thinking_delta') last['thinking'] = `${String(last['thinking'])}${String(thinking)}`;
      else if (kind === 'signature_delta') last['signature'] = signature;
      else if (kind === 'citations_delta') ((last['citations'] ??= []) as unknown[]).push(citation);
      else if (kind === 'input_json_delta') json += String(part);
    } else if (type === 'content_block_stop') {
      if (json !== '') last['input'] = parsedJson(json) === undefined ? json : exactlyParsed(json);
    } else if (type === 'message_delta') {
      message = { ...message, ...ending, usage: { ...membersOf(message['usage']), ...membersOf(usage) } };
    }
  }
  return { ...message, content };
}

function wholeCompletion(chunks: readonly Event[]): Members {
  const { choices: _, object: __, ...head } = chunks[0] ?? {};
  const message: Members = { role: 'assistant', content: null };
  const annotations: unknown[] = [];
  const calls: unknown[] = [];
  let choice: Members = {};
  let counts: unknown;
  const join = (name: string, text: unknown): void => {
    if (typeof text === 'string' && text !== '') message[name] = `${(message[name] as string | null) ?? ''}${text}`;
  };
  for (const { choices, usage } of chunks) {
    if (usage !== undefined) counts = usage;
    const { delta, index: ___, finish_reason: reason, ...members } = membersOf((choices as unknown[] | undefined)?.[0]);
    const { annotations: cited, content, reasoning_content: thought, refusal, tool_calls: called } = membersOf(delta);
    join('content', content);
    join('reasoning_content', thought);
    join('refusal', refusal);
    if (Array.isArray(cited)) annotations.push(...(cited as unknown[]));
    for (const call of Array.isArray(called) ? (called as unknown[]) : []) {
      const { index: ____, ...rest } = membersOf(call);
      calls.push(rest);
    }
    if (typeof reason === 'string') choice = { ...members, finish_reason: reason };
  }
  if (calls.length > 0) message['tool_calls'] = calls;
  else message['content'] ??= '';
  message['refusal'] ??= null;
  message['annotations'] = annotations;
  return {
    ...head,
    object: 'chat.completion',
    choices: [{ index: 0, message, logprobs: null, ...choice }],
    usage: counts,
  };
}
