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

t.test('memory that is given back is used for the next body, and the one before is made again', (t) => {
  for (const path of ['/v1/messages', '/v1/responses']) {
    const translation = translationOf(dialectOf(path));
    if (translation === undefined) throw new Error(path);
    const list = path === '/v1/messages' ? 'messages' : 'input';
    const bodyOf = (text: string): Buffer =>
      Buffer.from(JSON.stringify({ model: 'm', [list]: [{ role: 'user', content: text }] }));
    const first = translation.request(bodyOf('first'));
    const { body } = first;
    const text = body.toString();
    t.match(text, 'first');
    t.equal(first.body, body, 'it is made once');
    first.giveBack();
    const second = translation.request(bodyOf('second'));
    t.equal(second.body.buffer, body.buffer);
    t.match(second.body.toString(), 'second');
    t.equal(first.body.toString(), text);
    t.not(first.body.buffer, second.body.buffer, 'what was not given back stays');
    t.match(second.body.toString(), 'second');
    first.giveBack();
    first.giveBack();
  }
  t.end();
});
