// Answers of CRNs for the model of failover, good ones and bad ones, in every dialect. Each has the mark of its CRN in its text.

export interface Answer {
  readonly name: string;
  /** `kept`: on a connection that is open. */
  readonly connect: 'kept' | 'new' | 'refused' | 'silence' | 'no connection free' | 'unsendable';
  readonly beforeHead: 'head' | 'silence' | 'reset' | 'malformed' | 'stale';
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: Buffer;
  /** Bytes of the body that are sent. */
  readonly cut: number;
  readonly ending: 'end' | 'silence' | 'truncated' | 'malformed';
  readonly hasLength: boolean;
  /** Comments follow what is sent, without end. */
  readonly endless: boolean;
  /** Whether the CRN serves the request well with it. */
  readonly good: boolean;
  /** Whether its first bytes are a whole answer, as far as a client can tell. */
  isWhole(bytes: number): boolean;
}

type Random = () => number;

interface Stream {
  readonly opening: readonly string[];
  readonly piece: (text: string) => string;
  readonly finish: readonly string[];
  /** How many events of `finish` make the stream whole if its body ends there. */
  readonly enough: number;
}

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const named = (type: string, rest: object = {}): string => `event: ${type}\n${data({ type, ...rest })}`;

const STREAMS: Readonly<Record<string, Stream>> = {
  '/v1/chat/completions': {
    opening: [data({ choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] })],
    piece: (content) => data({ choices: [{ index: 0, delta: { content } }] }),
    finish: [
      data({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
      data({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } }),
      'data: [DONE]\n\n',
    ],
    enough: 1,
  },
  '/v1/completions': {
    opening: [],
    piece: (text) => data({ choices: [{ index: 0, text }] }),
    finish: [data({ choices: [{ index: 0, text: '', finish_reason: 'stop' }] }), 'data: [DONE]\n\n'],
    enough: 1,
  },
  '/v1/messages': {
    opening: [
      named('message_start', { message: { role: 'assistant', content: [] } }),
      named('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
      named('ping'),
    ],
    piece: (text) => named('content_block_delta', { index: 0, delta: { type: 'text_delta', text } }),
    finish: [
      named('content_block_stop', { index: 0 }),
      named('message_delta', { delta: { stop_reason: 'end_turn' } }),
      named('message_stop'),
    ],
    enough: 3,
  },
  '/v1/responses': {
    opening: [named('response.created', { response: { id: 'r' } }), named('response.in_progress', { response: {} })],
    piece: (delta) => named('response.output_text.delta', { delta }),
    finish: [named('response.completed', { response: { id: 'r', output: [] } })],
    enough: 1,
  },
  '/completion': {
    opening: [],
    piece: (content) => data({ content, stop: false }),
    finish: [data({ content: '', stop: true })],
    enough: 1,
  },
  '/v1/embeddings': { opening: [], piece: (text) => data({ text }), finish: [], enough: 0 },
};

const WHOLE: Readonly<Record<string, (text: string) => object>> = {
  '/v1/chat/completions': (content) => ({ choices: [{ message: { content }, finish_reason: 'stop' }] }),
  '/v1/completions': (text) => ({ choices: [{ text, finish_reason: 'stop' }] }),
  '/v1/messages': (text) => ({ type: 'message', content: [{ type: 'text', text }] }),
  '/v1/responses': (text) => ({ object: 'response', output: [{ type: 'message', content: [{ text }] }] }),
  '/completion': (content) => ({ content, stop: true }),
  '/v1/embeddings': (text) => ({ data: [{ embedding: [1, 2], text }] }),
};

/** A longer whole answer is not held to its end. */
const PASSING_BYTES = 256 * 1024 + 1;

const SSE = ['content-type', 'text/event-stream'];
const JSON_TYPE = ['content-type', 'application/json'];

/** Refusals by status, with their bodies. */
const REFUSALS: readonly (readonly [status: number, body: string])[] = [
  [400, '{"error":"bad"}'],
  [400, '{"error":"maximum context length"}'],
  [401, '{"error":"key"}'],
  [404, '{"detail":"Not Found"}'],
  [404, '{"error":"The model `m` does not exist"}'],
  [408, 'late'],
  [422, '{"detail":[]}'],
  [425, ''],
  [429, '{"error":"busy"}'],
  [501, '{"error":"no"}'],
];

/** How servers and proxies say that they do not know a path. */
const UNKNOWN_PATHS: readonly (readonly [status: number, body: string])[] = [
  [404, '{"detail":"Not Found"}'],
  [404, '404 page not found\n'],
  [404, ''],
  [405, '{"detail":"Method Not Allowed"}'],
  [501, 'Not Implemented'],
];

/** The answer of a CRN to one request. `lacks`: it does not know the path. */
export function answerOf(
  random: Random,
  path: string,
  stream: boolean,
  crn: number,
  fresh: boolean,
  lacks: boolean,
): Answer {
  const dice = random();
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const connect =
    dice < 0.04
      ? 'refused'
      : dice < 0.06
        ? 'silence'
        : dice < 0.07
          ? 'no connection free'
          : dice < 0.072
            ? 'unsendable'
            : fresh || random() < 0.4
              ? 'new'
              : 'kept';
  const before = random();
  const beforeHead =
    before < 0.04
      ? 'reset'
      : before < 0.06
        ? 'silence'
        : before < 0.08
          ? 'malformed'
          : connect === 'kept' && before < 0.16
            ? 'stale'
            : 'head';
  const parts = { connect, beforeHead } as const;
  if (lacks) {
    const [status, text] = pick(UNKNOWN_PATHS);
    const body = Buffer.from(text);
    return make(random, { ...parts, name: 'unknown path', status, type: [], body, good: false, enough: 0 });
  }
  const kind = random();
  if (kind < 0.15) {
    const [status, text] = pick(REFUSALS);
    const body = Buffer.from(random() < 0.1 ? text + `crn${crn}`.padEnd(70_000) : text.replace('"}', ` crn${crn}"}`));
    return make(random, { ...parts, name: `refusal ${status}`, status, type: JSON_TYPE, body, good: false, enough: 0 });
  }
  if (kind < 0.25) {
    const status = pick([500, 502, 503, 302, 307]);
    const body = Buffer.from(`crn${crn} failed`);
    return make(random, { ...parts, name: `failed ${status}`, status, type: [], body, good: false, enough: Infinity });
  }
  if (kind < 0.32) return make(random, { ...parts, ...noAnswer(pick, path, stream, crn) });
  return make(random, { ...parts, ...(stream ? goodStream(random, path, crn) : goodWhole(random, path, crn)) });
}

interface Made {
  readonly connect: Answer['connect'];
  readonly beforeHead: Answer['beforeHead'];
  readonly name: string;
  readonly status: number;
  readonly type: readonly string[];
  readonly body: Buffer;
  readonly good: boolean;
  /** Bytes that are whole if the body ends there, and those that are whole whatever follows. */
  readonly enough: number;
  readonly complete?: number;
  /** Bytes behind which a break costs nothing: all output has come. */
  readonly finished?: number;
}

/** Cuts it somewhere, or not. */
function make(
  random: Random,
  { type, enough, complete = Infinity, finished = Infinity, good, body, ...rest }: Made,
): Answer {
  const hasLength = random() < 0.5 && type !== SSE;
  const byClose = !hasLength && random() < 0.2;
  const isCut = random() < 0.3;
  let cut = isCut ? Math.floor(random() * (body.byteLength + 1)) : body.byteLength;
  let ending: Answer['ending'] =
    isCut || random() < 0.1
      ? (['end', 'silence', 'truncated', 'malformed'] as const)[Math.floor(random() * 4)]!
      : 'end';
  if (hasLength && ending === 'end') cut = body.byteLength;
  if (hasLength && cut === body.byteLength) ending = 'end';
  const headers = [...type];
  if (hasLength) headers.push('content-length', String(body.byteLength));
  else if (!byClose) headers.push('transfer-encoding', 'chunked');
  const endless = type === SSE && ending === 'silence' && random() < 0.5;
  // A comment cannot stand inside an event.
  if (endless)
    cut = cut === 0 ? 0 : body.subarray(0, cut).lastIndexOf('\n\n') + (body.subarray(0, cut).includes('\n\n') ? 2 : 1);
  const endsWell = (cut >= enough && ending === 'end') || cut >= complete || cut >= finished;
  return {
    ...rest,
    ...{ headers, body, cut, ending, hasLength, endless },
    good: good && endsWell && rest.beforeHead === 'head' && (rest.connect === 'kept' || rest.connect === 'new'),
    isWhole: (bytes) =>
      bytes >= complete || bytes >= finished || (bytes >= enough && ending === 'end' && bytes === cut),
  };
}

function noAnswer(
  pick: <T>(list: readonly T[]) => T,
  path: string,
  stream: boolean,
  crn: number,
): Omit<Made, 'connect' | 'beforeHead'> {
  const judged = path !== '/v1/embeddings';
  const bodies = [
    ['error JSON', `{"error":{"message":"crn${crn}"}}`, JSON_TYPE],
    ['HTML', `<html>crn${crn}</html>`, ['content-type', 'text/html']],
    ['nothing', '', stream ? SSE : JSON_TYPE],
    ['only DONE', 'data: [DONE]\n\n', SSE],
    ['error event', data({ error: { message: `crn${crn}` } }), SSE],
    ['comments', ': crn\n\n: crn\n\n', SSE],
  ] as const;
  const [name, text, type] = pick(bodies);
  const body = Buffer.from(text);
  return { name, status: 200, type, body, good: !judged, enough: judged ? Infinity : 0 };
}

function goodStream(random: Random, path: string, crn: number): Omit<Made, 'connect' | 'beforeHead'> {
  const { enough, finish, opening, piece } = STREAMS[path] as Stream;
  const longEnd = path === '/v1/responses' || path === '/completion';
  let text = random() < 0.3 ? ': hello\n\n' : '';
  text += opening.join('');
  const pieces = 1 + Math.floor(random() * 6);
  for (let at = 0; at < pieces; at++) {
    if (random() < 0.1) text += ': ping\n\n';
    // Now and then an event that is too long to be held; in two dialects only the last one is.
    text += piece(`crn${crn}#${at} ${!longEnd && random() < 0.03 ? 'x'.repeat(6000) : ''}`);
  }
  let enoughAt = finish.length === 0 ? 0 : Infinity;
  let finished = Infinity;
  for (const [at, event] of finish.entries()) {
    const padded = longEnd && random() < 0.1;
    text += padded ? event.replace('"', `"pad":"${'x'.repeat(6000)}","`) : event;
    // The blank line behind the last event may be missing, of a long one all but its line end.
    if (at + 1 !== enough) continue;
    enoughAt = text.length - (padded ? 1 : 2);
    finished = text.length;
  }
  const complete = finish.length === 0 ? Infinity : text.length;
  const isPlain = path === '/v1/embeddings';
  return {
    ...{ name: 'stream', status: 200, type: SSE, body: Buffer.from(text), good: true },
    ...{
      enough: isPlain ? 0 : enoughAt,
      complete: isPlain ? Infinity : complete,
      finished: isPlain ? Infinity : finished,
    },
  };
}

function goodWhole(random: Random, path: string, crn: number): Omit<Made, 'connect' | 'beforeHead'> {
  const long = random() < 0.1 ? 300_000 : 0;
  const value = (WHOLE[path] as (text: string) => object)(`crn${crn} ${'y'.repeat(long)}`);
  const body = Buffer.from(JSON.stringify(value));
  // Without a dialect, and of a long answer that passes as it comes, the end of the body is all there is to see.
  const enough = path === '/v1/embeddings' ? 0 : Math.min(body.byteLength, PASSING_BYTES);
  return { name: 'whole', status: 200, type: JSON_TYPE, body, good: true, enough };
}
