// Cached tokens of simulated hosts: the usage of every dialect, the timings, the metrics and the KV events tell the truth of one
// cache, also after a restart. The same seed gives the same bytes.
import t from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { type Host, createHost } from '../../src/host/index.ts';
import { KvEventSubscription } from '../../src/routing/kv-event-subscription.ts';
import { type Answer, dataOf, get, send, startHost } from './llama/ask.ts';

const ENGINE = { profile: 'vllm-8b-h100', speed: 'virtual' } as const;
const BLOCK = 16;

/** A body with this text and the cached tokens that an answer, or the data of its events, reports. */
const DIALECTS: readonly [path: string, body: (text: string) => object, cached: (answers: Answer[]) => number][] = [
  [
    '/v1/chat/completions',
    (text) => ({ messages: [{ role: 'user', content: text }], max_tokens: 4, stream_options: { include_usage: true } }),
    (answers) => answers.at(-1).usage.prompt_tokens_details.cached_tokens,
  ],
  [
    '/v1/completions',
    (text) => ({ prompt: text, max_tokens: 4, stream_options: { include_usage: true } }),
    (answers) => answers.at(-1).usage.prompt_tokens_details.cached_tokens,
  ],
  [
    '/v1/responses',
    (text) => ({ input: text, max_output_tokens: 4 }),
    (answers) => (answers.at(-1).response ?? answers[0]).usage.input_tokens_details.cached_tokens,
  ],
  [
    '/v1/messages',
    (text) => ({ messages: [{ role: 'user', content: text }], max_tokens: 4 }),
    (answers) => (answers[0].message ?? answers[0]).usage.cache_read_input_tokens,
  ],
  [
    '/completion',
    (text) => ({ prompt: text, n_predict: 4, cache_prompt: true }),
    (answers) => answers.at(-1).tokens_cached,
  ],
];

async function metric(host: Host, name: string): Promise<number> {
  const text = await (await fetch(`${host.url}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)![1]);
}

/** What a request reports as cached, and the truth of the engine. */
async function cachedTokens(host: Host, [path, body, read]: (typeof DIALECTS)[number], text: string, stream: boolean) {
  const response = await send(host, path, { model: 'm', seed: 1, stream, ...body(text) }, { 'x-headrace-truth': '1' });
  const answered = await response.text();
  const truth = response.headers.get('x-headrace-truth') ?? /^: truth (.*)$/m.exec(answered)![1]!;
  const { end } = JSON.parse(truth) as { end: { cachedTokens: number; promptTokens: number } };
  return { reported: read(stream ? dataOf(answered) : [JSON.parse(answered)]), end };
}

t.test('every dialect reports what the cache had, streamed or not', async (t) => {
  const host = await startHost(t, { engine: ENGINE });
  for (const [at, dialect] of DIALECTS.entries()) {
    for (const stream of [false, true]) {
      const text = `${at}${stream} The miller opens the second gate when the water is high. `.repeat(9);
      const name = `${dialect[0]}${stream ? ', streamed' : ''}`;
      const hits = await metric(host, 'vllm:prefix_cache_hits_total');
      const first = await cachedTokens(host, dialect, text, stream);
      t.equal(first.reported, first.end.cachedTokens, name);
      t.ok(first.reported < BLOCK * 2, `${name}: the prompt is new`);
      const second = await cachedTokens(host, dialect, text, stream);
      const whole = Math.floor((second.end.promptTokens - 1) / BLOCK) * BLOCK;
      t.ok(whole > 100);
      t.same(
        [second.reported, second.end.cachedTokens],
        [whole, whole],
        `${name}: whole blocks, without the last token`,
      );
      t.equal(await metric(host, 'vllm:prefix_cache_hits_total'), hits + first.reported + second.reported);
    }
  }
  t.equal(
    await metric(host, 'headrace_host_prompt_tokens_cached_total'),
    await metric(host, 'vllm:prefix_cache_hits_total'),
  );
});

t.test('the size of the cache is what a gateway reads of vLLM', async (t) => {
  const host = await startHost(t, { engine: ENGINE });
  const text = await (await fetch(`${host.url}/metrics`)).text();
  t.match(
    text,
    /^vllm:cache_config_info\{model_name="m",block_size="16",num_gpu_blocks="24576",enable_prefix_caching="True"\} 1$/m,
  );
  t.equal(await metric(host, 'headrace_host_cache_tokens'), 24_576 * BLOCK);
  const slots = await startHost(t);
  t.notMatch(await (await fetch(`${slots.url}/metrics`)).text(), /cache_config_info/);
});

t.test('KV events follow the cache over a restart', async (t) => {
  const host = createHost({
    models: ['m'],
    engine: ENGINE,
    kvEvents: { endpoint: 'tcp://127.0.0.1:*', replay: 'tcp://127.0.0.1:*' },
  });
  t.teardown(() => host.kill());
  const chat = DIALECTS[0]!;
  // More than what nudges the subscription below.
  const earlier = Array.from({ length: 40 }, (_, at) => `${at} ${'The wheel turns the mill. '.repeat(200)}`);
  for (const run of ['first', 'second']) {
    await host.listen();
    // The client learns that its idle connection to the first run is gone.
    await fetch(`${host.url}/health`).catch(() => undefined);
    const first = await cachedTokens(host, chat, 'The wheel turns the mill. '.repeat(20), false);
    t.equal(first.reported, 0, `${run} run: the cache is empty`);
    if (run === 'first') for (const text of earlier) await cachedTokens(host, chat, text, false);
    const { endpoint, replay } = host.kvEvents as { endpoint: string; replay: string };
    let wake = Promise.withResolvers<void>();
    const subscription = new KvEventSubscription(
      { endpoint, replay },
      {
        clock: createManualClock(),
        onApplied: () => wake.resolve(),
        onCleared: () => {},
        onConnection: () => {},
        onRejected: (error) => t.fail(error.message),
        onReplayFailed: (error) => t.fail(error.message),
      },
    );
    let asked = 0;
    while (subscription.counts.events === 0 && asked < 200) {
      await cachedTokens(host, chat, `${asked++} is new. `.repeat(5), false);
      await Promise.race([wake.promise, new Promise((resolve) => void setImmediate(resolve))]);
    }
    wake = Promise.withResolvers();
    const again = await cachedTokens(host, chat, 'The wheel turns the mill. '.repeat(20), false);
    t.ok(again.reported > 100);
    t.equal(subscription.counts.lost, 0, 'the replay begins with the first batch of the run');
    t.ok(subscription.residency.residentTokens >= again.reported);
    const { residentTokens } = subscription.residency;
    if (run === 'first') t.ok(residentTokens > 40_000, `${residentTokens} tokens`);
    else t.ok(residentTokens < 20_000, `no blocks of the first run: ${residentTokens} tokens`);
    subscription.close();
    await host.close();
  }
});

t.test('hosts with the same name and seed answer byte for byte alike', async (t) => {
  const answers = await Promise.all(
    ['a', 'a', 'b'].map(async (name) => {
      const host = await startHost(t, { engine: ENGINE, name, seed: 5 });
      const texts: string[] = [];
      for (const [path, body] of DIALECTS) {
        for (const stream of [false, true, true]) {
          const response = await send(host, path, { model: 'm', stream, ...body(`Say ${texts.length % 4}.`) });
          texts.push(await response.text());
        }
      }
      return { texts, slots: await get(host, '/slots') };
    }),
  );
  t.strictSame(answers[1], answers[0]);
  t.notSame(answers[2]!.texts, answers[0]!.texts, 'another host draws other seeds');
});
