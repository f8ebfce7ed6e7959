import t from 'tap';
import { hashKey, KeyTable } from '../../src/billing/index.ts';
import { admit, requireKey } from '../../src/api/admit.ts';
import type { ApiDeps } from '../../src/api/deps.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';

/** The parts of a world that the gate looks at. */
function deps(required: boolean): ApiDeps {
  const keys = new KeyTable([{ hash: hashKey('good'), account: 'a' }]);
  return { keys, settings: { keys: { required } } } as unknown as ApiDeps;
}

const request = (...headers: string[]): StubExchange => new StubExchange('POST', headers);

t.test('a good key is admitted with its account', async (t) => {
  const admission = admit(request('authorization', 'Bearer good'), deps(true));
  t.match(admission, { credential: { kind: 'good', account: 'a' }, bearer: undefined });
  t.doesNotThrow(() => requireKey(admission, deps(true)));
});

t.test('a key from x-api-key alone is handed on as a bearer token', async (t) => {
  t.equal(admit(request('x-api-key', 'good'), deps(true)).bearer, 'good');
  t.equal(admit(request('x-api-key', 'good', 'authorization', 'Bearer good'), deps(true)).bearer, undefined);
});

t.test('a bad key is refused at once, a missing one only when it is asked for', async (t) => {
  t.throws(() => admit(request('authorization', 'Bearer bad'), deps(true)), { code: 'HR_AUTH_INVALID' });
  const none = admit(request(), deps(true));
  t.throws(() => requireKey(none, deps(true)), { code: 'HR_AUTH_MISSING' });
});

t.test('an open gateway refuses nobody', async (t) => {
  for (const exchange of [request(), request('authorization', 'Bearer bad')]) {
    t.doesNotThrow(() => requireKey(admit(exchange, deps(false)), deps(false)));
  }
});
