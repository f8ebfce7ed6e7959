// What an engine says must come through the gateway as it is, and what the gateway adds must keep the caching rules.
import t from 'tap';
import { KEY, MODEL, startSystem } from '../../support/system.ts';
import type { Answer } from './ask.ts';

const ENGINE = { engine: { speed: 'virtual' as const, slots: 4 } };

async function post(url: string, path: string, body: object, cookie = ''): Promise<{ answer: Answer; cookie: string }> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', cookie },
    body: JSON.stringify({ model: MODEL, ...body }),
  });
  t.equal(response.status, 200);
  const [set = ''] = response.headers.getSetCookie();
  return { answer: await response.json(), cookie: set.split(';')[0]! };
}

t.test('a second turn with cache_prompt, the cookie and the slot reports its prefix as cached', async (t) => {
  const { url } = await startSystem(t, { hosts: [ENGINE, ENGINE, ENGINE] });
  const prompt = 'Tell me about the mill. ';
  const options = { cache_prompt: true, n_predict: 12, ignore_eos: true };
  const first = await post(url, '/completions', { ...options, prompt, slot_id: -1 });
  t.equal(first.answer.tokens_cached, 0);
  t.ok(first.cookie);
  const next = { ...options, prompt: `${prompt}${first.answer.content} And then?`, slot_id: first.answer.slot_id };
  const second = await post(url, '/completions', next, first.cookie);
  t.equal(second.answer.slot_id, first.answer.slot_id);
  t.ok(second.answer.tokens_cached >= first.answer.tokens_evaluated - 1);
});

t.test('the same call gives the same answer through the gateway and at the host', async (t) => {
  const { url, host } = await startSystem(t, { hosts: [ENGINE] });
  const messages = [{ role: 'user', content: 'How high is the water?' }];
  const calls: [string, object][] = [
    ['/v1/completions', { prompt: 'x', max_tokens: 8 }],
    ['/v1/chat/completions', { messages, max_tokens: 8 }],
    ['/v1/responses', { input: 'x', max_output_tokens: 8 }],
    ['/v1/messages', { messages, max_tokens: 8 }],
    ['/completions', { prompt: 'x', n_predict: 8 }],
  ];
  for (const [path, body] of calls) {
    const request = { ...body, seed: 1, cache_prompt: false };
    const through = comparable((await post(url, path, request)).answer);
    t.same(comparable((await post(host.url, path, request)).answer), through, path);
  }
});

/** Without ids, slots and times, which differ from one request to the next. */
function comparable(answer: Answer): unknown {
  return JSON.parse(
    JSON.stringify(answer, (name, value: unknown) =>
      name === 'id' || name === 'slot_id' || name === 'id_slot' || name.endsWith('_ms') || name.endsWith('_second')
        ? undefined
        : value,
    ),
  );
}
