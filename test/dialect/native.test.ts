// Requests to Ollama, TGI, SGLang and vLLM on their own paths, and to paths of which nothing is known: their limits are read and
// lowered where each server reads them, and their counts are believed as far as they can be true.

import fc from 'fast-check';
import t from 'tap';
import { AnswerJudge } from '../../src/dialect/answer.ts';
import { type Scan, scanBody, type ScannedBody } from '../../src/dialect/body-scan.ts';
import { type NativeRequest, nativeRequest } from '../../src/dialect/native.ts';
import { edited } from '../../src/dialect/output-limit.ts';
import { tokenBounds } from '../../src/dialect/token-bounds.ts';
import { UsageWatch } from '../../src/dialect/usage.ts';

function scanned(body: Buffer): ScannedBody {
  const scan: Scan = scanBody(body);
  if (!scan.ok) throw new Error(JSON.stringify(scan.errors));
  return scan;
}

function request(path: string, text: string): NativeRequest {
  const body = Buffer.from(text);
  return nativeRequest(path, body, scanned(body));
}

function limited(path: string, text: string, limit = 9): unknown {
  const body = Buffer.from(text);
  return JSON.parse(edited(body, nativeRequest(path, body, scanned(body)).edits(limit)).toString());
}

const BODIES: readonly [path: string, before: string, after: string, limit: number | undefined, answers?: number][] = [
  ['/api/generate', '{"model":"m","prompt":"p"}', '{"options":{"num_predict":9},"model":"m","prompt":"p"}', undefined],
  ['/api/chat', '{"model":"m","options":{}}', '{"model":"m","options":{"num_predict":9}}', undefined],
  ['/api/chat/', '{"model":"m","options":{"seed":1}}', '{"model":"m","options":{"num_predict":9,"seed":1}}', undefined],
  ['/api/chat', '{"model":"m","options":{"num_predict":-1}}', '{"model":"m","options":{"num_predict":9}}', undefined],
  ['/api/chat', '{"model":"m","options":{"num_predict":7}}', '{"model":"m","options":{"num_predict":7}}', 7],
  ['/api/chat', '{"model":"m","options":{"num_predict":70}}', '{"model":"m","options":{"num_predict":9}}', 70],
  ['/api/chat', '{"model":"m","options":null}', '{"model":"m","options":{"num_predict":9}}', undefined],
  [
    '/generate',
    '{"model":"m","inputs":"p"}',
    '{"parameters":{"max_new_tokens":9},"model":"m","inputs":"p"}',
    undefined,
  ],
  [
    '/generate_stream',
    '{"model":"m","inputs":"p","parameters":{"max_new_tokens":50,"best_of":3}}',
    '{"model":"m","inputs":"p","parameters":{"max_new_tokens":9,"best_of":3}}',
    50,
    3,
  ],
  [
    '/generate',
    '{"model":"m","text":["a","b"],"sampling_params":[{"max_new_tokens":5},{"n":2}]}',
    '{"model":"m","text":["a","b"],"sampling_params":[{"max_new_tokens":5},{"max_new_tokens":9,"n":2}]}',
    undefined,
    4,
  ],
  [
    '/generate',
    '{"model":"m","input_ids":[1,2],"sampling_params":{"max_new_tokens":5}}',
    '{"model":"m","input_ids":[1,2],"sampling_params":{"max_new_tokens":5}}',
    5,
  ],
  ['/generate', '{"model":"m","prompt":"p"}', '{"max_tokens":9,"model":"m","prompt":"p"}', undefined],
  ['/generate', '{"model":"m","prompt":"p","max_tokens":4}', '{"model":"m","prompt":"p","max_tokens":4}', 4],
  // Of a path of which nothing is known, what is there is lowered and nothing is added.
  ['/other', '{"model":"m","inputs":"p"}', '{"model":"m","inputs":"p"}', undefined],
  [
    '/other',
    '{"model":"m","max_new_tokens":50,"parameters":{"max_new_tokens":50},"options":{"num_predict":50}}',
    '{"model":"m","max_new_tokens":9,"parameters":{"max_new_tokens":9},"options":{"num_predict":9}}',
    undefined,
  ],
];

t.test('reads and lowers the limit where the server of a path reads it', async (t) => {
  for (const [path, before, after, limit, answers = 1] of BODIES) {
    t.strictSame(limited(path, before), JSON.parse(after), `${path} ${before}`);
    t.match(request(path, before), { limit, answers }, `${path} ${before}`);
  }
});

t.test('of two members of one name a server may read the first or the last', async (t) => {
  const text = '{"model":"m","options":{"num_predict":1,"num_predict":50},"options":null,"options":{"num_predict":60}}';
  const body = Buffer.from(text);
  const after = edited(body, nativeRequest('/api/chat', body, scanned(body)).edits(9)).toString();
  t.equal(
    after,
    '{"model":"m","options":{"num_predict":1,"num_predict":9},"options":{"num_predict":9},"options":{"num_predict":9}}',
  );
});

t.test('whatever a body says, no limit that a server may read is higher, and all else stays', async () => {
  const value = fc.oneof(fc.nat(1000), fc.constantFrom(null, -1, '7', '70', 1.5, true));
  const inner = fc.dictionary(fc.constantFrom('num_predict', 'max_new_tokens', 'max_tokens', 'seed'), value);
  const outer = fc.oneof(inner, fc.constant(null), fc.array(inner, { maxLength: 2 }));
  const members = fc.record(
    { options: outer, parameters: outer, sampling_params: outer, inputs: fc.string(), text: fc.string() },
    { requiredKeys: [] },
  );
  const paths = fc.constantFrom('/api/chat', '/generate', '/other');
  fc.assert(
    fc.property(paths, members, fc.constantFrom(...['', ' ', '\n']), (path, each, space) => {
      const before = { model: 'm', ...each };
      const after = limited(path, JSON.stringify(before, null, space), 9) as Record<string, unknown>;
      const check = (from: unknown, to: unknown, isTop: boolean): boolean => {
        if (typeof to !== 'object' || to === null) return true;
        if (Array.isArray(to)) return to.every((one, at) => check((from as unknown[])[at], one, false));
        return Object.entries(to).every(([name, one]) => {
          if (['num_predict', 'max_new_tokens', 'max_tokens'].includes(name))
            return (one as number) <= 9 && (one as number) >= 0;
          const old = (from as Record<string, unknown> | null | undefined)?.[name];
          return typeof one === 'object' && one !== null ? check(old, one, false) : isTop || one === old;
        });
      };
      return check(before, after, true);
    }),
    { numRuns: 2000 },
  );
});

/** Sends an answer in pieces and says what was counted. */
function counted(path: string, body: string, type: string, pieces: readonly string[], bytesPerToken = 4): unknown {
  const { answers, api } = request(path, body);
  const judge = new AnswerJudge(undefined, answers, true);
  judge.begin({ status: 200, contentType: type, encoded: false, contentLength: -1 });
  const watch = new UsageWatch({ bytesPerToken, native: api });
  watch.begin(judge);
  for (const piece of pieces) {
    const bytes = Buffer.from(piece);
    if (judge.streams) {
      judge.events(bytes);
      watch.events(bytes);
    } else {
      judge.data(bytes);
      watch.data(bytes);
    }
  }
  const { completionTokens, measured, promptTokens } = watch.result(100);
  return [promptTokens, completionTokens, measured];
}

const OLLAMA = '{"model":"m","prompt":"p"}';
const TGI = '{"model":"m","inputs":"p"}';
const SGLANG = '{"model":"m","text":"p"}';

t.test('reads the counts of Ollama, TGI and SGLang', async (t) => {
  const lines = ['{"response":"Hel","done":false}\n', '{"response":"lo","done":false}\n'];
  const last = '{"response":"","done":true,"prompt_eval_count":26,"eval_count":2}\n';
  t.same(counted('/api/generate', OLLAMA, 'application/x-ndjson', [...lines, last]), [26, 2, true]);
  t.same(counted('/api/generate', OLLAMA, 'application/x-ndjson', [...lines, last.slice(0, 40), last.slice(40)]), [
    26,
    2,
    true,
  ]);
  t.same(counted('/api/chat', OLLAMA, 'application/json', ['{"message":{"content":"Hello"},"eval_count":2}']), [
    100,
    2,
    false,
  ]);
  const event = (text: string, rest: string): string => `data:{"token":{"id":1,"text":"${text}"},${rest}}\n\n`;
  const events = [event('Hello', '"generated_text":null,"details":null')];
  const end = event(' you', '"generated_text":"Hello you","details":{"generated_tokens":2,"input_length":7}');
  t.same(counted('/generate_stream', TGI, 'text/event-stream', [...events, end]), [7, 2, true]);
  const whole = '{"generated_text":"Hello","details":{"finish_reason":"length","generated_tokens":3,"prefill":[]}}';
  t.same(counted('/generate', TGI, 'application/json', [whole]), [100, 3, false]);
  const meta = (tokens: number): string =>
    `{"text":"Hello","meta_info":{"prompt_tokens":7,"completion_tokens":${tokens},"cached_tokens":3}}`;
  t.same(counted('/generate', SGLANG, 'application/json', [meta(3)]), [7, 3, true]);
  t.same(counted('/generate', SGLANG, 'text/event-stream', [`data: ${meta(1)}\n\n`, `data: ${meta(2)}\n\n`]), [
    7,
    2,
    true,
  ]);
});

t.test('counts the text of an answer without counts', async (t) => {
  const lines = ['{"response":"Hello you","done":false}\n{"resp', 'onse":"abc","done":false}\n'];
  t.same(counted('/api/generate', OLLAMA, 'application/x-ndjson', lines), [100, 3, false], '12 bytes of text');
  t.same(counted('/generate', TGI, 'application/json', ['{"generated_text":"Hello', ' you"}']), [100, 3, false]);
  const cut = '{"generated_text":"Hello';
  t.same(counted('/generate', TGI, 'application/json', [cut]), [100, cut.length / 4, false], 'no text is whole');
  const event = 'data: {"text":"12345678"}\n\n';
  t.same(counted('/generate', '{"model":"m","prompt":"p"}', 'text/event-stream', [event, event]), [100, 4, false]);
  t.same(counted('/other', OLLAMA, 'text/event-stream', ['data: {"x":"1234"}\n\n']), [100, 5, false], 'all bytes');
  const two = '[{"text":"12345678","meta_info":{"prompt_tokens":7,"completion_tokens":1}},{"text":"12345678"}]';
  const batch = '{"model":"m","text":["a","b"]}';
  t.same(counted('/generate', batch, 'application/json', [two]), [100, 4, false], 'each answer has counts of its own');
});

t.test('on other paths no count is believed beyond what was delivered', async (t) => {
  const usage = (prompt: number, completion: number): string =>
    `{"output":"12345678","usage":{"prompt_tokens":${prompt},"completion_tokens":${completion}}}`;
  t.same(counted('/other', OLLAMA, 'application/json', [usage(5, 2)]), [5, 2, true]);
  const planted = usage(5, 90_000);
  t.same(counted('/other', OLLAMA, 'application/json', [planted]), [5, planted.length, true]);
  const none = `data: {"text":"12345678","usage":{"prompt_tokens":5,"completion_tokens":0}}\n\n`;
  t.same(counted('/other', OLLAMA, 'text/event-stream', [none]), [5, 2, false], 'text is output');
  t.same(counted('/v1/embeddings', OLLAMA, 'application/json', ['{"data":[1.5],"usage":{"prompt_tokens":5}}']), [
    5,
    0,
    true,
  ]);
});

t.test('bounds what such a request may cost', async (t) => {
  const bounds = (path: string, text: string): object => {
    const body = Buffer.from(text);
    const scan = scanned(body);
    return tokenBounds(undefined, body, scan, 1000, nativeRequest(path, body, scan));
  };
  t.match(bounds('/generate', '{"model":"m","inputs":"p","parameters":{"max_new_tokens":50,"best_of":2}}'), {
    answers: 2,
    limit: 50,
  });
  t.match(bounds('/api/chat', '{"model":"m","options":{"num_predict":50}}'), { answers: 1, limit: 50 });
  t.match(bounds('/other', '{"model":"m","options":{"num_predict":50}}'), { answers: 1, limit: undefined });
  t.ok(
    (bounds('/api/chat', OLLAMA) as { mostPromptTokens: number }).mostPromptTokens > 1000,
    'with the system prompt of the server',
  );
});

t.test('reads the options of a thousand prompts, and refuses more', async (t) => {
  const asking = (member: string, count: number): string =>
    `{"model":"m","text":"p","${member}":[${Array(count).fill('{}').join(',')}]}`;
  const limitedTo = limited('/generate', asking('sampling_params', 1000)) as { sampling_params: object[] };
  t.same(limitedTo.sampling_params, Array(1000).fill({ max_new_tokens: 9 }));
  for (const [path, member] of [
    ['/generate', 'sampling_params'],
    ['/api/generate', 'options'],
    ['/other', 'parameters'],
  ] as const) {
    t.throws(() => request(path, asking(member, 1001)), {
      code: 'HR_REQUEST_INVALID',
      validation: [{ loc: ['body', member], msg: 'There should be at most 1000 objects', type: 'too_long' }],
    });
  }
});
