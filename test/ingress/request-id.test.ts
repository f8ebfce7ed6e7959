import fc from 'fast-check';
import t from 'tap';
import { requestId } from '../../src/ingress/request-id.ts';

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

t.test('the id of the caller is taken in the order of the headers it may stand in', async (t) => {
  t.equal(requestId(['x-request-id', 'a']), 'a');
  t.equal(requestId(['x-client-request-id', 'b']), 'b');
  t.equal(requestId(['x-client-request-id', 'b', 'x-request-id', 'a']), 'a');
  t.equal(requestId(['x-request-id', 'not sane', 'x-client-request-id', 'b']), 'b');
  t.equal(requestId(['x-request-id', 'not sane', 'x-request-id', 'a']), 'a');
});

t.test('without a sane one each request gets a new id', async (t) => {
  t.match(requestId([]), UUID);
  t.not(requestId([]), requestId([]));
});

t.test('an id holds nothing that a header or a log line could be broken with', async () => {
  fc.assert(fc.property(fc.string(), (text) => /^[\w.:/+=-]{1,128}$/.test(requestId(['x-request-id', text]))));
});
