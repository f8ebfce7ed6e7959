// Micro benchmark of observability: what request logs, traces and gap metrics add to a request. Times the observer of a data
// plane at both ends of a request, and one gap between pieces of a stream. Run after a build: node bench/micro/observe.mjs.
import { systemClock } from '../../dist/src/actor/index.js';
import { resolveSettings } from '../../dist/src/config/load.js';
import { Observer } from '../../dist/src/gateway/observer.js';
import { Metrics } from '../../dist/src/telemetry/metrics.js';
import { medianNs } from './median.mjs';

const exchange = {
  requestId: '0192f0c1-3c5f-7b3a-9d55-0f2f3ad1a001',
  endpoint: '/v1/chat/completions',
  method: 'POST',
  path: '/v1/chat/completions',
  model: 'atlas-27b',
  status: 200,
  errorCode: '',
  bytesIn: 1000,
  bytesOut: 601,
  receivedMs: 1000,
  firstPieceMs: 1010,
  crn: 'http://10.0.0.1:8000',
  attempts: 1,
  aborted: false,
  account: 'team',
  span: null,
  header: () => undefined,
};

// No collector listens there: spans queue until the queue is full, then they are dropped.
const endpoint = 'http://127.0.0.1:9/v1/traces';
const CASES = {
  'all off': {},
  'log errors, a good request': { log: { requests: 'errors' } },
  'log all': { log: { requests: 'all' } },
  'log all, a sample of 1 %': { log: { requests: 'all', sample: 0.01 } },
  'trace, not sampled': { telemetry: { otlp: { endpoint, sample: 0 } } },
  'trace, sampled': { telemetry: { otlp: { endpoint } } },
};

for (const [name, settings] of Object.entries(CASES)) {
  const observer = new Observer({
    clock: systemClock,
    random: Math.random,
    thread: 0,
    epochMs: () => performance.timeOrigin + performance.now(),
    write: () => undefined,
  });
  observer.configure(resolveSettings(settings).settings);
  const ns = medianNs(() => {
    exchange.span = null;
    observer.begin(exchange);
    observer.closed(exchange, 200, 42);
  });
  console.log(`${name} | ${ns.toFixed(0)} ns per request`);
  observer.close();
}

const gaps = new Metrics().of('/v1/chat/completions', 'atlas-27b').gaps;
let lastMs = systemClock.now();
const ns = medianNs(() => {
  const nowMs = systemClock.now();
  gaps.observe((nowMs - lastMs) / 1000);
  lastMs = nowMs;
});
console.log(`a piece of a stream | ${ns.toFixed(0)} ns`);
process.exit(0);
