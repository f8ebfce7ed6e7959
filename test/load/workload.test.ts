import { syntheticConversations, syntheticTrace, syntheticWorkload } from '../../src/load/synthetic.ts';
import { workloadOf } from '../../src/load/workload-file.ts';
import { type Script, LoadError } from '../../src/load/workload.ts';
import t from 'tap';

const SYNTHETIC = {
  seed: 1,
  inputTokens: { least: 10, most: 20 },
  outputTokens: { least: 5, most: 5 },
  turns: { least: 1, most: 3 },
  prefixes: 2,
  prefixTokens: 30,
};

function wordsIn(text: string): number {
  return text.split(' ').length;
}

function take(count: number, next: () => Script | undefined): Script[] {
  return Array.from({ length: count }, () => next()!);
}

t.test('synthetic scripts have the lengths and prefixes that were wanted, and depend on the seed alone', (t) => {
  const workload = syntheticWorkload(SYNTHETIC);
  const scripts = take(200, () => workload.next());
  t.equal(new Set(scripts.map(({ system }) => system)).size, 2);
  t.ok(scripts.every(({ system }) => wordsIn(system) === 30));
  const turns = scripts.flatMap((script) => script.turns);
  const lengths = turns.map(({ text }) => wordsIn(text));
  t.strictSame([Math.min(...lengths), Math.max(...lengths)], [10, 20]);
  t.strictSame(new Set(scripts.map((script) => script.turns.length)), new Set([1, 2, 3]));
  t.ok(turns.every(({ outputTokens }) => outputTokens === 5));
  const again = syntheticWorkload(SYNTHETIC);
  t.strictSame(
    take(200, () => again.next()),
    scripts,
  );
  t.notSame(syntheticWorkload({ ...SYNTHETIC, seed: 2 }).next(), scripts[0]);
  t.equal(workload.description, 'synthetic, 10-20 tokens in, at most 5 out, 1-3 turns, 2 shared prefixes of 30');
  t.end();
});

const TALK = {
  conversations: [
    { from: 'system', value: 'be brief' },
    { from: 'human', value: 'one' },
    { from: 'gpt', value: 'x'.repeat(40) },
    { from: 'human', value: 'two' },
  ],
};

for (const [shape, text] of [
  ['one array', JSON.stringify([TALK, { conversations: [{ from: 'gpt', value: 'nobody asked' }] }])],
  ['a line each', `${JSON.stringify(TALK)}\n\n`],
] as const) {
  t.test(`reads ShareGPT conversations from ${shape}, and begins again after the last`, (t) => {
    const workload = workloadOf(text, 'talk.json', 64);
    const script: Script = {
      system: 'be brief',
      turns: [
        { text: 'one', outputTokens: 10 },
        { text: 'two', outputTokens: 64 },
      ],
    };
    t.strictSame(
      take(2, () => workload.next()),
      [script, script],
    );
    t.not(workload.isTimed, true);
    t.equal(workload.description, 'talk.json, 1 conversation');
    t.end();
  });
}

t.test('a question that is followed by another one has no recorded answer', (t) => {
  const conversations = ['human', 'human', 'gpt'].map((from, at) => ({ from, value: 'word'.repeat(4 * (at + 1)) }));
  const turns = workloadOf(JSON.stringify([{ conversations }]), 'talk.json', 64).next()?.turns;
  t.strictSame(
    turns?.map(({ outputTokens }) => outputTokens),
    [64, 12],
  );
  t.end();
});

const line = (timestamp: number, input: number, hashes: number[]): string =>
  JSON.stringify({ timestamp, input_length: input, output_length: 7, hash_ids: hashes });

t.test('reads a Mooncake trace in the order of its times, equal hashes as equal text', (t) => {
  const text = [line(1500, 1100, [1, 2, 4]), line(1000, 1200, [1, 2, 3]), line(2000, 600, [9])].join('\n');
  const workload = workloadOf(text, 'trace.jsonl');
  t.ok(workload.isTimed);
  const [first, second, third] = take(3, () => workload.next());
  t.equal(workload.next(), undefined, 'a trace is run once');
  t.strictSame(
    [first, second, third].map((script) => script!.atMs),
    [0, 500, 1000],
  );
  const prompts = [first, second, third].map((script) => script!.turns[0]!.text);
  t.strictSame(prompts.map(wordsIn), [1200, 1100, 600]);
  const shared = (text: string): string => text.split(' ').slice(0, 1024).join(' ');
  t.equal(shared(prompts[0]!), shared(prompts[1]!));
  t.not(prompts[0]!.split(' ').slice(1024, 1100).join(' '), prompts[1]!.split(' ').slice(1024).join(' '));
  t.equal(first!.turns[0]!.outputTokens, 7);
  t.end();
});

t.test('no answer to a request of a trace is longer than asked for', (t) => {
  const text = '{"timestamp":0,"input_length":5,"output_length":500}\n';
  t.equal(workloadOf(text, 'trace.jsonl').next()?.turns[0]?.outputTokens, 500);
  t.equal(workloadOf(text, 'trace.jsonl', 64).next()?.turns[0]?.outputTokens, 64);
  t.end();
});

t.test('what has no hash in a trace is unique', (t) => {
  const text = [line(1, 50, []), line(1, 50, []), line(2, 50, [])].join('\n');
  const workload = workloadOf(text, 'trace.jsonl');
  const prompts = take(3, () => workload.next()).map((script) => script!.turns[0]!.text);
  t.equal(new Set(prompts).size, 3, 'at equal times and lengths too');
  t.end();
});

t.test('a byte order mark and dates of conversations change nothing', (t) => {
  for (const text of [
    `\ufeff${JSON.stringify([TALK])}`,
    `\ufeff${JSON.stringify(TALK)}\n`,
    `${JSON.stringify({ timestamp: '2024-01-01', ...TALK })}\n`,
  ])
    t.match(workloadOf(text, 'f', 64), { description: 'f, 1 conversation' });
  t.match(workloadOf(`\ufeff${line(1, 5, [])}`, 'f', 64), { description: 'f, 1 request', isTimed: true });
  t.end();
});

t.test('a broken file is refused with its name and line', (t) => {
  const refused: [string, RegExp][] = [
    [`${line(1, 5, [])}\n${line(2, 5, []).slice(0, -3)}`, /^f, line 2: no JSON \(/],
    [`${line(1, 5, [])}\n\n{"timestamp":"soon"}`, /^f, line 3: "timestamp" is not a number|^f, line 3: "hash_ids"/],
    [
      '{"timestamp":2,"input_length":1e12,"output_length":1}',
      /^f, line 1: "input_length" is not a number from 1 to 9999999/,
    ],
    [
      `${line(1, 5, [])}\n{"timestamp":2,"input_length":0,"output_length":1}`,
      /^f, line 2: "input_length" is not a number from 1 to 9999999/,
    ],
    ['{"timestamp":2,"input_length":1,"output_length":1,"hash_ids":["a"]}', /^f, line 1: "hash_ids" is not an array/],
    [`${JSON.stringify(TALK)}\n{"conversation":[]}`, /^f, line 2: there is no array "conversations"/],
    ['[{"conversations":[]},{"conversations":[{"from":"human"}]}]', /^f, entry 2: message 1 has no texts/],
    ['[1', /^f: no JSON/],
    [`${'['.repeat(2000)}${']'.repeat(2000)}`, /^f: no JSON \(JSON is nested deeper/],
    ['[]', /^f has no conversation/],
    ['', /^f has no conversation/],
  ];
  for (const [text, message] of refused) {
    try {
      workloadOf(text, 'f', 64);
      t.fail(`taken: ${text}`);
    } catch (error) {
      t.ok(error instanceof LoadError);
      t.match((error as Error).message, message);
    }
  }
  t.end();
});

t.test('synthetic conversations written in the shape of ShareGPT can be read back', (t) => {
  const workload = workloadOf(syntheticConversations(SYNTHETIC, 25), 'made.json', 1000);
  t.equal(workload.description, 'made.json, 25 conversations');
  const original = syntheticWorkload(SYNTHETIC);
  for (const script of take(25, () => workload.next())) {
    const { system, turns } = original.next()!;
    t.equal(script.system, system);
    t.strictSame(
      script.turns.map(({ text }) => text),
      turns.map(({ text }) => text),
    );
  }
  t.end();
});

t.test('a synthetic trace has shared blocks, turns that grow and the rate of its conversations', (t) => {
  const settings = {
    ...SYNTHETIC,
    turns: { least: 2, most: 2 },
    prefixTokens: 1100,
    inputTokens: { least: 600, most: 600 },
  };
  const text = syntheticTrace(settings, 400, 20);
  t.equal(text, syntheticTrace(settings, 400, 20));
  const requests = text
    .trim()
    .split('\n')
    .map((one) => JSON.parse(one) as Record<string, number> & { hash_ids: number[] });
  t.equal(requests.length, 400);
  const beginnings = requests.map(({ hash_ids: [first, second] }) => `${first},${second}`);
  t.strictSame(new Set(beginnings), new Set(['0,1', '2,3']));
  t.ok(requests.every(({ hash_ids: hashes, input_length: input }) => hashes.length === Math.ceil(input! / 512)));
  t.ok(requests.every(({ timestamp }, at) => at === 0 || timestamp! >= requests[at - 1]!['timestamp']!));
  t.ok(workloadOf(text, 'made.jsonl', 1).isTimed);
  t.end();
});
