import { test } from 'tap';
import { tokenCount } from '../../../src/dialect/dialect.ts';
import { scanMembers } from '../../../src/dialect/json-scan.ts';
import { found, memberTable } from '../../../src/dialect/member-table.ts';
import { signatureOf, stopSequenceOf } from '../../../src/dialect/translation/chat-answer.ts';
import {
  type EscapedText,
  parsedAnswer,
  usualAnswer,
  type WholeAnswer,
  wholeAnswerOf,
} from '../../../src/dialect/translation/whole-answer.ts';
import { MessagesAnswer } from '../../../src/dialect/translation/messages-answer.ts';
import { HeadraceError } from '../../../src/errors.ts';
import { parseEvents } from '../../../src/net/sse.ts';
import { Random } from '../../support/random.ts';
import { type Json, randomOutput, wholeAnswer, wholeOf } from '../../support/scripted-chat.ts';
import { membersOf } from '../../../src/net/json-object.ts';

const bodyOf = (answer: Json): Buffer => Buffer.from(JSON.stringify(answer));
const textOf = ({ bytes, end, start }: EscapedText): unknown => JSON.parse(`"${bytes.toString('utf8', start, end)}"`);
const string = (value: unknown): unknown => (typeof value === 'string' ? value : undefined);

/** What translations make of an answer. */
function meaning({ calls, choice, head, message, reasoning, refusal, text, usage }: WholeAnswer): unknown {
  const { annotations } = message;
  const { content: logprobs } = membersOf(choice['logprobs']);
  const details = [usage['prompt_tokens_details'], usage['completion_tokens_details']].map(membersOf);
  const counts = [usage, ...details].map((members) =>
    [
      'prompt_tokens',
      'completion_tokens',
      'total_tokens',
      'cached_tokens',
      'cache_write_tokens',
      'reasoning_tokens',
    ].map((name) => tokenCount(members[name])),
  );
  return {
    head: [string(head['id']), string(head['model']), string(head['service_tier'])],
    created: Number.isFinite(head['created']) ? head['created'] : undefined,
    choice: [string(choice['finish_reason']), stopSequenceOf(choice), Array.isArray(logprobs) ? logprobs : []],
    message: [signatureOf(message), Array.isArray(annotations) ? annotations : []],
    texts: [reasoning, text, refusal].map(textOf),
    calls,
    counts,
  };
}

const OTHERS = [null, '', 'text', 7, -1.5e3, 1e21, true, false, [], [{}], {}, { a: 'b' }];

/** The same with other values in some places, other members, and others ways to write them. */
function spoiled(random: Random, value: unknown): unknown {
  if (random.chance(0.03)) return random.pick(OTHERS);
  if (Array.isArray(value)) return value.map((each) => spoiled(random, each));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([name, each]) => [name, spoiled(random, each)] as const);
  const more = random.chance(0.2)
    ? [
        [
          random.pick(['annotations', 'usage', 'reasoning', 'audio', 'service_tier', 'logprobs', 'function_call']),
          random.pick(OTHERS),
        ] as const,
      ]
    : [];
  return Object.fromEntries([...members, ...more]);
}

test('answers that are read from the tape mean what they mean when they are parsed', (t) => {
  const random = new Random(20_261_129);
  let usual = 0;
  for (let count = 0; count < 20_000; count++) {
    const answer = wholeOf(randomOutput(random));
    let text = JSON.stringify(random.chance(0.3) ? answer : spoiled(random, answer), null, random.chance(0.2) ? 2 : 0);
    if (random.chance(0.2))
      text = text.replaceAll('/', String.raw`\/`).replaceAll('"content"', String.raw`"c\u006fntent"`);
    if (random.chance(0.1)) text = text.replace('"choices"', '"id":"twice","choices"');
    const body = Buffer.from(text);
    const read = usualAnswer(body);
    if (read === undefined) continue;
    usual++;
    const [own, other] = [read, parsedAnswer(body)].map((each) => JSON.stringify(meaning(each)));
    if (own !== other) t.equal(own, other, text);
  }
  t.ok(usual > 10_000, `${usual} were read from the tape`);
  t.end();
});

test('answers with something unusual are parsed', (t) => {
  const unusual: readonly Json[] = [
    wholeAnswer({ content: [{ type: 'text', text: 'a' }] }),
    wholeAnswer({ content: 'a', annotations: [{ type: 'url_citation' }] }),
    wholeAnswer({ content: 'a', function_call: { name: 'b', arguments: '{}' } }),
    wholeAnswer({ content: 'a' }, { logprobs: { content: [{ token: 'a' }] } }),
    wholeAnswer({ content: 'a' }, {}, { choices: [] }),
    wholeAnswer({ content: 'a'.repeat(300_000) }),
  ];
  for (const answer of unusual) t.equal(usualAnswer(bodyOf(answer)), undefined, JSON.stringify(answer).slice(0, 200));
  t.equal(usualAnswer(Buffer.from(`[${JSON.stringify(wholeAnswer({ content: 'a' }))}]`)), undefined);
  t.equal(usualAnswer(bodyOf(wholeAnswer({ content: 'a' })).subarray(0, -1)), undefined);
  t.equal(textOf(wholeAnswerOf(bodyOf(unusual[0] as Json)).text), 'a');
  t.end();
});

test('arguments of calls end where they are complete, as those of streams do', (t) => {
  const texts = ['{"a":"}\\\\\\"é"}', '{"a":[1]}}', '{"a":{}}\n', '[1] and more', '{"a":', '"text" more', ''];
  const calls = texts.map((text, at) => ({ id: `c${at}`, function: { name: 'f', arguments: text } }));
  const body = bodyOf(wholeAnswer({ tool_calls: calls }));
  const expected = ['{"a":"}\\\\\\"é"}', '{"a":[1]}', '{"a":{}}', '[1]', '{"a":', '"text" more', ''];
  for (const read of [usualAnswer, parsedAnswer]) {
    t.same(
      read(body)?.calls.map((call) => call.arguments),
      expected,
    );
  }
  const streamed = new MessagesAnswer();
  const chunk = { choices: [{ delta: { tool_calls: calls }, finish_reason: 'tool_calls' }] };
  const events = parseEvents(streamed.events(Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`)).toString());
  const deltas = events.map(({ data }) => (JSON.parse(data) as { delta?: { partial_json?: string } }).delta);
  t.same(
    deltas.flatMap((delta) => delta?.partial_json ?? []),
    [...expected.slice(0, -1), '{}'],
  );
  t.end();
});

test('what is no answer is told by either', (t) => {
  for (const choice of [{ finish_reason: 'error' }, { message: null }, { message: 'a' }]) {
    t.throws(() => wholeAnswerOf(bodyOf(wholeAnswer({ content: 'a' }, choice))), HeadraceError);
  }
  t.end();
});

test('the tape of the last scan is taken over, and no other one', (t) => {
  const table = memberTable(['choices', 'usage']);
  const first = bodyOf(wholeAnswer({ content: 'first' }));
  const second = bodyOf(wholeAnswer({ content: 'second' }));
  const scan = (body: Buffer): unknown => scanMembers(body, 0, body.length, table, found(table), 64);
  scan(first);
  const read = wholeAnswerOf(first);
  t.equal(textOf(read.text), 'first');
  t.equal(read.text.bytes, first, 'nothing was copied');
  scan(first);
  scan(second);
  t.equal(textOf(wholeAnswerOf(first).text), 'first');
  t.equal(textOf(wholeAnswerOf(second).text), 'second');
  // A scan that fails leaves nothing that is taken for the last text.
  scan(first);
  scan(Buffer.from(`{"choices":[${'1,'.repeat(200)}]}`));
  t.equal(textOf(wholeAnswerOf(first).text), 'first');
  t.end();
});
