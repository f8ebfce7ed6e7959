// Which headers cross the gateway, in both directions.
import t from 'tap';
import { requestHeaders, responseHead, withCredential } from '../../src/upstream/headers.ts';

const input = { requestId: 'id', bearer: undefined, readable: false };

t.test('requests lose hop-by-hop and framing headers and those named by Connection', async (t) => {
  const headers = [
    ...['host', 'a', 'connection', 'keep-alive, X-Mine', 'connection', 'close', 'connection', 'x-more'],
    ...['x-mine', '1', 'x-more', '2', 'x-kept', '3', 'keep-alive', '5', 'te', 'trailers', 'trailer', 'x'],
    ...['transfer-encoding', 'chunked', 'upgrade', 'h2c', 'proxy-authorization', 'p', 'proxy-connection', 'q'],
    ...['content-length', '7', 'expect', '100-continue', 'x-request-id', 'theirs', 'request-id', 'theirs'],
    ...['content-type', 'application/json', 'cookie', 'a=1', 'cookie', 'b=2', 'authorization', 'Bearer k'],
  ];
  t.same(requestHeaders({ ...input, headers }), [
    ...['x-kept', '3', 'content-type', 'application/json', 'cookie', 'a=1', 'cookie', 'b=2'],
    ...['authorization', 'Bearer k', 'accept-encoding', 'identity', 'x-request-id', 'id'],
  ]);
});

t.test('whole answers may be compressed, streams may not', async (t) => {
  const headers = ['accept-encoding', 'gzip, br'];
  t.same(requestHeaders({ ...input, headers }), ['accept-encoding', 'gzip, br', 'x-request-id', 'id']);
  t.same(requestHeaders({ ...input, headers, readable: true }), ['accept-encoding', 'identity', 'x-request-id', 'id']);
});

t.test("the client's key travels as a bearer token, the gateway's own replaces it", async (t) => {
  const sent = requestHeaders({ ...input, headers: ['x-api-key', 'k'], bearer: 'k' });
  t.same(sent, ['x-api-key', 'k', 'accept-encoding', 'identity', 'authorization', 'Bearer k', 'x-request-id', 'id']);
  t.same(withCredential(sent, 'own'), [
    ...['accept-encoding', 'identity', 'x-request-id', 'id', 'authorization', 'Bearer own'],
  ]);
});

t.test('answers keep repeated fields and lose hop-by-hop ones', async (t) => {
  const head = responseHead(200, [
    ...['set-cookie', 'a=1', 'set-cookie', 'b=2; Path=/', 'content-type', 'Text/Event-Stream; charset=UTF-8'],
    ...['connection', 'X-Hop, keep-alive', 'connection', 'X-Hop-2', 'connection', 'close', 'x-hop', '1'],
    ...['x-hop-2', '2', 'keep-alive', 'timeout=5', 'transfer-encoding', 'chunked', 'trailer', 'x', 'date', 'now'],
    ...['x-request-id', 'crn', 'access-control-allow-origin', 'https://crn', 'x-kept', 'caf\xe9'],
  ]);
  t.same(head.headers, [
    ...['set-cookie', 'a=1', 'set-cookie', 'b=2; Path=/', 'content-type', 'Text/Event-Stream; charset=UTF-8'],
    ...['x-kept', 'caf\xe9'],
  ]);
  t.match(head, { status: 200, contentLength: -1, contentType: 'text/event-stream; charset=utf-8', encoded: false });
});

t.test('the length is kept apart, and so is whether the body is encoded', async (t) => {
  t.match(responseHead(200, ['content-length', '12', 'content-encoding', 'GZIP', 'connection', 'Close']), {
    headers: ['content-encoding', 'GZIP'],
    contentLength: 12,
    encoded: true,
  });
  t.match(responseHead(200, ['content-encoding', 'identity']), { encoded: false });
});
