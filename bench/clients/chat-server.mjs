// A model server that speaks chat completions and nothing else, and whose answers follow from the request: calls of tools, reasoning,
// structured output, images, refusals, limits, errors and streams that break off. `{ url, requests, close }`.

import { createServer } from 'node:http';

const PIECE_CHARS = 5;
const HEAD = { created: 1_790_000_000, model: 'atlas-27b' };

export async function startChatServer() {
  const requests = [];
  let answers = 0;
  const server = createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      if (request.method === 'GET' && request.url === '/health') return send(response, 200, { status: 'ok' });
      if (request.url !== '/v1/chat/completions') return send(response, 404, { detail: 'Not Found' });
      const body = JSON.parse(Buffer.concat(chunks).toString());
      requests.push(body);
      answer(body, `chatcmpl-${++answers}`, response);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, requests, close };
}

function send(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function answer(body, id, response) {
  const asked = textOf(body.messages.findLast(({ role }) => role === 'user'));
  if (asked.includes('fail')) {
    const error = { message: 'The prompt is too long', type: 'invalid_request_error', param: 'messages' };
    return send(response, 400, { error: { ...error, code: 'context_length_exceeded' } });
  }
  const { message, reason } = messageFor(body, asked, id);
  const usage = {
    prompt_tokens: 12,
    completion_tokens: 6,
    total_tokens: 18,
    prompt_tokens_details: { cached_tokens: 4 },
    completion_tokens_details: { reasoning_tokens: message.reasoning_content === undefined ? 0 : 3 },
  };
  if (body.stream !== true) {
    const logprobs = logprobsOf(body, message.content);
    const choices = [{ index: 0, message: { role: 'assistant', ...message }, logprobs, finish_reason: reason }];
    return send(response, 200, { ...HEAD, id, object: 'chat.completion', choices, usage });
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const chunk = (delta, finish = null) => ({
    ...HEAD,
    id,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, logprobs: logprobsOf(body, delta.content), finish_reason: finish }],
  });
  const events = [
    chunk({ role: 'assistant', content: '' }),
    ...deltas(message).map((delta) => chunk(delta)),
    chunk({}, reason),
  ];
  if (asked.includes('break')) events.length = Math.ceil(events.length / 2);
  for (const event of events) response.write(`data: ${JSON.stringify(event)}\n\n`);
  if (asked.includes('break')) {
    response.flushHeaders();
    setTimeout(() => response.destroy(), 50);
    return;
  }
  if (body.stream_options?.include_usage === true) {
    response.write(`data: ${JSON.stringify({ ...chunk({}), choices: [], usage })}\n\n`);
  }
  response.end('data: [DONE]\n\n');
}

/** The whole answer to a conversation. */
function messageFor(body, asked, id) {
  const { messages, response_format: format, tool_choice, tools = [] } = body;
  const results = messages
    .slice(messages.findLastIndex(({ role }) => role === 'user'))
    .filter(({ role }) => role === 'tool');
  const tool = (name) => tools.find(({ function: { name: known } }) => known.includes(name))?.function.name;
  const call = (name, args, at = 0) => ({
    id: `call_${id}_${at}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(args) },
  });
  const text = (content, reason = 'stop') => ({ message: { content, ...thoughts }, reason });
  const thoughts = asked.includes('think') ? { reasoning_content: 'The canal leads to the wheel.' } : {};
  const calls = (...all) => ({ message: { content: null, ...thoughts, tool_calls: all }, reason: 'tool_calls' });
  const transfer = tool('transfer');
  if (asked.includes('refund') && transfer !== undefined) return calls(call(transfer, {}));
  if (asked.includes('weather') && results.length === 0 && tool('weather') !== undefined) {
    const name = tool('weather');
    return calls(call(name, { city: 'Rome' }), call(name, { city: 'Oslo' }, 1));
  }
  const patch = tool('patch');
  if (asked.includes('patch') && results.length === 0 && patch !== undefined)
    return calls(call(patch, { input: '*** "Begin"\n' }));
  // Some clients get objects as the input of a tool that is to be called. Servers say `stop` then.
  const json = tool_choice?.function?.name ?? (tool_choice === 'required' ? tool('json') : undefined);
  if (json !== undefined) return { ...calls(call(json, { city: 'Rome', degrees: 21 })), reason: 'stop' };
  if (format?.type === 'json_schema') return text(JSON.stringify({ city: 'Rome', degrees: 21 }));
  if (results.length > 0) return text(`Tools say: ${results.map(textOf).join(' and ')}.`);
  if (asked.includes('recall')) {
    return text(`You thought: ${messages.map(({ reasoning_content: thought = '' }) => thought).join('')}`);
  }
  if (asked.includes('refuse')) return { message: { content: null, refusal: 'I cannot do that.' }, reason: 'stop' };
  if (asked.includes('limit')) return text('Down the canal and', 'length');
  const images = messages
    .flatMap(({ content }) => (Array.isArray(content) ? content : []))
    .filter(({ type }) => type === 'image_url');
  if (images.length > 0) return text(`An image of ${images[0].image_url.url.length} characters.`);
  const system = messages
    .filter(({ role }) => role === 'system' || role === 'developer')
    .map(textOf)
    .join(' ');
  return text(system === '' ? 'Down the canal.' : `Down the canal, as told: ${system}`);
}

function deltas({ content, reasoning_content: reasoning = '', refusal = '', tool_calls: calls = [] }) {
  return [
    ...pieces(reasoning).map((piece) => ({ reasoning_content: piece })),
    ...pieces(content ?? '').map((piece) => ({ content: piece })),
    ...pieces(refusal).map((piece) => ({ refusal: piece })),
    ...calls.flatMap(({ function: { arguments: args, name }, id }, index) => [
      { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] },
      ...pieces(args).map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
    ]),
  ];
}

/** One token for each piece of a text, where they are asked for. */
function logprobsOf({ logprobs }, content) {
  if (logprobs !== true || typeof content !== 'string' || content === '') return null;
  const token = (text) => ({ token: text, logprob: -0.5, bytes: [...Buffer.from(text)], top_logprobs: [] });
  return { content: pieces(content).map(token) };
}

function pieces(text) {
  const all = [];
  for (let at = 0; at < text.length; at += PIECE_CHARS) all.push(text.slice(at, at + PIECE_CHARS));
  return all;
}

function textOf(message) {
  const { content } = message ?? {};
  if (typeof content === 'string') return content;
  return (content ?? []).map(({ text = '' }) => text).join('');
}
