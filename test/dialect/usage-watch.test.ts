import t from 'tap';
import { dialectOf, UsageWatch } from '../../src/dialect/index.ts';

const chat = (members: object): string => `data: ${JSON.stringify({ id: 'c', ...members })}\n\n`;
const word = (content: string): string => chat({ choices: [{ delta: { content } }], usage: null });
const USAGE = { prompt_tokens: 9, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 4 } };
const LAST = chat({ choices: [], usage: USAGE });

/** What the client gets of a stream that comes in these pieces. */
function passed(watch: UsageWatch, pieces: readonly string[]): string {
  const tail: Buffer[] = [];
  watch.begin(tail);
  return pieces
    .map((piece) => {
      tail.push(Buffer.from(piece));
      return watch.events(Buffer.from(piece))?.toString() ?? '';
    })
    .join('');
}

t.test('the event that the gateway asked for is taken out, and nothing else', async (t) => {
  const before = word('a') + word('say "usage":{} and "choices":[]');
  const after = 'data: [DONE]\n\n';
  for (const pieces of [
    [before, LAST, after],
    [before + LAST + after],
    [before, LAST + after],
    [before + LAST, after],
  ]) {
    const watch = new UsageWatch(dialectOf('/v1/chat/completions'), true);
    t.equal(passed(watch, pieces), before + after);
    t.same(watch.result(0), { promptTokens: 9, completionTokens: 3, cachedTokens: 4, measured: true });
  }
  const crlf = (text: string): string => text.replaceAll('\n', '\r\n');
  const watch = new UsageWatch(dialectOf('/v1/completions'), true);
  t.equal(passed(watch, [crlf(before + LAST + after)]), crlf(before + after));
});

t.test('without having asked, every byte passes', async (t) => {
  const watch = new UsageWatch(dialectOf('/v1/chat/completions'), false);
  t.equal(passed(watch, [word('a') + LAST]), word('a') + LAST);
  t.match(watch.result(0), { promptTokens: 9, measured: true });
});

t.test('events with empty choices that hold more than usage, or none, stay', async (t) => {
  const filter = chat({ choices: [], prompt_filter_results: [] });
  const both = chat({ choices: [{ delta: { content: 'x' } }], usage: USAGE });
  const watch = new UsageWatch(dialectOf('/v1/chat/completions'), true);
  t.equal(
    passed(watch, [filter, both, 'data: {"choices":[],"usage":{broken\n\n']),
    filter + both + 'data: {"choices":[],"usage":{broken\n\n',
  );
});

t.test('a stream that was cut is charged by its events', async (t) => {
  const watch = new UsageWatch(dialectOf('/v1/chat/completions'), true);
  passed(watch, [word('a'), word('b') + word('c')]);
  t.same(watch.result(11), { promptTokens: 11, completionTokens: 3, cachedTokens: 0, measured: false });
  const role = new UsageWatch(dialectOf('/v1/chat/completions'), true);
  passed(role, [word(''), word('b')]);
  t.equal(role.result(1).completionTokens, 1, 'a chunk with the role alone is no token');
});

t.test('a messages stream that was cut has its prompt counted and its answer estimated', async (t) => {
  const event = (type: string, more: object): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
  const usage = { input_tokens: 5, cache_read_input_tokens: 20, output_tokens: 1 };
  const start = event('message_start', { message: { usage } }) + event('content_block_start', {});
  const delta = event('content_block_delta', { delta: { text: 'a' } });
  const cut = new UsageWatch(dialectOf('/v1/messages'), false);
  passed(cut, [start, delta, delta, delta, delta, delta, delta]);
  t.same(cut.result(99), { promptTokens: 25, completionTokens: 6, cachedTokens: 20, measured: false });
  const whole = new UsageWatch(dialectOf('/v1/messages'), false);
  const end = event('message_delta', { usage: { output_tokens: 6 } }) + event('message_stop', {});
  passed(whole, [start, delta, delta, delta, end]);
  t.same(whole.result(99), { promptTokens: 25, completionTokens: 6, cachedTokens: 20, measured: true });
});

t.test('a JSON answer is read in one piece, in many, and at its end when it is long', async (t) => {
  const answer = Buffer.from(JSON.stringify({ choices: [{ text: 'x'.repeat(200) }], usage: USAGE }));
  const read = (size: number, whole: Buffer): object => {
    const watch = new UsageWatch(undefined, false);
    watch.begin(null);
    for (let at = 0; at < whole.length; at += size) watch.data(whole.subarray(at, at + size));
    return watch.result(1);
  };
  const counted = { promptTokens: 9, completionTokens: 3, cachedTokens: 4, measured: true };
  t.same(read(1e9, answer), counted);
  t.same(read(7, answer), counted);
  const long = Buffer.from(JSON.stringify({ data: 'y'.repeat(3_000_000), usage: USAGE }));
  t.same(read(65_536, long), counted);
  t.match(read(1e9, Buffer.from('{"choices":[]}')), { promptTokens: 1, measured: false });
  t.match(read(1e9, Buffer.from('no json')), { promptTokens: 1, completionTokens: 2, measured: false });
});

t.test('an answer that begins again forgets the one before', async (t) => {
  const watch = new UsageWatch(undefined, false);
  watch.begin(null);
  watch.data(Buffer.from(JSON.stringify({ usage: USAGE })));
  t.equal(watch.delivered, true);
  watch.begin([]);
  t.equal(watch.delivered, false);
  t.match(watch.result(2), { promptTokens: 2, completionTokens: 0, measured: false });
});

t.test('counts that cannot be are not believed', async (t) => {
  const watch = new UsageWatch(dialectOf('/v1/chat/completions'), false);
  const usage = { prompt_tokens: 1e15, completion_tokens: 1e15 };
  watch.begin(null);
  watch.data(Buffer.from(JSON.stringify({ choices: [], usage })));
  t.match(watch.result(7), { promptTokens: 7, measured: false });
  passed(watch, [word('a'), chat({ choices: [], usage })]);
  t.match(watch.result(7), { promptTokens: 7, measured: false });
});

t.test('a stream that brought nothing to the client has delivered nothing', async (t) => {
  for (const [path, pieces] of [
    ['/v1/chat/completions', [': ping\n\n', ': ping\n\n']],
    ['/v1/chat/completions', [LAST]],
    ['/v1/chat/completions', ['data: {"error":{"message":"out of memory"}}\n\n', 'data: [DONE]\n\n']],
    ['/v1/messages', ['event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n']],
  ] as const) {
    const watch = new UsageWatch(dialectOf(path), true);
    passed(watch, pieces);
    t.equal(watch.delivered, false, pieces[0]);
  }
  const watch = new UsageWatch(dialectOf('/v1/chat/completions'), true);
  passed(watch, [': ping\n\n', word('a')]);
  t.equal(watch.delivered, true);
  t.match(watch.result(5), { promptTokens: 5, completionTokens: 1 });
});
