// Keys of a store that has not been read yet: no key is called wrong that may be one of them.

import t from 'tap';
import { createGateway } from '../../src/gateway/gateway.ts';
import { KEY, settingsFor } from '../support/system.ts';

t.test('a key that is not configured is refused for a while until the store has been read', async (t) => {
  const gateway = createGateway(settingsFor([], { models: {}, store: 'postgres://u:p@127.0.0.1:1/none' }));
  t.teardown(() => gateway.close());
  const stranger = { authorization: 'Bearer hr_of_the_store' };
  for (const request of [
    { path: '/svc/auth/check' },
    { path: '/svc/account' },
    { method: 'POST', path: '/v1/chat/completions', body: { model: 'm', messages: [] } },
  ]) {
    const { body, headers, status } = await gateway.inject({ ...request, headers: stranger });
    const { path } = request;
    t.match([status, headers['x-headrace-error'], headers['x-should-retry']], [503, 'HR_STARTING', 'true'], path);
    t.same(JSON.parse(String(body)), { detail: 'The gateway is starting' });
  }
  const configured = await gateway.inject({ path: '/svc/auth/check', headers: { authorization: `Bearer ${KEY}` } });
  t.equal(configured.status, 200);
});

t.test('it is wrong once the store has been read', async (t) => {
  const gateway = createGateway(settingsFor([], { models: {}, store: 'sqlite::memory:' }));
  t.teardown(() => gateway.close());
  await gateway.ready();
  const { status } = await gateway.inject({ path: '/svc/auth/check', headers: { authorization: 'Bearer hr_wrong' } });
  t.equal(status, 401);
});
