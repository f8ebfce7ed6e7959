import t from 'tap';
import { hashKey, KeyRing } from '../../src/account/index.ts';
import { admit, requireKey } from '../../src/api/admit.ts';
import type { ApiWorld } from '../../src/api/world.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';

/** The parts of a world that the gate looks at. */
function world(required: boolean): ApiWorld {
  const keys = new KeyRing([{ hash: hashKey('good'), account: 'a' }]);
  return { keys, settings: { keys: { required } } } as unknown as ApiWorld;
}

const request = (...headers: string[]): StubExchange => new StubExchange('POST', headers);

t.test('a good key is admitted with its account', async (t) => {
  const admission = admit(request('authorization', 'Bearer good'), world(true));
  t.match(admission, { credential: { kind: 'good', account: 'a' }, bearer: undefined });
  t.doesNotThrow(() => requireKey(admission, world(true)));
});

t.test('a key from x-api-key alone is handed on as a bearer token', async (t) => {
  t.equal(admit(request('x-api-key', 'good'), world(true)).bearer, 'good');
  t.equal(admit(request('x-api-key', 'good', 'authorization', 'Bearer good'), world(true)).bearer, undefined);
});

t.test('a bad key is refused at once, a missing one only when it is asked for', async (t) => {
  t.throws(() => admit(request('authorization', 'Bearer bad'), world(true)), { code: 'HR_AUTH_INVALID' });
  const none = admit(request(), world(true));
  t.throws(() => requireKey(none, world(true)), { code: 'HR_AUTH_MISSING' });
});

t.test('an open gateway refuses nobody', async (t) => {
  for (const exchange of [request(), request('authorization', 'Bearer bad')]) {
    t.doesNotThrow(() => requireKey(admit(exchange, world(false)), world(false)));
  }
});
