// The rounds of one answer: the model is asked, its searches are run, their results go back to it, until it has answered, wants a tool of
// the client, or a limit is reached. Nothing of a search ends the answer with an error: the model is told instead.

import {
  type BlockKind,
  ChatBlocks,
  type ChatBlocksListener,
  type HostedPage,
  type HostedSearchError,
  type HostedStep,
  type ServerError,
  tokenCount,
  FAILED_FINISHES,
} from '../dialect/index.ts';
import { AnswerWriter, type ClientCall, type Output, type RoundUsage } from './answer-writer.ts';
import {
  type ContextSize,
  type HostedRequest,
  listOf,
  type Members,
  type PageTool,
  type SearchTool,
  textOf,
} from './hosted-request.ts';
import { isUnder, KnownUrls, openedPage, pageBody, pageCallOf, pageError, pageRefusal } from './open-page.ts';
import { packedSources, type Source, toldResults } from './sources.ts';
import { parseJson } from '../config/json-text.ts';
import { membersOf, parsedJson } from '../net/json-object.ts';

/** Rounds in which a model may search, where the client does not say how often it may. */
const ROUNDS = 5;
/** Most rounds, whatever the client says. */
const MOST_ROUNDS = 20;
/** Searches and pages of one round that are run; a model that asks for more is told so. */
const SEARCHES_PER_ROUND = 8;
/** Calls of one round that are told of at all. A model that repeats itself to the end of its output makes thousands. */
const CALLS_PER_ROUND = 64;
/** No search begins later: an answer must end. */
const SEARCH_DEADLINE_MS = 5 * 60_000;
/** Engines cut longer queries, or refuse them. */
const MAX_QUERY_CHARS = 1000;
/** Most characters of an address that is shown. */
const MAX_SHOWN_URL_CHARS = 2048;
/** Most bytes of arguments of the function that are read. */
const MAX_ARGUMENT_CHARS = 64 * 1024;

/** Most bytes of texts and calls of one round, which are kept to its end. */
const ROUND_BYTES = 16 * 1024 * 1024;
/** What a call takes beside its texts. */
const CALL_BYTES = 256;

/** What is asked of `POST /search`. */
const SEARCHES: Readonly<Record<ContextSize, Members>> = {
  low: { max_results: 5 },
  medium: { max_results: 8, content: { results: 3, max_chars: 3000, format: 'markdown' } },
  high: { max_results: 10, content: { results: 6, max_chars: 8000, format: 'markdown' } },
};
/** Most results that the model is told of a search. */
const TOLD_RESULTS: Readonly<Record<ContextSize, number>> = { low: 5, medium: 8, high: 12 };

/** What the loop needs of the gateway. */
export interface LoopIo {
  /** Asks the model: the events of its answer come to `events`, and their end to `roundEnded`. */
  ask(body: Buffer): void;
  /** Runs a search: the body of `POST /search`. `done` gets its status and its answer. */
  search(body: Members, done: (status: number, json: unknown) => void): void;
  /** Reads a page: the body of `POST /search/fetch`. `done` as for a search. */
  open(body: Members, done: (status: number, json: unknown) => void): void;
  /** Events for the client, in its dialect. */
  readonly output: Output;
  /** The answer is complete. */
  finished(): void;
  /** The model broke off. `writer` can say it where the answer has begun. */
  failed(error: ServerError, writer: AnswerWriter): void;
  /** A round is longer than what is kept of one. */
  tooLong(): void;
  nowMs(): number;
  /** The time of day in milliseconds since 1970. */
  epochMs(): number;
  /** Part of an id that no other search has: letters and digits. */
  uniqueId(): string;
}

/** A search, or a page, that the model has asked for. */
interface Call {
  readonly id: string;
  /** Of its function. */
  readonly name: string;
  readonly arguments: string;
  readonly begins: HostedStep;
  /** It is one more than the client allows, and the model is to answer. */
  readonly isBeyond: boolean;
  /** Runs it; null: it is refused. */
  readonly run: ((done: (status: number, json: unknown) => void) => void) | null;
  /** How it ended; without an answer where it was refused. */
  ended(status: number, json: unknown): Ended;
}

interface Ended {
  readonly step: HostedStep;
  /** What the model is told. */
  readonly told: string;
}

/** How a search ended. */
interface Outcome {
  readonly sources: readonly Source[];
  readonly error: HostedSearchError | null;
}

export class SearchLoop implements ChatBlocksListener {
  readonly #request: HostedRequest;
  readonly #io: LoopIo;
  readonly #writer: AnswerWriter;
  readonly #messages: unknown[];
  readonly #startMs: number;
  readonly #usage: RoundUsage = { prompt: 0, completion: 0, cached: 0, reasoning: 0 };
  #blocks: ChatBlocks = new ChatBlocks(this);
  #rounds = 0;
  #searches = 0;
  #pages = 0;
  readonly #known: KnownUrls;
  /** The model may not search any more. */
  #isLast = false;
  /** Nothing is to come. */
  #isOver = false;
  // Of the round under way.
  #text = '';
  #reasoning = '';
  #calls: ClientCall[] = [];
  #choice: Members = {};
  #hasEnded = false;
  #roundBytes = 0;

  constructor(request: HostedRequest, io: LoopIo) {
    this.#request = request;
    this.#io = io;
    this.#writer = new AnswerWriter(request, io.output);
    this.#messages = [...listOf(request.chat['messages'])];
    this.#startMs = io.nowMs();
    this.#known = new KnownUrls(request.sources, listOf(request.chat['messages']));
  }

  start(): void {
    this.#ask();
  }

  /** Whole events of the model's answer. */
  events(piece: Buffer): void {
    if (this.#isOver) return;
    this.#blocks.read(piece);
    if (this.#roundBytes > ROUND_BYTES && !this.#isOver) this.#io.tooLong();
  }

  /** The model's answer has ended. */
  roundEnded(): void {
    if (this.#isOver) return;
    this.#blocks.end();
    if (this.#hasEnded) this.#next();
  }

  /** Nobody wants the answer any more. */
  leave(): void {
    this.#isOver = true;
  }

  /** The answer breaks off for a reason of the gateway's own. */
  break(error: ServerError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#writer.fail(error);
  }

  /** @internal */
  onStart(chunk: Members): void {
    this.#writer.begin(chunk);
  }

  /** @internal */
  onChoice({ finish_reason: reason, matched_stop: matched, stop_reason: stop }: Members): void {
    if (typeof reason !== 'string') return;
    this.#choice = {
      ...(stop !== undefined && { stop_reason: stop }),
      ...(matched !== undefined && { matched_stop: matched }),
    };
  }

  /** @internal */
  onBlock(kind: BlockKind, call: { readonly id: string; readonly name: string } | null): void {
    this.#kind = kind;
    if (kind !== 'call' || call === null) return;
    this.#calls.push({ id: call.id, name: call.name, arguments: '' });
    this.#roundBytes += CALL_BYTES + call.id.length + call.name.length;
  }

  #kind: BlockKind = 'text';

  /** @internal */
  onText(bytes: Buffer, start: number, end: number): void {
    this.#roundBytes += end - start;
    const text = parseJson(`"${bytes.toString('utf8', start, end)}"`) as string;
    if (this.#kind === 'text') {
      this.#text += text;
      this.#writer.text(text);
    } else if (this.#kind === 'reasoning') {
      this.#reasoning += text;
      this.#writer.reasoning(text);
    } else if (this.#kind === 'refusal') this.#writer.refusal(text);
    else {
      const call = this.#calls.at(-1);
      if (call === undefined) return;
      // Longer arguments of its own functions are not read.
      if (!this.#isHosted(call.name) || call.arguments.length <= MAX_ARGUMENT_CHARS) call.arguments += text;
    }
  }

  /** @internal */
  onBlockEnd(kind: BlockKind, signature: string): void {
    if (kind === 'text') this.#writer.endText();
    if (kind === 'reasoning' && signature !== '') this.#writer.signature(signature);
  }

  /** @internal */
  onError(error: ServerError): void {
    this.#isOver = true;
    this.#io.failed(error, this.#writer);
  }

  /** @internal */
  onDone(): void {
    this.#hasEnded = true;
  }

  /** @internal */
  onComment(line: string): void {
    this.#writer.comment(line);
  }

  #ask(): void {
    // What was written of a search may have ended the answer.
    if (this.#isOver) return;
    const { chat } = this.#request;
    const { stream_options: options, tool_choice: choice, ...rest } = chat;
    this.#blocks = new ChatBlocks(this);
    this.#text = this.#reasoning = '';
    this.#calls = [];
    this.#choice = {};
    this.#hasEnded = false;
    this.#roundBytes = 0;
    const body: Members = {
      ...rest,
      ...this.#limits(),
      messages: this.#messages,
      stream: true,
      stream_options: { ...membersOf(options), include_usage: true },
    };
    const turn = this.#choiceOf(choice);
    if (turn !== undefined) body['tool_choice'] = turn;
    this.#io.ask(Buffer.from(JSON.stringify(body)));
  }

  /** What was forced has happened in the first round; who was forced again would never answer. */
  #choiceOf(choice: unknown): unknown {
    const { pages, tool } = this.#request;
    if (this.#isLast && (tool !== null || pages !== null)) return 'none';
    const name = membersOf(membersOf(choice)['function'])['name'];
    const isForced = choice === 'required' || (name !== undefined && (name === tool?.name || name === pages?.name));
    return this.#rounds > 0 && isForced ? 'auto' : choice;
  }

  /** What is left of the output that the client wants at most. */
  #limits(): Members {
    const limits: Members = {};
    for (const name of ['max_tokens', 'max_completion_tokens']) {
      const limit = this.#request.chat[name];
      if (typeof limit === 'number') limits[name] = Math.max(limit - this.#usage.completion, 1);
    }
    return limits;
  }

  get #isSpent(): boolean {
    const { chat } = this.#request;
    return ['max_tokens', 'max_completion_tokens'].some((name) => {
      const limit = chat[name];
      return typeof limit === 'number' && limit <= this.#usage.completion;
    });
  }

  #next(): void {
    this.#count(this.#blocks.usage);
    const { pages, tool } = this.#request;
    const own = this.#calls.filter(({ name }) => this.#isHosted(name)).slice(0, CALLS_PER_ROUND);
    const others = this.#calls.filter(({ name }) => !this.#isHosted(name));
    const reason = this.#blocks.finishReason;
    const message = FAILED_FINISHES.get(reason);
    if (message !== undefined) {
      this.#isOver = true;
      this.#io.failed({ message, type: '', code: '', param: '', status: 0, requestId: '' }, this.#writer);
      return;
    }
    if (own.length === 0) {
      this.#finish(reason, others);
      return;
    }
    // It was told that it may not, or its call was cut.
    if (this.#isLast || reason === 'length') {
      const isEmpty = others.length === 0 && reason !== 'length';
      this.#finish(isEmpty ? 'stop' : reason, others);
      return;
    }
    const calls = own.map((call, at) =>
      tool !== null && call.name === tool.name
        ? this.#searchOf(call, at, tool)
        : this.#pageOf(call, at, pages as PageTool),
    );
    for (const { begins } of calls) this.#writer.step(begins);
    this.#run(calls, (answers) => this.#found(calls, answers, others));
  }

  /** Whether a function stands for a tool of the gateway. */
  #isHosted(name: string): boolean {
    const { pages, tool } = this.#request;
    return name === tool?.name || name === pages?.name;
  }

  #searchOf({ arguments: args, name }: ClientCall, at: number, tool: SearchTool): Call {
    const { query } = membersOf(args.length > MAX_ARGUMENT_CHARS ? undefined : parsedJson(args));
    const asked = textOf(query).trim();
    const search = { id: this.#id(), query: asked.slice(0, MAX_QUERY_CHARS) };
    const refused = this.#searchRefusal(asked, at, tool);
    return {
      ...{ id: search.id, name, arguments: JSON.stringify({ query: search.query }) },
      begins: { kind: 'search', search },
      isBeyond: refused === 'max_uses_exceeded',
      run: refused === null ? (done) => this.#io.search(searchBody(search.query, tool), done) : null,
      ended: (status, json) => {
        const { error, sources } =
          refused === null ? this.#outcome(status, json, tool) : { error: refused, sources: [] };
        const opaque = error === null ? packedSources(sources) : '';
        const told = error === null ? toldResults(search.query, sources) : TOLD_ERRORS[error];
        return { step: { kind: 'found', search, sources, opaque, error }, told };
      },
    };
  }

  #searchRefusal(asked: string, at: number, { maxUses }: SearchTool): HostedSearchError | null {
    if (maxUses !== null && this.#uses >= maxUses) return 'max_uses_exceeded';
    this.#searches++;
    if (asked === '') return 'invalid_tool_input';
    if (asked.length > MAX_QUERY_CHARS) return 'query_too_long';
    if (at >= SEARCHES_PER_ROUND) return 'too_many_requests';
    return this.#isTooLate ? 'unavailable' : null;
  }

  #pageOf({ arguments: args, name }: ClientCall, at: number, tool: PageTool): Call {
    const { sources } = this.#request;
    const asked = pageCallOf(args.length > MAX_ARGUMENT_CHARS ? undefined : parsedJson(args), sources);
    const { pattern, start, url } = asked;
    const page: HostedPage = { id: this.#id(), url: url.slice(0, MAX_SHOWN_URL_CHARS), pattern };
    const isBeyond = this.#isPageBeyond;
    const refused = isBeyond ? 'max_uses_exceeded' : pageRefusal(asked, tool, this.#pages, this.#known);
    const late = at >= SEARCHES_PER_ROUND ? 'too_many_requests' : this.#isTooLate ? 'unavailable' : null;
    const error = refused ?? late;
    if (refused !== 'max_uses_exceeded') this.#pages++;
    return {
      ...{ id: page.id, name, isBeyond },
      arguments: JSON.stringify({ url: page.url, ...(pattern !== '' && { pattern }), ...(start > 0 && { start }) }),
      begins: { kind: 'open', page },
      run: error === null ? (done) => this.#io.open(pageBody(asked, tool), done) : null,
      ended: (status, json) => {
        const opened = error === null ? openedPage(asked, tool, status, json, sources) : pageError(error);
        const { source, text, told } = opened;
        const readAt = new Date(this.#io.epochMs()).toISOString();
        const opaque = source === null ? '' : packedSources([source]);
        return { step: { kind: 'opened', page, source, text, opaque, readAt, error: opened.error }, told };
      },
    };
  }

  /** In Responses all calls of hosted tools count; in Messages each tool has a number of its own. */
  get #uses(): number {
    return this.#request.dialect === 'responses' ? this.#searches + this.#pages : this.#searches;
  }

  get #isPageBeyond(): boolean {
    const most = this.#request.tool?.maxUses ?? null;
    return this.#request.dialect === 'responses' && most !== null && this.#uses >= most;
  }

  get #isTooLate(): boolean {
    return this.#io.nowMs() - this.#startMs > SEARCH_DEADLINE_MS;
  }

  #id(): string {
    const { dialect } = this.#request;
    const prefix = dialect === 'messages' ? 'srvtoolu' : dialect === 'responses' ? 'ws' : 'call';
    return `${prefix}_${this.#io.uniqueId()}`;
  }

  /** Runs the searches of a round at once, and opens its pages. */
  #run(calls: readonly Call[], done: (answers: readonly (readonly [status: number, json: unknown])[]) => void): void {
    const answers: (readonly [status: number, json: unknown])[] = calls.map(() => [0, undefined]);
    let missing = 1;
    const ended = (): void => {
      missing--;
      if (missing === 0 && !this.#isOver) done(answers);
    };
    for (const [at, { run }] of calls.entries()) {
      if (run === null) continue;
      missing++;
      run((status, json) => {
        answers[at] = [status, json];
        ended();
      });
    }
    ended();
  }

  #found(
    calls: readonly Call[],
    answers: readonly (readonly [status: number, json: unknown])[],
    others: readonly ClientCall[],
  ): void {
    const results: unknown[] = [];
    for (const [at, call] of calls.entries()) {
      const { step, told } = call.ended(...(answers[at] as (typeof answers)[number]));
      this.#writer.step(step);
      results.push({ role: 'tool', tool_call_id: call.id, content: told });
    }
    this.#rounds++;
    if (others.length > 0) {
      this.#finish('tool_calls', others);
      return;
    }
    const called = calls.map(({ arguments: args, id, name }) => ({
      id,
      type: 'function',
      function: { name, arguments: args },
    }));
    const said = { role: 'assistant', content: this.#text === '' ? null : this.#text };
    const thought = this.#reasoning === '' ? {} : { reasoning_content: this.#reasoning };
    this.#messages.push({ ...said, ...thought, tool_calls: called }, ...results);
    if (this.#isSpent) {
      this.#finish('length', []);
      return;
    }
    const { dialect, pages, tool } = this.#request;
    const wanted = Math.max(tool?.maxUses ?? 0, pages?.maxUses ?? 0);
    const isAtEnd = this.#rounds >= Math.min(Math.max(wanted, ROUNDS), MOST_ROUNDS);
    if (isAtEnd && wanted === 0 && dialect === 'messages') {
      // The client sends the message back, and the model goes on.
      this.#finish('pause_turn', []);
      return;
    }
    this.#isLast = isAtEnd || this.#isTooLate || calls.some(({ isBeyond }) => isBeyond);
    this.#ask();
  }

  #outcome(status: number, json: unknown, { allowed, blocked, contextSize }: SearchTool): Outcome {
    if (status !== 200)
      return {
        sources: [],
        error: status === 429 ? 'too_many_requests' : status === 422 ? 'invalid_tool_input' : 'unavailable',
      };
    const pages = listOf(membersOf(json)['results']).filter((result) => {
      const url = textOf(membersOf(result)['url']);
      // Clients make links of it.
      if (!/^https?:\/\//i.test(url)) return false;
      return (
        url !== '' &&
        (allowed.length === 0 || allowed.some((place) => isUnder(url, place))) &&
        !blocked.some((place) => isUnder(url, place))
      );
    });
    const sources = pages.slice(0, TOLD_RESULTS[contextSize]).map((result) => {
      const { content, published_at: age, snippet, title, url } = membersOf(result);
      return this.#request.sources.add(
        textOf(url),
        textOf(title),
        textOf(age) || null,
        textOf(content) || textOf(snippet),
      );
    });
    return { sources, error: null };
  }

  #finish(reason: string, calls: readonly ClientCall[]): void {
    this.#isOver = true;
    // An answer whose every chunk had no choice.
    this.#writer.begin({});
    this.#writer.finish(reason, calls, this.#choice, this.#usage);
    this.#io.finished();
  }

  #count(usage: unknown): void {
    const {
      completion_tokens: completion,
      completion_tokens_details: output,
      prompt_tokens: prompt,
      prompt_tokens_details: input,
    } = membersOf(usage);
    this.#usage.prompt += tokenCount(prompt) ?? 0;
    this.#usage.completion += tokenCount(completion) ?? 0;
    this.#usage.cached += tokenCount(membersOf(input)['cached_tokens']) ?? 0;
    this.#usage.reasoning += tokenCount(membersOf(output)['reasoning_tokens']) ?? 0;
  }
}

/** What the model is told of a search that found nothing. */
const TOLD_ERRORS: Readonly<Record<HostedSearchError, string>> = {
  invalid_tool_input: 'error: the arguments have no `query`, or one that cannot be searched for.',
  query_too_long: `error: the query is longer than ${MAX_QUERY_CHARS} characters.`,
  max_uses_exceeded: 'error: no more searches are allowed. Answer with what is known.',
  too_many_requests: 'error: too many searches at once.',
  unavailable: 'error: the search is not available now. Answer without it, and say so.',
};

function searchBody(query: string, { allowed, blocked, contextSize, country }: SearchTool): Members {
  // Only whole hosts are kept out by the search; the rest of a place is judged on its results.
  const excluded = blocked.filter((place) => !place.includes('/'));
  return {
    query,
    ...SEARCHES[contextSize],
    ...(allowed.length > 0 && { include_domains: [...new Set(allowed.map((place) => place.split('/')[0]))] }),
    ...(excluded.length > 0 && { exclude_domains: excluded }),
    ...(country !== '' && { country }),
  };
}
