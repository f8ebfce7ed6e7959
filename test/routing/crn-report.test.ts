// What CRNs say about their process and their KV cache: real formats, and answers that lie or never end.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { BufferedClient } from '../../src/net/buffered-client.ts';
import {
  NO_REPORT,
  parseMetrics,
  ProcessIdentity,
  readCrnReport,
  slotTokens,
  sumOfSlots,
} from '../../src/routing/crn-report.ts';

interface Tap {
  teardown(run: () => unknown): unknown;
}

type Answers = Readonly<Record<string, string | ((response: ServerResponse, request: IncomingMessage) => void)>>;

/** A CRN that answers these paths, and 404 to others; resolves with its URL and the paths that it was asked for. */
async function serve(t: Tap, answers: Answers): Promise<{ url: string; asked: string[]; client: BufferedClient }> {
  const asked: string[] = [];
  const client = new BufferedClient(2);
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    const answer = answers[request.url ?? ''];
    if (typeof answer === 'function') answer(response, request);
    else response.writeHead(answer === undefined ? 404 : 200).end(answer ?? '{"error":"no"}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    client.close();
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, client };
}

const VLLM = `# HELP python_info Python platform information
# TYPE python_info gauge
python_info{implementation="CPython",major="3"} 1.0
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.76380123442e+09
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 81234.0
vllm:prompt_tokens_total{engine="1",model_name="m"} 100.0
# TYPE vllm:prompt_tokens_total_created gauge
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.7e+09
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",mamba_block_size="None",num_gpu_blocks="27436",num_gpu_blocks_override="None"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="1",mamba_block_size="None",num_gpu_blocks="1000",num_gpu_blocks_override="None"} 1.0
`;

t.test('vLLM: start, counters, and the blocks of all engines', async (t) => {
  t.same(parseMetrics(VLLM), {
    startedS: 1_763_801_234.42,
    promptTokens: 81_334,
    cacheTokens: (27_436 + 1000) * 16,
    keepsPrefixes: true,
  });
  t.equal(parseMetrics(VLLM.replace('caching="True"', 'caching="False"')).keepsPrefixes, false);
  t.equal(parseMetrics(VLLM.replaceAll(/num_gpu_blocks="\d+"/g, 'num_gpu_blocks="None"')).cacheTokens, null);
  t.equal(parseMetrics(VLLM.replaceAll('\n', '\r\n')).cacheTokens, (27_436 + 1000) * 16, 'CRLF');
  t.equal(parseMetrics(VLLM.trimEnd()).cacheTokens, (27_436 + 1000) * 16, 'no last line end');
});

t.test('SGLang, llama-server and a model host', async (t) => {
  const sglang = `sglang:max_total_num_tokens{model_name="a}b",tp_rank="0"} 471258.0\nsglang:prompt_tokens_total{model_name="m"} 8.128902e+06 1763801234000\n`;
  t.same(parseMetrics(sglang), { ...NO_REPORT, cacheTokens: 471_258, promptTokens: 8_128_902 });
  t.same(parseMetrics('llamacpp:prompt_tokens_total 12\n'), { ...NO_REPORT, promptTokens: 12 });
  t.same(parseMetrics('headrace_host_cache_tokens 16384\n'), { ...NO_REPORT, cacheTokens: 16_384 });
});

t.test('what makes no sense counts as not given', async (t) => {
  for (const text of [
    '',
    '\n\n\n',
    '<html>vllm:cache_config_info{num_gpu_blocks="1000",block_size="16"} 1</html>',
    'vllm:cache_config_info',
    'vllm:cache_config_info{',
    'vllm:cache_config_info{num_gpu_blocks="-5",block_size="16"} 1',
    'vllm:cache_config_info{num_gpu_blocks="1e300",block_size="16"} 1',
    'vllm:cache_config_info{num_gpu_blocks="99999999999",block_size="16"} 1',
    'vllm:cache_config_infos{num_gpu_blocks="1000",block_size="16"} 1',
    'sglang:max_total_num_tokens NaN',
    'sglang:max_total_num_tokens -7',
    'sglang:max_total_num_tokens +Inf',
    'sglang:max_total_num_tokens 1e30',
    'process_start_time_seconds',
    'process_start_time_seconds soon',
    `sglang:max_total_num_tokens{a="${'"'.repeat(1000)}`,
  ])
    t.same(parseMetrics(text), NO_REPORT, text.slice(0, 60));
});

t.test('/props and /slots of llama-server', async (t) => {
  t.equal(slotTokens({ total_slots: 4, default_generation_settings: { n_ctx: 8192 } }), 32_768);
  for (const props of [
    null,
    7,
    {},
    { total_slots: 4 },
    { total_slots: '4', default_generation_settings: { n_ctx: 1 } },
  ])
    t.equal(slotTokens(props), null);
  t.equal(slotTokens({ total_slots: -4, default_generation_settings: { n_ctx: 8192 } }), null);
  t.equal(slotTokens({ total_slots: 1e9, default_generation_settings: { n_ctx: 1e9 } }), null);
  t.equal(
    sumOfSlots([
      { id: 0, n_ctx: 4096 },
      { id: 1, n_ctx: 4096 },
    ]),
    8192,
  );
  for (const slots of [null, {}, [null], [{}], [{ n_ctx: 'many' }], [{ n_ctx: -1 }], []])
    t.equal(sumOfSlots(slots), null);
});

t.test('a CRN is asked for no more than it takes', async (t) => {
  const vllm = await serve(t, { '/metrics': VLLM });
  t.match(await readCrnReport(vllm.client, vllm.url, undefined, 5000), { cacheTokens: 454_976 });
  t.same(vllm.asked, ['/metrics']);
  const props = await serve(t, {
    '/props': (response, { headers }) => {
      const isKnown = headers.authorization === 'Bearer secret';
      response.writeHead(isKnown ? 200 : 401).end('{"total_slots":2,"default_generation_settings":{"n_ctx":1000}}');
    },
  });
  t.match(await readCrnReport(props.client, props.url, 'secret', 5000), { cacheTokens: 2000 });
  t.same(props.asked, ['/metrics', '/props']);
  const slots = await serve(t, { '/slots': '[{"n_ctx":500},{"n_ctx":500}]' });
  t.match(await readCrnReport(slots.client, slots.url, undefined, 5000), { cacheTokens: 1000 });
  t.same(slots.asked, ['/metrics', '/props', '/slots']);
});

t.test('an answer that is late, endless or broken is none', async (t) => {
  const endless = (response: ServerResponse): void => {
    const more = (): void => {
      while (!response.destroyed && response.write('x'.repeat(65_536)));
      if (!response.destroyed) response.once('drain', more);
    };
    more();
  };
  const hostile = await serve(t, {
    '/metrics': endless,
    '/props': (response) => response.destroy(),
    '/slots': '[[[[',
  });
  t.same(await readCrnReport(hostile.client, hostile.url, undefined, 5000), NO_REPORT);
  const silent = await serve(t, { '/metrics': () => undefined, '/props': () => undefined, '/slots': () => undefined });
  t.same(await readCrnReport(silent.client, silent.url, undefined, 20), NO_REPORT);
});

t.test('another identity is a restart, unless several processes answer in turn', async (t) => {
  const one = new ProcessIdentity();
  t.equal(one.isKnown, false);
  t.same(
    ['a', 'a', 'b', 'b', 'c'].map((id) => one.isRestart(id, false)),
    [false, false, true, false, true],
  );
  t.equal(one.isKnown, true);
  const several = new ProcessIdentity();
  t.same(
    ['a', 'b', 'a', 'b', 'c', 'd'].map((id) => several.isRestart(id, false)),
    [false, true, false, false, false, false],
  );
});

t.test('ever new identities of a CRN that was never away are none', async (t) => {
  const random = new ProcessIdentity();
  const restarts = Array.from({ length: 1000 }, (_, at) => random.isRestart(`${at}`, false)).filter(Boolean);
  t.equal(restarts.length, 8);
  const unstable = new ProcessIdentity();
  t.equal(Array.from({ length: 20 }, (_, at) => unstable.isRestart(`${at}`, true)).filter(Boolean).length, 19);
});
