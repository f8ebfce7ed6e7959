// What is noted while a stream passes: when its first piece was handed to the client, the times between pieces, and bytes.

import t from 'tap';
import { Bench } from '../support/upstream-bench.ts';
import { chunk, chunkedHead, delta, rawCrn } from '../support/upstream-crn.ts';

const SSE = 'content-type: text/event-stream';
const A = delta('a');
const DONE = 'data: [DONE]\n\n';

t.test('pieces are noted as whole events leave, by the clock of the gateway', async (t) => {
  let send: (...pieces: (string | Buffer)[]) => void = () => undefined;
  const crn = await rawCrn(t, ({ socket }) => {
    send = (...pieces) => socket.write(pieces.join(''));
    send(chunkedHead(SSE), chunk(A));
  });
  const bench = new Bench(t, { urls: [crn.url] });
  const run = bench.ask();
  const { downstream, gaps } = run;
  await downstream.until(() => downstream.bytes > 0);
  const startMs = bench.clock.now();
  t.same([run.streamMs, downstream.bytesOut, gaps], [startMs, A.length, []]);
  bench.clock.advance(40);
  send(chunk('data: {"b":'));
  send(chunk(`22}\n\n${DONE}`), chunk(''));
  await downstream.done();
  t.same(gaps, [0.04], 'half an event is none');
  t.same([run.streamMs, downstream.bytesOut], [startMs, A.length + 16 + DONE.length]);
});

t.test('a stream that breaks is told apart by its code', async (t) => {
  const crn = await rawCrn(t, ({ socket }) => {
    socket.write(chunkedHead(SSE) + chunk(A).toString());
    socket.end();
  });
  const { downstream } = new Bench(t, { urls: [crn.url] }).ask();
  await downstream.done();
  t.equal(downstream.status, 200);
  t.equal(downstream.errorCode, 'HR_STREAM_BROKEN');
});

t.test('a whole answer has no pieces', async (t) => {
  const body = '{"choices":[{}]}';
  const crn = await rawCrn(t, ({ socket }) => {
    socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
  });
  const run = new Bench(t, { urls: [crn.url] }).ask({ stream: false });
  await run.downstream.done();
  t.equal(run.downstream.text, body);
  t.same([run.streamMs, run.gaps], [0, []]);
});
