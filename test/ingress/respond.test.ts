// Error and JSON responses.
import t from 'tap';
import { HeadraceError } from '../../src/errors.ts';
import { respondError, respondJson } from '../../src/ingress/respond.ts';
import { StubExchange } from './stub-exchange.ts';

t.test('an error of the table has its status, sentence and code', async (t) => {
  const exchange = new StubExchange('POST');
  respondError(exchange, new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: '$& m', headers: ['x-a', 'b'] }));
  t.equal(exchange.status, 404);
  t.equal(exchange.body, '{"detail":"Model \'$& m\' not found"}');
  t.match(exchange.answered, { 'content-type': 'application/json', 'x-headrace-error': 'HR_ROUTE_UNKNOWN_MODEL' });
  t.equal(exchange.answered['x-a'], 'b');
  t.equal(exchange.errorCode, 'HR_ROUTE_UNKNOWN_MODEL');
  t.notOk('retry-after' in exchange.answered);
});

t.test('a validation error has its entries', async (t) => {
  const exchange = new StubExchange('POST');
  const validation = [{ loc: ['body', 0], msg: 'no', type: 'bad' }];
  respondError(exchange, new HeadraceError('HR_REQUEST_INVALID', { validation }));
  t.equal(exchange.status, 422);
  t.same(JSON.parse(exchange.body), { detail: validation });
});

t.test('any other thrown value is 500 without its text', async (t) => {
  for (const thrown of [new Error('secret'), 'secret', undefined, { secret: 1 }]) {
    const exchange = new StubExchange('GET');
    respondError(exchange, thrown);
    t.equal(exchange.status, 500);
    t.equal(exchange.body, '{"detail":"Internal error"}');
  }
});

t.test('401 names the scheme; 503 has Retry-After, the one of the error if there is one', async (t) => {
  const answered = (error: HeadraceError): Record<string, string> => {
    const exchange = new StubExchange('GET');
    respondError(exchange, error);
    return exchange.answered;
  };
  t.equal(answered(new HeadraceError('HR_AUTH_MISSING'))['www-authenticate'], 'Bearer');
  t.equal(answered(new HeadraceError('HR_OVERLOADED'))['retry-after'], '1');
  t.equal(answered(new HeadraceError('HR_LIST_NOT_READY', { headers: ['retry-after', '30'] }))['retry-after'], '30');
});

t.test('the decorator adds members beside detail', async (t) => {
  const exchange = new StubExchange('POST');
  respondError(exchange, new HeadraceError('HR_AUTH_INVALID'), (_, { status }) => ({ error: { status } }));
  t.same(JSON.parse(exchange.body), { detail: 'Invalid API key', error: { status: 401 } });
  const plain = new StubExchange('POST');
  respondError(plain, new HeadraceError('HR_AUTH_INVALID'), () => undefined);
  t.same(JSON.parse(plain.body), { detail: 'Invalid API key' });
});

t.test('an error breaks a response that has begun and does nothing after the end', async (t) => {
  const exchange = new StubExchange('GET');
  exchange.start(200, [], -1);
  exchange.write(Buffer.from('half'));
  respondError(exchange, new HeadraceError('HR_INTERNAL'));
  t.equal(exchange.destroyed, true);
  t.equal(exchange.body, 'half');
  const done = new StubExchange('GET');
  done.respond(200, [], Buffer.from('x'));
  respondError(done, new HeadraceError('HR_INTERNAL'));
  t.equal(done.status, 200);
  t.equal(done.errorCode, '');
});

t.test('respondJson sets the content type', async (t) => {
  const exchange = new StubExchange('GET');
  respondJson(exchange, 202, { a: [1] }, ['x-a', 'b']);
  t.match(exchange, { status: 202, body: '{"a":[1]}', answered: { 'content-type': 'application/json', 'x-a': 'b' } });
});
