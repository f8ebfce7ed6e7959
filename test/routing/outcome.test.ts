// Outcomes: what a status means for failover, which bodies name a context length or an unknown model, and what the reporter sends.
import t from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/clock.ts';
import { Board, createBoardMemory } from '../../src/routing/board.ts';
import type { Member } from '../../src/routing/model-table.ts';
import {
  type Choice,
  classifyBody,
  classifyStatus,
  failureOf,
  modelUnknown,
  pathUnknown,
  namesContextLength,
  type Outcome,
  Reporter,
  verdictOf,
} from '../../src/routing/outcome.ts';

const statuses = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, at) => from + at);

t.test('a client error is passed on and says nothing about the CRN, nor does 501', async (t) => {
  for (const status of [...statuses(402, 407), 409, 410, 413, 415, 422, 423, 424, 431, 451, 499, 501]) {
    if (status === 404 || status === 403) continue;
    t.same([status, classifyStatus(status, true, false), verdictOf(status)], [status, 'pass', 'neutral']);
  }
});

t.test('a success is passed on', async (t) => {
  for (const status of [200, 201, 202, 204, 206]) {
    t.same([classifyStatus(status, true, false), verdictOf(status)], ['pass', 'ok']);
  }
});

t.test('408, 425 and 429 go to the next CRN and say nothing about the health of this one', async (t) => {
  for (const status of [408, 425, 429]) t.equal(classifyStatus(status, false, false), 'next-neutral');
  t.same(
    [408, 425, 429].map((status) => failureOf(status)),
    ['status 408', 'status 425', 'busy'],
  );
});

t.test('every 5xx but 501 goes to the next CRN and counts as a failure', async (t) => {
  for (const status of statuses(500, 599)) {
    if (status === 501) continue;
    t.same([classifyStatus(status, false, false), failureOf(status)], ['next-failed', `status ${status}`]);
  }
});

t.test('a redirect is never passed on and counts as a failure, as does what is no final status', async (t) => {
  for (const status of statuses(300, 399)) {
    t.same([classifyStatus(status, false, false), failureOf(status)], ['next-failed', 'redirect']);
  }
  for (const status of [101, 199, 600, 999]) t.equal(classifyStatus(status, false, false), 'next-failed');
});

t.test(
  "401 and 403 for the gateway's credential are failures, those for a client's own are passed on unless the gateway has checked them",
  async (t) => {
    for (const status of [401, 403]) {
      t.same([classifyStatus(status, true, false), failureOf(status)], ['next-failed', 'credentials']);
      t.same([classifyStatus(status, false, false), verdictOf(status)], ['pass', 'neutral']);
      t.equal(classifyStatus(status, true, true), 'next-failed');
      t.equal(classifyStatus(status, false, true), 'next-neutral', 'a key that the gateway has checked');
    }
  },
);

t.test('the body of a 400 or 404 decides whether another CRN may do better', async (t) => {
  t.same(
    [400, 404].map((status) => classifyStatus(status, true, false)),
    ['read', 'read'],
  );
  const long = Buffer.from('{"error":{"code":"context_length_exceeded"}}');
  const unknown = Buffer.from('{"error":{"code":"model_not_found"}}');
  t.same([classifyBody(400, long), failureOf(400, long)], ['next-neutral', 'context length']);
  t.same([classifyBody(404, unknown), failureOf(404, unknown)], ['next-neutral', 'model unknown']);
  t.same(
    [classifyBody(400, unknown), classifyBody(404, long), classifyBody(404, Buffer.alloc(0))],
    Array(3).fill('pass'),
  );
});

t.test('recognizes the phrases of engines for a prompt that is too long', async (t) => {
  for (const body of [
    '{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}',
    `{"error":{"message":"This model's maximum context length is 4096 tokens"}}`,
    '{"error":{"code":"context_length_exceeded"}}',
    '{"detail":"prompt is longer than MAX_MODEL_LEN"}',
    'input exceeds the Context Window',
  ]) {
    t.equal(namesContextLength(Buffer.from(body)), true, body);
  }
  for (const body of ['', '{"error":{"message":"temperature must be positive"}}', '\xff\xfe']) {
    t.equal(namesContextLength(Buffer.from(body)), false);
  }
});

t.test('recognizes the phrases of engines for a model that they do not have', async (t) => {
  for (const body of [
    // vLLM, before and after its errors got an object of their own; SGLang.
    '{"object":"error","message":"The model `q/Qwen` does not exist.","type":"NotFoundError","param":null,"code":404}',
    '{"error":{"message":"The model `q/Qwen` does not exist.","type":"NotFoundError","param":"model","code":404}}',
    '{"object":"error","message":"Model not found","type":"NotFoundError","code":404}',
    // OpenAI, Groq and others.
    '{"error":{"message":"The model `m` does not exist or you do not have access to it.","code":"model_not_found"}}',
    // Ollama, on its own paths and on those of OpenAI.
    '{"error":"model \'llama3:latest\' not found, try pulling it first"}',
    '{"error":{"message":"model \\"llama3\\" not found, try pulling it first","type":"api_error","code":null}}',
    // llama.cpp with several models.
    '{"error":{"code":404,"message":"model not found","type":"not_found_error"}}',
    '{"error":{"code":404,"message":"model \'m\' is not loaded","type":"not_found_error"}}',
    // LM Studio, TGI, Anthropic, and a gateway like this one.
    '{"error":{"message":"Invalid model identifier","type":"invalid_request_error","code":"model_not_found"}}',
    '{"error":"The model m is not supported","error_type":"model_not_supported"}',
    '{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}',
    '{"detail":"Model \'m\' not found"}',
    '{"detail":"Unknown model m"}',
  ]) {
    t.equal(modelUnknown(Buffer.from(body)), true, body);
  }
  for (const body of [
    '',
    '{"detail":"Not Found"}',
    '{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}',
    '{"error":{"message":"Invalid URL (POST /v1/embedding)","type":"invalid_request_error"}}',
    '404 page not found',
    'Cannot POST /v1/models/x',
    '{"error":{"message":"Response with id \'resp_1\' not found."}}',
    // Words of a client that a CRN repeats.
    '{"error":{"message":"Response with id \'resp_model_not_found\' not found."}}',
    '{"error":{"message":"Response with id \'my model\' not found."}}',
    '{"error":{"message":"Response with id \\"my model\\" not found."}}',
    'Cannot POST /model_not_found',
    '{"detail":"Path /v1/model/x not found"}',
  ]) {
    t.equal(modelUnknown(Buffer.from(body)), false, body);
  }
});

t.test('recognizes how servers and proxies say that they do not know a path, or not for POST', async (t) => {
  for (const [status, body] of [
    // FastAPI: vLLM, SGLang, LMDeploy; vLLM also in its own form.
    [404, '{"detail":"Not Found"}'],
    [405, '{"detail":"Method Not Allowed"}'],
    [404, '{"object":"error","message":"Not Found","type":"Not Found","param":null,"code":404}'],
    [404, '{"error":{"message":"Not Found","type":"Not Found","param":null,"code":404}}'],
    [
      501,
      '{"error":{"message":"The model does not support Chat Completions API","type":"NotImplementedError","code":501}}',
    ],
    // llama-server; Go, Ollama, Traefik; axum, TGI, Envoy.
    [404, '{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'],
    [404, '404 page not found\n'],
    [405, 'Method Not Allowed\n'],
    [404, ''],
    [405, ''],
    // Express, Fastify, Koa, hono, aiohttp, Spring, OpenAI.
    [
      404,
      '<!DOCTYPE html><html><head><title>Error</title></head><body><pre>Cannot POST /v1/messages</pre></body></html>',
    ],
    [404, '{"message":"Route POST:/v1/messages not found","error":"Not Found","statusCode":404}'],
    [404, 'Not Found'],
    [404, '404 Not Found'],
    [404, '404: Not Found'],
    [404, '{"timestamp":"2026-01-01","status":404,"error":"Not Found","path":"/v1/messages"}'],
    [404, '{"error":{"message":"Invalid URL (POST /v1/messages)","type":"invalid_request_error"}}'],
    // nginx, Flask, Python's http.server, Kong, KoboldCpp.
    [
      404,
      '<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center></html>',
    ],
    [405, '<html>\r\n<head><title>405 Not Allowed</title></head>\r\n<body></body></html>'],
    [404, '<title>404 Not Found</title><h1>Not Found</h1><p>The requested URL was not found on the server.</p>'],
    [
      501,
      "<html><head><title>Error response</title></head><body><p>Message: x</p><p>Unsupported method ('POST').</p></body></html>",
    ],
    [404, '{"message":"no Route matched with those values"}'],
    [404, 'Error: KoboldCpp HTTP Server is running, but this endpoint does not exist. Please check the URL.'],
    // `headrace host`, and a gateway like this one.
    [404, '{"error":{"message":"no such path: POST /v1/messages","code":"not_found"}}'],
    [404, '{"error":{"message":"The engine behind this host (llama) does not serve /v1/messages","code":"not_found"}}'],
  ] as const) {
    t.equal(pathUnknown(status, Buffer.from(body)), true, body);
  }
  for (const [status, body] of [
    [400, '{"detail":"Not Found"}'],
    [200, ''],
    [404, '{"error":{"message":"The model `m` does not exist.","type":"NotFoundError","code":404}}'],
    [404, '{"error":"model \'page not found\' not found, try pulling it first"}'],
    [404, '{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}'],
    [404, '{"error":{"message":"Response with id \'resp_1\' not found."}}'],
    [404, '{"error":{"message":"No response found with id resp_path_not_found"}}'],
    [404, '{"detail":"Response with id \'unknown path\' not found."}'],
    [404, '{"error":{"message":"File not found: file-abc"}}'],
    [404, '{"detail":"Conversation conv_1 not found"}'],
    [404, '{"error":{"message":"Previous response not found"}}'],
    [404, '{"error":{"message":"The requested resource was not found"}}'],
    [404, '<title>Error</title><p>No tokenizer is loaded</p>'],
    [501, '{"error":{"message":"image input is not supported","type":"not_supported_error","code":501}}'],
    [501, '{"error":{"message":"This server does not support tools. Start it with `--jinja`","code":501}}'],
    [404, `Not Found ${'x'.repeat(5000)}`],
    [404, '{"error":'],
    [404, '{"error":{"error":{"error":{"error":"Not Found"}}}}'],
    [404, '\xff\xfe'],
  ] as const) {
    t.equal(pathUnknown(status, Buffer.from(body)), false, body);
  }
});

interface Fixture {
  readonly board: Board;
  readonly clock: ManualClock;
  readonly sent: Outcome[];
  readonly reporter: Reporter;
}

function open(): Fixture {
  const clock = createManualClock(1000);
  const board = new Board(createBoardMemory(3, 3, 1), 0);
  const sent: Outcome[] = [];
  return { board, clock, sent, reporter: new Reporter(board, clock, (outcome) => sent.push(outcome)) };
}

const MEMBERS = [0, 1, 2].map((at): Member => ({
  url: `http://crn-${at}`,
  server: at,
  member: at,
  hash: at,
  apiKey: undefined,
  weight: 1,
  dialects: 0,
}));

const choice = (member: number, epoch = 0, trial = false): Choice => ({
  member: MEMBERS[member] as Member,
  epoch,
  trial,
});

const ok = (member: number, count: number, epoch = 0): Outcome => ({
  member,
  epoch,
  trial: false,
  verdict: 'ok',
  failure: null,
  count,
});

t.test('successes are counted per member and sent in batches', async (t) => {
  const { reporter, sent, clock } = open();
  for (let i = 0; i < 1000; i++) reporter.report(choice(i % 2), 'ok', null);
  clock.advance(249);
  t.same(sent, []);
  clock.advance(1);
  t.same(sent, [ok(0, 500), ok(1, 500)]);
  clock.advance(10_000);
  t.equal(sent.length, 2);
  t.equal(clock.nextDueMs, Infinity, 'no timer without outcomes');
  reporter.report(choice(0), 'ok', null);
  clock.advance(250);
  t.same(sent[2], ok(0, 1));
});

t.test('successes of two epochs are not counted together', async (t) => {
  const { reporter, sent } = open();
  for (const epoch of [3, 3, 4, 4, 4]) reporter.report(choice(1, epoch), 'ok', null);
  reporter.flush();
  t.same(sent, [ok(1, 2, 3), ok(1, 3, 4)]);
});

t.test('a failure is sent at once, after the successes before it', async (t) => {
  const { reporter, sent, clock } = open();
  reporter.report(choice(0), 'ok', null);
  reporter.report(choice(1), 'ok', null);
  reporter.report(choice(0, 7), 'failed', 'reset');
  t.same(sent, [ok(0, 1), { member: 0, epoch: 7, trial: false, verdict: 'failed', failure: 'reset', count: 1 }]);
  clock.advance(250);
  t.same(sent[2], ok(1, 1));
  t.equal(sent.length, 3);
});

t.test('neutral outcomes are not sent, except that of a trial', async (t) => {
  const { reporter, sent } = open();
  reporter.report(choice(0), 'neutral', 'client gone');
  t.same(sent, []);
  reporter.report(choice(0, 1, true), 'neutral', 'client gone');
  reporter.report(choice(0, 1, true), 'ok', null);
  t.same(
    sent.map(({ trial, verdict }) => [trial, verdict]),
    [
      [true, 'neutral'],
      [true, 'ok'],
    ],
  );
});

t.test('a trial has succeeded once its answer has begun; of other answers that says nothing', async (t) => {
  const { reporter, sent, clock } = open();
  reporter.begun(choice(0));
  reporter.begun(choice(1, 5, true));
  clock.advance(1000);
  t.same(sent, [{ ...ok(1, 1, 5), trial: true }]);
});

t.test('a failed or busy CRN has failures on the board, one whose request was wrong has none', async (t) => {
  const { reporter, board, clock } = open();
  const shares = (): number[] => [0, 1, 2].map((member) => board.failureShare(member, clock.now()));
  reporter.report(choice(0), 'failed', 'status 500');
  reporter.report(choice(1), 'neutral', 'busy');
  reporter.report(choice(2), 'neutral', 'context length');
  reporter.report(choice(2), 'neutral', 'client gone');
  t.same(shares(), [1 / 8, 1 / 8, 0]);
  for (let i = 0; i < 100; i++) reporter.report(choice(0), 'ok', null);
  t.equal(shares()[0], 0, 'good answers bring it back');
});

t.test('a CRN that does not know a model is passed over, unless its cell is another one now', async (t) => {
  const { reporter, board } = open();
  reporter.report(choice(0), 'neutral', 'model unknown');
  board.resetMember(1);
  reporter.report(choice(1), 'neutral', 'model unknown');
  t.same(
    [0, 1, 2].map((member) => board.modelUnknown(member)),
    [true, false, false],
  );
});

t.test('flush sends what is left', async (t) => {
  const { reporter, sent, clock } = open();
  reporter.report(choice(2), 'ok', null);
  reporter.flush();
  reporter.flush();
  t.same(sent, [ok(2, 1)]);
  t.equal(clock.nextDueMs, Infinity);
});
