// A CRN that speaks responses and keeps nothing: it refuses previous_response_id, notes every request, and answers with what its input
// says, whole or as a stream. A test may hold an answer back before its last event.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

export interface ResponseRequest {
  readonly input: unknown;
  readonly [name: string]: unknown;
}

export interface ResponseCrn {
  readonly url: string;
  /** Parsed bodies of the requests, oldest first. */
  readonly requests: ResponseRequest[];
  /** Answers stop before their last event until `release`. */
  hold(): void;
  release(): void;
  /** Resolves when so many answers are held. */
  held(count: number): Promise<void>;
  /** Answers that were broken off by the gateway. */
  readonly left: () => number;
  /** Streams that were sent to their end. */
  readonly done: () => number;
}

let names = 0;

/** Starts one; it ends with the test. `ids`: makes the number in the ids of its answers. */
export async function startResponseCrn(t: Pick<Test, 'teardown'>, name = `crn${++names}`): Promise<ResponseCrn> {
  const requests: ResponseRequest[] = [];
  let gate: PromiseWithResolvers<void> | null = null;
  let holding = 0;
  let left = 0;
  let done = 0;
  const waiters: { readonly count: number; readonly resolve: () => void }[] = [];
  const pass = async (response: ServerResponse): Promise<boolean> => {
    if (gate === null) return true;
    holding++;
    for (const waiter of waiters) if (holding >= waiter.count) waiter.resolve();
    const gone = new Promise<boolean>((resolve) => response.once('close', () => resolve(false)));
    const passed = await Promise.race([gate.promise.then(() => true), gone]);
    if (!passed) left++;
    return passed;
  };
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    if (request.method !== 'POST') {
      response.writeHead(request.url === '/health' ? 200 : 404).end('{}');
      return;
    }
    const body = JSON.parse(Buffer.concat(parts).toString()) as ResponseRequest;
    const number = requests.push(body);
    if (body['previous_response_id'] != null || body['background'] === true) {
      const error = { message: 'this server keeps nothing', type: 'invalid_request_error', code: 'not_supported' };
      response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ error }));
      return;
    }
    const id = `resp_${name}_${number}`;
    // An input `long N` is answered with so many words.
    const words = Number(/^long (\d+)$/.exec(String(body.input))?.[1] ?? 0);
    const text =
      words === 0 ? `answer ${number}` : Array.from({ length: words }, (_, at) => `${at} ${'x'.repeat(200)}`).join('');
    const message = {
      ...{ id: `msg_${name}_${number}`, type: 'message', status: 'completed', role: 'assistant' },
      content: [{ type: 'output_text', text, annotations: [], logprobs: [] }],
    };
    const object = (status: string, output: unknown[]): object => ({
      ...{ id, object: 'response', created_at: 1_790_000_000, status, error: null, incomplete_details: null },
      ...{ instructions: body['instructions'] ?? null, model: body['model'], output, parallel_tool_calls: true },
      ...{ previous_response_id: null, store: false, temperature: 1.0, tool_choice: 'auto', tools: [], top_p: 1 },
      ...{ metadata: {}, background: false },
      usage: output.length === 0 ? null : { input_tokens: 10, output_tokens: 3, total_tokens: 13 },
    });
    const last = object('completed', [message]);
    if (body['stream'] !== true) {
      if (await pass(response)) {
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(last));
      }
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    let sequence = 0;
    const send = (type: string, data: object): void => {
      response.write(`event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence++, ...data })}\n\n`);
    };
    const at = { item_id: message.id, output_index: 0, content_index: 0 };
    const part = { type: 'output_text', text: '', annotations: [] };
    send('response.created', { response: object('in_progress', []) });
    send('response.in_progress', { response: object('in_progress', []) });
    send('response.output_item.added', { output_index: 0, item: { ...message, status: 'in_progress', content: [] } });
    send('response.content_part.added', { ...at, part });
    for (const delta of text.split(words === 0 ? /(?= )/ : /(?=\d+ x)/))
      send('response.output_text.delta', { ...at, delta, logprobs: [] });
    if (!(await pass(response))) return;
    send('response.output_text.done', { ...at, text, logprobs: [] });
    send('response.content_part.done', { ...at, part: { ...part, text } });
    send('response.output_item.done', { output_index: 0, item: message });
    send('response.completed', { response: last });
    response.end();
    done++;
  };
  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    gate?.resolve();
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    hold: () => (gate ??= Promise.withResolvers()),
    release: () => {
      gate?.resolve();
      gate = null;
      holding = 0;
    },
    held: (count) =>
      holding >= count ? Promise.resolve() : new Promise((resolve) => waiters.push({ count, resolve })),
    left: () => left,
    done: () => done,
  };
}
