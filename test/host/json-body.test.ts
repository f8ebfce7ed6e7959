import t from 'tap';
import { readJsonBody } from '../../src/host/json-body.ts';
import { startHost } from './llama/ask.ts';

const deep = (levels: number): string => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;

t.test('a body that is no object of JSON is refused with what is wrong, in the shape of its path', async (t) => {
  const host = await startHost(t);
  const cases: [string | Buffer, object, string][] = [
    ['', { loc: ['body'], type: 'missing' }, 'body: Field required'],
    ['{"prompt":', { loc: ['body', 10], type: 'json_invalid' }, 'body.10: JSON decode error'],
    ['[1]', { loc: ['body'], type: 'model_attributes_type' }, 'body: Input should be a valid dictionary'],
    [Buffer.from('{"a":"\xff"}', 'latin1'), { loc: ['body'], type: 'json_invalid' }, 'JSON should be UTF-8'],
    [deep(257), { loc: ['body', 260], type: 'json_invalid' }, 'JSON should be nested at most 256 levels deep'],
  ];
  for (const [body, entry, message] of cases) {
    for (const path of ['/completion', '/v1/chat/completions', '/v1/messages', '/tokenize']) {
      const response = await fetch(host.url + path, { method: 'POST', body });
      const { detail, error } = (await response.json()) as { detail: object[]; error: { message: string } };
      t.equal(response.status, 422);
      t.match(detail, [entry]);
      t.same(Object.keys(detail[0] ?? {}), ['loc', 'msg', 'type']);
      t.ok(error.message.includes(message), error.message);
    }
  }
});

t.test('the deepest object that may be is read', (t) => {
  t.match(readJsonBody(Buffer.from(deep(256))), { value: Object });
  t.end();
});
