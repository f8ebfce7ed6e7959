// The requests and streams of the dialects benchmark, and the page made of a run.
import t from 'tap';
import { DIALECTS } from '../../src/dialect/dialects.ts';
import { translationOf } from '../../src/dialect/index.ts';
import { benchModule } from './modules.ts';

interface Traffic {
  readonly dialectRequests: (load: object) => Buffer[];
  readonly ANSWERS: Readonly<Record<string, string>>;
  readonly STREAMS: Readonly<Record<string, readonly string[]>>;
}

interface Page {
  readonly measuredPage: (
    name: string,
    file: string,
  ) => { keep: (run: object) => object | null; write: (run: object, page: string) => Record<string, string> };
}

const { ANSWERS, dialectRequests, STREAMS } = await benchModule<Traffic>('lib/dialect-traffic.mjs');
const { measuredPage } = await benchModule<Page>('lib/measured-page.mjs');
const { keep: dialectsOf, write: dialectsFiles } = measuredPage('dialects', 'dialects.md');

const load = { port: 80, model: 'm', stream: true, bodyBytes: 20_000 };
const bodyOf = (request: Buffer): Buffer => request.subarray(request.indexOf('\r\n\r\n') + 4);

t.test('all dialects say the same conversation in the same number of bytes', (t) => {
  const [chat] = dialectRequests({ ...load, dialect: 'chat' }).map(bodyOf);
  const { messages, tools } = JSON.parse(String(chat)) as { messages: object[]; tools: object[] };
  t.equal(chat?.byteLength, 20_000);
  for (const dialect of ['messages', 'responses'] as const) {
    for (const request of dialectRequests({ ...load, dialect })) t.equal(bodyOf(request).byteLength, 20_000);
    const [request = Buffer.alloc(0)] = dialectRequests({ ...load, dialect });
    t.match(request.toString(), new RegExp(`^POST /v1/${dialect} HTTP/1.1\r\n`));
    const translated = translationOf(DIALECTS[dialect])?.request(bodyOf(request)).body.toString() ?? '';
    const said = JSON.parse(translated) as { messages: { content: unknown }[]; tools: object[] };
    t.equal(said.messages.length, messages.length);
    t.match(said.messages.at(-1), messages.at(-1) ?? {});
    t.equal(said.tools.length, tools.length);
  }
  t.throws(() => dialectRequests({ ...load, dialect: 'chat', bodyBytes: 1000 }), /takes \d+ bytes/);
  t.end();
});

t.test('servers answer with whole events that name their type', (t) => {
  for (const [dialect, events] of Object.entries(STREAMS)) {
    t.type(JSON.parse(ANSWERS[dialect] ?? ''), 'object');
    for (const event of events) {
      const [, name, data] = /^event: (\S+)\ndata: (.+)\n\n$/.exec(event) ?? [];
      t.equal((JSON.parse(data ?? '') as { type: string }).type, name);
    }
  }
  t.end();
});

const CHAT_ANSWER = Buffer.from(
  '{"choices":[{"message":{"role":"assistant","content":"text"},"finish_reason":"stop"}]}',
);
const OF_THE_ANSWER = new Set(['id', 'created_at', 'model', 'output', 'usage']);

t.test('a server of the responses dialect repeats of the request what the gateway repeats when it translates', (t) => {
  const [request = Buffer.alloc(0)] = dialectRequests({ ...load, stream: false, dialect: 'responses' });
  const translated = translationOf(DIALECTS.responses)?.request(bodyOf(request)).answer().whole(CHAT_ANSWER);
  const ours = JSON.parse(translated?.toString() ?? '') as Record<string, unknown>;
  const theirs = JSON.parse(ANSWERS['responses'] ?? '') as Record<string, unknown>;
  const { instructions, tools } = JSON.parse(bodyOf(request).toString()) as Record<string, unknown>;
  t.match(theirs, { instructions, tools });
  for (const [name, value] of Object.entries(theirs)) {
    if (!OF_THE_ANSWER.has(name)) t.same(ours[name], value, name);
  }
  t.end();
});

const WRITTEN = `# Dialects

By hand.

<!-- measured: written by another command -->
other
<!-- /measured -->

<!-- measured: written by npm run bench -- dialects --docs -->
old
<!-- /measured -->

More.
`;

t.test('a run with figures renews the measured part of the page only', (t) => {
  const result = {
    title: 'Streams',
    columns: ['requests', 'x passed'],
    rows: [['messages, translated', '1.20']],
    remarks: ['Goal: at most 1.3.'],
    plots: [],
    figures: { scenario: 'dialects', peers: [] },
    data: { runs: [] },
  };
  const run = {
    ...{ startedAt: '2026-11-22T00:00:00.000Z', seconds: 180, command: 'npm run bench -- dialects', notes: [] },
    surroundings: { cpu: 'A CPU', cores: 2, memoryGb: 8, kernel: '6.1', node: 'v22', commit: 'abc1234' },
    parts: [{ name: 'dialects', sentence: '', settings: {}, results: [result] }],
  };
  const kept = dialectsOf(run) ?? {};
  t.notMatch(JSON.stringify(kept), '"data"');
  t.equal(dialectsOf({ ...run, parts: [] }), null);
  const page = dialectsFiles(kept, WRITTEN)['dialects.md'] ?? '';
  for (const text of [
    'By hand.',
    '\nother\n',
    'A CPU, 2 cores',
    '| messages, translated | 1.20',
    'Goal: at most 1.3.',
    'More.',
  ]) {
    t.ok(page.includes(text), text);
  }
  t.notOk(page.includes('\nold\n'));
  t.equal(dialectsFiles(kept, page)['dialects.md'], page, 'written again, the page is the same');
  t.throws(() => dialectsFiles(kept, 'no comments'), /docs\/dialects.md has no/);
  t.end();
});
