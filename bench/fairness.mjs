// Small chats of one account while another sends the heaviest requests it can, over and over: how long the chats take, and how both end.
//
//   node bench/fairness.mjs [--seconds N] [--only NAME] [--at ONCE] [--cli FILE] [--profile FOLDER] [--json]
//                                                                                   default 4 s a kind, 50 requests at once
//
// The gateway has one thread and runs alone on core 0. The client of the heavy requests and their model server have a thread each, and so
// has the model server of the chats, beside the client of these: what they wait for is the gateway, and the core that all these share. `--cli` measures another build by its `bin/headrace.js`, for a figure before and after;
// `--profile` writes CPU profiles of the gateway.

import { Agent, createServer, request } from 'node:http';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { startGateway } from './lib/gateway.mjs';
import { stopChild } from './lib/process.mjs';
import { quantile } from './lib/statistics.mjs';

const CHAT = '/v1/chat/completions';
const SMALL = JSON.stringify({ model: 'small', messages: [{ role: 'user', content: 'hello' }] });
const PROSE = 'A weir holds the river back in a dry month, and the race runs on. '.repeat(15_000);
/** The model server answers this with `LARGE`, unless it is asked for a short answer before. */
const ASKS_LARGE = 'a large answer';
const SHORT = 'a short answer';
/** The answer to this is the one that is read later. */
const KEPT = 'to be kept';
const LARGE = Buffer.from('A weir holds the river back. '.repeat(128_000));
/** Stands for it in an answer. */
const LARGE_TEXT = '%LARGE%';

const turns = (count) =>
  Array.from({ length: count }, (_, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: 'hello' }));
const post = (path, body) => ({ method: 'POST', path, body: JSON.stringify(body) });

/** Requests by kind. `chat` is served in its own dialect, `plain` by a server of chat completions alone. */
const KINDS = {
  'no other requests': null,
  'chats of 1 MB': post(CHAT, { model: 'chat', messages: [{ role: 'user', content: PROSE }] }),
  '100,000 messages': post(CHAT, { model: 'chat', messages: turns(100_000) }),
  '50,000 messages, translated': post('/v1/messages', { model: 'plain', max_tokens: 5, messages: turns(50_000) }),
  '50,000 items, translated': post('/v1/responses', { model: 'plain', store: false, input: turns(50_000) }),
  '100,000 members': post(CHAT, {
    ...{ model: 'chat', messages: [] },
    ...Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`k${at}`, at])),
  }),
  'tokens of 1 MB': post('/v1/messages/count_tokens', {
    model: 'plain',
    messages: [{ role: 'user', content: PROSE }],
  }),
  'answers of 3.7 MB, translated': post('/v1/messages', {
    ...{ model: 'plain', max_tokens: 5, messages: [{ role: 'user', content: ASKS_LARGE }] },
  }),
  'reads of a stored response of 3.7 MB': { method: 'GET', path: '/v1/responses/resp_large' },
  'continuations of it': post('/v1/responses', {
    ...{ model: 'chat', instructions: SHORT, input: 'hello', previous_response_id: 'resp_large' },
  }),
  // Last: their responses take the place of the one that is read above.
  'responses of 3.7 MB': post('/v1/responses', { model: 'chat', input: ASKS_LARGE }),
  'responses of 3.7 MB, translated': post('/v1/responses', { model: 'plain', input: ASKS_LARGE }),
};

/** Answers whatever it is asked, in the dialect of the path. */
function serveModels() {
  const usage = { input_tokens: 1, output_tokens: 1, prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  let answers = 0;
  const answerOf = (path, text, isKept) => {
    const id = isKept ? 'resp_large' : `resp_${answers++}`;
    const content = [{ type: 'output_text', text, annotations: [] }];
    const output = [{ type: 'message', id: `msg_${id}`, role: 'assistant', status: 'completed', content }];
    const choices = [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }];
    const common = { id, created: 1, created_at: 1, model: 'm', usage };
    return path.endsWith('/responses')
      ? { ...common, object: 'response', status: 'completed', output }
      : { ...common, object: 'chat.completion', choices };
  };
  const server = createServer((incoming, outgoing) => {
    let start = '';
    incoming.on('data', (bytes) => {
      if (start.length < 1000) start += bytes.toString('latin1', 0, 1000);
    });
    incoming.on('end', () => {
      outgoing.writeHead(200, { 'content-type': 'application/json' });
      const text = start.includes(ASKS_LARGE) && !start.includes(SHORT) ? LARGE_TEXT : 'hello';
      const answer = answerOf(incoming.url, text, text === LARGE_TEXT && start.includes(KEPT));
      const [before, after] = (incoming.method === 'GET' ? '{}' : JSON.stringify(answer)).split(LARGE_TEXT);
      outgoing.end(after === undefined ? before : Buffer.concat([Buffer.from(before), LARGE, Buffer.from(after)]));
    });
  }).listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
}

/** Sends requests of an account on kept connections; resolves with the status, or the code of the error, and the milliseconds. */
function client(port, account) {
  const agent = new Agent({ keepAlive: true });
  return ({ method, path, body = '' }) =>
    new Promise((resolve) => {
      const startMs = performance.now();
      const over = (status) => resolve({ status, ms: performance.now() - startMs });
      const headers = { authorization: `Bearer hr_${account}`, 'content-length': Buffer.byteLength(body) };
      if (body !== '') headers['content-type'] = 'application/json';
      const outgoing = request({ host: '127.0.0.1', port, method, path, headers, agent }, (incoming) => {
        incoming.on('end', () => over(incoming.statusCode)).on('error', (error) => over(error.code));
        incoming.resume();
      });
      outgoing.on('error', (error) => over(error.code)).end(body);
    });
}

/** Sends one kind at a time until it is told to stop. */
function sendHeavy() {
  const send = client(workerData.port, 'heavy');
  let sends = false;
  let lanes = [];
  let statuses = {};
  parentPort.on('message', ({ kind, at }) => {
    if (kind !== null) {
      sends = true;
      statuses = {};
      lanes = Array.from({ length: at }, async () => {
        while (sends) {
          const { status } = await send(KINDS[kind]);
          statuses[status] = (statuses[status] ?? 0) + 1;
        }
      });
      return;
    }
    sends = false;
    void Promise.all(lanes).then(() => parentPort.postMessage(statuses));
  });
}

const next = (worker) => new Promise((resolve) => void worker.once('message', resolve));
const worker = (data) => new Worker(new URL(import.meta.url), { workerData: data });

async function measure() {
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string', default: '4' },
      only: { type: 'string', default: '' },
      at: { type: 'string', default: '50' },
      cli: { type: 'string' },
      profile: { type: 'string' },
      json: { type: 'boolean', default: false },
    },
  });
  const models = [worker({ role: 'models' }), worker({ role: 'models' })];
  const [smallUrl, url] = (await Promise.all(models.map(next))).map((port) => `http://127.0.0.1:${port}`);
  const settings = {
    models: {
      small: { servers: [{ url: smallUrl, dialects: ['chat'] }] },
      chat: { servers: [{ url, dialects: ['chat', 'responses'] }] },
      plain: { servers: [{ url, dialects: ['chat'] }] },
    },
    keys: { required: true, static: ['heavy', 'other'].map((account) => ({ key: `hr_${account}`, account })) },
    log: { level: 'fatal' },
  };
  const { child, port } = await startGateway(settings, {
    ...(values.cli !== undefined && { cli: values.cli }),
    profileDir: values.profile,
  });
  const heavy = worker({ role: 'heavy', port });
  const send = client(port, 'other');
  const small = () => send({ method: 'POST', path: CHAT, body: SMALL });
  for (let at = 0; at < 200; at++) await small();
  await client(port, 'heavy')(post('/v1/responses', { model: 'chat', input: `${ASKS_LARGE} ${KEPT}` }));
  const rows = [];
  for (const kind of Object.keys(KINDS).filter((name) => name.includes(values.only))) {
    if (KINDS[kind] !== null) heavy.postMessage({ kind, at: Number(values.at) });
    const endMs = performance.now() + Number(values.seconds) * 1000;
    const times = [];
    const statuses = {};
    while (performance.now() < endMs) {
      const { ms, status } = await small();
      times.push(ms);
      statuses[status] = (statuses[status] ?? 0) + 1;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    heavy.postMessage({ kind: null });
    const others = await next(heavy);
    times.sort((one, other) => one - other);
    rows.push({
      ...{ kind, chats: statuses, heavy: others },
      ...{ p50: quantile(times, 0.5), p95: quantile(times, 0.95), max: times.at(-1) },
    });
    if (!values.json) print(rows.at(-1));
  }
  if (values.json) console.log(JSON.stringify({ node: process.version, rows }, null, 2));
  await Promise.all([...models.map((one) => one.terminate()), heavy.terminate(), stopChild(child)]);
  process.exit();
}

function print({ chats, heavy, kind, max, p50, p95 }) {
  const ms = (value) => value.toFixed(0).padStart(6);
  const words = (statuses) => JSON.stringify(statuses);
  console.log(
    `${kind.padEnd(37)} p50${ms(p50)}  p95${ms(p95)}  max${ms(max)} ms  chats ${words(chats)}  heavy ${words(heavy)}`,
  );
}

await (isMainThread ? measure() : workerData.role === 'models' ? serveModels() : sendHeavy());
