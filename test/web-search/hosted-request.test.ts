// Requests with a hosted web search as chat requests with a function.

import t from 'tap';
import type { DialectName } from '../../src/dialect/index.ts';
import { MAX_READ_VALUES } from '../../src/dialect/index.ts';
import { type HostedRequest, hostedRequestOf } from '../../src/web-search/hosted-request.ts';
import { Sources } from '../../src/web-search/sources.ts';

const hi = { role: 'user', content: 'hi' };
const MESSAGES_TOOL = { type: 'web_search_20250305', name: 'web_search' };

function read(dialect: DialectName, body: object): HostedRequest | null {
  return hostedRequestOf(dialect, Buffer.from(JSON.stringify({ model: 'm', ...body })), 0);
}

function names({ chat }: HostedRequest): unknown[] {
  return (chat['tools'] as { function: { name: string } }[]).map(({ function: { name } }) => name);
}

t.test('reads the tool of each dialect', async (t) => {
  t.equal(read('chat-completions', { messages: [hi] }), null);
  t.equal(
    read('messages', { messages: [hi], tools: [{ name: 'web_search', input_schema: {} }] }),
    null,
    'a tool of the client',
  );
  t.equal(read('responses', { input: 'hi', tools: [{ type: 'function', name: 'web_search', parameters: {} }] }), null);
  t.equal(
    read('responses', { input: 'hi', tools: [{ type: 'web_search', external_web_access: false }] }),
    null,
    'as Codex offers it',
  );
  t.equal(read('completions', { prompt: 'web_search' }), null);

  const place = { type: 'approximate', country: 'de', city: 'Ulm', timezone: 'Europe/Berlin' };
  const chat = read('chat-completions', {
    messages: [hi],
    web_search_options: { search_context_size: 'high', user_location: { type: 'approximate', approximate: place } },
  });
  t.match(chat, { tool: { name: 'web_search', contextSize: 'high', country: 'DE', maxUses: null }, translated: null });
  t.match(JSON.stringify(chat?.chat), /The user is in Ulm, de\. The time zone of the user is Europe\/Berlin\./);
  t.notOk('web_search_options' in (chat?.chat ?? {}));

  for (const type of ['web_search', 'web_search_preview', 'web_search_2025_08_26', 'web_search_preview_2025_03_11']) {
    const filters = { allowed_domains: ['https://One.example/', 'two.example'] };
    const request = read('responses', {
      input: 'hi',
      tools: [{ type, filters, search_context_size: 'low' }],
      max_tool_calls: 3,
    });
    t.match(request?.tool, { allowed: ['one.example', 'two.example'], contextSize: 'low', maxUses: 3 }, type);
  }
  const blocked = { ...MESSAGES_TOOL, type: 'web_search_20260318', max_uses: 2, blocked_domains: ['a.example/b'] };
  t.match(read('messages', { messages: [hi], max_tokens: 9, tools: [blocked] })?.tool, {
    maxUses: 2,
    blocked: ['a.example/b'],
  });
});

t.test('gives the function a name that no tool of the client has', async (t) => {
  const own = { name: 'web_search', input_schema: { type: 'object' } };
  const request = read('messages', {
    ...{ messages: [hi], max_tokens: 9 },
    tools: [own, { ...own, name: 'hosted_web_search' }, { ...MESSAGES_TOOL, name: 'web_search' }],
  });
  t.equal(request?.tool?.name, 'hosted_web_search_2');
  t.same(names(request as HostedRequest), ['web_search', 'hosted_web_search', 'hosted_web_search_2']);
});

t.test('carries the choice of the tool', async (t) => {
  const forced = { type: 'function', function: { name: 'web_search' } };
  const responses = (tool_choice: unknown): unknown =>
    read('responses', { input: 'hi', tools: [{ type: 'web_search' }], tool_choice })?.chat['tool_choice'];
  t.same(responses({ type: 'web_search' }), forced);
  t.same(responses({ type: 'web_search_preview' }), forced);
  t.equal(responses({ type: 'allowed_tools', mode: 'required', tools: [{ type: 'web_search' }] }), 'required');
  const among = read('responses', {
    input: 'hi',
    tools: [{ type: 'web_search' }, { type: 'function', name: 'read', parameters: {} }],
    tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'web_search' }] },
  });
  t.same(names(among as HostedRequest), ['web_search', 'open_page'], 'who may search may read what was found');
  t.equal(responses('none'), 'none');
  const choice = { type: 'tool', name: 'web_search' };
  t.same(
    read('messages', { messages: [hi], max_tokens: 9, tools: [MESSAGES_TOOL], tool_choice: choice })?.chat[
      'tool_choice'
    ],
    forced,
  );
});

t.test('gives a search the country and the domains in the form that it takes, or none', async (t) => {
  const countryOf = (country: string): unknown =>
    read('messages', { messages: [hi], tools: [{ ...MESSAGES_TOOL, user_location: { country } }] })?.tool?.country;
  t.same(['de', 'UK', 'ZZ', 'Germany'].map(countryOf), ['DE', 'GB', '', '']);
  const domains = { allowed_domains: ['Bücher.example/A', 'one.example.'] };
  const { tool } = read('messages', { messages: [hi], tools: [{ ...MESSAGES_TOOL, ...domains }] }) ?? {};
  t.same(tool?.allowed, ['xn--bcher-kva.example/A', 'one.example']);
});

t.test('refuses what is not valid, by its place', async (t) => {
  const refused = (dialect: DialectName, body: object, place: readonly unknown[]): void => {
    t.throws(() => read(dialect, body), { code: 'HR_REQUEST_INVALID', validation: [{ loc: ['body', ...place] }] });
  };
  const tools = (more: object): object => ({ messages: [hi], tools: [{ ...MESSAGES_TOOL, ...more }] });
  refused('chat-completions', { messages: [hi], n: 2, web_search_options: {} }, ['n']);
  refused('chat-completions', { messages: [hi], web_search_options: { search_context_size: 'huge' } }, [
    'web_search_options',
    'search_context_size',
  ]);
  for (const options of [5, 'on', true, []])
    refused('chat-completions', { messages: [hi], web_search_options: options }, ['web_search_options']);
  t.equal(read('chat-completions', { messages: [hi], web_search_options: null }), null);
  t.throws(() => hostedRequestOf('chat-completions', Buffer.from('{"web_search_options":{}}'), MAX_READ_VALUES + 1), {
    code: 'HR_REQUEST_INVALID',
    validation: [{ loc: ['body'], msg: `with web search it should have at most ${MAX_READ_VALUES} values and keys` }],
  });
  refused('messages', tools({ max_uses: 0 }), ['tools', 0, 'max_uses']);
  for (const domain of ['no domain', 'localhost', 'one.08', 'one.example:80'])
    refused('messages', tools({ allowed_domains: [domain] }), ['tools', 0, 'allowed_domains', 0]);
  refused('messages', tools({ allowed_domains: 'a.example' }), ['tools', 0, 'allowed_domains']);
  refused('messages', tools({ allowed_domains: ['a.example'], blocked_domains: ['b.example'] }), [
    'tools',
    0,
    'blocked_domains',
  ]);
  refused('messages', { ...tools({}), messages: 'hi' }, ['messages']);
  refused('chat-completions', { messages: 'hi', web_search_options: {} }, ['messages']);
  refused('chat-completions', { messages: [hi], tools: {}, web_search_options: {} }, ['tools']);
  const search = (more: object): object => ({ input: 'hi', tools: [{ type: 'web_search', ...more }] });
  for (const value of [5, 'a.example', true, ['a.example']]) {
    refused('responses', search({ filters: value }), ['tools', 0, 'filters']);
    refused('responses', search({ user_location: value }), ['tools', 0, 'user_location']);
    refused('messages', tools({ user_location: value }), ['tools', 0, 'user_location']);
    refused('chat-completions', { messages: [hi], web_search_options: { user_location: value } }, [
      ...['web_search_options', 'user_location'],
    ]);
  }
  for (const name of ['city', 'country', 'region', 'timezone']) {
    refused('messages', tools({ user_location: { [name]: 5 } }), ['tools', 0, 'user_location', name]);
    t.ok(read('messages', tools({ user_location: { [name]: null } })));
  }
  const place = { user_location: { type: 'approximate', approximate: 'DE' } };
  refused('chat-completions', { messages: [hi], web_search_options: place }, [
    ...['web_search_options', 'user_location', 'approximate'],
  ]);
  const fetches = (more: object): object => ({ messages: [hi], tools: [{ type: 'web_fetch_20250910', ...more }] });
  refused('messages', fetches({ url_sources: 'all' }), ['tools', 0, 'url_sources']);
  refused('messages', fetches({ use_cache: 'false' }), ['tools', 0, 'use_cache']);
  const many = Array.from({ length: 51 }, (_, at) => `a${at}.example`);
  refused('responses', { input: 'hi', tools: [{ type: 'web_search', filters: { allowed_domains: many } }] }, [
    'tools',
    0,
    'filters',
    'allowed_domains',
  ]);
});

t.test('numbers keep their digits', async (t) => {
  const ids = '"id":1234567890123456789,"part":0.12345678901234567890,"n":1e400,"few":1.0';
  const call = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{${ids}}}]}`;
  const tool = `{"name":"f","input_schema":{"type":"object","properties":{"id":{"maximum":18446744073709551615}}}}`;
  const body = `{"model":"m","messages":[${call}],"tools":[${JSON.stringify(MESSAGES_TOOL)},${tool}]}`;
  const chat = JSON.stringify(hostedRequestOf('messages', Buffer.from(body), 0)?.chat);
  for (const number of ['1234567890123456789', '0.12345678901234567890', '1e400', '18446744073709551615'])
    t.ok(chat.includes(`:${number}`), number);
});

const opaque = new Sources().add('https://one.example/', 'One', '2026-01-02', 'The text of one.').opaque;

t.test('translates what a client of the messages dialect sends back', async (t) => {
  const content = [
    { type: 'text', text: 'Let me look.' },
    { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'one' } },
    {
      type: 'web_search_tool_result',
      tool_use_id: 'srvtoolu_1',
      content: [
        { type: 'web_search_result', url: 'https://one.example/', title: 'One', encrypted_content: opaque },
        {
          type: 'web_search_result',
          url: 'https://two.example/',
          title: 'Two',
          encrypted_content: 'of another server',
        },
      ],
    },
    { type: 'server_tool_use', id: 'srvtoolu_2', name: 'web_search', input: { query: 'two' } },
    {
      type: 'web_search_tool_result',
      tool_use_id: 'srvtoolu_2',
      content: { type: 'web_search_tool_result_error', error_code: 'unavailable' },
    },
    { type: 'server_tool_use', id: 'srvtoolu_3', name: 'web_search', input: { query: 'without a result' } },
    { type: 'tool_use', id: 'toolu_1', name: 'read', input: {} },
  ];
  const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'read' }] };
  const request = read('messages', { max_tokens: 9, messages: [hi, { role: 'assistant', content }, result] });
  t.equal(request?.tool, null, 'the request has no tool of its own');
  t.match(request?.chat['messages'], [
    { role: 'user' },
    {
      role: 'assistant',
      content: 'Let me look.',
      tool_calls: [{ id: 'srvtoolu_1', function: { arguments: '{"query":"one"}' } }],
    },
    {
      role: 'tool',
      tool_call_id: 'srvtoolu_1',
      content:
        /\[1\] One\nhttps:\/\/one\.example\/\n2026-01-02\nThe text of one\.\n\n\[2\] Two\nhttps:\/\/two\.example\/$/,
    },
    { role: 'assistant', tool_calls: [{ id: 'srvtoolu_2' }] },
    { role: 'tool', tool_call_id: 'srvtoolu_2', content: 'error: unavailable' },
    { role: 'assistant', tool_calls: [{ id: 'toolu_1' }] },
    { role: 'tool', tool_call_id: 'toolu_1', content: 'read' },
  ]);
  t.equal((request?.chat['messages'] as unknown[] | undefined)?.length, 7);
  t.equal(request?.sources.find(1)?.url, 'https://one.example/', 'earlier results can be cited');
});

t.test('translates what a client of the responses dialect sends back', async (t) => {
  const call = { type: 'web_search_call', status: 'completed', action: { type: 'search', query: 'one' } };
  const action = { type: 'search', queries: ['two'], sources: [{ type: 'url', url: 'https://two.example/' }] };
  const request = read('responses', {
    input: [
      hi,
      { ...call, id: 'ws_1', encrypted_content: opaque },
      { ...call, id: 'ws_2', action },
      { ...call, id: 'ws_3', status: 'failed' },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'One.', annotations: [] }] },
      { role: 'user', content: 'and?' },
    ],
    tools: [{ type: 'web_search' }],
  });
  t.match(request?.chat['messages'], [
    { role: 'user' },
    { role: 'assistant', tool_calls: [{ id: 'ws_1', function: { name: 'web_search', arguments: '{"query":"one"}' } }] },
    { role: 'tool', tool_call_id: 'ws_1', content: 'Results' },
    { role: 'assistant', tool_calls: [{ id: 'ws_2' }] },
    { role: 'tool', content: /https:\/\/two\.example\// },
    { role: 'assistant', tool_calls: [{ id: 'ws_3' }] },
    { role: 'tool', content: 'error: unavailable' },
    { role: 'assistant', content: 'One.' },
    { role: 'user', content: 'and?' },
  ]);
});

t.test('takes nothing but pages from an opaque text', async (t) => {
  const sources = new Sources();
  for (const text of ['', 'AAAA', '\u0000', 7, null, Buffer.from('{}').toString('base64url')]) {
    t.equal(sources.addPacked(text), undefined, JSON.stringify(text));
  }
  t.same(
    sources.addAllPacked(new Sources().add('u', 't', null, 'x'.repeat(2_000_000)).opaque)[0]?.text.length,
    200_000,
    'as much as one request is told',
  );
  const bomb = (await import('node:zlib')).deflateRawSync(Buffer.alloc(8_000_000, ' ')).toString('base64url');
  t.equal(sources.addPacked(bomb), undefined);
});

t.test(
  'searches that a client of the responses dialect sends back without ids and results are told apart',
  async (t) => {
    const call = (query: string): object => ({ type: 'web_search_call', status: 'completed', action: { query } });
    const request = read('responses', {
      input: [hi, call('one'), call('two'), { role: 'user', content: 'and?' }],
      tools: [{ type: 'web_search' }],
    });
    t.match(request?.chat['messages'], [
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ id: 'ws_1' }] },
      { role: 'tool', tool_call_id: 'ws_1', content: 'The results of this search are not at hand any more.' },
      { role: 'assistant', tool_calls: [{ id: 'ws_2' }] },
      { role: 'tool', tool_call_id: 'ws_2', content: 'The results of this search are not at hand any more.' },
      { role: 'user', content: 'and?' },
    ]);
  },
);
