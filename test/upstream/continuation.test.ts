// Text streams that break off are continued on another CRN: the client sees one stream with the text of an uncut one, wherever it was
// cut. CRNs are simulated engines that generate the same text for the same prompt; sockets are real, time is a manual clock.
import t from 'tap';
import { createHost, type Fault, type Host } from '../../src/host/index.ts';
import { parseEvents } from '../../src/net/sse.ts';
import { Bench, type Run, type Test } from '../support/upstream-bench.ts';
import { chunk, chunkedHead, delta, rawCrn } from '../support/upstream-crn.ts';

const PROMPT = 'Tell me of a river.';
const TOKENS = 24;
const CHAT = '/v1/chat/completions';

interface Chunk {
  readonly id: string;
  readonly choices: readonly { readonly delta?: { content?: string; role?: string }; readonly text?: string }[];
}

async function host(t: Test): Promise<Host> {
  const started = createHost({ models: ['m'], engine: { speed: 'virtual' }, seed: 7 });
  await started.listen();
  t.teardown(() => started.kill());
  return started;
}

const bodyOf = (path: string): object => ({
  ...{ model: 'm', stream: true, temperature: 0, max_tokens: TOKENS, ignore_eos: true },
  ...(path === '/v1/completions' ? { prompt: PROMPT } : { messages: [{ role: 'user', content: PROMPT }] }),
});

const chunksOf = ({ downstream }: Run): Chunk[] =>
  parseEvents(downstream.text).flatMap(({ data }) => (data === '[DONE]' ? [] : [JSON.parse(data) as Chunk]));

const textOf = (run: Run): string =>
  chunksOf(run)
    .map(({ choices: [first] }) => first?.delta?.content ?? first?.text ?? '')
    .join('');

t.test('the joined text is byte for byte that of an uncut stream, wherever it is cut', async (t) => {
  const [first, second] = [await host(t), await host(t)];
  const b = new Bench(t, { urls: [first.url, second.url], continuation: 'vllm', burst: 1000 });
  const ask = async (fault: Fault | null): Promise<Run> => {
    await first.setFault(fault === null ? null : [{ fault }]);
    const run = b.ask({ body: bodyOf(CHAT) });
    await run.downstream.done();
    return run;
  };
  const whole = textOf(await ask(null));
  t.ok(whole.length > TOKENS, whole);
  for (let cut = 1; cut < TOKENS; cut++) {
    for (const fault of [{ resetAfter: cut }, { truncateAfter: cut, partial: true }]) {
      const run = await ask(fault);
      t.equal(textOf(run), whole, `cut behind ${cut} events`);
      t.match(run.downstream.text, /data: \[DONE\]\n\n$/);
      t.equal(run.downstream.errorCode, '');
      t.equal(new Set(chunksOf(run).map(({ id }) => id)).size, 1, 'one answer');
      t.equal(chunksOf(run).filter(({ choices: [choice] }) => choice?.delta?.role !== undefined).length, 1);
      t.same(run.attempts, [
        [0, 'failed', 'truncated'],
        [1, 'ok', null],
      ]);
      t.equal(b.inFlight, 0);
    }
  }
});

t.test('completions go on behind the prompt and what has passed', async (t) => {
  const [first, second] = [await host(t), await host(t)];
  const b = new Bench(t, { urls: [first.url, second.url], continuation: 'vllm' });
  const direct = new Bench(t, { urls: [second.url] });
  const path = '/v1/completions';
  for (const cut of [1, 7, TOKENS - 1]) {
    await first.setFault([{ fault: { resetAfter: cut } }]);
    const run = b.ask({ path, body: bodyOf(path) });
    await run.downstream.done();
    const begun = chunksOf(run)
      .slice(0, cut)
      .map(({ choices: [choice] }) => choice?.text ?? '')
      .join('');
    const rest = direct.ask({ path, body: { ...bodyOf(path), prompt: PROMPT + begun, max_tokens: TOKENS - cut } });
    await rest.downstream.done();
    t.equal(textOf(run), begun + textOf(rest));
    t.equal(chunksOf(run).length, TOKENS + 1);
  }
});

t.test('what is continued is the message of the assistant, and the limit is what is left', async (t) => {
  const broken = await rawCrn(t, ({ socket }) => {
    socket.write(chunkedHead('content-type: text/event-stream') + chunk(delta('one') + delta(' two')).toString());
    setImmediate(() => socket.destroy());
  });
  const next = await rawCrn(t, ({ socket }) => {
    socket.write(chunkedHead('content-type: text/event-stream'));
    socket.write(Buffer.concat([chunk(`${delta(' three')}data: [DONE]\n\n`), chunk('')]));
  });
  for (const kind of ['vllm', 'prefill'] as const) {
    const b = new Bench(t, { urls: [broken.url, next.url], continuation: kind });
    const run = b.ask({ body: bodyOf(CHAT) });
    await run.downstream.done();
    t.equal(textOf(run), 'one two three');
    t.same(JSON.parse(next.requests.at(-1)?.body.toString() as string), {
      ...bodyOf(CHAT),
      messages: [
        { role: 'user', content: PROMPT },
        { role: 'assistant', content: 'one two' },
      ],
      max_tokens: TOKENS - 2,
      ...(kind === 'vllm' && { continue_final_message: true, add_generation_prompt: false }),
    });
  }
});

const REASONING = 'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}\n\n';

t.test('nothing but plain text of one choice is continued', async (t) => {
  const cases: readonly (readonly [more: object, events: string])[] = [
    [{ tools: [{ type: 'function', function: { name: 'f' } }] }, delta('a')],
    [{ n: 2 }, delta('a')],
    [{ logprobs: true }, delta('a')],
    [{ response_format: { type: 'json_object' } }, delta('a')],
    [{}, REASONING + delta('a')],
    [{}, 'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}\n\n'],
  ];
  for (const [more, events] of cases) {
    const broken = await rawCrn(t, ({ socket }) => {
      socket.write(chunkedHead('content-type: text/event-stream') + chunk(events).toString());
      setImmediate(() => socket.destroy());
    });
    const next = await rawCrn(t, () => undefined);
    const b = new Bench(t, { urls: [broken.url, next.url], continuation: 'vllm' });
    const run = b.ask({ body: { ...bodyOf(CHAT), ...more } });
    await run.downstream.done();
    t.match(run.downstream.text, /HR_STREAM_BROKEN/);
    t.equal(next.requests.length, 0);
    t.equal(b.inFlight, 0);
  }
});

t.test('a CRN that closes its kept connection as it is to continue is asked once more on a fresh one', async (t) => {
  const head = chunkedHead('content-type: text/event-stream');
  const end = chunk('data: [DONE]\n\n').toString() + chunk('').toString();
  let asked = 0;
  const first = await rawCrn(t, ({ socket }) => {
    if (asked++ === 0) {
      socket.write('HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n');
      return;
    }
    socket.write(head + chunk(delta('a')).toString());
    setImmediate(() => socket.destroy());
  });
  const second = await rawCrn(t, ({ socket, earlier }) => {
    if (earlier === 0) socket.write(head + chunk(delta('b')).toString() + end);
    else socket.resetAndDestroy();
  });
  const b = new Bench(t, { urls: [first.url, second.url], continuation: 'vllm', burst: 3 });
  await b.ask({ body: bodyOf(CHAT) }).downstream.done();
  await new Promise(setImmediate);
  const run = b.ask({ body: bodyOf(CHAT) });
  await run.downstream.done();
  t.equal(textOf(run), 'ab');
  t.same(run.attempts, [
    [0, 'failed', 'truncated'],
    [1, 'neutral', 'stale'],
    [1, 'ok', null],
  ]);
  t.equal(b.budget.balance, 0, 'each costs retry budget');
  t.equal(b.inFlight, 0);
});

t.test('a client that is full before a CRN has been connected to is not given its events without end', async (t) => {
  const head = chunkedHead('content-type: text/event-stream');
  const breaks = await rawCrn(t, ({ socket }) => {
    socket.write(head + chunk(delta('a')).toString());
    setImmediate(() => socket.destroy());
  });
  const goesOn = await rawCrn(t, ({ socket }) => void socket.write(head + chunk(delta('b')).toString()));
  const urls = [breaks.url, goesOn.url];
  const b = new Bench(t, { urls, continuation: 'vllm', relay: { keepAliveMs: 500 } });
  const run = b.ask({ body: bodyOf(CHAT) });
  const { downstream } = run;
  await run.attempted(1);
  downstream.full = true;
  b.clock.advance(501);
  t.match(downstream.text, /: keep-alive\n\n$/);
  await goesOn.arrived(1);
  await downstream.until(() => downstream.text.includes('"b"'));
  const [socket] = goesOn.sockets;
  socket?.write(chunk(delta('c')));
  for (let turns = 0; turns < 20; turns++) await new Promise(setImmediate);
  t.notMatch(downstream.text, '"c"');
  socket?.write(chunk('data: [DONE]\n\n').toString() + chunk('').toString());
  downstream.read();
  await downstream.done();
  t.equal(textOf(run), 'abc');
});

t.test('a CRN that cannot be connected to costs a continuation no further retry', async (t) => {
  const head = chunkedHead('content-type: text/event-stream');
  const breaks = await rawCrn(t, ({ socket }) => {
    socket.write(head + chunk(delta('a')).toString());
    setImmediate(() => socket.destroy());
  });
  const refuses = await host(t);
  await refuses.setFault([{ fault: { refuse: true } }]);
  const goesOn = await rawCrn(t, ({ socket }) => {
    socket.write(head + chunk(delta('b')).toString() + chunk('data: [DONE]\n\n').toString() + chunk('').toString());
  });
  const urls = [breaks.url, refuses.url, goesOn.url];
  const b = new Bench(t, { urls, continuation: 'vllm', burst: 1 });
  const run = b.ask({ body: bodyOf(CHAT) });
  await run.downstream.done();
  t.match(run.downstream.text, /"a"[^]*"b"/);
  t.same(run.attempts, [
    [0, 'failed', 'truncated'],
    [1, 'failed', 'connect'],
    [2, 'ok', null],
  ]);
  t.equal(b.budget.balance, 0);
});

t.test('when no CRN continues it the client is told that the stream broke', async (t) => {
  const breaks = (text: string) =>
    rawCrn(t, ({ socket }) => {
      socket.write(chunkedHead('content-type: text/event-stream') + chunk(delta(text)).toString());
      setImmediate(() => socket.destroy());
    });
  const refuses = await rawCrn(t, ({ socket }) => void socket.write('HTTP/1.1 400 Bad\r\ncontent-length: 2\r\n\r\nno'));
  const urls = [(await breaks('a')).url, refuses.url, (await breaks('b')).url];
  const b = new Bench(t, { urls, continuation: 'vllm' });
  const run = b.ask({ body: bodyOf(CHAT) });
  await run.downstream.done();
  t.match(run.downstream.text, /"a"[^]*"b"[^]*HR_STREAM_BROKEN/);
  t.same(run.attempts, [
    [0, 'failed', 'truncated'],
    [1, 'neutral', null],
    [2, 'failed', 'truncated'],
  ]);
  t.equal(b.inFlight, 0);
});

t.test('no request and no answer can break the gateway: what is no JSON is only not continued', async (t) => {
  const bodies = [
    `{"model":"m","stream":true,"messages":[{"role":"user","content":"${'a'.repeat(40)}\\qbbb"}]}`,
    '{"model":"m","stream":true,"messages":[null]}',
    '{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}],"response_format":7}',
  ];
  const events = ['[null]', '[7]', '[{"delta":null}]', '[{"delta":7}]', '[{"delta":[]}]', '{}', 'null'];
  for (const body of bodies) {
    for (const choices of events) {
      for (const dies of [false, true]) {
        const odd = `data: {"choices":${choices}}\n\n`;
        const crn = await rawCrn(t, ({ socket }) => {
          const rest = dies ? [] : [chunk('data: [DONE]\n\n'), chunk('')];
          socket.write(
            Buffer.concat([
              Buffer.from(chunkedHead('content-type: text/event-stream')),
              chunk(odd + delta('one') + odd),
              ...rest,
            ]),
          );
          if (dies) setImmediate(() => socket.destroy());
        });
        const b = new Bench(t, { urls: [crn.url, crn.url], continuation: 'vllm' });
        const run = b.ask({ body: Buffer.from(body) });
        await run.downstream.done();
        t.match(run.downstream.text, '"one"', choices);
        t.equal(run.downstream.errorCode !== '', dies);
        t.equal(b.inFlight, 0);
      }
    }
  }
});
