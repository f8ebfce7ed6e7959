// Requests that are translated for some CRNs: what each CRN is asked, and what the client gets. Real sockets, a fake translation.

import t, { type Test } from 'tap';
import { DIALECT_BITS } from '../../src/config/dialect-bits.ts';
import { type FormTranslator, translatedForm } from '../../src/upstream/request-form.ts';
import { bodyTurns } from '../../src/routing/index.ts';
import { Hedging } from '../../src/upstream/index.ts';
import { Bench, type Ask, type BenchOptions, type Run } from '../support/upstream-bench.ts';
import { fakeTranslation, type FakeTranslation } from '../support/fake-translation.ts';
import { answer, chunk, chunkedHead, delta, rawCrn, type RawCrn, type RawRequest } from '../support/upstream-crn.ts';

type Script = (request: RawRequest) => void;

const SSE = 'content-type: text/event-stream';
const JSON_TYPE = 'content-type: application/json';
const FINISH = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
const DONE = 'data: [DONE]\n\n';
const NOT_FOUND = '{"detail":"Not Found"}';
const WHOLE = '{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}';
const BODY = { model: 'm', messages: [{ role: 'user', content: 'hello' }] };

const pathOf = ({ head }: RawRequest): string => /^POST (\S+)/.exec(head)?.[1] ?? '';
const isChat = (request: RawRequest): boolean => pathOf(request) === '/v1/chat/completions';

/** A CRN that speaks chat completions alone. */
function chatOnly(chat: Script): Script {
  return (request) => {
    if (isChat(request)) chat(request);
    else request.socket.write(answer('404 Not Found', NOT_FOUND, JSON_TYPE));
  };
}

const wholeChat = chatOnly(({ socket }) => void socket.write(answer('200 OK', WHOLE, JSON_TYPE)));

function stream(...events: string[]): Script {
  return ({ socket }) => {
    socket.write(chunkedHead(SSE));
    for (const event of events) socket.write(chunk(event));
    socket.write(chunk(''));
  };
}

interface Asked {
  readonly b: Bench;
  readonly crns: readonly RawCrn[];
  readonly translation: FakeTranslation;
  readonly ask: (more?: Ask) => Run;
}

async function open(t: Test, scripts: readonly Script[], options: Partial<BenchOptions> = {}): Promise<Asked> {
  const crns = await Promise.all(scripts.map((script) => rawCrn(t, script)));
  const b = new Bench(t, { urls: crns.map(({ url }) => url), ...options });
  const translation = fakeTranslation();
  const ask = (more: Ask = {}): Run => b.ask({ path: '/v1/messages', stream: false, translation, body: BODY, ...more });
  return { b, crns, translation, ask };
}

const events = (text: string): string[] =>
  text
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => /^event: (.*)$/m.exec(event)?.[1] ?? event);

t.test(
  'a CRN that does not know the path is asked once more, in chat completions, and that is remembered',
  async (t) => {
    const { ask, b, crns, translation } = await open(t, [wholeChat]);
    const run = ask({
      query: '?beta=true',
      headers: ['anthropic-version', '2023-06-01', 'anthropic-beta', 'a', 'x-own', '1'],
    });
    await run.downstream.done();
    t.same(run.attempts, [
      [0, 'neutral', 'dialect unknown'],
      [0, 'ok', null],
    ]);
    const [own, chat] = (crns[0] as RawCrn).requests as [RawRequest, RawRequest];
    t.equal(pathOf(own), '/v1/messages?beta=true');
    t.match(own.head, /anthropic-version: 2023-06-01/);
    t.equal(pathOf(chat), '/v1/chat/completions');
    t.notMatch(chat.head, /anthropic/);
    t.match(chat.head, /\r\nx-own: 1\r\n/);
    t.same(JSON.parse(chat.body.toString()), { ...BODY, carried: true });
    t.same([run.downstream.status, run.downstream.text], [200, JSON.stringify({ kind: 'whole', of: WHOLE })]);
    t.same(run.downstream.values('x-headrace-translated'), ['messages-chat']);
    t.same(run.downstream.values('content-type'), ['application/json']);
    t.equal(run.downstream.contentLength, run.downstream.bytes);
    t.equal(b.budget.balance, 100, 'no retry of the budget is spent');

    const second = ask();
    await second.downstream.done();
    t.same(second.attempts, [[0, 'ok', null]]);
    t.equal(crns[0]?.requests.length, 3);
    t.same(translation.calls, ['request', 'answer', 'whole', 'request', 'answer', 'whole']);

    b.clock.advance(3_600_000);
    await ask().downstream.done();
    t.equal(crns[0]?.requests.length, 5, 'after an hour it is asked again');
  },
);

t.test('what is passed is passed byte for byte, and nothing is translated', async (t) => {
  const body = Buffer.from('{ "model":"m" ,"messages" : [] }');
  const text = '{ "type":"message","content" : [{"type":"text","text":"hi"}]}';
  const { ask, crns, translation } = await open(t, [
    ({ socket }) => void socket.write(answer('200 OK', text, JSON_TYPE, 'x-crn: 1')),
  ]);
  const run = ask({ body, query: '?beta=true', headers: ['anthropic-version', 'v'] });
  await run.downstream.done();
  t.same(crns[0]?.requests[0]?.body, body);
  t.equal(pathOf(crns[0]?.requests[0] as RawRequest), '/v1/messages?beta=true');
  t.match(crns[0]?.requests[0]?.head, /anthropic-version: v/);
  t.equal(run.downstream.text, text);
  t.same(run.downstream.values('x-headrace-translated'), []);
  t.same(run.downstream.values('x-crn'), ['1']);
  t.same(translation.calls, []);
});

t.test('a stream is translated event by event, and closed as the dialect wants it', async (t) => {
  const { ask } = await open(t, [
    chatOnly(stream(delta('a'), delta('b') + delta('c'), FINISH, 'data: {"choices":[],"usage":{}}\n\n', DONE)),
  ]);
  const run = ask({ stream: true });
  await run.downstream.done();
  t.same(events(run.downstream.text), ['text', 'text', 'text', 'end']);
  t.same(run.downstream.values('content-type'), ['text/event-stream']);
  t.equal(run.downstream.contentLength, -1);
  t.equal(run.downstream.ending, 'complete');
  t.same(run.attempts.at(-1), [0, 'ok', null]);
});

t.test(
  'a stream that ends behind its output without [DONE], or without its last blank line, is closed all the same',
  async (t) => {
    for (const last of [FINISH, FINISH.trimEnd()]) {
      const { ask } = await open(t, [chatOnly(stream(delta('a'), last))]);
      const run = ask({ stream: true });
      await run.downstream.done();
      t.same(events(run.downstream.text), ['text', 'end']);
      t.same(run.attempts.at(-1), [0, 'ok', null]);
    }
  },
);

t.test('a translated stream that breaks off ends as an error in the dialect of the client', async (t) => {
  const { ask, translation } = await open(t, [
    chatOnly(({ socket }) => {
      socket.write(chunkedHead(SSE));
      socket.write(chunk(`${delta('a')}data: {"choices"`), () => socket.destroy());
    }),
  ]);
  const run = ask({ stream: true });
  await run.downstream.done();
  t.same(events(run.downstream.text), ['text', 'error']);
  t.equal(run.downstream.errorCode, 'HR_STREAM_BROKEN');
  t.match(run.downstream.text, /"type":"error","error":\{"type":"api_error"/);
  t.notOk(translation.calls.includes('end'));
  t.same(run.attempts.at(-1), [0, 'failed', 'truncated']);
});

t.test('the number of the error event follows those of the translated events', async (t) => {
  const crn = await rawCrn(
    t,
    chatOnly(({ socket }) => {
      socket.write(chunkedHead(SSE));
      socket.write(chunk(delta('a') + delta('b')), () => socket.destroy());
    }),
  );
  const b = new Bench(t, { urls: [crn.url] });
  const run = b.ask({ path: '/v1/responses', translation: fakeTranslation('responses-chat') });
  await run.downstream.done();
  t.match(run.downstream.text, /event: error\ndata: .*"sequence_number":2[,}]/);
  t.same(run.downstream.values('x-headrace-translated'), ['responses-chat']);
});

t.test("a CRN's own error in mid-stream is translated, and no closing events follow", async (t) => {
  const { ask, translation } = await open(t, [chatOnly(stream(delta('a'), 'data: {"error":{"message":"no"}}\n\n'))]);
  const run = ask({ stream: true });
  await run.downstream.done();
  t.same(events(run.downstream.text), ['text', 'error']);
  t.notOk(translation.calls.includes('end'));
  t.same(run.attempts.at(-1), [0, 'failed', 'error event']);
});

t.test('errors of CRNs keep their status and are translated', async (t) => {
  const error = '{"error":{"message":"bad"}}';
  for (const [status, type] of [
    ['400 Bad Request', JSON_TYPE],
    ['401 Unauthorized', JSON_TYPE],
    ['413 Too Large', 'content-type: text/plain'],
    ['422 No', JSON_TYPE],
    ['501 Not Implemented', JSON_TYPE],
  ] as const) {
    const { ask, b } = await open(t, [
      chatOnly(({ socket }) => void socket.write(answer(status, error, type, 'etag: "1"'))),
    ]);
    const run = ask();
    await run.downstream.done();
    const code = Number(status.slice(0, 3));
    t.same([run.downstream.status, run.downstream.text], [code, JSON.stringify({ kind: `error ${code}`, of: error })]);
    t.same(run.downstream.values('content-type'), ['application/json']);
    t.same(run.downstream.values('etag'), []);
    t.same(run.downstream.values('x-headrace-translated'), ['messages-chat']);
    t.equal(run.downstream.contentLength, run.downstream.bytes);
    t.equal(b.inFlight, 0);
  }
});

t.test('a refusal that passes on for want of a better answer is translated, with its Retry-After', async (t) => {
  const { ask } = await open(t, [
    chatOnly(({ socket }) => void socket.write(answer('429 Busy', '{"error":"busy"}', JSON_TYPE, 'retry-after: 7'))),
  ]);
  const run = ask();
  await run.downstream.done();
  t.same(
    [run.downstream.status, run.downstream.text],
    [429, JSON.stringify({ kind: 'error 429', of: '{"error":"busy"}' })],
  );
  t.same(run.downstream.values('retry-after'), ['7']);
});

t.test('an error that is encoded, or whose body is too long or too late, is translated by its status', async (t) => {
  const scripts: readonly Script[] = [
    ({ socket }) => void socket.write(answer('400 Bad', Buffer.from([0x1f, 0x8b, 1]), 'content-encoding: gzip')),
    ({ socket }) => void socket.write(answer('400 Bad', 'x'.repeat(70_000))),
    ({ socket }) => void socket.write('HTTP/1.1 400 Bad\r\ncontent-length: 9\r\n\r\nha'),
  ];
  for (const script of scripts) {
    const { ask, b, crns } = await open(t, [chatOnly(script)]);
    const run = ask();
    await crns[0]?.arrived(2);
    while (!run.downstream.handedOver) {
      await new Promise((resolve) => setImmediate(resolve));
      b.clock.advance(50);
    }
    const of = '{"error":{"message":"The server answered with status 400"}}';
    t.same([run.downstream.status, run.downstream.text], [400, JSON.stringify({ kind: 'error 400', of })]);
    t.same(run.downstream.values('content-encoding'), []);
    t.equal(b.inFlight, 0);
  }
});

t.test('an answer that cannot be translated is one clear error, and no other CRN is asked', async (t) => {
  const head = (length: number): string => `HTTP/1.1 200 OK\r\n${JSON_TYPE}\r\ncontent-length: ${length}\r\n\r\n`;
  const scripts: readonly (readonly [string, boolean, Script])[] = [
    ['encoded', false, ({ socket }) => void socket.write(answer('200 OK', 'zip', JSON_TYPE, 'content-encoding: gzip'))],
    ['declared too long', false, ({ socket }) => void socket.write(`${head(17 * 1024 * 1024)}{"choices`)],
    [
      'too long',
      false,
      ({ socket }) => {
        socket.write(chunkedHead(JSON_TYPE));
        socket.write(chunk(Buffer.alloc(16 * 1024 * 1024 + 1, ' ')));
      },
    ],
    ['an event too long', true, stream(`data: {"choices":[{"delta":{"content":"${'x'.repeat(300_000)}"}}]}\n\n`)],
  ];
  for (const [what, isStream, script] of scripts) {
    const { ask, b, crns } = await open(t, [chatOnly(script), wholeChat]);
    const run = ask({ stream: isStream });
    await run.downstream.done();
    t.equal(run.error?.code, 'HR_ANSWER_UNTRANSLATABLE', what);
    t.equal(run.downstream.status, 502);
    t.same(run.attempts.at(-1), [0, 'neutral', 'untranslatable']);
    t.equal(crns[1]?.requests.length, 0);
    t.equal(b.inFlight, 0);
  }
});

t.test('one choice is enough of a translated answer, however many the client asks for', async (t) => {
  const { ask } = await open(t, [chatOnly(stream(delta('a'), FINISH))]);
  const run = ask({ stream: true, choices: 8 });
  await run.downstream.done();
  t.same(run.attempts, [
    [0, 'neutral', 'dialect unknown'],
    [0, 'ok', null],
  ]);
  t.strictSame(events(run.downstream.text), ['text', 'end']);
});

t.test('a long whole answer is held and translated as one', async (t) => {
  const long = JSON.stringify({ choices: [{ message: { content: 'y'.repeat(1_000_000) }, finish_reason: 'stop' }] });
  for (const write of [
    (request: RawRequest) => void request.socket.write(answer('200 OK', long, JSON_TYPE)),
    ({ socket }: RawRequest) => {
      socket.write(chunkedHead(JSON_TYPE));
      for (let at = 0; at < long.length; at += 100_000) socket.write(chunk(long.slice(at, at + 100_000)));
      socket.write(chunk(''));
    },
  ]) {
    const { ask } = await open(t, [chatOnly(write)]);
    const run = ask();
    await run.downstream.done();
    t.equal(run.downstream.text, JSON.stringify({ kind: 'whole', of: long }));
    t.equal(run.downstream.contentLength, run.downstream.bytes);
  }
});

/** Long answers as they wait for their turns: takes the first one, once it has come. */
function turnsOf(t: Test): () => Promise<() => void> {
  const waiting: (() => void)[] = [];
  let wake = (): void => {};
  t.teardown(() => Reflect.deleteProperty(bodyTurns, 'add'));
  bodyTurns.add = (account, bytes, handOver) => {
    t.same([account, bytes], ['acme', LONG.length]);
    waiting.push(handOver);
    wake();
  };
  return async () => {
    while (waiting.length === 0) await new Promise<void>((resolve) => (wake = resolve));
    return waiting.shift() as () => void;
  };
}

const LONG = JSON.stringify({ choices: [{ message: { content: 'y'.repeat(70_000) }, finish_reason: 'stop' }] });
const longChat = chatOnly(({ socket }) => void socket.write(answer('200 OK', LONG, JSON_TYPE)));

t.test('a long whole answer is translated in a turn of the account', async (t) => {
  const { ask, b, translation } = await open(t, [longChat]);
  b.declare(0, DIALECT_BITS.chat);
  const turn = turnsOf(t);
  const runs = [ask(), ask()];
  const turns = [await turn(), await turn()];
  t.same([b.inFlight, translation.calls.includes('whole')], [0, false], 'the CRN has done its work');
  for (const [at, run] of runs.entries()) {
    turns[at]?.();
    await run.downstream.done();
    t.equal(run.downstream.text, JSON.stringify({ kind: 'whole', of: LONG }));
    t.same(run.attempts, [[0, 'ok', null]]);
    t.equal(translation.calls.filter((call) => call === 'whole').length, at + 1);
  }
});

t.test('a long whole answer whose client goes before its turn is not translated', async (t) => {
  for (const isCut of [false, true]) {
    const { ask, b, translation } = await open(t, [longChat]);
    b.declare(0, DIALECT_BITS.chat);
    const turn = turnsOf(t);
    const { attempts, downstream } = ask();
    const handOver = await turn();
    if (isCut) downstream.listener?.onCut();
    else downstream.leave();
    t.same(attempts, [[0, 'neutral', 'client gone']]);
    handOver();
    t.same([downstream.status, translation.calls.includes('whole')], [isCut ? 503 : 0, false]);
  }
});

t.test('a defect in the turn of a long whole answer ends its request with an error', async (t) => {
  const { ask, b, translation } = await open(t, [longChat]);
  b.declare(0, DIALECT_BITS.chat);
  const turn = turnsOf(t);
  const run = ask();
  const handOver = await turn();
  translation.calls.push = () => {
    throw new Error('a defect');
  };
  handOver();
  t.equal(run.error?.code, 'HR_INTERNAL');
  t.same(run.attempts, [[0, 'neutral', 'internal']]);
});

t.test('a whole answer that is cut is a failure of its CRN, and another one answers', async (t) => {
  const { ask } = await open(t, [
    chatOnly(({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\n${JSON_TYPE}\r\ncontent-length: 900\r\n\r\n${WHOLE.slice(0, 20)}`, () =>
        socket.destroy(),
      );
    }),
    wholeChat,
  ]);
  const run = ask();
  await run.downstream.done();
  t.equal(run.downstream.status, 200);
  t.same(
    run.attempts.map(([crn, , failure]) => [crn, failure]),
    [
      [0, 'dialect unknown'],
      [0, 'truncated'],
      [1, 'dialect unknown'],
      [1, null],
    ],
  );
});

t.test(
  'a whole answer that is none in the dialect of its CRN is a failure of it, and another one answers',
  async (t) => {
    const { ask, b } = await open(t, [
      chatOnly(({ socket }) => void socket.write(answer('200 OK', '{"output":[1]}', JSON_TYPE))),
      wholeChat,
    ]);
    const run = ask();
    await run.downstream.done();
    t.equal(run.downstream.text, JSON.stringify({ kind: 'whole', of: WHOLE }));
    t.same(run.attempts[1], [0, 'failed', 'not an answer']);
    t.equal(b.inFlight, 0);
  },
);

t.test('an event that is too long behind others ends the stream with an error event between events', async (t) => {
  const { ask, crns } = await open(t, [
    chatOnly(({ socket }) => {
      socket.write(chunkedHead(SSE));
      socket.write(chunk(delta('a')));
    }),
  ]);
  const run = ask({ stream: true });
  await run.downstream.until(() => run.downstream.bytes > 0);
  const socket = crns[0]?.requests[1]?.socket;
  socket?.write(chunk(`data: {"choices":[{"delta":{"content":"${'x'.repeat(300_000)}`));
  await run.downstream.done();
  t.same(events(run.downstream.text), ['text', 'error']);
  t.equal(run.downstream.errorCode, 'HR_ANSWER_UNTRANSLATABLE');
  t.equal(run.downstream.ending, 'complete');
  t.same(run.attempts.at(-1), [0, 'neutral', 'untranslatable']);
});

t.test('the gateway shuts down in the middle of a translated stream: an error event of the dialect', async (t) => {
  const { ask } = await open(t, [
    chatOnly(({ socket }) => {
      socket.write(chunkedHead(SSE));
      socket.write(chunk(`${delta('a')}data: {"cho`));
    }),
  ]);
  const run = ask({ stream: true });
  await run.downstream.until(() => run.downstream.bytes > 0);
  run.downstream.listener?.onCut();
  t.same(events(run.downstream.text), ['text', 'error']);
  t.equal(run.downstream.errorCode, 'HR_DRAINING');
});

t.test('comments keep a translated stream alive before its first event and between events', async (t) => {
  const { ask, b, crns } = await open(
    t,
    [
      chatOnly(
        ({ socket }) => void socket.write(chunkedHead(SSE) + ': wait\n\n'.length.toString(16) + '\r\n: wait\n\n\r\n'),
      ),
    ],
    { relay: { keepAliveMs: 100 } },
  );
  const run = ask({ stream: true });
  await crns[0]?.arrived(2);
  while (!run.downstream.text.includes(': keep-alive')) {
    await new Promise((resolve) => setImmediate(resolve));
    b.clock.advance(50);
  }
  const socket = crns[0]?.requests[1]?.socket;
  socket?.write(Buffer.concat([chunk(delta('a')), chunk(FINISH), chunk(DONE), chunk('')]));
  await run.downstream.done();
  t.same(
    events(run.downstream.text).filter((event) => !event.startsWith(':')),
    ['text', 'end'],
  );
});

t.test(
  'a request that cannot be carried goes to CRNs that speak its dialect, and is refused where none is left',
  async (t) => {
    const text = '{"type":"message","content":[{"type":"text","text":"hi"}]}';
    const speaks: Script = ({ socket }) => void socket.write(answer('200 OK', text, JSON_TYPE));
    const { ask, crns } = await open(t, [wholeChat, speaks]);
    const body = { ...BODY, refused: 1 };
    const passed = ask({ body });
    await passed.downstream.done();
    t.equal(passed.downstream.text, text);
    t.same(passed.attempts, [
      [0, 'neutral', 'dialect unknown'],
      [1, 'ok', null],
    ]);
    t.equal(crns[0]?.requests.length, 1);

    const only = await open(t, [wholeChat]);
    for (const attempts of [1, 0]) {
      const run = only.ask({ body });
      await run.downstream.done();
      t.equal(run.error?.code, 'HR_REQUEST_UNTRANSLATABLE');
      t.equal(run.downstream.status, 422);
      t.equal(run.attempts.length, attempts);
      t.equal(only.b.inFlight, 0);
    }
  },
);

t.test(
  'where nothing is translated, a CRN that does not know the path is passed over, and the last one says so',
  async (t) => {
    const completions = '{"choices":[{"text":"hi","finish_reason":"stop"}]}';
    const knows: Script = ({ socket }) => void socket.write(answer('200 OK', completions, JSON_TYPE));
    const two = await open(t, [wholeChat, knows]);
    const ask: Ask = { path: '/v1/completions', translation: null };
    const run = two.ask(ask);
    await run.downstream.done();
    t.equal(run.downstream.text, completions);
    t.equal(two.b.budget.balance, 100);

    const one = await open(t, [wholeChat]);
    for (let turn = 0; turn < 2; turn++) {
      const none = one.ask(ask);
      await none.downstream.done();
      t.same([none.downstream.status, none.downstream.text], [404, NOT_FOUND]);
    }
  },
);

t.test('a CRN with declared dialects is never asked for another one, and its 404 teaches nothing', async (t) => {
  const { ask, b, crns } = await open(t, [wholeChat]);
  b.declare(0, DIALECT_BITS.chat);
  await ask().downstream.done();
  t.same(crns[0]?.requests.map(pathOf), ['/v1/chat/completions']);

  b.declare(0, DIALECT_BITS.messages);
  const run = ask();
  await run.downstream.done();
  t.same([run.downstream.status, run.downstream.text], [404, NOT_FOUND]);
  t.equal(crns[0]?.requests.length, 2);

  b.declare(0, DIALECT_BITS.completions);
  const none = ask();
  await none.downstream.done();
  t.equal(none.error?.code, 'HR_ROUTE_UNKNOWN_DIALECT');
  t.equal(crns[0]?.requests.length, 2);
});

t.test('a 404 for a model, or for a thing that the request names, is no word about the dialect', async (t) => {
  for (const body of [
    '{"error":{"message":"The model `m` does not exist"}}',
    '{"error":{"message":"Response with id \'r\' not found."}}',
  ]) {
    const { ask, b, crns } = await open(t, [
      ({ socket }) => void socket.write(answer('404 Not Found', body, JSON_TYPE)),
    ]);
    const run = ask();
    await run.downstream.done();
    t.same([run.downstream.status, run.downstream.text], [404, body]);
    t.equal(crns[0]?.requests.length, 1);
    t.equal(b.board.lackedSinceMs(0, DIALECT_BITS.messages, b.clock.now()), 0);
  }
});

t.test('a CRN that lacks both dialects says so itself, and is asked once more only after it was learned', async (t) => {
  const { ask, crns } = await open(t, [
    ({ socket }) => void socket.write(answer('404 Not Found', NOT_FOUND, JSON_TYPE)),
  ]);
  for (const asked of [2, 3]) {
    const run = ask();
    await run.downstream.done();
    t.same([run.downstream.status, run.downstream.text], [404, NOT_FOUND]);
    t.equal(crns[0]?.requests.length, asked);
  }
});

t.test('a request whose connection opens when its CRN is known to lack the dialect is translated too', async (t) => {
  const { ask, b, crns } = await open(t, [wholeChat]);
  const run = ask();
  b.clock.advance(1);
  b.board.noteLack(0, DIALECT_BITS.messages, b.clock.now(), b.clock.now());
  b.clock.advance(1);
  await run.downstream.done();
  t.equal(run.downstream.status, 200);
  t.same(crns[0]?.requests.map(pathOf), ['/v1/messages', '/v1/chat/completions']);
});

t.test('a lack that a restart cleared is not learned again from a request that was sent before', async (t) => {
  let late: RawRequest | undefined;
  const { ask, b, crns } = await open(t, [
    chatOnly(({ socket }) => void socket.write(answer('200 OK', WHOLE, JSON_TYPE))),
  ]);
  const held = await rawCrn(t, (request) => void (late ??= request));
  const other = new Bench(t, { urls: [held.url] });
  const run = other.ask({ path: '/v1/messages', stream: false, translation: fakeTranslation() });
  await held.arrived(1);
  other.clock.advance(1);
  other.board.clearLacks(0, other.clock.now());
  late?.socket.write(answer('404 Not Found', NOT_FOUND, JSON_TYPE));
  await held.arrived(2);
  t.equal(other.board.lackedSinceMs(0, DIALECT_BITS.messages, other.clock.now()), 0);
  held.requests[1]?.socket.write(answer('200 OK', WHOLE, JSON_TYPE));
  await run.downstream.done();
  t.equal(run.downstream.status, 200);

  await ask().downstream.done();
  b.clock.advance(1);
  b.board.clearLacks(0, b.clock.now());
  await ask().downstream.done();
  t.equal(crns[0]?.requests.length, 4);
});

/** A CRN whose chat streams break off behind these events. */
function breaksAfter(...texts: string[]): Script {
  return chatOnly(({ socket }) => {
    socket.write(chunkedHead(SSE));
    socket.write(chunk(texts.map(delta).join('')), () => socket.destroy());
  });
}

t.test(
  'a translated stream that breaks off is continued by another CRN, which is asked in chat completions too',
  async (t) => {
    const goesOn = stream(delta('c'), FINISH, DONE);
    const { ask, b, crns, translation } = await open(t, [breaksAfter('a', 'b'), goesOn], { continuation: 'prefill' });
    const run = ask({ stream: true });
    await run.downstream.done();
    t.same(events(run.downstream.text), ['text', 'text', 'text', 'end']);
    t.same(
      [...run.downstream.text.matchAll(/"text":"(.)","sequence_number":(\d)/g)].map(([, text, at]) => `${text}${at}`),
      ['a0', 'b1', 'c2'],
      'one translator carries the whole answer',
    );
    t.equal(translation.calls.filter((call) => call === 'answer').length, 1);
    const last = crns[1]?.requests[0] as RawRequest;
    t.equal(pathOf(last), '/v1/chat/completions');
    t.match(JSON.parse(last.body.toString()), { carried: true, messages: [{}, { role: 'assistant', content: 'ab' }] });
    t.same(run.attempts.at(-1), [1, 'ok', null]);
    t.equal(b.inFlight, 0);
  },
);

t.test('a translated stream is not continued by a CRN that does not speak chat completions', async (t) => {
  const { ask, b, crns } = await open(t, [breaksAfter('a'), stream(delta('c'))], { continuation: 'prefill' });
  b.declare(1, DIALECT_BITS.messages);
  const run = ask({ stream: true });
  await run.downstream.done();
  t.same(events(run.downstream.text), ['text', 'error']);
  t.equal(crns[1]?.requests.length, 0);
  t.equal(b.inFlight, 0);
});

t.test('a CRN that was thought to lack a dialect, and answers, speaks it from then on', async (t) => {
  const completions = '{"choices":[{"text":"hi","finish_reason":"stop"}]}';
  const { ask, b } = await open(t, [({ socket }) => void socket.write(answer('200 OK', completions, JSON_TYPE))]);
  const { clock, board } = b;
  board.noteLack(0, DIALECT_BITS.completions, clock.now(), clock.now());
  await ask({ path: '/v1/completions', translation: null }).downstream.done();
  t.equal(board.lackedSinceMs(0, DIALECT_BITS.completions, clock.now()), 0);
});

t.test('a path in another spelling is translated after a 404, and teaches nothing', async (t) => {
  const { ask, b, crns } = await open(t, [wholeChat]);
  for (const asked of [2, 4]) {
    const run = ask({ unknownPath: 'believed' });
    await run.downstream.done();
    t.equal(run.downstream.status, 200);
    t.equal(crns[0]?.requests.length, asked);
  }
  t.equal(b.board.lackedSinceMs(0, DIALECT_BITS.messages, b.clock.now()), 0);
  const passed = ask({ unknownPath: 'passed' });
  await passed.downstream.done();
  t.same([passed.downstream.status, passed.downstream.text], [404, NOT_FOUND]);
});

t.test('the hedge of a request is asked in the form that its CRN needs, and wins or loses with it', async (t) => {
  const text = '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}';
  const passedStream = `event: message_delta\ndata: ${text}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n`;
  for (const winner of [0, 1]) {
    const outcomes: string[] = [];
    const hedging = new Hedging(1, (outcome) => outcomes.push(outcome));
    const body = Buffer.from(JSON.stringify(BODY));
    for (let at = 0; at < 20; at++) hedging.note('m', body.byteLength, 10);
    const speaks: Script = () => undefined;
    const { ask, b, crns, translation } = await open(t, [speaks, speaks], { hedging });
    b.declare(0, DIALECT_BITS.messages);
    b.declare(1, DIALECT_BITS.chat);
    const run = ask({ body, stream: true });
    await crns[0]?.arrived(1);
    b.clock.advance(20);
    await crns[1]?.arrived(1);
    t.same(
      crns.map(({ requests }) => pathOf(requests[0] as RawRequest)),
      ['/v1/messages', '/v1/chat/completions'],
    );
    const { socket } = (crns[winner] as RawCrn).requests[0] as RawRequest;
    socket.write(chunkedHead(SSE));
    socket.write(winner === 0 ? chunk(passedStream) : chunk(delta('a') + FINISH + DONE));
    socket.write(chunk(''));
    await run.downstream.done();
    if (winner === 0) t.equal(run.downstream.text, passedStream);
    else t.same(events(run.downstream.text), ['text', 'end']);
    t.same(run.downstream.values('x-headrace-translated'), winner === 0 ? [] : ['messages-chat']);
    t.same(translation.calls.includes('answer'), winner === 1);
    t.same(outcomes, [winner === 0 ? 'lost' : 'won']);
    t.equal(b.inFlight, 0);
  }
});

t.test('a head is written before the body that is translated while no other attempt sends that', (t) => {
  const translation = fakeTranslation();
  const lines = { common: '', dialect: '', credential: '', account: '' };
  const body = Buffer.from(JSON.stringify(BODY));
  const own = { ...{ path: '/v1/messages', lines, body, dialect: undefined, choices: 1 }, translator: null };
  const form = translatedForm({ ...own, unknownPath: 'passed' }, translation);
  const translator = form.translator as FormTranslator;
  const rooms = [1, 2, 1].map((unsent) => {
    translator.unsent = unsent;
    return form.room;
  });
  t.same(rooms, [translator.request.room, 0, translator.request.room]);
  t.equal({ ...form, body }.room, undefined, 'a body that is made of it has none');
  t.end();
});

t.test('where all CRNs are known to lack a dialect, one of them says so, and the others are not asked', async (t) => {
  const { ask, b, crns } = await open(t, [wholeChat, wholeChat, wholeChat]);
  const asked = (): number => crns.reduce((sum, { requests }) => sum + requests.length, 0);
  for (const expected of [3, 4]) {
    const run = ask({ path: '/v1/completions', translation: null });
    await run.downstream.done();
    t.same([run.downstream.status, run.downstream.text], [404, NOT_FOUND]);
    t.equal(asked(), expected);
    b.clock.advance(1);
  }
});

t.test('a translated stream with an event that is too long is not continued', async (t) => {
  const { ask, crns } = await open(
    t,
    [
      chatOnly(({ socket }) => {
        socket.write(chunkedHead(SSE));
        socket.write(chunk(delta('a')));
      }),
      stream(delta('b'), FINISH, DONE),
    ],
    { continuation: 'prefill' },
  );
  const run = ask({ stream: true });
  await run.downstream.until(() => run.downstream.bytes > 0);
  crns[0]?.requests[1]?.socket.write(chunk(`data: {"choices":[{"delta":{"content":"${'x'.repeat(300_000)}`));
  await run.downstream.done();
  t.same(events(run.downstream.text), ['text', 'error']);
  t.equal(crns[1]?.requests.length, 0);
});

t.test('a CRN that knows neither path is asked twice, also when its process changes meanwhile', async (t) => {
  const crn = await rawCrn(t, () => undefined);
  const b = new Bench(t, { urls: [crn.url] });
  const run = b.ask({ path: '/v1/messages', stream: false, translation: fakeTranslation() });
  for (const at of [0, 1]) {
    await crn.arrived(at + 1);
    b.clock.advance(1);
    b.board.clearLacks(0, b.clock.now());
    crn.requests[at]?.socket.write(answer('404 Not Found', NOT_FOUND, JSON_TYPE));
  }
  await run.downstream.done();
  t.same([run.downstream.status, run.downstream.text], [404, NOT_FOUND]);
  t.equal(crn.requests.length, 2);
});
