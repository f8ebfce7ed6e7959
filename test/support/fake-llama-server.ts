// A fake llama-server (llama.cpp) for tests: properties, slots, streams and errors as the real one sends them. Tokens are the UTF-8
// bytes of a text, after a 1 where a sequence begins.
import type { Answer, FakeEngine, SeenRequest } from './fake-engine.ts';
import { events, json, startFakeEngine } from './fake-engine.ts';

export const LLAMA_MODEL = '/models/tiny.gguf';

/** The last event of a completion; `over` replaces members. */
export function finalFrame(over: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    index: 0,
    content: '',
    tokens: [],
    id_slot: 2,
    stop: true,
    model: LLAMA_MODEL,
    tokens_predicted: 2,
    tokens_evaluated: 9,
    generation_settings: { seed: 4242, temperature: 0.8 },
    prompt: '<s>Hi',
    has_new_line: false,
    truncated: false,
    stop_type: 'limit',
    stopping_word: '',
    tokens_cached: 11,
    timings: { cache_n: 5, prompt_n: 4, prompt_ms: 8, predicted_n: 2, predicted_ms: 20 },
    ...over,
  };
}

/** An event with text. */
export function partialFrame(content: string, over: Record<string, unknown> = {}): Record<string, unknown> {
  return { index: 0, content, tokens: [7], stop: false, id_slot: 2, tokens_predicted: 1, tokens_evaluated: 9, ...over };
}

export const PROGRESS_FRAME: Record<string, unknown> = partialFrame('', {
  tokens: [],
  prompt_progress: { total: 9, cache: 5, processed: 9, time_ms: 8 },
});

export function failureBody(code: number, message: string, type = 'invalid_request_error'): Record<string, unknown> {
  return { error: { code, message, type } };
}

const lacking = (member: string): Answer => json(failureBody(400, `"${member}" is required`), 400);

const tokenize: Answer = (request, response) => {
  const text = Buffer.from((request.body['content'] as string | undefined) ?? '');
  json({ tokens: [...(request.body['add_special'] === true ? [1] : []), ...text] })(request, response);
};

const detokenize: Answer = (request, response) => {
  const tokens = request.body['tokens'] as number[];
  json({ content: Buffer.from(tokens.filter((token) => token !== 1)).toString() })(request, response);
};

function completing(request: SeenRequest): boolean {
  return 'prompt' in request.body || 'input_prefix' in request.body;
}

const complete: Answer = (request, response) => {
  const frames = [PROGRESS_FRAME, partialFrame('He'), partialFrame('llo'), finalFrame()];
  const whole = json(finalFrame({ content: 'Hello' }));
  const answer = request.body['stream'] === false ? whole : events(frames);
  (completing(request) ? answer : lacking('prompt'))(request, response);
};

/** Starts one that is ready, has four slots and lacks the Messages dialect. */
export function startFakeLlamaServer(props: Record<string, unknown> = {}, port: number = 0): Promise<FakeEngine> {
  const model = { id: LLAMA_MODEL, object: 'model', owned_by: 'llamacpp', meta: { n_vocab: 258, n_ctx_train: 8192 } };
  const answers = new Map<string, Answer>([
    ['/health', json({ status: 'ok' })],
    [
      '/props',
      json({
        default_generation_settings: { n_ctx: 2048, params: {} },
        total_slots: 4,
        model_path: LLAMA_MODEL,
        modalities: { vision: false, audio: false },
        build_info: 'b7000-abc',
        ...props,
      }),
    ],
    ['/v1/models', json({ object: 'list', data: [model] })],
    ['/slots', json([{ id: 0, n_ctx: 2048, is_processing: true, next_token: [{ n_decoded: 12 }] }])],
    ['/completion', complete],
    ['/infill', complete],
    ['/tokenize', tokenize],
    ['/detokenize', detokenize],
    ['/v1/completions', lacking('prompt')],
    ['/v1/chat/completions', lacking('messages')],
    ['/v1/responses', lacking('input')],
    ['/v1/embeddings', json(failureBody(501, 'start it with --embeddings', 'not_supported_error'), 501)],
  ]);
  return startFakeEngine(answers, json(failureBody(404, 'File Not Found', 'not_found_error'), 404), port);
}
