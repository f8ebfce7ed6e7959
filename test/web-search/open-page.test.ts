// Pages that the model opens: which it may open, what it is told, and what clients see of it in each dialect.

import t from 'tap';
import type { DialectName } from '../../src/dialect/index.ts';
import { hostedRequestOf, type PageTool } from '../../src/web-search/hosted-request.ts';
import { SearchLoop, wholeAnswer } from '../../src/web-search/index.ts';
import { KnownUrls } from '../../src/web-search/open-page.ts';
import { Sources } from '../../src/web-search/sources.ts';
import { cpuMsOf } from '../support/cpu-time.ts';

type Json = Readonly<Record<string, unknown>>;
type Call = readonly [name: string, args: Json];

const FOUND = 'https://one.example/mill';
const PAGE = { url: FOUND, title: 'The mill', content: 'It is 42 m high. '.repeat(4), next_start: 68 };
const WEB_SEARCH = { type: 'web_search_20250305', name: 'web_search' };
const WEB_FETCH = { type: 'web_fetch_20250910', name: 'web_fetch' };

interface Play {
  /** What the model does in each round: calls, or what it says. */
  readonly rounds: readonly (readonly Call[] | string)[];
  /** Answer of `POST /search/fetch`. */
  readonly page?: readonly [status: number, json: unknown];
  readonly found?: string;
}

interface Played {
  readonly asked: Json[];
  readonly opened: Json[];
  readonly events: string;
  readonly whole: Json;
  /** What the model was told by tools, in the last round. */
  readonly told: string[];
}

/** Plays the rounds of a model without a gateway. */
function play(dialect: DialectName, body: Json, { found = FOUND, page = [200, PAGE], rounds }: Play): Played {
  const request = hostedRequestOf(dialect, Buffer.from(JSON.stringify({ model: 'm', ...body })), 0);
  if (request === null) throw new Error('the request has no hosted tool');
  const asked: Json[] = [];
  const opened: Json[] = [];
  const written: Buffer[] = [];
  let ids = 0;
  let isOver = false;
  const loop = new SearchLoop(request, {
    ask: (sent) => asked.push(JSON.parse(sent.toString()) as Json),
    search: (_, done) => done(200, { results: [{ title: 'Mill', url: found, snippet: 'A mill.' }] }),
    open: (sent, done) => {
      opened.push(sent);
      done(...page);
    },
    output: (events) => written.push(Buffer.from(events)),
    finished: () => (isOver = true),
    failed: (error) => {
      throw new Error(error.message);
    },
    tooLong: () => {
      throw new Error('a round is too long');
    },
    nowMs: () => 0,
    epochMs: () => 0,
    uniqueId: () => String(++ids),
  });
  loop.start();
  for (const round of rounds) {
    if (isOver) break;
    loop.events(Buffer.from(eventsOf(round)));
    loop.roundEnded();
  }
  const all = Buffer.concat(written);
  const messages = (asked.at(-1)?.['messages'] ?? []) as { role: string; content: string }[];
  return {
    ...{ asked, opened, events: all.toString() },
    whole: JSON.parse(wholeAnswer(request.dialect, all)) as Json,
    told: messages.flatMap(({ content, role }) => (role === 'tool' ? [content] : [])),
  };
}

function eventsOf(round: readonly Call[] | string): string {
  const delta =
    typeof round === 'string'
      ? { content: round }
      : {
          tool_calls: round.map(([name, args], index) => ({
            ...{ index, id: `c${index}`, type: 'function' },
            function: { name, arguments: JSON.stringify(args) },
          })),
        };
  const reason = typeof round === 'string' ? 'stop' : 'tool_calls';
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  const chunks = [
    { choices: [{ index: 0, delta }] },
    { choices: [{ index: 0, delta: {}, finish_reason: reason }] },
    { choices: [], usage },
  ];
  const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' };
  return `${chunks.map((each) => `data: ${JSON.stringify({ ...head, ...each })}\n\n`).join('')}data: [DONE]\n\n`;
}

const search: Call = ['web_search', { query: 'mill' }];
const open = (url: unknown, more: Json = {}): Call => ['open_page', { url, ...more }];
const CHAT = { messages: [{ role: 'user', content: 'hi' }], web_search_options: {} };
const RESPONSES = { input: 'hi', tools: [{ type: 'web_search' }] };
const MESSAGES = { max_tokens: 100, messages: [{ role: 'user', content: 'hi' }], tools: [WEB_SEARCH, WEB_FETCH] };
const READS = [[search], [open(FOUND)], 'It is 42 m [2].'];

t.test('responses: a page is an item of its own, with the events of a search', async (t) => {
  const { events, opened, told, whole } = play('responses', RESPONSES, { rounds: READS });
  t.match(whole['output'], [
    { type: 'web_search_call', action: { type: 'search', query: 'mill' } },
    { type: 'web_search_call', id: /^ws_/, status: 'completed', action: { type: 'open_page', url: FOUND } },
    { type: 'message', content: [{ text: `It is 42 m ([one.example](${FOUND})).` }] },
  ]);
  t.same(opened, [{ url: FOUND, format: 'markdown', start: 0, max_chars: 12_000 }]);
  t.match(told[1], /\[2\] The mill\n\nIt is 42 m high\.[^]*open it with `start` 68\.$/);
  t.match(events, /output_item\.added[^]*in_progress[^]*searching[^]*web_search_call\.completed[^]*open_page/);
});

t.test('responses: looking for a text in a page gives what is around it', async (t) => {
  const page = { ...PAGE, content: `${'a'.repeat(5000)} Height: 42 m ${'b'.repeat(5000)}` };
  const rounds = [[search], [open(FOUND, { pattern: 'HEIGHT' })], 'Done.'];
  const { opened, told, whole } = play('responses', RESPONSES, { rounds, page: [200, page] });
  t.match(whole['output'], [{}, { action: { type: 'find_in_page', url: FOUND, pattern: 'HEIGHT' } }]);
  t.match(opened, [{ max_chars: 200_000 }]);
  t.match(told[1], /a Height: 42 m b/);
  t.ok((told[1] ?? '').length < 1500);
  const nothing = play('responses', RESPONSES, { rounds: [[search], [open(FOUND, { pattern: 'zzz' })], 'Done.'] });
  t.match(nothing.told[1], /does not have this text/);
});

t.test('chat: a page is read without a trace but its citation', async (t) => {
  const { whole } = play('chat-completions', CHAT, { rounds: READS });
  t.match(whole, {
    choices: [{ message: { content: `It is 42 m ([one.example](${FOUND})).` } }],
    usage: { prompt_tokens: 30, completion_tokens: 15 },
  });
  t.notMatch(JSON.stringify(whole), /open_page/);
});

t.test('messages: pages are opened where the client has the tool web_fetch', async (t) => {
  const { whole } = play('messages', MESSAGES, { rounds: READS });
  t.match(whole, {
    content: [
      { type: 'server_tool_use', name: 'web_search' },
      { type: 'web_search_tool_result' },
      { type: 'server_tool_use', id: /^srvtoolu_/, name: 'web_fetch', input: { url: FOUND } },
      {
        type: 'web_fetch_tool_result',
        content: {
          ...{ type: 'web_fetch_result', url: FOUND, retrieved_at: '1970-01-01T00:00:00.000Z' },
          content: { type: 'document', title: 'The mill', source: { type: 'text', data: /^It is 42 m high/ } },
        },
      },
      { type: 'text', citations: [{ url: FOUND, title: 'The mill' }] },
      {},
    ],
    usage: { server_tool_use: { web_search_requests: 1, web_fetch_requests: 1 } },
  });
  const plain = play('messages', { ...MESSAGES, tools: [WEB_SEARCH] }, { rounds: ['Done.'] });
  t.match(plain.asked[0], { tools: [{ function: { name: 'web_search' } }] });
  t.equal(
    (plain.asked as { tools: unknown[] }[])[0]?.tools.length,
    1,
    'without the tool of the client no page is opened',
  );
  const alone = play(
    'messages',
    { ...MESSAGES, messages: [{ role: 'user', content: `Read ${FOUND}.` }], tools: [WEB_FETCH] },
    { rounds: [[open(FOUND)], 'Done.'] },
  );
  t.match(alone.whole, { usage: { server_tool_use: { web_search_requests: 0, web_fetch_requests: 1 } } });
});

t.test('of very many addresses of the user the last ones are read, in a time that does not grow', (t) => {
  const dots = '.'.repeat(8);
  const content = Array.from({ length: 3000 }, (_, at) => `https://e${at}.example/${'a'.repeat(2000)}${dots}`).join(
    ' ',
  );
  const known = new KnownUrls(new Sources(), [
    { role: 'user', content },
    { role: 'user', content: `Read https://last.example/page${dots}` },
  ]);
  const tool = { opensFound: true, opensWritten: true } as PageTool;
  const tookMs = cpuMsOf(() => {
    t.equal(known.has('https://last.example/page', tool), true);
    t.equal(known.has(`https://e0.example/${'a'.repeat(2000)}`, tool), true);
    t.equal(known.has(`https://e2999.example/${'a'.repeat(2000)}`, tool), false);
  });
  t.ok(tookMs < 150, `${tookMs} ms`);
  t.end();
});

t.test('messages: limits of web_fetch are its own', async (t) => {
  const limited = (more: Json): Json => ({ ...MESSAGES, tools: [WEB_SEARCH, { ...WEB_FETCH, ...more }] });
  const errorOf = ({ whole }: Played): unknown => JSON.stringify(whole).match(/"error_code":"(\w+)"/)?.[1];
  const twice = play('messages', limited({ max_uses: 1 }), {
    rounds: [[search], [open(FOUND), open(FOUND)], [search], 'Done.'],
  });
  t.equal(errorOf(twice), 'max_uses_exceeded');
  t.equal(twice.opened.length, 1);
  t.match(twice.whole, { stop_reason: 'end_turn', usage: { server_tool_use: { web_search_requests: 2 } } });
  t.equal(
    errorOf(play('messages', limited({ blocked_domains: ['one.example'] }), { rounds: READS })),
    'url_not_allowed',
  );
  t.match(play('messages', limited({ max_content_tokens: 100 }), { rounds: READS }).opened, [{ max_chars: 400 }]);
  t.match(play('messages', limited({ use_cache: false }), { rounds: READS }).opened, [{ max_age: 0 }]);
  const written = [{ role: 'user', content: 'See https://user.example/' }];
  const from = (sources: Json): Played =>
    play(
      'messages',
      { ...limited({ url_sources: sources }), messages: written },
      { rounds: [[search], [open(FOUND), open('https://user.example/')], 'Done.'] },
    );
  t.match(from({ server_tool_results: { type: 'none' } }).opened, [{ url: 'https://user.example/' }]);
  t.same(
    from({ user_input: { type: 'none' } }).opened.map(({ url }) => url),
    [FOUND],
  );
  const only = { type: 'only', tools: [{ name: 'web_search' }] };
  for (const more of [
    { url_sources: { server_tool_results: only } },
    { max_uses: 0 },
    { max_content_tokens: 'x' },
    { allowed_domains: 'one.example' },
  ]) {
    t.throws(() => play('messages', limited(more), { rounds: [] }), { code: 'HR_REQUEST_INVALID' });
  }
});

t.test('of very many addresses those of the last messages are known', async (t) => {
  const many = Array.from({ length: 3000 }, (_, number) => `https://user.example/${number}`).join(' ');
  const messages = [
    { role: 'user', content: 'https://user.example/first' },
    { role: 'user', content: many },
    { role: 'user', content: `https://user.example/last ${many}` },
  ];
  const opens = (url: string): number =>
    play('chat-completions', { ...CHAT, messages }, { rounds: [[open(url)], 'Done.'] }).opened.length;
  t.same(
    ['last', '2999', 'first'].map((name) => opens(`https://user.example/${name}`)),
    [1, 1, 0],
  );
});

t.test('only addresses that a search found or the user wrote are opened', async (t) => {
  const says = 'See https://user.example/a_(b), and (https://user.example/c).';
  const messages = [
    { role: 'system', content: 'https://system.example/' },
    { role: 'assistant', content: 'https://assistant.example/' },
    { role: 'user', content: [{ type: 'text', text: says }] },
  ];
  const opens = (url: unknown): Played => {
    const rounds = [[search], [open(url)], 'Done.'];
    return play('chat-completions', { ...CHAT, messages }, { rounds });
  };
  for (const url of [
    ...[FOUND, `${FOUND}#part`, 'https://ONE.example/mill', '[1]', '1', 1],
    ...['https://user.example/a_(b)', 'https://user.example/c'],
  ]) {
    t.equal(opens(url).opened.length, 1, String(url));
  }
  for (const url of [
    ...[
      'https://one.example/',
      `${FOUND}?q=secret`,
      'http://one.example/mill',
      'https://one.example.evil.example/mill',
    ],
    ...[
      'https://assistant.example/',
      'https://system.example/',
      'http://127.0.0.1/',
      'file:///etc/passwd',
      '[2]',
      '',
      null,
    ],
    ...['https://user.example/', `https://one.example/${'a'.repeat(3000)}`],
  ]) {
    const { opened, told } = opens(url);
    t.same(opened, [], String(url).slice(0, 60));
    t.match(told[1], /^error: /);
  }
});

t.test('pages stay within the domains of the search, also behind a redirect', async (t) => {
  const tools = [{ type: 'web_search', filters: { allowed_domains: ['one.example'] } }];
  const input = `Read https://two.example/ and ${FOUND}`;
  const other = play('responses', { input, tools }, { rounds: [[open('https://two.example/')], 'Done.'] });
  t.same(other.opened, []);
  const page = { ...PAGE, url: 'https://two.example/' };
  const moved = play('responses', { input, tools }, { rounds: [[open(FOUND)], 'Done.'], page: [200, page] });
  t.match(moved.whole['output'], [{ status: 'failed', action: { type: 'open_page' } }]);
  t.same(moved.told, ['error: this page may not be opened.']);
  const blocking = [{ type: 'web_search', filters: { blocked_domains: ['two.example'] } }];
  const dotted = 'https://two.example./';
  const { opened } = play(
    'responses',
    { input: `Read ${dotted}x`, tools: blocking },
    { rounds: [[open(`${dotted}x`)], 'Done.'] },
  );
  t.same(opened, [], 'a dot at the end of a name makes no other domain of it');
});

t.test('why a page could not be read is told to the model, and is no error of the client', async (t) => {
  for (const [status, code] of [
    ...([
      [400, 'url_not_allowed'],
      [413, 'content_too_large'],
      [415, 'unsupported_content_type'],
    ] as const),
    ...([
      [429, 'too_many_requests'],
      [502, 'url_not_accessible'],
      [504, 'url_not_accessible'],
    ] as const),
    ...([
      [402, 'unavailable'],
      [500, 'unavailable'],
    ] as const),
  ]) {
    const { told, whole } = play('messages', MESSAGES, { rounds: READS, page: [status, { detail: 'no' }] });
    t.match(JSON.stringify(whole), `"error_code":"${code}"`);
    t.match(told[1], /^error: /);
    t.match(whole, { stop_reason: 'end_turn', usage: { server_tool_use: { web_fetch_requests: 0 } } });
  }
});

t.test('max_tool_calls counts searches and pages, and an answer opens at most ten pages', async (t) => {
  const { opened, whole } = play(
    'responses',
    { ...RESPONSES, max_tool_calls: 2 },
    { rounds: [[search], [open(FOUND), open(FOUND)], 'Done.'] },
  );
  t.equal(opened.length, 1);
  t.match(whole['output'], [{}, { status: 'completed' }, { status: 'failed' }, { type: 'message' }]);
  const six = Array<Call>(6).fill(open(FOUND));
  t.equal(play('chat-completions', CHAT, { rounds: [[search], six, six, 'Done.'] }).opened.length, 10);
});

t.test('a page of an earlier turn goes back to the model', async (t) => {
  const first = play('responses', RESPONSES, { rounds: READS });
  const input = [...(first.whole['output'] as Json[]), { role: 'user', content: 'sure?' }];
  const next = play('responses', { ...RESPONSES, input }, { rounds: ['Yes [2].'] });
  t.match(next.told[1], /\[2\] The mill\n\nIt is 42 m high/);
  t.match(JSON.stringify(next.asked[0]), /"name":"open_page","arguments":"\{\\"url\\":/);
  t.match(JSON.stringify(next.whole), /Yes \(\[one\.example\]/);

  const message = play('messages', MESSAGES, { rounds: READS });
  const messages = [
    ...MESSAGES.messages,
    { role: 'assistant', content: message.whole['content'] },
    { role: 'user', content: 'sure?' },
  ];
  const again = play('messages', { ...MESSAGES, messages }, { rounds: [[open(FOUND)], 'Yes.'] });
  t.match(again.told[1], /\[2\] The mill\n\nIt is 42 m high/);
  t.equal(again.opened.length, 1, 'what an earlier turn found can be opened');
  const without = play('messages', { ...MESSAGES, messages, tools: [] }, { rounds: ['Yes.'] });
  t.match(without.told[1], /It is 42 m high/, 'also where the client does not offer the tools any more');
});

t.test('places of citations are counted in code points, also behind emoji and halves of them', async (t) => {
  const url = 'https://one.example/🎡';
  const { whole } = play('responses', RESPONSES, { found: url, rounds: [[search], '🎡👩‍🚀 high [1] \ud83c wide [1].'] });
  const [, message] = whole['output'] as { content: { text: string; annotations: Record<string, number>[] }[] }[];
  const { annotations = [], text = '' } = message?.content[0] ?? {};
  const cited = annotations.map(({ end_index: end, start_index: start }) => [...text].slice(start, end).join(''));
  t.same(cited, [`([one.example](${url}))`, `([one.example](${url}))`]);
});

t.test('a stream of chat completions has all citations in one chunk, in front of the last one', async (t) => {
  const { events } = play('chat-completions', { ...CHAT, stream: true }, { rounds: [[search], 'High [1]. Old [1].'] });
  const deltas = [...events.matchAll(/^data: (\{.*)$/gm)].map(([, json = '']) => {
    const { choices } = JSON.parse(json) as { choices: { delta: { annotations?: unknown[] } }[] };
    return choices[0]?.delta.annotations?.length;
  });
  t.same(deltas.filter(Boolean), [2]);
  t.equal(deltas.at(-2), 2);
});

t.test('an odd order of calls, ids that repeat and arguments that are none do no harm', async (t) => {
  const read = { type: 'function', function: { name: 'read', parameters: { type: 'object' } } };
  const rounds = [[['read', {}], open(FOUND), search, ['read', { a: 1 }]] as const];
  const { opened, whole } = play('chat-completions', { ...CHAT, tools: [read] }, { rounds });
  t.same(opened, [], 'the page is not known before the search has ended');
  t.match(whole, {
    choices: [{ finish_reason: 'tool_calls', message: { tool_calls: [{ id: 'c0' }, { id: 'c3' }] } }],
  });
  const odd = play('responses', RESPONSES, {
    rounds: [[['open_page', [] as unknown as Json], open({}), open(FOUND, { start: -1, pattern: 7 })], 'Done.'],
  });
  t.match(odd.whole['output'], [{ status: 'failed' }, { status: 'failed' }, { status: 'failed' }, { type: 'message' }]);
});

t.test('a client with a function of that name keeps it', async (t) => {
  const own = { type: 'function', function: { name: 'open_page', parameters: { type: 'object' } } };
  const { asked, opened, whole } = play(
    'chat-completions',
    { ...CHAT, tools: [own] },
    { rounds: [[search], [['hosted_open_page', { url: FOUND }]], [open(FOUND)]] },
  );
  t.match(asked[0]?.['tools'], [own, {}, { function: { name: 'hosted_open_page' } }]);
  t.equal(opened.length, 1);
  t.match(whole, { choices: [{ message: { tool_calls: [{ function: { name: 'open_page' } }] } }] });
});
