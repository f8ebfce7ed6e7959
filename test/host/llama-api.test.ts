import { createManualClock } from '../../src/actor/testkit.ts';
import { createHost } from '../../src/host/index.ts';

import t from 'tap';

const host = createHost({ models: ['m', 'n'], timeToFirstTokenMs: 0, interTokenMs: 0 });
t.before(() => host.listen());
t.teardown(() => host.close());

async function complete(path: string, body: object): Promise<string> {
  const response = await fetch(host.url + path, { method: 'POST', body: JSON.stringify(body) });
  t.equal(response.status, 200);
  return response.text();
}

t.test('a whole answer has the fields of the llama-style result', async (t) => {
  for (const path of ['/completion', '/completions']) {
    const answer = JSON.parse(await complete(path, { prompt: 'hello', n_predict: 4, seed: 9 })) as object;
    t.match(answer, {
      content: /^\S+( \S+){3}$/,
      stop: true,
      model: 'm',
      prompt: 'hello',
      slot_id: 0,
      stopped_eos: false,
      stopped_limit: true,
      stopped_word: false,
      stopping_word: '',
      tokens_predicted: 4,
      tokens_evaluated: 2,
      tokens_cached: 0,
      truncated: false,
      timings: { prompt_n: 2, predicted_n: 4, cache_n: 0 },
      generation_settings: { n_predict: 4, seed: 9, model: 'm', n_ctx: Number },
    });
  }
});

t.test('a stream carries content and stop alone until the final event, and no [DONE]', async (t) => {
  const text = await complete('/completion', { model: 'n', prompt: ['hello', 1, 2], n_predict: 3, stream: true });
  const frames = text.split('\n\n').filter((frame) => frame !== '');
  t.equal(frames.length, 4);
  const data = frames.map((frame) => JSON.parse(frame.slice('data: '.length)) as Record<string, unknown>);
  for (const frame of data.slice(0, 3)) t.same(Object.keys(frame), ['content', 'stop']);
  t.match(data[3], { content: '', stop: true, model: 'n', prompt: ['hello', 1, 2], tokens_predicted: 3 });
});

t.test('a stop word is named and left out', async (t) => {
  const whole = JSON.parse(await complete('/completion', { prompt: 'hello' })) as { content: string };
  t.match(whole, { stopped_eos: true, stopped_limit: false });
  const word = whole.content.split(' ')[2]!;
  const cut = JSON.parse(await complete('/completion', { prompt: 'hello', stop: ['', word] })) as { content: string };
  t.match(cut, { stopped_word: true, stopping_word: word, stopped_eos: false, stopped_limit: false });
  t.notOk(cut.content.includes(word));
});

t.test('timings follow the pace', async (t) => {
  const clock = createManualClock();
  const paced = createHost({ models: ['m'], clock });
  await paced.listen();
  t.teardown(() => paced.kill());
  const response = fetch(`${paced.url}/completion`, {
    method: 'POST',
    headers: { 'x-headrace-sim': 'ttft=2,itl=1,tokens=4' },
    body: '{"prompt":"12345678"}',
  });
  await paced.nextRequest();
  clock.advance(5);
  t.match(await (await response).json(), {
    timings: { prompt_n: 2, prompt_ms: 2, prompt_per_second: 1000, predicted_n: 4, predicted_ms: 3 },
  });
});
