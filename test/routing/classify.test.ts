import t from 'tap';
import { failsOver, namesContextLength, verdictOf } from '../../src/routing/classify.ts';

t.test('another CRN may do better on a 5xx and on 429 only', async (t) => {
  for (const status of [500, 501, 502, 503, 504, 529, 599, 429]) t.equal(failsOver(status), true, String(status));
  for (const status of [200, 204, 301, 400, 401, 403, 404, 408, 413, 422, 499]) {
    t.equal(failsOver(status), false, String(status));
  }
});

t.test('a 5xx is a fault, a 4xx says nothing, anything else is well served', async (t) => {
  t.same([200, 204, 304].map(verdictOf), ['ok', 'ok', 'ok']);
  t.same([400, 404, 422, 429].map(verdictOf), ['neutral', 'neutral', 'neutral', 'neutral']);
  t.same([500, 503].map(verdictOf), ['failed', 'failed']);
});

t.test('knows how engines say that a prompt is too long', async (t) => {
  for (const body of [
    '{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}',
    `{"error":{"message":"This model's maximum context length is 4096 tokens"}}`,
    '{"error":{"code":"context_length_exceeded"}}',
    '{"detail":"prompt is longer than MAX_MODEL_LEN"}',
    'input exceeds the Context Window',
  ]) {
    t.equal(namesContextLength(Buffer.from(body)), true, body);
  }
  for (const body of ['', '{"error":{"message":"temperature must be positive"}}', '\xff\xfe']) {
    t.equal(namesContextLength(Buffer.from(body)), false);
  }
});
