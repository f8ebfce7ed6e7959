import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { askingForUsage, dialectOf, estimateTokens, scanBody, type ScannedBody } from '../../src/dialect/index.ts';

const CHAT = dialectOf('/v1/chat/completions');

function scanned(text: string): { body: Buffer; scan: ScannedBody } {
  const body = Buffer.from(text);
  const scan = scanBody(body);
  if (!scan.ok) throw new Error(JSON.stringify(scan.errors));
  return { body, scan };
}

const asking = (text: string, path = '/v1/chat/completions'): string | undefined => {
  const { body, scan } = scanned(text);
  return askingForUsage(dialectOf(path), body, scan)?.toString();
};

t.test('a stream of the OpenAI dialects is asked for its counts', async (t) => {
  const wanted = '{"stream_options":{"include_usage":true},"model":"m","stream":true}';
  t.equal(asking('{"model":"m","stream":true}'), wanted);
  t.equal(asking('{"model":"m","stream":true}', '/v1/completions'), wanted);
  t.equal(
    asking('  { "model": "m", "stream": true}'),
    '  {"stream_options":{"include_usage":true}, "model": "m", "stream": true}',
  );
  t.equal(
    asking('{"stream":true,"stream_options":null,"model":"m"}'),
    '{"stream":true,"stream_options":{"include_usage":true},"model":"m"}',
  );
  t.equal(
    asking('{"stream":true,"stream_options":{"x":1,"include_usage":false},"model":"m"}'),
    '{"stream":true,"stream_options":{"x":1,"include_usage":true},"model":"m"}',
  );
});

t.test('what asks already, need not ask or is a mistake stays as it is', async (t) => {
  for (const text of [
    '{"model":"m"}',
    '{"model":"m","stream":false}',
    '{"model":"m","stream":true,"stream_options":{"include_usage":true}}',
    '{"model":"m","stream":true,"stream_options":{"include_usage":"yes"}}',
    '{"model":"m","stream":true,"stream_options":[]}',
    '{"model":"m","stream":true,"stream_options":7}',
  ]) {
    t.equal(asking(text), undefined, text);
  }
  for (const path of ['/v1/messages', '/v1/responses', '/completions', '/v1/embeddings']) {
    t.equal(asking('{"model":"m","stream":true}', path), undefined, path);
  }
});

t.test('whatever the body is, only the option changes', async () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }), (extra) => {
      const { stream_options: _, ...rest } = extra;
      const request = { ...rest, model: 'm', stream: true };
      const { body, scan } = scanned(JSON.stringify(request));
      const asked = askingForUsage(CHAT, body, scan);
      const parsed = JSON.parse(asked?.toString() ?? '') as Record<string, unknown>;
      const { stream_options: added, ...same } = parsed;
      return JSON.stringify(added) === '{"include_usage":true}' && isDeepStrictEqual(same, JSON.parse(body.toString()));
    }),
  );
});

t.test('the size of a request is judged from its conversation and its limits', async (t) => {
  const estimate = (text: string): object => {
    const { body, scan } = scanned(text);
    return estimateTokens(body, scan);
  };
  t.same(estimate('{"model":"m"}'), { promptTokens: 0, maxTokens: undefined, choices: 1, prompts: 1 });
  t.same(estimate('{"model":"m","prompt":"123456","max_tokens":7}'), {
    promptTokens: 2,
    maxTokens: 7,
    choices: 1,
    prompts: 1,
  });
  t.same(estimate('{"model":"m","prompt":[1,2,3],"n_predict":-1}'), {
    promptTokens: 2,
    maxTokens: undefined,
    choices: 1,
    prompts: 1,
  });
  t.same(estimate('{"model":"m","messages":[],"system":"ab","max_completion_tokens":5,"max_tokens":4,"n":3}'), {
    promptTokens: 2,
    maxTokens: 15,
    choices: 3,
    prompts: 1,
  });
  t.same(estimate('{"model":"m","prompt":["abcd","ef"],"max_tokens":5,"n":3}'), {
    promptTokens: 4,
    maxTokens: 30,
    choices: 6,
    prompts: 2,
  });
  t.same(estimate('{"model":"m","max_tokens":"many","n":0}'), {
    promptTokens: 0,
    maxTokens: undefined,
    choices: 1,
    prompts: 1,
  });
});
