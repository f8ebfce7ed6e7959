// The model lists as endpoints: discovery map, OpenAI list, single models and aggregator list.
import t from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { open, settingsFor, startHost } from '../support/server-adapter.ts';

const MODELS: NonNullable<SettingsInput['models']> = {
  'Acme/Atlas-27B': {
    servers: ['http://127.0.0.1:1/', 'http://127.0.0.1:2'],
    context_length: 131072,
    hugging_face_id: 'acme/Atlas-27B',
    tee: true,
    created: 1_700_000_000,
    name: 'Atlas',
    pricing: { prompt: '0.15', completion: '1.5' },
  },
  plain: { servers: ['http://127.0.0.1:1'] },
};

const SETTINGS: SettingsInput = { models: MODELS, ownedBy: 'acme', health: { fall: 1 } };

t.test('the discovery map has all servers, healthy or not, without trailing slash', async (t) => {
  const { ask } = await open(t, 'inject', SETTINGS);
  t.same((await ask({ path: '/svc/models' })).json(), {
    'Acme/Atlas-27B': { servers: ['http://127.0.0.1:1', 'http://127.0.0.1:2'] },
    plain: { servers: ['http://127.0.0.1:1'] },
  });
});

const ATLAS = {
  id: 'Acme/Atlas-27B',
  object: 'model',
  created: 1_700_000_000,
  owned_by: 'acme',
  context_length: 131072,
  hugging_face_id: 'acme/Atlas-27B',
  tee: true,
  pricing: { prompt: '0.00000015', completion: '0.0000015' },
};

t.test('the OpenAI list has the known fields and leaves out unknown ones', async (t) => {
  const { ask } = await open(t, 'inject', SETTINGS);
  const list = (await ask({ path: '/v1/models' })).json<{ data: object[] }>();
  t.same(list.data[0], ATLAS);
  t.same(Object.keys(list.data[1] ?? {}), ['id', 'object', 'created', 'owned_by']);
  t.same((await ask({ path: '/v1/models' })).json(), list, 'also when it is remembered');
  for (const path of ['/v1/models/', '/models/']) t.same((await ask({ path })).json(), list, path);
});

t.test('one entry is found by id in any case, plain or encoded', async (t) => {
  const { ask } = await open(t, 'inject', SETTINGS);
  for (const id of ['Acme/Atlas-27B', 'acme/atlas-27b', 'acme%2Fatlas-27b']) {
    t.same((await ask({ path: `/v1/models/${id}` })).json(), ATLAS, id);
  }
  for (const id of ['acme', '%zz', 'x'.repeat(5000)]) {
    const answer = await ask({ path: `/v1/models/${id}` });
    t.match(answer, { status: 404, headers: { 'x-headrace-error': 'HR_ROUTE_UNKNOWN_MODEL' } }, id.slice(0, 9));
    t.ok(answer.body.byteLength < 200);
  }
});

t.test('the aggregator list has priced chat models only', async (t) => {
  const { ask } = await open(t, 'inject', SETTINGS);
  t.match((await ask({ path: '/aggregator/models' })).json(), { data: [{ schema_version: '2.4', id: ATLAS.id }] });
});

t.test('before the first cycle the aggregator list is 503 with Retry-After, the others are there', async (t) => {
  const host = await startHost(t);
  await host.setFault([{ match: { path: '/health' }, fault: { hang: true } }]);
  const gateway = createGateway(settingsFor(host));
  t.teardown(() => gateway.close());
  const answer = await gateway.inject({ path: '/aggregator/models' });
  t.match(answer, { status: 503, headers: { 'retry-after': '30', 'x-headrace-error': 'HR_LIST_NOT_READY' } });
  for (const path of ['/svc/models', '/v1/models']) t.equal((await gateway.inject({ path })).status, 200, path);
});

t.test('every list follows a reload', async (t) => {
  const host = await startHost(t);
  const { gateway, ask } = await open(t, 'inject', {}, host);
  await ask({ path: '/v1/models' });
  gateway.reload(settingsFor(host, { models: { fresh: { servers: [host.url] } } }));
  await new Promise(setImmediate);
  t.same(Object.keys((await ask({ path: '/svc/models' })).json<object>()), ['fresh']);
  t.match((await ask({ path: '/v1/models' })).json(), { data: [{ id: 'fresh' }] });
});
