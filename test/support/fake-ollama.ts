// A fake Ollama for tests, in the shapes of its API documentation: tags, running models, versions, chats and generations as lines of JSON,
// and the OpenAI-compatible paths beside them.
import { events, json, startFakeEngine, type Answer, type FakeEngine } from './fake-engine.ts';
import { choiceFrame, DONE, USAGE_FRAME } from './fake-vllm.ts';

export const OLLAMA_MODEL = 'llama3.2:latest';

const DETAILS = {
  parent_model: '',
  format: 'gguf',
  family: 'llama',
  families: ['llama'],
  parameter_size: '3.2B',
  quantization_level: 'Q4_K_M',
};
const TAG = {
  name: OLLAMA_MODEL,
  model: OLLAMA_MODEL,
  modified_at: '2026-05-04T17:37:44.706015396-07:00',
  size: 2019393189,
  digest: 'a80c4f17acd55265feec403c7aef86be0c25983ab279d83f3bcd3abbcb5b8b72',
  details: DETAILS,
};

/** Counts of an answer that is over; durations in nanoseconds. */
const DONE_LINE = {
  done: true,
  done_reason: 'stop',
  total_duration: 4883583458,
  load_duration: 1334875,
  prompt_eval_count: 26,
  prompt_eval_duration: 342546000,
  eval_count: 2,
  eval_duration: 4535599000,
};

function lines(values: readonly object[]): Answer {
  return (_, response) => {
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    for (const value of values) response.write(`${JSON.stringify(value)}\n`);
    response.end();
  };
}

const head = { model: OLLAMA_MODEL, created_at: '2026-08-04T08:52:19.385406455-07:00' };

const chat: Answer = (request, response) => {
  const says = (content: string): object => ({ ...head, message: { role: 'assistant', content } });
  if (request.body['messages'] === undefined) return json({ error: 'messages is required' }, 400)(request, response);
  if (request.body['stream'] === false) return json({ ...says('Hello'), ...DONE_LINE })(request, response);
  lines([
    { ...says('He'), done: false },
    { ...says('llo'), done: false },
    { ...says(''), ...DONE_LINE },
  ])(request, response);
};

const generate: Answer = (request, response) => {
  if (request.body['stream'] === false) return json({ ...head, response: 'Hello', ...DONE_LINE })(request, response);
  lines([
    { ...head, response: 'Hello', done: false },
    { ...head, response: '', ...DONE_LINE },
  ])(request, response);
};

/** Errors of the OpenAI-compatible paths. */
function ollamaError(message: string): Record<string, unknown> {
  return { error: { message, type: 'invalid_request_error', param: null, code: null } };
}

const complete: Answer = (request, response) => {
  const { model, prompt } = request.body;
  if (model === undefined) return json(ollamaError('model is required'), 400)(request, response);
  if (typeof prompt !== 'string') return json(ollamaError('prompt must be a text'), 400)(request, response);
  const frames = [choiceFrame('He'), choiceFrame('llo', { finish_reason: 'length' }), USAGE_FRAME, DONE];
  events(frames)(request, response);
};

const needsModel: Answer = json(ollamaError('model is required'), 400);

/** Starts one with one model, loaded with a context of 4096 tokens unless `loaded` is false. */
export function startFakeOllama({ loaded = true } = {}): Promise<FakeEngine> {
  const expires_at = '2026-06-04T14:38:31.83753-07:00';
  const running = { ...TAG, expires_at, size_vram: 5137025024, context_length: 4096 };
  const answers = new Map<string, Answer>([
    ['/', (_, response) => response.writeHead(200).end('Ollama is running')],
    ['/api/version', json({ version: '0.12.6' })],
    ['/api/tags', json({ models: [TAG] })],
    ['/api/ps', json({ models: loaded ? [running] : [] })],
    [
      '/api/show',
      json({ details: DETAILS, model_info: { 'llama.context_length': 131072 }, capabilities: ['completion'] }),
    ],
    ['/api/chat', chat],
    ['/api/generate', generate],
    [
      '/api/embed',
      json({ model: OLLAMA_MODEL, embeddings: [[0.01, -0.001]], total_duration: 1, prompt_eval_count: 8 }),
    ],
    [
      '/v1/models',
      json({ object: 'list', data: [{ id: OLLAMA_MODEL, object: 'model', created: 1, owned_by: 'library' }] }),
    ],
    ['/v1/completions', complete],
    ['/v1/chat/completions', needsModel],
    ['/v1/embeddings', needsModel],
  ]);
  return startFakeEngine(answers, (_, response) =>
    response.writeHead(404, { 'content-type': 'text/plain' }).end('404 page not found'),
  );
}
