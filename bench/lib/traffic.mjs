// Requests of the load client and responses of the upstream, in one place so that both sides agree on every byte. Nothing is
// random: all peers get the same conversations in the same order.

export const MODEL = 'atlas-27b';
export const KEY = 'sk-bench-0123456789abcdef0123456789abcdef';
export const EVENTS = 64;

/** Conversations that a client cycles through: enough for affinity to spread them over the CRNs. */
const CONVERSATIONS = 512;

const SYSTEM = [
  'You are a careful assistant of a hardware store. Answer briefly and name the article number when there is one.',
  'You translate support mails from German to English and keep the tone of the writer.',
  'You review pull requests. Point out mistakes first, style last, and quote the line you mean.',
  'You are a tutor for school mathematics. Never give the result before the pupil has tried.',
];
const WORDS = 'river gate weir channel intake turbine screen spill flow level gauge sluice pond valve pipe head'.split(
  ' ',
);

function prose(seed, length) {
  let text = '';
  for (let at = seed * 7919 + 1; text.length < length; at = (at * 48271) % 2147483647) text += `${WORDS[at & 15]} `;
  return text.slice(0, length);
}

function chatBody(conversation, stream, bytes) {
  const body = {
    model: MODEL,
    stream,
    messages: [
      { role: 'system', content: SYSTEM[conversation % SYSTEM.length] },
      { role: 'user', content: `Question ${conversation}: ` },
    ],
    temperature: 0.7,
    max_tokens: 256,
  };
  body.messages[1].content += prose(conversation, Math.max(0, bytes - JSON.stringify(body).length));
  return JSON.stringify(body);
}

/** A whole request with `body`, for the path `endpoint` of the API. */
export function requestBytes({ port, path = '/v1', headers = {} }, body, endpoint = 'chat/completions') {
  const head = [
    `POST ${path}/${endpoint} HTTP/1.1`,
    `Host: 127.0.0.1:${port}`,
    'Connection: keep-alive',
    'Accept: application/json',
    'Content-Type: application/json',
    'User-Agent: OpenAI/JS 7.55.0',
    `Authorization: Bearer ${KEY}`,
    'X-Stainless-Lang: js',
    'X-Stainless-Package-Version: 7.55.0',
    'X-Stainless-Runtime: node',
    'X-Stainless-Retry-Count: 0',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}

/**
 * Whole requests for `127.0.0.1:port`, one per conversation, each with a body of `bodyBytes`. `path` is where the API
 * begins (`/v1`), `headers` are what a peer wants beyond those of the SDK.
 */
export function requests(load) {
  const count = load.bodyBytes > 65_536 ? 4 : CONVERSATIONS;
  return Array.from({ length: count }, (_, index) => requestBytes(load, chatBody(index, load.stream, load.bodyBytes)));
}

/** The response to every request without streaming: about 600 bytes. */
export const ANSWER = JSON.stringify({
  id: 'chatcmpl-7d3a9b1c5e2f4a6080c2d4e6f8a0b2c4',
  object: 'chat.completion',
  created: 1760000000,
  model: MODEL,
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: prose(1, 210).trim(), refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage: {
    prompt_tokens: 196,
    completion_tokens: 54,
    total_tokens: 250,
    prompt_tokens_details: { cached_tokens: 128 },
  },
  system_fingerprint: 'fp_4c2f1a',
});

/** Digits of a time stamp: microseconds of the monotonic clock, which all processes share. */
export const STAMP_DIGITS = 15;
/** Every event begins with this, then its stamp. */
export const STAMP_PREFIX = 'data: {"t_us":1';

const eventRest = (delta, finish) => {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: finish }];
  const fields = {
    id: 'chatcmpl-7d3a9b1c5e2f',
    object: 'chat.completion.chunk',
    created: 1760000000,
    model: MODEL,
    choices,
  };
  return `,${JSON.stringify(fields).slice(1)}\n\n`;
};
const TOKEN_REST = eventRest({ content: ' a word or two' }, null);
const LAST_REST = eventRest({}, 'stop');
const DONE = 'data: [DONE]\n\n';

/** Microseconds of the monotonic clock. */
export function nowUs() {
  return Number(process.hrtime.bigint() / 1000n);
}

/** Event `index` (0 to 63) as sent at `us`; the last one brings the end of the stream with it. */
export function eventText(index, us) {
  const head = STAMP_PREFIX + String(us).padStart(STAMP_DIGITS, '0');
  return index === EVENTS - 1 ? head + LAST_REST + DONE : head + TOKEN_REST;
}

export const EVENT_BYTES = eventText(0, 0).length;
/** Bytes of a whole stream. */
export const STREAM_BYTES = (EVENTS - 1) * EVENT_BYTES + eventText(EVENTS - 1, 0).length;
