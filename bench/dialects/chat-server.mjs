// A server that speaks chat completions and nothing else: it keeps the requests of the conversation under way, and gives its scripted
// answer, whole or as a stream.

import { createServer } from 'node:http';

const MODEL = 'atlas-27b';
/** Bytes of a delta. */
const DELTA_CHARS = 7;

export class ChatServer {
  /** What it has been asked since `expect`. */
  received = [];
  url = '';
  #script = { answer: null, error: null };
  #server;

  async listen() {
    this.#server = createServer((request, response) => {
      const pieces = [];
      request.on('data', (piece) => pieces.push(piece));
      request.on('end', () => this.#serve(request, response, Buffer.concat(pieces)));
    });
    this.#server.keepAliveTimeout = 600_000;
    await new Promise((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${this.#server.address().port}`;
  }

  close() {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** The answer to what follows. `error`: the answer is an error. */
  expect(answer, error) {
    this.received = [];
    this.#script = { answer, error };
  }

  #serve(request, response, bytes) {
    const [path] = request.url.split('?');
    if (request.method === 'GET') {
      const models = { object: 'list', data: [{ id: MODEL, object: 'model', created: 1, owned_by: 'bench' }] };
      json(response, 200, path.endsWith('/models') ? models : { status: 'ok' });
      return;
    }
    if (path !== '/v1/chat/completions') {
      json(response, 404, { detail: 'Not Found' });
      return;
    }
    const body = JSON.parse(bytes);
    this.received.push(body);
    const { answer, error } = this.#script;
    if (error !== null) {
      json(response, error.status, {
        error: { message: error.message, type: 'BadRequestError', param: null, code: error.status },
      });
    } else if (body.stream === true) stream(response, answer, body.stream_options?.include_usage === true);
    else json(response, 200, whole(answer));
  }
}

function json(response, status, value) {
  const text = JSON.stringify(value);
  response
    .writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
    .end(text);
}

function usageOf({ cached, completion, prompt }) {
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: cached },
  };
}

function callsOf(calls) {
  return calls.map(({ id, input, name }) => ({
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
  }));
}

function whole({ calls, finish, id, text, thought, usage }) {
  const message = {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    ...(thought !== '' && { reasoning_content: thought }),
    ...(calls.length > 0 && { tool_calls: callsOf(calls) }),
  };
  const choices = [{ index: 0, message, finish_reason: finish }];
  return { id, object: 'chat.completion', created: 1, model: MODEL, choices, usage: usageOf(usage) };
}

function pieces(text) {
  return Array.from({ length: Math.ceil(text.length / DELTA_CHARS) }, (_, at) =>
    text.slice(at * DELTA_CHARS, (at + 1) * DELTA_CHARS),
  );
}

function stream(response, { calls, finish, id, text, thought, usage }, saysUsage) {
  const head = { id, object: 'chat.completion.chunk', created: 1, model: MODEL };
  const lines = [];
  const say = (chunk) => lines.push(`data: ${JSON.stringify({ ...head, ...chunk })}\n\n`);
  const delta = (one, reason = null) => say({ choices: [{ index: 0, delta: one, finish_reason: reason }] });
  delta({ role: 'assistant', content: '' });
  for (const piece of pieces(thought)) delta({ reasoning_content: piece });
  for (const piece of pieces(text)) delta({ content: piece });
  for (const [index, { function: called, ...call }] of callsOf(calls).entries()) {
    delta({ tool_calls: [{ index, ...call, function: { name: called.name, arguments: '' } }] });
    for (const piece of pieces(called.arguments)) delta({ tool_calls: [{ index, function: { arguments: piece } }] });
  }
  delta({}, finish);
  if (saysUsage) say({ choices: [], usage: usageOf(usage) });
  lines.push('data: [DONE]\n\n');
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  // Each event arrives by itself, as those of engines do.
  const next = () => {
    const line = lines.shift();
    if (line === undefined) response.end();
    else response.write(line, () => setImmediate(next));
  };
  next();
}
