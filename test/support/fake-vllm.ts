// A fake vLLM server for tests, or a plain OpenAI-compatible server without the endpoints of vLLM: model list, streams and errors as
// the real one sends them. Tokens are the UTF-8 bytes of a text, after a 1 where special tokens are added.
import type { Answer, FakeEngine } from './fake-engine.ts';
import { events, json, startFakeEngine } from './fake-engine.ts';

export const VLLM_MODEL = 'org/Tiny-8B';

/** An event of `/v1/completions`; `over` replaces members of its choice. */
export function choiceFrame(text: string, over: Record<string, unknown> = {}): Record<string, unknown> {
  const choice = { index: 0, text, logprobs: null, finish_reason: null, stop_reason: null, ...over };
  return { id: 'cmpl-1', object: 'text_completion', created: 1, model: VLLM_MODEL, choices: [choice] };
}

export const USAGE_FRAME: Record<string, unknown> = {
  id: 'cmpl-1',
  object: 'text_completion',
  choices: [],
  usage: { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11, prompt_tokens_details: { cached_tokens: 4 } },
};

export const DONE = 'data: [DONE]\n\n';

export function vllmError(code: number, message: string): Record<string, unknown> {
  return { error: { message, type: 'BadRequestError', param: null, code } };
}

const lacking = (member: string): Answer => json({ detail: [{ loc: ['body', member], msg: 'Field required' }] }, 422);

const complete: Answer = (request, response) => {
  const frames = [choiceFrame('He'), choiceFrame('llo', { finish_reason: 'length' }), USAGE_FRAME, DONE];
  ('prompt' in request.body ? events(frames) : lacking('prompt'))(request, response);
};

const tokenize: Answer = (request, response) => {
  if (!('prompt' in request.body)) return lacking('prompt')(request, response);
  const special = request.body['add_special_tokens'] === false ? [] : [1];
  const tokens = [...special, ...Buffer.from(String(request.body['prompt']))];
  json({ count: tokens.length, max_model_len: 4096, tokens })(request, response);
};

const detokenize: Answer = (request, response) => {
  const tokens = request.body['tokens'] as number[];
  json({ prompt: Buffer.from(tokens).toString() })(request, response);
};

const missing: Answer = json({ detail: 'Not Found' }, 404);

/** Starts a vLLM with one model of 4096 tokens, without the Messages dialect. */
export function startFakeVllm(): Promise<FakeEngine> {
  const model = { id: VLLM_MODEL, object: 'model', owned_by: 'vllm', root: VLLM_MODEL, max_model_len: 4096 };
  const answers = new Map<string, Answer>([
    ['/health', (_, response) => response.writeHead(200).end()],
    ['/version', json({ version: '0.11.0' })],
    ['/v1/models', json({ object: 'list', data: [model] })],
    ['/v1/completions', complete],
    ['/v1/chat/completions', lacking('messages')],
    ['/v1/responses', lacking('input')],
    ['/v1/embeddings', json(vllmError(400, 'The model does not support Embeddings API'), 400)],
    ['/tokenize', tokenize],
    ['/detokenize', detokenize],
  ]);
  return startFakeEngine(answers, missing);
}

/** Starts a server that has no more than the OpenAI API. */
export function startFakeOpenAi(): Promise<FakeEngine> {
  const answers = new Map<string, Answer>([
    ['/v1/models', json({ object: 'list', data: [{ id: VLLM_MODEL, object: 'model', owned_by: 'someone' }] })],
    ['/v1/completions', complete],
    ['/v1/chat/completions', lacking('messages')],
  ]);
  return startFakeEngine(answers, missing);
}
