import t from 'tap';
import { dialectOf, translationOf } from '../../../src/dialect/index.ts';

t.test('has no translation for paths without a dialect, and for what chat servers speak themselves', (t) => {
  t.equal(translationOf(undefined), undefined);
  for (const path of ['/v1/chat/completions', '/v1/completions', '/completion']) {
    t.equal(translationOf(dialectOf(path)), undefined, path);
  }
  t.end();
});

t.test('carries responses to chat completions', (t) => {
  for (const path of ['/v1/responses', '/responses']) {
    const translation = translationOf(dialectOf(path));
    t.match(translation, { name: 'responses-chat', from: 'responses', path: '/v1/chat/completions' }, path);
    t.equal(dialectOf('/v1/chat/completions'), translation?.to);
  }
  t.end();
});

t.test('carries messages to chat completions', (t) => {
  const translation = translationOf(dialectOf('/v1/messages'));
  t.match(translation, { name: 'messages-chat', from: 'messages', path: '/v1/chat/completions' });
  const request = translation?.request(Buffer.from('{"model":"m","messages":[]}'));
  t.equal(request?.body.toString(), '{"model":"m","messages":[]}');
  t.ok(request?.answer() !== request?.answer(), 'each answer has a translator of its own');
  t.end();
});
