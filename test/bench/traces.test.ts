// Workloads for locality: traces that are read, generators, and the bodies made of them.
import t from 'tap';
import { benchModule } from './modules.ts';

interface TraceRequest {
  readonly atMs: number;
  readonly conversation: string;
  readonly blocks: readonly number[];
  readonly inputTokens: number;
  readonly outputTokens: number;
}

type BodyOf = (request: TraceRequest, fields?: object) => Buffer;

interface Traces {
  readonly BLOCK_TOKENS: number;
  readonly LIMITS: { readonly lineChars: number; readonly requests: number; readonly blocks: number };
  readonly WORKLOADS: Readonly<Record<string, { readonly requests: number }>>;
  readonly readTrace: (text: string, name?: string, mostRequests?: number) => TraceRequest[];
  readonly generate: (name: string, settings?: { seed?: number; requests?: number }) => TraceRequest[];
  readonly workingSet: (requests: readonly TraceRequest[]) => number;
  readonly cacheBlocks: (requests: readonly TraceRequest[], share: number, hosts: number) => number;
  readonly spread: (requests: readonly TraceRequest[], durationMs: number) => TraceRequest[];
  readonly blockText: (id: number, bytes: number) => string;
  readonly chatBodies: (requests: readonly TraceRequest[], settings: object) => BodyOf;
}

interface Message {
  readonly role: string;
  readonly content: string;
}

const traces = await benchModule<Traces>('locality/traces.mjs');
const { BLOCK_TOKENS, generate, readTrace, chatBodies, workingSet } = traces;

const line = (timestamp: number, hashIds: readonly number[], inputLength: number, more: object = {}): string =>
  JSON.stringify({ timestamp, input_length: inputLength, output_length: 8, hash_ids: hashIds, ...more });

t.test('a trace is sorted by time from 0, and its ids are counted from 0', async (t) => {
  const text = `${line(700, [90, 17], 600)}\n\n${line(500, [90], 512)}\r\n`;
  t.match(readTrace(text), [
    { atMs: 0, blocks: [0], inputTokens: 512, outputTokens: 8 },
    { atMs: 200, blocks: [0, 1], inputTokens: 600 },
  ]);
  t.equal(readTrace(text, 'trace', 1).length, 1);
});

t.test('a broken line is named with what is wrong', async (t) => {
  const good = line(0, [1], 10);
  const cases: [string, RegExp][] = [
    ['{"timestamp":', /^my trace, line 2: no JSON/],
    ['[1]', /line 2: "input_length" is not a number of 1 or more/],
    ['null', /line 2: "input_length" is not a number/],
    [line(-1, [1], 10), /line 2: "timestamp" is not a number of 0 or more/],
    [line(0, [1], 0), /"input_length" is not a number of 1 or more/],
    [line(0, [1.5], 10), /"hash_ids" is not an array of whole numbers/],
    [line(0, [], 10), /"hash_ids" is empty/],
    [line(0, [1, 2, 3], 1024), /3 blocks are too many for 1024 tokens/],
    [
      line(
        0,
        Array.from({ length: traces.LIMITS.blocks + 1 }, (_, at) => at),
        1e9,
      ),
      /more than \d+ blocks/,
    ],
    [' '.repeat(1) + '1'.repeat(traces.LIMITS.lineChars + 1), /longer than \d+ characters/],
  ];
  for (const [text, expected] of cases) t.throws(() => readTrace(`${good}\n${text}\n`, 'my trace'), expected);
  t.throws(() => readTrace('\n', 'my trace'), /^Error: my trace has no request$|my trace has no request/);
});

t.test('a request continues the conversation whose whole blocks it repeats', async (t) => {
  const rows = [
    line(0, [1, 2, 3], 1300),
    line(1, [1, 2, 4, 5], 2000),
    line(2, [1, 9], 1024),
    line(3, [1, 2, 4, 6, 7], 2500),
    line(4, [8], 20, { conversation: 'own' }),
    line(5, [8], 20, { session_id: 7 }),
  ];
  const names = readTrace(rows.join('\n')).map(({ conversation }) => conversation);
  t.equal(names[1], names[0]);
  t.not(names[2], names[0]);
  t.equal(names[3], names[0]);
  t.strictSame(names.slice(4), ['own', '7']);
});

t.test('generators give the same requests for the same seed, and others for another', async (t) => {
  for (const name of Object.keys(traces.WORKLOADS)) {
    const text = (seed: number): string => JSON.stringify(generate(name, { seed, requests: 200 }));
    t.ok(text(3) === text(3) && text(3) !== text(4), name);
  }
  t.throws(() => generate('other'), /there is no workload "other"; there are chat/);
});

t.test('the requests of every generator are well formed', async (t) => {
  for (const name of Object.keys(traces.WORKLOADS)) {
    const requests = generate(name, { requests: 300 });
    t.equal(requests.length, 300, name);
    t.equal(requests[0]?.atMs, 0);
    const before = new Map<number, number>();
    let lastMs = 0;
    for (const { atMs, blocks, inputTokens, outputTokens } of requests) {
      if (atMs < lastMs) t.fail(`${name}: not sorted`);
      lastMs = atMs;
      if (!(inputTokens > (blocks.length - 1) * BLOCK_TOKENS && inputTokens <= blocks.length * BLOCK_TOKENS)) {
        t.fail(`${name}: ${inputTokens} tokens in ${blocks.length} blocks`);
      }
      if (outputTokens < 1) t.fail(`${name}: no answer`);
      // An id stands for everything before it too.
      blocks.forEach((id, at) => {
        const previous = blocks[at - 1] ?? -1;
        if ((before.get(id) ?? previous) !== previous) t.fail(`${name}: block ${id} follows two others`);
        before.set(id, previous);
      });
    }
  }
});

/** Share of requests that begin with this block. */
const shareOf = (requests: readonly TraceRequest[], id: number): number =>
  requests.filter(({ blocks }) => blocks[0] === id).length / requests.length;

t.test('the workloads have the shapes that they are named after', async (t) => {
  const hot = generate('hot');
  const first = hot.find(({ blocks }) => blocks.length >= 8 && blocks[0] === 0);
  t.strictSame(first?.blocks.slice(0, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
  t.ok(Math.abs(shareOf(hot, 0) - 0.25) < 0.02, `${shareOf(hot, 0)} share the prefix`);

  const tenants = generate('tenants');
  t.equal(new Set(tenants.map(({ blocks }) => blocks[0])).size, 200);
  t.ok(tenants.every(({ blocks }) => blocks.length === 7));

  const crowd = generate('crowd');
  t.equal(new Set(crowd.map(({ conversation }) => conversation)).size, 10_000);
  t.equal(new Set(crowd.map(({ blocks }) => blocks.slice(0, 3).join())).size, 1);

  const agents = generate('agents');
  t.equal(new Set(agents.map(({ blocks }) => blocks[0])).size, 4, 'four sets of tools');
  const mains = agents.filter(({ conversation }) => !conversation.includes('sub'));
  t.ok(mains.length > 0 && mains.length < agents.length, 'sessions and sub-agents');

  const chat = generate('chat');
  const longest = Map.groupBy(chat, ({ conversation }) => conversation);
  t.ok(
    [...longest.values()].every((turns) => turns.every(({ blocks }, at) => at === 0 || grows(turns[at - 1]!, blocks))),
  );
  t.ok(workingSet(generate('documents')) > 10_000);
});

/** Whether a prompt repeats the whole blocks of the one before. */
function grows({ blocks }: TraceRequest, later: readonly number[]): boolean {
  const whole = blocks.slice(0, -1);
  return later.length > blocks.length && whole.every((id, at) => id === later[at]);
}

t.test('caches hold a share of the working set, and never less than the longest prompt', async (t) => {
  const requests = readTrace(Array.from({ length: 100 }, (_, at) => line(at, [at, 1000 + at], 1024)).join('\n'));
  t.equal(workingSet(requests), 200);
  t.equal(traces.cacheBlocks(requests, 0.5, 4), 25);
  t.equal(traces.cacheBlocks(requests, 0.01, 4), 4);
  t.strictSame([traces.spread(requests, 990).at(-1)?.atMs, traces.spread(requests, 990)[50]?.atMs], [990, 500]);
});

const bodyOf = chatBodies(
  readTrace(
    [line(0, [1, 2, 3], 1300), line(1, [1, 2, 4, 5, 6], 2100), line(2, [1, 2, 4, 5, 7, 8, 9], 3584)].join('\n'),
  ),
  { model: 'm', blockBytes: 256 },
);
const request = (blocks: readonly number[], inputTokens: number): TraceRequest => ({
  ...{ atMs: 0, conversation: 'c', outputTokens: 1 },
  ...{ blocks, inputTokens },
});
const messages = (body: Buffer): Message[] => (JSON.parse(body.toString()) as { messages: Message[] }).messages;

t.test('a body has the messages of its prompt, as a client sends them', async (t) => {
  const body = bodyOf(request([0, 1, 2], 1300), { max_tokens: 4 });
  t.match(JSON.parse(body.toString()), { model: 'm', stream: true, max_tokens: 4 });
  const [system, user] = messages(body);
  t.strictSame([system?.role, user?.role], ['system', 'user']);
  t.equal(system?.content, traces.blockText(0, 256) + traces.blockText(1, 256));
  t.equal(user?.content, traces.blockText(2, 256).slice(0, 138));
  const roles = messages(bodyOf(request([0, 1, 3, 4, 6, 7, 8], 3584))).map(({ role }) => role);
  t.strictSame(roles, ['system', 'user', 'assistant', 'user']);
});

t.test('requests that share blocks share the beginning of their bodies, and no more', async (t) => {
  for (const name of ['agents', 'documents']) {
    const requests = generate(name, { requests: 120 });
    const make = chatBodies(requests, { model: 'm', blockBytes: 128 });
    for (let at = 1; at < requests.length; at++) {
      const [a, b] = [requests[at - 1]!, requests[at]!];
      let shared = 0;
      while (shared < a.blocks.length && a.blocks[shared] === b.blocks[shared]) shared++;
      const [one, two] = [a, b].map((each) =>
        messages(make(each))
          .map(({ role, content }) => `<${role}>${content}`)
          .join(''),
      );
      let equal = 0;
      while (one![equal] === two![equal] && equal < one!.length) equal++;
      const text = one!.slice(0, equal).replaceAll(/<\w*>?/g, '');
      t.ok(
        text.length >= shared * 128 && text.length < (shared + 1) * 128,
        `${name} ${at}: ${text.length}, ${shared} blocks`,
      );
    }
  }
});

t.test('the text of a block has its length, is ASCII, and is its own from the beginning', async (t) => {
  const texts = Array.from({ length: 500 }, (_, id) => traces.blockText(id, 64));
  t.ok(texts.every((text) => text.length === 64 && /^[\x20-\x7e]*\n$/.test(text)));
  t.equal(new Set(texts.map((text) => text.slice(0, 4))).size, 500);
});
