import t from 'tap';
import { StubExchange } from './stub-exchange.ts';

t.test('headers are found by their lower-case name, the first of several', async (t) => {
  const exchange = new StubExchange('GET', ['a', '1', 'b', '2', 'a', '3']);
  t.equal(exchange.header('a'), '1');
  t.equal(exchange.header('b'), '2');
  t.equal(exchange.header('1'), undefined, 'values are not names');
});

t.test('every answer carries the request id', async (t) => {
  const exchange = new StubExchange('GET');
  exchange.respond(200, ['a', 'b'], Buffer.from('x'));
  t.same(exchange.answered, { 'x-request-id': 'id', 'request-id': 'id', a: 'b' });
  t.equal(exchange.status, 200);
});

t.test('the first head counts', async (t) => {
  const exchange = new StubExchange('GET');
  exchange.start(200, [], -1);
  exchange.write(Buffer.from('x'));
  exchange.start(500, [], -1);
  t.equal(exchange.status, 200);
});

t.test('an exchange closes once: complete, broken off or left', async (t) => {
  for (const end of ['end', 'destroy', 'leave'] as const) {
    const exchange = new StubExchange('GET');
    const seen: string[] = [];
    exchange.onAbort = () => seen.push('abort');
    exchange.onClose = () => seen.push('close');
    exchange[end]();
    exchange[end]();
    exchange.leave();
    t.same(seen, end === 'leave' ? ['abort', 'close'] : ['close'], end);
    t.equal(exchange.aborted, end === 'leave');
    t.equal(exchange.onWritable, null);
  }
});
