// Requests that carry a hosted web search: how each dialect asks for it, and the same request in the chat dialect with a function in its
// place. What clients send back of earlier searches becomes calls and results of that function.

import {
  type DialectName,
  MAX_READ_VALUES,
  type Repeats,
  type TranslatedRequest,
  translationOf,
  DIALECTS,
} from '../dialect/index.ts';
import { countryCodeOf, hostNameOf } from '../config/normal-forms.ts';
import { HeadraceError, invalidRequest } from '../errors.ts';
import { membersOf } from '../net/json-object.ts';
import { exactlyParsed } from './exact-json.ts';
import { Sources, toldPage, toldResults } from './sources.ts';

export type Members = Record<string, unknown>;

/** How much of the results the model is given (`search_context_size`). */
export type ContextSize = 'low' | 'medium' | 'high';

/** What a request says of its search tool. */
export interface SearchTool {
  /** Of the function that stands for it; no tool of the client has it. */
  readonly name: string;
  /** Searches that the model may make; null: the client says nothing. */
  readonly maxUses: number | null;
  readonly contextSize: ContextSize;
  /** Hosts, or beginnings of addresses. */
  readonly allowed: readonly string[];
  readonly blocked: readonly string[];
  /** ISO 3166-1; '' where it is not said. */
  readonly country: string;
}

/** Where the model may open pages, and how many. */
export interface PageTool {
  /** Of the function; no tool of the client has it. */
  readonly name: string;
  /** Pages that the model may open; null: the client says nothing. */
  readonly maxUses: number | null;
  /** As `SearchTool`. */
  readonly contextSize: ContextSize;
  /** Most characters of a page; null: the client says nothing. */
  readonly maxChars: number | null;
  /** Whether addresses that searches found may be opened, and those that the user wrote. */
  readonly opensFound: boolean;
  readonly opensWritten: boolean;
  /** Whether pages of the cache are not wanted. */
  readonly isFresh: boolean;
  readonly allowed: readonly string[];
  readonly blocked: readonly string[];
}

/** A request with a hosted web search, or with results of one. */
export interface HostedRequest {
  readonly dialect: 'chat-completions' | 'messages' | 'responses';
  /** Whether the client wants a stream. */
  readonly streams: boolean;
  /** Whether a client of the chat dialect wants the token counts of a stream. */
  readonly wantsUsage: boolean;
  /** As the model is asked, but for what differs between rounds. */
  readonly chat: Members;
  /** Null where the client speaks chat. */
  readonly translated: TranslatedRequest | null;
  /** Null: the client sends results of earlier searches, and no tool. */
  readonly tool: SearchTool | null;
  /** Null: the model cannot open pages. */
  readonly pages: PageTool | null;
  /** What earlier searches have found. */
  readonly sources: Sources;
}

const MARKS = [Buffer.from('web_search'), Buffer.from('web_fetch')];
const RESPONSES_TOOL = /^web_search(?:_preview)?(?:_\d{4}_\d{2}_\d{2})?$/;
const MESSAGES_TOOL = /^web_search_\d{8}$/;
const MESSAGES_PAGE_TOOL = /^web_fetch_\d{8}$/;

/** Limits of `POST /search`. */
const MAX_DOMAINS = 50;
/** Names of the function; a client may have tools of the first ones. */
const NAMES = ['web_search', 'hosted_web_search'];
/** The same of the function that opens pages. */
const PAGE_NAMES = ['open_page', 'hosted_open_page'];
/** Characters of a token of text, about. */
const CHARS_PER_TOKEN = 4;

/** Whether a body may have to do with hosted web search: most have not, and are not read. */
export function mayHost(body: Buffer): boolean {
  return MARKS.some((mark) => body.includes(mark));
}

/**
 * Reads a valid body; null when it has neither the tool nor results of it. Throws 422.
 * @param values how many values and keys it has
 * @param continues id of the response that it continues, where it does not name it any more
 */
export function hostedRequestOf(
  dialect: DialectName | undefined,
  body: Buffer,
  values: number,
  continues = '',
): HostedRequest | null {
  if (dialect !== 'chat-completions' && dialect !== 'messages' && dialect !== 'responses') return null;
  if (values > MAX_READ_VALUES)
    throw invalid([], `with web search it should have at most ${MAX_READ_VALUES} values and keys`);
  const request = { ...membersOf(exactlyParsed(body.toString())) };
  switch (dialect) {
    case 'chat-completions':
      return chatRequest(request);
    case 'messages':
      return messagesRequest(request);
    case 'responses':
      return responsesRequest(request, { shown: body, continues });
  }
}

function invalid(path: readonly (string | number)[], msg: string): HeadraceError {
  return invalidRequest(['body', ...path], msg);
}

// === Chat ===

function chatRequest(request: Members): HostedRequest | null {
  const { web_search_options: options, ...chat } = request;
  if (options === undefined || options === null) return null;
  const path = ['web_search_options'];
  const { search_context_size: size, user_location: location } = objectOf(options, path);
  if (typeof chat['n'] === 'number' && chat['n'] > 1) throw invalid(['n'], 'an answer with web search is one choice');
  const tools = listIn(chat, 'tools');
  listIn(chat, 'messages');
  const taken = tools.map((tool) => membersOf(membersOf(tool)['function'])['name']);
  const name = freeName(taken);
  const { approximate = null } = objectOf(location, [...path, 'user_location']);
  const place =
    approximate === null
      ? placeOf(location, [...path, 'user_location'])
      : placeOf(approximate, [...path, 'user_location', 'approximate']);
  const tool = toolOf(name, null, sizeOf(size, path), [], [], place);
  const pages = pageToolOf(freeName(taken, PAGE_NAMES), tool);
  return {
    dialect: 'chat-completions',
    streams: chat['stream'] === true,
    wantsUsage: membersOf(chat['stream_options'])['include_usage'] === true,
    chat: { ...chat, tools: [...tools, functionOf(name, place), pageFunctionOf(pages.name, true)] },
    translated: null,
    tool,
    pages,
    sources: new Sources(),
  };
}

// === Messages ===

function messagesRequest(request: Members): HostedRequest | null {
  const tools = listOf(request['tools']);
  const at = tools.findIndex((tool) => MESSAGES_TOOL.test(textOf(membersOf(tool)['type'])));
  const pagesAt = tools.findIndex((tool) => MESSAGES_PAGE_TOOL.test(textOf(membersOf(tool)['type'])));
  const messages = listOf(request['messages']);
  if (at < 0 && pagesAt < 0 && !messages.some(hasSearchBlocks)) return null;
  listIn(request, 'messages');
  const others = tools.filter((_, index) => index !== at && index !== pagesAt);
  const taken = others.map((tool) => membersOf(tool)['name']);
  const name = freeName(taken);
  const pageName = freeName(taken, PAGE_NAMES);
  const declared = membersOf(tools[at]);
  const declaredPages = membersOf(tools[pagesAt]);
  const { allowed_domains: allowed, blocked_domains: blocked, max_uses: uses, user_location: location } = declared;
  const path = ['tools', at];
  const place = placeOf(location, [...path, 'user_location']);
  const tool =
    at < 0
      ? null
      : toolOf(
          name,
          usesOf(uses, [...path, 'max_uses']),
          'medium',
          domainsOf(allowed, [...path, 'allowed_domains']),
          domainsOf(blocked, [...path, 'blocked_domains']),
          place,
        );
  if (tool !== null && tool.allowed.length > 0 && tool.blocked.length > 0)
    throw invalid([...path, 'blocked_domains'], 'either `allowed_domains` or `blocked_domains` can be given');
  const sources = new Sources();
  const pages = pagesAt < 0 ? null : declaredPageTool(pageName, declaredPages, ['tools', pagesAt]);
  const choice = membersOf(request['tool_choice']);
  const isTool = choice['type'] === 'tool';
  const isChosen = tool !== null && isTool && choice['name'] === declared['name'];
  const isPageChosen = pages !== null && isTool && choice['name'] === declaredPages['name'];
  const custom = (index: number, each: unknown): unknown =>
    index === at
      ? customOf(functionOf(name, place))
      : index === pagesAt
        ? customOf(pageFunctionOf(pageName, false))
        : each;
  const rewritten = {
    ...request,
    ...((at >= 0 || pagesAt >= 0) && { tools: tools.map((each, index) => custom(index, each)) }),
    ...(isChosen && { tool_choice: { ...choice, name } }),
    ...(isPageChosen && { tool_choice: { ...choice, name: pageName } }),
    messages: messages.flatMap((message) => withoutSearchBlocks(message, { search: name, page: pageName }, sources)),
  };
  return translatedRequest('messages', request, rewritten, { tool, pages, sources });
}

/** A hosted function as a tool of the client has it. */
function customOf({ function: { description, name, parameters } }: HostedFunction): Members {
  return { name, description, input_schema: parameters };
}

/** The tool `web_fetch`. */
function declaredPageTool(
  name: string,
  tool: Readonly<Record<string, unknown>>,
  path: readonly (string | number)[],
): PageTool {
  const { allowed_domains: allowed, blocked_domains: blocked, max_content_tokens: tokens, max_uses: uses } = tool;
  const { url_sources: from, use_cache: cache } = tool;
  const { server_tool_results: found, user_input: written } = objectOf(from, [...path, 'url_sources']);
  if (cache !== undefined && cache !== null && typeof cache !== 'boolean')
    throw invalid([...path, 'use_cache'], 'it should be true or false');
  const maxTokens = usesOf(tokens, [...path, 'max_content_tokens']);
  const pages: PageTool = {
    ...{ name, contextSize: 'high', maxUses: usesOf(uses, [...path, 'max_uses']) },
    maxChars: maxTokens === null ? null : maxTokens * CHARS_PER_TOKEN,
    opensFound: isOpened(found, [...path, 'url_sources', 'server_tool_results']),
    opensWritten: isOpened(written, [...path, 'url_sources', 'user_input']),
    isFresh: cache === false,
    allowed: domainsOf(allowed, [...path, 'allowed_domains']),
    blocked: domainsOf(blocked, [...path, 'blocked_domains']),
  };
  if (pages.allowed.length > 0 && pages.blocked.length > 0)
    throw invalid([...path, 'blocked_domains'], 'either `allowed_domains` or `blocked_domains` can be given');
  return pages;
}

/** Whether addresses of a source may be opened. Lists of tools would have to be told apart when addresses come back. */
function isOpened(source: unknown, path: readonly (string | number)[]): boolean {
  if (source === undefined || source === null) return true;
  const { type } = membersOf(source);
  if (type === 'all' || type === 'none') return type === 'all';
  throw invalid([...path, 'type'], 'it should be all or none: lists of tools are not supported');
}

function usesOf(value: unknown, path: readonly (string | number)[]): number | null {
  if (value === undefined || value === null) return null;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1) throw invalid(path, 'it should be 1 or more');
  return value;
}

function isSearchUse(block: unknown): boolean {
  const { name, type } = membersOf(block);
  return type === 'server_tool_use' && (name === 'web_search' || name === 'web_fetch');
}

function isSearchResult(block: unknown): boolean {
  const { type } = membersOf(block);
  return type === 'web_search_tool_result' || type === 'web_fetch_tool_result';
}

function hasSearchBlocks(message: unknown): boolean {
  return listOf(membersOf(message)['content']).some((block) => isSearchUse(block) || isSearchResult(block));
}

/** The message with calls and results of the function: results stand in messages of the user. */
function withoutSearchBlocks(
  message: unknown,
  names: { readonly search: string; readonly page: string },
  sources: Sources,
): unknown[] {
  const { content, role, ...rest } = membersOf(message);
  if (!hasSearchBlocks(message)) return [message];
  const blocks = listOf(content);
  const answered = new Set(blocks.filter(isSearchResult).map((block) => membersOf(block)['tool_use_id']));
  /** What was asked, by the id of the call. */
  const asked = new Map<unknown, string>();
  const messages: { readonly role: unknown; readonly content: unknown[] }[] = [];
  const put = (of: unknown, block: unknown): void => {
    const last = messages.at(-1);
    if (last !== undefined && last.role === of) last.content.push(block);
    else messages.push({ ...rest, role: of, content: [block] });
  };
  for (const block of blocks) {
    const { content: found, id, input, name, tool_use_id: use, type } = membersOf(block);
    if (isSearchUse(block)) {
      // A call without its result tells the model nothing.
      if (!answered.has(id)) continue;
      const { query, url } = membersOf(input);
      asked.set(id, textOf(name === 'web_fetch' ? url : query));
      put(role, { type: 'tool_use', id, name: name === 'web_fetch' ? names.page : names.search, input });
    } else if (isSearchResult(block)) {
      const what = asked.get(use);
      if (what === undefined) continue;
      const told =
        type === 'web_fetch_tool_result' ? toldDocument(what, found, sources) : toldBlocks(what, found, sources);
      put('user', { type: 'tool_result', tool_use_id: use, content: told });
    } else put(role, block);
  }
  return messages;
}

function toldBlocks(query: string, found: unknown, sources: Sources): string {
  if (!Array.isArray(found)) return `error: ${textOf(membersOf(found)['error_code']) || 'unavailable'}`;
  const pages = (found as unknown[]).map((result) => {
    const { encrypted_content: opaque, page_age: age, title, url } = membersOf(result);
    return sources.addPacked(opaque) ?? sources.add(textOf(url), textOf(title), textOf(age) || null, '');
  });
  return toldResults(query, pages);
}

function toldDocument(asked: string, found: unknown, sources: Sources): string {
  const { content, error_code: error, url } = membersOf(found);
  if (error !== undefined || content === undefined) return `error: ${textOf(error) || 'unavailable'}`;
  const { source, title } = membersOf(content);
  const page = sources.add(textOf(url) || asked, textOf(title), null, textOf(membersOf(source)['data']));
  return toldPage({ url: page.url, pattern: '' }, page);
}

// === Responses ===

function isHostedTool(tool: unknown): boolean {
  const { external_web_access: access, type } = membersOf(tool);
  // Codex offers the tool with `false` unasked, and means a cache of the vendor of the API.
  return access !== false && RESPONSES_TOOL.test(textOf(type));
}

function responsesRequest(request: Members, repeats: Repeats): HostedRequest | null {
  const tools = listOf(request['tools']);
  const at = tools.findIndex(isHostedTool);
  const { input } = request;
  const items = listOf(input);
  if (at < 0 && !items.some(isSearchCall)) return null;
  const others = tools.filter((each) => !isHostedTool(each));
  const taken = others.map((each) => membersOf(each)['name']);
  const name = freeName(taken);
  const pageName = freeName(taken, PAGE_NAMES);
  const { filters, search_context_size: size, user_location: location } = membersOf(tools[at]);
  const path = ['tools', at];
  const { allowed_domains: allowed, blocked_domains: blocked } = objectOf(filters, [...path, 'filters']);
  const uses = request['max_tool_calls'];
  const place = placeOf(location, [...path, 'user_location']);
  const tool =
    at < 0
      ? null
      : toolOf(
          name,
          usesOf(uses, ['max_tool_calls']),
          sizeOf(size, path),
          domainsOf(allowed, [...path, 'filters', 'allowed_domains']),
          domainsOf(blocked, [...path, 'filters', 'blocked_domains']),
          place,
        );
  const sources = new Sources();
  const hosted = at < 0 ? [] : [functionOf(name, place), pageFunctionOf(pageName, true)];
  const own = hosted.map(({ function: each }) => ({ type: 'function', ...each, strict: false }));
  const rewritten = {
    ...request,
    ...(at >= 0 && { tools: [...others, ...own] }),
    ...(Array.isArray(input) && {
      input: items.flatMap((item, at) => withoutSearchCall(item, at, { search: name, page: pageName }, sources)),
    }),
    ...('tool_choice' in request && { tool_choice: chosen(request['tool_choice'], name, pageName) }),
  };
  const pages = tool === null ? null : pageToolOf(pageName, tool);
  return translatedRequest('responses', request, rewritten, { tool, pages, sources }, repeats);
}

function isSearchCall(item: unknown): boolean {
  return membersOf(item)['type'] === 'web_search_call';
}

/** What a client has kept nothing of. */
const NOT_KEPT = 'The results of this search are not at hand any more.';

/** The call and its result in place of an item of an earlier answer, the item of this number. */
function withoutSearchCall(
  item: unknown,
  at: number,
  names: { readonly search: string; readonly page: string },
  sources: Sources,
): unknown[] {
  if (!isSearchCall(item)) return [item];
  const { action, encrypted_content: opaque, id, status } = membersOf(item);
  const { pattern, queries, query, sources: listed, type, url } = membersOf(action);
  const text = textOf(query) || textOf(listOf(queries)[0]) || textOf(url);
  const call = textOf(id) || `ws_${at}`;
  const found = sources.addAllPacked(opaque);
  if (type === 'open_page' || type === 'find_in_page') {
    const [page] = found;
    const asked = { url: textOf(url), ...(textOf(pattern) !== '' && { pattern: textOf(pattern) }) };
    const told = page === undefined ? 'error: unavailable' : toldPage({ pattern: '', ...asked }, page);
    return [
      { type: 'function_call', call_id: call, name: names.page, arguments: JSON.stringify(asked) },
      { type: 'function_call_output', call_id: call, output: told },
    ];
  }
  const addresses = listOf(listed).map((source) => textOf(membersOf(source)['url']));
  const known = found.length > 0 ? found : addresses.map((address) => sources.add(address, address, null, ''));
  const isKept = known.length > 0 || opaque !== undefined || listed !== undefined;
  const output = status === 'failed' ? 'error: unavailable' : isKept ? toldResults(text, known) : NOT_KEPT;
  return [
    { type: 'function_call', call_id: call, name: names.search, arguments: JSON.stringify({ query: text }) },
    { type: 'function_call_output', call_id: call, output },
  ];
}

/** The choice of a tool with the functions in place of the hosted one: whoever may search may open pages, but is made to search only. */
function chosen(choice: unknown, search: string, page: string): unknown {
  const { tools, type } = membersOf(choice);
  const [searching, opening] = [search, page].map((name) => ({ type: 'function', name }));
  if (RESPONSES_TOOL.test(textOf(type))) return searching;
  if (type !== 'allowed_tools') return choice;
  return {
    ...membersOf(choice),
    tools: listOf(tools).flatMap((tool) => (isHostedTool(tool) ? [searching, opening] : [tool])),
  };
}

// === All ===

function translatedRequest(
  dialect: 'messages' | 'responses',
  { stream }: Members,
  rewritten: Members,
  hosted: Pick<HostedRequest, 'tool' | 'pages' | 'sources'>,
  repeats?: Repeats,
): HostedRequest {
  const translation = translationOf(DIALECTS[dialect]);
  if (translation === undefined) throw new HeadraceError('HR_INTERNAL');
  const translated = translation.request(Buffer.from(JSON.stringify(rewritten)), repeats);
  const chat = { ...membersOf(exactlyParsed(translated.body.toString())) };
  return { dialect, streams: stream === true, wantsUsage: true, chat, translated, ...hosted };
}

function toolOf(
  name: string,
  maxUses: number | null,
  contextSize: ContextSize,
  allowed: readonly string[],
  blocked: readonly string[],
  place: Readonly<Record<string, unknown>>,
): SearchTool {
  return { name, maxUses, contextSize, allowed, blocked, country: countryCodeOf(textOf(place['country'])) ?? '' };
}

/** Pages are opened within the limits of the search. */
function pageToolOf(name: string, { allowed, blocked, contextSize }: SearchTool): PageTool {
  const open = { opensFound: true, opensWritten: true, isFresh: false };
  return { name, maxUses: null, contextSize, maxChars: null, ...open, allowed, blocked };
}

interface HostedFunction {
  readonly type: 'function';
  readonly function: { readonly name: string; readonly description: string; readonly parameters: Members };
}

/** The function that opens pages. `finds`: the dialect can say that a text was looked for. */
function pageFunctionOf(name: string, finds: boolean): HostedFunction {
  const description =
    'Opens a page, and returns its text. Only addresses that a search has found, or that the user has written, can be opened. ' +
    'Use it where the texts of results are not enough.';
  const url = { type: 'string', description: 'The address of the page.' };
  const pattern = { type: 'string', description: 'A text to find in the page: only what is around it is returned.' };
  const start = { type: 'integer', minimum: 0, description: 'Where to begin in a long page, in characters.' };
  const properties = { url, ...(finds && { pattern }), start };
  const parameters = { type: 'object', properties, required: ['url'], additionalProperties: false };
  return { type: 'function', function: { name, description, parameters } };
}

/** The function that stands for the tool. */
function functionOf(name: string, place: Readonly<Record<string, unknown>>): HostedFunction {
  const where = [place['city'], place['region'], place['country']]
    .map(textOf)
    .filter((part) => part !== '')
    .join(', ');
  const zone = textOf(place['timezone']);
  const description =
    'Searches the web, and returns numbered results with their titles, addresses and texts. Use it for what is recent or has to be ' +
    'checked. Cite results by their numbers in square brackets, like [1].' +
    (where === '' ? '' : ` The user is in ${where.slice(0, MAX_PLACE_CHARS)}.`) +
    (zone === '' ? '' : ` The time zone of the user is ${zone.slice(0, MAX_PLACE_CHARS)}.`);
  const query = { type: 'string', description: 'What to search for.' };
  const parameters = { type: 'object', properties: { query }, required: ['query'], additionalProperties: false };
  return { type: 'function', function: { name, description, parameters } };
}

const MAX_PLACE_CHARS = 200;

function freeName(taken: readonly unknown[], wanted: readonly string[] = NAMES): string {
  const names = new Set(taken);
  for (const name of wanted) if (!names.has(name)) return name;
  let count = 2;
  while (names.has(`${wanted[1]}_${count}`)) count++;
  return `${wanted[1]}_${count}`;
}

function sizeOf(value: unknown, path: readonly (string | number)[]): ContextSize {
  if (value === undefined || value === null) return 'medium';
  if (value === 'low' || value === 'medium' || value === 'high') return value;
  throw invalid([...path, 'search_context_size'], 'it should be low, medium or high');
}

/** Hosts, or hosts with the beginning of a path, without a scheme. */
function domainsOf(value: unknown, path: readonly (string | number)[]): string[] {
  if (value === undefined || value === null) return [];
  const list = listOf(value);
  if (!Array.isArray(value) || list.length > MAX_DOMAINS)
    throw invalid(path, `it should be a list of up to ${MAX_DOMAINS} domains`);
  return list.map((entry, index) => {
    const domain = textOf(entry)
      .replace(/^https?:\/\//i, '')
      .replace(/\/$/, '');
    const [written = ''] = domain.split('/');
    // As `POST /search` takes it.
    const host = hostNameOf(written);
    if (host?.includes('.') !== true) throw invalid([...path, index], 'it should be a domain, such as example.com');
    return `${host}${domain.slice(written.length)}`;
  });
}

/** An object that a request may leave out. */
function objectOf(value: unknown, path: readonly (string | number)[]): Readonly<Record<string, unknown>> {
  if (value !== undefined && value !== null && (typeof value !== 'object' || Array.isArray(value)))
    throw invalid(path, 'it should be an object');
  return membersOf(value);
}

/** Where the user is. */
function placeOf(value: unknown, path: readonly (string | number)[]): Readonly<Record<string, unknown>> {
  const place = objectOf(value, path);
  for (const name of ['city', 'country', 'region', 'timezone']) {
    if (typeof (place[name] ?? '') !== 'string') throw invalid([...path, name], 'it should be a text');
  }
  return place;
}

/** A list that a request has, if it has the member. */
function listIn(request: Members, name: string): readonly unknown[] {
  const value = request[name];
  if (value !== undefined && value !== null && !Array.isArray(value)) throw invalid([name], 'it should be a list');
  return listOf(value);
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
