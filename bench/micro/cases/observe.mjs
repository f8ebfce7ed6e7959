// Cases of what the access log and traces add to a request: the observer of a data plane at both ends of one.

const EXCHANGE = {
  requestId: '0192f0c1-3c5f-7b3a-9d55-0f2f3ad1a001',
  endpoint: '/v1/chat/completions',
  method: 'POST',
  path: '/v1/chat/completions',
  model: 'atlas-27b',
  alias: '',
  errorCode: '',
  tool: '',
  bytesIn: 1000,
  bytesOut: 601,
  receivedMs: 1000,
  firstPieceMs: 1010,
  heldMs: 0,
  crn: 'http://10.0.0.1:8000',
  attempts: 1,
  translation: '',
  predictedHit: 0.5,
  tokens: { promptTokens: 250, cachedTokens: 128, completionTokens: 60, saysCached: true, measured: true },
  aborted: false,
  account: 'team',
  cost: 0,
  settlement: null,
  header: () => undefined,
};

// No collector listens there: spans queue until the queue is full, then they are dropped.
const endpoint = 'http://127.0.0.1:9/v1/traces';
const SETTINGS = {
  'all off': {},
  'errors are logged, a good request': { log: { requests: 'errors' } },
  'all are logged': { log: { requests: 'all' } },
  'a hundredth is logged': { log: { requests: 'all', sample: 0.01 } },
  'a trace that is not sampled': { telemetry: { otlp: { endpoint, sample: 0 } } },
  'a trace': { telemetry: { otlp: { endpoint } } },
};

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { systemClock } = await load('src/actor/index.js');
  const { resolveSettings } = await load('src/config/load.js');
  const { endSpan, Observer } = await load('src/gateway/observer.js');
  const observed = (settings) => {
    const observer = new Observer({
      clock: systemClock,
      random: Math.random,
      thread: 0,
      epochMs: () => performance.timeOrigin + performance.now(),
      write: () => undefined,
    });
    observer.configure(resolveSettings(settings).settings);
    const exchange = { ...EXCHANGE, span: null };
    return () => {
      exchange.span = null;
      observer.begin(exchange);
      if (observer.active) observer.log(exchange, 200, 42);
      if (exchange.span !== null) endSpan(exchange, exchange.span, 200);
    };
  };
  return Object.fromEntries(
    Object.entries(SETTINGS).map(([name, settings]) => [`observe: ${name}`, observed(settings)]),
  );
}
