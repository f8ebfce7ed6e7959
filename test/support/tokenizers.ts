// Endpoints that count tokens as servers have them. A token is a byte of text; a chat template adds `<turn>` before each message and
// `<answer>` behind the last, and a vocabulary a first token.

import { type Answer, type FakeEngine, json, startFakeEngine } from './fake-engine.ts';

type Json = Record<string, unknown>;

/** The prompt of a chat as the template writes it. */
function templated({ messages, tools }: Json): string {
  const turns = (messages as readonly Json[]).map(({ content }) => `<turn>${String(content)}`).join('');
  return `${tools === undefined ? '' : JSON.stringify(tools)}${turns}<answer>`;
}

function tokensOf(text: string, first: boolean): number[] {
  return [...(first ? [1] : []), ...Buffer.from(text)];
}

const missing = json({ detail: 'Not Found' }, 404);

function counted(tokens: readonly number[]): Json {
  return { count: tokens.length, max_model_len: 4096, tokens };
}

/** vLLM: `/tokenize` takes a prompt or messages. */
const vllm: Answer = ({ body }, response) => {
  const text = typeof body['prompt'] === 'string' ? body['prompt'] : templated(body);
  json(counted(tokensOf(text, true)))({} as never, response);
};

/** SGLang: `/tokenize` takes a prompt. */
const sglang: Answer = (request, response) => {
  const { prompt } = request.body;
  const lacking = { detail: [{ loc: ['body', 'prompt'], msg: 'Field required', type: 'missing' }] };
  if (typeof prompt === 'string') json(counted(tokensOf(prompt, true)))(request, response);
  else json(lacking, 422)(request, response);
};

/** llama-server: `/tokenize` takes content, and overlooks what it does not know. */
const llama: Answer = (request, response) => {
  const { add_special: special, content = '' } = request.body;
  json({ tokens: tokensOf(content as string, special === true && content !== '') })(request, response);
};

const template: Answer = (request, response) => json({ prompt: templated(request.body) })(request, response);

const own: Answer = (request, response) => {
  if (Array.isArray(request.body['messages'])) json({ input_tokens: 77 })(request, response);
  else
    json({ type: 'error', error: { type: 'invalid_request_error', message: 'messages: missing' } }, 400)(
      request,
      response,
    );
};

const ENDPOINTS = {
  messages: { '/v1/messages/count_tokens': own, '/v1/messages/count_tokens?beta=true': own, '/tokenize': vllm },
  vllm: { '/tokenize': vllm },
  sglang: { '/tokenize': sglang },
  llama: { '/tokenize': llama, '/apply-template': template },
  none: {},
} as const satisfies Readonly<Record<string, Readonly<Record<string, Answer>>>>;

export type TokenizerKind = keyof typeof ENDPOINTS;

/** A CRN with the endpoints of this kind, and `/health`. */
export async function startTokenizer(
  t: { teardown(end: () => unknown): void },
  kind: TokenizerKind,
): Promise<FakeEngine> {
  const answers = new Map<string, Answer>([['/health', json({ status: 'ok' })], ...Object.entries(ENDPOINTS[kind])]);
  const engine = await startFakeEngine(answers, missing);
  t.teardown(() => engine.close());
  return engine;
}
