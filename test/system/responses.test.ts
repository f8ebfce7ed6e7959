// Stored responses over real sockets: conversations by previous_response_id on CRNs that keep nothing, retrieval, accounts, restarts,
// threads, and gateways that share a store.

import { join } from 'node:path';
import t from 'tap';
import { createGateway } from '../../src/gateway/gateway.ts';
import { untilStatus } from '../support/background.ts';
import { postgresDatabase } from '../support/postgres.ts';
import { type ResponseCrn, startResponseCrn } from '../support/response-crn.ts';
import { call, create, idOf, inputOf, settingsOf, startGateway } from '../support/response-gateway.ts';
import { MODEL, startHosts, until } from '../support/system.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

t.test('a conversation goes on with a CRN that keeps nothing', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  for (const stream of [false, true]) {
    const first = await create(url, { input: 'one', instructions: 'be brief', stream });
    t.equal(first.status, 200);
    const second = await create(url, {
      input: [{ role: 'user', content: 'two' }],
      previous_response_id: idOf(first),
      stream,
    });
    t.equal(second.status, 200);
    const n = crn.requests.length;
    t.same(inputOf(crn), ['one', `answer ${n - 1}`, 'two']);
    t.notOk('previous_response_id' in (crn.requests.at(-1) ?? {}), 'the CRN does not hear of it');
    t.notOk('instructions' in (crn.requests.at(-1) ?? {}), 'instructions are not carried over');
    await create(url, { input: 'three', previous_response_id: idOf(second), stream });
    t.same(inputOf(crn), ['one', `answer ${n - 1}`, 'two', `answer ${n}`, 'three']);
    await create(url, { input: 'another way', previous_response_id: idOf(first), stream });
    t.same(inputOf(crn), ['one', `answer ${n - 1}`, 'another way'], 'a conversation may branch');
  }
});

t.test('a translated answer names the response that it continues, live and stored', async (t) => {
  const [{ url: server } = { url: '' }] = await startHosts(t);
  const models = { [MODEL]: { servers: [{ url: server, dialects: ['chat'] as const }] } };
  const { url } = await startGateway(t, settingsOf([], { models }));
  const first = await create(url, { input: 'one' });
  t.match(first.json, { previous_response_id: null });
  const previous = { input: 'two', previous_response_id: idOf(first) };
  const second = await create(url, previous);
  t.match(second.json, { previous_response_id: idOf(first) });
  t.equal((await call(url, `/v1/responses/${idOf(second)}`)).text, second.text, 'byte for byte');
  t.match((await create(url, { ...previous, store: false })).json, { previous_response_id: idOf(first) });
  const { text } = await create(url, { ...previous, stream: true });
  const named = [...text.matchAll(/"previous_response_id":([^,]*)/g)].map(([, id]) => id);
  t.same(named, Array<string>(3).fill(JSON.stringify(idOf(first))));
  const { text: input } = await call(url, `/v1/responses/${idOf(second)}/input_items`);
  const [given, made] = [input, second.text].map((json) => /"id":"(msg_[^"]*)"/.exec(json)?.[1]);
  t.ok(given !== undefined && made !== undefined && given !== made, 'an item of the input has an id of its own');
});

t.test('a stored response is what the client got, and goes when it is deleted', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  const first = await create(url, { input: 'one' });
  const id = idOf(first);
  const path = `/v1/responses/${id}`;
  t.equal((await call(url, path)).text, first.text, 'byte for byte');
  const streamed = await create(url, { input: 'two', stream: true, previous_response_id: id });
  const last = /^data: (\{"type":"response.completed".*)$/m.exec(streamed.text)?.[1] ?? '';
  const { response } = JSON.parse(last) as { response: object };
  const second = `/v1/responses/${idOf(streamed)}`;
  t.same((await call(url, second)).json, { ...response, previous_response_id: id });
  t.equal((await call(url, `${path}?include[]=reasoning.encrypted_content`)).status, 200);

  t.equal((await call(url, path, {}, 'hr_two')).status, 404, 'another account does not see it');
  t.equal((await call(url, path, { method: 'DELETE' }, 'hr_two')).status, 404);
  t.equal((await create(url, { input: 'x', previous_response_id: id }, 'hr_two')).status, 404);
  t.equal((await call(url, path, {}, 'wrong')).status, 401);
  t.match(await call(url, `${path}/cancel`, { method: 'POST', body: '{}' }), {
    status: 400,
    text: /does not run in the background/,
  });
  t.equal((await call(url, `${path}/cancel`, { method: 'POST', body: '{}' }, 'hr_two')).status, 404);

  const deleted = await call(url, path, { method: 'DELETE' });
  t.same(deleted.json, { id, object: 'response.deleted', deleted: true });
  t.equal((await call(url, path, { method: 'DELETE' })).status, 404);
  const unknown = await call(url, path);
  t.match([unknown.status, unknown.headers.get('x-headrace-error')], [404, 'HR_RESPONSE_UNKNOWN']);
  const continued = await create(url, { input: 'x', previous_response_id: id });
  t.match(
    [continued.status, continued.headers.get('x-headrace-error')],
    [404, 'HR_RESPONSE_UNKNOWN'],
    'no CRN is asked',
  );
  const broken = await create(url, { input: 'x', previous_response_id: idOf(streamed) });
  t.match([broken.status, broken.headers.get('x-headrace-error')], [404, 'HR_RESPONSE_BROKEN'], 'a link is gone');
  t.equal((await create(url, { input: 'x', previous_response_id: 'resp_nobody' })).status, 404);
});

t.test('input items are listed in pages', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  const input = [
    { role: 'user', content: 'one' },
    { id: 'fc_1', type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: '1', status: 'incomplete' },
    { role: 'assistant', content: 'two' },
  ];
  const path = `/v1/responses/${idOf(await create(url, { input }))}/input_items`;
  interface Page {
    readonly data: { readonly id: string; readonly status: string }[];
    readonly has_more: boolean;
    readonly last_id: string;
  }
  const page = async (query: string): Promise<Page> => (await call(url, path + query)).json as unknown as Page;
  const all = await page('?order=asc');
  t.match(all, { object: 'list', has_more: false, first_id: all.data[0]?.id, last_id: all.data[3]?.id });
  t.match(all.data[0], { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'one' }] });
  t.same(all.data[1], { ...input[1], status: 'completed' });
  t.match(all.data[3], { content: [{ type: 'output_text', text: 'two', annotations: [] }] });
  t.same(
    all.data.map(({ status }) => status),
    ['completed', 'completed', 'incomplete', 'completed'],
    'clients require a status',
  );
  t.same((await page('')).data, [...all.data].reverse(), 'the newest first');
  const first = await page('?limit=2');
  t.equal(first.has_more, true);
  t.same((await page(`?limit=2&after=${first.last_id}`)).data, [all.data[1], all.data[0]]);
  for (const query of ['?limit=0', '?limit=x', '?order=up', '?after=nothing']) {
    t.equal((await call(url, path + query)).status, 422, query);
  }
  const again = { id: 'msg_1', type: 'message', role: 'user', content: 'again' };
  const twice = `/v1/responses/${idOf(await create(url, { input: [again, again, input[0]] }))}/input_items?order=asc&limit=1`;
  let last = '';
  for (const hasMore of [true, true, false]) {
    const { json } = await call(url, last === '' ? twice : `${twice}&after=${last}`);
    t.match(json, { has_more: hasMore }, 'a list with an id twice has an end');
    last = json['last_id'] as string;
  }
  const odd = idOf(await create(url, { input: [null, 'x', [1]] }));
  t.match(await call(url, `/v1/responses/${odd}/input_items?order=asc`), {
    status: 200,
    json: { data: [null, 'x', [1]] },
  });
});

t.test('what is not to be stored is not', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  const id = idOf(await create(url, { input: 'one', store: false }));
  t.equal((await call(url, `/v1/responses/${id}`)).status, 404);
  t.equal((await create(url, { input: 'x', previous_response_id: id })).status, 400, 'its CRN is asked, and refuses');
  for (const name of ['store', 'background'])
    for (const value of ['false', 0, [], {}]) {
      const unread = await create(url, { input: 'x', [name]: value });
      const error = { loc: ['body', name], msg: 'Input should be a valid boolean', type: 'bool_type' };
      t.match([unread.status, unread.json], [422, { detail: [error] }], `${name}: ${JSON.stringify(value)}`);
    }
  const off = await startGateway(t, settingsOf([crn], { responses: { store: false } }));
  const kept = idOf(await create(off.url, { input: 'one' }));
  t.equal((await call(off.url, `/v1/responses/${kept}`)).status, 404);
  t.equal((await create(off.url, { input: 'x', previous_response_id: 'resp_any' })).status, 400, 'passes to the CRN');
  const background = await create(off.url, { input: 'x', background: true });
  t.match(
    [background.status, background.text],
    [422, /background is not possible: the setting responses.store is off/],
  );
  const small = await startGateway(t, settingsOf([crn], { responses: { maxBytes: '100B' } }));
  for (const stream of [false, true]) {
    const large = await create(small.url, { input: 'one', stream });
    t.equal(large.status, 200);
    t.equal((await call(small.url, `/v1/responses/${idOf(large)}`)).status, 404, 'larger than maxBytes');
  }
});

t.test('items that are named are found in the conversation or in the store', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  const first = await create(url, { input: 'one' });
  const item = /"id":"(msg_[^"]+)"/.exec(first.text)?.[1] ?? '';
  const reference = { type: 'item_reference', id: item };
  await create(url, { input: [{ role: 'user', content: 'one' }, reference, { role: 'user', content: 'two' }] });
  t.same(inputOf(crn), ['one', 'answer 1', 'two'], 'without previous_response_id');
  await create(url, { input: [reference, { role: 'user', content: 'two' }], previous_response_id: idOf(first) });
  t.same(inputOf(crn), ['one', 'answer 1', 'two'], 'once, where the conversation has it');
  const unknown = { type: 'item_reference', id: 'msg_unknown' };
  const other = await create(url, { input: [unknown] }, 'hr_two');
  t.equal(other.status, 200);
  t.same(crn.requests.at(-1)?.input, [unknown], 'what is not known passes');
});

t.test('a conversation outlives a restart, in a SQLite file', async (t) => {
  const [one, two] = [await startResponseCrn(t), await startResponseCrn(t)];
  const store = `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
  const before = await startGateway(t, settingsOf([one], { store }));
  const first = await create(before.url, { input: 'one', stream: true });
  await before.gateway.close();
  const { url } = await startGateway(t, settingsOf([two], { store }));
  t.equal((await create(url, { input: 'two', previous_response_id: idOf(first) })).status, 200);
  t.same(inputOf(two), ['one', 'answer 1', 'two'], 'on another CRN');
});

for (const shared of ['sqlite', 'postgres'] as const) {
  t.test(`${shared}: two gateways continue each other's responses at once`, async (t) => {
    const crns = [await startResponseCrn(t), await startResponseCrn(t)];
    const store = shared === 'postgres' ? await postgresDatabase() : `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
    const urls = [];
    for (const crn of crns) urls.push((await startGateway(t, settingsOf([crn], { store }))).url);
    let id = idOf(await create(urls[0] as string, { input: 'turn 0' }));
    for (let turn = 1; turn < 12; turn++) {
      const next = await create(urls[turn % 2] as string, {
        ...{ input: `turn ${turn}`, previous_response_id: id, stream: turn % 3 === 0 },
      });
      t.equal(next.status, 200, next.text);
      t.equal(inputOf(crns[turn % 2] as ResponseCrn).length, 2 * turn + 1);
      id = idOf(next);
    }
    t.equal((await call(urls[0] as string, `/v1/responses/${id}`, { method: 'DELETE' })).status, 200);
    t.equal((await call(urls[1] as string, `/v1/responses/${id}`)).status, 404, 'deleted for both');
  });
}

t.test('any thread continues a response of another one', async (t) => {
  const crn = await startResponseCrn(t);
  const store = `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
  const { url } = await startGateway(t, settingsOf([crn], { store, threads: 2 }));
  // Every request has a connection of its own, which the kernel gives to either thread.
  const close = { connection: 'close', authorization: 'Bearer hr_one', 'content-type': 'application/json' };
  let id = '';
  for (let turn = 0; turn < 24; turn++) {
    const body = {
      model: MODEL,
      input: `turn ${turn}`,
      stream: turn % 2 === 0,
      ...(id !== '' && { previous_response_id: id }),
    };
    const answer = await call(url, '/v1/responses', { method: 'POST', headers: close, body: JSON.stringify(body) });
    t.equal(answer.status, 200, answer.text);
    t.equal(inputOf(crn).length, 2 * turn + 1);
    id = idOf(answer);
  }
});

t.test('the oldest responses of an account go first', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn], { responses: { accountBytes: '20KiB' } }));
  const ids: string[] = [];
  for (let n = 0; n < 30; n++) ids.push(idOf(await create(url, { input: `${n} ${'x'.repeat(1000)}` })));
  const other = idOf(await create(url, { input: 'other' }, 'hr_two'));
  await until('the oldest is gone', async () => (await call(url, `/v1/responses/${ids[0]}`)).status === 404);
  t.equal((await call(url, `/v1/responses/${ids.at(-1)}`)).status, 200);
  t.equal((await call(url, `/v1/responses/${other}`, {}, 'hr_two')).status, 200);
});

t.test('the responses of an account are deleted by an operator', async (t) => {
  const crn = await startResponseCrn(t);
  const store = `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
  const admin = { admin: '127.0.0.1:0', adminToken: 'operator-token-operator-token-01' };
  const gateway = createGateway(settingsOf([crn], { store, ...admin }));
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  await gateway.ready();
  const ids = [idOf(await create(url, { input: 'one' })), idOf(await create(url, { input: 'two' }))];
  const other = idOf(await create(url, { input: 'x' }, 'hr_two'));
  const act = async (method: string): Promise<object> => {
    const headers = { authorization: `Bearer ${admin.adminToken}` };
    const answer = await fetch(`${adminUrl}/accounts/one/responses`, { method, headers });
    return (await answer.json()) as object;
  };
  await until('both are written', async () => ((await act('GET')) as { responses: number }).responses === 2);
  t.match(await act('DELETE'), { account: 'one', responses: 2, running: 0 });
  for (const id of ids) t.equal((await call(url, `/v1/responses/${id}`)).status, 404);
  t.equal((await call(url, `/v1/responses/${other}`, {}, 'hr_two')).status, 200);
  const acts = await fetch(`${adminUrl}/acts`, { headers: { authorization: `Bearer ${admin.adminToken}` } });
  t.match(await acts.text(), /responses\.remove/, 'and the act is recorded');
  const overview = await fetch(`${adminUrl}/overview`, { headers: { authorization: `Bearer ${admin.adminToken}` } });
  t.match(await overview.json(), { responses: { stored: 3, notStored: 0, waitingBytes: 0, background: 0 } });
});

t.test('a conversation that no request can hold is refused', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn], { limits: { bodyBytes: '4KiB' } }));
  const first = await create(url, { input: 'x'.repeat(2000) });
  const second = await create(url, { input: 'y'.repeat(2000), previous_response_id: idOf(first) });
  t.match([second.status, second.headers.get('x-headrace-error')], [413, 'HR_RESPONSE_LENGTH']);
});

t.test('a request as deep as the setting allows continues a response, also in the background', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn], { limits: { jsonDepth: 1000 } }));
  const first = await create(url, { input: 'one' });
  const metadata = JSON.parse('['.repeat(500) + ']'.repeat(500)) as unknown;
  const body = { input: 'two', metadata, previous_response_id: idOf(first) };
  t.equal((await create(url, body)).status, 200);
  t.same(inputOf(crn), ['one', 'answer 1', 'two']);
  const queued = await create(url, { ...body, background: true });
  t.match(queued.json, { status: 'queued', metadata });
  await untilStatus(url, idOf(queued), 'completed');
  t.same(inputOf(crn), ['one', 'answer 1', 'two']);
});

t.test('conversations and background work go to servers of chat completions too', async (t) => {
  const hosts = await startHosts(t, [{ dialects: ['chat'] }]);
  const { url } = await startGateway(
    t,
    settingsOf([], { models: { [MODEL]: { servers: hosts.map((host) => host.url) } } }),
  );
  const first = await create(url, { input: 'one', max_output_tokens: 8 });
  t.match([first.status, first.headers.get('x-headrace-translated')], [200, 'responses-chat']);
  t.equal((await call(url, `/v1/responses/${idOf(first)}`)).text, first.text, 'what the client got is stored');
  const streamed = await create(url, {
    input: 'two',
    previous_response_id: idOf(first),
    stream: true,
    max_output_tokens: 8,
  });
  t.equal(streamed.status, 200, streamed.text);
  const third = await create(url, {
    ...{ input: 'three', previous_response_id: idOf(streamed), background: true, max_output_tokens: 8 },
  });
  let done: Record<string, unknown> = {};
  await until('it has ended', async () => {
    done = (await call(url, `/v1/responses/${idOf(third)}`)).json;
    return done['status'] !== 'queued' && done['status'] !== 'in_progress';
  });
  t.match(done, {
    id: idOf(third),
    background: true,
    previous_response_id: idOf(streamed),
    output: [{ type: 'message' }],
  });
  const tokens = (answer: unknown): number => (answer as { usage: { input_tokens: number } }).usage.input_tokens;
  t.ok(tokens(done) > tokens(first.json) + 8, 'the server had the whole conversation');
});

t.test('paths of stored responses answer their methods', async (t) => {
  const crn = await startResponseCrn(t);
  const { url } = await startGateway(t, settingsOf([crn]));
  const allow = async (method: string, path: string): Promise<unknown[]> => {
    const { headers, status } = await call(url, path, { method });
    return [status, headers.get('allow')];
  };
  t.same(await allow('DELETE', '/v1/responses'), [405, 'GET, HEAD, POST, OPTIONS']);
  t.same(await allow('OPTIONS', '/v1/responses/resp_1'), [204, 'GET, HEAD, DELETE, OPTIONS']);
  t.same(await allow('GET', '/v1/responses/resp_1/cancel'), [405, 'POST, OPTIONS']);
  t.same(await allow('DELETE', '/v1/responses/resp_1/input_items'), [405, 'GET, HEAD, OPTIONS']);
  t.same(await allow('DELETE', '/nowhere'), [405, 'POST, OPTIONS']);
});
