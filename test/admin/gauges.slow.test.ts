// The numbers of the admin listener that only a whole gateway has: each is caused, then read.

import t, { type Test } from 'tap';
import { systemClock, systemEpochMs } from '../../src/actor/index.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { EngineCells } from '../../src/search/engine-board.ts';
import { Gauges } from '../../src/admin/gauges.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { BlockIndex, createBlockIndexMemory, MIN_INDEX_BYTES } from '../../src/routing/block-index.ts';
import type { Host } from '../../src/host/index.ts';
import { EngineBoard } from '../../src/search/index.ts';
import { metricsText } from '../../src/telemetry/exposition.ts';
import { chat, MODEL, readStream, settingsFor, startHosts, until } from '../support/system.ts';
import { startServe } from '../support/system-cli.ts';

type Series = ReadonlyMap<string, number>;

function seriesOf(text: string): Series {
  const lines = text.split('\n').filter((line) => /^\w/.test(line));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]));
}

interface Running {
  readonly url: string;
  readonly hosts: readonly Host[];
  readonly reload: (hosts: readonly Host[]) => void;
  readonly series: () => Promise<Series>;
}

async function start(t: Test, hostCount: number, settings: SettingsInput = {}): Promise<Running> {
  const hosts = await startHosts(
    t,
    Array.from({ length: hostCount }, () => ({})),
  );
  const gateway = createGateway(settingsFor(hosts, { admin: '127.0.0.1:0', ...settings }));
  t.teardown(() => gateway.close());
  const { url, adminUrl } = await gateway.listen();
  await gateway.ready();
  const series = async (): Promise<Series> => seriesOf(await (await fetch(`${adminUrl}/metrics`)).text());
  const reload = (left: readonly Host[]): void => {
    gateway.reload(settingsFor(left, { admin: '127.0.0.1:0', ...settings }));
  };
  return { url, hosts, reload, series };
}

t.test('a CRN has one standing of four, and loses its series with its place in the settings', async (t) => {
  const { hosts, reload, series } = await start(t, 2, { health: { interval: '20ms', timeout: '1s', fall: 1 } });
  const standing = (host: Host | undefined, word: string): string =>
    `headrace_crn_standing{crn="${host?.url}",model="${MODEL}",standing="${word}"}`;
  const before = await series();
  for (const host of hosts) {
    t.equal(before.get(standing(host, 'up')), 1);
    for (const word of ['down', 'probing', 'capable']) t.equal(before.get(standing(host, word)), 0);
  }
  await hosts[1]?.kill();
  await until('down', async () => (await series()).get(standing(hosts[1], 'down')) === 1);
  const after = await series();
  t.equal(after.get(standing(hosts[1], 'up')), 0);
  t.equal(after.get(standing(hosts[0], 'up')), 1);
  reload(hosts.slice(0, 1));
  await until('gone', async () => !(await series()).has(standing(hosts[1], 'down')));
  t.equal((await series()).get(standing(hosts[0], 'up')), 1);
});

t.test('a request in flight shows at its CRN', async (t) => {
  const { url, hosts, series } = await start(t, 1);
  const inFlight = `headrace_crn_in_flight{crn="${hosts[0]?.url}"}`;
  t.equal((await series()).get(inFlight), 0);
  const leave = new AbortController();
  const gone = chat(url, { headers: { 'x-headrace-fault': 'hang' }, signal: leave.signal }).catch(() => 'gone');
  await until('in flight', async () => (await series()).get(inFlight) === 1);
  leave.abort();
  await gone;
  await until('gone', async () => (await series()).get(inFlight) === 0);
});

t.test('a failed try is followed by one on the next CRN; enough of them eject a CRN', async (t) => {
  const { url, hosts, series } = await start(t, 2, { ejection: { consecutive: 1 }, routing: { affinity: false } });
  await hosts[0]?.setFault([{ fault: { status: 500 } }]);
  const ejections = `headrace_crn_ejections_total{crn="${hosts[0]?.url}",failure="status 500"}`;
  await until('ejected', async () => {
    t.equal((await chat(url)).status, 200);
    return (await series()).get(ejections) === 1;
  });
  const after = await series();
  t.ok((after.get(`headrace_failovers_total{model="${MODEL}",cause="status 500"}`) ?? 0) >= 1);
  t.ok((after.get(`headrace_crn_first_byte_seconds{crn="${hosts[1]?.url}",model="${MODEL}"}`) ?? 0) > 0);
});

t.test('a request given up for lack of retry budget is counted', async (t) => {
  const { url, hosts, series } = await start(t, 2, {
    routing: { retryBudget: 0.5, retryBurst: 1 },
    ejection: { consecutive: 100, minRequests: 100 },
  });
  for (const host of hosts) await host.setFault([{ fault: { status: 500 } }]);
  const left = `headrace_retry_budget{model="${MODEL}"}`;
  const refused = `headrace_retry_budget_exhausted_total{model="${MODEL}"}`;
  // The first one finds a full budget and runs out of CRNs, which is no lack of budget; the second finds half a retry.
  t.equal((await chat(url)).status, 503);
  const first = await series();
  t.equal(first.get(left), 0);
  t.equal(first.get(refused), 0);
  t.equal((await chat(url)).status, 503);
  const second = await series();
  t.equal(second.get(left), 0.5);
  t.equal(second.get(refused), 1);
});

t.test('a stream shows while it lives, and leaves its times', async (t) => {
  const { url, series } = await start(t, 1);
  const leave = new AbortController();
  const stalled = await chat(url, {
    stream: true,
    headers: { 'x-headrace-fault': 'stall-after=3' },
    signal: leave.signal,
  });
  const reader = stalled.body?.getReader();
  await reader?.read();
  await until('streaming', async () => (await series()).get('headrace_streams_in_flight') === 1);
  leave.abort();
  await until('ended', async () => (await series()).get('headrace_streams_in_flight') === 0);
  await readStream(await chat(url, { stream: true, tokens: 16 }));
  await (await chat(url)).text();
  const after = await series();
  const labels = `endpoint="/v1/chat/completions",model="${MODEL}"`;
  t.equal(after.get(`headrace_stream_first_byte_seconds_count{${labels}}`), 2, 'of streams only');
  t.ok((after.get(`headrace_stream_gap_seconds_count{model="${MODEL}"}`) ?? 0) >= 1);
  t.equal(after.get('headrace_streams_in_flight'), 0);
});

t.test('a stream that breaks keeps its status and has a code', async (t) => {
  const { url, series } = await start(t, 1);
  const broken = await readStream(await chat(url, { stream: true, headers: { 'x-headrace-fault': 'reset-after=3' } }));
  t.not(broken.error, undefined);
  const labels = `endpoint="/v1/chat/completions",model="${MODEL}",status="200",code="HR_STREAM_BROKEN"`;
  await until('counted', async () => (await series()).get(`headrace_requests_total{${labels}}`) === 1);
});

t.test('every thread shows its event loop and its actors', async (t) => {
  const hosts = await startHosts(t);
  const { adminUrl } = await startServe(t, hosts, { threads: 2 });
  const series = seriesOf(await (await fetch(`${adminUrl}/metrics`)).text());
  for (const thread of ['0', '1', '2']) {
    for (const percentile of ['50', '99', '100']) {
      t.ok(series.has(`headrace_event_loop_delay_seconds{thread="${thread}",percentile="${percentile}"}`));
    }
    t.ok((series.get(`headrace_thread_heap_bytes{thread="${thread}"}`) ?? 0) > 0);
    t.ok(series.has(`headrace_dead_letters_total{thread="${thread}"}`));
  }
  for (const actor of ['crns', 'pages', 'thread-1', 'thread-2']) {
    t.equal(series.get(`headrace_mailbox_depth{thread="0",actor="${actor}"}`), 0, actor);
  }
  // The reading itself was a message, and has been taken.
  t.equal(series.get('headrace_mailbox_depth{thread="1",actor="ingress"}'), 0);
  t.ok((series.get('process_resident_memory_bytes') ?? 0) > 0);
});

const ASKER = { account: 'acme', query: 'rivers' };

t.test('an engine is suspended until its time has come', async (t) => {
  const engines = new EngineCells();
  const board = new EngineBoard(engines.memory);
  const gauges = new Gauges(engines, systemClock, systemEpochMs);
  const blockIndex = new BlockIndex(createBlockIndexMemory(MIN_INDEX_BYTES, 1));
  const cells = engines.of(['engine_gone', 'engine_a', 'engine_b', 'engine_c']);
  const nowMs = performance.timeOrigin + performance.now();
  for (const id of ['engine_c', 'engine_gone']) board.fail(cells[id] ?? 0, 0n, 'quota', nowMs, ASKER);
  board.fail(cells['engine_b'] ?? 0, 0n, 'quota', nowMs - 86_400_000, ASKER);
  const series = seriesOf(metricsText([gauges.snapshot([], ['engine_a', 'engine_b', 'engine_c'], blockIndex, [])]));
  t.equal(series.get('headrace_search_engine_suspended{engine="engine_a"}'), 0);
  t.equal(series.get('headrace_search_engine_suspended{engine="engine_b"}'), 0, 'a trial is due');
  t.equal(series.get('headrace_search_engine_suspended{engine="engine_c"}'), 1);
  t.notOk(series.has('headrace_search_engine_suspended{engine="engine_gone"}'));
});

t.test('caches are shown as routing judges them; what is not known is absent', async (t) => {
  const blockIndex = new BlockIndex(createBlockIndexMemory(MIN_INDEX_BYTES, 1));
  const cache = { model: 'm', capacityBytes: 1024, backlogBytes: 512, hitFactor: 0.5, bytesPerToken: 3.5 };
  const caches = [
    { ...cache, crn: 'http://a', bytesPerS: 2000 },
    { ...cache, crn: 'http://b', bytesPerS: null },
  ];
  const series = seriesOf(
    metricsText([new Gauges(new EngineCells(), systemClock, systemEpochMs).snapshot([], [], blockIndex, caches)]),
  );
  t.equal(series.get('headrace_locality_capacity_bytes{crn="http://a",model="m"}'), 1024);
  t.equal(series.get('headrace_locality_backlog_bytes{crn="http://b",model="m"}'), 512);
  t.equal(series.get('headrace_locality_prefill_bytes_per_second{crn="http://a",model="m"}'), 2000);
  t.notOk(series.has('headrace_locality_prefill_bytes_per_second{crn="http://b",model="m"}'));
  t.equal(series.get('headrace_locality_hit_factor{crn="http://a",model="m"}'), 0.5);
  t.equal(series.get('headrace_locality_bytes_per_token{model="m"}'), 3.5);
});

t.test('the memory of the block index is shown by what its entries are worth', async (t) => {
  const blockIndex = new BlockIndex(createBlockIndexMemory(MIN_INDEX_BYTES, 2));
  const hashes = Int32Array.from({ length: 200 }, (_, at) => Math.imul(at + 1, 0x9e3779b1));
  blockIndex.enter(0, hashes, 100);
  blockIndex.enter(1, hashes, 60);
  blockIndex.clear(1);
  const series = seriesOf(
    metricsText([new Gauges(new EngineCells(), systemClock, systemEpochMs).snapshot([], [], blockIndex, [])]),
  );
  t.equal(series.get('headrace_locality_index_bytes{state="held"}'), 800);
  t.equal(series.get('headrace_locality_index_bytes{state="stale"}'), 480);
  t.equal(series.get('headrace_locality_index_bytes{state="free"}'), MIN_INDEX_BYTES - 1280);
});
